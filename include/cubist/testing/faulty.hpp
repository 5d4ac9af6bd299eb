// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Decorates any backend so that it injects faults: `Faulty<Mpi>`.
//
//   Faulty<Mpi>::faults = {{.kind = Fault::Kind::error, .rank = 1, .call = 100}};

#include <csignal>
#include <memory>
#include <vector>

#include "cubist/backend/backend.hpp"
#include "cubist/backend/decorator.hpp"
#include "cubist/testing/faulty_communicator.hpp"

namespace cubist::CUBIST_ABI
{

template <BackendType B>
struct Faulty : BackendDecorator<Faulty<B>, B>
{
  using Communicator = FaultyCommunicator<typename B::Communicator>;
  using Engine = typename B::Engine;

  /// Read by `launch`; the same on all ranks.
  static inline std::vector<Fault> faults = {};

  /// Runs `body` with a communicator that injects this rank's faults.
  template <class F>
  [[nodiscard]] static auto decorate(F& body)
  {
    return [&body, injected = faults](typename B::Communicator& inner) {
      Communicator world{inner, std::make_shared<RankFaults>(injected, inner.rank(), &die)};
      try
      {
        body(world);
      }
      catch (const Death&)
      {
      }
    };
  }

 private:
  /// A thread that dies throws this, which leaves its body without a message.
  struct Death
  {
  };

  static void die()
  {
    if constexpr (requires { requires B::ranks_are_processes; })
      std::raise(SIGKILL);
    else
      throw Death{};
  }
};

}  // namespace cubist::CUBIST_ABI
