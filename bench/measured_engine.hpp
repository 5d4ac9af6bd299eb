// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Any engine, with the time that a rank spends in it written down: in products, and in everything
// else that it does to elements. A function of the engine that is missing in the list below works
// all the same, and its time is counted as neither.

#include <chrono>
#include <utility>

#include <cubist/engine/engine.hpp>

namespace bench
{

/// Seconds inside an engine.
struct EngineTimes
{
  double gemm = 0;
  double elementwise = 0;

  /// Those of this rank, since it began: a rank is one thread, of this process or of its own.
  [[nodiscard]] static EngineTimes& here()
  {
    static thread_local EngineTimes times;
    return times;
  }
};

/// Adds its own lifetime to seconds.
class Stopwatch
{
 public:
  explicit Stopwatch(double& seconds) : seconds_{seconds} {}
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;
  ~Stopwatch() { seconds_ += std::chrono::duration<double>(Clock::now() - start_).count(); }

 private:
  using Clock = std::chrono::steady_clock;
  double& seconds_;
  Clock::time_point start_ = Clock::now();
};

template <cubist::Engine E>
class MeasuredEngine : public E
{
// E's function, inside a stopwatch; where E has no such function, there is none here.
#define BENCH_TIMED(function, time)                                                                \
  template <class... Arguments, class Inner = E>                                                   \
  auto function(Arguments&&... arguments) const->decltype(std::declval<const Inner&>().function(   \
      std::forward<Arguments>(arguments)...))                                                      \
  {                                                                                                \
    const Stopwatch running{EngineTimes::here().time};                                             \
    return Inner::function(std::forward<Arguments>(arguments)...);                                 \
  }

 public:
  BENCH_TIMED(gemm, gemm)
  BENCH_TIMED(copy, elementwise)
  BENCH_TIMED(fill, elementwise)
  BENCH_TIMED(upload, elementwise)
  BENCH_TIMED(download, elementwise)
  BENCH_TIMED(map, elementwise)
  BENCH_TIMED(map_indexed, elementwise)
  BENCH_TIMED(column_sums, elementwise)
  BENCH_TIMED(row_fold, elementwise)
  BENCH_TIMED(fold, elementwise)
  BENCH_TIMED(for_each, elementwise)
  BENCH_TIMED(map_sums, elementwise)
#undef BENCH_TIMED
};

}  // namespace bench
