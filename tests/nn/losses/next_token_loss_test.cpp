// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <tuple>
#include <vector>

#include "cubist/nn/losses/next_token_loss.hpp"
#include "cubist/scheme/grid2d.hpp"

#include "catch.hpp"
#include "nn.hpp"

namespace cubist::test::next_token_loss_test
{

namespace
{

constexpr std::size_t sequences = 3, length = 5, vocabulary = 7;

std::vector<int> tokens() { return classes(sequences * length, vocabulary); }

template <class S>
void equals_serial(const Place<S>& place)
{
  CAPTURE(place.name());
  const auto logits = uniform<double>(sequences * length, vocabulary, 1, 5);
  const auto [loss, without, gradient] = on_root<Threads>(place, [&](const auto& mesh) {
    const auto y = scatter<typename S::Output>(mesh, logits);
    auto dy = y;
    const double l = next_token_loss(y, tokens(), length, dy);
    const double w = next_token_loss(y, tokens(), length);
    return std::tuple{l, w, gather(dy)};
  });
  double wanted = 0;
  auto slopes = logits;
  slopes.fill(0);
  const auto ids = tokens();
  constexpr double count = sequences * (length - 1);
  for (std::size_t i = 0; i + 1 < ids.size(); ++i)
  {
    if (i % length == length - 1) continue;
    double sum = 0;
    for (std::size_t j = 0; j < vocabulary; ++j) sum += std::exp(logits(i, j));
    const auto label = static_cast<std::size_t>(ids[i + 1]);
    wanted += (std::log(sum) - logits(i, label)) / count;
    for (std::size_t j = 0; j < vocabulary; ++j)
      slopes(i, j) = (std::exp(logits(i, j)) / sum - (j == label ? 1 : 0)) / count;
  }
  CHECK(std::abs(loss - wanted) < 1e-14);
  CHECK(without == loss);
  CHECK(difference(gradient, slopes) < 1e-15);
}

}  // namespace

TEST_CASE("the loss of the next token and its gradient are a serial one's")
{
  equals_serial(Place<Summa2D>{6, {.rows = 2, .cols = 3}});
  equals_serial(cube);
  equals_serial(Place<Grid2D>{4, {.x = 2, .y = 2}});
}

TEST_CASE("the loss of the next token refuses sequences of one, and ids that do not fit")
{
  require_clear(on_mesh<Threads>(one_rank, [](const auto& mesh) {
    const auto y = scatter<Summa2D::Output>(mesh, uniform<double>(6, 4, 1));
    const auto refused = [&](const std::vector<int>& ids, std::size_t sequence) {
      return message_of<Error>([&] { (void)next_token_loss(y, ids, sequence); });
    };
    Findings found;
    found.check(mentions(refused({0, 1, 2, 3, 0, 1}, 1), "sequences of 1", "at least two"), "one");
    found.check(mentions(refused({0, 1, 2, 3, 0, 1}, 4), "6 tokens in sequences of 4"), "whole");
    found.check(mentions(refused({0, 1, 2}, 3), "got 3 labels"), "rows");
    found.check(mentions(refused({0, 1, 2, 4, 0, 1}, 3), "got label 4"), "columns");
    return found;
  }));
}

TEST_CASE(
    "ids or a length that differ between ranks are refused, the first token of a sequence too")
{
  for (int rank = 0; rank < 4; ++rank)
    for (const std::size_t changed : {0U, 1U, 3U, 5U, 6U})
    {
      CAPTURE(rank, changed);
      for (const auto& message : on_mesh<Threads>(two_by_two, [&](const auto& mesh) {
             const auto y = scatter<Summa2D::Output>(mesh, uniform<double>(6, 4, 1));
             std::vector<int> ids{0, 1, 2, 3, 0, 1};
             const bool differs = mesh.rank() == rank;
             if (differs && changed < 6) ids[changed] = (ids[changed] + 1) % 4;
             const std::size_t sequence = differs && changed == 6 ? 6 : 3;
             return message_of<ArgumentError>([&] { (void)next_token_loss(y, ids, sequence); });
           }))
        CHECK(mentions(message, "differ between ranks"));
    }
}

}  // namespace cubist::test::next_token_loss_test
