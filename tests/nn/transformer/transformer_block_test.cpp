// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/nn/transformer/transformer_block.hpp"
#include "cubist/plan/transformer_cost.hpp"

#include "llama_like.hpp"
#include "nn.hpp"
#include "sent.hpp"

namespace cubist::test::transformer_block_test
{

#if !CUBIST_SANITIZED  // counts of elements do not change under a sanitizer
TEST_CASE("a block of a transformer sends what its formula says, on every scheme")
{
  using B = Counting<Threads>;
  const TokenBatch batch{.sequences = 5, .length = 3};
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
  for_each_scheme([&]<class S>() {
    const int ranks = S::Axes::count == 3 ? 8 : 6;
    for (const auto& config : {gpt2, llama, qwen3, biased})
    {
      CAPTURE(S::name, ranks, config.is_gated(), config.head_norms);
      const auto [forward, backward] = sum(on_ranks<B>(ranks, [&](B::Communicator& world) {
        const Mesh<S, B> mesh{world};
        const auto block =
            cubist::detail::make_block<S, B, float>(mesh, config.completed(), {}, {}, 0);
        typename Linear<S, B, float>::Input x{mesh,
                                              {batch.sequences * batch.length, config.width},
                                              {batch.length * mesh.quantum(), mesh.quantum()}};
        const Pass pass{.sequence = batch.length};
        const auto kept = block->make_kept();
        ImmediateSums<float, typename Linear<S, B, float>::Mesh> sums;
        const auto of_forward = sent_in(world, [&] { block->forward(x, pass, *kept); });
        return SentByPasses{of_forward, sent_in(world, [&] {
                              block->backward(x, x, {pass, sums}, *kept, true);
                            })};
      }));
      const auto words = block_words<S>(S::extents({}, ranks), batch, config);
      CHECK(forward == words.forward);
      CHECK(backward == words.backward);
      CHECK(words.forward > 0);
    }
  });
}
#endif

}  // namespace cubist::test::transformer_block_test
