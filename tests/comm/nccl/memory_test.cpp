// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/comm/nccl/memory.hpp"
#include "cubist/engine/cuda/buffer.hpp"

#include "fake.hpp"
#include "nccl_on_threads.hpp"
#include "ranks.hpp"

namespace cubist::test::comm_nccl_memory_test
{

using cubist::detail::DevicePoolScope;
using cubist::detail::NcclMemory;

/// Checks that a body leaves no resources behind, and does nothing that NCCL forbids.
template <class F>
void check_clean(F body)
{
  const auto before = fake::live();
  const int violations = fake::violations();
  body();
  CHECK(fake::live() == before);
  CHECK(fake::violations() == violations);
}

TEST_CASE("NcclMemory: memory is given again to buffers of the same size")
{
  check_clean([] {
    NcclMemory memory;
    memory.reserve();
    CHECK(memory.segments().size() == 1);
    const auto first = memory.allocate(100);
    const auto second = memory.allocate(100);
    CHECK(first != second);
    CHECK(memory.contains(first));
    CHECK(memory.contains(static_cast<std::byte*>(second) + 99));
    memory.free(first, 100);
    CHECK(memory.allocate(512) == first);  // both are 512 bytes
    const auto large = memory.allocate(std::size_t{3} << 20);
    CHECK(memory.segments().size() == 2);
    CHECK(memory.segments()[1].bytes == std::size_t{4} << 20);
    memory.free(large, std::size_t{3} << 20);
    CHECK(memory.allocate(std::size_t{4} << 20) == large);
    CHECK(memory.segments().size() == 2);
    int host = 0;
    CHECK_FALSE(memory.contains(&host));
  });
}

TEST_CASE("NcclMemory: small buffers do not overlap, across segments")
{
  check_clean([] {
    NcclMemory memory;
    std::set<std::byte*> begins;
    const std::size_t bytes = (std::size_t{1} << 20) - 512;
    for (int i = 0; i < 70; ++i) begins.insert(static_cast<std::byte*>(memory.allocate(bytes)));
    CHECK(memory.segments().size() == 3);
    const std::byte* end = nullptr;
    for (auto* const begin : begins)
    {
      CHECK(begin >= end);
      end = begin + bytes;
      CHECK(memory.contains(end - 1));
    }
  });
}

TEST_CASE("NcclMemory: memory of a captured graph is not given to others")
{
  NcclMemory memory;
  const auto before = memory.allocate(8);
  fake::capture(true);
  const auto in_graph = memory.allocate(8);
  memory.free(before, 8);
  fake::capture(false);
  memory.free(in_graph, 8);
  const auto after = memory.allocate(8);
  CHECK(after != in_graph);
  CHECK(after != before);
}

TEST_CASE("NcclMemory: an error names NCCL's, and what to do")
{
  fake::fail("ncclMemAlloc", ncclUnhandledCudaError);
  NcclMemory memory;
  CHECK(mentions(message_of<DeviceError>([&] { (void)memory.allocate(8); }), "ncclMemAlloc failed",
                 "bytes, so no more memory can be registered", "or turn registered buffers off"));
}

/// Runs `body(world, memory, compute)` on ranks whose buffers are registered.
template <class F>
void with_memory(int ranks, F body)
{
  int argc = 0;
  char** argv = nullptr;
  Threads::launch(argc, argv, {.ranks = ranks}, [&](ThreadsCommunicator& host) {
    NcclOptions options;
    options.time_limit = std::chrono::seconds{10};
    options.memory = std::make_shared<NcclMemory>(options.stream);
    const DevicePoolScope pool{options.memory};
    auto world = NcclCommunicator::make(host, host.rank(), options);
    body(world, *options.memory);
    world.synchronize();
  });
}

template <class T>
std::span<T> span(CudaBuffer<T>& buffer)
{
  return {buffer.data(), buffer.size()};
}

TEST_CASE("registered buffers: the same values, in communicators and their splits")
{
  check_clean([] {
    with_memory(4, [](NcclCommunicator& world, NcclMemory& memory) {
      auto half = world.split(world.rank() % 2, 0);
      for (const std::size_t n : {std::size_t{1}, std::size_t{1000}, std::size_t{600'000}})
      {
        CudaBuffer<int> mine(n), all(4 * n);
        const std::vector<int> host(n, world.rank() + 1);
        copy_bytes(mine.data(), host.data(), n * sizeof(int), cudaMemcpyHostToDevice,
                   cudaStreamPerThread);
        world.all_gather(span(mine), span(all));
        half.all_reduce(span(mine));
        auto received = world.async_receive(span(all).first(n), (world.rank() + 1) % 4);
        auto sent = world.async_send(span(mine), (world.rank() + 3) % 4);
        received.wait();
        sent.wait();
        std::array<int, 2> got{};
        copy_bytes(got.data(), all.data(), sizeof(int), cudaMemcpyDeviceToHost,
                   cudaStreamPerThread);
        copy_bytes(&got[1], all.data() + 4 * n - 1, sizeof(int), cudaMemcpyDeviceToHost,
                   cudaStreamPerThread);
        world.synchronize();
        // The next rank's half: 2 + 4 or 1 + 3.
        require<Error>(got[0] == (world.rank() % 2 == 0 ? 6 : 4) && got[1] == 4, "got ", got[0],
                       " and ", got[1]);
      }
      require<Error>(memory.segments().size() == 3, "got ", memory.segments().size(), " segments");
      // Each of 4 ranks has registered in both communicators; none ends before all have counted.
      world.barrier();
      require<Error>(fake::live().registrations == 4 * 2 * 3, "registered ",
                     fake::live().registrations, " times");
      world.barrier();
    });
  });
}

TEST_CASE("registered buffers: a buffer outlives its communicator, and a communicator its buffers")
{
  check_clean([] {
    with_memory(2, [](NcclCommunicator& world, NcclMemory&) {
      std::optional<CudaBuffer<int>> outer{4};
      {
        auto part = world.split(0, 0);
        part.all_reduce(span(*outer));  // in flight when the communicator is released
      }
      world.all_reduce(span(*outer));
      outer.reset();
      CudaBuffer<int> again(4);  // in the same place
      world.all_reduce(span(again));
    });
  });
  std::vector<CudaBuffer<int>> kept(2);
  const auto before = fake::live();
  const int violations = fake::violations();
  with_memory(2, [&](NcclCommunicator& world, NcclMemory&) {
    CudaBuffer<int> buffer(4);
    world.all_reduce(span(buffer));
    kept[static_cast<std::size_t>(world.rank())] = std::move(buffer);
  });
  auto with_segments = before;
  with_segments.allocations += 2;
  CHECK(fake::live() == with_segments);
  kept.clear();
  CHECK(fake::live() == before);
  CHECK(fake::violations() == violations);
}

TEST_CASE("registered buffers: other memory is an error, not a call that NCCL does not define")
{
  const auto text = message_of<ArgumentError>([] {
    with_memory(1, [](NcclCommunicator& world, NcclMemory&) {
      const DeviceMemory other{16};
      world.all_reduce(std::span{other.as<int>(), 4});
    });
  });
  CHECK(mentions(text, "got a buffer that this rank's NCCL memory does not contain",
                 "all_reduce of 4 int32", "leave out the option registered_buffers"));
}

TEST_CASE("registered buffers: an error frees and deregisters everything")
{
  fake::report_aborts(true);
  check_clean([] {
    const auto text = message_of<CommunicationError>([] {
      with_memory(2, [](NcclCommunicator& world, NcclMemory&) {
        CudaBuffer<int> buffer(4);
        if (world.rank() == 1) fake::fail("ncclCommRegister", ncclInternalError);
        world.all_reduce(span(buffer));
        world.synchronize();
      });
    });
    CHECK(mentions(text, "rank 1: ncclCommRegister failed (internal error)", "all_reduce of 4"));
  });
  fake::report_aborts(false);
}

TEST_CASE("the fake counts what NCCL forbids and does not report")
{
  const int violations = fake::violations();
  void* data = nullptr;
  REQUIRE(ncclMemAlloc(&data, 64) == ncclSuccess);
  const DeviceMemory other{64};
  ncclUniqueId id{};
  ncclGetUniqueId(&id);
  ncclComm_t comm = nullptr;
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclCommInitRankConfig(&comm, 1, id, 0, &config);
  void* handle = nullptr;
  CHECK(ncclCommRegister(comm, other.as<int>(), 64, &handle) == ncclInvalidArgument);
  REQUIRE(ncclCommRegister(comm, data, 64, &handle) == ncclSuccess);
  CHECK(fake::live().registrations == 1);
  CHECK(ncclCommDeregister(comm, handle) == ncclSuccess);
  CHECK(ncclCommDeregister(comm, handle) == ncclInvalidUsage);
  REQUIRE(ncclCommRegister(comm, data, 64, &handle) == ncclSuccess);
  CHECK(fake::violations() == violations);
  ncclMemFree(data);
  CHECK(fake::violations() == violations + 1);
  ncclCommFinalize(comm);
  CHECK(fake::violations() == violations + 2);
  ncclCommAbort(comm);
  CHECK(fake::live().registrations == 0);
}

}  // namespace cubist::test::comm_nccl_memory_test
