// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The labels of a distributed output: the class number of each row. Every rank has the labels of
// all rows, so it knows how many rows count, wherever they are. A row with the label -100 counts
// neither in a mean nor in a gradient.
//
// The message that sums a loss over the ranks also checks that all ranks have the same labels. It
// contains the sums of h and of h^2, where h < 2^18 is a checksum of a rank's labels. By the
// Cauchy-Schwarz inequality, P sum h^2 = (sum h)^2 if and only if all P ranks have the same h.
// Labels that differ have different checksums with a probability of 1 - 2^-18.
//
// Elements that one rank sends: 6 (P-1)/P doubles, P being the number of ranks in the mesh.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "cubist/core/block.hpp"
#include "cubist/core/error.hpp"
#include "cubist/core/fingerprint.hpp"
#include "cubist/engine/engine.hpp"
#include "cubist/nn/losses/loss_value.hpp"

namespace cubist::CUBIST_ABI
{

/// The label of a row that a loss ignores, such as padding or a token that was given. PyTorch calls
/// it `ignore_index`.
inline constexpr int ignored_label = -100;

namespace detail
{

/// @throws ShapeError unless there is one label per row
inline void check_label_count(std::span<const int> labels, Shape y)
{
  require<ShapeError>(labels.size() == y.rows, "got ", labels.size(), " labels for an output of ",
                      y, ", so labels and rows do not correspond; give one label for each row");
  require<ShapeError>(y.rows == 0 || y.cols > 0, "got an output of ", y,
                      ", so there are no classes; give it a column for each class");
}

/// @throws ArgumentError for a label that is neither a column nor `ignored_label`
inline void check_label(int label, std::size_t row, Shape y)
{
  require<ArgumentError>(
      label == ignored_label || (label >= 0 && static_cast<std::size_t>(label) < y.cols),
      "got label ", label, " for row ", row, ", but the output has ", y.cols, " classes; use 0 to ",
      y.cols - 1, ", or ", ignored_label, " for a row that the loss ignores");
}

/// @throws what the two functions above throw
inline void check_labels(std::span<const int> labels, Shape y)
{
  check_label_count(labels, y);
  for (std::size_t i = 0; i < labels.size(); ++i) check_label(labels[i], i, y);
}

/// The number of rows that have a label.
[[nodiscard]] inline std::size_t count_labels(std::span<const int> labels)
{
  return static_cast<std::size_t>(
      std::count_if(labels.begin(), labels.end(), [](int label) { return label >= 0; }));
}

/// Returns a checksum below 2^18. The sums of checksums and of their squares over up to 2^17 ranks
/// are exact in double.
[[nodiscard]] inline std::uint64_t label_checksum(std::span<const int> labels)
{
  std::uint64_t sum = labels.size();
  for (std::size_t i = 0; i < labels.size(); i += 2)  // two of them are 64 bits
  {
    const auto low = static_cast<std::uint32_t>(labels[i]);
    const auto high = static_cast<std::uint64_t>(i + 1 < labels.size() ? labels[i + 1] : 0);
    sum += mix(high << 32 | low, i);
  }
  return sum >> 46;
}

/// Returns sum / count. The mean of no numbers is a NaN, as in PyTorch. It is 0 if matrices have no
/// elements, as every loss is then.
template <class E>
[[nodiscard]] double mean_of(double sum, double count)
{
  if (count > 0) return sum / count;
  return has_elements<E> ? std::numeric_limits<double>::quiet_NaN() : 0;
}

/// A mean, and the number of rows that it averages.
struct CountedMean
{
  LossValue mean;
  std::size_t count;
};

/// Returns the mean over all rows that have a label, from the means over micro-batches.
/// @param all  the number of these rows
template <class E>
[[nodiscard]] double mean_of(const std::vector<CountedMean>& parts, std::size_t all)
{
  double sum = 0;
  for (const CountedMean& m : parts)
    if (m.count > 0) sum += m.mean * static_cast<double>(m.count);
  return mean_of<E>(sum, static_cast<double>(all));
}

/// Sums the first number of each block of layout L, and divides by `count`, the number of rows that
/// have a label. The result is the same on every rank; replicas count once. The mean of no rows is
/// that of mean_of(), or 0 for an output without rows.
/// @throws ArgumentError on every rank, when the value is read, if labels differ between ranks
template <class L, class M>
LossValue mean_over_labels(const M& mesh, LossSums<typename M::Engine, 3> sums,
                           std::span<const int> labels, std::size_t count)
{
  const bool counts = L::template is_primary<typename M::Axes>(mesh.coordinates());
  const auto h = static_cast<double>(label_checksum(labels));
  if (!counts) sums.set(0, 0);
  sums.set(1, h), sums.set(2, h * h);
  sums.all_reduce(mesh.world());
  return sums.value([ranks = static_cast<std::uint64_t>(mesh.size()),
                     n = static_cast<double>(labels.empty() ? 1 : count)](const auto& all) {
    const auto sum = static_cast<std::uint64_t>(all[1]);
    require<ArgumentError>(
        ranks * static_cast<std::uint64_t>(all[2]) == sum * sum,
        "got labels that differ between ranks, so the loss would mix them; pass the labels of all "
        "rows on every rank, in the same order (shuffle with the same seed)");
    return mean_of<typename M::Engine>(all[0], n);
  });
}

}  // namespace detail

}  // namespace cubist::CUBIST_ABI
