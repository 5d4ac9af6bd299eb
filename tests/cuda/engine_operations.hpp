// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Runs every operation of an engine on strided blocks, and lists the results, which must be equal
// for all engines. All elements are small integers, so that sums are exact in any order.

#include <complex>
#include <concepts>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "cubist/core/block.hpp"
#include "cubist/core/complex.hpp"
#include "cubist/core/host_device.hpp"
#include "cubist/core/matrix_view.hpp"
#include "cubist/core/random_stream.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/engine/engine.hpp"
#include "cubist/engine/functions.hpp"
#include "cubist/nn/initial_values.hpp"

namespace cubist::test
{

template <Scalar T>
T number(int re, int im)
{
  if constexpr (ComplexScalar<T>)
    return {static_cast<Real<T>>(re), static_cast<Real<T>>(im)};
  else
    return static_cast<T>(re);
}

/// A strided block in an engine's memory, inside a larger matrix with other numbers.
template <Engine E, Scalar T>
class Strided
{
 public:
  Strided(Shape shape, std::size_t gap, int seed)
      : all_{shape.rows + 2, shape.cols + gap},
        shape_{shape},
        buffer_(all_.size())
  {
    std::vector<T> host(all_.size());
    int x = seed;
    for (T& y : host)
    {
      x = (x * 131 + 17) % 1009;
      y = number<T>(x % 7 - 3, x % 5 - 2);
    }
    E{}.upload(MatrixView<const T>{host.data(), all_}, MatrixView<T>{buffer_.data(), all_});
  }

  [[nodiscard]] MatrixView<T> view()
  {
    return MatrixView<T>{buffer_.data(), all_}.block(1, all_.cols - shape_.cols, shape_);
  }
  [[nodiscard]] MatrixView<const T> in() { return view(); }
  /// The larger matrix, which shows writes outside the block.
  [[nodiscard]] std::vector<T> everything()
  {
    std::vector<T> host(all_.size());
    E{}.download(MatrixView<const T>{buffer_.data(), all_}, MatrixView<T>{host.data(), all_});
    return host;
  }

 private:
  Shape all_;
  Shape shape_;
  typename E::template Buffer<T> buffer_;
};

struct Swap
{
  template <class T>
  CUBIST_HOST_DEVICE void operator()(T& x, T& y, const T& z) const
  {
    const T old = x;
    x = y + z;
    y = old;
  }
};

/// Computes x + i - 2 j.
struct AddIndices
{
  template <class T>
  CUBIST_HOST_DEVICE T operator()(std::size_t i, std::size_t j, const T& x) const
  {
    return x + T(static_cast<float>(i)) - T(static_cast<float>(2 * j));
  }
};

/// Multiplies by i + 1 in row i, and adds.
struct TimesRow
{
  struct Row
  {
    int factor;
    template <class T>
    CUBIST_HOST_DEVICE T operator()(const T& x) const
    {
      return static_cast<T>(static_cast<float>(factor)) * x;
    }
    template <class T>
    CUBIST_HOST_DEVICE T operator()(const T& x, const T& y) const
    {
      return (*this)(x) + y;
    }
  };
  CUBIST_HOST_DEVICE Row operator()(std::size_t i) const { return {static_cast<int>(i % 7) + 1}; }
};

/// Applies all operators on numbers. The divisor is 2 or 2 + 2i, so that all results are exact.
template <Scalar T>
struct AllOperators
{
  T divisor;

  template <class X>
  CUBIST_HOST_DEVICE X operator()(const X& x, const X& y) const
  {
    X z = x * y - x;
    z += y;
    z *= x;
    z -= y;
    z /= divisor;
    if constexpr (ComplexNumber<X>) z = conj(z) + X(norm(y));
    return -(y / X(divisor)) + z;
  }
};

/// Computes the sum and the product of two elements, the latter for a fold.
struct SumAndProduct
{
  template <class T>
  CUBIST_HOST_DEVICE cubist::detail::ValueAndTerm<T, T> operator()(std::size_t, std::size_t,
                                                                   const T& x, const T& y) const
  {
    return {x + y, x * y};
  }
};

/// Gives each element and index a different number, so that the maximum does not depend on the
/// order.
struct DistinctNumber
{
  template <class T>
  CUBIST_HOST_DEVICE long operator()(std::size_t i, std::size_t j, const T& x) const
  {
    long y = 0;
    if constexpr (ComplexNumber<T>)
      y = static_cast<long>(x.real());
    else
      y = static_cast<long>(x);
    return y * 1000000 + static_cast<long>((i * 7919 + j * 104729) % 999983);
  }
};

/// Returns x y, both in folds and in sums over a row.
struct ProductOf
{
  template <class T>
  CUBIST_HOST_DEVICE T operator()(const T& x, const T& y) const
  {
    return x * y;
  }
  template <class T>
  CUBIST_HOST_DEVICE T operator()(std::size_t, std::size_t, const T& x, const T& y) const
  {
    return x * y;
  }
};
/// Adds a number of the row to x.
template <class A>
struct AddOfRow
{
  const A* numbers;

