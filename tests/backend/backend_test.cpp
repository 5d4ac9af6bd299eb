// SPDX-License-Identifier: BSD-3-Clause
#include <optional>
#include <string>

#include "cubist/backend/backend.hpp"
#include "cubist/backend/threads.hpp"
#include "cubist/testing/counting.hpp"

#include "catch.hpp"

using namespace cubist;

namespace
{

/// Notes what it is launched with, and runs nothing but one rank of threads.
struct Noting
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
    // As MPI does, which takes its own arguments away.
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

}  // namespace

TEST_CASE("what is a backend, and what is not")
{
  STATIC_REQUIRE(Backend<Threads>);
  STATIC_REQUIRE(Backend<Counting<Threads>>);
  STATIC_REQUIRE(Backend<Noting>);
  STATIC_REQUIRE_FALSE(Backend<NoEngine>);
  STATIC_REQUIRE_FALSE(Backend<WrongEngine>);
}

TEST_CASE("the number of ranks is left to the backend unless it is given")
{
  CHECK_FALSE(LaunchOptions{}.ranks.has_value());
  const auto nothing = [](auto&) {};
  launch<Noting>({}, nothing);
  CHECK_FALSE(Noting::ranks.has_value());
  launch<Noting>({.ranks = 3}, nothing);
  CHECK(Noting::ranks == 3);
}

TEST_CASE("launch hands the program's arguments to the backend, and gives 0 back")
{
  char program[] = "program";
  char option[] = "--backend-option";
  char* arguments[] = {program, option, nullptr};
  int argc = 2;
  char** argv = arguments;
  int runs = 0;
  CHECK(launch<Noting>(argc, argv, {}, [&](auto& world) { runs += world.size(); }) == 0);
  CHECK(Noting::arguments == 2);
  CHECK(argc == 1);
  CHECK(argv[1] == nullptr);
  CHECK(runs == 1);

  CHECK(launch<Noting>({}, [&](auto&) { ++runs; }) == 0);
  CHECK(Noting::arguments == 0);
  CHECK(runs == 2);
}
