// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/backend/simulated.hpp"
#include "cubist/nn/optimizers/optimizer.hpp"
#include "cubist/nn/transformer/generate.hpp"
#include "cubist/nn/transformer/transformer.hpp"

#include "counted_memory.hpp"
#include "llama_like.hpp"
#include "nn.hpp"

// Tests models for inference: their memory, and that they compute what models in training compute.

namespace cubist::test::inference_test
{

static TransformerConfig small(bool llama)
{
  TransformerConfig c{
      .vocabulary = 13, .positions = 16, .width = 12, .layers = 3, .heads = 3, .feed_forward = 20};
  if (!llama) return c;
  c = llama_like(c);
  c.head_norms = true;
  return c;
}

/// What a model computes without a backward pass, in three ways.
template <class Model>
auto computed(Model& model)
{
  std::vector<int> ids;
  for (int i = 0; i < 20; ++i) ids.push_back((i * i + 3) % 13);
  const auto logits = gather(model.forward(ids, 5));
  const std::vector<int> prompt{1, 2, 3, 4, 5, 6};
  return std::tuple{logits, Global<double>{{model.evaluate(ids, 5)}},
                    generate(model, prompt, 2, {.tokens = 4}),
                    generate(model, prompt, 2, {.tokens = 4, .cache = false})};
}

TEST_CASE("a model for inference computes what one in training computes, to the bit")
{
  const auto check = [](const auto& place) {
    for (const bool llama : {false, true})
    {
      CAPTURE(place.name(), llama);
      const auto both = on_root(place, [&](const auto& mesh) {
        using S = typename std::decay_t<decltype(place)>::Scheme;
        Transformer<S, TestBackend, double> trained{mesh, small(llama), {.seed = 3}};
        Transformer<S, TestBackend, double> model{
            mesh, small(llama), {.seed = 3, .inference = true}};
        return std::pair{computed(trained), computed(model)};
      });
      CHECK(both.first == both.second);
    }
  };
  check(two_two_two);
  check(Place<Megatron1D>{3, {.p = 3}});
}

TEST_CASE("an evaluation before the first forward leaves a training as it is")
{
  const auto both = on_root(two_two_two, [](const auto& mesh) {
    std::vector<int> ids;
    for (int i = 0; i < 20; ++i) ids.push_back((i * i + 3) % 13);
    std::vector<std::vector<Global<double>>> gradients(2);
    for (std::size_t m = 0; m < 2; ++m)
    {
      Transformer<Summa25D, TestBackend, double> model{mesh, small(true), {.seed = 3}};
      if (m == 1) (void)model.evaluate(ids, 10);
      (void)model.compute_gradients(ids, 5);
      if (m == 1) (void)model.evaluate(ids, 10);
      (void)model.compute_gradients(ids, 5);
      for (const auto& p : model.parameters()) gradients[m].push_back(gather(p.gradient));
    }
    return std::pair{gradients[0], gradients[1]};
  });
  CHECK(both.first == both.second);
}

TEST_CASE("a model for inference has no backward, no optimizer and no training mode")
{
  const auto messages = on_root(one_rank, [](const auto& mesh) {
    Transformer<Summa2D, TestBackend, double> model{mesh, small(false), {.inference = true}};
    const std::vector<int> ids{1, 2, 3};
    Linear<Summa2D, TestBackend, double> layer{mesh, 3, 4, {.gradients = false}};
    DistMatrix<double, Summa2D::Input, typename decltype(layer)::Mesh> x{mesh, {2, 3}};
    return std::vector<std::string>{
        message_of<ArgumentError>([&] { (void)model.compute_gradients(ids, 3); }),
        message_of<ArgumentError>([&] { AdamW optimizer{model.parameters()}; }),
        message_of<ArgumentError>([&] {
          auto dx = x;
          layer.backward(x, layer.forward(x), dx);
        }),
        message_of<ArgumentError>([&] { model.train(); }), model.training() ? "trains" : ""};
  });
  CHECK(mentions(messages[0], "made for inference"));
  CHECK(mentions(messages[1], "got an optimizer for embedding.weight", "no gradient"));
  CHECK(mentions(messages[2], "without gradients"));
  CHECK(mentions(messages[3], "got train for a model that was made for inference",
                 "without `.inference = true`"));
  CHECK(messages[4].empty());
}

#if !defined CUBIST_TEST_MPI && !CUBIST_SANITIZED  // counts are equal there
/// Returns the bytes that a rank needs at most for a prompt and a token, beside weights and cache.
template <class S>
std::vector<std::size_t> beside_weights(typename S::Extents extents, std::size_t layers,
                                        StoredWeights weights)
{
  const TransformerConfig config{.vocabulary = 50,
                                 .positions = 64,
                                 .width = 64,
                                 .layers = layers,
                                 .heads = 8,
                                 .feed_forward = 256};
  return on_ranks<CountedThreads>(8, [&](auto& world) {
    const Mesh<S, CountedThreads> mesh{world, extents};
    Transformer<S, CountedThreads, float> model{
        mesh, config, {.method = Method::collectives, .inference = true}, weights};
    const std::size_t of_weights = counted_bytes.peak = counted_bytes.now;
    const std::vector<int> ids(32);
    model.use_cache(40);
    (void)model.next_logits(ids, 32);
    (void)model.next_logits(std::span{ids}.first(1), 1, 32);
    const std::size_t with_cache = counted_bytes.now;
    model.use_cache(0);
    return counted_bytes.peak - of_weights - (with_cache - counted_bytes.now);
  });
}

template <class S>
void check_layers(typename S::Extents extents, StoredWeights weights)
{
  CAPTURE(S::name, to_string(weights));
  const auto one = beside_weights<S>(extents, 1, weights);
  const auto two = beside_weights<S>(extents, 2, weights);
  const auto six = beside_weights<S>(extents, 6, weights);
  for (std::size_t r = 0; r < one.size(); ++r)
  {
    // A copy of the second block's input, and scores that its attention keeps; then scores alone.
    CHECK(two[r] <= one[r] + 20'000);
    CHECK(six[r] <= two[r] + 4 * 5'000);
  }
}

/// The peak memory of a rank of a simulated GPT-2, in bytes, and that of its weights and cache.
struct Memory
{
  double peak = 0;
  double needed = 0;
};

template <class S>
Memory of_gpt2(typename S::Extents extents)
{
  const TransformerConfig gpt2{
      .vocabulary = 50'257, .positions = 1024, .width = 768, .layers = 12, .heads = 12};
  constexpr std::size_t prompt = 32, tokens = 96;
  double needed = 0;
  launch<Simulated>({.ranks = 4, .rethrow = true}, [&](auto& world) {
    const Mesh<S, Simulated> mesh{world, extents};
    Transformer<S, Simulated, float> model{mesh, gpt2, {.inference = true}};
    const std::vector<int> ids(prompt);
    model.use_cache(tokens);
    (void)model.next_logits(ids, prompt);
    for (std::size_t t = prompt; t < tokens; ++t)
      (void)model.next_logits(std::span{ids}.first(1), 1, t);
    double weights = 0;
    for (const auto& p : model.parameters()) weights += double(p.value.padded.size());
    const auto cache = static_cast<double>(2 * gpt2.layers * tokens * gpt2.width / 4);
    if (world.rank() == 0) needed = sizeof(float) * (weights + cache);
  });
  return {static_cast<double>(Simulated::report().peak_memory()), needed};
}

TEST_CASE("inference keeps the matrices of one block, however many there are")
{
  for (const auto weights : {StoredWeights::scalar, StoredWeights::q8})
  {
    check_layers<Megatron1D>({.p = 8}, weights);
    check_layers<Grid3D>({.x = 2, .y = 2, .z = 2}, weights);
  }
}

TEST_CASE("inference of GPT-2's shape on four ranks needs little more than weights and cache")
{
  const auto check = [](const char* name, const Memory& memory) {
    CAPTURE(name, memory.peak / memory.needed);
    CHECK(memory.peak > memory.needed);
    CHECK(memory.peak < 1.1 * memory.needed);
  };
  check("Megatron1D", of_gpt2<Megatron1D>({.p = 4}));
  check("Summa2D", of_gpt2<Summa2D>({.q = 2}));
  check("Grid2D", of_gpt2<Grid2D>({.x = 2, .y = 2}));
  check("Grid3D", of_gpt2<Grid3D>({.x = 2, .y = 2, .z = 1}));
}
#endif

}  // namespace cubist::test::inference_test
