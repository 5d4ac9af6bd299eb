// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/nn/transformer/transformer.hpp"

#include "nn.hpp"
#include "small_transformer.hpp"
#include "transformer_labels.hpp"

// Tests labels beside the ids: texts of unequal length, padding, and tokens that are given.

namespace cubist::test::transformer_labels_test
{

static TransformerConfig config_of(bool llama)
{
  auto config = small_transformer(llama);
  config.positions = 9;
  return config;
}

/// Texts of unequal length; the first two tokens of each are given, and not learned.
const std::vector<std::vector<int>> texts{
    {3, 1, 4, 1, 5, 9}, {2, 7, 1, 8}, {1, 6, 1, 8, 0, 3, 3, 9}, {0, 5, 7}};
constexpr std::size_t longest = 8;

/// The texts padded to equal length, and their labels
static std::pair<std::vector<int>, std::vector<int>> padded()
{
  std::vector<int> ids, labels;
  for (const auto& text : texts)
    for (std::size_t i = 0; i < longest; ++i)
    {
      ids.push_back(i < text.size() ? text[i] : 11);
      labels.push_back(i >= 2 && i < text.size() ? text[i] : -100);
    }
  return {ids, labels};
}

/// Checks that a batch's loss is the mean of its texts' losses, weighted by their tokens, and that
/// its gradients are, too.
template <class S>
void is_mean_of_texts(const Place<S>& place, bool llama)
{
  if (!fits(place)) return;
  INFO(place.name() << (llama ? ", Llama" : ", GPT-2"));
  require_clear(on_mesh(place, [&](const auto& mesh) {
    Findings found;
    Transformer<S, TestBackend, double> model{mesh, config_of(llama)};
    const auto [ids, labels] = padded();
    const double count = static_cast<double>(count_predicted(labels, longest));
    found.check(count == 13, "tokens that count: ", count);
    double loss = 0;
    std::vector<std::vector<double>> sums;
    for (const auto& text : texts)
    {
      auto own = text;
      own[0] = own[1] = -100;
      const double weight = static_cast<double>(count_predicted(own, text.size())) / count;
      loss += weight * model.compute_gradients(text, own, text.size(), weight);
      const auto gradients = gradients_of(model);
      if (sums.empty()) sums = std::vector<std::vector<double>>(gradients.size());
      for (std::size_t p = 0; p < gradients.size(); ++p)
      {
        sums[p].resize(gradients[p].size());
        for (std::size_t i = 0; i < sums[p].size(); ++i) sums[p][i] += gradients[p][i];
      }
    }
    const double got = model.compute_gradients(ids, labels, longest);
    found.check(std::abs(got - loss) <= 1e-14 * loss, "the loss is ", got, " where ", loss,
                " is wanted");
    const double off = distance(gradients_of(model), sums);
    found.check(off <= 1e-12, "gradients are off by ", off);
    check_labels(model, ids, longest, 1e-12, found);
    return found;
  }));
}

TEST_CASE("texts of unequal length, padded, have the mean loss and gradients of all their tokens")
{
  for (const bool llama : {false, true})
  {
    is_mean_of_texts(one_rank, llama);
    is_mean_of_texts(two_two_two, llama);
    is_mean_of_texts(Place<DataParallel<Summa2D>>{8, {2, {.q = 2}}}, llama);
  }
}

TEST_CASE("a label beside the first token, and a text that is padding alone, may be anything")
{
  if (!fits(two_two_two)) return;
  const auto [loss, same] = on_root(two_two_two, [](const auto& mesh) {
    Transformer<Summa25D, TestBackend, double> model{mesh, config_of(false)};
    const std::vector ids{1, 2, 3, 4, 5, 6, 7, 8, -1, -1, -1, -1};
    const std::vector labels{99, -100, 3, 4, -1, 6, -100, -100, 77, -100, -100, -100};
    const std::vector valid{1, 2, 3, 4, 5, 6, 0, 0, 9, 9, 9, 9};
    const std::vector usual{-100, -100, 3, 4, -100, 6, -100, -100, -100, -100, -100, -100};
    const double got = model.compute_gradients(ids, labels, std::size_t{4});
    const auto gradients = gradients_of(model);
    const double wanted = model.compute_gradients(valid, usual, std::size_t{4});
    return std::pair{got == wanted && gradients_of(model) == gradients,
                     model.evaluate(ids, labels, 4) == model.evaluate(valid, usual, 4)};
  });
  CHECK(loss);
  CHECK(same);
}

TEST_CASE("ranks whose labels end at different lengths get the error of labels that differ")
{
  if (!fits(two_two_two)) return;
  const auto messages = on_mesh(two_two_two, [](const auto& mesh) {
    using S = std::decay_t<decltype(two_two_two)>::Scheme;
    Transformer<S, TestBackend, double> model{mesh, config_of(false)};
    auto [ids, labels] = padded();
    if (mesh.rank() == 5)
      for (std::size_t i = 0; i < labels.size(); ++i)
        if (i % longest > 3) labels[i] = -100;
    return message_of<ArgumentError>([&, &all = labels, &tokens = ids] {
      static_cast<void>(double{model.compute_gradients(tokens, all, longest)});
    });
  });
  for (const auto& message : messages)
    CHECK(mentions(message, "got labels that differ between ranks"));
}

TEST_CASE("labels that do not fit the tokens are refused")
{
  const auto messages = on_root(one_rank, [](const auto& mesh) {
    Transformer<Summa2D, TestBackend, double> model{mesh, config_of(false)};
    const std::vector ids{1, 2, 3, 4, 5, 6};
    std::vector<std::string> all;
    const auto refused = [&](const std::vector<int>& labels) {
      all.push_back(
          message_of<Error>([&] { (void)model.compute_gradients(ids, labels, std::size_t{3}); }));
      all.push_back(message_of<Error>([&] { (void)model.evaluate(ids, labels, 3); }));
    };
    refused({1, 2, 3});
    refused({1, 2, 3, 4, 5, 13});
    refused({1, 2, 3, 4, 5, -1});
    return all;
  });
  for (std::size_t i = 0; i < 2; ++i)
  {
    CHECK(mentions(messages[i], "got 3 labels for 6 tokens", "one label for each token"));
    CHECK(mentions(messages[2 + i], "got label 13 for row 5", "use 0 to 12, or -100"));
    CHECK(mentions(messages[4 + i], "got label -1 for row 5"));
  }
}

}  // namespace cubist::test::transformer_labels_test
