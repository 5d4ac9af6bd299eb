// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The functions that attention (local_attention.hpp) applies to blocks of scores, whose rows are
// queries and whose columns are keys.

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "cubist/core/finite.hpp"
#include "cubist/core/host_device.hpp"
#include "cubist/core/matrix_view.hpp"
#include "cubist/core/philox.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/core/vector_math.hpp"
#include "cubist/nn/attention/attention_shape.hpp"

namespace cubist::CUBIST_ABI::detail
{

/// The number of a column in a block. Functions that map rows get it as an element.
using ColumnIndex = std::uint32_t;

struct ColumnOf
{
  CUBIST_HOST_DEVICE ColumnIndex operator()(std::size_t, std::size_t j) const
  {
    return static_cast<ColumnIndex>(j);
  }
};

/// Sets the scores of keys after the query to -infinity.
template <RealScalar T>
struct MaskKeys
{
  BlockRows at;
  std::size_t offset;  // the position of query 0 minus the position of key 0
  std::size_t first_key;

  struct Row
  {
    ColumnIndex visible;
    [[gnu::always_inline]] CUBIST_HOST_DEVICE T operator()(T x, ColumnIndex j) const
    {
      return pick(j < visible, x, -std::numeric_limits<T>::infinity());
    }
  };
  CUBIST_HOST_DEVICE Row operator()(std::size_t i) const
  {
    const std::size_t end = at.query(i) + offset + 1;
    return {end < first_key ? 0 : static_cast<ColumnIndex>(end - first_key)};
  }
};

/// Raises the maximum of a row to that of one more block, and computes the factor by which the sums
/// before this block are scaled.
template <RealScalar T>
struct RaiseMaximum
{
  CUBIST_HOST_DEVICE void operator()(T& max, T& factor, const T& of_block) const
  {
    const T raised = larger(max, of_block);
    factor = exp_of_negative(max - raised);
    max = raised;
  }
};

/// Computes sum = factor sum + more.
template <RealScalar T>
struct AddScaledSum
{
  CUBIST_HOST_DEVICE void operator()(T& sum, const T& factor, const T& more) const
  {
    sum = factor * sum + more;
  }
};

/// Returns max + log(sum).
template <RealScalar T>
struct LogSumExp
{
  CUBIST_HOST_DEVICE T operator()(const T& max, const T& sum) const { return max + std::log(sum); }
};

/// Returns exp(x - shift) with the row's shift.
template <RealScalar T>
struct ShiftedExp
{
  const T* shift;

  struct Row
  {
    T shift;
    [[gnu::always_inline]] CUBIST_HOST_DEVICE T operator()(T x) const
    {
      // Recomputed scores may exceed the maximum by rounding.
      const T negative = x - shift;
      return exp_of_negative(pick(is_less(T{}, negative), T{}, negative));
    }
  };
  CUBIST_HOST_DEVICE Row operator()(std::size_t i) const { return {shift[i]}; }
};

/// Multiplies x by the row's factor, or divides x by it.
template <RealScalar T, bool divides>
struct ScaleRow
{
  const T* factor;

  struct Row
  {
    T factor;
    [[gnu::always_inline]] CUBIST_HOST_DEVICE T operator()(T x) const { return factor * x; }
  };
  CUBIST_HOST_DEVICE Row operator()(std::size_t i) const
  {
    return {divides ? T{1} / factor[i] : factor[i]};
  }
};

/// Scales the heads of a block of O, viewed as a matrix with one long row for each sequence.
template <RealScalar T, bool divides>
struct ScaleHeads
{
  const T* factor;
  BlockRows at;
  HeadColumns columns;
  std::size_t head_size;
  std::size_t ld;

  CUBIST_HOST_DEVICE T operator()(std::size_t sequence, std::size_t j, T x) const
  {
    const std::size_t head = columns.head_of(j % ld, head_size);
    if (head >= at.kv_heads * at.group || head % at.group != at.member) return x;
    const std::size_t unit = sequence * at.kv_heads + head / at.group;
    const T f = factor[unit * at.rows + j / ld];
    return divides ? T{1} / f * x : f * x;
  }
};

struct Multiply
{
  template <class T>
  CUBIST_HOST_DEVICE T operator()(std::size_t, std::size_t, const T& a, const T& b) const
  {
    return a * b;
  }
};

/// Multiplies the elements of two matrices laid out like O, for the rows of a block. The last
/// argument is not used.
template <RealScalar T>
struct ProductsOfHeads
{
  MatrixView<const T> a;
  MatrixView<const T> b;
  BlockRows at;
  HeadColumns columns;
  std::size_t head_size;
  std::size_t stride;  // the distance between two sequences, in rows

  CUBIST_HOST_DEVICE T operator()(std::size_t i, std::size_t j, T) const
  {
    const std::size_t row = at.sequence(i) * stride + at.query(i);
    const std::size_t column = columns(at.head(i), head_size) + j;
    return a(row, column) * b(row, column);
  }
};

/// Computes the gradient of scaled scores, scale p (dp - D). With dropout, dp is 0 or scaled.
template <RealScalar T>
struct ScoreSlope
{
  const T* d;
  T scale;

  struct Row
  {
    T d, scale;
    [[gnu::always_inline]] CUBIST_HOST_DEVICE T operator()(T p, T dp) const
    {
      return scale * p * (dp - d);
    }
    [[gnu::always_inline]] CUBIST_HOST_DEVICE T operator()(T p, T dp, T kept) const
    {
      return scale * p * (kept * dp - d);
    }
  };
  CUBIST_HOST_DEVICE Row operator()(std::size_t i) const { return {d[i], scale}; }
};

/// Returns dropout's factor for an element of a block: 0, or 1 / (1 - probability).
template <RealScalar T>
struct KeepKeys
{
  AttentionDropout dropout;
  T scale;
  BlockRows at;
  std::size_t first_query;  // the position of query 0
  std::size_t first_key;    // the position of the block's first key
  std::size_t length;       // the length of a sequence

  struct Row
  {
    Philox random;
    double probability;
    T scale;
    std::uint64_t first;  // the global index of the row's first element in the block
    [[gnu::always_inline]] CUBIST_HOST_DEVICE T operator()(ColumnIndex j) const
    {
      return random.template uniform<double>(first + j) < probability ? T{} : scale;
    }
    [[gnu::always_inline]] CUBIST_HOST_DEVICE T operator()(T x, ColumnIndex j) const
    {
      return x * (*this)(j);
    }
  };
  CUBIST_HOST_DEVICE Row operator()(std::size_t i) const
  {
    const std::size_t b = dropout.first_sequence + at.sequence(i);
    const std::size_t h = dropout.first_head + at.head(i);
    return {dropout.random, dropout.probability, scale,
            ((b * dropout.heads + h) * length + first_query + at.query(i)) * length + first_key};
  }
};

/// Multiplies x by y in place.
struct MultiplyBy
{
  template <class T>
  CUBIST_HOST_DEVICE void operator()(T& x, const T& y) const
  {
    x *= y;
  }
};

}  // namespace cubist::CUBIST_ABI::detail
