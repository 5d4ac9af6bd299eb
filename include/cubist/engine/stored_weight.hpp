// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// A weight W (k, n) in host memory, stored in one of the ways of core/stored_weights.hpp.
//
// W is stored transposed: column j of W is row j in memory, padded with zeros to `padded` elements,
// a multiple of 32. Scales are stored apart from the integers that they scale, so that loops
// convert many of them at once. If W is a block of a larger matrix and begins inside a block of 32,
// its first element is at `first`, and the elements before it count for the scale only.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "cubist/core/block.hpp"
#include "cubist/core/error.hpp"
#include "cubist/core/finite.hpp"
#include "cubist/core/matrix_view.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/core/stored_weights.hpp"
#include "cubist/memory/huge_pages.hpp"

namespace cubist::CUBIST_ABI
{

/// A reference to a stored weight W (k, n).
struct StoredView
{
  StoredWeights type = StoredWeights::q8;  ///< how it is stored
  std::size_t k = 0;                       ///< rows of W
  std::size_t n = 0;                       ///< columns of W
  std::size_t first = 0;                   ///< the place of W's row 0 in a row of memory
  std::size_t padded = 0;                  ///< the elements of a row in memory
  const void* elements = nullptr;          ///< n rows: bfloat16, half or, for q8, 8-bit integers
  const half* scales = nullptr;            ///< for q8: n rows of padded / 32

  /// (k, n)
  [[nodiscard]] Shape shape() const { return {k, n}; }
  /// Its size in memory, in bytes.
  [[nodiscard]] std::size_t bytes() const
  {
    return type == StoredWeights::q8 ? n * (padded + padded / q8_block * sizeof(half))
                                     : n * padded * 2;
  }
  /// The elements, which have the 16-bit type T.
  template <ShortReal T>
  [[nodiscard]] MatrixView<const T> as() const
  {
    return {static_cast<const T*>(elements), Shape{n, padded}};
  }
  /// The integers of q8.
  [[nodiscard]] MatrixView<const std::int8_t> integers() const
  {
    return {static_cast<const std::int8_t*>(elements), Shape{n, padded}};
  }
  /// The scales of q8.
  [[nodiscard]] MatrixView<const half> scales_of_blocks() const
  {
    return {scales, Shape{n, padded / q8_block}};
  }
};

namespace detail
{

/// Stores up to 32 elements, `stride` apart, as a block of q8.
/// @returns the scale
/// @pre the elements are finite
template <RealScalar T>
[[nodiscard]] half store_q8(const T* x, std::size_t stride, std::size_t count, std::int8_t* q)
{
  float largest = 0;
  for (std::size_t i = 0; i < count; ++i)
    largest = std::max(largest, std::abs(static_cast<float>(x[i * stride])));
  const half scale{largest / 127};
  const float d = scale;
  const float divisor = d == 0 ? 1 : d;
  for (std::size_t i = 0; i < count; ++i)
  {
    const float quotient = static_cast<float>(x[i * stride]) / divisor;
    const float bounded = std::clamp(quotient, -127.0F, 127.0F);  // d may have been rounded down
    q[i] = static_cast<std::int8_t>(d == 0 ? 0 : bounded < 0 ? bounded - 0.5F : bounded + 0.5F);
  }
  return scale;
}

}  // namespace detail

/// A block of a weight in its stored form. All elements are zero at first.
class StoredWeight
{
 public:
  /// @param rows  the block's rows in the global matrix, which has `all` rows
  StoredWeight(StoredWeights type, Range rows, std::size_t all, std::size_t cols)
  {
    const std::size_t first = type == StoredWeights::q8 ? rows.offset % q8_block : 0;
    const std::size_t end = rows.offset + rows.valid;
    begin_ = rows.offset - first;
    end_ = type == StoredWeights::q8 ? std::min(pad(end, q8_block), all) : end;
    view_ = {type, rows.valid, cols, first, pad(first + rows.valid, q8_block)};
    require_countable({view_.n, view_.padded}, sizeof(double));
    const bool is_q8 = type == StoredWeights::q8;
    elements_.resize(view_.n * view_.padded * (is_q8 ? 1 : 2));
    if (is_q8) scales_.resize(view_.n * view_.padded / q8_block);
    view_.elements = elements_.data();
    view_.scales = scales_.data();
  }
  StoredWeight(const StoredWeight&) = delete;
  StoredWeight& operator=(const StoredWeight&) = delete;

