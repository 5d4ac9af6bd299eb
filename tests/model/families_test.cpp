// SPDX-License-Identifier: BSD-3-Clause
#include <fstream>
#include <set>

#include <nlohmann/json.hpp>

#include "cubist/model/families.hpp"
#include "cubist/nn/transformer/config.hpp"
#include "cubist/plan/model.hpp"

#include "ranks.hpp"

namespace cubist::test::families_test
{

/// The config.json files of published models, each with its number of parameters or, if cubist
/// refuses it, with what the error names.
static nlohmann::json published()
{
  std::ifstream file{CUBIST_TRANSFORMER_DATA "/published.json"};
  return nlohmann::json::parse(file);
}

TEST_CASE("published configurations are read, or refused for what cubist lacks")
{
  for (const auto& model : published())
  {
    const std::string name = model["name"];
    CAPTURE(name);
    const std::string text = model["config"].dump();
    if (model.contains("refusal"))
    {
      CHECK(mentions(message_of<ArgumentError>([&] { (void)parse_config(text, "config.json"); }),
                     "config.json has ", model["refusal"].get<std::string>()));
      continue;
    }
    const auto config = parse_config(text, "config.json");
    CHECK(config.parameters() == model["parameters"]);
    // A save keeps every key and every value.
    CHECK(nlohmann::json::parse(config_text(config)) == nlohmann::json::parse(text));
    // Without the file's text, the configuration describes the same layers.
    auto without = config;
    without.source = {};
    CHECK(parse_config(config_text(without), "again") == config);
  }
}

TEST_CASE("what published configurations say of rotation, heads and windows is read")
{
  const auto read = [models = published()](std::string_view name) {
    const auto found = std::find_if(models.begin(), models.end(),
                                    [&](const auto& m) { return m["name"] == name; });
    return parse_config((*found)["config"].dump(), "config.json");
  };
  using Type = RotaryScaling::Type;
  CHECK(read("Llama-3.2-1B").rotary_scaling == RotaryScaling{Type::llama3, 32, 1, 4, 8192});
  CHECK(read("Llama-2-7b-hf").rotary_base == 10000);
  CHECK(read("Mistral-7B-v0.1").window == 4096);
  CHECK(read("Mistral-7B-v0.3").window == 0);
  CHECK(read("Qwen2-7B").window == 0);
  CHECK(read("Qwen2-7B").bias.query_key_value);
  CHECK(read("Qwen3-0.6B").head_norms);
  CHECK(read("Qwen3-0.6B").head_size == 128);
}

TEST_CASE("the rows of the table of families name types, classes and models once")
{
  std::set<std::string> names;
  std::size_t count = 0;
  for (const auto& family : cubist::detail::model_families)
  {
    CAPTURE(family.type);
    count += 2 + family.published.size();
    names.insert({family.type, family.architecture});
    for (const auto& model : family.published) names.insert(std::string{"model "} + model.name);
    CHECK(cubist::detail::find_family(family.type) == &family);
    CHECK(cubist::detail::reason_against(family.type) == "which cubist does not know");
  }
  for (const auto& other : cubist::detail::other_families)
  {
    names.insert(other.type);
    ++count;
    CHECK(cubist::detail::find_family(other.type) == nullptr);
    CHECK(cubist::detail::reason_against(other.type) == other.reason);
  }
  CHECK(names.size() == count);

  std::string list = cubist::detail::family_names();
  CHECK(mentions(list, "gpt2, llama, ", " or "));
  for (const auto& family : cubist::detail::model_families) CHECK(mentions(list, family.type));
}

}  // namespace cubist::test::families_test
