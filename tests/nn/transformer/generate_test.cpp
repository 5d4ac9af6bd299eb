// SPDX-License-Identifier: BSD-3-Clause
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <set>
#include <span>
#include <vector>

#include "cubist/nn/transformer/generate.hpp"
#include "cubist/nn/transformer/transformer.hpp"
#include "cubist/scheme/megatron1d.hpp"

#include "catch.hpp"
#include "nn.hpp"

namespace cubist::test::generate_test
{

namespace
{

const TransformerConfig config{
    .vocabulary = 11, .positions = 16, .width = 12, .layers = 2, .heads = 4};

/// The continuation of three prompts of two tokens by a model whose weights are drawn.
template <class S>
std::vector<int> text_on(const Place<S>& place, const GenerateOptions& options)
{
  return on_root(place, [&](const auto& mesh) {
    Transformer<S, TestBackend, double> model{mesh, config};
    return generate(model, std::vector{1, 2, 3, 4, 5, 6}, 3, options);
  });
}

template <class F>
std::string refusal(F f)
{
  return on_root(one_rank, [&](const auto& mesh) {
    Transformer<Summa2D, TestBackend, double> model{mesh, config};
    return message_of<Error>([&] { (void)f(model); });
  });
}

}  // namespace

TEST_CASE("a token is drawn with its probability")
{
  const std::vector<double> logits{std::log(1.0), std::log(4.0), std::log(2.0), std::log(1.0)};
  std::vector<int> order;
  const auto draw = [&](double temperature, std::size_t top_k) {
    std::array<int, 4> count{};
    for (int i = 0; i < 800; ++i)
      ++count[static_cast<std::size_t>(
          detail::draw_token(std::span{logits}, temperature, top_k, (i + 0.5) / 800, order))];
    return count;
  };
  CHECK(draw(1, 0) == std::array{100, 400, 200, 100});
  CHECK(draw(1, 9) == std::array{100, 400, 200, 100});
  // Of equal logits the first is among the largest.
  CHECK(draw(1, 3) == std::array{114, 457, 229, 0});
  CHECK(draw(0.5, 2) == std::array{0, 640, 160, 0});
  CHECK(draw(1, 1) == std::array{0, 800, 0, 0});
  CHECK(draw(1e-3, 0) == std::array{0, 800, 0, 0});
  // The largest number below 1 draws the last token, whatever the rounding.
  CHECK(detail::draw_token(std::span{logits}, 1, 0, 1 - 0x1p-53, order) == 3);
}

TEST_CASE("the most likely token is the first of equals")
{
  CHECK(detail::most_likely(std::span<const float>{std::array{1.F, 3.F, 2.F, 3.F}}) == 1);
}

TEST_CASE("the same text is drawn on every mesh, with and without a cache")
{
  for (const std::size_t top_k : {4U, 0U})
  {
    if (few_suffice<TestBackend> && top_k == 0) break;
    const GenerateOptions options{.tokens = 13, .temperature = 1.5, .top_k = top_k, .seed = 7};
    const auto text = text_on(one_rank, options);
    CAPTURE(top_k, text);
    REQUIRE(text.size() == 39);
    CHECK(std::set<int>(text.begin(), text.end()).size() > 3);
    const auto on = [&](const auto& place) {
      if (!fits(place)) return;
      CAPTURE(place.name());
      CHECK(text_on(place, options) == text);
      auto without = options;
      without.cache = false;
      CHECK(text_on(place, without) == text);
    };
    if constexpr (!few_suffice<TestBackend>) on(Place<Summa2D>{6, {.rows = 2, .cols = 3}});
    if constexpr (!few_suffice<TestBackend>) on(cube);
    on(two_two_two);
    on(Place<Megatron1DSequence>{4, {}});
    auto other = options;
    other.seed = 8;
    CHECK(text_on(one_rank, other) != text);
  }
}

TEST_CASE("a prompt may be continued by no token, and up to the last position")
{
  CHECK(text_on(one_rank, {.tokens = 0}).empty());
  CHECK(text_on(one_rank, {.tokens = 14}).size() == 42);
}

TEST_CASE("prompts and options that cannot be continued are refused")
{
  const std::vector three{1, 2, 3};
  CHECK(
      mentions(refusal([&](auto& m) { return generate(m, three, 2); }), "3 tokens for 2 prompts"));
  CHECK(mentions(refusal([&](auto& m) { return generate(m, std::vector<int>{}); }), "0 tokens"));
  CHECK(mentions(refusal([&](auto& m) { return generate(m, three, 1, {.tokens = 14}); }),
                 "17 tokens", "16 positions"));
  CHECK(mentions(refusal([&](auto& m) {
                   return generate(m, std::vector{1, 11}, 1, {.tokens = 1});
                 }),
                 "got id 11", "0 to 10"));
  for (const double temperature :
       {-1.0, std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()})
    CHECK(mentions(
        refusal([&](auto& m) { return generate(m, three, 1, {.temperature = temperature}); }),
        "temperature of"));
}

}  // namespace cubist::test::generate_test
