// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Injects faults into the calls of a test's ranks.

#include <vector>

#include "cubist/testing/faulty.hpp"

#include "backend.hpp"

namespace cubist::test
{

template <class B>
inline constexpr bool on_processes<Faulty<B>> = on_processes<B>;

/// Injects faults during its lifetime.
struct With
{
  explicit With(const std::vector<Fault>& faults) { Faulty<TestBackend>::faults = faults; }
  With(const With&) = delete;
  With& operator=(const With&) = delete;
  ~With() { Faulty<TestBackend>::faults = {}; }
};

}  // namespace cubist::test
