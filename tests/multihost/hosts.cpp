// SPDX-License-Identifier: BSD-3-Clause
// hosts HOSTS: checks what only ranks on several hosts can show.
#include <chrono>
#include <cstdlib>
#include <string>
#include <vector>

#include <unistd.h>

#include "cubist/backend/mpi.hpp"

namespace
{

using namespace cubist;
using World = MpiCommunicator;
using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

/// The number of this host, whose name is a letter and that number.
int host()
{
  char name[64] = "";
  gethostname(name, sizeof name - 1);
  return std::atoi(name + 1);
}

void check(bool holds, const std::string& what) { require<Error>(holds, "wrong: ", what); }

void remote_is_between_hosts(World& world, int hosts)
{
  check(world.remote(), "all ranks are on one host");
  auto near = world.split(host(), 0);
  check(near.size() * hosts == world.size(), "a host has another number of ranks");
  check(!near.remote(), "the ranks of a host are remote");
  check(!world.split(world.rank(), 0).remote(), "a rank is remote from itself");
  auto far = world.split(near.rank(), 0);
  check(far.size() == hosts && far.remote(), "ranks on several hosts are not remote");
}

/// Computes, and does not call MPI.
double compute(Clock::duration time)
{
  double x = 1.0;
  for (const auto end = Clock::now() + time; Clock::now() < end;)
    for (int i = 0; i < 1000; ++i) x = 1.0 / (1.0 + x);
  return x;
}

void data_moves_while_ranks_compute(World& world)
{
  const bool last = world.rank() + 1 == world.size();
  for (const std::size_t n : {1'000U, 500'000U})
  {
    std::vector<double> x(n, world.rank() == 0 ? 5.0 : 0.0);
    world.barrier();
    const auto begin = Clock::now();
    auto request = world.async_broadcast(x, 0);
    // The ranks before the last one pass the data on meanwhile.
    if (!last) check(compute(2s) > 0.0, "arithmetic");
    request.wait();
    check(x == std::vector<double>(n, 5.0), "the data");
    if (last) check(Clock::now() - begin < 1500ms, "the data came only when ranks had computed");
    if (!last) check(Clock::now() - begin < 3s, "the data came late");
  }
}

}  // namespace

int main(int argc, char** argv)
{
  const int hosts = std::atoi(argv[1]);
  return launch<Mpi>(argc, argv, {}, [&](World& world) {
    remote_is_between_hosts(world, hosts);
    data_moves_while_ranks_compute(world);
  });
}
