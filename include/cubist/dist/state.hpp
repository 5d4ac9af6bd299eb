// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// What makes a program go on where it stopped: distributed matrices, and numbers that are the same
// on every rank, by name. A checkpoint (io/checkpoints.hpp) keeps it; networks and optimizers give
// theirs by `append_state`.

#include <concepts>
#include <cstdint>
#include <string>
#include <vector>

#include "cubist/core/scalar.hpp"
#include "cubist/dist/dist_matrix.hpp"

namespace cubist
{

template <class T, class M>
struct NamedMatrix
{
  std::string name;  // "layers.0.weight"
  DistView<T, M> matrix;
};

struct NamedNumber
{
  std::string name;  // "steps"
  std::uint64_t* value = nullptr;
  /// Part of how the program was set up, so it is compared, never changed.
  bool setting = false;
};

/// References: valid as long as what they refer to.
template <class T, class M>
struct State
{
  std::vector<NamedMatrix<T, M>> matrices;
  std::vector<NamedNumber> numbers;
  /// What is kept in float of a program in 16 bits.
  std::vector<NamedMatrix<Accumulator<T>, M>> accumulators;

  /// The list for matrices of V, which is T or its accumulator.
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
template <class P, class T, class M>
concept StatePart = requires(P& part, State<T, M>& state) { part.append_state(state); };
// clang-format on

/// The state of several things together: `state_of(mlp, adam)`.
template <class First, class... Rest>
[[nodiscard]] auto state_of(First& first, Rest&... rest)
{
  State<typename First::Value, typename First::Mesh> state;
  static_assert(
      (StatePart<Rest, typename First::Value, typename First::Mesh> && ...),
      "something here has no state on the first one's mesh, so it could not be saved with "
      "it; give networks and optimizers of one scalar and one mesh");
  first.append_state(state);
  (rest.append_state(state), ...);
  return state;
}

}  // namespace cubist
