// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// A decorator of any backend that counts the elements each rank sends: `Counting<Threads>`.

#include "cubist/backend/backend.hpp"
#include "cubist/testing/traffic.hpp"

namespace cubist::CUBIST_ABI
{

template <BackendType B>
struct Counting
{
  using Communicator = CountingCommunicator<typename B::Communicator>;
  using Engine = typename B::Engine;

  template <class F>
  static void launch(int& argc, char**& argv, const LaunchOptions& options, F&& body)
  {
    B::launch(argc, argv, options, [&](typename B::Communicator& inner) {
      Communicator world{inner};
      body(world);
    });
  }

  /// Runs `body(world)` on ranks that exist, as the backend below does.
  template <class Ranks, class F>
  requires requires(const Ranks& ranks, void (*body)(typename B::Communicator&))
  {
    B::launch_on(ranks, LaunchOptions{}, body);
  }
  static void launch_on(const Ranks& ranks, const LaunchOptions& options, F&& body)
  {
    B::launch_on(ranks, options, [&](typename B::Communicator& inner) {
      Communicator world{inner};
      body(world);
    });
  }
};

}  // namespace cubist::CUBIST_ABI
