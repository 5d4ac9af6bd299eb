// SPDX-License-Identifier: BSD-3-Clause
#include <complex>
#include <concepts>

#include "cubist/engine/host/engine.hpp"

#include "host_results.hpp"

namespace cubist::test
{

template <Scalar T>
Results<T> host_engine_results()
{
  return engine_results<HostEngine, T>();
}

template Results<double> host_engine_results();
template Results<std::complex<float>> host_engine_results();
template Results<bfloat16> host_engine_results();
#ifndef CUBIST_QUICK_TESTS
template Results<float> host_engine_results();
template Results<std::complex<double>> host_engine_results();
template Results<half> host_engine_results();
#endif

template <RealScalar T>
HostNetwork<T> host_network()
{
  const OnOneRank<HostEngine, T> network;
  if constexpr (std::same_as<T, float>)
    return {network.exact(), network.functions(), network.training()};
  else
    return {.training = network.training()};
}

template HostNetwork<float> host_network();
template HostNetwork<bfloat16> host_network();

}  // namespace cubist::test
