// SPDX-License-Identifier: BSD-3-Clause
// hosts HOSTS: checks what only ranks on several hosts can show.
#include <chrono>
#include <cstdlib>
#include <fstream>
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

/// The bytes that have come to this host over its network.
double received()
{
  std::ifstream devices{"/proc/self/net/dev"};
  for (std::string line; std::getline(devices, line);)
    if (const auto name = line.find("eth0:"); name != std::string::npos)
      return std::stod(line.substr(name + 5));
  throw Error{"this host has no network"};
}

/// Checks what comes to this host while all ranks `communicate`.
template <class F>
void check_received(World& world, double bytes, const std::string& what, F communicate)
{
  world.barrier();
  const double before = received();
  world.barrier();
  communicate();
  world.barrier();
  const double came = received() - before;
  constexpr double small = 1e5;  // headers, acknowledgements, barriers
  check(bytes <= came && came < 1.1 * bytes + small, what + " brought " + std::to_string(came) +
                                                         " bytes to a host, which needs " +
                                                         std::to_string(bytes));
}

void data_comes_to_a_host_once(World& world, int hosts)
{
  constexpr std::size_t n = 500'000;
  const auto size = static_cast<std::size_t>(world.size());
  std::vector<double> x(n), all(n * size);
  for (int root = 0; root < world.size(); ++root)
  {
    const bool here = root * hosts / world.size() + 1 == host();
    check_received(world, here ? 0 : sizeof(double) * n, "a broadcast",
                   [&] { world.broadcast(x, root); });
  }
  const std::size_t there = size - size / static_cast<std::size_t>(hosts);
  check_received(world, static_cast<double>(sizeof(double) * n * there), "an all_gather",
                 [&] { world.all_gather(x, all); });
}

}  // namespace

int main(int argc, char** argv)
{
  const int hosts = std::atoi(argv[1]);
  return launch<Mpi>(argc, argv, {}, [&](World& world) {
    remote_is_between_hosts(world, hosts);
    data_moves_while_ranks_compute(world);
    data_comes_to_a_host_once(world, hosts);
  });
}
