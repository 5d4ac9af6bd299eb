// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The tags of MPI's messages. A tag has the number of its call, its collective, and a checksum of
// what all ranks must agree on:
//
//   number | collective (4 bits) | size, type, root and operation (12 bits, where tags are so wide)
//
// So messages of ranks that call different things never meet, and one that a rank finds with the
// number of its own call, but another rest, tells it of the mistake. Messages of `send` and
// `receive`, of which each pair counts its own, have tag 0.

#include <algorithm>
#include <concepts>
#include <cstdint>

#include <mpi.h>

#include "cubist/comm/call.hpp"
#include "cubist/core/scalar.hpp"

namespace cubist::detail
{

class MpiTags
{
 public:
  /// @param most the largest tag; MPI has at least 32767
  explicit MpiTags(int most = 32'767) : signature_bits_{most >= 1 << 26 ? 12 : 0}
  {
    const auto numbers = ((static_cast<unsigned>(most) + 1) >> shift()) - 1;
    numbers_ = static_cast<int>(std::min(numbers, 32'000U));
  }
  [[nodiscard]] static MpiTags of_mpi()
  {
    int* most = nullptr;
    int found = 0;
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &most, &found);
    return found != 0 ? MpiTags{*most} : MpiTags{};
  }

  /// Whether tags tell calls of different sizes apart.
  [[nodiscard]] bool know_sizes() const { return signature_bits_ > 0; }
  /// How many calls may be under way at once.
  [[nodiscard]] int numbers() const { return numbers_; }

  /// @param number of the call, from 1 on
  template <Element T>
  [[nodiscard]] int tag(std::int64_t number, const Call<T>& call) const
  {
    const auto n = static_cast<int>((number - 1) % numbers_) + 1;
    const int kind = static_cast<int>(call.collective) << signature_bits_;
    return n << shift() | kind | (know_sizes() ? signature(call) : 0);
  }

  /// Whether two tags are of calls of the same number that are not the same call.
  [[nodiscard]] bool differ(int tag, int other) const
  {
    return tag != other && tag >> shift() == other >> shift();
  }
  [[nodiscard]] Collective collective(int tag) const
  {
    return static_cast<Collective>(tag >> signature_bits_ & 15);
  }

 private:
  static_assert(collective_count <= 16);
  [[nodiscard]] int shift() const { return signature_bits_ + 4; }

  template <Element T>
  static int signature(const Call<T>& call)
  {
    // Sizes that differ by less than the prime differ here.
    constexpr std::uint64_t prime = 4093;
    constexpr unsigned type = sizeof(T) + (std::integral<T> ? 32 : 0) +
                              (std::unsigned_integral<T> || std::same_as<T, half> ? 64 : 0) +
                              (ComplexScalar<T> ? 128 : 0);
    const auto root = has_root(call.collective) ? static_cast<unsigned>(call.peer) : 0U;
    const auto op = reduces(call.collective) ? static_cast<unsigned>(call.op) : 0U;
    return static_cast<int>((call.count % prime * 293 + type * 17 + root * 5 + op) % prime);
  }

  int signature_bits_;
  int numbers_;
};

}  // namespace cubist::detail
