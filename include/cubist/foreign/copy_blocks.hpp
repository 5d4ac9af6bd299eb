// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The loops of a conversion: copies between the memory of two ranks, or between memory and a
// message, block by block. A block is a run of common rows times a run of common columns.
//
// Here, rows are the lines of the target in memory. A column-major target is handled as the
// row-major array of its transpose, and so is its source. A source whose lines run the other way is
// transposed in tiles: a cache line of each of a few columns is read, and a cache line of each of a
// few rows is written.
//
// A message holds the blocks one after the other, each row by row without gaps.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>
#include <vector>

#include "cubist/core/complex.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/foreign/index_set.hpp"
#include "cubist/foreign/matrix_part.hpp"
#include "cubist/foreign/patches.hpp"

namespace cubist::CUBIST_ABI::detail
{

/// Copies one element: y = x.
struct CopyElement
{
  template <class T>
  void operator()(T& y, const T& x) const
  {
    y = x;
  }
  template <class F>
  void with_assignment(F f) const
  {
    f(*this);
  }
};

/// Computes y = alpha x + beta y, or with the conjugate of x. It does not multiply by a complex
/// factor of 1, and does not read y if beta is 0, so that infinities and NaNs stay as they are.
template <class T>
class Combine
{
  using Number = DeviceValue<T>;  // compilers vectorise its products

  enum class Factor : std::uint8_t
  {
    zero,
    one,
    other
  };

  /// Assigns one element, for given kinds of factors. It has no branch, so compilers vectorise
  /// loops over it.
  template <Factor alpha, Factor beta>
  struct Assignment
  {
    Number of_x;
    Number of_y;
    Number sign;  // the sign of the imaginary part of x

    [[gnu::always_inline]] void operator()(T& y, const T& x) const
    {
      Number value{x};
      if constexpr (ComplexScalar<T>) value = {value.real(), sign.real() * value.imag()};
      if constexpr (alpha == Factor::other) value = of_x * value;
      if constexpr (beta == Factor::one) value = value + Number{y};
      if constexpr (beta == Factor::other) value = value + of_y * Number{y};
      y = static_cast<T>(value);
    }
  };

 public:
  Combine(T alpha, bool conjugates, T beta)
      : alpha_{Number(alpha)},
        beta_{Number(beta)},
        sign_(conjugates ? -1.0F : 1.0F)
  {
  }

  /// Calls f(assign), where assign(y, x) assigns one element.
  template <class F>
  void with_assignment(F f) const
  {
    const auto with_beta = [&]<Factor alpha>() {
      if (beta_ == Number{}) return f(Assignment<alpha, Factor::zero>{alpha_, beta_, sign_});
      if constexpr (ComplexScalar<T>)  // multiplying a real number by 1 changes nothing
        if (beta_ == Number{1}) return f(Assignment<alpha, Factor::one>{alpha_, beta_, sign_});
      f(Assignment<alpha, Factor::other>{alpha_, beta_, sign_});
    };
    if constexpr (ComplexScalar<T>)
      if (alpha_ == Number{1}) return with_beta.template operator()<Factor::one>();
    with_beta.template operator()<Factor::other>();
  }

  /// Computes y = beta y.
  void scale(T* y, std::size_t n) const
  {
    if (beta_ == Number{}) std::fill_n(y, n, T{});
    if (beta_ == Number{} || beta_ == Number{1}) return;
    const Number beta = beta_;
    for (std::size_t i = 0; i < n; ++i) y[i] = static_cast<T>(beta * Number{y[i]});
  }

