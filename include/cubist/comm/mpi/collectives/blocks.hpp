// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The buffers of one rank's collective call, as bytes: a block, or a piece of `count` elements for
// each rank. A rank's share of a block is the part that it sums up in an all_reduce.

#include <cstddef>
#include <cstring>
#include <span>

#include "cubist/comm/call.hpp"
#include "cubist/comm/reduction.hpp"
#include "cubist/core/scalar.hpp"

namespace cubist::CUBIST_ABI::detail
{

using ConstBytes = std::span<const std::byte>;
using Bytes = std::span<std::byte>;

/// @pre out.size() <= in.size()
inline void copy_bytes(ConstBytes in, Bytes out)
{
  if (!out.empty() && out.data() != in.data()) std::memcpy(out.data(), in.data(), out.size());
}

class MpiBlocks
{
 public:
  MpiBlocks() = default;
  /// @param ranks how many ranks take part in the call
  template <Element T>
  MpiBlocks(const Call<T>& call, int ranks)
      : send_{reinterpret_cast<const std::byte*>(call.send.data())},
        receive_{reinterpret_cast<std::byte*>(call.recv.data())}, count_{call.count},
        element_size_{sizeof(T)}, ranks_{ranks}
  {
  }

  /// The bytes of a block, or of one rank's piece.
  [[nodiscard]] std::size_t bytes() const { return count_ * element_size_; }
  [[nodiscard]] std::size_t element_size() const { return element_size_; }

  [[nodiscard]] ConstBytes send_block() const { return {send_, bytes()}; }
  [[nodiscard]] Bytes receive_block() const { return {receive_, bytes()}; }

  [[nodiscard]] ConstBytes send_piece(int rank) const { return {send_ + offset(rank), bytes()}; }
  [[nodiscard]] Bytes receive_piece(int rank) const { return {receive_ + offset(rank), bytes()}; }

  [[nodiscard]] ConstBytes send_share(int rank) const
  {
    const auto s = share_of(rank, ranks_, count_);
    return {send_ + s.offset * element_size_, s.count * element_size_};
  }
  [[nodiscard]] Bytes receive_share(int rank) const
  {
    const auto s = share_of(rank, ranks_, count_);
    return {receive_ + s.offset * element_size_, s.count * element_size_};
  }

 private:
  [[nodiscard]] std::size_t offset(int rank) const
  {
    return static_cast<std::size_t>(rank) * bytes();
  }

  const std::byte* send_ = nullptr;
  std::byte* receive_ = nullptr;
  std::size_t count_ = 0;
  std::size_t element_size_ = 1;
  int ranks_ = 1;
};

}  // namespace cubist::CUBIST_ABI::detail
