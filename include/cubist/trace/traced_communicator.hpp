// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// A decorator of any communicator that records its calls, and its waits for them and for windows.

#include <cstddef>
#include <span>
#include <utility>

#include "cubist/comm/call.hpp"
#include "cubist/comm/communicator.hpp"
#include "cubist/comm/element_range.hpp"
#include "cubist/comm/traffic.hpp"
#include "cubist/comm/window.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/trace/rank_trace.hpp"

namespace cubist::CUBIST_ABI
{

/// A request whose wait is traced.
template <Request R>
class TracedRequest
{
 public:
  /// @param event the call, from its begin on
  TracedRequest(R request, detail::RankTrace* trace, const TraceEvent& event)
      : request_{std::move(request)}, trace_{trace}, event_{event}
  {
  }
  TracedRequest(TracedRequest&& other) noexcept
      : request_{std::move(other.request_)}, trace_{std::exchange(other.trace_, nullptr)},
        event_{other.event_}
  {
  }
  TracedRequest& operator=(TracedRequest&& other) noexcept
  {
    request_ = std::move(other.request_);
    std::swap(trace_, other.trace_);
    std::swap(event_, other.event_);
    return *this;
  }

  void wait()
  {
    if (trace_ == nullptr) return request_.wait();
    TraceEvent waited = event_;
    waited.begin = trace_->now();
    request_.wait();
    record(trace_->add_wait(waited));
  }
  bool test()
  {
    if (!request_.test()) return false;
    if (trace_ != nullptr) record(trace_->now());
    return true;
  }

 private:
  void record(double end)
  {
    event_.end = end;
    std::exchange(trace_, nullptr)->add(event_);
  }

  R request_;
  detail::RankTrace* trace_;  // null once the call is recorded
  TraceEvent event_;
};

/// A window whose waits are traced.
template <class W>
class TracedWindow
{
 public:
  /// Traces `inner`.
  explicit TracedWindow(W inner) : inner_{std::move(inner)} {}

  [[nodiscard]] auto operator[](int rank)
  {
    return detail::traced_wait({"wait for a block of rank", rank}, [&] { return inner_[rank]; });
  }
  void close() { inner_.close(); }
  void wait()
  {
    detail::traced_wait("wait for readers", [&] { inner_.wait(); });
  }

 private:
  W inner_;
};

template <Communicator C>
class TracedCommunicator : public Collectives<TracedCommunicator<C>>
{
 public:
  /// Traces the calls of `inner`.
  explicit TracedCommunicator(C inner) : inner_{std::move(inner)} {}

  [[nodiscard]] int rank() const { return inner_.rank(); }
  [[nodiscard]] int size() const { return inner_.size(); }
  [[nodiscard]] bool remote() const { return inner_.remote(); }

  [[nodiscard]] TracedCommunicator split(int colour, int key)
  {
    return TracedCommunicator{inner_.split(colour, key)};
  }

  template <Element T>
  [[nodiscard]] auto start(const Call<T>& call)
  {
    auto* trace = detail::RankTrace::current();
    TraceEvent event;
    if (trace != nullptr)
    {
      event.name = SpanName{to_string(call.collective), call.count};
      event.category = TraceCategory::communication;
      event.begin = trace->now();
      event.sent = sent_by(call, rank(), size());
      event.ranks = size();
    }
    auto request = inner_.start(call);
    if (trace != nullptr) trace->add_wait(event);  // where nothing overlaps, here
    return TracedRequest<decltype(request)>{std::move(request), trace, event};
  }

  [[nodiscard]] bool exposes() const { return can_expose(inner_); }
  [[nodiscard]] int cores() const requires ExposesMemory<C> { return inner_.cores(); }
  template <ElementRange Data>
  requires ExposesMemory<C>
  [[nodiscard]] auto expose(const Data& mine) { return TracedWindow{inner_.expose(mine)}; }
  template <ElementRange Data>
  requires ExposesMemory<C>
  [[nodiscard]] auto expose(const Data& mine, std::size_t size)
  {
    return TracedWindow{inner_.expose(mine, size)};
  }
  template <Element T>
  requires ExposesMemory<C>
  [[nodiscard]] auto expose_writable(std::span<T> mine)
  {
    return TracedWindow{inner_.expose_writable(mine)};
  }

 private:
  C inner_;
};

template <class C>
inline constexpr bool sums_in_order<TracedCommunicator<C>> = sums_in_order<C>;
template <class C>
inline constexpr bool independent_messages<TracedCommunicator<C>> = independent_messages<C>;

}  // namespace cubist::CUBIST_ABI
