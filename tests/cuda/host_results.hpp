// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// HostEngine's results, with which a GPU's are compared: for float, double, the complex and the
// 16-bit scalars, or in quick tests for three of them.

#include "engine_operations.hpp"
#include "network.hpp"

namespace cubist::test
{

template <Scalar T>
[[nodiscard]] Results<T> host_engine_results();

/// The results of OnOneRank<HostEngine, T>.
template <RealScalar T>
struct HostNetwork
{
  NamedGlobalsOf<T> exact = {};
  NamedGlobalsOf<T> functions = {};
  NamedGlobalsOf<T> training = {};
};

/// The results for float; for bfloat16 only those of training.
template <RealScalar T>
[[nodiscard]] HostNetwork<T> host_network();

}  // namespace cubist::test
