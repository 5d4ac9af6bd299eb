// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// A training step of a test, which checks that all replicas are equal, bit by bit. Every test that
// trains a network updates it by one of these functions; tests/CMakeLists.txt refuses those that do
// not.

#include <cstddef>

#include "cubist/gradients/parameter.hpp"
#include "cubist/training/numerics_monitor.hpp"

namespace cubist::test
{

/// optimizer.step(parameters, factor), and compares the replicas of the gradients that it takes and
/// of the values that it leaves.
/// @throws ReplicaError on every rank, which ends the test
template <class O, class T, class M, class... Factor>
void checked_step(O& optimizer, const Parameters<T, M>& parameters, Factor... factor)
{
  optimizer.step(parameters, factor...);
  check_replicas(parameters);
}

/// Step i of `steps`, from 0 on: the first two and the last one are checked, since replicas that
/// differ stay different. For long runs.
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

/// Takes a step of an optimizer whose state is sharded, and compares replicas. Each rank has its
/// part of the summed gradients only, so the values alone are compared.
/// @param parameters of the network
template <class O, class T, class M, class... Factor>
void checked_sharded_step(O& optimizer, const Parameters<T, M>& parameters, Factor... factor)
{
  optimizer.step(parameters, factor...);
  check_replicas_of_values(parameters);
}

}  // namespace cubist::test
