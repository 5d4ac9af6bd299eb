// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Periodic checks of a training run: losses and gradients that are not finite, and replicas that
// differ:
//
//   NumericsMonitor monitor{{.replicas_every = 100, .finite_every = 1}};
//   …
//   mlp.backward(dy);
//   monitor.check(step, loss, parameters);
//   optimizer.step(parameters);
//
// Elements that one rank sends: what training/finite.hpp sends, and what matrix/check_replicas.hpp
// sends for two matrices per parameter.

#include <cstdint>
#include <vector>

#include "cubist/core/instances.hpp"
#include "cubist/gradients/parameter.hpp"
#include "cubist/matrix/check_replicas.hpp"
#include "cubist/matrix/state.hpp"
#include "cubist/training/finite.hpp"

namespace cubist::CUBIST_ABI
{

/// Compares the replicas of all parameters and of their gradients. Every rank of their mesh calls
/// this; idle ranks may, too.
/// @throws ReplicaError, the same on every rank: "gradient of layers.0.weight differs along depth
/// between rank 0 and rank 4, …"
template <class T, class M>
void check_replicas(const Parameters<T, M>& parameters)
{
  std::vector<NamedMatrix<const T, M>> views;
  for (const auto& p : parameters) views.push_back({p.name, p.value});
  for (const auto& p : parameters) views.push_back({"gradient of " + p.name, p.gradient});
  check_replicas(views);
}

/// Compares the replicas of all parameters, but not of their gradients, because those of a sharded
/// optimizer are complete only in parts. Every rank of their mesh calls this; idle ranks may, too.
/// @throws ReplicaError, the same on every rank
template <class T, class M>
void check_replicas_of_values(const Parameters<T, M>& parameters)
{
  std::vector<NamedMatrix<const T, M>> views;
  for (const auto& p : parameters) views.push_back({p.name, p.value});
  check_replicas(views);
}

namespace detail
{

/// Whether an action that runs every `every` steps, or never if that is 0, is due after this step.
[[nodiscard]] inline bool is_due(std::uint64_t step, std::uint64_t every)
{
  return every != 0 && step % every == 0;
}

}  // namespace detail

/// The number of steps between two checks; 0 stands for no checks.
struct NumericsMonitorOptions
{
  std::uint64_t replicas_every = 0;  ///< steps between comparisons of replicas; 0: never
  std::uint64_t finite_every = 0;    ///< steps between checks for NaN and infinity; 0: never
};

class NumericsMonitor
{
 public:
  /// Makes a monitor that checks as often as the options say.
  explicit NumericsMonitor(const NumericsMonitorOptions& options)
      : options_{options}
  {
  }

  /// Runs the checks that are due in this step. Every rank of the parameters' mesh calls it between
  /// `backward` and the optimizer, with the same step.
  /// @throws NumericError, ReplicaError, the same on every rank
  template <class T, class M>
  void check(std::uint64_t step, double loss, const Parameters<T, M>& parameters) const
  {
    if (detail::is_due(step, options_.finite_every)) check_finite(loss, parameters, step);
    if (detail::is_due(step, options_.replicas_every)) check_replicas(parameters);
  }
  /// Checks a network whose optimizer's state is sharded: `parts` are the parameters of `Sharded`,
  /// which have no replicas, and `whole` are those of the network, whose values are compared.
  /// @throws NumericError, ReplicaError, with the same message on every rank
  template <class T, class M>
  void check(std::uint64_t step, double loss, const Parameters<T, M>& parts,
             const Parameters<T, M>& whole) const
  {
    if (detail::is_due(step, options_.finite_every)) check_finite(loss, parts, step);
    if (detail::is_due(step, options_.replicas_every)) check_replicas_of_values(whole);
  }

 private:
  NumericsMonitorOptions options_;
};

/// The instances of the compiled library (cubist/core/instances.hpp).
#define CUBIST_REPLICAS_INSTANCES(prefix, M, T)                                                    \
  prefix void check_replicas<T, M>(const Parameters<T, M>&);                                       \
  prefix void check_replicas_of_values<T, M>(const Parameters<T, M>&);
CUBIST_FOR_TRAINED_MESHES(CUBIST_REPLICAS_INSTANCES)

}  // namespace cubist::CUBIST_ABI
