// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// A decorator of any backend that reports its ranks to be on several nodes, to run the code for
// several nodes on one machine.

#include <utility>

#include "cubist/backend/backend.hpp"
#include "cubist/comm/communicator.hpp"

#include "backend.hpp"

namespace cubist::test
{

template <Communicator C>
class FarCommunicator : public Collectives<FarCommunicator<C>>
{
 public:
  explicit FarCommunicator(C inner) : inner_{std::move(inner)} {}

  [[nodiscard]] int rank() const { return inner_.rank(); }
  [[nodiscard]] int size() const { return inner_.size(); }
  [[nodiscard]] bool remote() const { return inner_.size() > 1; }
  [[nodiscard]] FarCommunicator split(int colour, int key)
  {
    return FarCommunicator{inner_.split(colour, key)};
  }
  template <Element T>
  [[nodiscard]] auto start(const Call<T>& call)
  {
    return inner_.start(call);
  }

 private:
  C inner_;
};

template <class B>
struct Far
{
  using Communicator = FarCommunicator<typename B::Communicator>;
  using Engine = typename B::Engine;

  template <class F>
  static void launch(int& argc, char**& argv, const LaunchOptions& options, F&& body)
  {
    B::launch(argc, argv, options, [&](typename B::Communicator& inner) {
      Communicator world{inner};
      body(world);
    });
  }
};

template <class B>
inline constexpr bool on_processes<Far<B>> = on_processes<B>;

}  // namespace cubist::test
