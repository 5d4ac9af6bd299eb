// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Checks how labels beside the ids change a transformer's loss and gradients, on any scheme and
// backend.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "cubist/matrix/global.hpp"
#include "cubist/matrix/redistribute.hpp"
#include "cubist/mesh/stages.hpp"
#include "cubist/nn/losses/labels.hpp"

#include "ranks.hpp"

namespace cubist::test
{

/// This rank's blocks of all gradients.
template <class Model>
[[nodiscard]] auto gradients_of(Model& model)
{
  std::vector<std::vector<typename Model::Value>> all;
  for (const auto& p : model.parameters())
  {
    auto& one = all.emplace_back();
    const MatrixView<const typename Model::Value> block = p.gradient.valid();
    one.resize(block.size());
    model.mesh().engine().download(block,
                                   MatrixView<typename Model::Value>{one.data(), block.shape()});
  }
  return all;
}

/// The largest difference between two sets of gradients, relative to each gradient's largest
/// element.
template <class Gradients>
[[nodiscard]] double distance(const Gradients& a, const Gradients& b)
{
  double worst = 0, largest_of_all = 0;
  for (const auto& gradient : b)
    for (const auto x : gradient)
      largest_of_all = std::max(largest_of_all, std::abs(static_cast<double>(x)));
  for (std::size_t p = 0; p < a.size(); ++p)
  {
    double largest = 0, off = 0;
    for (std::size_t i = 0; i < a[p].size(); ++i)
    {
      largest = std::max(largest, std::abs(static_cast<double>(b[p][i])));
      off = std::max(off, std::abs(static_cast<double>(a[p][i] - b[p][i])));
    }
    // The gradient of a key's bias is 0 except for rounding.
    if (off > 0) worst = std::max(worst, off / std::max(largest, 0.1 * largest_of_all));
  }
  return worst;
}

/// Extends sequences of `length` tokens to `longer` tokens.
[[nodiscard]] inline std::vector<int> extended(const std::vector<int>& of, std::size_t length,
                                               std::size_t longer, int by)
{
  std::vector<int> all;
  for (std::size_t i = 0; i < of.size(); i += length)
  {
    const auto begin = of.begin() + static_cast<std::ptrdiff_t>(i);
    all.insert(all.end(), begin, begin + static_cast<std::ptrdiff_t>(length));
    all.insert(all.end(), longer - length, by);
  }
  return all;
}

/// Checks that padding changes no bit, whatever it is, and that tokens with the label -100 do not
/// count in the loss.
/// @param tolerance the tolerance for the gradient of one token
template <class Model>
void check_labels(Model& model, const std::vector<int>& ids, std::size_t length, double tolerance,
                  Findings& found)
{
  const double loss = model.compute_gradients(ids, length);
  const auto gradients = gradients_of(model);
  const double same = model.compute_gradients(ids, ids, length);
  found.check(same == loss && gradients_of(model) == gradients, "the ids as labels");

  const std::size_t longer = std::min(length + 3, model.config().positions);
  const auto labels = extended(ids, length, longer, ignored_label);
  // Even an id that the vocabulary lacks may be padding.
  for (const int padding : {0, 5, -1})
  {
    const auto padded = extended(ids, length, longer, padding);
    const double got = model.compute_gradients(padded, labels, longer);
    found.check(got == loss, "the loss with padding ", padding, " is off by ", got - loss);
    found.check(gradients_of(model) == gradients, "gradients with padding ", padding,
                " are off by ", distance(gradients_of(model), gradients));
    found.check(model.evaluate(padded, labels, longer) == model.evaluate(ids, length),
                "the loss without gradients, with padding ", padding);
  }

  // A text that is shorter than others is padded, too.
  auto shorter = ids, shorter_labels = ids;
  std::vector<decltype(gradients_of(model))> of_padding;
  std::vector<double> losses;
  for (std::size_t i = length - 3; i < length; ++i) shorter_labels[i] = ignored_label;
  for (const int padding : {0, 5, 1'000'000})
  {
    for (std::size_t i = length - 3; i < length; ++i) shorter[i] = padding;
    losses.push_back(model.compute_gradients(shorter, shorter_labels, length));
    of_padding.push_back(gradients_of(model));
  }
  for (const std::size_t i : {1U, 2U})
    found.check(losses[0] == losses[i] && of_padding[0] == of_padding[i],
                "the padding of a shorter text changes gradients by ",
                distance(of_padding[i], of_padding[0]));

  // Without any label, the loss is a mean over nothing.
  const std::vector<int> none(ids.size(), ignored_label);
  const double of_none = model.compute_gradients(ids, none, length);
  found.check(std::isnan(of_none) && std::isnan(model.evaluate(ids, none, length)),
              "the mean over no label is ", of_none);
  for (const auto& gradient : gradients_of(model))
    for (const auto x : gradient)
      if (x != typename Model::Value{}) found.check(false, "a gradient without labels is ", x);

  // One token of the last sequence: computes its loss by hand, and the gradients from its logits.
  const std::size_t token = ids.size() - length / 2;
  std::vector<int> one(ids.size(), ignored_label);
  one[token] = ids[token];
  const double got = model.compute_gradients(ids, one, length);
  const auto of_one = gradients_of(model);
  auto all = gather(model.predict(ids, length));
  double wanted = 0;
  if (model.mesh().rank() == 0)
  {
    std::vector<double> row;
    for (std::size_t j = 0; j < all.shape(1); ++j)
      row.push_back(static_cast<double>(all(token - 1, j)));
    const double largest = *std::max_element(row.begin(), row.end());
    double sum = 0;
    for (const double x : row) sum += std::exp(x - largest);
    const auto label = static_cast<std::size_t>(ids[token]);
    wanted = std::log(sum) - (row[label] - largest);
    all.fill(0);
    for (std::size_t j = 0; j < row.size(); ++j)
      all(token - 1, j) = static_cast<typename Model::Value>(std::exp(row[j] - largest) / sum -
                                                             (j == label ? 1 : 0));
    found.check(std::abs(got - wanted) <= tolerance * wanted, "the loss of one token is ", got,
                " where ", wanted, " is wanted");
  }
  if constexpr (!HasStages<typename Model::Mesh>)
  {
    model.backward(scatter_like(model.forward(ids, length), all));
    const double off = distance(of_one, gradients_of(model));
    found.check(off <= tolerance, "the gradients of one token are off by ", off);
  }
}

}  // namespace cubist::test
