// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// A decorator of any communicator that records its calls, and its waits for them and for windows.

#include <memory>
#include <utility>

#include "cubist/comm/call.hpp"
#include "cubist/comm/communicator.hpp"
#include "cubist/comm/decorator.hpp"
#include "cubist/comm/traffic.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/trace/rank_trace.hpp"

namespace cubist::CUBIST_ABI
{

/// A request whose wait is traced.
template <Request R>
class TracedRequest
{
 public:
  /// @param event the call, which has begun
  TracedRequest(R request, detail::RankTrace* trace, const TraceEvent& event)
      : request_{std::move(request)},
        trace_{trace},
        event_{event}
  {
  }

  void wait()
  {
    if (trace_ == nullptr) return request_.wait();
    TraceEvent waited = event_;
    const double processor = trace_->processor_now();
    waited.begin = trace_->now();
    request_.wait();
    record(trace_->add_wait(waited, processor));
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
    trace_.release()->add(event_);
  }

  struct NoDelete
  {
    void operator()(detail::RankTrace*) const {}
  };

  R request_;
  std::unique_ptr<detail::RankTrace, NoDelete> trace_;  // null once the call is recorded
  TraceEvent event_;
};

/// A window whose waits are traced.
template <class W>
class TracedWindow
{
 public:
  /// Traces `inner`.
  explicit TracedWindow(W inner)
      : inner_{std::move(inner)}
  {
  }

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
class TracedCommunicator : public CommunicatorDecorator<TracedCommunicator<C>, C>
{
 public:
  using CommunicatorDecorator<TracedCommunicator, C>::CommunicatorDecorator;

  /// Records the call and the waits for it.
  template <Element T, class Begin>
  [[nodiscard]] auto on_call(const Call<T>& call, Begin begin)
  {
    auto* trace = detail::RankTrace::current();
    TraceEvent event;
    double processor = 0;
    if (trace != nullptr)
    {
      processor = trace->processor_now();
      event.name = SpanName{to_string(call.kind), call.count};
      event.category = TraceCategory::communication;
      event.begin = trace->now();
      event.sent = sent_by(call, this->rank(), this->size());
      event.ranks = this->size();
    }
    auto request = begin(call);
    if (trace != nullptr) trace->add_wait(event, processor);  // `begin` waits if nothing overlaps
    return TracedRequest<decltype(request)>{std::move(request), trace, event};
  }
  /// Records the waits for peers.
  template <Element T, class Open>
  [[nodiscard]] auto on_window(const Call<T>& call, Open open)
  {
    return TracedWindow{open(call)};
  }
};

}  // namespace cubist::CUBIST_ABI
