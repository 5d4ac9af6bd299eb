// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The health of a training run, looked at every few steps:
//
//   Watch watch{{.replicas_every = 100, .finite_every = 1}};
//   …
//   mlp.backward(dy);
//   watch.look(step, loss, parameters);
//   optimizer.step(parameters);
//
// Words: those of nn/finite.hpp; and of dist/replicas.hpp for two matrices a parameter.

#include <cstdint>
#include <vector>

#include "cubist/dist/replicas.hpp"
#include "cubist/dist/state.hpp"
#include "cubist/nn/finite.hpp"
#include "cubist/nn/parameter.hpp"

namespace cubist
{

/// Compares the replicas of all parameters and of their gradients. Every rank of their mesh calls
/// it, and idle ranks may.
/// @throws ReplicaError on every rank, the same: "gradient of layers.0.weight differs along depth
/// between rank 0 and rank 4, …"
template <class T, class M>
void check_replicas(const Parameters<T, M>& parameters)
{
  std::vector<NamedMatrix<const T, M>> views;
  for (const auto& p : parameters) views.push_back({p.name, p.value});
  for (const auto& p : parameters) views.push_back({"gradient of " + p.name, p.gradient});
  check_replicas(views);
}

/// After how many steps each check is made again; 0 is never.
struct WatchOptions
{
  std::uint64_t replicas_every = 0;
  std::uint64_t finite_every = 0;
};

class Watch
{
 public:
  explicit Watch(const WatchOptions& options) : options_{options} {}

  /// Makes the checks that are due in this step. Every rank of the parameters' mesh calls it
  /// between `backward` and the optimizer, with the same step.
  /// @throws NumericError, ReplicaError on every rank, the same
  template <class T, class M>
  void look(std::uint64_t step, double loss, const Parameters<T, M>& parameters) const
  {
    if (due(step, options_.finite_every)) check_finite(loss, parameters, step);
    if (due(step, options_.replicas_every)) check_replicas(parameters);
  }

 private:
  [[nodiscard]] static bool due(std::uint64_t step, std::uint64_t every)
  {
    return every != 0 && step % every == 0;
  }

  WatchOptions options_;
};

}  // namespace cubist
