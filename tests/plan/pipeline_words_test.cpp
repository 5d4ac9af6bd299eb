// SPDX-License-Identifier: BSD-3-Clause
// Compares the predicted elements sent in whole steps of networks in stages with those that the
// ranks count.

#include "cubist/backend/threads.hpp"
#include "cubist/nn/pipeline/pipelined_mlp.hpp"
#include "cubist/nn/transformer/pipelined_transformer.hpp"

#include "llama_like.hpp"
#include "nn.hpp"
#include "passes.hpp"
#include "sent.hpp"
#include "step_words.hpp"

namespace cubist::test::pipeline_words_test
{

using B = Counting<Threads>;
using S = Summa2D;
using P = Pipeline<S>;

/// The elements that all ranks of two stages send in step(mesh), which returns those of one rank.
template <class F>
std::uint64_t counted(const S::Extents& extents, int ranks, F step)
{
  return sum(on_ranks<B>(2 * ranks, [&](B::Communicator& world) {
    return step(Mesh<P, B>{world, {.stages = 2, .scheme = extents}});
  }));
}

/// The elements sent in a step with m micro-batches: those of layers m times, those of gradients
/// once, blocks of activations and of their gradients between pieces, and the loss to the other
/// stage.
static std::uint64_t words_of(const StepWords& micro_batch, std::size_t m, int ranks, Shape block,
                              std::size_t pieces)
{
  const auto n = static_cast<std::uint64_t>(ranks);
  return m * (micro_batch.forward + micro_batch.backward) + micro_batch.gradients +
         2 * m * (2 * pieces - 1) * n * block.size() + n;
}

TEST_CASE("a step of an MLP in stages sends what its formula says")
{
  const std::vector<std::size_t> sizes{7, 11, 9, 5};
  const auto check = [&](const S::Extents& requested, std::size_t m, std::size_t rows) {
    const auto extents = S::extents(requested, 4);
    CAPTURE(extents[0], extents[1], m);
    const auto sent = counted(requested, 4, [&](const auto& mesh) {
      MLP<P, B, double> mlp{mesh, sizes, {.pipeline = {.micro_batches = m, .layers = {1, 2}}}};
      const auto x = scatter<P::Input>(mesh, uniform<double>(m * rows, sizes[0], 1));
      mesh.world().traffic().reset();
      (void)mlp.compute_gradients(x, classes(m * rows, sizes.back()));
      return mesh.world().traffic().total().elements;
    });
    const auto layers = mlp_layers(rows, sizes);
    const auto between = cut_product<S>(extents, layers[0]).y.block;
    CHECK(sent == words_of(step_words<S>(extents, layers), m, 4, between, 1));
  };
  check({.q = 2}, 1, 13);
  // Ranks of a row have all rows, so none of X is sent.
  check({.rows = 1, .cols = 4}, 3, 13);
}

TEST_CASE("a step of a transformer in stages sends what its formula says")
{
  TransformerConfig config{
      .vocabulary = 13, .positions = 5, .width = 12, .layers = 4, .heads = 6, .feed_forward = 20};
  const auto check = [&](const S::Extents& requested, int ranks, std::size_t m,
                         std::size_t pieces) {
    const auto extents = S::extents(requested, ranks);
    CAPTURE(extents[0], extents[1], config.tied, pieces);
    const TokenBatch batch{.sequences = 3, .length = 5};
    std::vector<int> ids;
    for (std::size_t k = 0; k < m * batch.tokens(); ++k)
      ids.push_back(static_cast<int>((k * k + 3 * k) % config.vocabulary));
    const auto step = counted(requested, ranks, [&](const auto& mesh) {
      Transformer<P, B, double> model{
          mesh, config, {.pipeline = {.micro_batches = m, .pieces = pieces}}};
      mesh.world().traffic().reset();
      (void)model.compute_gradients(ids, batch.length);
      return mesh.world().traffic().total().elements;
    });
    // What the embedding sends depends on the tokens.
    const auto tokens = sum(on_ranks<B>(ranks, [&](B::Communicator& world) {
      const Mesh<S, B> mesh{world, requested};
      Embedding<S, B, double> embedding{mesh, config.vocabulary, config.width};
      world.traffic().reset();
      for (std::size_t i = 0; i < m; ++i)
      {
        Passes passes{embedding};
        const Pass pass{.sequence = batch.length};
        const std::vector<int> mine{ids.begin() + static_cast<std::ptrdiff_t>(i * batch.tokens()),
                                    ids.begin() +
                                        static_cast<std::ptrdiff_t>((i + 1) * batch.tokens())};
        embedding.backward(mine, passes.forward(mine, pass), {pass, passes.sums}, passes.kept);
      }
      return world.traffic().total().elements;
    }));
    const TransformerParts<S> parts{extents, batch, config};
    const std::uint64_t table = config.tied ? 2 * static_cast<std::uint64_t>(ranks) *
                                                  parts.cut(parts.logits()).w.block.size()
                                            : 0;
    CHECK(step - tokens ==
          words_of(step_words<S>(extents, batch, config), m, ranks, parts.stream().block, pieces) +
              table);
  };
  check({.q = 1}, 1, 4, 1);
  check({.q = 1}, 1, 4, 2);
  config = llama_like(config);
  check({.rows = 1, .cols = 2}, 2, 2, 1);
  check({.rows = 1, .cols = 2}, 2, 2, 2);
}

}  // namespace cubist::test::pipeline_words_test
