// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// A decorator of any backend that injects faults: `Faulty<Mpi>`.
//
//   Faulty<Mpi>::faults = {{.kind = Fault::Kind::error, .rank = 1, .call = 100}};

#include <csignal>
#include <memory>
#include <vector>

#include "cubist/backend/backend.hpp"
#include "cubist/testing/faulty_communicator.hpp"

namespace cubist::CUBIST_ABI
{

template <BackendType B>
struct Faulty
{
  using Communicator = FaultyCommunicator<typename B::Communicator>;
  using Engine = typename B::Engine;

  /// Read by `launch`; the same on all ranks.
  static inline std::vector<Fault> faults = {};

  template <class F>
  static void launch(int& argc, char**& argv, const LaunchOptions& options, F&& body)
  {
    B::launch(argc, argv, options, with_faults(body));
  }

  /// Runs `body(world)` on ranks that exist, as the backend below does.
  template <class Ranks, class F>
  requires requires(const Ranks& ranks, void (*body)(typename B::Communicator&))
  {
    B::launch_on(ranks, LaunchOptions{}, body);
  }
  static void launch_on(const Ranks& ranks, const LaunchOptions& options, F&& body)
  {
    B::launch_on(ranks, options, with_faults(body));
  }

 private:
  /// Thrown by a thread that dies: it leaves its body without a message.
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

  template <class F>
  static auto with_faults(F& body)
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
};

}  // namespace cubist::CUBIST_ABI
