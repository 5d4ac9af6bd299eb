// SPDX-License-Identifier: BSD-3-Clause
#include <nlohmann/json.hpp>

#include "cubist/nn/transformer/end_ids.hpp"
#include "cubist/nn/transformer/transformer.hpp"
#include "cubist/nn/transformer/weights.hpp"

#include "folder.hpp"
#include "nn.hpp"

namespace cubist::test::end_ids_test
{

TEST_CASE("the tokens that end a text are a number, a list or none")
{
  const auto ids = [](const std::string& value) {
    return detail::read_end_ids(nlohmann::json::parse("{\"eos_token_id\": " + value + "}"), "file");
  };
  CHECK(ids("2") == std::vector{2});
  CHECK(ids("[128001, 128008]") == std::vector{128001, 128008});
  CHECK(ids("null").empty());
  CHECK(ids("[]").empty());
  CHECK(detail::read_end_ids(nlohmann::json::object(), "file").empty());
  for (const char* other : {"-1", "2.5", "\"</s>\"", "[1, null]", "[[1]]", "true", "4294967296"})
    CHECK(mentions(message_of<DataError>([&] { (void)ids(other); }), "file has", "eos_token_id",
                   "unknown which tokens end a text", "the model's own file"));
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

TEST_CASE("generation_config.json says before config.json which tokens end a text")
{
  const Folder folder;
  const auto read = [&](const char* generation) {
    once([&] {
      write_contents(folder / "config.json", R"({"model_type": "gpt2", "vocab_size": 8,
        "n_positions": 4, "n_embd": 4, "n_layer": 1, "n_head": 1, "eos_token_id": 5})");
      write_contents(folder / "generation_config.json", generation);
    });
    return read_config(folder.path());
  };
  CHECK(read(R"({"eos_token_id": 7})").end_ids == std::vector{7});
  CHECK(read(R"({"eos_token_id": [5, 6], "top_p": 0.9})").end_ids == std::vector{5, 6});
  CHECK(read_config(folder / "config.json").end_ids == std::vector{5, 6});
  CHECK(read(R"({"eos_token_id": null})").end_ids == std::vector{5});
  CHECK(read("{}").end_ids == std::vector{5});
  const auto refused = [&](const char* generation, const char* why) {
    CHECK(mentions(message_of<DataError>([&] { (void)read(generation); }), "generation_config.json",
                   why, "unknown which tokens end a text"));
  };
  refused("[5]", "not a JSON object");
  refused("{", "not JSON at byte");
  refused(R"({"eos_token_id": "</s>"})", "has \"</s>\"");
}

TEST_CASE("a save keeps generation_config.json, and removes one of another model")
{
  using Model = Transformer<Summa2D, TestBackend, double>;
  const Folder folder;
  const std::string text = R"({"model_type": "gpt2", "vocab_size": 8, "n_positions": 4,
    "n_embd": 4, "n_layer": 1, "n_head": 1, "eos_token_id": 5})";
  const auto save = [&](const TransformerConfig& config) {
    (void)on_root(one_rank, [&](const auto& mesh) {
      Model model{mesh, config};
      save_weights(folder.path(), model.parameters(), config);
      return 0;
    });
    once([] {});
    return read_config(folder.path()).end_ids;
  };
  auto config = parse_config(text, "file");
  CHECK(save(config) == std::vector{5});
  CHECK(!std::filesystem::exists(folder / "generation_config.json"));
  once([&] {
    write_contents(folder / "generation_config.json", R"({"eos_token_id": [5, 6], "top_p": 0.9})");
  });
  auto with_generation = read_config(folder.path());
  CHECK(save(with_generation) == std::vector{5, 6});
  with_generation.end_ids = {4};
  CHECK(save(with_generation) == std::vector{4});
  with_generation.end_ids.clear();
  CHECK(save(with_generation).empty());
  with_generation.end_ids = {3};
  CHECK(save(with_generation) == std::vector{3});
  CHECK(nlohmann::json::parse(contents(folder / "generation_config.json"))["top_p"] == 0.9);
  CHECK(save(config) == std::vector{5});
  CHECK(!std::filesystem::exists(folder / "generation_config.json"));
}

}  // namespace cubist::test::end_ids_test
