// SPDX-License-Identifier: BSD-3-Clause
// Compares the predicted elements sent in whole training steps with those that the ranks count.

#include "cubist/nn/networks/mlp.hpp"
#include "cubist/nn/transformer/transformer.hpp"
#include "cubist/training/clip_gradients.hpp"
#include "cubist/training/sharded_optimizer.hpp"

#include "llama_like.hpp"
#include "nn.hpp"
#include "passes.hpp"
#include "sent.hpp"
#include "step_words.hpp"

namespace cubist::test::step_words_test
{

using B = Counting<Threads>;

constexpr std::size_t rows = 13;

const Place<DataParallel<Summa2D>> two_meshes{8, {.data = 2, .scheme = {.q = 2}}};
const Place<DataParallel<Cube3D>> two_cubes{16, {.data = 2, .scheme = {.q = 2}}};
const Place<DataParallel<Megatron1D>> four_pairs{8, {.data = 4, .scheme = {2}}};

/// Sums no gradients.
template <class M>
struct NoSums final : GradientReducer<double, M>
{
  void begin() override {}
  void reduce(MatrixView<double>, typename M::Communicator*) override {}
  void finish() override {}
};

/// Calls f(place, options) on each mesh, for each optimizer.
template <class F>
void for_each_step(F f)
{
  for (const bool sharded : {false, true})
  {
    const StepOptions options{.sharded = sharded, .clipped = sharded};
    f(two_meshes, options);
    f(two_cubes, options);
    f(four_pairs, options);
  }
}

/// The elements that all ranks send in step(mesh), which returns those of one rank.
template <class S, class F>
std::uint64_t counted(const Place<S>& place, F step)
{
  return sum(on_mesh<B>(place, step));
}

/// The elements that one rank sends in a step of a network.
template <class Network, class F>
std::uint64_t sent_in_step(Network& network, const StepOptions& options, F compute_gradients)
{
  using M = typename Network::Mesh;
  using Whole = AdamW<double, M>;
  const auto parameters = network.parameters();
  const auto take = [&](auto& optimizer, const auto& owned, const auto&... all) {
    return sent_in(parameters.front().value.mesh.world(), [&] {
      compute_gradients();
      optimizer.step(all..., options.clipped ? clip_factor(gradient_norm(owned), 1.0) : 1.0);
    });
  };
  if (options.sharded)
  {
    Sharded<Whole> optimizer{parameters};
    return take(optimizer, optimizer.parameters());
  }
  Whole optimizer{parameters};
  return take(optimizer, parameters, parameters);
}

/// The elements that all ranks send in a step of an MLP.
template <class S>
std::uint64_t mlp_step(const Place<S>& place, const std::vector<std::size_t>& sizes,
                       const StepOptions& options)
{
  return counted(place, [&](const auto& mesh) {
    MLP<S, B, double> mlp{mesh, sizes};
    const auto x = scatter<typename S::Input>(mesh, uniform<double>(rows, sizes[0], 1));
    return sent_in_step(mlp, options,
                        [&] { (void)mlp.compute_gradients(x, classes(rows, sizes.back())); });
  });
}

TEST_CASE("a step of an MLP sends what its formula says")
{
  for (const std::vector<std::size_t>& sizes : {std::vector<std::size_t>{8, 16, 8}, {7, 11, 9, 5}})
    for_each_step([&](const auto& place, const StepOptions& options) {
      using S = typename std::decay_t<decltype(place)>::Scheme;
      INFO(place.name() << (options.sharded ? ", sharded" : "") << ", " << sizes.size());
      const auto words =
          step_words<S>(S::extents(place.extents, place.ranks), mlp_layers(rows, sizes), options);
      CHECK(mlp_step(place, sizes, options) == words.total());
      CHECK((words.values > 0) == options.sharded);
      CHECK((words.clipping > 0) == options.clipped);
    });
}

TEST_CASE("a step along Depth sends what its formula says")
{
  const std::vector<std::size_t> sizes{7, 11, 9, 5};
  for (const bool sharded : {false, true})
  {
    const StepOptions options{.sharded = sharded, .clipped = true};
    CHECK(mlp_step(two_two_two, sizes, options) ==
          step_words<Summa25D>({2, 2, 2}, mlp_layers(rows, sizes), options).total());
  }
}

TEST_CASE(
    "a step of a transformer sends what its formula says, and what its tokens need, with LoRA, too")
{
  const auto check = [](const TransformerConfig& config, TokenBatch batch) {
    std::vector<int> ids;
    for (std::size_t k = 0; k < batch.tokens(); ++k)
      ids.push_back(static_cast<int>((k * k + 3 * k) % config.vocabulary));
    for_each_step([&](const auto& place, const StepOptions& options) {
      using S = typename std::decay_t<decltype(place)>::Scheme;
      INFO(place.name() << (options.sharded ? ", sharded" : "") << ", width " << config.width
                        << ", length " << batch.length);
      const auto step = counted(place, [&](const auto& mesh) {
        Transformer<S, B, double> network{mesh, config};
        return sent_in_step(network, options,
                            [&] { network.compute_gradients(ids, batch.length); });
      });
      const auto of_tokens = [&](const auto& mesh, bool backward) {
        Embedding<S, B, double> embedding{mesh, config.vocabulary, config.width};
        mesh.world().traffic().reset();
        Passes passes{embedding};
        Pass pass{.sequence = batch.length};
        pass.cut = choose_cut(
            batch.sequences, batch.length,
            row_parts<typename S::Output, typename S::Axes>(mesh.extents(), mesh.quantum()), 0);
        auto of_rows = ids;
        if (pass.cut.is_cut())
          pass.cut.arrange(ids, of_rows,
                           [&](std::size_t b) { return ids[(b + 1) * batch.length - 1]; });
        const auto& h = passes.forward(of_rows, pass);
        NoSums<typename Embedding<S, B, double>::Mesh> no_sums;
        if (backward) embedding.backward(of_rows, h, {pass, no_sums}, passes.kept);
        return mesh.world().traffic().total().elements;
      };
      const auto tokens = counted(place, [&](const auto& mesh) { return of_tokens(mesh, true); });
      const auto words =
          step_words<S>(S::extents(place.extents, place.ranks), batch, config, options);
      CHECK(step - tokens == words.total());
      if (options.sharded) return;
      const auto thin = counted(place, [&](const auto& mesh) {
        Transformer<S, B, double> network{mesh, config, {}, LoraOptions{.rank = 3}};
        return sent_in_step(network, options,
                            [&] { network.compute_gradients(ids, batch.length); });
      });
      const auto looked_up =
          counted(place, [&](const auto& mesh) { return of_tokens(mesh, false); });
      const auto of_lora = transformer_words<S>(S::extents(place.extents, place.ranks), batch,
                                                config, Gathered::kept, 0, 3);
      CHECK(thin - looked_up == of_lora.forward + of_lora.backward);
    });
  };
  // A model like GPT-2, uneven, with fewer tokens than positions; one like Llama, with a table for
  // the logits.
  const TransformerConfig gpt2{
      .vocabulary = 13, .positions = 8, .width = 12, .layers = 2, .heads = 3, .feed_forward = 20};
  check(gpt2, {.sequences = 5, .length = 5});
  TransformerConfig even = gpt2;
  even.width = 16, even.heads = 4, even.vocabulary = 16, even.feed_forward = 32;
  check(even, {.sequences = 8, .length = 8});
  TransformerConfig llama = gpt2;
  llama.heads = 6, llama.key_value_heads = 2;
  llama = llama_like(llama);
  check(llama, {.sequences = 5, .length = 3});
  check(llama, {.sequences = 8, .length = 8});
  // A model like Qwen, with some biases, norms of heads, and heads that together exceed the width.
  TransformerConfig qwen = llama;
  qwen.head_size = 4;
  qwen.bias.query_key_value = qwen.head_norms = true;
  check(qwen, {.sequences = 5, .length = 3});
}

}  // namespace cubist::test::step_words_test
