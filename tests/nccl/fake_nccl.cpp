// SPDX-License-Identifier: BSD-3-Clause
// The mock of NCCL; see fake.hpp. One mutex guards all state, and is held while data is copied.
#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "cubist/core/float16.hpp"

#include "fake_detail.hpp"
#include "fake_graph.hpp"

namespace fake = cubist::test::fake;

namespace
{

enum class Kind
{
  all_reduce,
  reduce,
  broadcast,
  all_gather,
  reduce_scatter,
  send,
  receive
};

struct Op
{
  Kind kind = Kind::all_reduce;
  const std::byte* send = nullptr;
  std::byte* recv = nullptr;
  std::size_t count = 0;
  ncclDataType_t type = ncclInt8;
  ncclRedOp_t op = ncclSum;
  int peer = 0;  // or root
  cudaStream_t stream = nullptr;
  bool registered = false;
  std::ptrdiff_t send_offset = -1;  // in a symmetric window
  std::ptrdiff_t recv_offset = -1;
};

/// Memory that is registered with a communicator.
struct Registration
{
  const std::byte* data;
  std::size_t bytes;
};

struct Rank;

/// A collective that some ranks have called.
struct CollectiveState
{
  std::vector<std::optional<Op>> parts;
  int finished = 0;
  bool done = false;
};

struct Message
{
  Rank* owner;
  Op op;
  std::shared_ptr<bool> done;
};

struct Group;

struct SplitState
{
  std::map<int, std::pair<int, int>> requested;  // of each rank: colour, key
  std::map<int, std::shared_ptr<Group>> parts;
};

/// The ranks of one communicator.
struct Group
{
  explicit Group(int n)
      : size{n}
  {
  }

