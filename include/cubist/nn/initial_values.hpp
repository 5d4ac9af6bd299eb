// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Draws the initial values of parameters from random streams (core/random_stream.hpp).

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <variant>

#include "cubist/core/block.hpp"
#include "cubist/core/complex.hpp"
#include "cubist/core/error.hpp"
#include "cubist/core/finite.hpp"
#include "cubist/core/host_device.hpp"
#include "cubist/core/matrix_view.hpp"
#include "cubist/core/philox.hpp"
#include "cubist/core/random_stream.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/matrix/dist_matrix.hpp"

namespace cubist::CUBIST_ABI
{

/// Initial values that are uniform in ±bound; without a bound, in ±1/sqrt(in) for a layer with `in`
/// features. For complex parameters this holds for each component.
struct Uniform
{
  std::optional<double> bound = {};  ///< uniform in [-bound, bound]; by default 1 / sqrt(in)
};

/// Initial values that are normal with mean 0 and standard deviation `std`. For complex parameters
/// this holds for each component.
struct Normal
{
  double std = 0.02;  ///< the standard deviation; the mean is 0
};

/// Initial values that are all 0.
struct Zeros
{
};

/// How a parameter is initialised.
using Initial = std::variant<Uniform, Normal, Zeros>;

namespace detail
{

/// Draws the initial value of an element by its index in its global matrix of `cols` columns.
template <Scalar T>
struct InitialValue
{
  Philox random;
  bool normal;
  Real<T> scale;  // the bound or the standard deviation
  std::size_t cols;

  CUBIST_HOST_DEVICE auto operator()(std::size_t i, std::size_t j) const
  {
    const std::uint64_t index = i * cols + j;
    const T value = normal ? random.template normal<T>(index, scale)
                           : random.template symmetric<T>(index, scale);
    if constexpr (ComplexScalar<T>)
      return Complex{value};
    else
      return value;
  }
};

/// Converts `x` to T.
/// @throws ArgumentError unless x is at least 0 and finite in T
template <RealScalar T>
[[nodiscard]] T scale_of_values(const char* what, double x)
{
  require<ArgumentError>(
      x >= 0 && is_finite(static_cast<T>(x)), "got a ", what, " of ", x,
      " for initial values, but it describes no distribution; use a finite number that is not "
      "negative");
  return static_cast<T>(x);
}

/// Sets a block of a parameter to its initial values. The parameter has `cols` columns, and its
/// layer has `in` features.
/// @throws ArgumentError for a bound or a standard deviation that is negative or not finite
template <class E, Scalar V>
void initialize_block(const E& engine, MatrixView<V> to, const Block& block, std::size_t cols,
                      const Initial& initial, const Philox& random, std::size_t in)
{
  using T = Accumulator<V>;
  if (std::holds_alternative<Zeros>(initial)) return engine.fill(to, V{});
  const auto* normal = std::get_if<Normal>(&initial);
  const auto scale = [&] {
    if (normal != nullptr) return scale_of_values<Real<T>>("standard deviation", normal->std);
    const double bound = 1 / std::sqrt(static_cast<double>(in));
    return scale_of_values<Real<T>>("bound", std::get<Uniform>(initial).bound.value_or(bound));
  };
  const InitialValue<T> value{random, normal != nullptr, scale(), cols};
  engine.map_indexed(to,
                     GlobalIndexed<InitialValue<T>>{value, block.rows.offset, block.cols.offset});
}

/// Sets a parameter of a layer with `in` features to its initial values.
/// @throws ArgumentError for a bound or a standard deviation that is negative or not finite
template <class Matrix>
void initialize(Matrix& parameter, const Initial& initial, const Philox& random, std::size_t in)
{
  initialize_block(parameter.mesh().engine(), parameter.valid(), parameter.block(),
                   parameter.cols(), initial, random, in);
}

}  // namespace detail

}  // namespace cubist::CUBIST_ABI
