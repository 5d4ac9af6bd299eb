// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The communicator of ranks that have one GPU each, and its requests. Spans are device memory.
//
// A call waits for the earlier work of the compute stream (NcclOptions::stream) and runs on its
// communicator's stream. `wait` makes the compute stream, not the host, wait for the call. Work
// that is enqueued there afterwards may read what was received and overwrite what was sent; the
// host may do so after `synchronize`. Only a barrier waits on the host.
//
// The messages that a rank has started are issued as one group when it waits for one of them, so
// ranks that share such groups and collectives must agree on their order.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <cuda_runtime_api.h>
#include <nccl.h>
#include <unistd.h>

#include "cubist/comm/call.hpp"
#include "cubist/comm/communicator.hpp"
#include "cubist/comm/nccl/call.hpp"
#include "cubist/comm/nccl/context.hpp"
#include "cubist/comm/nccl/queue.hpp"
#include "cubist/comm/nccl/watchdog.hpp"
#include "cubist/comm/request.hpp"
#include "cubist/core/error.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/cuda/nvtx.hpp"
#include "cubist/cuda/stream.hpp"

namespace cubist::CUBIST_ABI
{

namespace detail
{

/// One communicator of one rank.
struct NcclGroup
{
  using Member = PendingNcclCall;

  NcclGroup(std::shared_ptr<NcclContext> rank_context, NcclQueue& comm_queue, int node_id)
      : context{std::move(rank_context)},
        queue{comm_queue},
        node{node_id}
  {
  }
  NcclGroup(NcclGroup&&) = delete;
  ~NcclGroup() { context->finalize(queue); }

  void wait(Member& call) { context->wait(queue, call); }
  bool test(Member& call) { return context->test(queue, call); }
  void release(Member& call) { queue.release(call); }
  void abandon(Member& call) { context->drop(queue, call); }

  std::shared_ptr<NcclContext> context;
  NcclQueue& queue;
  int node;  // the lowest rank on it
  bool remote = false;
};

/// Returns the lowest rank on this rank's node.
template <Communicator Host>
[[nodiscard]] int first_rank_on_node(Host& host)
{
  if (!host.remote()) return 0;
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  const auto mine = static_cast<std::uint64_t>(std::hash<std::string_view>{}(name.data()));
  std::vector<std::uint64_t> all(static_cast<std::size_t>(host.size()));
  host.all_gather(std::array{mine}, all);
  const auto here = all[static_cast<std::size_t>(host.rank())];
  return static_cast<int>(std::find(all.begin(), all.end(), here) - all.begin());
}

}  // namespace detail

/// A pending call of an NcclCommunicator; `test` tells whether it is complete for the host as well.
/// Destroying it before the call is complete aborts all communicators of the rank.
using NcclRequest = detail::PendingCall<detail::NcclGroup>;

/// A communicator of ranks that have one GPU each.
class NcclCommunicator : public Collectives<NcclCommunicator>
{
 public:
  /// Makes a communicator of the ranks of `host`. Each rank has its own device, which becomes the
  /// current device of its thread and must remain so. All ranks call this; each uses its
  /// communicator from one thread.
  /// @throws CommunicationError, PeerFailed, TimeLimitError
  template <Communicator Host>
  [[nodiscard]] static NcclCommunicator make(Host& host, int device, NcclOptions options = {})
  {
    const auto describe = [&] {
      return "the start of NCCL on rank " + std::to_string(host.rank()) + " of " +
             std::to_string(host.size());
    };
    auto context = std::make_shared<detail::NcclContext>(device, std::move(options));
    ncclUniqueId id{};
    if (host.rank() == 0)
      detail::nccl_check(ncclGetUniqueId(&id), "ncclGetUniqueId", nullptr, describe);
    host.broadcast(id.internal, 0);
    const int node = detail::first_rank_on_node(host);
    auto& queue = context->create(
        [&](ncclComm_t* comm, ncclConfig_t* config) {
          detail::nccl_check(ncclCommInitRankConfig(comm, host.size(), id, host.rank(), config),
                             "ncclCommInitRankConfig", nullptr, describe);
        },
        describe);
    NcclCommunicator result{std::make_shared<detail::NcclGroup>(std::move(context), queue, node)};
    result.group_->remote = host.remote();
    result.open_window();
    return result;
  }

