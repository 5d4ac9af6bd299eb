// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// A decorator of any backend that reports its ranks to be on several nodes, so that the code for
// several nodes runs on one machine.

#include "cubist/backend/decorator.hpp"
#include "cubist/comm/decorator.hpp"

#include "backend.hpp"

namespace cubist::test
{

template <Communicator C>
class FarCommunicator : public CommunicatorDecorator<FarCommunicator<C>, C, false>
{
 public:
  using CommunicatorDecorator<FarCommunicator, C, false>::CommunicatorDecorator;

  [[nodiscard]] bool remote() const { return this->size() > 1; }
};

template <class B>
struct Far : BackendDecorator<Far<B>, B>
{
  using Communicator = FarCommunicator<typename B::Communicator>;
  using Engine = typename B::Engine;
};

template <class B>
inline constexpr bool on_processes<Far<B>> = on_processes<B>;

}  // namespace cubist::test
