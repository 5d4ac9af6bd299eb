// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The results of HostEngine that a GPU's are compared with; float, double, the complex scalars and
// those of 16 bits; in quick tests three of them.

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

/// For float; for bfloat16 the training only.
template <RealScalar T>
[[nodiscard]] HostNetwork<T> host_network();

}  // namespace cubist::test