  [[nodiscard]] int rank() const { return group_->queue.rank_info().rank; }
  [[nodiscard]] int size() const { return group_->queue.rank_info().size; }
  /// Whether the ranks are on more than one node.
  [[nodiscard]] bool remote() const { return group_->remote; }

  template <Element T>
  [[nodiscard]] NcclRequest start(const Call<T>& call)
  {
    const auto mine = detail::nccl_call(call);
    const detail::NvtxRange range{[&] { return mine.text(); }};
    return {group_, group_->context->start(group_->queue, mine)};
  }

  /// Returns a communicator of the ranks of the same colour, ordered by key, then by rank. Waits on
  /// the host until the calls of this communicator are complete.
  /// @throws ArgumentError for a negative colour, CaptureError in a step that is captured
  [[nodiscard]] NcclCommunicator split(int colour, int key)
  {
    require<ArgumentError>(colour >= 0, "got the colour ", colour,
                           " for a split, but in NCCL a negative one excludes the rank; "
                           "use colours from 0");
    auto& context = *group_->context;
    NcclCommunicator part{std::make_shared<detail::NcclGroup>(
        group_->context, context.split(group_->queue, colour, key), group_->node)};
    if (remote()) part.find_remote();
    part.open_window();
    return part;
  }

  /// Waits on the host until the compute stream is idle, and with it all calls that were waited
  /// for. Unlike cudaStreamSynchronize, it throws when another rank has failed.
  /// @throws CommunicationError, PeerFailed, TimeLimitError
  void synchronize()
  {
    const detail::NvtxRange range{[] { return std::string{"wait for the device"}; }};
    group_->context->synchronize();
  }
  /// Calls `launch`, which enqueues work that contains captured calls of this rank. The time limit
  /// of one call applies to all of it.
  /// @param what the name of the work in the message of a TimeLimitError
  /// @throws CommunicationError, PeerFailed, TimeLimitError
  template <class F>
  void replay(const char* what, F launch)
  {
    group_->context->replay(what, std::move(launch));
  }
  /// The compute stream.
  [[nodiscard]] cudaStream_t stream() const { return group_->context->stream(); }

 private:
  explicit NcclCommunicator(std::shared_ptr<detail::NcclGroup> group)
      : group_{std::move(group)}
  {
  }

  /// Sets `remote` to whether the ranks are on more than one node.
  void find_remote()
  {
    const auto nodes = largest({group_->node, -group_->node});
    group_->remote = nodes[0] != -nodes[1];
  }

  /// If windows are requested, opens one if the ranks are on one node and NCCL supports it. Either
  /// all ranks have one, or none has.
  void open_window()
  {
    auto& context = *group_->context;
    if (!context.wants_windows() || size() == 1) return;
    auto& queue = group_->queue;
    if (!remote()) context.open_window(queue);
    if (largest({queue.window().is_open() ? 0 : 1, 0})[0] == 0) return queue.window().use();
    context.close_window(queue);
    if (rank() == 0) context.warn_of_missing_windows(queue.rank_info());
  }

  /// Returns the maximum of each number over the ranks.
  [[nodiscard]] std::array<int, 2> largest(std::array<int, 2> numbers)
  {
    const auto describe = [] { return "an exchange of two numbers"; };
    const std::span found{group_->queue.rank_info().scratch, numbers.size()};
    const auto copy = [&](void* to, const void* from, cudaMemcpyKind kind) {
      detail::cuda_check(cudaMemcpyAsync(to, from, sizeof(numbers), kind, stream()),
                         "cudaMemcpyAsync", describe);
    };
    copy(found.data(), numbers.data(), cudaMemcpyHostToDevice);
    all_reduce(found, ReduceOp::max);
    synchronize();  // the copy may wait for the all-reduce, and would not notice a failed rank
    copy(numbers.data(), found.data(), cudaMemcpyDeviceToHost);
    synchronize();
    return numbers;
  }

  std::shared_ptr<detail::NcclGroup> group_;
};

/// NCCL chooses the order of a sum by topology and size; it is the same on every run.
template <>
inline constexpr bool sums_in_order<NcclCommunicator> = false;
template <>
inline constexpr bool independent_messages<NcclCommunicator> = false;

static_assert(Communicator<NcclCommunicator>);

}  // namespace cubist::CUBIST_ABI
