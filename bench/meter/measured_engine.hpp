// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Wraps any engine, and records the time that a rank spends in it: in products, and in everything
// else that it does to elements.

#include <cubist/engine/decorator.hpp>
#include <cubist/engine/engine.hpp>
#include <cubist/trace/traced_engine.hpp>

#include "meter/site.hpp"

namespace bench
{

/// Seconds inside an engine.
struct EngineTimes
{
  double gemm = 0;
  double elementwise = 0;

  /// The times of this rank since it began. Each rank is one thread.
  [[nodiscard]] static EngineTimes& here()
  {
    static thread_local EngineTimes times;
    return times;
  }
};

template <cubist::Engine E>
class MeasuredEngine : public cubist::EngineDecorator<MeasuredEngine<E>, E>
{
 public:
  [[nodiscard]] static auto around(const cubist::EngineCall& call)
  {
    EngineTimes& times = EngineTimes::here();
    return typename Site<E>::Stopwatch{call.is_product ? times.gemm : times.elementwise};
  }
};

/// A traced engine is measured as the engine that it traces.
template <class E>
struct Site<cubist::TracedEngine<E>> : Site<E>
{
};

}  // namespace bench
