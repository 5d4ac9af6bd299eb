// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The state that a program needs to resume: distributed matrices, and numbers that are equal on all
// ranks, each with a name. Checkpoints (io/checkpoints.hpp) save it; networks and optimizers append
// theirs with `append_state`.

#include <concepts>
#include <cstdint>
#include <string>
#include <vector>

#include "cubist/core/scalar.hpp"
#include "cubist/matrix/dist_matrix.hpp"

namespace cubist::CUBIST_ABI
{

/// A reference to a distributed matrix, with a name.
template <class T, class M>
struct NamedMatrix
{
  std::string name;       // "layers.0.weight"
  DistView<T, M> matrix;  ///< refers to the matrix
};

/// A reference to a number that is equal on all ranks, with a name.
struct NamedNumber
{
  std::string name;                // "steps"
  std::uint64_t* value = nullptr;  ///< refers to the number
  /// Whether it is a setting of the program, which a checkpoint compares and does not change.
  bool setting = false;
};

/// References to matrices and numbers of the program, which must outlive this object.
template <class T, class M>
struct State
{
  std::vector<NamedMatrix<T, M>> matrices;  ///< the matrices
  std::vector<NamedNumber> numbers;         ///< the numbers
  /// Matrices that are kept in float even if the program's elements have 16 bits.
  std::vector<NamedMatrix<Accumulator<T>, M>> accumulators;

  /// Returns the list of matrices of V: `matrices` or `accumulators`.
  template <class V>
  [[nodiscard]] auto& matrices_of()
  {
    if constexpr (std::same_as<V, T>)
      return matrices;
    else
      return accumulators;
  }
};

// clang-format off
/// A type that `state_of` takes, which has a function `append_state`.
template <class P, class T, class M>
concept StatePart = requires(P& part, State<T, M>& state) { part.append_state(state); };
// clang-format on

/// Returns the state of networks and optimizers: `state_of(mlp, adam)`.
template <class First, class... Rest>
[[nodiscard]] auto state_of(First& first, Rest&... rest)
{
  State<typename First::Value, typename First::Mesh> state;
  static_assert(
      (StatePart<Rest, typename First::Value, typename First::Mesh> && ...),
      "one of these arguments has no state on the mesh of the first, so they cannot be saved "
      "together; pass networks and optimizers with the same scalar on the same mesh");
  first.append_state(state);
  (rest.append_state(state), ...);
  return state;
}

}  // namespace cubist::CUBIST_ABI
