// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Training steps for tests, which check that all replicas are equal, bit by bit. Every test that
// trains a network must update it by one of these functions; tests/CMakeLists.txt checks that.

#include <cstddef>

#include "cubist/gradients/parameter.hpp"
#include "cubist/training/numerics_monitor.hpp"

namespace cubist::test
{

/// Calls optimizer.step(parameters, factor), and compares the replicas of the gradients before it
/// and of the values after it.
/// @throws ReplicaError on every rank, which ends the test
template <class O, class T, class M, class... Factor>
void checked_step(O& optimizer, const Parameters<T, M>& parameters, Factor... factor)
{
  optimizer.step(parameters, factor...);
  check_replicas(parameters);
}

/// Takes step i of `steps`, counted from 0, in a long run. It checks only the first two steps and
/// the last one, since replicas that differ stay different.
/// @throws ReplicaError on every rank, which ends the test
template <class O, class T, class M>
void checked_step(std::size_t i, std::size_t steps, O& optimizer,
                  const Parameters<T, M>& parameters)
{
  if (i < 2 || i + 1 == steps)
    checked_step(optimizer, parameters);
  else
    optimizer.step(parameters);
}

/// Takes a step of an optimizer whose state is sharded, and compares the replicas of the values. It
/// compares no gradients, as each rank only has its part of the summed gradients.
/// @param parameters  the network's parameters
template <class O, class T, class M, class... Factor>
void checked_sharded_step(O& optimizer, const Parameters<T, M>& parameters, Factor... factor)
{
  optimizer.step(parameters, factor...);
  check_replicas_of_values(parameters);
}

}  // namespace cubist::test