  /// A reference to the stored block.
  [[nodiscard]] const StoredView& view() const { return view_; }

  /// The rows of the global matrix that `set` needs: those of the block and, for q8, those that
  /// share a scale with them.
  [[nodiscard]] Range rows() const { return {begin_, end_ - begin_, end_ - begin_}; }

  /// Sets columns [at, at + x.cols()) in rows [row, row + x.rows()) of the global matrix.
  /// @param name  the matrix's name, for messages
  /// @pre row is rows().offset plus a multiple of 32; so is the end, unless it is the end of rows()
  /// @throws NumericError for an element that is a NaN or infinite, or becomes infinite
  template <RealScalar T>
  void set(std::size_t row, std::size_t at, MatrixView<const T> x, const std::string& name)
  {
    if (view_.type == StoredWeights::bfloat16) return set_as<bfloat16>(row, at, x, name);
    if (view_.type == StoredWeights::half) return set_as<half>(row, at, x, name);
    auto* const q = reinterpret_cast<std::int8_t*>(elements_.data());
    for_blocks(row, at, x, [&](MatrixView<const T> block, std::size_t i, std::size_t place) {
      for (std::size_t l = 0; l < block.rows(); ++l)
        if (!is_finite(block(l, 0))) refuse(name, i + l, place, static_cast<float>(block(l, 0)));
      const half scale = detail::store_q8(block.data(), block.ld(), block.rows(), q + place);
      // Elements above 127 x 65504 would make the scale infinite.
      if (!is_finite(scale)) refuse(name, i, place, scale);
      scales_[place / q8_block] = scale;
    });
  }

 private:
  template <ShortReal V, RealScalar T>
  void set_as(std::size_t row, std::size_t at, MatrixView<const T> x, const std::string& name)
  {
    auto* const to = reinterpret_cast<V*>(elements_.data());
    for_blocks(row, at, x, [&](MatrixView<const T> block, std::size_t i, std::size_t place) {
      for (std::size_t l = 0; l < block.rows(); ++l)
      {
        const auto value = static_cast<V>(static_cast<Accumulator<T>>(block(l, 0)));
        if (!is_finite(value)) refuse(name, i + l, place, value);
        to[place + l] = value;
      }
    });
  }

  /// Calls f(block, i, place) for each column of x, with up to 32 rows in each call. The block's
  /// first row is row i of the global matrix, and its first element goes to `place` in memory.
  template <class T, class F>
  void for_blocks(std::size_t row, std::size_t at, MatrixView<const T> x, F f) const
  {
    for (std::size_t i = 0; i < x.rows(); i += q8_block)
      for (std::size_t j = 0; j < x.cols(); ++j)
        f(x.block(i, j, {std::min(q8_block, x.rows() - i), 1}), row + i,
          (at + j) * view_.padded + (row - begin_ + i));
  }

  [[noreturn]] void refuse(const std::string& name, std::size_t i, std::size_t place,
                           float value) const
  {
    detail::fail<NumericError>({"got ", name, ", in which the weight of input ", i, " and output ",
                                place / view_.padded, " of a rank becomes ", value,
                                ", so no output would be a number; take a fresh copy of the "
                                "weights, or compute in float"});
  }

  StoredView view_;
  std::size_t begin_ = 0;  // the first row of the global matrix that `set` needs
  std::size_t end_ = 0;
  std::vector<std::byte, HugePages<std::byte>> elements_;
  std::vector<half, HugePages<half>> scales_;
};

/// Where a parameter's value comes from if it is not stored as elements of T.
template <class T>
struct BlockSource
{
  std::string name;         ///< the parameter's name, for messages
  bool by_columns = false;  ///< whether whole columns are read faster than whole rows
  /// Reads a block of the global matrix.
  std::function<void(const Block&, MatrixView<T>)> read;
};

/// The value of a parameter that is not stored as elements of T (core/stored_weights.hpp).
template <class T>
struct StoredValue
{
  Shape shape;                                     ///< the shape of the whole matrix
  StoredWeights type = StoredWeights::scalar;      ///< how it is stored
  std::function<void(const BlockSource<T>&)> set;  ///< sets this rank's block
};

}  // namespace cubist::CUBIST_ABI