  struct Row
  {
    A number;
    CUBIST_HOST_DEVICE A operator()(const A& x) const { return x + number; }
  };
  CUBIST_HOST_DEVICE Row operator()(std::size_t i) const { return {numbers[i]}; }
};
/// Computes z = x + sums, where sums[i] is the sum of x y over row i.
template <class T, class A>
struct AddSums
{
  MatrixView<const T> x;
  MatrixView<const T> y;
  MatrixView<T> z;
  A* sums;

  template <class Row>
  CUBIST_HOST_DEVICE void operator()(const Row& row) const
  {
    const A sum = row.sum(ProductOf{}, x, y);
    row.set(sums, sum);
    row.map(z, typename AddOfRow<A>::Row{sum}, x);
  }
};

template <Scalar T>
using Results = std::vector<std::pair<std::string, std::vector<T>>>;

template <Engine E, Scalar T>
void products(Results<T>& results, Shape shape, std::size_t k, std::size_t gap)
{
  const E engine;
  for (const Op op_a : {Op::none, Op::transpose, Op::adjoint})
    for (const Op op_b : {Op::none, Op::transpose, Op::adjoint})
      for (const int beta : {0, 2})
      {
        Strided<E, T> a{op_shape(op_a, {shape.rows, k}), gap, 3};
        Strided<E, T> b{op_shape(op_b, {k, shape.cols}), gap, 5};
        Strided<E, T> c{shape, gap, 7};
        engine.gemm(op_a, op_b, number<T>(2, 1), a.in(), b.in(), number<T>(beta, 0), c.view());
        results.push_back({"gemm", c.everything()});
      }
}

/// Lists of no row, of one row, and of several, some of them equal.
template <class Keep, Engine E, Scalar T>
void sum_rows(Keep keep, Strided<E, T>& a, Strided<E, T>& c)
{
  const int rows = static_cast<int>(a.view().rows());
  if (rows == 0) return;
  std::vector<int> numbers{0, 0};  // starts, rows and targets
  for (int l = 1; l < rows; ++l) numbers.push_back(numbers.back() + l % 5);
  const auto starts = numbers;
  for (int k = 0; k < starts.back(); ++k) numbers.push_back((k % 1000 * k + 3) % rows);
  for (int l = 0; l < rows; ++l) numbers.push_back(rows - 1 - l);
  const Shape shape{1, numbers.size()};
  typename E::template Buffer<int> buffer(numbers.size());
  E{}.upload(MatrixView<const int>{numbers.data(), shape}, MatrixView<int>{buffer.data(), shape});
  const int* data = buffer.data();
  const auto count = static_cast<std::size_t>(rows);
  const RowLists lists{count, data, data + starts.size(),
                       data + starts.size() + static_cast<std::size_t>(starts.back())};
  E{}.sum_rows(a.in(), lists, c.view(), false), keep("sum_rows", c);
  E{}.sum_rows(a.in(), lists, c.view(), true), keep("sum_rows, added", c);
}

/// The results of the functions of PassesRows. An engine without them computes them by others.
template <class Keep, Engine E, Scalar T>
void whole_rows(Keep keep, Strided<E, T>& a, Strided<E, T>& b, Strided<E, T>& c,
                Strided<E, T>& of_columns)
{
  const E engine;
  using A = Accumulator<T>;
  const Shape shape = a.view().shape();
  typename E::template Buffer<A> sums(shape.rows);
  if constexpr (cubist::detail::PassesRows<E>)
    engine.for_each_row(shape, AddSums<T, A>{a.in(), b.in(), c.view(), sums.data()});
  else
  {
    engine.row_fold(MatrixView<A>{sums.data(), {shape.rows, 1}}, A{}, cubist::detail::Sum{},
                    ProductOf{}, a.in(), b.in());
    engine.map_rows(c.view(), AddOfRow<A>{sums.data()}, a.in());
  }
  keep("whole rows", c);
  engine.map_rows(c.view(), AddOfRow<A>{sums.data()}, b.in()), keep("sums of whole rows", c);
  if constexpr (ShortReal<T>) return;  // an engine without these functions rounds what it sums
  if constexpr (cubist::detail::PassesRows<E>)
    engine.column_sums_of(AddOfRow<A>{sums.data()}, of_columns.view(), b.in());
  else
    engine.column_sums(c.in(), of_columns.view());
  keep("column_sums_of", of_columns);
}

template <Engine E, Scalar T>
void maps_and_folds(Results<T>& results, Shape shape, std::size_t gap)
{
  using cubist::detail::AddScaled;
  using cubist::detail::Scaled;
  const E engine;
  Strided<E, T> a{shape, gap, 3};
  Strided<E, T> b{shape, gap + 1, 5};
  Strided<E, T> c{shape, gap, 7};
  const auto keep = [&](const char* name, auto& what) {
    results.push_back({name, what.everything()});
  };
  engine.copy(a.in(), c.view()), keep("copy", c);
  engine.fill(c.view(), number<T>(4, 1)), keep("fill", c);
  engine.map(c.view(), AddScaled<T>{number<T>(3, 1)}, a.in(), b.in()), keep("map", c);
  engine.map(c.view(), AddScaled<T>{number<T>(3, 0)}, c.in(), b.in()), keep("map in place", c);
  engine.map(c.view(), AllOperators<T>{number<T>(2, 2)}, a.in(), b.in()), keep("operators", c);
  engine.map(c.view(), Scaled<T>{number<T>(3, 1)}, a.in()), keep("Scaled", c);
  engine.for_each(cubist::detail::Add{}, c.view(), a.in()), keep("Add", c);
  engine.map_indexed(c.view(), AddIndices{}, a.in()), keep("map_indexed", c);
  engine.map_rows(c.view(), TimesRow{}, a.in()), keep("map_rows", c);
  engine.map_rows(c.view(), TimesRow{}, c.in(), b.in()), keep("map_rows in place", c);
  engine.for_each(Swap{}, c.view(), b.view(), a.in()), keep("for_each", c), keep("for_each", b);

  Strided<E, T> sums{{1, shape.cols}, gap, 9};
  engine.map_sums(c.view(), sums.view(), AddScaled<T>{number<T>(1, 0)}, a.in(), b.in());
  keep("map_sums", c), keep("map_sums' sums", sums);
  engine.column_sums(a.in(), sums.view()), keep("column_sums", sums);
  if (shape.rows > 0)
    engine.map(c.view(), AddScaled<T>{number<T>(1, 0)}, a.in(), sums.view().repeated(shape.rows)),
        keep("a repeated row", c);

  sum_rows(keep, a, c);

  Strided<E, T> row{{shape.rows, 1}, gap, 11};
  engine.row_fold(row.view(), number<T>(5, 0), cubist::detail::Sum{}, AddIndices{}, a.in());
  keep("row_fold", row);
  if constexpr (RealScalar<T>) whole_rows(keep, a, b, c, sums);
  const T all = engine.fold(number<T>(5, 0), cubist::detail::Sum{}, AddIndices{}, a.in());
  const long most = engine.fold(-1000000000L, cubist::detail::Larger{}, DistinctNumber{}, a.in());
  results.push_back({"fold",
                     {all, number<T>(static_cast<int>(most / 1000000), 0),
                      number<T>(static_cast<int>(most % 1000000), 0)}});
  const T products = engine.map_fold(number<T>(3, 1), cubist::detail::Sum{}, c.view(),
                                     SumAndProduct{}, a.in(), c.in());
  keep("map_fold", c);
  results.push_back({"map_fold's fold", {products}});

  using A = Accumulator<T>;
  const cubist::detail::InitialValue<A> random{stream(1, Draw::weight, 0), false, Real<A>{1},
                                               shape.cols};
  engine.map_indexed(c.view(), random), keep("random numbers", c);
}

template <Engine E, Scalar T>
[[nodiscard]] Results<T> engine_results()
{
  Results<T> results;
  products<E, T>(results, {7, 5}, 9, 3);
  products<E, T>(results, {33, 65}, 17, 0);
  products<E, T>(results, {3, 4}, 0, 1);
  products<E, T>(results, {0, 4}, 3, 1);
  for (const Shape shape : {Shape{1, 1}, Shape{13, 7}, Shape{37, 101}, Shape{300, 1}, Shape{1, 999},
                            Shape{2, 1500}, Shape{700, 33}, Shape{0, 5}, Shape{5, 0}})
    for (const std::size_t gap : {0U, 3U}) maps_and_folds<E, T>(results, shape, gap);
  // Several blocks share a column or a row, or few threads have a row. Sums are exact in double.
  if constexpr (std::same_as<T, double>)
    for (const Shape shape : {Shape{30000, 3}, Shape{3, 30000}, Shape{5001, 129}, Shape{34001, 37}})
      for (const std::size_t gap : {0U, 3U}) maps_and_folds<E, T>(results, shape, gap);
  typename E::template Buffer<T> zeros(100);
  zeros.resize(300);
  const auto copied = zeros;
  std::vector<T> host(copied.size(), number<T>(1, 1));
  E{}.download(MatrixView<const T>{copied.data(), {3, 100}}, MatrixView<T>{host.data(), {3, 100}});
  results.push_back({"a new buffer", host});
  return results;
}

}  // namespace cubist::test
