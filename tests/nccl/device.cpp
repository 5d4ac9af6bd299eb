// SPDX-License-Identifier: BSD-3-Clause
// Tests CUDA and NCCL themselves, not the fake: threads, one for each GPU, reduce and send device
// memory.
#include <cstdio>
#include <exception>
#include <numeric>
#include <span>
#include <vector>

#include "cubist/backend/threads.hpp"
#include "cubist/comm/nccl/communicator.hpp"

#include "nccl_on_threads.hpp"

using namespace cubist;

namespace
{

constexpr std::size_t n = 1 << 20;

/// The sum of ones over few ranks is exact in 16 bits.
template <ShortReal T>
void check_short_sums(cudaStream_t compute, NcclCommunicator& world)
{
  const test::DeviceMemory mine{n * sizeof(T)};
  std::vector<T> values(n, T{1});
  const std::size_t bytes = n * sizeof(T);
  test::copy_bytes(mine.as<T>(), values.data(), bytes, cudaMemcpyHostToDevice, compute);
  world.all_reduce(std::span{mine.as<T>(), n});
  test::copy_bytes(values.data(), mine.as<T>(), bytes, cudaMemcpyDeviceToHost, compute);
  world.synchronize();
  for (const float x : values)
    require<CommunicationError>(x == static_cast<float>(world.size()), "got ", x, " as the sum of ",
                                world.size(), " times 1 in ", element_name<T>());
}

void check(cudaStream_t compute, NcclCommunicator& world)
{
  const auto ranks = static_cast<std::size_t>(world.size());
  const test::DeviceMemory mine{n * sizeof(float)};
  const test::DeviceMemory all{ranks * n * sizeof(float)};
  const std::vector<float> ones(n, static_cast<float>(world.rank() + 1));
  std::vector<float> got(ranks * n);

  test::copy_bytes(mine.as<float>(), ones.data(), n * sizeof(float), cudaMemcpyHostToDevice,
                   compute);
  const std::span<float> part{mine.as<float>(), n};
  const std::span<float> pieces{all.as<float>(), ranks * n};
  auto half = world.split(world.rank() % 2, world.rank());
  world.all_reduce(part);
  half.broadcast(part, 0);
  world.all_gather(part, pieces);
  auto received = world.async_receive(part, (world.rank() + 1) % world.size());
  auto sent = world.async_send(pieces.first(n), (world.rank() + world.size() - 1) % world.size());
  received.wait();
  sent.wait();
  world.barrier();
  test::copy_bytes(got.data(), all.as<float>(), got.size() * sizeof(float), cudaMemcpyDeviceToHost,
                   compute);
  world.synchronize();

  const auto sum = static_cast<float>(ranks * (ranks + 1) / 2);
  for (const float x : got)
    require<CommunicationError>(x == sum, "got ", x, " where the sum is ", sum);
  check_short_sums<bfloat16>(compute, world);
  check_short_sums<cubist::half>(compute, world);
}

}  // namespace

int main()
{
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0)
  {
    std::puts("no GPU");
    return 0;
  }
  try
  {
    test::with_nccl(devices, {},
                    [](auto& world, cudaStream_t compute, auto&) { check(compute, world); });
  }
  catch (const std::exception& e)
  {
    std::printf("%s\n", e.what());
    return 1;
  }
  std::printf("%d GPUs agree\n", devices);
}
