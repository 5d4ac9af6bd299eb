// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// What tests of layers and networks share: meshes to run on, input matrices, serial oracles, and
// differences from these. Ranks return their findings, and the test asserts.

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "cubist/core/matrix_view.hpp"
#include "cubist/core/philox.hpp"
#include "cubist/gradients/parameter.hpp"
#include "cubist/matrix/dist_matrix.hpp"
#include "cubist/matrix/global.hpp"
#include "cubist/scheme/cube3d.hpp"
#include "cubist/scheme/mesh.hpp"
#include "cubist/scheme/summa25d.hpp"
#include "cubist/scheme/summa2d.hpp"

#include "backend.hpp"
#include "economy.hpp"
#include "ranks.hpp"

namespace cubist::test
{

/// A scheme and a mesh to run it on.
template <NetworkScheme S>
struct Place
{
  using Scheme = S;

  int ranks = 1;
  typename S::Extents extents = {};

  [[nodiscard]] std::string name() const
  {
    return std::string{S::name} + " on " + S::Axes::to_string(S::extents(extents, ranks));
  }
};

inline const Place<Summa2D> one_rank{1, {.q = 1}};
inline const Place<Summa2D> two_by_two{4, {.q = 2}};
inline const Place<Summa25D> single_rank{1, {.q = 1, .d = 1}};
inline const Place<Summa25D> single_layer{4, {.q = 2, .d = 1}};
inline const Place<Summa25D> two_two_two{8, {.q = 2, .d = 2}};
inline const Place<Cube3D> cube{8, {.q = 2}};

template <SchemeType S>
std::vector<Place<S>> places()
{
  if constexpr (std::same_as<S, Summa25D>)
    return {single_layer, two_two_two, {4, {.q = 1, .d = 4}}, {9, {.q = 3, .d = 1}}};
  else
    return {cube};
}

template <NetworkScheme S>
[[nodiscard]] bool fits(const Place<S>& place)
{
  return fits(place.ranks);
}

/// Calls f(place) for each of a scheme's places that fits.
template <SchemeType S, class F>
void for_each_place_of(F f)
{
  for (const auto& place : places<S>())
    if (fits(place)) f(place);
}

/// Calls f(place) for each place of two schemes that fits. They have all kinds of layouts:
/// replicated weights, and layers whose `Next` cuts differently. mlp_on_meshes_test.cpp has all
/// schemes.
template <class F>
void for_each_place(F f)
{
  for_each_place_of<Summa25D>(f);
  for_each_place_of<Cube3D>(f);
}

/// Runs body(mesh) on each rank, and returns what each returned.
template <class B = TestBackend, NetworkScheme S, class F>
auto on_mesh(const Place<S>& place, F body)
{
  return on_ranks<B>(place.ranks, [&](typename B::Communicator& world) {
    return body(Mesh<S, B>{world, place.extents});
  });
}

/// Runs body(mesh) on each rank, and returns the result of rank 0, where matrices are gathered.
template <class B = TestBackend, NetworkScheme S, class F>
auto on_root(const Place<S>& place, F body)
{
  auto all = on_mesh<B>(place, body);
  using Result = typename decltype(all)::value_type;  // not a reference, even for a vector of bools
  return Result(std::move(all[0]));
}

template <class T>
using Global = xt::xtensor<T, 2>;

/// Makes a matrix whose element (i, j) is f(i, j).
template <class T, class F>
Global<T> generate(std::size_t rows, std::size_t cols, F f)
{
  auto m = Global<T>::from_shape({rows, cols});
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t j = 0; j < cols; ++j) m(i, j) = f(i, j);
  return m;
}

/// Converts a matrix to another element type. 16-bit elements are rounded from floats.
template <Scalar To, Scalar From>
Global<To> converted(const Global<From>& m)
{
  return generate<To>(m.shape(0), m.shape(1), [&](std::size_t i, std::size_t j) {
    return static_cast<To>(static_cast<Accumulator<To>>(static_cast<Accumulator<From>>(m(i, j))));
  });
}

template <class T>
MatrixView<T> view(Global<T>& m)
{
  return {m.data(), {m.shape(0), m.shape(1)}};
}

