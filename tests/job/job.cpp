// SPDX-License-Identifier: BSD-3-Clause
// job WHAT: a program that must end with an error, which tests/job/check.sh checks.
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "cubist/backend/mpi.hpp"
#include "cubist/testing/faulty.hpp"

using namespace cubist;
using namespace std::chrono_literals;

int main(int argc, char** argv)
{
  const std::string what = argv[1];
  LaunchOptions options;
  if (what.starts_with("is late") || what == "is stopped") options.time_limit = 1500ms;
  const auto body = [&](auto& world) {
    std::vector<double> x(100'000);
    world.all_reduce(x);
    const bool bad = world.rank() == 2;
    if (what == "all throw" || (what == "some throw" && world.rank() > 0))
      throw DataError{"no weights.bin"};
    if (what == "none throws") return;
    if (bad && what == "drops") (void)world.async_all_reduce(x);
    if (bad && what == "throws under way")
    {
      std::vector<double> y(4'000'000);
      auto broadcast = world.async_broadcast(y, 2);
      throw DataError{"no weights.bin"};
    }
    if (bad && (what == "throws" || what == "throws while others compute"))
      throw DataError{"no weights.bin"};
    if (bad && what == "is killed") std::raise(SIGKILL);
    if (bad && what == "crashes") std::raise(SIGSEGV);
    if (bad && what == "exits") std::exit(0);
    if (bad && what == "is stopped") std::raise(SIGSTOP);
    if (bad && what.starts_with("is late")) std::this_thread::sleep_for(60s);
    if (what == "is late for a sum") world.all_reduce(x);
    if (what == "returns early")
      for (int step = 0; step < (bad ? 3 : 9); ++step) world.all_reduce(x);
    if (what == "gathers alone")
    {
      if (bad) world.gather(x, std::vector<double>(4 * x.size()), 2);
      return;
    }
    if (bad && what == "returns early") return;
    if (what == "throws while others compute" || what == "some throw")
      std::this_thread::sleep_for(60s);
    if (what == "throws under way") world.broadcast(std::vector<double>(4'000'000), 2);
    world.barrier();
  };

  // The fault is in rank 2's first sum.
  const auto fault = [&](const char* name, Fault::Kind kind) {
    if (what == name)
      Faulty<Mpi>::faults = {{.kind = kind, .rank = 2, .collective = CallKind::all_reduce}};
  };
  fault("has an error", Fault::Kind::error);
  fault("dies", Fault::Kind::death);
  fault("has a wrong size", Fault::Kind::wrong_size);
  fault("has a wrong order", Fault::Kind::wrong_order);
  if (!Faulty<Mpi>::faults.empty()) return launch<Faulty<Mpi>>(argc, argv, options, body);
  return launch<Mpi>(argc, argv, options, body);
}
