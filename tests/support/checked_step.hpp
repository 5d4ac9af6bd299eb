// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// A training step of a test, which checks that all replicas are equal, bit by bit. Every test that
// trains a network updates it by this function; tests/layers/check.cmake looks for the tests that
// do not.

#include "cubist/nn/parameter.hpp"
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

/// The same for an optimizer whose state is sharded. Each rank has its part of the summed gradients
/// only, so the values alone are compared.
/// @param parameters of the network
template <class O, class T, class M, class... Factor>
void checked_sharded_step(O& optimizer, const Parameters<T, M>& parameters, Factor... factor)
{
  optimizer.step(parameters, factor...);
  check_replicas_of_values(parameters);
}

}  // namespace cubist::test