/// Sets the value of a parameter, however it is stored.
template <class T, class M>
void set_value(const Parameter<T, M>& p, const Global<T>& value)
{
  if (!p.stored) return scatter(value, p.value);
  p.stored->set({p.name, false, [&](const Block& block, MatrixView<T> to) {
                   for (std::size_t i = 0; i < to.rows(); ++i)
                     for (std::size_t j = 0; j < to.cols(); ++j)
                       to(i, j) = value(block.rows.offset + i, block.cols.offset + j);
                 }});
}

/// Random numbers, uniform in [-bound, bound) in each component. 16-bit ones are rounded floats.
template <Scalar T>
Global<T> uniform(std::size_t rows, std::size_t cols, std::uint64_t seed, double bound = 1)
{
  using A = Accumulator<T>;
  return generate<T>(rows, cols, [=, random = Philox{seed, 12345}](std::size_t i, std::size_t j) {
    return random.symmetric<A>(i * cols + j, static_cast<Real<A>>(bound));
  });
}

/// Integers from -4 to 3, so that sums of products are exact in any order.
template <Scalar T>
Global<T> integers(std::size_t rows, std::size_t cols, std::uint64_t seed)
{
  auto m = uniform<T>(rows, cols, seed, 4);
  for (auto& v : m)
    if constexpr (ComplexScalar<T>)
      v = {std::floor(v.real()), std::floor(v.imag())};
    else
      v = std::floor(v);
  return m;
}

/// A class for each row, spread over all classes.
inline std::vector<int> classes(std::size_t rows, std::size_t count)
{
  std::vector<int> labels(rows);
  for (std::size_t i = 0; i < rows; ++i) labels[i] = static_cast<int>((i * 7 + 3 * i * i) % count);
  return labels;
}

template <class T>
Global<T> transposed(const Global<T>& a)
{
  return generate<T>(a.shape(1), a.shape(0), [&](std::size_t i, std::size_t j) { return a(j, i); });
}

template <class T>
Global<T> product(const Global<T>& a, const Global<T>& b)
{
  return generate<T>(a.shape(0), b.shape(1), [&](std::size_t i, std::size_t j) {
    T sum{};
    for (std::size_t k = 0; k < a.shape(1); ++k) sum += a(i, k) * b(k, j);
    return sum;
  });
}

template <class T>
Global<T> column_sums(const Global<T>& a)
{
  return generate<T>(1, a.shape(1), [&](std::size_t, std::size_t j) {
    T sum{};
    for (std::size_t i = 0; i < a.shape(0); ++i) sum += a(i, j);
    return sum;
  });
}

/// Whether shapes and all elements are equal.
template <class T>
bool identical(const Global<T>& a, const Global<T>& b)
{
  return a.shape() == b.shape() && std::equal(a.data(), a.data() + a.size(), b.data());
}

/// The largest |a - b|; infinite for different shapes or NaN.
template <class T>
double difference(const Global<T>& a, const Global<T>& b)
{
  if (a.shape() != b.shape()) return std::numeric_limits<double>::infinity();
  double worst = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
  {
    const auto d = static_cast<double>(std::abs(a.data()[i] - b.data()[i]));
    worst = d <= std::numeric_limits<double>::max() ? std::max(worst, d)
                                                    : std::numeric_limits<double>::infinity();
  }
  return worst;
}

/// The largest |a - b| / |b| of two curves; infinite for different lengths or NaN.
inline double deviation(const std::vector<double>& a, const std::vector<double>& b)
{
  if (a.size() != b.size()) return std::numeric_limits<double>::infinity();
  double worst = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
  {
    const double d = std::abs(a[i] - b[i]) / std::abs(b[i]);
    worst = d <= std::numeric_limits<double>::max() ? std::max(worst, d)
                                                    : std::numeric_limits<double>::infinity();
  }
  return worst;
}

/// The number of padding elements of a block, and the largest of them, which must be 0.
struct Padding
{
  std::size_t count = 0;
  double largest = 0;

  Padding& operator+=(const Padding& other)
  {
    count += other.count;
    largest = std::max(largest, other.largest);
    return *this;
  }
};

template <class T, class M>
Padding padding(const DistView<T, M>& x)
{
  const auto block = x.padded;
  const Shape valid = x.valid().shape();
  Padding p;
  for (std::size_t i = 0; i < block.rows(); ++i)
    for (std::size_t j = 0; j < block.cols(); ++j)
      if (i >= valid.rows || j >= valid.cols)
        p += {1, block(i, j) == T{} ? 0.0 : std::max(1e-300, double{std::abs(block(i, j))})};
  return p;
}

}  // namespace cubist::test
