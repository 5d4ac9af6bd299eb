// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Ranks with a GPU each: NCCL carries what lies in their memory, CudaEngine computes. Compile the
// program with nvcc, and link cubist::nccl.
//
//   Nccl           ranks are threads, one for each GPU of this machine
//   NcclOn<Mpi>    ranks are processes, on as many nodes as mpiexec or srun gives; include
//                  backend/mpi.hpp, and link cubist::mpi, too
//
// NCCL needs to be told which ranks there are, and does not always notice one that is gone. Both is
// the work of a host backend: it starts the ranks, chooses the error to report and ends the job. A
// rank that waits for its GPU looks whether the host knows of a failure.

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
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
#include "cubist/core/error.hpp"
#include "cubist/device/check.hpp"
#include "cubist/engine/cuda/blas.hpp"
#include "cubist/engine/cuda/compute_stream.hpp"
#include "cubist/engine/cuda/engine.hpp"

namespace cubist
{

/// How ranks use GPUs; the same on all ranks.
struct NcclLaunchOptions
{
  /// Lets ranks that are processes of one machine share its GPUs where they are more. Slow, for
  /// tests alone. NCCL must not have been called before.
  bool share_gpus = false;
  /// For launches without a time limit (NcclOptions::time_limit).
  std::optional<std::chrono::milliseconds> time_limit = std::chrono::minutes{10};
  /// Lets products of floats round their operands to TF32: several times as fast, and right to
  /// three digits.
  bool tf32 = false;
};

namespace detail
{

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
  bool shared = false;  // by any ranks, on any node
};

/// The k-th rank of a node has its k-th GPU, as far as it sees them: schedulers may show each rank
/// another one, so only their addresses tell whether two ranks have the same.
/// @throws ArgumentError if this node has too few, and ranks may not share them
template <Communicator Host>
[[nodiscard]] GpuChoice choose_gpu(Host& host, bool may_share, const char* advice)
{
  const auto all = [&](auto mine) {
    std::vector<decltype(mine)> everyones(static_cast<std::size_t>(host.size()));
    host.all_gather(std::array{mine}, everyones);
    return everyones;
  };
  const auto nodes = all(node_of(host));
  const auto mine = nodes.begin() + host.rank();
  const auto before = static_cast<int>(std::count(nodes.begin(), mine, *mine));
  const int device = before % gpu_count();

  std::array<char, 64> address{};
  require_cuda(cudaDeviceGetPCIBusId(address.data(), static_cast<int>(address.size()), device),
               "cudaDeviceGetPCIBusId", "device ", device);
  const auto gpus = all(static_cast<std::uint64_t>(std::hash<std::string_view>{}(address.data())));
  std::set<std::pair<int, std::uint64_t>> different;
  for (std::size_t r = 0; r < gpus.size(); ++r) different.emplace(nodes[r], gpus[r]);

  const auto ranks = std::count(nodes.begin(), nodes.end(), *mine);
  const auto here = std::count_if(different.begin(), different.end(),
                                  [&](const auto& gpu) { return gpu.first == *mine; });
  require<ArgumentError>(may_share || here == ranks, "got ", ranks, " ranks on a machine that has ",
                         here, " GPUs for them, but each needs one of its own; ", advice);
  return {device, different.size() < gpus.size()};
}

/// Makes NCCL take this process for one on a host of its own, as it refuses two ranks of a host on
/// the same GPU. What the environment says already stays.
inline void pretend_own_host(int rank, bool remote)
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

/// Tells a rank of failures elsewhere: a message to itself under way on the host, which throws when
/// the host learns of one.
template <Communicator Host>
class FailureProbe
{
 public:
  explicit FailureProbe(Host& host)
      : alone_{host.split(host.rank(), 0)}, request_{alone_.async_receive(received_, 0)}
  {
  }
  FailureProbe(const FailureProbe&) = delete;
  FailureProbe& operator=(const FailureProbe&) = delete;
  ~FailureProbe()
  {
    try
    {
      alone_.send(std::array{0}, 0);
      request_.wait();
    }
    catch (...)
    {  // The host tells of it where the rank leaves.
    }
  }

  /// @throws PeerFailed
  void look() { request_.test(); }

 private:
  std::array<int, 1> received_{};
  Host alone_;
  decltype(std::declval<Host&>().async_receive(std::declval<std::array<int, 1>&>(), 0)) request_;
};

/// Lets the thread wait for its device by the communicator, as long as this lives.
class WaitByNccl
{
 public:
  explicit WaitByNccl(NcclCommunicator world)
  {
    ComputeStream::wait_by([world]() mutable { world.synchronize(); });
  }
  WaitByNccl(const WaitByNccl&) = delete;
  WaitByNccl& operator=(const WaitByNccl&) = delete;
  ~WaitByNccl() { ComputeStream::wait_by({}); }
};

}  // namespace detail

/// @tparam Host the backend that starts the ranks
template <Backend Host>
struct NcclOn
{
  using Communicator = NcclCommunicator;
  using Engine = CudaEngine;
  static constexpr bool ranks_are_processes = requires { requires Host::ranks_are_processes; };

  /// Read by `launch`.
  static inline NcclLaunchOptions options = {};

  /// Without a number, as many ranks as this machine has GPUs, or as there are processes.
  template <class F>
  static void launch(int& argc, char**& argv, const LaunchOptions& requested, F&& body)
  {
    CudaPrecision::tf32 = options.tf32;
    LaunchOptions on_host = requested;
    if (!ranks_are_processes && !requested.ranks) on_host.ranks = detail::gpu_count();
    Host::launch(argc, argv, on_host, on_gpus(requested, body));
  }

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
    return [&body, its = options, limit = detail::time_limit(requested)](auto& host) {
      const auto gpu = detail::choose_gpu(
          host, its.share_gpus && ranks_are_processes,
          ranks_are_processes ? "start fewer there, or, for tests, let them share GPUs by the "
                                "option share_gpus"
                              : "start fewer, or processes on more machines (NcclOn<Mpi>)");
      if (gpu.shared) detail::pretend_own_host(host.rank(), host.remote());

      const auto news = std::make_shared<detail::FailureProbe<typename Host::Communicator>>(host);
      NcclOptions nccl;
      nccl.time_limit = limit ? limit : its.time_limit;
      nccl.look = [news] { news->look(); };
      auto world = NcclCommunicator::make(host, gpu.device, std::move(nccl));
      const detail::WaitByNccl wait{world};
      body(world);
      world.synchronize();  // an error of the rank's work is the rank's
    };
  }
};

using Nccl = NcclOn<Threads>;

static_assert(Backend<Nccl>);

}  // namespace cubist
