// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Records what one rank did and when: nested spans of its computation, and its communication.

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "cubist/comm/traffic.hpp"
#include "cubist/core/rank_local.hpp"
#include "cubist/engine/span.hpp"

namespace cubist::CUBIST_ABI
{

/// The category of an event.
enum class TraceCategory : std::uint8_t
{
  part,          // a named part of the program
  product,       // a product of matrices
  pass,          // another call of the engine
  wait,          // for communication
  communication  // from the start of a call until this rank knows that it is complete
};

/// A span of time in one rank's trace.
struct TraceEvent
{
  SpanName name = {};
  TraceCategory category = TraceCategory::part;  ///< what the rank did
  double begin = 0;                              // seconds
  double end = 0;                                ///< seconds from the start of the launch
  Sent sent = {};                                // what the rank sends, for communication
  int ranks = 0;                                 // ranks of the call, for communication
  /// The processor time of the rank's thread, in seconds; negative if it was not recorded.
  double processor = -1;
  bool transposes_a = false;       ///< for calls of the engine, as in EngineCall
  bool transposes_b = false;       ///< for calls of the engine, as in EngineCall
  std::size_t bytes = 0;           ///< for calls of the engine, as in EngineCall
  std::string_view function = {};  ///< for calls of the engine, as in EngineCall
};

namespace detail
{

class RankTrace
{
 public:
  using Clock = double (*)();

  /// @param clock returns the time on this rank's clock, in seconds
  /// @param processor returns its thread's processor time, in seconds; null if that is not recorded
  explicit RankTrace(Clock clock, Clock processor = nullptr)
      : now_{clock},
        processor_{processor}
  {
    add_block();
  }

  /// The trace of the rank that runs; null if nothing is recorded.
  [[nodiscard]] static RankTrace* current() { return static_cast<RankTrace*>(rank_local()); }

  [[nodiscard]] double now() const { return now_(); }
  /// The processor time of the rank's thread so far, in seconds; 0 if it is not recorded.
  [[nodiscard]] double processor_now() const { return processor_ ? processor_() : 0; }
  void add(const TraceEvent& event)
  {
    if (blocks_.back().size() == block_size) add_block();
    blocks_.back().push_back(event);
  }

  /// Adds an event from `event.begin` to now as a wait, unless it is as short as a call that does
  /// not wait.
  /// @param processor the value of `processor_now` at its beginning
  /// @returns now
  double add_wait(TraceEvent event, double processor = 0)
  {
    constexpr double shortest = 1e-6;
    event.category = TraceCategory::wait;
    event.processor = processor_since(processor);
    event.end = now();
    if (event.end - event.begin >= shortest) add(event);
    return event.end;
  }

  void begin(const SpanName& name) { open_.push_back({name, now(), processor_now()}); }
  /// Ends the innermost span.
  /// @param event the category, and anything else to record about the span
  void end(TraceEvent event)
  {
    const auto [name, begin, processor] = open_.back();
    open_.pop_back();
    event.processor = processor_since(processor);
    event.name = name;
    event.begin = begin;
    event.end = now();
    add(event);
  }

  [[nodiscard]] std::size_t size() const
  {
    return (blocks_.size() - 1) * block_size + blocks_.back().size();
  }
  [[nodiscard]] std::vector<TraceEvent> events() const
  {
    std::vector<TraceEvent> all;
    all.reserve(size());
    for (const auto& block : blocks_) all.insert(all.end(), block.begin(), block.end());
    return all;
  }

 private:
  struct Open
  {
    SpanName name;
    double begin;
    double processor;
  };

  [[nodiscard]] double processor_since(double begin) const
  {
    return processor_ ? processor_() - begin : -1;
  }
  void add_block() { blocks_.emplace_back().reserve(block_size); }

  static constexpr std::size_t block_size = 1 << 12;

  Clock now_;
  Clock processor_;
  // A single vector would copy all events when it grows, in the middle of a step.
  std::vector<std::vector<TraceEvent>> blocks_;
  std::vector<Open> open_;
};

/// Calls f, and records the time for which it waits.
template <class F>
decltype(auto) traced_wait(const SpanName& name, F&& f)
{
  struct Wait
  {
    RankTrace& trace;
    TraceEvent event;
    double processor;
    ~Wait() { trace.add_wait(event, processor); }
  };
  auto* trace = RankTrace::current();
  if (trace == nullptr) return f();
  const Wait wait{*trace, {.name = name, .begin = trace->now()}, trace->processor_now()};
  return f();
}

/// RAII: a span of the current rank's trace, if there is one.
class TraceSpan
{
 public:
  /// @param event the category, and anything else to record about the span
  TraceSpan(const SpanName& name, const TraceEvent& event)
      : trace_{RankTrace::current()},
        event_{event}
  {
    if (trace_ != nullptr) trace_->begin(name);
  }
  TraceSpan(TraceSpan&&) = delete;
  ~TraceSpan()
  {
    if (trace_ != nullptr) trace_->end(event_);
  }

 private:
  RankTrace* trace_;
  TraceEvent event_;
};

/// RAII: the calling rank's events go to another trace, or nowhere, until the end of the scope.
/// @pre parts that begin in the scope end in it, and no others do
class TraceScope
{
 public:
  /// @param trace null if nothing is recorded in the scope
  explicit TraceScope(RankTrace* trace)
      : outside_{std::exchange(rank_local(), trace)}
  {
  }
  TraceScope(TraceScope&&) = delete;
  ~TraceScope() { rank_local() = outside_; }

 private:
  void* outside_;
};

}  // namespace detail

/// RAII: pauses the rank's trace until the end of the scope, so that a long run can record only a
/// few steps.
/// @pre parts that begin in the scope end in it, and no others do
class TracePause
{
  detail::TraceScope scope_{nullptr};
};

}  // namespace cubist::CUBIST_ABI
