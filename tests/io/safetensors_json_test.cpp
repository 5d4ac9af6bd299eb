// SPDX-License-Identifier: BSD-3-Clause
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "cubist/io/safetensors_json.hpp"

#include "catch.hpp"

namespace io_safetensors_json_test
{

using namespace cubist;
using cubist::detail::SafetensorsJson;

namespace
{

/// The message for a text that is refused; empty for one that is accepted.
std::string error(const std::string& json)
{
  try
  {
    (void)SafetensorsJson(json, "x.safetensors");
  }
  catch (const DataError& e)
  {
    return e.what();
  }
  return "";
}

/// The message for a tensor "a" with these fields.
std::string error_of_tensor(const std::string& fields)
{
  return error(R"({"a":{)" + fields + "}}");
}

const std::string dtype = R"("dtype":"F32")";
const std::string shape = R"("shape":[2,3])";
const std::string offsets = R"("data_offsets":[0,24])";

}  // namespace

TEST_CASE("the JSON of a header is parsed, in the order of its text")
{
  const std::string text = R"( "b" : {"shape":[], "dtype":"BF16", "data_offsets":[24,26]},
    "__metadata__":{"format":"pt", "":"\u00e9\n"},
    "a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]} })";
  const SafetensorsJson json{"{" + text + "   ", "x"};
  REQUIRE(json.tensors.size() == 2);
  CHECK(json.tensors[0] == TensorInfo{"b", ElementType::bf16, {}, 24, 26});
  CHECK(json.tensors[1] == TensorInfo{"a", ElementType::f32, {2, 3}, 0, 24});
  CHECK(json.metadata == std::map<std::string, std::string>{{"format", "pt"}, {"", "\xC3\xA9\n"}});
  CHECK(error("{}").empty());
  CHECK(error(R"({"__metadata__":{}})").empty());
}

TEST_CASE("numbers must be integers of 64 bits")
{
  const auto most = std::numeric_limits<std::uint64_t>::max();
  const std::string number = std::to_string(most);
  const SafetensorsJson json{R"({"a":{)" + dtype + R"(,"shape":[)" + number +
                                 R"(],"data_offsets":[0,)" + number + "]}}",
                             "x"};
  CHECK(json.tensors[0].shape[0] == most);
  CHECK(json.tensors[0].end == most);
  using Catch::Matchers::ContainsSubstring;
  for (const char* bad : {"-1", "-0", "1.0", "1e2", "18446744073709551616", "\"1\"", "null", "true",
                          "[1]", "{}", "1e999", "01", "+1", "0x1", "NaN"})
  {
    CAPTURE(bad);
    CHECK(!error_of_tensor(dtype + ',' + offsets + R"(,"shape":[2,)" + bad + "]").empty());
    CHECK(!error_of_tensor(dtype + ',' + shape + R"(,"data_offsets":[0,)" + bad + "]").empty());
  }
  CHECK_THAT(error_of_tensor(R"("shape":[-1])"), ContainsSubstring("negative number at \"a\""));
  CHECK_THAT(error_of_tensor(R"("shape":[1.5])"),
             ContainsSubstring("\"1.5\" at \"a\" where a list of"));
}

TEST_CASE("duplicate keys are refused, wherever they are")
{
  using Catch::Matchers::ContainsSubstring;
  CHECK(error_of_tensor(dtype + ',' + shape + ',' + offsets).empty());
  for (const auto& field : {dtype, shape, offsets})
    CHECK_THAT(error_of_tensor(dtype + ',' + shape + ',' + offsets + ',' + field),
               ContainsSubstring("a second"));
  CHECK_THAT(error(R"({"__metadata__":{"n":"1","n":"1"}})"),
             ContainsSubstring("a second note \"n\""));
  CHECK_THAT(error(R"({"__metadata__":{},"__metadata__":{}})"),
             ContainsSubstring("a second \"__metadata__\""));
}

TEST_CASE("a tensor must have all fields of the format, and no others")
{
  using Catch::Matchers::ContainsSubstring;
  CHECK_THAT(error_of_tensor(dtype + ',' + shape), ContainsSubstring("too little at \"a\""));
  CHECK_THAT(error_of_tensor(dtype + ',' + offsets), ContainsSubstring("too little"));
  CHECK_THAT(error_of_tensor(shape + ',' + offsets), ContainsSubstring("too little"));
  CHECK_THAT(error_of_tensor(""), ContainsSubstring("too little"));
  CHECK_THAT(error_of_tensor(R"("strides":[1])"), ContainsSubstring("\"strides\" at \"a\""));
  CHECK_THAT(error_of_tensor(R"("dtype":"F4")"),
             ContainsSubstring("the tensor \"a\" of the dtype \"F4\", whose elements have a size"));
  CHECK_THAT(error_of_tensor(R"("dtype":"f32")"), ContainsSubstring("dtype \"f32\""));
  CHECK_THAT(error_of_tensor(R"("dtype":[])"),
             ContainsSubstring("a list at \"a\" where a type's name"));
  CHECK_THAT(error_of_tensor(R"("shape":3)"), ContainsSubstring("the number 3"));
  CHECK_THAT(error_of_tensor(R"("data_offsets":[0])"), ContainsSubstring("fewer than two"));
  CHECK_THAT(error_of_tensor(R"("data_offsets":[])"), ContainsSubstring("fewer than two"));
  CHECK_THAT(error_of_tensor(R"("data_offsets":[0,1,2])"), ContainsSubstring("the number 2"));
  CHECK_THAT(error(R"({"a":[]})"), ContainsSubstring("a list"));
  CHECK_THAT(error(R"({"a":null})"), ContainsSubstring("null"));
  for (const char* value : {"1", "null", "[]", "{}", "true", "1.5"})
    CHECK_THAT(error(std::string{R"({"__metadata__":{"n":)"} + value + "}}"),
               ContainsSubstring("where a text belongs"));
  CHECK_THAT(error(R"({"__metadata__":null})"), ContainsSubstring("an object of texts"));
}

TEST_CASE("tensors of every type of a byte or more have a place")
{
  for (const std::string type :
       {"F8_E4M3", "F8_E5M2", "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ", "I8"})
  {
    const SafetensorsJson json{
        R"({"a":{"dtype":")" + type + R"(","shape":[3],"data_offsets":[0,3]}})", "x"};
    CHECK(to_string(json.tensors.at(0).type) == type);
    CHECK(bytes_of(json.tensors.at(0).type) == 1);
    CHECK(!readable_as<float>(json.tensors.at(0).type));
  }
}

TEST_CASE("text that is no JSON is refused")
{
  using Catch::Matchers::ContainsSubstring;
  const std::string whole = R"({"a":{)" + dtype + ',' + shape + ',' + offsets + "}}";
  CHECK(error(whole).empty());
  for (std::size_t length = 0; length < whole.size(); ++length)
    CHECK(!error(whole.substr(0, length)).empty());
  CHECK_THAT(error(" {}"), ContainsSubstring("does not begin with {"));
  CHECK_THAT(error("\xEF\xBB\xBF{}"), ContainsSubstring("does not begin with {"));
  CHECK_THAT(error("[]"), ContainsSubstring("does not begin with {"));
  CHECK_THAT(error("{}{}"), ContainsSubstring("at byte 3 is no JSON"));
  CHECK_THAT(error("{} x"), ContainsSubstring("no JSON"));
  CHECK_THAT(error("{},"), ContainsSubstring("no JSON"));
  CHECK_THAT(error("{/**/}"), ContainsSubstring("no JSON"));
  CHECK_THAT(error(std::string("{}\0{", 4)), ContainsSubstring("zero byte"));
  CHECK_THAT(error("{\"\xFF\":{}}"), ContainsSubstring("no JSON"));
  CHECK_THAT(error("{\"\\ud800\":{}}"), ContainsSubstring("no JSON"));
}

TEST_CASE("a malicious header takes no deep stack, and has a short message")
{
  using Catch::Matchers::ContainsSubstring;
  const std::string long_name(1'000'000, 'n');
  const std::string deep(1'000'000, '[');
  CHECK_THAT(error(R"({"a":{"shape":)" + deep), ContainsSubstring("a list"));
  CHECK(error(R"({"a":)" + deep).size() < 300);
  CHECK(error("{" + deep).size() < 300);
  std::string objects;
  for (int i = 0; i < 100'000; ++i) objects += R"({"a":)";
  CHECK_THAT(error(objects), ContainsSubstring("an object"));
  CHECK(error(R"({")" + long_name + R"(":1})").size() < 300);
  CHECK(error(R"({")" + long_name).size() < 300);
  CHECK(error_of_tensor(R"(")" + long_name + R"(":1)").size() < 300);
  CHECK(error_of_tensor(R"("dtype":")" + long_name + R"(")").size() < 300);

  std::string sizes = "1";
  for (int i = 1; i < 64; ++i) sizes += ",1";
  CHECK(error_of_tensor(dtype + ',' + offsets + R"(,"shape":[)" + sizes + "]").empty());
  CHECK_THAT(error_of_tensor(dtype + ',' + offsets + R"(,"shape":[)" + sizes + ",1]"),
             ContainsSubstring("more than 64 sizes"));
}

}  // namespace io_safetensors_json_test
