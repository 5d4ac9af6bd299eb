// SPDX-License-Identifier: BSD-3-Clause
// Tests properties of NcclCommunicator beyond those that conformance.hpp tests for every
// communicator.

#include "cubist/comm/nccl/communicator.hpp"

#include "fake.hpp"
#include "nccl_on_threads.hpp"
#include "ranks.hpp"
#include "watchdog.hpp"

namespace cubist::test::comm_nccl_communicator_test
{

using namespace std::chrono_literals;

TEST_CASE(
    "NcclCommunicator is a Communicator, its sums have NCCL's order, its messages are grouped")
{
  STATIC_REQUIRE(Communicator<NcclCommunicator>);
  STATIC_REQUIRE_FALSE(sums_in_order<NcclCommunicator>);
  STATIC_REQUIRE_FALSE(independent_messages<NcclCommunicator>);
  STATIC_REQUIRE_FALSE(sums_in_order<CountingCommunicator<NcclCommunicator>>);
  STATIC_REQUIRE(sums_in_order<CountingCommunicator<ThreadsCommunicator>>);
  STATIC_REQUIRE(independent_messages<ThreadsCommunicator>);
}

TEST_CASE("a call reads and writes in the order of the compute stream")
{
  const auto before = fake::live();
  with_nccl(3, {.time_limit = 10s}, [](NcclCommunicator& world, cudaStream_t compute, auto&) {
    const DeviceMemory a{sizeof(int)};
    const DeviceMemory b{sizeof(int)};
    const std::span<int> x{a.as<int>(), 1};
    const std::span<int> y{b.as<int>(), 1};
    for (int round = 0; round < 50; ++round)
    {
      const int mine = round + world.rank();
      copy_bytes(x.data(), &mine, sizeof(int), cudaMemcpyHostToDevice, compute);
      auto sum = world.async_all_reduce(x);
      sum.wait();
      copy_bytes(y.data(), x.data(), sizeof(int), cudaMemcpyDeviceToDevice, compute);
      auto root = world.async_broadcast(y, round % 3);
      root.wait();
      int got = 0;
      copy_bytes(&got, y.data(), sizeof(int), cudaMemcpyDeviceToHost, compute);
      world.synchronize();
      require<Error>(got == 3 * round + 3, "got ", got, " in round ", round);
    }
  });
  CHECK(fake::live() == before);
}

/// The arguments of `neither_overtakes`, on each of two ranks.
struct TwoStreams
{
  NcclCommunicator& world;
  cudaStream_t compute;
  ThreadsCommunicator& host;
  std::span<int> x;  // 10 on rank 0, 11 on rank 1
  std::span<int> y;

