// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The communicator of ranks with a GPU each, and its requests. Spans are device memory.
//
// A call waits for the earlier work of the compute stream (NcclOptions::stream) and runs on a
// stream of its communicator. `wait` makes the compute stream wait for it, not the host: work
// enqueued there afterwards may read what was received and overwrite what was sent; the host may
// after `synchronize`. Only a barrier waits on the host.
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
#include "cubist/core/error.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/device/stream.hpp"

namespace cubist
{

namespace detail
{

/// One communicator of one rank.
struct NcclCommState
{
  NcclCommState(std::shared_ptr<NcclContext> rank_context, NcclQueue& comm_queue, int node_id)
      : context{std::move(rank_context)}, queue{comm_queue}, node{node_id}
  {
  }
  NcclCommState(const NcclCommState&) = delete;
  NcclCommState& operator=(const NcclCommState&) = delete;
  ~NcclCommState() { context->finalize(queue); }

  std::shared_ptr<NcclContext> context;
  NcclQueue& queue;
  int node;  // the lowest rank on it
  bool remote = false;
};

/// The lowest rank on the same node.
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

/// A pending call of an NcclCommunicator. Its destruction before the call is complete aborts all
/// communicators of the rank.
class NcclRequest
{
 public:
  NcclRequest(std::shared_ptr<detail::NcclCommState> state, detail::PendingNcclCall& pending)
      : state_{std::move(state)}, pending_{&pending}
  {
  }
  NcclRequest(NcclRequest&& other) noexcept
      : state_{std::move(other.state_)}, pending_{std::exchange(other.pending_, nullptr)}
  {
  }
  NcclRequest& operator=(NcclRequest&& other) noexcept
  {
    std::swap(state_, other.state_);
    std::swap(pending_, other.pending_);
    return *this;
  }
  ~NcclRequest()
  {
    if (pending_ != nullptr) state_->context->drop(state_->queue, *pending_);
  }

  void wait()
  {
    if (pending_ == nullptr) return;
    state_->context->wait(state_->queue, *pending_);
    release();
  }

  /// Whether the call is complete, for the host as well.
  bool test()
  {
    if (pending_ != nullptr && state_->context->test(state_->queue, *pending_)) release();
    return pending_ == nullptr;
  }

 private:
  void release() { state_->queue.release(*std::exchange(pending_, nullptr)); }

  std::shared_ptr<detail::NcclCommState> state_;
  detail::PendingNcclCall* pending_;
};

class NcclCommunicator : public Collectives<NcclCommunicator>
{
 public:
  /// A communicator of the ranks of `host`, each with its own device, which becomes the current
  /// device of its thread and must remain so. All ranks call it; each uses its communicator from
  /// one thread.
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
    NcclCommunicator result{
        std::make_shared<detail::NcclCommState>(std::move(context), queue, node)};
    result.state_->remote = host.remote();
    return result;
  }

  [[nodiscard]] int rank() const { return state_->queue.rank_info().rank; }
  [[nodiscard]] int size() const { return state_->queue.rank_info().size; }
  /// Whether the ranks are on more than one node.
  [[nodiscard]] bool remote() const { return state_->remote; }

  template <Element T>
  [[nodiscard]] NcclRequest start(const Call<T>& call)
  {
    return {state_, state_->context->start(state_->queue, detail::nccl_call(call))};
  }

  /// The ranks of the same colour, ordered by key, then by rank. Waits on the host until the calls
  /// of this communicator are complete.
  /// @throws ArgumentError for a negative colour
  [[nodiscard]] NcclCommunicator split(int colour, int key)
  {
    require<ArgumentError>(colour >= 0, "got the colour ", colour,
                           " for a split, but in NCCL a negative one excludes the rank; "
                           "use colours from 0");
    auto& context = *state_->context;
    NcclCommunicator part{std::make_shared<detail::NcclCommState>(
        state_->context, context.split(state_->queue, colour, key), state_->node)};
    if (remote()) part.find_remote();
    return part;
  }

  /// Waits on the host until the compute stream is idle, and with it all calls that were waited
  /// for. Unlike cudaStreamSynchronize, it throws when another rank has failed.
  /// @throws CommunicationError, PeerFailed, TimeLimitError
  void synchronize() { state_->context->synchronize(); }
  /// The compute stream.
  [[nodiscard]] cudaStream_t stream() const { return state_->context->stream(); }

 private:
  explicit NcclCommunicator(std::shared_ptr<detail::NcclCommState> state) : state_{std::move(state)}
  {
  }

  /// Sets `remote`: the largest and the smallest node of the ranks differ.
  void find_remote()
  {
    const auto describe = [] { return "the nodes of a split"; };
    std::array<int, 2> nodes{state_->node, -state_->node};
    const std::span found{state_->queue.rank_info().scratch, nodes.size()};
    const auto copy = [&](void* to, const void* from, cudaMemcpyKind kind) {
      detail::cuda_check(cudaMemcpyAsync(to, from, sizeof(nodes), kind, stream()),
                         "cudaMemcpyAsync", describe);
    };
    copy(found.data(), nodes.data(), cudaMemcpyHostToDevice);
    all_reduce(found, ReduceOp::max);
    copy(nodes.data(), found.data(), cudaMemcpyDeviceToHost);
    synchronize();
    state_->remote = nodes[0] != -nodes[1];
  }

  std::shared_ptr<detail::NcclCommState> state_;
};

/// NCCL chooses the order of a sum by topology and size; it is the same on every run.
template <>
inline constexpr bool sums_in_order<NcclCommunicator> = false;
template <>
inline constexpr bool independent_messages<NcclCommunicator> = false;

static_assert(Communicator<NcclCommunicator>);

}  // namespace cubist