 private:
  Number alpha_;
  Number beta_;
  Number sign_;
};

/// Calls assign(y(i, j), x(i, j)) for all elements; both are stored by rows. x and y are the same
/// elements, or share none.
template <class T, class A>
void copy_rows(const T* x, std::size_t x_ld, T* y, std::size_t y_ld, std::size_t rows,
               std::size_t cols, const A& assign)
{
  if constexpr (std::is_same_v<A, CopyElement>)
    for (std::size_t i = 0; i < rows && x != y; ++i) std::copy_n(x + i * x_ld, cols, y + i * y_ld);
  else
    assign.with_assignment([=](const auto element) {
      if (x == y)
      {
        for (std::size_t i = 0; i < rows; ++i)
          for (std::size_t j = 0; j < cols; ++j) element(y[i * y_ld + j], y[i * y_ld + j]);
        return;
      }
      for (std::size_t i = 0; i < rows; ++i)
      {
        const T* __restrict const in = x + i * x_ld;
        T* __restrict const out = y + i * y_ld;
        for (std::size_t j = 0; j < cols; ++j) element(out[j], in[j]);
      }
    });
}

/// Calls element(y(i, j), x(i, j)) for all elements; x is stored by columns. It goes down strips of
/// columns, in squares as wide as a cache line. The processor's prefetcher does not follow so many
/// columns, so reads are prefetched here.
template <class T, class E>
void transpose_block(const T* x, std::size_t x_ld, T* y, std::size_t y_ld, std::size_t rows,
                     std::size_t cols, const E element)
{
  constexpr std::size_t line = 64 / sizeof(T);  // elements of a cache line
  constexpr std::size_t n = sizeof(T) <= 4 ? 4 : 2;
  constexpr std::size_t ahead = 32;        // how many rows ahead of the copy to prefetch
  constexpr std::size_t strip_rows = 512;  // the next strip writes to the same pages
  const std::size_t strip_cols = rows > ahead ? 64 : line;
  const auto copy_edge = [&](std::size_t i0, std::size_t i1, std::size_t j0, std::size_t j1) {
    for (std::size_t i = i0; i < i1; ++i)
      for (std::size_t j = j0; j < j1; ++j) element(y[i * y_ld + j], x[j * x_ld + i]);
  };
  // Compilers turn a tile of n by n elements into register shuffles.
  const auto copy_tile = [&](std::size_t i0, std::size_t j0) {
    T values[n][n];
    for (std::size_t i = 0; i < n; ++i)
      for (std::size_t j = 0; j < n; ++j) values[i][j] = x[(j0 + j) * x_ld + i0 + i];
    for (std::size_t i = 0; i < n; ++i)
      for (std::size_t j = 0; j < n; ++j) element(y[(i0 + i) * y_ld + j0 + j], values[i][j]);
  };
  const std::size_t whole_rows = rows / line * line;
  const std::size_t whole_cols = cols / line * line;
  for (std::size_t i0 = 0; i0 < whole_rows; i0 += strip_rows)
    for (std::size_t j0 = 0; j0 < whole_cols; j0 += strip_cols)
    {
      const std::size_t i1 = std::min(i0 + strip_rows, whole_rows);
      const std::size_t j1 = std::min(j0 + strip_cols, whole_cols);
      for (std::size_t i = i0; i < i1; i += line)
        for (std::size_t j = j0; j < j1; j += n)
        {
          if (i + ahead < whole_rows)
            for (std::size_t k = 0; k < n; ++k) __builtin_prefetch(x + (j + k) * x_ld + i + ahead);
          for (std::size_t k = 0; k < line; k += n) copy_tile(i + k, j);
        }
    }
  copy_edge(0, whole_rows, whole_cols, cols);
  copy_edge(whole_rows, rows, 0, cols);
}

/// Calls assign(y(i, j), x(i, j)) for all elements; x is stored by columns.
template <class T, class A>
void copy_transposed(const T* x, std::size_t x_ld, T* y, std::size_t y_ld, std::size_t rows,
                     std::size_t cols, const A& assign)
{
  assign.with_assignment(
      [=](const auto element) { transpose_block(x, x_ld, y, y_ld, rows, cols, element); });
}

/// A local array of the source, indexed by the rows and columns of the target.
template <class T>
struct SourceArray
{
  const T* data = nullptr;
  std::size_t ld = 0;
  bool by_rows = true;

