// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/backend/nccl.hpp"
#include "cubist/testing/faulty.hpp"

#include "fake.hpp"
#include "printed.hpp"
#include "ranks.hpp"
#include "watchdog.hpp"

namespace cubist::test::backend_nccl_test
{

using namespace std::chrono_literals;

TEST_CASE("Nccl and its decorators are backends")
{
  STATIC_REQUIRE(BackendType<Nccl>);
  STATIC_REQUIRE(BackendType<Counting<Nccl>>);
  STATIC_REQUIRE(BackendType<Faulty<Nccl>>);
  STATIC_REQUIRE_FALSE(Nccl::ranks_are_processes);
}

/// Sums a host value over the ranks, on the devices.
static float sum(NcclCommunicator& world, float value)
{
  const CudaEngine engine;
  CudaBuffer<float> buffer(1);
  const MatrixView<float> device{buffer.data(), {1, 1}};
  engine.upload(MatrixView<const float>{&value, {1, 1}}, device);
  world.all_reduce(device.elements());
  engine.download(MatrixView<const float>{device}, MatrixView<float>{&value, {1, 1}});
  return value;
}

static int current_device()
{
  int device = -1;
  cudaGetDevice(&device);
  return device;
}

TEST_CASE("each rank computes and communicates on its own GPU")
{
  const auto before = fake::live();
  for (const int ranks : {1, 3, 8})
  {
    const auto found = on_ranks<Nccl>(ranks, [](NcclCommunicator& world) {
      return std::pair{current_device(), sum(world, static_cast<float>(world.rank() + 1))};
    });
    REQUIRE(found.size() == static_cast<std::size_t>(ranks));
    for (int r = 0; r < ranks; ++r)
      CHECK(found[static_cast<std::size_t>(r)] ==
            std::pair{r, static_cast<float>(ranks * (ranks + 1) / 2)});
  }
  ComputeStream::synchronize();
  CHECK(fake::live() == before);
}

/// Sets options until the end of its scope.
struct ScopedOptions
{
  explicit ScopedOptions(const NcclLaunchOptions& options) { Nccl::options = options; }
  ScopedOptions(const ScopedOptions&) = delete;
  ScopedOptions& operator=(const ScopedOptions&) = delete;
  ~ScopedOptions() { Nccl::options = {}; }
};

TEST_CASE("registered_buffers: memory is NCCL's, registered and freed")
{
  const auto before = fake::live();
  const int violations = fake::violations();
  const ScopedOptions registered{{.registered_buffers = true}};
  const auto found = on_ranks<Nccl>(3, [](NcclCommunicator& world) {
    auto pair = world.split(world.rank() / 2, 0);
    const float both = sum(pair, 1);
    const float all = sum(world, 1);
    require<Error>(fake::live().registrations > 0, "nothing is registered");
    return std::pair{both, all};
  });
  CHECK(found == std::vector<std::pair<float, float>>{{2, 3}, {2, 3}, {1, 3}});
  ComputeStream::synchronize();
  CHECK(fake::live() == before);
  CHECK(fake::violations() == violations);
}

TEST_CASE(
    "registered_buffers: if one rank has no such memory, no rank registers, and one line tells")
{
  const auto before = fake::live();
  const ScopedOptions registered{{.registered_buffers = true}};
  fake::fail("ncclMemAlloc", ncclSystemError);  // on this thread, rank 0
  std::vector<std::pair<float, int>> found;
  const auto text = printed([&] {
    found = on_ranks<Nccl>(3, [](NcclCommunicator& world) {
      const float all = sum(world, 1);
      return std::pair{all, fake::live().registrations};
    });
  });
  CHECK(found == std::vector<std::pair<float, int>>(3, {3, 0}));
  // If OpenBLAS's kernels do not fit this processor, the text has a line about them, too.
  CAPTURE(text);
  const std::string line = "cubist: registered_buffers";
  CHECK(text.find(line) == text.rfind(line));
  CHECK(mentions(text, "registered_buffers was requested, but on rank 0 ncclMemAlloc failed",
                 "All ranks allocate their buffers from CUDA's pool instead"));
  ComputeStream::synchronize();
  CHECK(fake::live() == before);
}

TEST_CASE("by default there are as many ranks as GPUs")
{
  int size = 0;
  launch<Nccl>({}, [&](NcclCommunicator& world) {
    if (world.rank() == 0) size = world.size();
  });
  CHECK(size == 8);
}

TEST_CASE("more ranks than GPUs: the error names both numbers")
{
  const auto message = [] {
    return message_of<ArgumentError>([] { launch<Nccl>({.ranks = 9}, [](NcclCommunicator&) {}); });
  };
  CHECK(mentions(message(), "got 9 ranks on a machine that has 8 GPUs", "start fewer"));
  // Threads have one host id in NCCL, so they cannot share GPUs.
  const ScopedOptions sharing{{.share_gpus = true}};
  CHECK(mentions(message(), "got 9 ranks on a machine that has 8 GPUs"));
}

TEST_CASE("a machine without a GPU: the error says so")
{
  fake::fail("cudaGetDeviceCount", cudaErrorNoDevice);
  CHECK(mentions(message_of<DeviceError>([] { launch<Nccl>({}, [](NcclCommunicator&) {}); }),
                 "found no GPU (an error of the fake)", "nvidia-smi"));
}

/// The GPUs that four ranks choose, each of which sees `count` GPUs from GPU first(rank) on.
template <class First>
std::vector<std::pair<int, bool>> choices(First first, int count, bool may_share)
{
  return on_ranks<Threads>(4, [&](ThreadsCommunicator& host) {
    fake::see_gpus(first(host.rank()), count);
    const auto restore = std::shared_ptr<void>(nullptr, [](void*) { fake::see_gpus(0, 8); });
    const auto gpu = cubist::detail::choose_gpu(host, may_share, "the advice");
    return std::pair{gpu.device, gpu.shared};
  });
}

TEST_CASE("choose_gpu: PCI addresses decide whether ranks share a GPU")
{
  using Choices = std::vector<std::pair<int, bool>>;
  const auto same = [](int) { return 0; };
  const auto own = [](int rank) { return rank; };
  const auto halves = [](int rank) { return rank / 2; };
  CHECK(choices(same, 5, false) == Choices{{0, false}, {1, false}, {2, false}, {3, false}});
  CHECK(choices(own, 1, false) == Choices{{0, false}, {0, false}, {0, false}, {0, false}});
  CHECK(choices(halves, 1, true) == Choices{{0, true}, {0, true}, {0, true}, {0, true}});
  CHECK(choices(same, 3, true) == Choices{{0, true}, {1, true}, {2, true}, {0, true}});
  CHECK(mentions(message_of<ArgumentError>([&] { (void)choices(halves, 1, false); }),
                 "got 4 ranks on a machine that has 2 GPUs", "the advice"));
}

TEST_CASE("the error of a rank ends the launch, and the waits of other ranks")
{
  const Watchdog watchdog;
  const auto start = std::chrono::steady_clock::now();
  for (const bool in_a_call : {true, false})
  {
    const auto before = fake::live();
    const auto text = message_of<ShapeError>([&] {
      launch<Nccl>({.ranks = 3, .time_limit = 60s}, [&](NcclCommunicator& world) {
        CudaBuffer<float> buffer(4);
        const std::span<float> data{buffer.data(), 4};
        world.all_reduce(data);
        if (world.rank() == 1) require<ShapeError>(false, "no good");
        if (in_a_call)
          world.barrier();
        else
        {
          world.all_reduce(data);
          ComputeStream::synchronize();
        }
      });
    });
    CHECK(text == "rank 1: no good");
    ComputeStream::synchronize();  // the communicator's wait function is removed
    CHECK(fake::live() == before);
  }
  CHECK(std::chrono::steady_clock::now() - start < 30s);
}

TEST_CASE("the time limit of a launch applies to each call of its ranks")
{
  const Watchdog watchdog;
  const auto message = [](const LaunchOptions& options) {
    return message_of<TimeLimitError>([&] {
      launch<Nccl>(options, [](NcclCommunicator& world) {
        if (world.rank() == 0) (void)sum(world, 1);
      });
    });
  };
  CHECK(mentions(message({.ranks = 2, .time_limit = 200ms}), "rank 0: waited 200 ms",
                 "all_reduce of 1 float"));
  const ScopedOptions limit{{.time_limit = 100ms}};
  CHECK(mentions(message({.ranks = 2}), "rank 0: waited 100 ms"));
  CHECK(mentions(message_of<ArgumentError>([] {
                   launch<Nccl>({.ranks = 1, .time_limit = 0ms}, [](NcclCommunicator&) {});
                 }),
                 "got a time limit of 0 ms"));
}

/// Calls copy(device, host) on rank 0, for a matrix that work on rank 1 must complete, which has
/// ended. Returns the time limit's error.
template <class F>
std::string copy_after_end_of_peer(Shape shape, F copy)
{
  return message_of<TimeLimitError>([&] {
    launch<Nccl>({.ranks = 2, .time_limit = 100ms}, [&](NcclCommunicator& world) {
      if (world.rank() == 1) return;
      CudaBuffer<float> buffer(shape.size());
      const MatrixView<float> device{buffer.data(), shape};
      std::vector<float> host(shape.size());
      world.all_reduce(device.elements());
      copy(device, MatrixView<float>{host.data(), shape});
    });
  });
}

TEST_CASE("a copy of pageable host memory does not wait for ever for a rank that has ended")
{
  const Watchdog watchdog;
  const auto message = [](auto copy) { return copy_after_end_of_peer({1, 100'000}, copy); };
  const std::string expected = "rank 0: waited 100 ms";
  CHECK(mentions(message([](MatrixView<const float> device, MatrixView<float> host) {
                   CudaEngine{}.download(device, host);
                 }),
                 expected));
  CHECK(mentions(message([](MatrixView<float> device, MatrixView<const float> host) {
                   CudaEngine{}.upload(host, device);
                 }),
                 expected));
  CHECK(mentions(message([](MatrixView<const float> device, MatrixView<float> host) {
                   fake::fail("cudaHostRegister", cudaErrorMemoryAllocation);
                   detail::CudaDownloads downloads{std::as_writable_bytes(host.elements())};
                   const std::array all{detail::Download::of(device, host)};
                   downloads.start(all);
                 }),
                 expected));
}

TEST_CASE("a rank that fails while it opens a window ends the launch")
{
  const Watchdog watchdog;
  const ScopedOptions windows{{.symmetric_bytes = 1024}};
  const auto text = message_of<CommunicationError>([] {
    launch<Nccl>({.ranks = 2}, [](NcclCommunicator& world) {
      if (world.rank() == 1) fake::fail("cudaMemcpyAsync", cudaErrorIllegalAddress);
      (void)world.split(0, 0);
    });
  });
  CHECK(mentions(text, "rank 1: cudaMemcpyAsync failed", "an exchange of two numbers"));
}

TEST_CASE("after an error, no pending copy writes to host memory")
{
  const Watchdog watchdog;
  bool idle = false;
  const auto download = [&](MatrixView<const float> device, MatrixView<float> host) {
    try
    {
      CudaEngine{}.download(device, host);
    }
    catch (const TimeLimitError&)
    {
      idle = cudaStreamQuery(ComputeStream::get()) == cudaSuccess;
      throw;
    }
  };
  CHECK(mentions(copy_after_end_of_peer({1, 4'000'000}, download), "rank 0: waited 100 ms"));
  CHECK(idle);
}

TEST_CASE("an asynchronous device error is reported as the rank's error at the end")
{
  const auto text = message_of<CommunicationError>([] {
    launch<Nccl>({.ranks = 2}, [](NcclCommunicator& world) {
      if (world.rank() == 1) fake::fail("cudaStreamQuery", cudaErrorIllegalAddress);
    });
  });
  CHECK(mentions(text, "rank 1: cudaStreamQuery failed", "the compute stream"));
}

}  // namespace cubist::test::backend_nccl_test
