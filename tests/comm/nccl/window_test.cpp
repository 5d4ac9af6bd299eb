// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/comm/nccl/window.hpp"

#include "fake.hpp"
#include "nccl_on_threads.hpp"
#include "printed.hpp"
#include "ranks.hpp"
#include "watchdog.hpp"

namespace cubist::test::comm_nccl_window_test
{

constexpr std::size_t limit = 4096;

TEST_CASE("symmetric windows: which calls use them")
{
  const cubist::detail::NcclWindow closed;
  CHECK_FALSE(closed.is_open());
  CHECK_FALSE(closed.takes(cubist::detail::nccl_call(Call<int>{CallKind::all_reduce}), 2));
  NcclOptions options;
  options.time_limit = std::chrono::seconds{10};
  options.symmetric_bytes = limit;
  with_nccl(2, options, [&](NcclCommunicator& world, cudaStream_t, auto&) {
    require<Error>(fake::live().registrations > 0, "there is no window");
    {
      auto part = world.split(0, 0);
      part.barrier();
    }
    const DeviceMemory memory{limit};
    world.broadcast(std::span{memory.as<int>(), 4}, 0);
    world.synchronize();
  });
}

/// The values that three ranks receive in a communicator and its splits, by calls below the limit,
/// above it only with what all ranks send together, and above it. Ranks send from different places
/// in their memory.
static std::vector<std::vector<int>> values(std::size_t symmetric_bytes)
{
  std::vector<std::vector<int>> found(3);
  NcclOptions options;
  options.time_limit = std::chrono::seconds{10};
  options.symmetric_bytes = symmetric_bytes;
  with_nccl(3, options, [&](NcclCommunicator& world, cudaStream_t compute, auto&) {
    auto& mine = found[static_cast<std::size_t>(world.rank())];
    auto part = world.split(world.rank() / 2, 0);
    for (auto* const comm : {&world, &part})
      for (const std::size_t n :
           {std::size_t{1}, std::size_t{300}, limit / sizeof(int) - 300, std::size_t{5000}})
      {
        const auto ranks = static_cast<std::size_t>(comm->size());
        const auto gap = static_cast<std::size_t>(world.rank());
        const DeviceMemory memory{(gap + (2 * ranks + 1) * n) * sizeof(int)};
        const std::span<int> x{memory.as<int>() + gap, n};
        const std::span<int> all{x.data() + n, ranks * n};
        const std::span<int> sums{all.data() + ranks * n, ranks * n};
        std::vector<int> host(n);
        for (std::size_t i = 0; i < n; ++i) host[i] = static_cast<int>(7 * i + gap);
        copy_bytes(x.data(), host.data(), n * sizeof(int), cudaMemcpyHostToDevice, compute);
        comm->all_gather(x, all);
        comm->all_reduce(x, ReduceOp::max);
        copy_bytes(sums.data(), all.data(), ranks * n * sizeof(int), cudaMemcpyDeviceToDevice,
                   compute);
        auto scattered = comm->async_reduce_scatter(sums, all.first(n));
        scattered.wait();
        host.resize((1 + ranks) * n);
        copy_bytes(host.data(), x.data(), host.size() * sizeof(int), cudaMemcpyDeviceToHost,
                   compute);
        world.synchronize();
        mine.insert(mine.end(), host.begin(), host.end());
      }
  });
  return found;
}

TEST_CASE("symmetric windows: the same values as without, and nothing that NCCL forbids")
{
  const auto before = fake::live();
  const int violations = fake::violations();
  const auto expected = values(0);
  CHECK(values(limit) == expected);
  CHECK(fake::live() == before);
  CHECK(fake::violations() == violations);
}

TEST_CASE("symmetric windows: without NVLink there is none, and one line says so")
{
  const auto before = fake::live();
  const auto expected = values(0);
  fake::connect_by_nvlink(false);
  std::vector<std::vector<int>> found;
  const auto text = printed([&] { found = values(limit); });
  fake::connect_by_nvlink(true);
  CHECK(found == expected);
  CHECK(fake::live() == before);
  CHECK(std::count(text.begin(), text.end(), '\n') == 1);
  CHECK(mentions(text, "symmetric_bytes was requested, but NCCL has no symmetric window",
                 "a communicator of 3 ranks", "NCCL 2.27 and NVLink"));
}

TEST_CASE("symmetric windows: an error of NCCL ends the launch")
{
  const Watchdog watchdog;
  fake::report_aborts(true);
  const auto before = fake::live();
  const auto text = message_of<CommunicationError>([] {
    NcclOptions options;
    options.time_limit = std::chrono::seconds{10};
    options.symmetric_bytes = limit;
    with_nccl(2, options, [](NcclCommunicator& world, auto&&...) {
      if (world.rank() == 1) fake::fail("ncclCommWindowRegister", ncclInternalError);
      (void)world.split(0, 0);
    });
  });
  fake::report_aborts(false);
  CHECK(mentions(text, "rank 1: ncclCommWindowRegister failed", "the symmetric window of rank 1"));
  CHECK(fake::live() == before);
}

}  // namespace cubist::test::comm_nccl_window_test
