// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Ranks that have a GPU each: the communicator, and its requests. Spans are of device memory.
//
// A call waits for what the compute stream (NcclOptions::stream) was given before it, and runs on a
// stream of its communicator. `wait` lets the compute stream wait for it, not the host: what is
// enqueued there from then on may read what was received and overwrite what was sent, and
// `synchronize` is when the host may. Only a barrier waits on the host, for that is what it is for.
//
// The messages that a rank has started travel as one group once it waits for one of them; so ranks
// must agree on the order of such groups and of collectives, as far as they meet.

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
#include "cubist/comm/nccl/queue.hpp"
#include "cubist/comm/nccl/watchdog.hpp"
#include "cubist/comm/nccl/world.hpp"
#include "cubist/core/error.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/device/stream.hpp"

namespace cubist
{

namespace detail
{

/// One communicator of one rank.
struct NcclGroup
{
  NcclGroup(std::shared_ptr<NcclWorld> its_world, NcclQueue& its_queue, int its_node)
      : world{std::move(its_world)}, queue{its_queue}, node{its_node}
  {
  }
  NcclGroup(const NcclGroup&) = delete;
  NcclGroup& operator=(const NcclGroup&) = delete;
  ~NcclGroup() { world->retire(queue); }

  std::shared_ptr<NcclWorld> world;
  NcclQueue& queue;
  int node;  // a rank on the same one
  bool remote = false;
};

/// The lowest rank on the same node.
template <Communicator Host>
[[nodiscard]] int node_of(Host& host)
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

/// A call of an NcclCommunicator under way. One that is dropped before it is complete aborts the
/// communicators of its rank.
class NcclRequest
{
 public:
  NcclRequest(std::shared_ptr<detail::NcclGroup> group, detail::NcclMember& member)
      : group_{std::move(group)}, member_{&member}
  {
  }
  NcclRequest(NcclRequest&& other) noexcept
      : group_{std::move(other.group_)}, member_{std::exchange(other.member_, nullptr)}
  {
  }
  NcclRequest& operator=(NcclRequest&& other) noexcept
  {
    std::swap(group_, other.group_);
    std::swap(member_, other.member_);
    return *this;
  }
  ~NcclRequest()
  {
    if (member_ != nullptr) group_->world->drop(group_->queue, *member_);
  }

  void wait()
  {
    if (member_ == nullptr) return;
    group_->world->wait(group_->queue, *member_);
    leave();
  }

  /// Whether the call is complete, for the host as well.
  bool test()
  {
    if (member_ != nullptr && group_->world->test(group_->queue, *member_)) leave();
    return member_ == nullptr;
  }

 private:
  void leave() { group_->queue.leave(*std::exchange(member_, nullptr)); }

  std::shared_ptr<detail::NcclGroup> group_;
  detail::NcclMember* member_;
};

class NcclCommunicator : public Collectives<NcclCommunicator>
{
 public:
  /// The same ranks as `host`, each on a device of its own, which becomes its thread's current one
  /// and must stay so. All ranks call it. A communicator is used by one thread.
  /// @throws CommunicationError, PeerFailed, TimeLimitError
  template <Communicator Host>
  [[nodiscard]] static NcclCommunicator make(Host& host, int device, NcclOptions options = {})
  {
    const auto doing = [&] {
      return "the start of NCCL on rank " + std::to_string(host.rank()) + " of " +
             std::to_string(host.size());
    };
    auto world = std::make_shared<detail::NcclWorld>(device, std::move(options));
    ncclUniqueId id{};
    if (host.rank() == 0)
      detail::nccl_check(ncclGetUniqueId(&id), "ncclGetUniqueId", nullptr, doing);
    host.broadcast(id.internal, 0);
    const int node = detail::node_of(host);
    auto& queue = world->open(
        [&](ncclComm_t* room, ncclConfig_t* config) {
          detail::nccl_check(ncclCommInitRankConfig(room, host.size(), id, host.rank(), config),
                             "ncclCommInitRankConfig", nullptr, doing);
        },
        doing);
    NcclCommunicator made{std::make_shared<detail::NcclGroup>(std::move(world), queue, node)};
    made.group_->remote = host.remote();
    return made;
  }

  [[nodiscard]] int rank() const { return group_->queue.place().rank; }
  [[nodiscard]] int size() const { return group_->queue.place().size; }
  /// Whether its ranks are on more than one node.
  [[nodiscard]] bool remote() const { return group_->remote; }

  template <Element T>
  [[nodiscard]] NcclRequest start(const Call<T>& call)
  {
    return {group_, group_->world->start(group_->queue, detail::nccl_call(call))};
  }

  /// The ranks that give the same colour, ordered by key, then by rank. Waits on the host until
  /// the calls of this communicator are complete.
  /// @throws ArgumentError for a negative colour
  [[nodiscard]] NcclCommunicator split(int colour, int key)
  {
    require<ArgumentError>(colour >= 0, "got the colour ", colour,
                           " for a split, but to NCCL a negative one means a rank in no group; "
                           "use colours from 0");
    auto& world = *group_->world;
    NcclCommunicator part{std::make_shared<detail::NcclGroup>(
        group_->world, world.split(group_->queue, colour, key), group_->node)};
    if (remote()) part.find_remote();
    return part;
  }

  /// Waits on the host until the compute stream has done all that it was given, calls that were
  /// waited for included. Unlike cudaStreamSynchronize, it ends when another rank is gone.
  /// @throws CommunicationError, PeerFailed, TimeLimitError
  void synchronize() { group_->world->synchronize(); }
  /// The stream that computes.
  [[nodiscard]] cudaStream_t stream() const { return group_->world->stream(); }

 private:
  explicit NcclCommunicator(std::shared_ptr<detail::NcclGroup> group) : group_{std::move(group)} {}

  /// Whether the largest and the smallest node among the ranks differ.
  void find_remote()
  {
    const auto doing = [] { return "the nodes of a split"; };
    std::array<int, 2> nodes{group_->node, -group_->node};
    const std::span found{group_->queue.place().scratch, nodes.size()};
    const auto copy = [&](void* to, const void* from, cudaMemcpyKind kind) {
      detail::cuda_check(cudaMemcpyAsync(to, from, sizeof(nodes), kind, stream()),
                         "cudaMemcpyAsync", doing);
    };
    copy(found.data(), nodes.data(), cudaMemcpyHostToDevice);
    all_reduce(found, ReduceOp::max);
    copy(nodes.data(), found.data(), cudaMemcpyDeviceToHost);
    synchronize();
    group_->remote = nodes[0] != -nodes[1];
  }

  std::shared_ptr<detail::NcclGroup> group_;
};

/// NCCL chooses the order of a sum by the topology and the size; it is the same on every run.
template <>
inline constexpr bool sums_in_order<NcclCommunicator> = false;
template <>
inline constexpr bool messages_alone<NcclCommunicator> = false;

static_assert(Communicator<NcclCommunicator>);

}  // namespace cubist
