// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// A decorator of any communicator that counts what its rank would send on a cluster, by the
// conventions of comm/traffic.hpp.

#include <memory>
#include <utility>

#include "cubist/comm/call.hpp"
#include "cubist/comm/communicator.hpp"
#include "cubist/comm/traffic.hpp"

namespace cubist::CUBIST_ABI
{

/// A communicator that counts what its rank sends, here and in every communicator split from it.
template <Communicator C>
class CountingCommunicator : public Collectives<CountingCommunicator<C>>
{
 public:
  /// Counts the traffic of `inner`.
  explicit CountingCommunicator(C inner,
                                std::shared_ptr<Traffic> traffic = std::make_shared<Traffic>())
      : inner_{std::move(inner)}, traffic_{std::move(traffic)}
  {
  }

  [[nodiscard]] int rank() const { return inner_.rank(); }
  [[nodiscard]] int size() const { return inner_.size(); }
  [[nodiscard]] bool remote() const { return inner_.remote(); }
  /// What this rank has sent; shared by communicators split from one.
  [[nodiscard]] Traffic& traffic() const { return *traffic_; }

  [[nodiscard]] CountingCommunicator split(int colour, int key)
  {
    return CountingCommunicator{inner_.split(colour, key), traffic_};
  }

  template <Element T>
  [[nodiscard]] auto start(const Call<T>& call)
  {
    auto request = inner_.start(call);
    traffic_->add(call.collective, sent_by(call, rank(), size()));
    return request;
  }

 private:
  C inner_;
  std::shared_ptr<Traffic> traffic_;
};

template <class C>
inline constexpr bool sums_in_order<CountingCommunicator<C>> = sums_in_order<C>;
template <class C>
inline constexpr bool independent_messages<CountingCommunicator<C>> = independent_messages<C>;

}  // namespace cubist::CUBIST_ABI
