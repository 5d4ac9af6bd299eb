// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Clips gradients by their global norm, in one of two ways:
//
//   clip_gradients(parameters, 1.0);                   // scales the gradients in place
//   optimizer.step(parameters);
//
//   const double norm = gradient_norm(parameters);     // reads them once; the optimizer scales
//   optimizer.step(parameters, clip_factor(norm, 1.0));
//
// Each element counts once, even if several ranks hold replicas of it. With a `Sharded` optimizer,
// pass its `parameters()`, whose gradients are complete in parts, one on each rank.
//
// Elements that one rank sends: what one all_reduce of a number over the mesh sends, or three if
// the squares of gradients exceed the range of double.
//
// Source: Pascanu, Mikolov, Bengio, On the difficulty of training recurrent neural networks (2013),
// section 3.2; the factor is that of PyTorch's clip_grad_norm_.

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstddef>

#include "cubist/comm/call.hpp"
#include "cubist/core/error.hpp"
#include "cubist/core/finite.hpp"
#include "cubist/core/host_device.hpp"
#include "cubist/core/instances.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/engine/functions.hpp"
#include "cubist/gradients/parameter.hpp"
#include "cubist/matrix/staging.hpp"
#include "cubist/nn/norm/norm_functions.hpp"

namespace cubist::CUBIST_ABI
{

namespace detail
{

/// (x / scale)^2
struct ScaledSquareOf
{
  double scale;

  CUBIST_HOST_DEVICE double operator()(std::size_t, std::size_t, double x) const
  {
    return x / scale * (x / scale);
  }
};

struct MagnitudeOf
{
  CUBIST_HOST_DEVICE double operator()(std::size_t, std::size_t, double x) const
  {
    return std::abs(x);
  }
};

/// Folds f over the elements of all gradients, counting each once. The result is the same on every
/// rank.
template <RealScalar T, class M, class Combine, class F>
[[nodiscard]] double fold_gradients(const Parameters<T, M>& parameters, ReduceOp op,
                                    Combine combine, F f)
{
  const M& mesh = parameters.front().gradient.mesh;
  double mine = 0;
  for (const auto& p : parameters)
    if (p.gradient.is_primary(mesh.rank()))
      mine = combine(mine, mesh.engine().fold(0.0, combine, f, p.gradient.valid()));
  return all_reduced(mesh, mine, op);
}

}  // namespace detail

/// Returns the global norm of the gradients, the square root of the sum of their squared elements,
/// computed in double. It is the same on every rank, 0 on idle ranks, and not finite if an element
/// is not. Every rank of the parameters' mesh calls it. Elements whose squares double cannot hold
/// are scaled first.
/// @pre the gradients are complete, as they are after `backward`
template <RealScalar T, class M>
[[nodiscard]] double gradient_norm(const Parameters<T, M>& parameters)
{
  if (parameters.empty()) return 0;
  if (!parameters.front().gradient.mesh.active()) return 0;
  using detail::fold_gradients, detail::Sum;
  const double squares = fold_gradients(parameters, ReduceOp::sum, Sum{}, detail::SquareOf{});
  if constexpr (std::same_as<T, double>)
    if (is_infinite(squares))
    {
      const double largest =
          fold_gradients(parameters, ReduceOp::max, detail::Larger{}, detail::MagnitudeOf{});
      if (!is_finite(largest)) return largest;
      return largest * std::sqrt(fold_gradients(parameters, ReduceOp::sum, Sum{},
                                                detail::ScaledSquareOf{largest}));
    }
  return std::sqrt(squares);
}

/// Returns the factor that brings gradients of this norm to a norm of at most `most`. It is at most
/// 1, and 1 for a norm that is not finite.
/// @throws ArgumentError unless 0 < most
[[nodiscard]] inline double clip_factor(double norm, double most)
{
  require<ArgumentError>(
      most > 0, "got a norm of ", most,
      " to clip gradients to, so nothing would be left of them; use a positive number");
  return is_finite(norm) ? std::min(1.0, most / (norm + 1e-6)) : 1.0;
}

/// Multiplies all gradients by clip_factor() of their norm, and returns their norm before clipping.
/// Preconditions, errors and messages are those of the two functions above.
template <RealScalar T, class M>
double clip_gradients(const Parameters<T, M>& parameters, double most)
{
  const double norm = gradient_norm(parameters);
  const double factor = clip_factor(norm, most);
  if (factor < 1)
    for (const auto& p : parameters)
    {
      const detail::Scaled<Accumulator<T>> scale{static_cast<Accumulator<T>>(factor)};
      p.gradient.mesh.engine().map_indexed(p.gradient.valid(), scale, p.gradient.valid());
    }
  return norm;
}

/// The instances of the compiled library (cubist/core/instances.hpp).
#define CUBIST_CLIP_INSTANCES(prefix, M, T)                                                        \
  CUBIST_INSTANCE(prefix, gradient_norm<T, M>)                                                     \
  CUBIST_INSTANCE(prefix, clip_gradients<T, M>)
CUBIST_FOR_TRAINED_MESHES(CUBIST_CLIP_INSTANCES)

}  // namespace cubist::CUBIST_ABI
