// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/nn/transformer/transformer_block.hpp"
#include "cubist/plan/transformer_cost.hpp"

#include "llama_like.hpp"
#include "nn.hpp"

namespace cubist::test::transformer_block_test
{

namespace
{

using B = Counting<Threads>;

constexpr TokenBatch batch{.sequences = 5, .length = 3};

std::vector<TransformerConfig> cases()
{
  const TransformerConfig gpt2{
      .vocabulary = 9, .positions = 8, .width = 12, .layers = 1, .heads = 6, .feed_forward = 20};
  TransformerConfig llama = gpt2;
  llama.key_value_heads = 2;
  llama = llama_like(llama);
  TransformerConfig qwen3 = llama;
  qwen3.head_size = 4;
  qwen3.bias.query_key_value = qwen3.head_norms = true;
  TransformerConfig biased = llama;
  biased.bias.attention_output = biased.bias.feed_forward = true;
  return {gpt2, llama, qwen3, biased};
}

/// Counts the elements that all ranks send in forward and in backward.
template <class S>
std::vector<std::uint64_t> counted(int ranks, const TransformerConfig& config)
{
  const auto sent = on_ranks<B>(ranks, [&](typename B::Communicator& world) {
    const Mesh<S, B> mesh{world};
    const auto block = cubist::detail::make_block<S, B, float>(mesh, config.completed(), {}, 0);
    typename Linear<S, B, float>::Input x{mesh,
                                          {batch.sequences * batch.length, config.width},
                                          {batch.length * mesh.quantum(), mesh.quantum()}};
    const Pass pass{.sequence = batch.length};
    world.traffic().reset();
    const auto kept = block->make_kept();
    block->forward(x, pass, *kept);
    const std::uint64_t forward = world.traffic().total().elements;
    ImmediateSums<float, typename Linear<S, B, float>::Mesh> sums;
    block->backward(x, x, {pass, sums}, *kept, true);
    return std::vector<std::uint64_t>{forward, world.traffic().total().elements - forward};
  });
  std::vector<std::uint64_t> sum(2);
  for (const auto& rank : sent) sum[0] += rank[0], sum[1] += rank[1];
  return sum;
}

}  // namespace

TEST_CASE("a block of a transformer sends what its formula says, on every scheme")
{
  for_each_scheme([]<class S>() {
    const int ranks = S::Axes::count == 3 ? 8 : 6;
    for (const auto& c : cases())
    {
      CAPTURE(S::name, ranks, c.is_gated(), c.head_norms);
      if constexpr (!sanitized)
      {
        const auto words = block_words<S>(S::extents({}, ranks), batch, c);
        CHECK(counted<S>(ranks, c) == std::vector<std::uint64_t>{words.forward, words.backward});
        CHECK(words.forward > 0);
      }
    }
  });
}

}  // namespace cubist::test::transformer_block_test
