// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// What a rank sends and receives in a call, in bytes: one block, or a piece of as many elements for
// each rank; a share of a block is what one of the ranks adds up of it.

#include <cstddef>
#include <cstring>

#include "cubist/comm/call.hpp"
#include "cubist/comm/reduction.hpp"
#include "cubist/core/scalar.hpp"

namespace cubist::detail
{

/// Bytes to send, and to receive into.
struct Part
{
  const std::byte* data = nullptr;
  std::size_t size = 0;
};
struct Room
{
  std::byte* data = nullptr;
  std::size_t size = 0;
};

inline void copy_bytes(Part in, Room out)
{
  if (out.size != 0 && out.data != in.data) std::memcpy(out.data, in.data, out.size);
}

class MpiBlocks
{
 public:
  MpiBlocks() = default;
  /// @param ranks of the call
  template <Element T>
  MpiBlocks(const Call<T>& call, int ranks)
      : send_{reinterpret_cast<const std::byte*>(call.send.data())},
        receive_{reinterpret_cast<std::byte*>(call.recv.data())}, count_{call.count},
        element_size_{sizeof(T)}, ranks_{ranks}
  {
  }

  /// Of a block, or of a rank's piece.
  [[nodiscard]] std::size_t bytes() const { return count_ * element_size_; }
  [[nodiscard]] std::size_t element_size() const { return element_size_; }

  [[nodiscard]] Part sent() const { return {send_, bytes()}; }
  [[nodiscard]] Room received() const { return {receive_, bytes()}; }

  /// A rank's piece.
  [[nodiscard]] Part piece_sent(int rank) const { return {send_ + begin(rank), bytes()}; }
  [[nodiscard]] Room piece_received(int rank) const { return {receive_ + begin(rank), bytes()}; }

  /// A rank's share of a block.
  [[nodiscard]] Part share_sent(int rank) const
  {
    const auto s = share_of(rank, ranks_, count_);
    return {send_ + s.offset * element_size_, s.count * element_size_};
  }
  [[nodiscard]] Room share_received(int rank) const
  {
    const auto s = share_of(rank, ranks_, count_);
    return {receive_ + s.offset * element_size_, s.count * element_size_};
  }

 private:
  [[nodiscard]] std::size_t begin(int rank) const
  {
    return static_cast<std::size_t>(rank) * bytes();
  }

  const std::byte* send_ = nullptr;
  std::byte* receive_ = nullptr;
  std::size_t count_ = 0;
  std::size_t element_size_ = 1;
  int ranks_ = 1;
};

}  // namespace cubist::detail
