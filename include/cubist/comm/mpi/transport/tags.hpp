// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Message tags. A tag holds the number of the call, its collective, and a checksum of what all
// ranks must agree on:
//
//   number | collective (4 bits) | checksum of size, type, root, operation (12 bits, if they fit)
//
// So MPI never matches messages of different calls, and a message that has the number of this
// rank's call, but differs in the rest, reveals a mismatched peer. `send` and `receive` have tag 0,
// because each pair of ranks counts its own messages.

#include <algorithm>
#include <concepts>
#include <cstdint>

#include <mpi.h>

#include "cubist/comm/call.hpp"
#include "cubist/core/scalar.hpp"

namespace cubist::CUBIST_ABI::detail
{

class MpiTags
{
 public:
  /// @param largest the largest tag that MPI takes, at least 32767
  explicit MpiTags(int largest = 32'767)
      : checksum_bits_{largest >= 1 << 26 ? 12 : 0}
  {
    const auto numbers = ((static_cast<unsigned>(largest) + 1) >> shift()) - 1;
    numbers_ = static_cast<int>(std::min(numbers, 32'000U));
  }
  [[nodiscard]] static MpiTags of_mpi()
  {
    int* largest = nullptr;
    int found = 0;
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &largest, &found);
    return found != 0 ? MpiTags{*largest} : MpiTags{};
  }

  /// Whether tags hold the checksum, so that calls of different sizes have different tags.
  [[nodiscard]] bool have_checksum() const { return checksum_bits_ > 0; }
  /// How many calls may be in flight at once.
  [[nodiscard]] int numbers() const { return numbers_; }

  /// @param number the call's number, starting at 1
  template <Element T>
  [[nodiscard]] int tag(std::int64_t number, const Call<T>& call) const
  {
    const auto n = static_cast<int>((number - 1) % numbers_) + 1;
    const int kind = static_cast<int>(call.kind) << checksum_bits_;
    return n << shift() | kind | (have_checksum() ? checksum(call) : 0);
  }

  /// Whether two tags have the same number but belong to different calls.
  [[nodiscard]] bool mismatch(int tag, int other) const
  {
    return tag != other && tag >> shift() == other >> shift();
  }
  [[nodiscard]] CallKind kind(int tag) const
  {
    return static_cast<CallKind>(tag >> checksum_bits_ & 15);
  }

 private:
  static_assert(call_kind_count <= 16);
  [[nodiscard]] int shift() const { return checksum_bits_ + 4; }

  template <Element T>
  static int checksum(const Call<T>& call)
  {
    // Sizes that differ by less than the prime have different checksums.
    constexpr std::uint64_t prime = 4093;
    constexpr unsigned type = sizeof(T) + (std::integral<T> ? 32 : 0) +
                              (std::unsigned_integral<T> || std::same_as<T, half> ? 64 : 0) +
                              (ComplexScalar<T> ? 128 : 0);
    const auto root = has_root(call.kind) ? static_cast<unsigned>(call.peer) : 0U;
    const auto op = reduces(call.kind) ? static_cast<unsigned>(call.op) : 0U;
    return static_cast<int>((call.count % prime * 293 + type * 17 + root * 5 + op) % prime);
  }

  int checksum_bits_;
  int numbers_;
};

}  // namespace cubist::CUBIST_ABI::detail
