// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Decorates any communicator so that it counts what its rank would send on a cluster, by the
// conventions of comm/traffic.hpp.

#include <memory>
#include <utility>

#include "cubist/comm/call.hpp"
#include "cubist/comm/communicator.hpp"
#include "cubist/comm/decorator.hpp"
#include "cubist/comm/traffic.hpp"

namespace cubist::CUBIST_ABI
{

/// A communicator that counts what its rank sends, here and in every communicator split from it. It
/// has no windows: a block that is read in place is not sent, and algorithms must send as they do
/// on a cluster.
template <Communicator C>
class CountingCommunicator : public CommunicatorDecorator<CountingCommunicator<C>, C, false>
{
 public:
  /// Counts the traffic of `inner`.
  explicit CountingCommunicator(C inner,
                                std::shared_ptr<Traffic> traffic = std::make_shared<Traffic>())
      : CommunicatorDecorator<CountingCommunicator, C, false>{std::move(inner)},
        traffic_{std::move(traffic)}
  {
  }

  /// What this rank has sent; communicators that are split from this one share it.
  [[nodiscard]] Traffic& traffic() const { return *traffic_; }

  /// Counts a call once it has started.
  template <Element T, class Begin>
  [[nodiscard]] auto on_call(const Call<T>& call, Begin begin)
  {
    auto request = begin(call);
    traffic_->add(call.kind, sent_by(call, this->rank(), this->size()));
    return request;
  }

 private:
  std::shared_ptr<Traffic> traffic_;
};

}  // namespace cubist::CUBIST_ABI
