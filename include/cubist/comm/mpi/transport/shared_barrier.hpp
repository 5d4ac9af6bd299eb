// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// A barrier of MPI processes that share memory, without messages. Each rank of a communicator has a
// flag slot in its arena (memory/shared_arena.hpp): the number of barriers at which it has arrived,
// and a payload for each, perhaps with a small block. A barrier is complete when every rank's
// number has reached it; the last rank to arrive notifies those that sleep. Then each rank reads
// what the others have passed, so a collective of small blocks takes one barrier. MPI_Ibarrier
// advances only while all ranks call MPI, which takes processor time from ranks that compute.

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <new>
#include <span>
#include <utility>
#include <vector>

#include "cubist/comm/mpi/transport/blocks.hpp"
#include "cubist/comm/small_call.hpp"
#include "cubist/memory/futex_event.hpp"
#include "cubist/memory/shared_arena.hpp"

namespace cubist::CUBIST_ABI::detail
{

/// What a rank passes to its peers at a barrier: the tag of its call, and two numbers.
using BarrierPayload = std::array<std::uint64_t, 3>;

/// The flag slot of a rank, in its arena; peers read it. The numbers never decrease, whichever
/// communicator uses the slot.
struct FlagSlot
{
  /// How many barriers a rank may be ahead of the slowest reader of its payloads.
  static constexpr std::size_t depth = 64;
  /// How many barriers with blocks it may be ahead, and how long a block may be.
  static constexpr std::size_t block_depth = 8;
  static constexpr std::size_t block_bytes = longest_copy(1);
  static constexpr std::size_t cache_line = 64;

  alignas(cache_line)
      std::atomic<std::uint64_t> arrived;  // the number of barriers at which the rank has arrived
  alignas(cache_line) std::atomic<std::uint64_t> read;  // the number of barriers whose payloads it
                                                        // has read, in sequence
  alignas(cache_line) std::array<BarrierPayload, depth> payloads;
  // The system gives these pages memory only when they are first used.
  alignas(cache_line) std::array<std::array<std::byte, block_bytes>, block_depth> blocks;
};

/// Takes a flag slot of this process for the lifetime of a communicator.
class FlagSlotHandle
{
 public:
  FlagSlotHandle()
      : slot_{acquire()}
  {
    if (slot_ != nullptr) slot_->read = slot_->arrived.load();
  }
  FlagSlotHandle(FlagSlotHandle&&) = delete;
  ~FlagSlotHandle()
  {
    if (slot_ == nullptr) return;
    auto& pool = Pool::get();
    const std::lock_guard lock{pool.mutex};
    pool.slots.push_back(slot_);
  }

  /// The slot; null without an arena.
  [[nodiscard]] FlagSlot* get() const { return slot_; }
  /// Never reuses the slot: after a failure peers may still access it.
  void leak() { slot_ = nullptr; }
  /// The event that all communicators of this process share; null without an arena.
  [[nodiscard]] static FutexEvent* process_event()
  {
    static FutexEvent* const event = make_in_arena<FutexEvent>();
    return event;
  }

 private:
  struct Pool
  {
    std::mutex mutex;
    std::vector<FlagSlot*> slots;

    static Pool& get()
    {
      static auto& pool = *new Pool;
      return pool;
    }
  };

  /// Makes an object that is never freed, because a peer may read it after this process has left
  /// the communicator.
  template <class U>
  static U* make_in_arena()
  {
    auto& arena = SharedArena::mine();
    void* memory = arena.exists() ? arena.allocate(sizeof(U)) : nullptr;
    return memory == nullptr ? nullptr : new (memory) U;
  }

  static FlagSlot* acquire()
  {
    auto& pool = Pool::get();
    const std::lock_guard lock{pool.mutex};
    if (pool.slots.empty()) return make_in_arena<FlagSlot>();
    FlagSlot* const last = pool.slots.back();
    pool.slots.pop_back();
    return last;
  }

  FlagSlot* slot_;
};

/// The barriers of one communicator, as one of its ranks sees them.
class MpiSharedBarrier
{
 public:
  /// Where this process maps a rank's slot and event.
  struct Rank
  {
    FlagSlot* slot = nullptr;
    FutexEvent* event = nullptr;
    std::uint64_t base = 0;  // slot->arrived before the first barrier of the communicator
  };

  MpiSharedBarrier(std::vector<Rank> ranks, int rank)
      : ranks_{std::move(ranks)},
        mine_{ranks_[static_cast<std::size_t>(rank)]}
  {
    constexpr std::size_t barriers_in_flight = 64;
    unread_.reserve(barriers_in_flight);
  }

  /// The number of this rank's next barrier, starting at 1.
  [[nodiscard]] std::uint64_t next_barrier()
  {
    unread_.push_back(++last_);
    return last_;
  }

  /// Arrives at a barrier, unless this rank has not arrived at the one before it, or a rank has yet
  /// to read what this one would overwrite. Returns whether it has arrived.
  /// @param block  what to pass in addition to the payload, at most FlagSlot::block_bytes
  bool try_arrive(std::uint64_t barrier, const BarrierPayload& payload, ConstBytes block = {})
  {
    if (mine_.slot->arrived.load() - mine_.base + 1 != barrier) return false;
    const std::size_t depth = block.empty() ? FlagSlot::depth : FlagSlot::block_depth;
    const bool is_free = std::ranges::all_of(
        ranks_, [&](const Rank& r) { return r.slot->read.load() - r.base + depth >= barrier; });
    if (!is_free) return false;
    mine_.slot->payloads[barrier % FlagSlot::depth] = payload;
    copy_bytes(block, {mine_.slot->blocks[barrier % FlagSlot::block_depth].data(), block.size()});
    mine_.slot->arrived.store(mine_.base + barrier);
    if (is_complete(barrier))
      for (const Rank& r : ranks_)
        if (r.event != mine_.event) r.event->notify();
    return true;
  }

