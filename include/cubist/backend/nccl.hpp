// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Ranks that have one GPU each. NCCL communicates device memory, and CudaEngine computes. Compile
// the program with nvcc, and link cubist::nccl.
//
//   Nccl           ranks are threads, one for each GPU of this machine
//   NcclOn<Mpi>    ranks are processes, on the nodes that mpiexec or srun gives; include
//                  backend/mpi.hpp, and link cubist::mpi, too
//
// A host backend starts the ranks, exchanges NCCL's id, chooses the error to report and ends the
// job, because NCCL does not detect every rank that has ended. While a rank waits for its GPU, it
// polls the host backend for failures.

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <cuda_runtime_api.h>

#include "cubist/backend/backend.hpp"
#include "cubist/backend/threads.hpp"
#include "cubist/comm/communicator.hpp"
#include "cubist/comm/nccl/communicator.hpp"
#include "cubist/comm/nccl/memory.hpp"
#include "cubist/core/error.hpp"
#include "cubist/cuda/check.hpp"
#include "cubist/cuda/pool.hpp"
#include "cubist/engine/cuda/blas.hpp"
#include "cubist/engine/cuda/compute_stream.hpp"
#include "cubist/engine/cuda/engine.hpp"

namespace cubist::CUBIST_ABI
{

/// How ranks use GPUs. All ranks have the same options.
struct NcclLaunchOptions
{
  /// Allows several processes of one machine to share a GPU, which is slow, and only for tests.
  /// @pre NCCL has not been called in this process
  bool share_gpus = false;
  /// The NcclOptions::time_limit of launches without a time limit.
  std::optional<std::chrono::milliseconds> time_limit = std::chrono::minutes{10};
  /// Rounds float operands of products to TF32, which is several times as fast, but accurate to
  /// only three digits.
  bool tf32 = false;
  /// Allocates the engine's buffers with ncclMemAlloc and registers them with the communicators, so
  /// that NCCL may use them without internal copies. Registered memory is reused only for buffers
  /// of the same size, and ranks can communicate only buffers of this launch. This needs NCCL 2.19;
  /// without it, or without the memory, buffers are CUDA's, and a line on stderr says so.
  bool registered_buffers = false;
  /// All-reduces, all-gathers and reduce-scatters of up to this many bytes over all ranks together
  /// are copied to and from a symmetric window of their communicator, which NCCL's kernels with the
  /// lowest latency need. This needs NCCL 2.27, NVLink between the ranks, and twice the memory for
  /// each communicator; without them, a line on stderr says so, and NCCL uses other kernels.
  std::size_t symmetric_bytes = 0;
};

namespace detail
{

/// Counts the GPUs that this process sees.
/// @throws DeviceError if there is none
[[nodiscard]] inline int gpu_count()
{
  int count = 0;
  const cudaError_t code = cudaGetDeviceCount(&count);
  static_cast<void>(cudaGetLastError());
  require<DeviceError>(code == cudaSuccess && count > 0, "found no GPU (",
                       code == cudaSuccess ? "cudaGetDeviceCount gives 0"
                                           : cudaGetErrorString(code),
                       "), but each rank needs one; look at nvidia-smi and CUDA_VISIBLE_DEVICES, "
                       "or use a backend without GPUs");
  return count;
}

struct GpuChoice
{
  int device = 0;
  bool shared = false;  // whether any ranks of any node share a GPU
};

/// Chooses this rank's GPU: rank k of a node gets GPU k of those that it sees. A scheduler may show
/// each rank different GPUs, so PCI addresses decide whether two ranks share one.
/// @throws ArgumentError if this node has fewer GPUs than ranks, and `may_share` is false
template <Communicator Host>
[[nodiscard]] GpuChoice choose_gpu(Host& host, bool may_share, const char* advice)
{
  const auto gather_all = [&](auto mine) {
    std::vector<decltype(mine)> all(static_cast<std::size_t>(host.size()));
    host.all_gather(std::array{mine}, all);
    return all;
  };
  const auto nodes = gather_all(first_rank_on_node(host));
  const auto mine = nodes.begin() + host.rank();
  const auto before = static_cast<int>(std::count(nodes.begin(), mine, *mine));
  const int device = before % gpu_count();

  std::array<char, 64> address{};
  require_cuda(cudaDeviceGetPCIBusId(address.data(), static_cast<int>(address.size()), device),
               "cudaDeviceGetPCIBusId", "device ", device);
  const auto gpus =
      gather_all(static_cast<std::uint64_t>(std::hash<std::string_view>{}(address.data())));
  std::set<std::pair<int, std::uint64_t>> distinct;
  for (std::size_t r = 0; r < gpus.size(); ++r) distinct.emplace(nodes[r], gpus[r]);

  const auto ranks = std::count(nodes.begin(), nodes.end(), *mine);
  const auto here = std::count_if(distinct.begin(), distinct.end(),
                                  [&](const auto& gpu) { return gpu.first == *mine; });
  require<ArgumentError>(may_share || here == ranks, "got ", ranks, " ranks on a machine that has ",
                         here, " GPUs for them, but each rank needs its own GPU; ", advice);
  return {device, distinct.size() < gpus.size()};
}

/// Gives this process its own host id in NCCL, because NCCL refuses two ranks of one host on one
/// GPU. Environment variables that are already set do not change.
inline void set_own_host_id(int rank, bool remote)
{
  const auto set = [](const char* name, const std::string& value) {
    setenv(name, value.c_str(), 0);
  };
  set("NCCL_HOSTID", "process-" + std::to_string(rank));
  set("NCCL_NET", "Socket");
  set("NCCL_IB_DISABLE", "1");
  set("NCCL_MAX_CTAS", "1");
  if (!remote) set("NCCL_SOCKET_IFNAME", "lo");
}

/// Detects failures of other ranks through the host backend. It is a pending receive of a message
/// from this rank to itself, whose `test` throws when the host backend detects a failure.
template <Communicator Host>
class FailureProbe
{
 public:
  explicit FailureProbe(Host& host)
      : self_{host.split(host.rank(), 0)},
        request_{self_.async_receive(received_, 0)}
  {
  }
  FailureProbe(FailureProbe&&) = delete;
  ~FailureProbe()
  {
    try
    {
      self_.send(std::array{0}, 0);
      request_.wait();
    }
    catch (...)
    {  // The host backend reports it at the end of the launch.
    }
  }

