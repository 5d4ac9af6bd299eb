// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Memory that all ranks of a communicator map: a block of rank 0's arena, which products use one
// after the other. The last rank to end a product returns the memory that is not kept to the
// system. Rank 0 frees the block once all ranks have ended their last product.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <new>
#include <thread>
#include <vector>

#include <cubist/comm/mpi/communicator.hpp>
#include <cubist/memory/shared_arena.hpp>

namespace cubist::CUBIST_ABI::detail
{

class SharedBlock
{
 public:
  SharedBlock() = default;
  SharedBlock(SharedBlock&&) = delete;
  ~SharedBlock() { free(); }

  /// Begins a product, and returns at least `bytes` bytes, which are the same memory on all ranks,
  /// or null on all ranks if the system refuses them. The previous content of the block may be
  /// lost. Collective.
  /// @pre world.exposes()
  [[nodiscard]] std::byte* begin(MpiCommunicator& world, std::size_t bytes)
  {
    if (header_ == nullptr || bytes > bytes_)
    {
      free();
      allocate(world, bytes);
    }
    if (header_ == nullptr) return nullptr;
    ++uses_;
    kept_ = std::max(kept_, bytes);
    return data();
  }
  /// Ends the product on this rank, which no longer uses the block.
  /// @param most the maximum number of bytes to keep for the next product; the same on all ranks
  void end(std::size_t most)
  {
    const bool is_last = header_->leaving.fetch_add(1) + 1 == uses_ * ranks_;
    if (is_last && kept_ > most) SharedArena::discard(data() + most, kept_ - most);
    kept_ = std::min(kept_, most);
    header_->ended.fetch_add(1);
  }

  /// Keeps the memory for ever, because a rank that failed never ends its product.
  void abandon() { own_ = nullptr; }

  /// The size of the block, in bytes.
  [[nodiscard]] std::size_t size() const { return header_ == nullptr ? 0 : bytes_; }
  /// The bytes that are kept for the next product, on all ranks together.
  [[nodiscard]] std::size_t kept() const { return kept_; }

 private:
  static constexpr std::size_t header_bytes = 4096;

  /// The header, at the beginning of the block.
  struct Header
  {
    // Each rank counts a product that it ends twice: before and after memory that is not kept is
    // returned.
    std::atomic<std::uint64_t> leaving{0};
    std::atomic<std::uint64_t> ended{0};
  };
  static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

  [[nodiscard]] std::byte* data() const
  {
    return reinterpret_cast<std::byte*>(header_) + header_bytes;
  }

  void allocate(MpiCommunicator& world, std::size_t bytes)
  {
    constexpr auto none = ~std::uint64_t{};
    std::vector<std::uint64_t> offset{none};
    if (world.rank() == 0)
    {
      auto& arena = SharedArena::mine();
      own_ = arena.allocate(header_bytes + bytes);
      if (own_ != nullptr) offset[0] = arena.offset(new (own_) Header);
    }
    world.broadcast(offset, 0);
    if (offset[0] == none) return;
    ranks_ = static_cast<std::uint64_t>(world.size());
    bytes_ = bytes;
    uses_ = 0;
    header_ = std::launder(reinterpret_cast<Header*>(world.arena(0) + offset[0]));
  }

  /// Frees the block. Rank 0 first waits until the other ranks have ended, but not for ever,
  /// because one may have been killed.
  void free()
  {
    using namespace std::chrono_literals;
    if (own_ != nullptr && header_ != nullptr)
    {
      const auto stop = std::chrono::steady_clock::now() + 10s;
      while (header_->ended < uses_ * ranks_ && std::chrono::steady_clock::now() < stop)
        std::this_thread::sleep_for(50us);
      if (header_->ended == uses_ * ranks_)
        SharedArena::mine().deallocate(own_, header_bytes + bytes_);
    }
    own_ = nullptr;
    header_ = nullptr;
    kept_ = 0;
  }

  Header* header_ = nullptr;
  std::size_t bytes_ = 0;
  std::size_t kept_ = 0;  // the first bytes of the block, which products have written
  std::uint64_t uses_ = 0;
  std::uint64_t ranks_ = 1;
  void* own_ = nullptr;  // only on rank 0
};

}  // namespace cubist::CUBIST_ABI::detail
