// SPDX-License-Identifier: BSD-3-Clause
// hosts HOSTS: tests that need ranks on several hosts.
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

/// The number of this host, whose name is a letter and the number.
int host()
{
  char name[64] = "";
  gethostname(name, sizeof name - 1);
  return std::atoi(name + 1);
}

void check(bool holds, const std::string& what) { require<Error>(holds, "wrong: ", what); }

void check_remote(World& world, int hosts)
{
  check(world.remote(), "all ranks are on one host");
  auto near = world.split(host(), 0);
  check(near.size() * hosts == world.size(), "a host has another number of ranks");
  check(!near.remote(), "the ranks of a host are remote");
  check(!world.split(world.rank(), 0).remote(), "a rank is remote from itself");
  auto far = world.split(near.rank(), 0);
  check(far.size() == hosts && far.remote(), "ranks on several hosts are not remote");
}

/// Computes for some time without calling MPI.
double compute(Clock::duration time)
{
  double x = 1.0;
  for (const auto end = Clock::now() + time; Clock::now() < end;)
    for (int i = 0; i < 1000; ++i) x = 1.0 / (1.0 + x);
  return x;
}

void check_overlap(World& world)
{
  const bool last = world.rank() + 1 == world.size();
  for (const std::size_t n : {1'000U, 200'000U})
  {
    std::vector<double> x(n, world.rank() == 0 ? 5.0 : 0.0);
    world.barrier();
    const auto begin = Clock::now();
    auto request = world.async_broadcast(x, 0);
    // The helper threads of the ranks before the last one forward the data meanwhile.
    if (!last) check(compute(1200ms) > 0.0, "arithmetic");
    request.wait();
    check(x == std::vector<double>(n, 5.0), "the data");
    if (last) check(Clock::now() - begin < 900ms, "the data arrived only after the computation");
    if (!last) check(Clock::now() - begin < 2s, "the data arrived late");
  }
}

/// The bytes that this host has received over its network.
double received()
{
  std::ifstream devices{"/proc/self/net/dev"};
  for (std::string line; std::getline(devices, line);)
    if (const auto name = line.find("eth0:"); name != std::string::npos)
      return std::stod(line.substr(name + 5));
  throw Error{"this host has no network"};
}

/// Checks how many bytes this host receives while all ranks `communicate`. TCP sends data again if
/// a host had to wait for a core, so hosts that receive too much may try twice more.
template <class F>
void check_received(World& world, double bytes, const std::string& what, F communicate)
{
  constexpr double small = 1e5;  // headers, acknowledgements, barriers
  double bytes_received = 0;
  for (int attempt = 0; attempt < 3; ++attempt)
  {
    world.barrier();
    const double before = received();
    world.barrier();
    communicate();
    world.barrier();
    bytes_received = received() - before;
    check(bytes <= bytes_received, what + " sent fewer bytes to a host than it needs");
    std::vector<float> too_many{bytes_received < 1.1 * bytes + small ? 0.0F : 1.0F};
    world.all_reduce(too_many);
    if (too_many.front() == 0) return;
  }
  check(bytes_received < 1.1 * bytes + small, what + " sent " + std::to_string(bytes_received) +
                                                  " bytes to a host, which needs " +
                                                  std::to_string(bytes));
}

void check_bytes_received(World& world, int hosts)
{
  constexpr std::size_t n = 150'000;
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
    check_remote(world, hosts);
    check_overlap(world);
    check_bytes_received(world, hosts);
  });
}