  /// @throws PeerFailed
  void poll() { request_.test(); }

 private:
  std::array<int, 1> received_{};
  Host self_;
  decltype(std::declval<Host&>().async_receive(std::declval<std::array<int, 1>&>(), 0)) request_;
};

/// Returns the memory of this rank's buffers, or null on all ranks if one of them cannot allocate
/// it. Then the first rank that cannot prints why.
template <Communicator Host>
[[nodiscard]] std::shared_ptr<NcclMemory> registered_memory(Host& host, int device)
{
  require_cuda(cudaSetDevice(device), "cudaSetDevice", "device ", device);
  auto memory = std::make_shared<NcclMemory>();
  std::string reason;
  try
  {
    memory->reserve();
  }
  catch (const DeviceError& e)
  {
    reason = e.what();
  }
  std::array<int, 1> failed{reason.empty() ? host.size() : host.rank()};
  host.all_reduce(failed, ReduceOp::min);
  if (failed[0] == host.size()) return memory;
  if (failed[0] == host.rank())
    std::fprintf(stderr,
                 "cubist: registered_buffers was requested, but on rank %d %s. All ranks allocate "
                 "their buffers from CUDA's pool instead, and register none.\n",
                 host.rank(), reason.c_str());
  return {};
}

/// RAII: in its scope, this thread waits for its device through the communicator, which polls for
/// failures.
class WaitThroughNccl
{
 public:
  explicit WaitThroughNccl(NcclCommunicator world)
  {
    ComputeStream::set_wait([world]() mutable { world.synchronize(); });
  }
  WaitThroughNccl(WaitThroughNccl&&) = delete;
  ~WaitThroughNccl() { ComputeStream::set_wait({}); }
};

}  // namespace detail

/// The backend whose ranks have one GPU each.
/// @tparam Host the backend that starts the ranks
template <BackendType Host>
struct NcclOn
{
  using Communicator = NcclCommunicator;
  using Engine = CudaEngine;
  static constexpr bool ranks_are_processes = requires { requires Host::ranks_are_processes; };

  /// The options that `launch` reads.
  static inline NcclLaunchOptions options = {};

  /// Runs `body(world)` on every rank. Without LaunchOptions::ranks, there is one rank for each GPU
  /// of this machine, or for each process.
  template <class F>
  static void launch(int& argc, char**& argv, const LaunchOptions& requested, F&& body)
  {
    CudaPrecision::tf32 = options.tf32;
    LaunchOptions on_host = requested;
    if (!ranks_are_processes && !requested.ranks) on_host.ranks = detail::gpu_count();
    Host::launch(argc, argv, on_host, on_gpus(requested, body));
  }

  /// Runs `body(world)` on existing ranks, as the host backend does.
  template <class Ranks, class F>
  requires requires(const Ranks& ranks, void (*body)(typename Host::Communicator&))
  {
    Host::launch_on(ranks, LaunchOptions{}, body);
  }
  static void launch_on(const Ranks& ranks, const LaunchOptions& requested, F&& body)
  {
    CudaPrecision::tf32 = options.tf32;
    Host::launch_on(ranks, requested, on_gpus(requested, body));
  }

 private:
  template <class F>
  static auto on_gpus(const LaunchOptions& requested, F& body)
  {
    return [&body, gpu_options = options, limit = detail::time_limit(requested)](auto& host) {
      const auto gpu = detail::choose_gpu(
          host, gpu_options.share_gpus && ranks_are_processes,
          ranks_are_processes ? "start fewer there, or, for tests, let them share GPUs with the "
                                "option share_gpus"
                              : "start fewer, or processes on more machines (NcclOn<Mpi>)");
      if (gpu.shared) detail::set_own_host_id(host.rank(), host.remote());

      const auto probe = std::make_shared<detail::FailureProbe<typename Host::Communicator>>(host);
      NcclOptions nccl;
      nccl.time_limit = limit ? limit : gpu_options.time_limit;
      nccl.poll_failure = [probe] { probe->poll(); };
      if (gpu_options.registered_buffers) nccl.memory = detail::registered_memory(host, gpu.device);
      if (gpu.shared && gpu_options.symmetric_bytes > 0 && host.rank() == 0)
        std::fputs(
            "cubist: symmetric_bytes was requested, but ranks share a GPU, for which NCCL has no "
            "symmetric windows. Collectives use NCCL's other kernels instead.\n",
            stderr);
      nccl.symmetric_bytes = gpu.shared ? 0 : gpu_options.symmetric_bytes;
      const detail::DevicePoolScope pool{nccl.memory};
      auto world = NcclCommunicator::make(host, gpu.device, std::move(nccl));
      const detail::WaitThroughNccl wait{world};
      body(world);
      world.synchronize();  // throws an error of the device as this rank's error
    };
  }
};

using Nccl = NcclOn<Threads>;

static_assert(BackendType<Nccl>);

}  // namespace cubist::CUBIST_ABI
