// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/plan/transformer_cost.hpp"
#include "cubist/scheme/catalogue.hpp"

#include "catch.hpp"

namespace cubist::test::plan_transformer_cost_test
{

// Two heads of keys and values, of 2 columns; N = 8 + 4 + 4.
const TransformerConfig model{.vocabulary = 20,
                              .positions = 8,
                              .width = 8,
                              .layers = 3,
                              .heads = 4,
                              .key_value_heads = 2,
                              .feed_forward = 12,
                              .tied = false};
constexpr TokenBatch batch{.sequences = 3, .length = 3};  // M = 9

TEST_CASE("A block on Megatron1D all-reduces (M, d) twice in each direction")
{
  const std::uint64_t all_reduce = 2 * 3 * 9 * 8;  // of 4 ranks
  const auto block = block_words<Megatron1D>({4}, batch, model);
  CHECK(block.forward == 2 * all_reduce);
  CHECK(block.backward == 2 * all_reduce);
  SECTION("the logits all-reduce dX, the loss 2 numbers a row and 3 of all")
  {
    const auto whole = transformer_words<Megatron1D>({4}, batch, model);
    CHECK(whole.forward == 3 * block.forward + 2 * 3 * (2 * 9 + 3));
    CHECK(whole.backward == 3 * block.backward + all_reduce);
    CHECK(whole.embedding > 0);
  }
}

TEST_CASE("A block on Summa2D sends the panels of X and W, numbers of rows and gradients")
{
  const std::uint64_t m = 12;  // 3 sequences become 4
  // MK + KN of Q, K and V; of the output; of up; of down
  const std::uint64_t products =
      (m * 8 + 8 * 16) + (m * 8 + 8 * 8) + (m * 8 + 8 * 12) + (m * 12 + 12 * 8);
  const std::uint64_t statistics = 2 * (2 * 2 * 9);      // two norms, 2 numbers of 9 rows
  const std::uint64_t norm_gradients = 2 * (2 * 2 * 8);  // weight and bias of two norms
  const std::uint64_t bias_gradients = 2 * (16 + 8 + 12 + 8);
  const auto block = block_words<Summa2D>({2, 2}, batch, model);
  CHECK(block.forward == products + statistics);
  CHECK(block.backward == 2 * products + statistics + norm_gradients + bias_gradients);
  SECTION("there may be no bias, or some")
  {
    auto without = model;
    without.bias = false;
    const auto none = block_words<Summa2D>({2, 2}, batch, without);
    CHECK(none.forward == block.forward);
    CHECK(none.backward == block.backward - bias_gradients);
    without.bias.query_key_value = true;
    CHECK(block_words<Summa2D>({2, 2}, batch, without).backward == none.backward + 2 * 16);
  }
  SECTION("of Llama's kind, RMSNorm sends half, and a gate doubles the columns of up")
  {
    auto llama = model;
    llama.kind = TransformerKind::llama;
    llama.bias = false;
    const auto gated = block_words<Summa2D>({2, 2}, batch, llama);
    CHECK(gated.forward == products + 8 * 12 + statistics / 2);
    CHECK(gated.backward == 2 * (products + 8 * 12) + statistics / 2 + norm_gradients / 2);
  }
}

TEST_CASE("A block on Cube3D gathers X and W and scatters Y")
{
  const std::uint64_t m = 12;
  // MK + KN + MN of each product
  const std::uint64_t products = (m * 8 + 8 * 16 + m * 16) + (m * 8 + 8 * 8 + m * 8) +
                                 (m * 8 + 8 * 12 + m * 12) + (m * 12 + 12 * 8 + m * 8);
  const std::uint64_t operands = products - (m * 16 + m * 8 + m * 12 + m * 8);
  const std::uint64_t statistics = 2 * (2 * 2 * 9);
  // 4 ranks cut the rows.
  const std::uint64_t gradients = 2 * 3 * (2 * (2 * 8) + 16 + 8 + 12 + 8);
  const auto block = block_words<Cube3D>({2, 2, 2}, batch, model, Gathered::kept, 1);
  CHECK(block.forward == products + statistics);
  CHECK(block.backward == products + statistics + gradients);
  CHECK(block_words<Cube3D>({2, 2, 2}, batch, model, Gathered::again, 1).backward ==
        block.backward + operands);
}

TEST_CASE("Padding is sent by products, not by the numbers of rows")
{
  // On 4 x 2 ranks rows are padded to 4 sequences.
  const auto one =
      block_words<Summa2D>({4, 2}, {.sequences = 1, .length = 3}, model, Gathered::kept, 1);
  const auto four = block_words<Summa2D>({4, 2}, {.sequences = 4, .length = 3}, model);
  const std::uint64_t statistics = 2 * 2 * 2 * (12 - 3);
  CHECK(four.forward == one.forward + statistics);
  CHECK(four.backward == one.backward + statistics);
}

TEST_CASE(
    "Ranks that share a sequence send it without padding, and its keys and values to each other")
{
  // 2 chunks of 12 rows on each of 4 ranks; 2 heads of keys and values of 2 columns
  const TokenBatch batch_of_one{.sequences = 1, .length = 96};
  const std::uint64_t ring = 8 * 3 * (2 * 24 * 2);
  const auto shared = block_words<Summa2D>({4, 2}, batch_of_one, model, Gathered::kept, 4);
  const auto rows = block_words<Summa2D>({4, 2}, {.sequences = 4, .length = 24}, model);
  CHECK(shared.forward == rows.forward + ring);
  CHECK(shared.backward == rows.backward + 2 * ring);
  CHECK(block_words<Summa2D>({4, 2}, batch_of_one, model, Gathered::kept, 0) == shared);
  // With enough sequences, ranks share none.
  CHECK(block_words<Summa2D>({4, 2}, {.sequences = 4, .length = 24}, model, Gathered::kept, 0) ==
        rows);
}

TEST_CASE("The elements that a block sends are those in docs/costs.md")
{
  const auto& medium = transformer_model("gpt2-medium");
  const auto check = [&]<class S>(typename S::Axes::Array e, double forward, double backward) {
    CAPTURE(S::name, S::Axes::to_string(e));
    const TokenBatch tokens{.sequences = 64, .length = 1024};
    const double unit = double(S::Axes::ranks(e)) * double(tokens.tokens()) * double(medium.width);
    const auto words = block_words<S>(e, tokens, medium);
    CHECK(double(words.forward) / unit == Approx(forward).margin(0.0006));
    CHECK(double(words.backward) / unit == Approx(backward).margin(0.0006));
  };
  check.operator()<Megatron1D>({16}, 3.75, 3.75);
  check.operator()<Megatron1DSequence>({16}, 3.75, 3.75);
  check.operator()<Grid2D>({4, 4}, 3.007, 3.007);
  check.operator()<Summa2D>({8, 8}, 0.787, 1.573);
  check.operator()<Summa25D>({16, 2, 2}, 0.156, 0.401);
  check.operator()<Grid3D>({2, 2, 16}, 0.294, 0.294);
  check.operator()<Cube3D>({4, 4, 4}, 0.759, 0.759);
}

}  // namespace cubist::test::plan_transformer_cost_test