  int size;
  int joined = 0;
  int finalized = 0;
  std::vector<Rank*> members;
  std::map<std::uint64_t, CollectiveState> collectives;
  std::map<std::pair<int, int>, std::deque<Message>> sends;
  std::map<std::pair<int, int>, std::deque<Message>> receives;
  std::map<std::uint64_t, SplitState> pending_splits;
  std::map<std::uint64_t, std::vector<std::size_t>> pending_windows;  // their sizes
};

/// One rank of a communicator. Its pending work on streams shares ownership.
struct Rank
{
  std::shared_ptr<Group> group;
  int rank = 0;
  bool aborted = false;
  bool finalized = false;
  ncclResult_t error = ncclSuccess;
  unsigned polls = 0;  // until the issued operations are launched
  std::vector<Op> issued;
  int running = 0;
  std::uint64_t calls = 0;
  std::uint64_t splits = 0;
  ncclComm_t* split_result = nullptr;  // of a pending split
  std::map<void*, Registration> registrations;
  std::map<ncclWindow_t, Registration> windows;
  std::uint64_t opened = 0;
  ncclWindow_t* window_result = nullptr;  // of a pending registration of a window
  Registration window_memory{};
};

std::mutex mutex;
std::condition_variable changed;
std::map<std::string, std::shared_ptr<Group>> groups;
std::map<void*, std::size_t> nccl_memory;
std::multiset<const void*> registered;  // with any communicator
std::uint64_t ids = 0;
std::atomic<bool> reports_aborts = false;
std::atomic<bool> has_nvlink = true;
std::mt19937 random_number{17};

thread_local int depth = 0;
thread_local std::vector<std::pair<ncclComm_t, Op>> group_ops;
thread_local ncclResult_t later_result = ncclSuccess;

std::size_t size_of(ncclDataType_t type)
{
  switch (type)
  {
  case ncclInt8:
  case ncclUint8:
    return 1;
  case ncclFloat16:
  case ncclBfloat16:
    return 2;
  case ncclInt32:
  case ncclUint32:
  case ncclFloat32:
    return 4;
  default:
    return 8;
  }
}

template <class T>
void combine_as(const std::vector<const std::byte*>& in, std::size_t count, ncclRedOp_t op,
                std::byte* out)
{
  for (std::size_t i = 0; i < count; ++i)
  {
    const auto at = [&](std::size_t r) {
      T x;
      std::memcpy(&x, in[r] + i * sizeof(T), sizeof(T));
      return x;
    };
    T all = at(0);
    for (std::size_t r = 1; r < in.size(); ++r)
      all = op == ncclSum   ? static_cast<T>(all + at(r))
            : op == ncclMin ? std::min(all, at(r))
                            : std::max(all, at(r));
    std::memcpy(out + i * sizeof(T), &all, sizeof(T));
  }
}

void combine(ncclDataType_t type, const std::vector<const std::byte*>& in, std::size_t count,
             ncclRedOp_t op, std::byte* out)
{
  switch (type)
  {
  case ncclInt8:
    return combine_as<std::int8_t>(in, count, op, out);
  case ncclUint8:
    return combine_as<std::uint8_t>(in, count, op, out);
  case ncclInt32:
    return combine_as<std::int32_t>(in, count, op, out);
  case ncclUint32:
    return combine_as<std::uint32_t>(in, count, op, out);
  case ncclInt64:
    return combine_as<std::int64_t>(in, count, op, out);
  case ncclUint64:
    return combine_as<std::uint64_t>(in, count, op, out);
  case ncclFloat16:
    return combine_as<cubist::half>(in, count, op, out);
  case ncclBfloat16:
    return combine_as<cubist::bfloat16>(in, count, op, out);
  case ncclFloat32:
    return combine_as<float>(in, count, op, out);
  default:
    return combine_as<double>(in, count, op, out);
  }
}

/// Takes back what a rank has posted and its peers have not joined, so that they no longer access
/// its memory.
void withdraw(const Rank& me)
{
  for (auto& [_, state] : me.group->collectives)
    if (!state.done && !state.parts.empty()) state.parts[static_cast<std::size_t>(me.rank)].reset();
  for (auto* const posted : {&me.group->sends, &me.group->receives})
    for (auto& [_, messages] : *posted)
      std::erase_if(messages, [&](const Message& m) { return m.owner == &me; });
}

/// Executes a collective that all ranks have called.
void execute(const std::vector<std::optional<Op>>& parts)
{
  const std::size_t ranks = parts.size();
  const Op& first = *parts[0];
  const std::size_t bytes = first.count * size_of(first.type);
  const auto root = static_cast<std::size_t>(first.peer);
  std::vector<std::vector<std::byte>> results(ranks);  // send and receive buffer may be the same
  const auto combined = [&](std::size_t offset) {
    std::vector<const std::byte*> in;
    for (const auto& p : parts) in.push_back(p->send + offset);
    std::vector<std::byte> out(bytes);
    combine(first.type, in, first.count, first.op, out.data());
    return out;
  };
  for (std::size_t r = 0; r < ranks; ++r) switch (first.kind)
    {
    case Kind::all_reduce:
      results[r] = r == 0 ? combined(0) : results[0];
      break;
    case Kind::reduce:
      if (r == root) results[r] = combined(0);
      break;
    case Kind::broadcast:
      results[r].assign(parts[root]->send, parts[root]->send + bytes);
      break;
    case Kind::all_gather:
      for (const auto& p : parts) results[r].insert(results[r].end(), p->send, p->send + bytes);
      break;
    case Kind::reduce_scatter:
      results[r] = combined(r * bytes);
      break;
    default:
      break;
    }
  for (std::size_t r = 0; r < ranks; ++r)
    for (std::size_t at = 0; at < results[r].size(); at += bytes)
    {
      auto* const to = parts[r]->recv + at;
      // NCCL does not write the data of an in-place call.
      const bool in_place = (first.kind == Kind::broadcast && parts[root]->send == to) ||
                            (first.kind == Kind::all_gather && parts[at / bytes]->send == to);
      if (in_place) continue;
      std::memcpy(to, results[r].data() + at, bytes);
    }
}

bool match(const std::vector<std::optional<Op>>& parts)
{
  return std::all_of(parts.begin(), parts.end(), [&](const auto& p) {
    return std::tie(p->kind, p->count, p->type, p->op, p->peer) ==
           std::tie(parts[0]->kind, parts[0]->count, parts[0]->type, parts[0]->op, parts[0]->peer);
  });
}

void join_collective(Rank& me, std::uint64_t call, const Op& op, std::unique_lock<std::mutex>& lock)
{
  auto& state = me.group->collectives[call];
  const auto ranks = static_cast<std::size_t>(me.group->size);
  state.parts.resize(ranks);
  state.parts[static_cast<std::size_t>(me.rank)] = op;
  // Ranks that call different collectives block.
  if (std::all_of(state.parts.begin(), state.parts.end(), [](auto& p) { return !!p; }) &&
      match(state.parts))
  {
    for (const auto& part : state.parts)
      if (std::tie(part->registered, part->send_offset, part->recv_offset) !=
          std::tie(state.parts[0]->registered, state.parts[0]->send_offset,
                   state.parts[0]->recv_offset))
        ++fake::counts.violations;
    execute(state.parts);
    state.done = true;
    changed.notify_all();
  }
  changed.wait(lock, [&] { return state.done || me.aborted; });
  if (!state.done) return;  // withdrawn
  if (++state.finished == me.group->size) me.group->collectives.erase(call);
}

void exchange(Rank& me, const std::vector<Op>& ops, std::unique_lock<std::mutex>& lock)
{
  std::vector<std::shared_ptr<bool>> all;
  for (const auto& op : ops)
  {
    const bool sends = op.kind == Kind::send;
    const auto pair = sends ? std::pair{me.rank, op.peer} : std::pair{op.peer, me.rank};
    auto& mine = (sends ? me.group->sends : me.group->receives)[pair];
    auto& theirs = (sends ? me.group->receives : me.group->sends)[pair];
    auto& done = all.emplace_back(std::make_shared<bool>(false));
    if (theirs.empty())
    {
      mine.push_back({&me, op, done});
      continue;
    }
    const auto& other = theirs.front();
    const auto bytes = std::min(op.count, other.op.count);
    if (sends)
      std::memcpy(other.op.recv, op.send, bytes);
    else
      std::memcpy(op.recv, other.op.send, bytes);
    *other.done = *done = true;
    theirs.pop_front();
    changed.notify_all();
  }
  const auto complete = [&] {
    return std::all_of(all.begin(), all.end(), [](auto& done) { return *done; });
  };
  changed.wait(lock, [&] { return me.aborted || complete(); });
}

/// Makes a stream's task that executes operations.
std::function<void()> make_task(const std::shared_ptr<Rank>& member, const std::vector<Op>& ops)
{
  std::vector<Op> messages;
  std::vector<std::pair<std::uint64_t, Op>> collectives;
  for (const auto& op : ops)
    if (op.kind == Kind::send || op.kind == Kind::receive)
      messages.push_back(op);
    else
      collectives.emplace_back(member->calls++, op);
  ++member->running;
  return [member, messages, collectives] {
    std::unique_lock lock{mutex};
    for (const auto& [call, op] : collectives)
      if (!member->aborted) join_collective(*member, call, op, lock);
    if (!messages.empty() && !member->aborted) exchange(*member, messages, lock);
    --member->running;
    changed.notify_all();
  };
}

/// Enqueues the issued operations on their stream.
void launch(const std::shared_ptr<Rank>& member)
{
  const std::vector<Op> ops = std::exchange(member->issued, {});
  if (ops.empty()) return;
  auto& stream = *ops[0].stream;
  if (!stream.capture) return stream.enqueue(make_task(member, ops));
  stream.record([member, ops] {
    const std::lock_guard lock{mutex};
    return make_task(member, ops);
  });
}

template <class Handle>
void forget(const std::pair<Handle const, Registration>& entry)
{
  registered.erase(registered.find(entry.second.data));
  delete reinterpret_cast<int*>(entry.first);
  --fake::counts.registrations;
}

}  // namespace

