// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The indices of one dimension that a rank holds, as a formula: an interval, or every P-th block of
// a cyclic layout. A rank stores its indices in order, without gaps. All functions take a constant
// number of steps, except those that loop over runs.
//
//   blocks      0            1                2            …   of `first`, then `block` indices
//   the set     block `place`, block `place + step`, …
//
// A window [lo, lo + n) turns it into the set of a sub-matrix: indices then count from lo, while
// positions in memory stay. `packed` moves the set to memory that holds nothing else.

#include <algorithm>
#include <cstddef>
#include <vector>

#include "cubist/core/block.hpp"

namespace cubist::CUBIST_ABI::detail
{

/// Indices that are consecutive in the dimension and in memory.
struct IndexRun
{
  std::size_t begin = 0;
  std::size_t end = 0;
  std::size_t position = 0;  ///< the position of `begin` in the memory of the rank
};

class IndexSet
{
 public:
  IndexSet() = default;

  /// Returns the set of the indices [begin, begin + size).
  /// @param position the position of the first index in memory
  [[nodiscard]] static IndexSet interval(std::size_t begin, std::size_t size,
                                         std::size_t position = 0)
  {
    IndexSet s;
    s.origin_ = begin;
    s.shift_ = position;
    s.first_ = size;
    s.end_ = s.hi_ = begin + size;
    return s;
  }

  /// Returns the set of the blocks place, place + parts, … of n indices.
  /// @pre first > 0, block > 0, place < parts
  [[nodiscard]] static IndexSet cyclic(std::size_t n, std::size_t first, std::size_t block,
                                       std::size_t place, std::size_t parts)
  {
    if (parts == 1) return interval(0, n);
    IndexSet s;
    s.first_ = first;
    s.block_ = block;
    s.place_ = place;
    s.step_ = parts;
    s.end_ = s.hi_ = n;
    return s;
  }

  /// Returns the indices of the set in [lo, lo + n), counted from lo.
  [[nodiscard]] IndexSet window(std::size_t lo, std::size_t n) const
  {
    IndexSet s{*this};
    s.lo_ = lo_ + lo;
    s.hi_ = std::min(hi_, s.lo_ + n);
    return s;
  }
  /// Returns a set with these indices that is stored without gaps, starting at `position`.
  [[nodiscard]] IndexSet packed(std::size_t position = 0) const
  {
    IndexSet s{*this};
    s.shift_ += position - first_position();
    s.end_ = std::max(std::min(end_, hi_), origin_);
    return s;
  }

  /// Finds the first run that does not end before `x`; the run begins at `x` or later.
  /// @returns whether there is one
  [[nodiscard]] bool next(std::size_t x, IndexRun& run) const
  {
    std::size_t at = std::max(lo_ + x, origin_);
    if (at >= hi_) return false;
    std::size_t b = block_of(at);
    const std::size_t own = b <= place_ ? place_ : place_ + pad(b - place_, step_);
    if (own != b) at = start(b = own);
    if (at >= hi_) return false;
    run = {at - lo_, std::min(start(b + 1), hi_) - lo_,
           shift_ + position_of_run((b - place_) / step_) + at - start(b)};
    return true;
  }

  /// Returns how many of its indices are less than `x`.
  [[nodiscard]] std::size_t count_below(std::size_t x) const
  {
    return lo_ < hi_ ? position(std::min(lo_ + x, hi_)) - position(lo_) : 0;
  }
  /// The number of its indices.
  [[nodiscard]] std::size_t size() const { return lo_ < hi_ ? position(hi_) - position(lo_) : 0; }
  /// The number of indices that the rank stores, including those outside the window.
  [[nodiscard]] std::size_t stored() const { return shift_ + position(end_); }
  /// The position of its first index, or where that would be if it has none.
  [[nodiscard]] std::size_t first_position() const { return shift_ + position(lo_); }
  [[nodiscard]] bool is_interval() const { return place_ == 0 && end_ - origin_ <= first_; }
  /// The first index of an interval; `end` is the index after the last.
  [[nodiscard]] std::size_t begin() const { return std::max(origin_, lo_) - lo_; }
  [[nodiscard]] std::size_t end() const { return std::max(hi_, lo_) - lo_; }

  friend bool operator==(const IndexSet&, const IndexSet&) = default;

 private:
  [[nodiscard]] std::size_t block_of(std::size_t at) const
  {
    const std::size_t d = at - origin_;
    return d < first_ ? 0 : 1 + (d - first_) / block_;
  }
  [[nodiscard]] std::size_t start(std::size_t b) const
  {
    return b == 0 ? origin_ : origin_ + first_ + (b - 1) * block_;
  }
  /// Returns the position of run k. Only the last block may be shorter than its full size.
  [[nodiscard]] std::size_t position_of_run(std::size_t k) const
  {
    if (place_ > 0) return k * block_;
    return k == 0 ? 0 : first_ + (k - 1) * block_;
  }
  /// Returns how many indices of the whole set are less than `at`.
  [[nodiscard]] std::size_t position(std::size_t at) const
  {
    if (at <= origin_) return 0;
    if (at > end_) at = end_;
    const std::size_t b = block_of(at);
    const std::size_t before = b > place_ ? ceil_div(b - place_, step_) : 0;
    const bool is_own = b >= place_ && (b - place_) % step_ == 0;
    return position_of_run(before) + (is_own ? at - start(b) : 0);
  }

  std::size_t origin_ = 0;  // where block 0 begins
  std::size_t first_ = 0;   // the size of block 0
  std::size_t block_ = 1;   // the size of each later block
  std::size_t place_ = 0;   // the first block of the set
  std::size_t step_ = 1;    // the distance between blocks of the set, in blocks
  std::size_t end_ = 0;     // the end of the dimension
  std::size_t lo_ = 0;      // the window is [lo_, hi_)
  std::size_t hi_ = 0;
  std::size_t shift_ = 0;  // added to positions, modulo 2^64
};

/// Calls f(begin, size, position in a, position in b) for the runs that both sets contain, in
/// order.
template <class F>
void for_each_common_run(const IndexSet& a, const IndexSet& b, F f)
{
  IndexRun run_a;
  IndexRun run_b;
  for (std::size_t x = 0; a.next(x, run_a) && b.next(run_a.begin, run_b);)
  {
    x = run_b.begin;
    if (x >= run_a.end) continue;
    const std::size_t end = std::min(run_a.end, run_b.end);
    f(x, end - x, run_a.position + (x - run_a.begin), run_b.position);
    x = end;
  }
}

/// Returns the number of indices that both sets contain.
[[nodiscard]] inline std::size_t common_size(const IndexSet& a, const IndexSet& b)
{
  if (b.is_interval() && !a.is_interval()) return common_size(b, a);
  if (a.is_interval())
    return a.begin() < a.end() ? b.count_below(a.end()) - b.count_below(a.begin()) : 0;
  std::size_t n = 0;
  for_each_common_run(a, b,
                      [&](std::size_t, std::size_t size, std::size_t, std::size_t) { n += size; });
  return n;
}

/// Returns the indices of a set, in order.
[[nodiscard]] inline std::vector<std::size_t> indices(const IndexSet& set)
{
  std::vector<std::size_t> all;
  IndexRun run;
  for (std::size_t at = 0; set.next(at, run); at = run.end)
    for (std::size_t i = run.begin; i < run.end; ++i) all.push_back(i);
  return all;
}

}  // namespace cubist::CUBIST_ABI::detail
