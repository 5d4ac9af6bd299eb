// SPDX-License-Identifier: BSD-3-Clause
#include <cstdio>
#include <fstream>

#include "cubist/core/json.hpp"

#include "catch.hpp"
#include "message.hpp"

namespace cubist::test::core_json_test
{

constexpr JsonUse use{"so nothing is known", "name a file", "take a fresh copy of it"};

static nlohmann::json parse(const std::string& text) { return parse_json(text, "file", use); }

static std::string error(const std::string& text)
{
  return message_of<DataError>([&] { (void)parse(text); });
}

template <class V>
bool holds(const std::string& text)
{
  return json_holds<V>(parse(text));
}

/// `text` with `depth` lists or objects around it.
static std::string nested(std::size_t depth, const std::string& begin, const std::string& end,
                          const std::string& text = "")
{
  std::string all;
  for (std::size_t i = 0; i < depth; ++i) all += begin;
  all += text;
  for (std::size_t i = 0; i < depth; ++i) all += end;
  return all;
}

TEST_CASE("JSON is parsed up to the depth limit, and refused beyond it")
{
  CHECK(parse(R"({"a": [1, {"b": null}], "c": {"b": true}})").at("c").at("b") == true);
  CHECK(parse(nested(json_depth_limit, "[", "]")).is_array());
  CHECK(parse(nested(json_depth_limit, "{\"a\":", "}", "1")).is_object());
  using Catch::Matchers::ContainsSubstring;
  for (const auto depth : {json_depth_limit + 1, std::size_t{500'000}})
  {
    CHECK_THAT(error(nested(depth, "[", "]")), ContainsSubstring("nested more than 64 deep"));
    CHECK_THAT(error(nested(depth, "{\"a\":", "}", "1")), ContainsSubstring("nested more than"));
    // The text is truncated, so that no bracket is closed.
    CHECK_THAT(error(nested(depth, "[", "")), ContainsSubstring("nested more than 64 deep"));
  }
}

TEST_CASE("text that is not JSON is refused with the place, the consequence and a remedy")
{
  CHECK(error("{\"a\" 1}") ==
        "got file, which is not JSON at byte 6, so nothing is known; take a fresh copy of it");
  CHECK(error("") ==
        "got file, which is not JSON at byte 1, so nothing is known; take a fresh copy of it");
  using Catch::Matchers::ContainsSubstring;
  CHECK_THAT(error(std::string{"{}\0, but more", 13}), ContainsSubstring("not JSON at byte 3"));
  CHECK_THAT(error("{} {}"), ContainsSubstring("not JSON at byte 4"));
  CHECK_THAT(error("[1e999]"), ContainsSubstring("a number that no double can hold"));
  CHECK_THAT(error("[NaN]"), ContainsSubstring("not JSON at byte"));
  CHECK_THAT(error(R"({"a": 1, "b": {"a": 2}, "a": 3})"),
             ContainsSubstring(R"(two values for "a")"));
  CHECK(error(R"([{"a": 1}, {"a": 2}, {"b": {"a": 3}, "a": 4}])").empty());
}

TEST_CASE("files that cannot be read are reported")
{
  using Catch::Matchers::Equals;
  const std::string path = "cubist_core_json.json";
  std::ofstream{path} << R"({"a": 1})";
  CHECK(read_json(path, use).at("a") == 1);
  std::remove(path.c_str());
  const std::string advice = ", so nothing is known; name a file";
  CHECK_THROWS_WITH(read_json(path, use), Equals("cannot read " + path + advice));
  CHECK_THROWS_WITH(read_json(".", use), Equals("cannot read ." + advice));
}

TEST_CASE("a value holds what can be read from it without loss")
{
  CHECK(holds<int>("2147483647"));
  CHECK(holds<int>("-2147483648"));
  CHECK(holds<int>("-2147483648.0"));
  CHECK(holds<int>("3.0"));
  CHECK(!holds<int>("2147483648"));
  CHECK(!holds<int>("2147483648.0"));
  CHECK(!holds<int>("1.5"));
  CHECK(!holds<int>("true"));
  CHECK(!holds<int>("\"3\""));
  CHECK(!holds<int>("null"));
  CHECK(holds<std::size_t>("18446744073709551615"));
  CHECK(holds<std::size_t>("1e12"));
  CHECK(!holds<std::size_t>("18446744073709551616"));
  CHECK(!holds<std::size_t>("-1"));
  CHECK(!holds<std::size_t>("-1.0"));
  CHECK(holds<double>("7"));
  CHECK(!holds<double>("\"7\""));
  CHECK(holds<bool>("false"));
  CHECK(!holds<bool>("0"));
  CHECK(holds<std::string>("\"a\""));
  CHECK(!holds<std::string>("1"));
}

TEST_CASE("an excerpt of a value is short and printable")
{
  CHECK(excerpt(parse(R"({"b": "é", "a": [1.5]})")) == R"({"a":[1.5],"b":"\u00e9"})");
  CHECK(excerpt(std::string(100, 'x')) == '"' + std::string(39, 'x') + "...");
  CHECK(excerpt("\xff").find('\xff') == std::string::npos);
}

}  // namespace cubist::test::core_json_test
