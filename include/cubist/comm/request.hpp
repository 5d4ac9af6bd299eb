// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The handles of calls in flight. A rank waits for a request or tests it, as with MPI_Wait and
// MPI_Test.

#include <concepts>
#include <memory>
#include <utility>

#include "cubist/version.hpp"

namespace cubist::CUBIST_ABI
{

/// The handle of a call in flight.
// clang-format off
template <class R>
concept Request = std::movable<R> && requires(R r) {
  r.wait();                                   // returns when the call is complete
  { r.test() } -> std::convertible_to<bool>;  // makes progress; whether the call is complete
};
// clang-format on

namespace detail
{

/// The request that all communicators use: one rank's part in a call. It keeps alive the `Group`,
/// which holds the ranks of one communicator. `Group` has a type `Member` and the functions
///
///   wait(Member&)          returns when the call is complete
///   bool test(Member&)     makes progress; whether the call is complete
///   release(Member&)       takes back the part of a rank whose call is complete
///   abandon(Member&)       takes back the part of a dropped request; must not throw
template <class Group>
class PendingCall
{
 public:
  using Member = typename Group::Member;

  PendingCall(std::shared_ptr<Group> group, Member& member)
      : group_{std::move(group)},
        member_{&member}
  {
  }
  PendingCall(PendingCall&& other) noexcept
      : group_{std::move(other.group_)},
        member_{std::exchange(other.member_, nullptr)}
  {
  }
  PendingCall& operator=(PendingCall&& other) noexcept
  {
    std::swap(group_, other.group_);
    std::swap(member_, other.member_);
    return *this;
  }
  ~PendingCall()
  {
    if (member_ != nullptr) group_->abandon(*member_);
  }

  void wait()
  {
    if (member_ == nullptr) return;
    group_->wait(*member_);
    release();
  }

  bool test()
  {
    if (member_ != nullptr && group_->test(*member_)) release();
    return member_ == nullptr;
  }

 private:
  void release() { group_->release(*std::exchange(member_, nullptr)); }

  std::shared_ptr<Group> group_;
  Member* member_;
};

}  // namespace detail

}  // namespace cubist::CUBIST_ABI