  [[nodiscard]] const T* at(std::size_t r, std::size_t c) const
  {
    return data + (by_rows ? r * ld + c : c * ld + r);
  }
  /// Copies the block of the array that begins at `x`.
  template <class A>
  void copy(const T* x, T* y, std::size_t y_ld, std::size_t rows, std::size_t cols,
            const A& assign) const
  {
    if (by_rows)
      copy_rows(x, ld, y, y_ld, rows, cols, assign);
    else
      copy_transposed(x, ld, y, y_ld, rows, cols, assign);
  }
};

/// Indices that are consecutive in two arrays.
struct CommonRun
{
  std::size_t begin = 0;  ///< the first index, if only a part of the matrix is copied
  std::size_t size = 0;
  std::size_t source = 0;  ///< its position in the source
  std::size_t target = 0;  ///< its position in the target
};

/// Appends the runs of the indices that two sets share.
/// @param joins whether to join runs that are adjacent in both arrays
inline void add_common_runs(std::vector<CommonRun>& runs, const IndexSet& source,
                            const IndexSet& target, bool joins = true)
{
  for_each_common_run(source, target,
                      [&](std::size_t i, std::size_t size, std::size_t s, std::size_t t) {
                        if (joins && !runs.empty())
                          if (CommonRun& last = runs.back();
                              last.source + last.size == s && last.target + last.size == t)
                          {
                            last.size += size;
                            return;
                          }
                        runs.push_back({i, size, s, t});
                      });
}

/// The elements that a source array and a target array share, seen so that the target is stored by
/// rows.
class CommonBlocks
{
 public:
  CommonBlocks() = default;
  CommonBlocks(const StoredSets& source, const StoredSets& target,
               MatrixPart part = MatrixPart::all)
      : part_{part},
        by_rows_{source.row_major == target.row_major}
  {
    add_common_runs(rows_, source.rows, target.rows, part == MatrixPart::all);
    add_common_runs(cols_, source.cols, target.cols, part == MatrixPart::all);
    if (target.row_major) return;
    std::swap(rows_, cols_);
    part_ = transposed(part_);
  }

  /// Makes the blocks of two arrays that are stored in the same order, from the common lines and
  /// the runs in each line.
  CommonBlocks(std::vector<CommonRun> lines, std::vector<CommonRun> runs)
      : rows_{std::move(lines)},
        cols_{std::move(runs)}
  {
  }

  /// Assigns the elements of x to those of y.
  template <class T, class A>
  void copy(const T* x, std::size_t x_ld, T* y, std::size_t y_ld, const A& assign) const
  {
    const SourceArray<T> source{x, x_ld, by_rows_};
    if (is_scattered())
      return copy_elements(x, offsets(rows_, &CommonRun::source, by_rows_ ? x_ld : 1),
                           offsets(cols_, &CommonRun::source, by_rows_ ? 1 : x_ld), y,
                           offsets(rows_, &CommonRun::target, y_ld),
                           offsets(cols_, &CommonRun::target, 1), assign);
    if (by_rows_ && part_ == MatrixPart::all)
      return for_each_in_lines([&](std::size_t from, std::size_t to, const CommonRun& c) {
        copy_rows(source.at(from, c.source), 0, y + to * y_ld + c.target, 0, 1, c.size, assign);
      });
    for_each([&](const CommonRun& r, const CommonRun& c) {
      source.copy(source.at(r.source, c.source), y + r.target * y_ld + c.target, y_ld, r.size,
                  c.size, assign);
    });
  }
  /// Packs the elements of x into a message, and returns its end.
  template <class T>
  T* pack(const T* x, std::size_t x_ld, T* message) const
  {
    const SourceArray<T> source{x, x_ld, by_rows_};
    if (is_scattered())
    {
      const auto rows = offsets(rows_, &CommonRun::source, by_rows_ ? x_ld : 1);
      const auto cols = offsets(cols_, &CommonRun::source, by_rows_ ? 1 : x_ld);
      copy_elements(x, rows, cols, message, multiples(rows.size(), cols.size()),
                    multiples(cols.size(), 1), CopyElement{});
      return message + rows.size() * cols.size();
    }
    for_each([&](const CommonRun& r, const CommonRun& c) {
      source.copy(source.at(r.source, c.source), message, c.size, r.size, c.size, CopyElement{});
      message += r.size * c.size;
    });
    return message;
  }
  /// Assigns the elements of a message to those of y, and returns the end of the message.
  template <class T, class A>
  const T* unpack(const T* message, T* y, std::size_t y_ld, const A& assign) const
  {
    if (is_scattered())
    {
      const auto rows = offsets(rows_, &CommonRun::target, y_ld);
      const auto cols = offsets(cols_, &CommonRun::target, 1);
      copy_elements(message, multiples(rows.size(), cols.size()), multiples(cols.size(), 1), y,
                    rows, cols, assign);
      return message + rows.size() * cols.size();
    }
    for_each([&](const CommonRun& r, const CommonRun& c) {
      copy_rows(message, c.size, y + r.target * y_ld + c.target, y_ld, r.size, c.size, assign);
      message += r.size * c.size;
    });
    return message;
  }