  void copy(std::span<int> from, std::span<int> to) const
  {
    copy_bytes(to.data(), from.data(), sizeof(int), cudaMemcpyDeviceToDevice, compute);
  }
  void set(std::span<int> to, int value) const
  {
    copy_bytes(to.data(), &value, sizeof(int), cudaMemcpyHostToDevice, compute);
  }
  /// The time in which a stream that does not wait would overtake the other.
  void pause() const { std::this_thread::sleep_for(100ms); }
};

/// Runs `body`, and returns what rank 1 then finds in y.
static int on_two_streams(void (*body)(const TwoStreams&))
{
  int found = 0;
  with_nccl(2, {.time_limit = 10s}, [&](auto& world, cudaStream_t compute, auto& host) {
    const DeviceMemory memory{2 * sizeof(int)};
    const TwoStreams on{world, compute, host, {memory.as<int>(), 1}, {memory.as<int>(4), 1}};
    on.set(on.x, 10 + world.rank());
    on.set(on.y, 0);
    body(on);
    int got = 0;
    copy_bytes(&got, on.y.data(), sizeof(int), cudaMemcpyDeviceToHost, compute);
    world.synchronize();
    if (world.rank() == 1) found = got;
    world.barrier();
  });
  return found;
}

TEST_CASE("the communicator's stream does not overtake the compute stream")
{
  // The compute stream writes x late, and then x is sent.
  CHECK(on_two_streams([](const TwoStreams& on) {
          fake::Gate gate{on.compute};
          if (on.world.rank() == 0) on.set(on.x, 20);
          auto request = on.world.async_broadcast(on.x, 0);
          on.pause(), (void)request.test(), on.pause();
          gate.open();
          request.wait();
          on.copy(on.x, on.y);
        }) == 20);
  // The compute stream reads x late, and then x is received.
  CHECK(on_two_streams([](const TwoStreams& on) {
          fake::Gate gate{on.compute};
          on.copy(on.x, on.y);
          auto request = on.world.async_broadcast(on.x, 0);
          on.pause(), (void)request.test(), on.pause();
          gate.open();
          request.wait();
        }) == 11);
}

TEST_CASE("the compute stream does not overtake the communicator's")
{
  // The other rank comes late; afterwards the received data is read.
  CHECK(on_two_streams([](const TwoStreams& on) {
          if (on.world.rank() == 0) on.pause();
          on.world.broadcast(on.x, 0);
          on.copy(on.x, on.y);
        }) == 10);
  // The other rank comes late; afterwards the sent data is overwritten.
  CHECK(on_two_streams([](const TwoStreams& on) {
          if (on.world.rank() == 1) on.pause();
          on.world.broadcast(on.x, 0);
          if (on.world.rank() == 0) on.set(on.x, 30);
          on.copy(on.x, on.y);
        }) == 10);
  // The other rank receives late; afterwards the message, which is grouped, is overwritten.
  CHECK(on_two_streams([](const TwoStreams& on) {
          if (on.world.rank() == 1) return on.pause(), on.world.receive(on.y, 0);
          on.world.send(on.x, 1);
          on.set(on.x, 30);
        }) == 10);
}

TEST_CASE("host memory is an error")
{
  const auto text = message_of<CommunicationError>([&] {
    with_nccl(1, {.time_limit = 1s}, [](NcclCommunicator& world, auto&&...) {
      std::vector<float> host(4);
      world.all_reduce(host);
    });
  });
  CHECK(mentions(text, "rank 0: ncclAllReduce failed (invalid argument)", "rank 0 of 1"));
}

TEST_CASE("an unsupported call throws immediately, and the communicator remains usable")
{
  with_nccl(2, {.time_limit = 10s}, [](NcclCommunicator& world, cudaStream_t, auto&) {
    const DeviceMemory memory{16};
    const std::span<std::int16_t> shorts{memory.as<std::int16_t>(), 8};
    const auto text = message_of<ArgumentError>([&] { world.all_reduce(shorts); });
    require<Error>(mentions(text, "all_reduce of int16"), text);
    const auto colour = message_of<ArgumentError>([&] { (void)world.split(-1, 0); });
    require<Error>(mentions(colour, "got the colour -1", "use colours from 0"), colour);
    world.broadcast(shorts, 1);
    world.synchronize();
  });
}

TEST_CASE("an error while NCCL is initialized names the function and the rank")
{
  const Watchdog watchdog;
  const auto start = [](const std::string& function, int code, int rank) {
    const auto before = fake::live();
    const auto text = message_of<CommunicationError>([&] {
      int argc = 0;
      char** argv = nullptr;
      Threads::launch(argc, argv, {.ranks = 2}, [&](ThreadsCommunicator& host) {
        const cubist::detail::CudaStream compute;
        if (host.rank() == rank) fake::fail(function, code);
        const NcclOptions options{.stream = compute.get(), .time_limit = 1s};
        (void)NcclCommunicator::make(host, 0, options);
      });
    });
    CHECK(fake::live() == before);
    return text;
  };
  CHECK(mentions(start("ncclGetUniqueId", ncclSystemError, 0), "rank 0: ncclGetUniqueId failed",
                 "the start of NCCL on rank 0 of 2"));
  CHECK(mentions(start("ncclCommInitRankConfig", ncclSystemError, 1),
                 "rank 1: ncclCommInitRankConfig failed", "the start of NCCL on rank 1 of 2"));
  CHECK(mentions(start("cudaSetDevice", cudaErrorInvalidDevice, 1), "rank 1: cudaSetDevice failed",
                 "for device 0"));
  CHECK(mentions(start("cudaMalloc", cudaErrorMemoryAllocation, 0), "rank 0: cudaMalloc failed"));
}

/// A host communicator that reports ranks 0 and 1 on one node, and the others on another.
struct TwoNodeHost : Collectives<TwoNodeHost>
{
  explicit TwoNodeHost(ThreadsCommunicator ranks)
      : inner{std::move(ranks)}
  {
  }
  [[nodiscard]] int rank() const { return inner.rank(); }
  [[nodiscard]] int size() const { return inner.size(); }
  [[nodiscard]] bool remote() const { return true; }
  TwoNodeHost split(int colour, int key) { return TwoNodeHost{inner.split(colour, key)}; }
  template <Element T>
  auto start(const Call<T>& call)
  {
    auto request = inner.start(call);
    if constexpr (std::same_as<T, std::uint64_t>)  // the hashes of node names
    {
      request.wait();
      for (std::size_t i = 2; i < call.recv.size(); ++i) call.recv[i] += 1;
    }
    return request;
  }
  ThreadsCommunicator inner;
};

TEST_CASE("remote() of a split: whether its ranks are on several nodes")
{
  std::vector<std::array<bool, 3>> remote(4);
  int argc = 0;
  char** argv = nullptr;
  Threads::launch(argc, argv, {.ranks = 4}, [&](ThreadsCommunicator& ranks) {
    TwoNodeHost host{ranks};
    const cubist::detail::CudaStream compute;
    const NcclOptions options{.stream = compute.get(), .time_limit = 10s};
    auto world = NcclCommunicator::make(host, 0, options);
    auto same_node = world.split(host.rank() / 2, 0);
    auto two_nodes = world.split(host.rank() % 2, 0);
    remote[static_cast<std::size_t>(host.rank())] = {world.remote(), same_node.remote(),
                                                     two_nodes.remote()};
  });
  for (const auto& r : remote) CHECK(r == std::array{true, false, true});
}

}  // namespace cubist::test::comm_nccl_communicator_test
