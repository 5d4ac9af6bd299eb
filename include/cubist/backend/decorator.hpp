// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// A backend on top of another one. A decorator derives from BackendDecorator, and has a
// communicator and an engine. Its function `decorate(body)` returns what runs on the ranks of the
// decorated backend, and calls `body(world)`; by default, `world` is its communicator of the
// backend's communicator.

#include "cubist/backend/backend.hpp"

namespace cubist::CUBIST_ABI
{

/// The base of decorators of backends, which launches the decorated backend.
/// @tparam Derived the decorator
/// @tparam B the backend that is decorated
template <class Derived, BackendType B>
struct BackendDecorator
{
  /// @throws what the launch of B, and what `decorate` adds to it, throw
  template <class F>
  static void launch(int& argc, char**& argv, const LaunchOptions& options, F&& body)
  {
    B::launch(argc, argv, options, Derived::decorate(body));
  }

  /// Runs `body(world)` on existing ranks, as the decorated backend does.
  template <class Ranks, class F>
  requires requires(const Ranks& ranks, void (*body)(typename B::Communicator&))
  {
    B::launch_on(ranks, LaunchOptions{}, body);
  }
  static void launch_on(const Ranks& ranks, const LaunchOptions& options, F&& body)
  {
    B::launch_on(ranks, options, Derived::decorate(body));
  }

  /// Returns a body for the ranks of the decorated backend, which calls `body` with the decorator's
  /// communicator.
  template <class F>
  [[nodiscard]] static auto decorate(F& body)
  {
    return [&body](typename B::Communicator& inner) {
      typename Derived::Communicator world{inner};
      body(world);
    };
  }
};

}  // namespace cubist::CUBIST_ABI
