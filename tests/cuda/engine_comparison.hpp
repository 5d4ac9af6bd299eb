// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Compares every operation of CudaEngine on one scalar with HostEngine. Except in quick tests, each
// scalar is a separate object (engine_scalar.cu), so that they compile side by side.

#include <algorithm>
#include <cstddef>
#include <string>

#include "cubist/engine/cuda/engine.hpp"

#include "checks.hpp"
#include "engine_operations.hpp"
#include "host_results.hpp"

namespace cubist::test
{

template <Scalar T>
void compare_engines(Comparison& found)
{
  const auto got = engine_results<CudaEngine, T>();
  const auto expected = host_engine_results<T>();
  found.check(got.size() == expected.size(), "the number of results");
  for (std::size_t r = 0; r < std::min(got.size(), expected.size()); ++r)
    found.equal(got[r].second, expected[r].second,
                element_name<T>() + ", " + got[r].first + ", result " + std::to_string(r));
}

}  // namespace cubist::test
