// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The random streams of a network and its data: one for each weight, and for each dropout mask of
// each step, indexed by the global position of the element; and the initial values drawn from them,
// which have the same bits on every scheme, mesh and backend.

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <utility>
#include <variant>

#include "cubist/core/complex.hpp"
#include "cubist/core/error.hpp"
#include "cubist/core/finite.hpp"
#include "cubist/core/host_device.hpp"
#include "cubist/core/philox.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/engine/replay.hpp"

namespace cubist::CUBIST_ABI
{

/// What random numbers are for; each has a stream of its own.
enum class Draw : std::uint8_t
{
  weight,  ///< initial weights
  bias,
  dropout,    ///< masks of dropout
  attention,  ///< masks of attention's dropout
  token,      ///< tokens that are generated
  order,      // of the rows or windows of a dataset, one for each epoch
  held_out,   // the rows of a dataset that are
};

namespace detail
{
/// @throws ArgumentError unless layer < 2^16 and step < 2^40
[[nodiscard]] inline std::uint64_t stream_number(Draw draw, std::size_t layer, std::uint64_t step)
{
  require<ArgumentError>(layer < std::size_t{1} << 16 && step < std::uint64_t{1} << 40,
                         "got layer ", layer, " and step ", step,
                         ", whose random numbers would be those of other ones; use layers below "
                         "2^16 and steps below 2^40");
  return static_cast<std::uint64_t>(draw) << 56 | static_cast<std::uint64_t>(layer) << 40 | step;
}
}  // namespace detail

/// The stream from which layer `layer` draws in step `step`.
/// @throws ArgumentError unless layer < 2^16 and step < 2^40
[[nodiscard]] inline Philox stream(std::uint64_t seed, Draw draw, std::size_t layer,
                                   std::uint64_t step = 0)
{
  return {seed, detail::stream_number(draw, layer, step)};
}

/// The number of a step that random numbers are drawn for. In a step that is captured, the number
/// is one in the engine's memory, which each replay changes.
class TrainingStep
{
 public:
  /// The number that the host knows.
  TrainingStep(std::uint64_t number) : number_{number} {}
  /// A number in the memory of the engine.
  TrainingStep(std::shared_ptr<const std::uint64_t> in_memory) : in_memory_{std::move(in_memory)} {}

  /// The next step.
  /// @pre the host knows the number
  TrainingStep& operator++()
  {
    ++number_;
    return *this;
  }
  /// @throws CaptureError for a step that is captured
  operator std::uint64_t() const
  {
    require<CaptureError>(in_memory_ == nullptr,
                          "got random numbers of attention or of a layer in a step that is "
                          "captured, which would be the same in every replay; train without this "
                          "dropout, or run the step without capturing");
    return number_;
  }
  /// Null unless the step is captured.
  [[nodiscard]] const std::uint64_t* in_memory() const { return in_memory_.get(); }

 private:
  std::uint64_t number_ = 0;
  std::shared_ptr<const std::uint64_t> in_memory_;
};

/// Initial values uniform in ±bound, in each component of complex ones; without a bound, in
/// ±1/sqrt(in) for a layer of `in` features.
struct Uniform
{
  std::optional<double> bound = {};  ///< uniform in [-bound, bound]; without it 1 / sqrt(in)
};

/// Initial values that are normal with mean 0 and standard deviation `std`, in each component of
/// complex ones.
struct Normal
{
  double std = 0.02;  ///< the standard deviation; the mean is 0
};

/// Initial values of 0.
struct Zeros
{
};

/// How a parameter is initialised.
using Initial = std::variant<Uniform, Normal, Zeros>;

namespace detail
{

/// The step after `count` ones, which it counts; where it is captured, each replay counts one.
/// @pre `count` stays where it is
template <class E>
[[nodiscard]] TrainingStep next_step(const E& engine, std::uint64_t& count)
{
  if constexpr (Captures<E>)
    if (engine.is_capturing())
    {
      const auto number = std::make_shared<ReplayedValue<E, std::uint64_t>>();
      engine.before_replay([engine, number, &count] { number->set(engine, ++count); });
      return std::shared_ptr<const std::uint64_t>{number, number->data()};
    }
  return ++count;
}

/// The random numbers of a step that may be captured.
struct StepRandom
{
  std::uint64_t seed;
  std::uint64_t stream;  // of step 0
  std::uint64_t number;
  const std::uint64_t* in_memory;

  CUBIST_HOST_DEVICE operator Philox() const
  {
    return {seed, stream | (in_memory == nullptr ? number : *in_memory)};
  }
};

/// The initial value of an element, drawn by its index in its global matrix of `cols` columns.
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

/// `x` as a T.
/// @throws ArgumentError unless 0 <= x and T has it
template <RealScalar T>
[[nodiscard]] T scale_of_values(const char* what, double x)
{
  require<ArgumentError>(x >= 0 && is_finite(static_cast<T>(x)), "got a ", what, " of ", x,
                         " for initial values, which no distribution of numbers has; use a finite "
                         "one that is not negative");
  return static_cast<T>(x);
}

/// Sets a parameter of a layer of `in` features to its initial values.
/// @throws ArgumentError for a bound or a standard deviation that is negative or not finite
template <class Matrix>
void initialize(Matrix& parameter, const Initial& initial, const Philox& random, std::size_t in)
{
  using T = Accumulator<typename Matrix::Value>;
  if (std::holds_alternative<Zeros>(initial))
    return parameter.mesh().engine().fill(parameter.valid(), typename Matrix::Value{});
  const auto* normal = std::get_if<Normal>(&initial);
  const auto scale = [&] {
    if (normal != nullptr) return scale_of_values<Real<T>>("standard deviation", normal->std);
    const double bound = 1 / std::sqrt(static_cast<double>(in));
    return scale_of_values<Real<T>>("bound", std::get<Uniform>(initial).bound.value_or(bound));
  };
  parameter.generate(InitialValue<T>{random, normal != nullptr, scale(), parameter.cols()});
}

}  // namespace detail

}  // namespace cubist::CUBIST_ABI
