// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// A decorator of any engine that records its calls, and the named parts of the program. On a
// device, a call ends when it is queued, so its time is the host's.

#include "cubist/core/repeated_work.hpp"
#include "cubist/engine/decorator.hpp"
#include "cubist/engine/engine.hpp"
#include "cubist/engine/span.hpp"
#include "cubist/trace/rank_trace.hpp"

namespace cubist::CUBIST_ABI
{

template <Engine E>
class TracedEngine : public EngineDecorator<TracedEngine<E>, E>
{
 public:
  /// Records a call until it returns.
  [[nodiscard]] static detail::TraceSpan around(const EngineCall& call)
  {
    return {call.name,
            {.category = call.is_product ? TraceCategory::product : TraceCategory::pass,
             .transposes_a = call.transposes_a,
             .transposes_b = call.transposes_b,
             .bytes = call.bytes,
             .function = call.function}};
  }

  /// Does the work f() if its calls are recorded. Otherwise the decorated engine may instead spend
  /// the time that it remembers.
  template <class F>
  requires(detail::RemembersTimes<E>) void repeat(const RepeatedWork& work, const F& f) const
  {
    if (detail::RankTrace::current() != nullptr)
      f();
    else
      E::repeat(work, f);
  }

  /// Begins a span inside the open ones.
  static void begin_span(const SpanName& name)
  {
    if constexpr (detail::ShowsSpans<E>) E::begin_span(name);
    if (auto* trace = detail::RankTrace::current()) trace->begin(name);
  }
  /// Ends the innermost span.
  static void end_span()
  {
    if (auto* trace = detail::RankTrace::current()) trace->end({.category = TraceCategory::part});
    if constexpr (detail::ShowsSpans<E>) E::end_span();
  }
};

}  // namespace cubist::CUBIST_ABI