  [[nodiscard]] bool is_complete(std::uint64_t barrier) const
  {
    return std::ranges::all_of(ranks_, [&](const Rank& r) { return has_arrived(r, barrier); });
  }

  [[nodiscard]] std::size_t size() const { return ranks_.size(); }
  /// What a rank passes at a barrier.
  /// @pre is_complete(barrier), and this rank has not called `end_reading`
  [[nodiscard]] const BarrierPayload& payload(std::size_t rank, std::uint64_t barrier) const
  {
    return ranks_[rank].slot->payloads[barrier % FlagSlot::depth];
  }
  [[nodiscard]] const std::byte* block(std::size_t rank, std::uint64_t barrier) const
  {
    return ranks_[rank].slot->blocks[barrier % FlagSlot::block_depth].data();
  }
  /// Tells the other ranks that they may overwrite what this one has read at a barrier.
  void end_reading(std::uint64_t barrier)
  {
    std::erase(unread_, barrier);
    const std::uint64_t in_sequence = unread_.empty() ? last_ : unread_.front() - 1;
    mine_.slot->read.store(mine_.base + in_sequence);
  }

  /// Returns a rank whose last payload, which this rank has not read yet, belongs to another call;
  /// -1 if there is none. Earlier payloads prove nothing, because tags are reused.
  template <class F>
  [[nodiscard]] int find_mismatch(F mismatches) const
  {
    const auto read = mine_.slot->read.load() - mine_.base;
    for (std::size_t i = 0; i < ranks_.size(); ++i)
      if (const auto last = ranks_[i].slot->arrived.load() - ranks_[i].base;
          last > read &&
          mismatches(std::as_const(ranks_[i].slot->payloads[last % FlagSlot::depth])))
        return static_cast<int>(i);
    return -1;
  }

  /// The ranks that have not arrived.
  [[nodiscard]] std::vector<int> missing_ranks(std::uint64_t barrier) const
  {
    std::vector<int> missing;
    for (std::size_t i = 0; i < ranks_.size(); ++i)
      if (!has_arrived(ranks_[i], barrier)) missing.push_back(static_cast<int>(i));
    return missing;
  }

 private:
  [[nodiscard]] static bool has_arrived(const Rank& rank, std::uint64_t barrier)
  {
    return rank.slot->arrived.load() - rank.base >= barrier;
  }

  std::vector<Rank> ranks_;
  Rank mine_;
  std::uint64_t last_ = 0;
  std::vector<std::uint64_t> unread_;  // barriers, ascending
};

/// One rank's part in a barrier, at which it may pass a block to the others. The payload holds a
/// short block and the call's tag, which reveals a mismatched peer.
class MpiSharedBarrierCall
{
 public:
  /// A peer whose call has a different tag.
  struct Mismatch
  {
    int rank = -1;  // -1 for none
    int tag = 0;
  };

  /// The maximum size of a short block, in bytes.
  static constexpr std::size_t short_bytes = sizeof(BarrierPayload) - sizeof(std::uint64_t);

  /// Takes the number of the rank's next barrier.
  /// @pre block.size() <= FlagSlot::block_bytes
  void begin(MpiSharedBarrier& barrier, int tag, ConstBytes block)
  {
    barrier_ = &barrier;
    number_ = barrier.next_barrier();
    tag_ = tag;
    block_ = block;
    arrived_ = false;
  }

  /// Returns whether all ranks have arrived. If so, it has called use(blocks) with the blocks of
  /// all ranks, unless a peer has a different tag.
  /// @param mismatch set if a peer has a different tag
  template <class F>
  bool advance(Mismatch& mismatch, F use)
  {
    const bool is_short = block_.size() <= short_bytes;
    if (!arrived_)
    {
      BarrierPayload payload{static_cast<std::uint64_t>(tag_)};
      if (is_short && !block_.empty()) std::memcpy(&payload[1], block_.data(), block_.size());
      arrived_ = barrier_->try_arrive(number_, payload, is_short ? ConstBytes{} : block_);
    }
    if (!arrived_ || !barrier_->is_complete(number_)) return false;
    blocks_.clear();
    for (std::size_t i = 0; i < barrier_->size(); ++i)
    {
      const BarrierPayload& payload = barrier_->payload(i, number_);
      const auto tag = static_cast<int>(payload[0]);
      if (tag != tag_) mismatch = {static_cast<int>(i), tag};
      blocks_.push_back(is_short ? reinterpret_cast<const std::byte*>(&payload[1])
                                 : barrier_->block(i, number_));
    }
    if (mismatch.rank < 0) use(std::span<const std::byte* const>{blocks_});
    barrier_->end_reading(number_);
    return true;
  }

  /// The ranks that have not arrived.
  [[nodiscard]] std::vector<int> missing_ranks() const { return barrier_->missing_ranks(number_); }

 private:
  // Call objects are reused in turn; this keeps small calls from allocating in each of them.
  static constexpr std::size_t usual_ranks = 64;

  MpiSharedBarrier* barrier_ = nullptr;
  std::uint64_t number_ = 0;
  int tag_ = 0;
  ConstBytes block_;
  std::vector<const std::byte*> blocks_ = std::vector<const std::byte*>(usual_ranks);
  bool arrived_ = false;
};

}  // namespace cubist::CUBIST_ABI::detail
