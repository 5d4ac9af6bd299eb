// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The host's engine with memory that other processes of the machine can read.

#include <vector>

#include "cubist/engine/engine.hpp"
#include "cubist/engine/host/engine.hpp"
#include "cubist/memory/shared_arena.hpp"

namespace cubist::CUBIST_ABI
{

class SharedEngine : public HostEngine
{
 public:
  template <class T>
  using Buffer = std::vector<T, ArenaAllocator<T>>;
};

static_assert(Engine<SharedEngine>);

}  // namespace cubist::CUBIST_ABI
