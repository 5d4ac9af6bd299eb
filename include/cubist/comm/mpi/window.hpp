// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Blocks that processes of one machine expose each other: each tells where in its arena
// (memory/shared_arena.hpp) its block lies, and the size of all; what lies elsewhere is copied
// there first.
//
// A rank that leaves early takes no memory from its peers: an arena stays mapped where it is read.

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
#include "cubist/core/error.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/memory/shared_arena.hpp"

namespace cubist
{

namespace detail
{

/// What a window needs beside the blocks; it is used again by later ones.
struct LoanRoom
{
  /// The offset in its arena and the number of elements of each rank's block, then this one's.
  std::vector<std::uint64_t> places;
  std::vector<std::byte, ArenaAllocator<std::byte>> copy;

  /// Where in the arena a block lies, or lies now.
  std::uint64_t place(const void* data, std::size_t bytes)
  {
    if (bytes == 0) return 0;
    auto& arena = SharedArena::mine();
    if (arena.contains(data)) return arena.offset(data);
    constexpr std::size_t least = 4096;  // less would come from the heap
    if (copy.size() < bytes) copy.resize(std::max(bytes, least));
    std::memcpy(copy.data(), data, bytes);
    return arena.offset(copy.data());
  }
  /// What others have written to a block that lies elsewhere.
  void take_back(void* data, std::size_t bytes) const
  {
    if (bytes > 0 && !SharedArena::mine().contains(data)) std::memcpy(data, copy.data(), bytes);
  }
};

}  // namespace detail

/// @tparam C an MpiCommunicator
/// @tparam T const, unless others may write to the blocks
template <class C, class T>
class MpiWindow
{
 public:
  /// @param size of every block; `mine` may be empty
  MpiWindow(C world, std::span<T> mine, std::size_t size)
      : world_{std::move(world)}, mine_{mine}, size_{size}, room_{world_.loan_rooms().take()}
  {
    const auto ranks = static_cast<std::size_t>(world_.size());
    auto& places = room_->places;
    places.resize(2 * ranks + 2);
    places[2 * ranks] = room_->place(mine.data(), mine.size_bytes());
    places[2 * ranks + 1] = size;
    const std::span all{places};
    told_.emplace(world_.start(
        Call<std::uint64_t>{Collective::expose, all.last(2), all.first(2 * ranks), 2}));
  }
  MpiWindow(MpiWindow&&) noexcept = default;
  MpiWindow& operator=(MpiWindow&&) = delete;
  ~MpiWindow()
  {
    if (room_ == nullptr) return;
    // Peers would wait for ever; a request that is dropped says so.
    if (!read_ && std::uncaught_exceptions() == 0) read_.emplace(world_.async_barrier());
    told_.reset();
    read_.reset();
    world_.loan_rooms().give_back(std::move(room_));
  }

  [[nodiscard]] std::span<T> operator[](int rank)
  {
    if constexpr (std::is_const_v<T>)
      if (rank == world_.rank()) return mine_;
    open();
    auto* begin = world_.arena(rank) + room_->places[2 * static_cast<std::size_t>(rank)];
    return {reinterpret_cast<T*>(begin), size_};
  }
  void close()
  {
    open();
    read_.emplace(world_.async_barrier());
  }
  void wait()
  {
    read_->wait();
    if constexpr (!std::is_const_v<T>) room_->take_back(mine_.data(), mine_.size_bytes());
  }

 private:
  using Request = decltype(std::declval<C&>().async_barrier());

  void open()
  {
    if (opened_) return;
    told_->wait();
    for (int r = 0; r < world_.size(); ++r)
      require<CollectiveMismatch>(
          room_->places[2 * static_cast<std::size_t>(r) + 1] == size_, "rank ", world_.rank(),
          " of ", world_.size(), " lent ", size_, " elements, but rank ", r, " lent ",
          room_->places[2 * static_cast<std::size_t>(r) + 1],
          ", so one would read what is not there; let all ranks expose blocks of the same size");
    opened_ = true;
  }

  C world_;
  std::span<T> mine_;
  std::size_t size_;
  std::unique_ptr<detail::LoanRoom> room_;
  std::optional<Request> told_;
  std::optional<Request> read_;
  bool opened_ = false;
};

namespace detail
{

/// Rooms that no window has at the moment.
class LoanRooms
{
 public:
  [[nodiscard]] std::unique_ptr<LoanRoom> take()
  {
    if (spare_.empty()) return std::make_unique<LoanRoom>();
    auto room = std::move(spare_.back());
    spare_.pop_back();
    return room;
  }
  void give_back(std::unique_ptr<LoanRoom> room) { spare_.push_back(std::move(room)); }

 private:
  std::vector<std::unique_ptr<LoanRoom>> spare_;
};

}  // namespace detail

}  // namespace cubist
