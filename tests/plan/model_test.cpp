// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/plan/model.hpp"

#include "ranks.hpp"

namespace cubist::test::plan_model_test
{

TEST_CASE("The layers of a network are a product each")
{
  const auto layers = mlp_layers(16, {256, 1024, 128});
  REQUIRE(layers.size() == 2);
  CHECK((layers[0].m == 16 && layers[0].k == 256 && layers[0].n == 1024));
  CHECK((layers[1].m == 16 && layers[1].k == 1024 && layers[1].n == 128));
  CHECK(mentions(message_of<ArgumentError>([] { (void)mlp_layers(16, {256}); }), "got 1 sizes",
                 "no layer", "give the sizes of its input"));
}

TEST_CASE("Layers that do not chain or have no elements are refused")
{
  CHECK(mentions(message_of<ArgumentError>([] { require_valid(std::vector<ProductSize>{}); }),
                 "got no layers", "give at least one"));
  CHECK(mentions(message_of<ShapeError>([] {
                   require_valid(mlp_layers(16, {8, 0, 8}));
                 }),
                 "n = 0", "layer 0", "use positive sizes"));
  CHECK(mentions(message_of<ShapeError>([] {
                   require_valid(std::vector<ProductSize>{{0, 1, 1}});
                 }),
                 "m = 0"));
  const std::vector<ProductSize> broken = {{.m = 4, .n = 8, .k = 2}, {.m = 4, .n = 8, .k = 2}};
  CHECK(mentions(message_of<ShapeError>([&] { require_valid(broken); }),
                 "layer 1 takes X of (4, 2)", "has Y of (4, 8)", "one by one"));
}

TEST_CASE("Matrices of more elements than 64 bits count are refused")
{
  const std::size_t many = std::size_t{1} << 40U;
  CHECK(mentions(message_of<ShapeError>([&] {
                   require_valid(mlp_layers(many, {8, 2048}));
                 }),
                 "1099511627776 x 2048", "2^50 elements", "smaller sizes"));
  CHECK_THROWS_AS(require_valid(mlp_layers(8, {many, many})), ShapeError);
  CHECK_NOTHROW(require_valid(mlp_layers(many, {8, 1024})));
  const auto gpt2 = transformer_model("gpt2");
  CHECK(mentions(message_of<ShapeError>([&] {
                   require_valid(TransformerStep{gpt2, {many, many}});
                 }),
                 "sequences of 1099511627776 tokens, whose matrices", "fewer tokens"));
  CHECK_NOTHROW(require_valid(TransformerStep{gpt2, {100'000, 1024}}));
}

TEST_CASE("Published models have their published numbers of parameters")
{
  const auto parameters = [](const char* name) { return transformer_model(name).parameters(); };
  CHECK(parameters("gpt2") == 124'439'808);
  CHECK(parameters("gpt2-medium") == 354'823'168);
  CHECK(parameters("gpt2-large") == 774'030'080);
  CHECK(parameters("gpt2-xl") == 1'557'611'200);
  CHECK(parameters("gpt3-175b") == 174'604'259'328);
  CHECK(parameters("llama-7b") == 6'738'415'616);
  CHECK(parameters("llama-13b") == 13'015'864'320);
  CHECK(parameters("llama-65b") == 65'285'660'672);
  CHECK(parameters("llama2-70b") == 68'976'648'192);
  CHECK(parameters("llama3-8b") == 8'030'261'248);
  CHECK(parameters("llama3-70b") == 70'553'706'496);
  CHECK(parameters("llama3.1-405b") == 405'853'388'800);
}

TEST_CASE("Every known model is valid")
{
  for (const auto& family : cubist::detail::model_families)
    for (const auto& published : family.published)
    {
      CAPTURE(published.name);
      const auto model = transformer_model(published.name);
      CHECK(model.width == published.width);
      CHECK(model.is_gated() == family.defaults().is_gated());
    }
  const auto llama = transformer_model("llama3-8b");
  CHECK(llama.head_size == 128);
  CHECK(llama.group() == 4);
  CHECK(llama.key_value_width() == 1024);
}

TEST_CASE("An unknown model is refused with the names of those that are known")
{
  CHECK(mentions(message_of<ArgumentError>([] { (void)transformer_model("gpt5"); }),
                 "got the model \"gpt5\"", "does not know its sizes", "use gpt2, gpt2-medium",
                 "llama3-8b"));
}

TEST_CASE("Sizes of a transformer that do not fit are refused")
{
  TransformerStep step{transformer_model("gpt2"), {1, 8}};
  auto& model = step.model;
  model.layers = 0;
  CHECK(mentions(message_of<ShapeError>([&] { require_valid(step); }), "0 layers",
                 "computes nothing"));
  model.layers = 1;
  model.key_value_heads = 5;
  CHECK(mentions(message_of<ShapeError>([&] { require_valid(step); }), "12 heads for 5",
                 "shared by more heads"));
  model.heads = 7;
  model.key_value_heads = model.head_size = 0;
  CHECK(mentions(message_of<ShapeError>([&] { require_valid(step); }), "7 heads for a width of 768",
                 "do not divide"));
  CHECK_THROWS_AS(token_batch(model, 8), ShapeError);
}

TEST_CASE("Tokens are whole sequences")
{
  const auto model = transformer_model("gpt2");
  CHECK(token_batch(model, 8192) == TokenBatch{8, 1024});
  CHECK(token_batch(model, 8192, 512) == TokenBatch{16, 512});
  CHECK(token_batch(model, 100) == TokenBatch{1, 100});
  CHECK(mentions(message_of<ArgumentError>([&] { (void)token_batch(model, 8000); }),
                 "got 8000 tokens in sequences of 1024", "incomplete", "use 7168 tokens"));
  CHECK(mentions(message_of<ArgumentError>([&] { (void)token_batch(model, 8192, 2048, "gpt2"); }),
                 "sequences of 2048 tokens for gpt2", "1024 positions"));
  // Rotary positions have no table.
  CHECK(token_batch(transformer_model("llama3-8b"), 131072, 131072) == TokenBatch{1, 131072});
  // Networks compute sequences no longer than a sliding window.
  const auto mistral = transformer_model("mistral-7b-v0.1");
  CHECK(mistral.window == 4096);
  CHECK(token_batch(mistral, 32768) == TokenBatch{8, 4096});
  CHECK(mentions(
      message_of<ArgumentError>([&] { (void)token_batch(mistral, 8192, 8192, "mistral"); }),
      "sequences of 8192 tokens for mistral", "window of 4096", "no longer"));
  CHECK(token_batch(transformer_model("mistral-7b-v0.3"), 32768) == TokenBatch{1, 32768});
  CHECK(mentions(message_of<ArgumentError>([&] { (void)token_batch(model, 0); }), "got 0 tokens",
                 "use a positive number"));
}

}  // namespace cubist::test::plan_model_test