  /// Calls f(line of the source, line of the target, run in both), line by line, which is the order
  /// of memory.
  /// @pre both arrays have the same order, and not only a triangle is copied
  template <class F>
  void for_each_in_lines(F f) const
  {
    for (const CommonRun& r : rows_)
      for (std::size_t i = 0; i < r.size; ++i)
        for (const CommonRun& c : cols_) f(r.source + i, r.target + i, c);
  }
  /// Calls f(rows, columns) for each block, or for each row of a block that the diagonal cuts.
  template <class F>
  void for_each(F f) const
  {
    for (const CommonRun& r : rows_)
      for (const CommonRun& c : cols_)
        if (part_ == MatrixPart::all)
          f(r, c);
        else
          for_each_row_in_part(r, c, f);
  }

 private:
  using Runs = std::vector<CommonRun>;
  using Offsets = std::vector<std::size_t>;

  [[nodiscard]] static std::size_t size(const Runs& runs)
  {
    std::size_t n = 0;
    for (const CommonRun& r : runs) n += r.size;
    return n;
  }

  /// Whether blocks are so small that one loop over the elements of all blocks is faster. Both ends
  /// of a message decide in the same way.
  [[nodiscard]] bool is_scattered() const
  {
    constexpr std::size_t least = 8;
    return part_ == MatrixPart::all &&
           (size(rows_) < least * rows_.size() || size(cols_) < least * cols_.size()) &&
           rows_.size() * cols_.size() > 1;
  }
  /// Returns where the elements of each row or column begin.
  [[nodiscard]] static Offsets offsets(const Runs& runs, std::size_t CommonRun::*position,
                                       std::size_t stride)
  {
    Offsets all;
    all.reserve(size(runs));
    for (const CommonRun& r : runs)
      for (std::size_t k = 0; k < r.size; ++k) all.push_back((r.*position + k) * stride);
    return all;
  }
  [[nodiscard]] static Offsets multiples(std::size_t n, std::size_t stride)
  {
    Offsets all(n);
    for (std::size_t k = 0; k < n; ++k) all[k] = k * stride;
    return all;
  }

  template <class T, class A>
  static void copy_elements(const T* x, const Offsets& x_rows, const Offsets& x_cols, T* y,
                            const Offsets& y_rows, const Offsets& y_cols, const A& assign)
  {
    assign.with_assignment([&](const auto element) {
      constexpr std::size_t tile = 32;
      for (std::size_t i0 = 0; i0 < x_rows.size(); i0 += tile)
        for (std::size_t j0 = 0; j0 < x_cols.size(); j0 += tile)
        {
          const std::size_t j1 = std::min(j0 + tile, x_cols.size());
          for (std::size_t i = i0; i < std::min(i0 + tile, x_rows.size()); ++i)
          {
            const T* const from = x + x_rows[i];
            T* const to = y + y_rows[i];
            for (std::size_t j = j0; j < j1; ++j) element(to[y_cols[j]], from[x_cols[j]]);
          }
        }
    });
  }

  template <class F>
  void for_each_row_in_part(const CommonRun& rows, const CommonRun& cols, F f) const
  {
    if (size_in(part_, rows.begin, cols.begin, {rows.size, cols.size}) == rows.size * cols.size)
      return f(rows, cols);
    for (std::size_t k = 0; k < rows.size; ++k)
    {
      const ColumnRange c = columns_in(part_, rows.begin + k, cols.begin, cols.size);
      const std::size_t before = c.begin - cols.begin;
      if (c.begin < c.end)
        f(CommonRun{rows.begin + k, 1, rows.source + k, rows.target + k},
          CommonRun{c.begin, c.end - c.begin, cols.source + before, cols.target + before});
    }
  }

  Runs rows_;
  Runs cols_;
  MatrixPart part_ = MatrixPart::all;
  bool by_rows_ = true;  // whether the source is stored by rows
};

}  // namespace cubist::CUBIST_ABI::detail
