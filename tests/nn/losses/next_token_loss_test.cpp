// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/nn/losses/next_token_loss.hpp"
#include "cubist/scheme/grid2d.hpp"

#include "nn.hpp"

namespace cubist::test::next_token_loss_test
{

constexpr std::size_t sequences = 3, length = 5, vocabulary = 7;

static std::vector<int> tokens() { return classes(sequences * length, vocabulary); }

/// Checks the loss and its gradient on a mesh against serial ones.
/// @param labels the labels beside the tokens
template <class S>
void equals_serial(const Place<S>& place, const std::vector<int>& labels)
{
  CAPTURE(place.name(), labels);
  const bool own = labels != tokens();
  const auto logits = uniform<double>(sequences * length, vocabulary, 1, 5);
  const auto [loss, without, gradient] = on_root<Threads>(place, [&](const auto& mesh) {
    const auto y = scatter<typename S::Output>(mesh, logits);
    auto dy = y;
    const double l = own ? next_token_loss(y, tokens(), labels, length, dy)
                         : next_token_loss(y, tokens(), length, dy);
    const double w =
        own ? next_token_loss(y, tokens(), labels, length) : next_token_loss(y, tokens(), length);
    return std::tuple{l, w, gather(dy)};
  });
  double wanted = 0;
  auto slopes = logits;
  slopes.fill(0);
  double count = 0;
  for (std::size_t i = 0; i < labels.size(); ++i)
    count += i % length > 0 && labels[i] != -100 ? 1 : 0;
  CHECK(static_cast<double>(count_predicted(labels, length)) == count);
  for (std::size_t i = 0; i + 1 < labels.size(); ++i)
  {
    if (i % length == length - 1 || labels[i + 1] == -100) continue;
    double sum = 0;
    for (std::size_t j = 0; j < vocabulary; ++j) sum += std::exp(logits(i, j));
    const auto label = static_cast<std::size_t>(labels[i + 1]);
    wanted += (std::log(sum) - logits(i, label)) / count;
    for (std::size_t j = 0; j < vocabulary; ++j)
      slopes(i, j) = (std::exp(logits(i, j)) / sum - (j == label ? 1 : 0)) / count;
  }
  CHECK(std::abs(loss - wanted) < 1e-14);
  CHECK(without == loss);
  CHECK(difference(gradient, slopes) < 1e-15);
}

TEST_CASE("the loss of the next token and its gradient equal serial ones")
{
  equals_serial(Place<Summa2D>{6, {.rows = 2, .cols = 3}}, tokens());
  equals_serial(cube, tokens());
  equals_serial(Place<Grid2D>{4, {.x = 2, .y = 2}}, tokens());
}

/// Labels for prompts of 2 tokens, which are not learned, and texts of 5, 4 and 3 tokens.
static std::vector<int> labels_of_texts()
{
  auto labels = tokens();
  for (const std::size_t i : {0U, 1U, 5U, 6U, 9U, 10U, 11U, 13U, 14U}) labels[i] = -100;
  return labels;
}

TEST_CASE("labels of -100 beside the tokens are ignored, on whatever rank they are")
{
  auto one = std::vector<int>(sequences * length, -100);
  one[8] = 4;
  for (const auto& labels : {labels_of_texts(), one})
  {
    equals_serial(Place<Summa2D>{6, {.rows = 2, .cols = 3}}, labels);
    equals_serial(cube, labels);
    equals_serial(Place<Grid2D>{4, {.x = 2, .y = 2}}, labels);
  }
}

TEST_CASE("the loss of no token is a NaN, as in PyTorch, and its gradient is 0")
{
  const auto [loss, gradient] = on_root<Threads>(two_by_two, [](const auto& mesh) {
    const auto y = scatter<Summa2D::Output>(mesh, uniform<double>(6, 4, 1));
    auto dy = y;
    // No token predicts the first token of a sequence, so its label does not count, whatever it is,
    // even if it differs between ranks.
    const double l =
        next_token_loss(y, std::vector{0, 1, 2, 3, 0, 1},
                        std::vector{-7, -100, -100, 4 + mesh.rank(), -100, -100}, 3, dy);
    return std::pair{l, gather(dy)};
  });
  CHECK(std::isnan(loss));
  for (const double slope : gradient) CHECK(slope == 0);
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
    found.check(mentions(refused({0, 1, 2, 3, 4, 1}, 3), "got label 4"), "columns");
    const auto refused_labels = [&](const std::vector<int>& labels) {
      return message_of<Error>([&] {
        (void)next_token_loss(y, std::vector{0, 1, 2, 3, 0, 1}, labels, 3);
      });
    };
    found.check(mentions(refused_labels({0, 1, 2}), "got 3 labels for 6 tokens", "-100"), "labels");
    found.check(mentions(refused_labels({0, 1, 2, 3, -1, 1}), "got label -1 for row 4"), "a label");
    found.check(mentions(refused_labels({0, 1, 4, 3, 0, 1}), "got label 4 for row 2"), "a label");
    return found;
  }));
}

TEST_CASE(
    "ids or a length that differ between ranks are refused, the first token of a sequence too")
{
  for (int rank = 0; rank < 4; ++rank)
    for (const std::size_t changed : {0U, 1U, 3U, 5U, 6U, 7U})
    {
      CAPTURE(rank, changed);
      for (const auto& message : on_mesh<Threads>(two_by_two, [&](const auto& mesh) {
             const auto y = scatter<Summa2D::Output>(mesh, uniform<double>(6, 4, 1));
             std::vector<int> ids{0, 1, 2, 3, 0, 1};
             const bool differs = mesh.rank() == rank;
             if (differs && changed < 6) ids[changed] = (ids[changed] + 1) % 4;
             const std::size_t sequence = differs && changed == 6 ? 6 : 3;
             std::vector<int> labels{-100, 1, 2, -100, 0, 1};
             if (differs && changed == 7) labels[1] = -100;
             if (changed < 7)
             {
               const auto message = message_of<ArgumentError>(
                   [&] { (void)next_token_loss(y, ids, labels, sequence); });
               if (!mentions(message, "differ between ranks")) return message;
               return message_of<ArgumentError>([&] { (void)next_token_loss(y, ids, sequence); });
             }
             return message_of<ArgumentError>(
                 [&] { (void)next_token_loss(y, ids, labels, sequence); });
           }))
        CHECK(mentions(message, "differ between ranks"));
    }
}

}  // namespace cubist::test::next_token_loss_test
