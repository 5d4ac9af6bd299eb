// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// A call that is a meeting of ranks which share memory (mpi/shared_barrier.hpp): a barrier, or a
// window, in which each tells where its block lies. Everyone tells which call it is, too, so that
// calls of different kinds do not meet.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "cubist/comm/mpi/blocks.hpp"
#include "cubist/comm/mpi/shared_barrier.hpp"

namespace cubist::detail
{

class MpiBarrierCall
{
 public:
  /// A rank that told another tag.
  struct Stranger
  {
    int rank = -1;  // for none
    int tag = 0;
  };

  /// How much a rank can tell beside the tag.
  static constexpr std::size_t most = sizeof(Told) - sizeof(std::uint64_t);

  /// Takes the rank's next meeting.
  /// @param hears for what each rank tells, as much as this one, one behind the other
  /// @pre tells.size <= most
  void begin(MpiSharedBarrier& all, int tag, Part tells, std::byte* hears)
  {
    all_ = &all;
    number_ = all.next();
    tag_ = tag;
    tells_ = tells;
    hears_ = hears;
    came_ = false;
  }

  /// Says whether all have come; then this rank has heard what they told.
  /// @param stranger if one of them told another tag
  bool advance(Stranger& stranger)
  {
    if (!came_)
    {
      Told mine{static_cast<std::uint64_t>(tag_)};
      if (tells_.size > 0) std::memcpy(&mine[1], tells_.data, tells_.size);
      came_ = all_->come(number_, mine);
    }
    if (!came_ || !all_->complete(number_)) return false;
    all_->hear(number_, [&](std::size_t rank, const Told& told) {
      const auto tag = static_cast<int>(told[0]);
      if (tag != tag_) stranger = {static_cast<int>(rank), tag};
      if (tells_.size > 0) std::memcpy(hears_ + rank * tells_.size, &told[1], tells_.size);
    });
    return true;
  }

  /// The ranks that have not come.
  [[nodiscard]] std::vector<int> missing() const { return all_->missing(number_); }

 private:
  MpiSharedBarrier* all_ = nullptr;
  std::uint64_t number_ = 0;
  int tag_ = 0;
  Part tells_;
  std::byte* hears_ = nullptr;
  bool came_ = false;
};

}  // namespace cubist::detail
