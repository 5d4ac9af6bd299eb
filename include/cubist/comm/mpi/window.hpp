// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// RMA windows of processes on one machine. The ranks exchange the offset of each rank's block in
// its arena (memory/shared_arena.hpp) and the size of all blocks. A block outside the arena is
// copied into it. Peers map an arena for as long as they run, so a rank may leave while they read
// its block. Small blocks that peers only read (small_call.hpp) are themselves exchanged: all ranks
// have copies, and no rank waits for the others a second time.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "cubist/comm/call.hpp"
#include "cubist/comm/small_call.hpp"
#include "cubist/core/error.hpp"
#include "cubist/memory/shared_arena.hpp"

namespace cubist::CUBIST_ABI
{

namespace detail
{

/// The memory that one window needs besides its blocks; later windows reuse it.
struct WindowBuffer
{
  /// For each rank, the offset of its block in its arena and the block's number of elements; then
  /// the two numbers that this rank sends.
  std::vector<std::uint64_t> locations;
  /// A copy of this rank's block, or of all ranks' small blocks.
  std::vector<std::byte, ArenaAllocator<std::byte>> copy;

  /// Returns the offset of a block in the arena, and copies the block there if it lies elsewhere.
  std::uint64_t place(const void* data, std::size_t bytes)
  {
    if (bytes == 0) return 0;
    auto& arena = SharedArena::mine();
    if (arena.contains(data)) return arena.offset(data);
    std::memcpy(reserve(bytes), data, bytes);
    return arena.offset(copy.data());
  }
  /// Returns memory of the arena for a copy of `bytes`.
  std::byte* reserve(std::size_t bytes)
  {
    constexpr std::size_t min_bytes = 4096;  // ArenaAllocator takes fewer from the heap
    if (copy.size() < bytes) copy.resize(std::max(bytes, min_bytes));
    return copy.data();
  }
  /// Copies back to a block outside the arena what peers have written to its copy.
  void copy_back(void* data, std::size_t bytes) const
  {
    if (bytes > 0 && !SharedArena::mine().contains(data)) std::memcpy(data, copy.data(), bytes);
  }
};

/// The buffers that no window uses.
class WindowBufferPool
{
 public:
  [[nodiscard]] std::unique_ptr<WindowBuffer> acquire()
  {
    if (unused_.empty()) return std::make_unique<WindowBuffer>();
    auto buffer = std::move(unused_.back());
    unused_.pop_back();
    return buffer;
  }
  void release(std::unique_ptr<WindowBuffer> buffer) { unused_.push_back(std::move(buffer)); }

 private:
  std::vector<std::unique_ptr<WindowBuffer>> unused_;
};

}  // namespace detail

/// @tparam C an MpiCommunicator
/// @tparam T const, unless peers may write to the blocks
template <class C, class T>
class MpiWindow
{
 public:
  /// @param size the size of the longest block, in elements; `mine` may be shorter
  MpiWindow(C world, std::span<T> mine, std::size_t size)
      : world_{std::move(world)},
        mine_{mine},
        size_{size},
        buffer_{world_.group()->window_buffers().acquire()}
  {
    const auto ranks = static_cast<std::size_t>(world_.size());
    has_copies_ = std::is_const_v<T> && ranks > 1 &&
                  detail::is_small(CallKind::expose, size * sizeof(T), ranks);
    has_copies_ ? exchange_blocks(ranks) : exchange_locations(ranks);
  }
  MpiWindow(MpiWindow&&) noexcept = default;
  MpiWindow& operator=(MpiWindow&&) = delete;
  ~MpiWindow()
  {
    if (buffer_ == nullptr) return;
    // If the window was not closed, its peers would wait for ever. The request of its barrier,
    // which is dropped here, reports that.
    if (!closed_ && !has_copies_ && std::uncaught_exceptions() == 0)
      closed_.emplace(world_.async_barrier());
    exchange_.reset();
    closed_.reset();
    world_.group()->window_buffers().release(std::move(buffer_));
  }

  [[nodiscard]] std::span<T> operator[](int rank)
  {
    if constexpr (std::is_const_v<T>)
      if (rank == world_.rank()) return mine_;
    open();
    const auto r = static_cast<std::size_t>(rank);
    auto* begin = has_copies_ ? buffer_->copy.data() + r * size_ * sizeof(T)
                              : world_.arena(rank) + buffer_->locations[2 * r];
    return {reinterpret_cast<T*>(begin), size_};
  }
  void close()
  {
    if (!has_copies_) closed_.emplace(world_.async_barrier());
  }
  void wait()
  {
    open();
    if (closed_) closed_->wait();
    if constexpr (!std::is_const_v<T>) buffer_->copy_back(mine_.data(), mine_.size_bytes());
  }

 private:
  using Request = decltype(std::declval<C&>().async_barrier());
  using Value = std::remove_const_t<T>;

  void exchange_locations(std::size_t ranks)
  {
    auto& locations = buffer_->locations;
    locations.resize(2 * ranks + 2);
    locations[2 * ranks] = buffer_->place(mine_.data(), mine_.size_bytes());
    locations[2 * ranks + 1] = size_;
    const std::span all{locations};
    exchange_.emplace(
        world_.start(Call<std::uint64_t>{CallKind::expose, all.last(2), all.first(2 * ranks), 2}));
  }
  void exchange_blocks(std::size_t ranks)
  {
    auto* const copies = buffer_->reserve(ranks * size_ * sizeof(T));
    const std::span<Value> all{reinterpret_cast<Value*>(copies), ranks * size_};
    const auto me = static_cast<std::size_t>(world_.rank());
    // All blocks are sent with one length; no rank reads what follows a shorter one.
    const std::span<Value> block = all.subspan(me * size_, size_);
    std::ranges::copy(mine_, block.begin());
    exchange_.emplace(world_.start(Call<Value>{CallKind::expose, block, all, size_}));
  }

  void open()
  {
    if (opened_) return;
    exchange_->wait();
    for (int r = 0; r < world_.size() && !has_copies_; ++r)
    {
      const auto size = buffer_->locations[2 * static_cast<std::size_t>(r) + 1];
      require<CollectiveMismatch>(
          size == size_, "rank ", world_.rank(), " of ", world_.size(), " exposed ", size_,
          " elements, but rank ", r, " exposed ", size,
          ", so one would read outside a block; let all ranks expose blocks of the same size");
    }
    opened_ = true;
  }

  C world_;
  std::span<T> mine_;
  std::size_t size_;
  std::unique_ptr<detail::WindowBuffer> buffer_;
  std::optional<Request> exchange_;  // the exchange of the locations, or of the blocks
  std::optional<Request> closed_;    // by all ranks
  bool opened_ = false;
  bool has_copies_ = false;  // of the blocks of all ranks
};

}  // namespace cubist::CUBIST_ABI
