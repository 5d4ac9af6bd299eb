// SPDX-License-Identifier: BSD-3-Clause
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "cubist/nn/transformer/config.hpp"
#include "cubist/nn/transformer/end_ids.hpp"

#include "catch.hpp"
#include "ranks.hpp"

namespace cubist::test::end_ids_test
{

namespace
{

std::vector<int> ids(const std::string& value)
{
  return detail::read_end_ids(nlohmann::json::parse("{\"eos_token_id\": " + value + "}"), "file");
}

}  // namespace

TEST_CASE("the tokens that end a text are a number, a list or none")
{
  CHECK(ids("2") == std::vector{2});
  CHECK(ids("[128001, 128008]") == std::vector{128001, 128008});
  CHECK(ids("null").empty());
  CHECK(ids("[]").empty());
  CHECK(detail::read_end_ids(nlohmann::json::object(), "file").empty());
  for (const char* other : {"-1", "2.5", "\"</s>\"", "[1, null]", "[[1]]", "true", "4294967296"})
    CHECK(mentions(message_of<DataError>([&] { (void)ids(other); }), "file has", "eos_token_id",
                   "unknown which tokens end a text", "config.json of the model"));
}

TEST_CASE("a configuration has the tokens that end a text, and writes them")
{
  const std::string sizes = R"({"model_type": "gpt2", "vocab_size": 8, "n_positions": 4,
    "n_embd": 4, "n_layer": 1, "n_head": 1)";
  auto config = parse_config(sizes + R"(, "eos_token_id": 5})", "file");
  CHECK(config.end_ids == std::vector{5});
  const auto written = [&] { return nlohmann::json::parse(config_text(config))["eos_token_id"]; };
  CHECK(written() == 5);
  config.end_ids = {3, 4};
  CHECK(written() == std::vector{3, 4});
  config.end_ids = {};
  CHECK(written().is_null());
  config = parse_config(sizes + "}", "file");
  CHECK(config.end_ids.empty());
  CHECK(!nlohmann::json::parse(config_text(config)).contains("eos_token_id"));
  config.source.text.clear();
  config.end_ids = {7};
  CHECK(parse_config(config_text(config), "file") == config);
}

}  // namespace cubist::test::end_ids_test
