// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Checks that a loss and all gradients are finite, and locates the first NaN or infinity.
//
// The loss has index 0. The elements of all gradients follow, in the order of global rows and
// columns within a gradient. One pass finds a rank's first element that is not finite; the minimum
// over the ranks is the first of all.
//
// Elements that one rank sends: 2 (P-1)/P of one 64-bit number, where P is the number of ranks of
// the mesh.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>

#include "cubist/core/complex.hpp"
#include "cubist/core/error.hpp"
#include "cubist/core/finite.hpp"
#include "cubist/core/host_device.hpp"
#include "cubist/core/instances.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/engine/functions.hpp"
#include "cubist/gradients/parameter.hpp"
#include "cubist/matrix/staging.hpp"

namespace cubist::CUBIST_ABI
{

namespace detail
{

/// Twice the index of a value that is not finite, plus one if the value is an infinity.
using FaultCode = std::uint64_t;
inline constexpr FaultCode no_fault = std::numeric_limits<FaultCode>::max();

template <RealScalar T>
[[nodiscard]] CUBIST_HOST_DEVICE FaultCode fault_code(T x, std::uint64_t number)
{
  if (is_finite(x)) return no_fault;
  return 2 * number + (is_infinite(x) ? 1 : 0);
}
template <ComplexNumber T>
[[nodiscard]] CUBIST_HOST_DEVICE FaultCode fault_code(const T& x, std::uint64_t number)
{
  return Smaller{}(fault_code(x.real(), number), fault_code(x.imag(), number));
}

/// Returns the code of an element of a matrix with `cols` columns, whose first element has index
/// `first`.
struct FaultCodeAt
{
  std::uint64_t first;
  std::size_t i0;  // the row of the block's first element
  std::size_t j0;
  std::size_t cols;

  template <class T>
  CUBIST_HOST_DEVICE FaultCode operator()(std::size_t i, std::size_t j, const T& x) const
  {
    return fault_code(x, first + (i0 + i) * cols + j0 + j);
  }
};

/// Returns the smallest code of this rank's elements; the gradient's first element has index
/// `first`.
template <class T, class M>
[[nodiscard]] FaultCode first_fault(const DistView<T, M>& gradient, std::uint64_t first)
{
  const Block b = gradient.block(gradient.mesh.rank());
  const FaultCodeAt code{first, b.rows.offset, b.cols.offset, gradient.shape.cols};
  return gradient.mesh.engine().fold(no_fault, Smaller{}, code, gradient.valid());
}

/// @throws NumericError if there is a fault
template <class T, class M>
void report_fault(FaultCode code, const Parameters<T, M>& parameters, std::uint64_t step)
{
  if (code == no_fault) return;
  std::uint64_t number = code / 2;
  std::string place = "the loss";
  if (number-- > 0)
    for (const auto& p : parameters)
    {
      const Shape shape = p.gradient.shape;
      if (number < shape.size())
      {
        place = "the gradient of " + p.name + " at row " + std::to_string(number / shape.cols) +
                ", column " + std::to_string(number % shape.cols);
        break;
      }
      number -= shape.size();
    }
  require<NumericError>(false, "got ", code % 2 == 0 ? "a NaN" : "an infinity", " in ", place,
                        " in step ", step,
                        ", which an optimizer would spread to all weights; lower the learning "
                        "rate, or check the data of this step");
}

}  // namespace detail

/// Checks the loss and the gradients of a network before an optimizer uses them. Every rank of the
/// parameters' mesh calls this; idle ranks may, too.
/// @param step the number of the step, for the message
/// @throws NumericError with the same message on every rank: it names the loss or, in the order of
/// the parameters, the first gradient that is not finite, and the global row and column
template <class T, class M>
void check_finite(double loss, const Parameters<T, M>& parameters, std::uint64_t step)
{
  detail::FaultCode first = detail::fault_code(loss, 0);
  if (!parameters.empty())
  {
    const M& mesh = parameters.front().gradient.mesh;
    if (!mesh.active()) return;
    std::uint64_t number = 1;
    for (const auto& p : parameters)
    {
      first = std::min(first, detail::first_fault(p.gradient, number));
      number += p.gradient.shape.size();
    }
    first = detail::all_reduced(mesh, first, ReduceOp::min);
  }
  detail::report_fault(first, parameters, step);
}

/// The instances of the compiled library (cubist/core/instances.hpp).
#define CUBIST_FINITE_INSTANCES(prefix, M, T) CUBIST_INSTANCE(prefix, check_finite<T, M>)
CUBIST_FOR_TRAINED_MESHES(CUBIST_FINITE_INSTANCES)

}  // namespace cubist::CUBIST_ABI
