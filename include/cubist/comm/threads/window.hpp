// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// An RMA window between threads: the block of each rank, in place.

#include <cstddef>
#include <memory>
#include <span>

#include "cubist/comm/request.hpp"
#include "cubist/comm/threads/call.hpp"
#include "cubist/comm/threads/group.hpp"

namespace cubist
{

/// @tparam T const, unless peers may write to the blocks
template <class T>
class ThreadsWindow
{
 public:
  ThreadsWindow(const std::shared_ptr<detail::ThreadGroup>& group, detail::ThreadMember& member,
                std::size_t count)
      : group_{group.get()}, member_{&member}, count_{count}, request_{group, member}
  {
  }

  [[nodiscard]] std::span<T> operator[](int rank)
  {
    group_->wait_open(*member_);
    const auto* begin = member_->call->members[static_cast<std::size_t>(rank)].send;
    return {reinterpret_cast<T*>(const_cast<std::byte*>(begin)), count_};
  }
  void close()
  {
    group_->wait_open(*member_);
    member_->call->close(*member_);
  }
  void wait() { request_.wait(); }

 private:
  detail::ThreadGroup* group_;  // the request keeps it alive
  detail::ThreadMember* member_;
  std::size_t count_;
  detail::PendingCall<detail::ThreadGroup> request_;
};

}  // namespace cubist
