// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Decorates any backend so that it counts the elements each rank sends: `Counting<Threads>`.

#include "cubist/backend/backend.hpp"
#include "cubist/backend/decorator.hpp"
#include "cubist/testing/traffic.hpp"

namespace cubist::CUBIST_ABI
{

template <BackendType B>
struct Counting : BackendDecorator<Counting<B>, B>
{
  using Communicator = CountingCommunicator<typename B::Communicator>;
  using Engine = typename B::Engine;
};

}  // namespace cubist::CUBIST_ABI
