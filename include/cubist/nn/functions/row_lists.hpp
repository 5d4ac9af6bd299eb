// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Which rows of a table are copied, and which rows of gradients are summed, as lists that an engine
// reads (RowLists).
//
// Both classes keep their memory. The memory that is reserved suffices for any ids of that number
// of rows.

#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "cubist/core/block.hpp"
#include "cubist/core/matrix_view.hpp"
#include "cubist/engine/engine.hpp"

namespace cubist::CUBIST_ABI::detail
{

/// The distinct ids of some rows within a range of the vocabulary, numbered in the order of their
/// first rows.
class DistinctIds
{
 public:
  /// Reserves memory for a vocabulary, and for the ids of `rows` rows.
  void reserve(std::size_t vocabulary, std::size_t rows)
  {
    stamps_.assign(vocabulary, 0);
    numbers_.resize(vocabulary);
    list_.reserve(std::min(vocabulary, rows));
    stamp_ = 0;
  }

  /// @pre the ids are in the vocabulary, and memory is reserved
  void find(std::span<const int> ids, const Range& rows, const Range& vocab)
  {
    if (++stamp_ == 0)  // after 2^32 searches
    {
      std::fill(stamps_.begin(), stamps_.end(), 0U);
      stamp_ = 1;
    }
    list_.clear();
    for (std::size_t i = rows.offset; i < rows.offset + rows.valid; ++i)
    {
      const auto id = static_cast<std::size_t>(ids[i]);
      if (id - vocab.offset >= vocab.valid || stamps_[id] == stamp_) continue;
      stamps_[id] = stamp_;
      numbers_[id] = static_cast<unsigned>(list_.size());
      list_.push_back(static_cast<unsigned>(id));
    }
  }

  [[nodiscard]] std::size_t size() const { return list_.size(); }
  /// The id with a number.
  [[nodiscard]] std::size_t operator[](std::size_t number) const { return list_[number]; }
  /// The number of an id; empty if the id is not among them.
  [[nodiscard]] std::optional<std::size_t> number(int id) const
  {
    const auto i = static_cast<std::size_t>(id);
    if (stamps_[i] != stamp_) return std::nullopt;
    return numbers_[i];
  }

 private:
  std::vector<unsigned> stamps_;  // for each id, the number of the search that last found it
  std::vector<unsigned> numbers_;
  std::vector<unsigned> list_;
  unsigned stamp_ = 0;
};

/// Lists of rows, made on the host one after the other, and uploaded all at once.
class HostRowLists
{
 public:
  void reserve(std::size_t lists, std::size_t rows)
  {
    starts_.reserve(lists + 2);  // add_grouped needs one more
    targets_.reserve(lists);
    rows_.reserve(rows);
  }
  void clear()
  {
    starts_.assign(1, 0);
    targets_.clear();
    rows_.clear();
  }
  /// The number of lists.
  [[nodiscard]] std::size_t size() const { return targets_.size(); }

  /// Adds a list of one row.
  void add(std::size_t target, std::size_t row)
  {
    targets_.push_back(static_cast<int>(target));
    rows_.push_back(static_cast<int>(row));
    starts_.push_back(static_cast<int>(rows_.size()));
  }

  /// Adds `count` lists. Row i goes to list number(i), unless number(i) is empty, for i in [0, n)
  /// in this order; list l is for row target(l).
  template <class Number, class Target>
  void add_grouped(std::size_t count, std::size_t n, Number number, Target target)
  {
    // A counting sort: next[l + 1] counts the rows of list l; then next[l] is where its next row
    // goes, and in the end where it ends.
    starts_.resize(starts_.size() + count + 1, 0);
    int* const next = &starts_[size() + 1];
    for (std::size_t i = 0; i < n; ++i)
      if (const auto l = number(i)) ++next[*l + 1];
    next[0] = static_cast<int>(rows_.size());
    for (std::size_t l = 0; l < count; ++l) next[l + 1] += next[l];
    rows_.resize(static_cast<std::size_t>(next[count]));
    for (std::size_t i = 0; i < n; ++i)
      if (const auto l = number(i))
        rows_[static_cast<std::size_t>(next[*l]++)] = static_cast<int>(i);
    starts_.pop_back();
    for (std::size_t l = 0; l < count; ++l) targets_.push_back(static_cast<int>(target(l)));
  }

  /// Lists [first, first + count) of those that `upload` has copied to `memory`.
  [[nodiscard]] RowLists part(std::size_t first, std::size_t count, const int* memory) const
  {
    const int* const targets = memory + starts_.size();
    return {count, memory + first, targets + targets_.size(), targets + first};
  }
  /// The number of integers that `upload` copies for this many lists and rows.
  [[nodiscard]] static std::size_t numbers(std::size_t lists, std::size_t rows)
  {
    return 2 * lists + 1 + rows;
  }
  template <Engine E>
  void upload(const E& engine, int* memory) const
  {
    for (const auto* v : {&starts_, &targets_, &rows_})
    {
      const Shape shape{1, v->size()};
      engine.upload(MatrixView<const int>{v->data(), shape}, MatrixView<int>{memory, shape});
      memory += v->size();
    }
  }

 private:
  std::vector<int> starts_{0};
  std::vector<int> targets_;
  std::vector<int> rows_;
};

}  // namespace cubist::CUBIST_ABI::detail
