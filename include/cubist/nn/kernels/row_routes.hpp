// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Which rank sends rows of a table to which, where row i of a matrix is row ids[i] of the table, or
// the sum of the gradients of such rows. All ranks know the ids, so all know all messages.
//
//   table E (V, d), matrix H (M, d): any layouts; H(i, :) = E(ids[i], :)
//
// A receiver gets each distinct id of a block once. Of replicas of a block the receiver's own is
// read, or else the one that its rank selects.

#include <algorithm>
#include <cstddef>
#include <limits>
#include <span>
#include <vector>

#include "cubist/core/block.hpp"
#include "cubist/core/host_device.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/dist/placement.hpp"
#include "cubist/engine/widened.hpp"

namespace cubist::detail
{

/// A message from the holder of a block to that of another, in columns that both have.
struct RowRoute
{
  int from = 0;
  int to = 0;
  Range rows;   // of H: those of its block
  Range vocab;  // of E
  Range cols;   // of both; `size` is the number
};

/// The routes from blocks of one matrix to those of the other that this rank has a part in; those
/// to one receiver in the order of their columns. There is at most one from a rank to another.
/// @param from, to (rank) its block  @param rows_of_to whether `to` is H, and `from` E
template <class From, class To>
[[nodiscard]] std::vector<RowRoute> row_routes(int ranks, int rank, From from, To to,
                                               bool rows_of_to)
{
  std::vector<RowRoute> mine;
  const auto sources = replica_map(ranks, from);
  for (int receiver = 0; receiver < ranks; ++receiver)
  {
    const Block target = to(receiver);
    if (target.valid().size() == 0) continue;
    for (const auto& [_, holders] : sources)
    {
      const Block source = from(holders.front());
      const bool own = std::find(holders.begin(), holders.end(), receiver) != holders.end();
      const int sender =
          own ? receiver : holders[static_cast<std::size_t>(receiver) % holders.size()];
      if (sender != rank && receiver != rank) continue;
      const std::size_t begin = std::max(source.cols.offset, target.cols.offset);
      const std::size_t end =
          std::min(source.cols.offset + source.cols.valid, target.cols.offset + target.cols.valid);
      if (begin >= end) continue;
      mine.push_back({sender,
                      receiver,
                      rows_of_to ? target.rows : source.rows,
                      rows_of_to ? source.rows : target.rows,
                      {begin, end - begin, end - begin}});
    }
  }
  std::stable_sort(mine.begin(), mine.end(), [](const RowRoute& a, const RowRoute& b) {
    return a.to < b.to || (a.to == b.to && a.cols.offset < b.cols.offset);
  });
  return mine;
}

/// The distinct ids of some rows within a range of the vocabulary, numbered in the order of their
/// first rows. Its memory is used again.
class DistinctIds
{
 public:
  /// For ids below `vocabulary`.
  void reserve(std::size_t vocabulary)
  {
    stamps_.assign(vocabulary, 0);
    numbers_.resize(vocabulary);
    list_.reserve(vocabulary);
    stamp_ = 0;
  }

  /// @pre reserve was called
  void find(std::span<const int> ids, const Range& rows, const Range& vocab)
  {
    if (stamp_ == std::numeric_limits<unsigned>::max())
    {
      std::fill(stamps_.begin(), stamps_.end(), 0U);
      stamp_ = 0;
    }
    ++stamp_;
    list_.clear();
    for (std::size_t i = rows.offset; i < rows.offset + rows.valid; ++i)
    {
      const auto id = static_cast<std::size_t>(ids[i]);
      if (id < vocab.offset || id >= vocab.offset + vocab.valid || stamps_[id] == stamp_) continue;
      stamps_[id] = stamp_;
      numbers_[id] = static_cast<int>(list_.size());
      list_.push_back(static_cast<int>(id));
    }
  }

  [[nodiscard]] const std::vector<int>& list() const { return list_; }
  [[nodiscard]] bool has(int id) const { return stamps_[static_cast<std::size_t>(id)] == stamp_; }
  /// @pre has(id)
  [[nodiscard]] int number(int id) const { return numbers_[static_cast<std::size_t>(id)]; }

 private:
  std::vector<unsigned> stamps_;  // of the search that last found an id
  std::vector<int> numbers_;
  std::vector<int> list_;
  unsigned stamp_ = 0;
};

/// Lists of rows, one for each row of a result: list i is rows[starts[i], starts[i + 1]).
struct RowLists
{
  std::vector<int> starts;
  std::vector<int> rows;

  /// The row of a result, and one that is added to it.
  struct Entry
  {
    int list;
    int row;
  };

  /// Makes `count` lists, each with its rows in the order of the entries.
  void group(std::size_t count, const std::vector<Entry>& entries)
  {
    starts.assign(count + 1, 0);
    for (const auto& e : entries) ++starts[static_cast<std::size_t>(e.list) + 1];
    for (std::size_t i = 0; i < count; ++i) starts[i + 1] += starts[i];
    rows.resize(entries.size());
    for (const auto& e : entries)
      rows[static_cast<std::size_t>(starts[static_cast<std::size_t>(e.list)]++)] = e.row;
    for (std::size_t i = count; i > 0; --i) starts[i] = starts[i - 1];
    starts[0] = 0;
  }
};

/// Element j of the sum of the rows of list i; added to what is there.
template <class T>
struct SumOfRows
{
  const T* data;
  std::size_t ld;
  const int* starts;
  const int* rows;

  CUBIST_HOST_DEVICE Accumulator<T> operator()(std::size_t i, std::size_t j) const
  {
    Accumulator<T> sum{};
    for (int k = starts[i]; k < starts[i + 1]; ++k)
      sum += wide(data[static_cast<std::size_t>(rows[k]) * ld + j]);
    return sum;
  }
  CUBIST_HOST_DEVICE Accumulator<T> operator()(std::size_t i, std::size_t j,
                                               const Accumulator<T>& x) const
  {
    return x + (*this)(i, j);
  }
};

}  // namespace cubist::detail