struct ncclComm
{
  explicit ncclComm(std::shared_ptr<Group> group, int rank)
  {
    member->group = std::move(group);
    member->rank = rank;
    member->group->members.push_back(member.get());
    ++member->group->joined;
    ++fake::counts.communicators;
  }
  ~ncclComm()
  {
    std::erase(member->group->members, member.get());
    for (const auto& entry : member->registrations) forget(entry);
    for (const auto& entry : member->windows) forget(entry);
    --fake::counts.communicators;
  }

  std::shared_ptr<Rank> member = std::make_shared<Rank>();
};

void fake::fail_later(ncclResult_t code) { later_result = code; }
void fake::report_aborts(bool report) { reports_aborts = report; }
void fake::connect_by_nvlink(bool connected) { has_nvlink = connected; }
fake::Live fake::live()
{
  cudaStreamSynchronize(cudaStreamPerThread);  // frees memory that this thread no longer needs
  return {counts.communicators, counts.streams,       counts.events, counts.allocations,
          counts.graphs,        counts.registrations, counts.pinned};
}
int fake::violations() { return counts.violations; }
int fake::aborts() { return counts.aborts; }

#define CUBIST_INJECT(function)                                                                    \
  if (const int code = fake::injected(#function)) return static_cast<ncclResult_t>(code)

namespace
{

/// @returns ncclInvalidUsage while an earlier call is in progress
ncclResult_t issue(ncclComm_t comm, const std::vector<Op>& ops)
{
  const std::lock_guard lock{mutex};
  auto& m = *comm->member;
  if (m.finalized || m.polls > 0 || m.split_result != nullptr || m.window_result != nullptr ||
      m.group->joined < m.group->size)
    return ncclInvalidUsage;
  if (later_result != ncclSuccess)
  {
    m.error = std::exchange(later_result, ncclSuccess);
    return ncclInProgress;
  }
  m.issued = ops;
  m.polls = static_cast<unsigned>(random_number() % 3);
  if (m.polls > 0)
  {
    if (!ops.empty() && ops[0].stream->capture) ++ops[0].stream->capture->in_progress;
    return ncclInProgress;
  }
  launch(comm->member);
  return ncclSuccess;
}

/// Whether memory is registered with the communicator, or null, as in arguments that a call
/// ignores.
bool is_registered(ncclComm_t comm, const std::byte* data)
{
  const std::lock_guard lock{mutex};
  const auto& all = comm->member->registrations;
  return data == nullptr || std::any_of(all.begin(), all.end(), [&](const auto& entry) {
           const auto& [_, r] = entry;
           return data >= r.data && data < r.data + r.bytes;
         });
}

std::ptrdiff_t window_offset(ncclComm_t comm, const std::byte* data)
{
  const std::lock_guard lock{mutex};
  for (const auto& [_, w] : comm->member->windows)
    if (data >= w.data && data < w.data + w.bytes) return data - w.data;
  return -1;
}

ncclResult_t add(ncclComm_t comm, const Op& op, std::size_t send_pieces, std::size_t recv_pieces)
{
  const std::size_t bytes = op.count * size_of(op.type);
  if (!fake::on_device(op.send, send_pieces * bytes) ||
      !fake::on_device(op.recv, recv_pieces * bytes) || op.stream == nullptr)
    return ncclInvalidArgument;
  Op known = op;
  known.registered = is_registered(comm, op.send) && is_registered(comm, op.recv);
  known.send_offset = window_offset(comm, op.send);
  known.recv_offset = window_offset(comm, op.recv);
  if (depth == 0) return issue(comm, {known});
  group_ops.emplace_back(comm, known);
  return ncclSuccess;
}

std::size_t ranks(ncclComm_t comm) { return static_cast<std::size_t>(comm->member->group->size); }

const std::byte* bytes(const void* p) { return static_cast<const std::byte*>(p); }
std::byte* bytes(void* p) { return static_cast<std::byte*>(p); }

}  // namespace

ncclResult_t ncclGroupStart()
{
  CUBIST_INJECT(ncclGroupStart);
  ++depth;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd()
{
  if (--depth > 0) return ncclSuccess;
  const auto all = std::exchange(group_ops, {});
  CUBIST_INJECT(ncclGroupEnd);
  ncclResult_t result = ncclSuccess;
  std::vector<ncclComm_t> comms;
  for (const auto& [comm, _] : all)
    if (std::find(comms.begin(), comms.end(), comm) == comms.end()) comms.push_back(comm);
  for (auto* const comm : comms)
  {
    std::vector<Op> ops;
    for (const auto& [its, op] : all)
      if (its == comm) ops.push_back(op);
    const auto code = issue(comm, ops);
    if (code != ncclSuccess) result = code;
  }
  return result;
}

ncclResult_t ncclAllReduce(const void* send, void* recv, size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream)
{
  CUBIST_INJECT(ncclAllReduce);
  return add(comm, {Kind::all_reduce, bytes(send), bytes(recv), count, type, op, 0, stream}, 1, 1);
}

ncclResult_t ncclReduce(const void* send, void* recv, size_t count, ncclDataType_t type,
                        ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream)
{
  CUBIST_INJECT(ncclReduce);
  return add(comm, {Kind::reduce, bytes(send), bytes(recv), count, type, op, root, stream}, 1,
             comm->member->rank == root ? 1 : 0);
}

ncclResult_t ncclBroadcast(const void* send, void* recv, size_t count, ncclDataType_t type,
                           int root, ncclComm_t comm, cudaStream_t stream)
{
  CUBIST_INJECT(ncclBroadcast);
  return add(comm, {Kind::broadcast, bytes(send), bytes(recv), count, type, ncclSum, root, stream},
             comm->member->rank == root ? 1 : 0, 1);
}

ncclResult_t ncclAllGather(const void* send, void* recv, size_t count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream)
{
  CUBIST_INJECT(ncclAllGather);
  return add(comm, {Kind::all_gather, bytes(send), bytes(recv), count, type, ncclSum, 0, stream}, 1,
             ranks(comm));
}

ncclResult_t ncclReduceScatter(const void* send, void* recv, size_t count, ncclDataType_t type,
                               ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream)
{
  CUBIST_INJECT(ncclReduceScatter);
  return add(comm, {Kind::reduce_scatter, bytes(send), bytes(recv), count, type, op, 0, stream},
             ranks(comm), 1);
}

ncclResult_t ncclSend(const void* data, size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream)
{
  CUBIST_INJECT(ncclSend);
  return add(comm, {Kind::send, bytes(data), nullptr, count, type, ncclSum, peer, stream}, 1, 0);
}

ncclResult_t ncclRecv(void* data, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream)
{
  CUBIST_INJECT(ncclRecv);
  return add(comm, {Kind::receive, nullptr, bytes(data), count, type, ncclSum, peer, stream}, 0, 1);
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id)
{
  CUBIST_INJECT(ncclGetUniqueId);
  const std::lock_guard lock{mutex};
  *id = {};
  const auto name = std::to_string(++ids);
  std::copy(name.begin(), name.end(), id->internal);
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int size, ncclUniqueId id, int rank,
                                    ncclConfig_t* config)
{
  CUBIST_INJECT(ncclCommInitRankConfig);
  if (config->blocking != 0) return ncclInvalidArgument;
  const std::lock_guard lock{mutex};
  auto& group = groups[id.internal];
  if (!group) group = std::make_shared<Group>(size);
  std::atomic_ref{*comm}.store(new ncclComm{group, rank}, std::memory_order_release);
  if (group->joined == size) groups.erase(id.internal);
  return ncclInProgress;
}

ncclResult_t ncclCommSplit(ncclComm_t comm, int colour, int key, ncclComm_t* child,
                           ncclConfig_t* config)
{
  CUBIST_INJECT(ncclCommSplit);
  if (config == nullptr || config->blocking != 0 || colour < 0) return ncclInvalidArgument;
  const std::lock_guard lock{mutex};
  auto& m = *comm->member;
  if (m.finalized || m.polls > 0 || m.split_result != nullptr || m.running > 0)
    return ncclInvalidUsage;
  m.group->pending_splits[m.splits].requested[m.rank] = {colour, key};
  m.split_result = child;
  return ncclInProgress;
}

namespace
{

/// Creates this rank's new communicator once all ranks have called split.
bool end_split(Rank& m)
{
  auto& split = m.group->pending_splits[m.splits];
  if (static_cast<int>(split.requested.size()) < m.group->size) return false;
  const auto [colour, key] = split.requested.at(m.rank);
  std::vector<std::pair<int, int>> same;  // key and rank
  for (const auto& [rank, requested] : split.requested)
    if (requested.first == colour) same.emplace_back(requested.second, rank);
  std::sort(same.begin(), same.end());
  auto& part = split.parts[colour];
  if (!part) part = std::make_shared<Group>(static_cast<int>(same.size()));
  const auto mine = std::find(same.begin(), same.end(), std::pair{key, m.rank});
  std::atomic_ref{*std::exchange(m.split_result, nullptr)}.store(
      new ncclComm{part, static_cast<int>(mine - same.begin())}, std::memory_order_release);
  ++m.splits;
  return true;
}

/// Opens this rank's window once all ranks have registered theirs, of the same size.
ncclResult_t end_window(Rank& m)
{
  const auto& sizes = m.group->pending_windows[m.opened];
  if (static_cast<int>(sizes.size()) < m.group->size) return ncclInProgress;
  ++m.opened;
  auto* const result = std::exchange(m.window_result, nullptr);
  if (std::any_of(sizes.begin(), sizes.end(), [&](auto n) { return n != sizes[0]; }))
    return m.error = ncclInvalidUsage;
  if (!has_nvlink) return ncclSuccess;
  *result = reinterpret_cast<ncclWindow_t>(new int);
  m.windows[*result] = m.window_memory;
  registered.insert(m.window_memory.data);
  ++fake::counts.registrations;
  return ncclSuccess;
}

}  // namespace

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* result)
{
  CUBIST_INJECT(ncclCommGetAsyncError);
  const std::lock_guard lock{mutex};
  auto& m = *comm->member;
  *result = m.error;
  if (m.error != ncclSuccess) return ncclSuccess;
  if (m.group->joined < m.group->size)
    *result = ncclInProgress;
  else if (m.split_result != nullptr)
    *result = end_split(m) ? ncclSuccess : ncclInProgress;
  else if (m.window_result != nullptr)
    *result = end_window(m);
  else if (m.finalized)
    *result = m.running > 0 || m.group->finalized < m.group->size ? ncclInProgress : ncclSuccess;
  else if (m.polls > 0)
  {
    *result = ncclInProgress;
    if (--m.polls == 0)
    {
      if (!m.issued.empty() && m.issued[0].stream->capture)
        --m.issued[0].stream->capture->in_progress;
      launch(comm->member);
    }
  }
  return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t comm)
{
  CUBIST_INJECT(ncclCommFinalize);
  const std::lock_guard lock{mutex};
  if (comm->member->finalized || comm->member->polls > 0) return ncclInvalidUsage;
  if (!comm->member->registrations.empty() || !comm->member->windows.empty())
    ++fake::counts.violations;
  comm->member->finalized = true;
  ++comm->member->group->finalized;
  return ncclInProgress;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm)
{
  const std::lock_guard lock{mutex};
  delete comm;
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm)
{
  const std::lock_guard lock{mutex};
  auto& m = *comm->member;
  m.aborted = true;
  withdraw(m);
  for (auto* const other : m.group->members)
    if (reports_aborts && other != &m) other->error = ncclRemoteError;
  delete comm;
  ++fake::counts.aborts;
  changed.notify_all();
  return ncclSuccess;
}

ncclResult_t ncclMemAlloc(void** data, size_t bytes)
{
  CUBIST_INJECT(ncclMemAlloc);
  if (cudaMalloc(data, bytes) != cudaSuccess) return ncclUnhandledCudaError;
  const std::lock_guard lock{mutex};
  nccl_memory[*data] = bytes;
  return ncclSuccess;
}

ncclResult_t ncclMemFree(void* data)
{
  const std::lock_guard lock{mutex};
  if (nccl_memory.erase(data) == 0) return ncclInvalidArgument;
  if (registered.count(data) > 0) ++fake::counts.violations;
  return cudaFree(data) == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}

ncclResult_t ncclCommRegister(const ncclComm_t comm, void* data, size_t bytes, void** handle)
{
  CUBIST_INJECT(ncclCommRegister);
  const std::lock_guard lock{mutex};
  auto& m = *comm->member;
  const auto allocated = nccl_memory.find(data);
  if (allocated == nccl_memory.end() || bytes > allocated->second) return ncclInvalidArgument;
  if (m.finalized || m.polls > 0 || m.split_result != nullptr) return ncclInvalidUsage;
  *handle = new int;
  m.registrations[*handle] = {static_cast<const std::byte*>(data), bytes};
  registered.insert(data);
  ++fake::counts.registrations;
  return ncclSuccess;
}

ncclResult_t ncclCommDeregister(const ncclComm_t comm, void* handle)
{
  const std::lock_guard lock{mutex};
  auto& m = *comm->member;
  if (m.running > 0) ++fake::counts.violations;
  const auto found = m.registrations.find(handle);
  if (found == m.registrations.end()) return ncclInvalidUsage;
  forget(*found);
  m.registrations.erase(found);
  return ncclSuccess;
}

ncclResult_t ncclCommWindowRegister(ncclComm_t comm, void* data, size_t bytes, ncclWindow_t* window,
                                    int)
{
  CUBIST_INJECT(ncclCommWindowRegister);
  const std::lock_guard lock{mutex};
  auto& m = *comm->member;
  const auto allocated = nccl_memory.find(data);
  if (allocated == nccl_memory.end() || bytes > allocated->second) return ncclInvalidArgument;
  if (m.finalized || m.polls > 0 || m.split_result != nullptr || m.window_result != nullptr)
    return ncclInvalidUsage;
  m.group->pending_windows[m.opened].push_back(bytes);
  m.window_result = window;
  m.window_memory = {static_cast<const std::byte*>(data), bytes};
  return ncclInProgress;
}

ncclResult_t ncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t window)
{
  const std::lock_guard lock{mutex};
  auto& m = *comm->member;
  if (m.running > 0) ++fake::counts.violations;
  const auto found = m.windows.find(window);
  if (found == m.windows.end()) return ncclInvalidUsage;
  forget(*found);
  m.windows.erase(found);
  return ncclSuccess;
}

ncclResult_t ncclCommCount(const ncclComm_t comm, int* count)
{
  *count = comm->member->group->size;
  return ncclSuccess;
}

ncclResult_t ncclCommUserRank(const ncclComm_t comm, int* rank)
{
  *rank = comm->member->rank;
  return ncclSuccess;
}

const char* ncclGetErrorString(ncclResult_t code)
{
  return code == ncclRemoteError       ? "remote process exited or there was a network error"
         : code == ncclInvalidUsage    ? "invalid usage"
         : code == ncclInvalidArgument ? "invalid argument"
                                       : "internal error";
}

const char* ncclGetLastError(ncclComm_t) { return ""; }
