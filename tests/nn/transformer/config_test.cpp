// SPDX-License-Identifier: BSD-3-Clause
#include <filesystem>
#include <fstream>
#include <string>

#include "cubist/nn/transformer/config.hpp"

#include "catch.hpp"
#include "folder.hpp"
#include "ranks.hpp"

namespace cubist::test::config_test
{

namespace
{

const std::filesystem::path models{CUBIST_TRANSFORMER_DATA};

TransformerConfig parse(const std::string& json)
{
  const Folder folder;
  std::ofstream{folder.path() / "config.json"} << json;
  return read_config(folder.path());
}

template <class E>
std::string error(const std::string& json)
{
  return message_of<E>([&] { (void)parse(json); });
}

}  // namespace

TEST_CASE("configurations of Hugging Face are read")
{
  const auto gpt2 = read_config(models / "gpt2_tiny");
  CHECK(gpt2 == TransformerConfig{.vocabulary = 64,
                                  .positions = 32,
                                  .width = 48,
                                  .layers = 2,
                                  .heads = 4,
                                  .feed_forward = 192});
  const auto llama = read_config(models / "llama_tiny" / "config.json");
  CHECK(llama == TransformerConfig{.vocabulary = 64,
                                   .positions = 32,
                                   .width = 48,
                                   .layers = 2,
                                   .heads = 4,
                                   .key_value_heads = 2,
                                   .feed_forward = 96,
                                   .learned_positions = false,
                                   .rotary_base = 10000,
                                   .norm = Norm::rms_norm,
                                   .epsilon = 1e-6,
                                   .gated = true,
                                   .bias = false,
                                   .tied = false});
  // As the hub has them: keys that say nothing new, and null for a default.
  const auto small = parse(R"({"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"],
    "vocab_size": 50257, "n_positions": 1024, "n_ctx": 1024, "n_embd": 768, "n_layer": 12,
    "n_head": 12, "n_inner": null, "activation_function": "gelu_new", "resid_pdrop": 0.1})");
  CHECK(small.feed_forward == 3072);
  CHECK(small.tied);
}

TEST_CASE("a configuration that was written is read as it was")
{
  for (const char* name : {"gpt2_tiny", "llama_tiny"})
  {
    const auto config = read_config(models / name);
    const Folder folder;
    once([&] { std::ofstream{folder / "config.json"} << config_text(config); });
    CHECK(read_config(folder.path()) == config);
  }
  auto mixed = read_config(models / "gpt2_tiny");
  mixed.gated = true;
  CHECK(mentions(message_of<ArgumentError>([&] { (void)config_text(mixed); }), "neither GPT-2"));
}

TEST_CASE("configurations of other models, or none, are refused")
{
  CHECK(
      mentions(error<ArgumentError>(R"({"model_type": "opt"})"), "type opt", "use gpt2 or llama"));
  const std::string llama = R"({"model_type": "llama", "vocab_size": 8, "hidden_size": 8,
    "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8)";
  CHECK(parse(llama + "}").key_value_heads == 2);
  CHECK(mentions(error<ArgumentError>(llama + R"(, "hidden_act": "gelu"})"), "\"gelu\"",
                 "hidden_act", "\"silu\""));
  CHECK(mentions(error<ArgumentError>(llama + R"(, "rope_scaling": {"factor": 8}})"),
                 "rope_scaling"));
  CHECK(mentions(error<DataError>(llama + R"(, "rms_norm_eps": "x"})"), "rms_norm_eps",
                 "another type"));
  CHECK(mentions(error<DataError>(R"({"model_type": "gpt2"})"), "no vocab_size"));
  CHECK(mentions(error<DataError>("[]"), "no JSON object"));
  CHECK(mentions(error<DataError>("{"), "no JSON object"));
  CHECK(mentions(error<ShapeError>(R"({"model_type": "gpt2", "vocab_size": 0, "n_positions": 4,
    "n_embd": 4, "n_layer": 1, "n_head": 1})"),
                 "0 tokens"));
  CHECK(mentions(message_of<DataError>([] { (void)read_config("none"); }), "got none"));
}

}  // namespace cubist::test::config_test
