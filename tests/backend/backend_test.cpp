// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/backend/backend.hpp"
#include "cubist/backend/threads.hpp"
#include "cubist/testing/counting.hpp"

#include "catch.hpp"

namespace cubist::test::backend_backend_test
{

/// Records its arguments, and runs one rank of threads.
struct Recording
{
  using Communicator = ThreadsCommunicator;
  using Engine = HostEngine;

  static inline std::optional<int> ranks;
  static inline int arguments = -1;

  template <class F>
  static void launch(int& argc, char**& argv, const LaunchOptions& options, F&& body)
  {
    ranks = options.ranks;
    arguments = argc;
    // Like MPI, it removes its own arguments.
    if (argc > 1)
    {
      argc = 1;
      argv[1] = nullptr;
    }
    Threads::launch(argc, argv, {.ranks = 1}, body);
  }
};

struct NoEngine
{
  using Communicator = ThreadsCommunicator;
};

struct WrongEngine
{
  using Communicator = ThreadsCommunicator;
  using Engine = int;
};

TEST_CASE("a backend has a communicator and an engine")
{
  STATIC_REQUIRE(BackendType<Threads>);
  STATIC_REQUIRE(BackendType<Counting<Threads>>);
  STATIC_REQUIRE(BackendType<Recording>);
  STATIC_REQUIRE_FALSE(BackendType<NoEngine>);
  STATIC_REQUIRE_FALSE(BackendType<WrongEngine>);
}

TEST_CASE("the backend chooses the number of ranks unless it is given")
{
  CHECK_FALSE(LaunchOptions{}.ranks.has_value());
  const auto nothing = [](auto&) {};
  launch<Recording>({}, nothing);
  CHECK_FALSE(Recording::ranks.has_value());
  launch<Recording>({.ranks = 3}, nothing);
  CHECK(Recording::ranks == 3);
}

TEST_CASE("launch passes the program's arguments to the backend, and returns 0")
{
  char program[] = "program";
  char option[] = "--backend-option";
  char* arguments[] = {program, option, nullptr};
  int argc = 2;
  char** argv = arguments;
  int runs = 0;
  CHECK(launch<Recording>(argc, argv, {}, [&](auto& world) { runs += world.size(); }) == 0);
  CHECK(Recording::arguments == 2);
  CHECK(argc == 1);
  CHECK(argv[1] == nullptr);
  CHECK(runs == 1);

  CHECK(launch<Recording>({}, [&](auto&) { ++runs; }) == 0);
  CHECK(Recording::arguments == 0);
  CHECK(runs == 2);
}

}  // namespace cubist::test::backend_backend_test
