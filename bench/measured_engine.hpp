// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Any engine, with the time that a rank spends in it written down: in products, and in everything
// else that it does to elements. A function of the engine that is missing in the list below works
// all the same, and its time is counted as neither.

#include <utility>

#include <cubist/engine/engine.hpp>
#include <cubist/trace/traced_engine.hpp>

#include "site.hpp"

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

template <cubist::Engine E>
class MeasuredEngine : public E
{
// E's function, inside a stopwatch; where E has no such function, there is none here.
#define BENCH_TIMED(function, time)                                                                \
  template <class... Arguments, class Inner = E>                                                   \
  auto function(Arguments&&... arguments) const->decltype(std::declval<const Inner&>().function(   \
      std::forward<Arguments>(arguments)...))                                                      \
  {                                                                                                \
    const typename Site<E>::Stopwatch running{EngineTimes::here().time};                           \
    return Inner::function(std::forward<Arguments>(arguments)...);                                 \
  }

 public:
  BENCH_TIMED(gemm, gemm)
  BENCH_TIMED(fused_attention, gemm)
  BENCH_TIMED(fused_attention_gradients, gemm)
  BENCH_TIMED(copy, elementwise)
  BENCH_TIMED(fill, elementwise)
  BENCH_TIMED(upload, elementwise)
  BENCH_TIMED(download, elementwise)
  BENCH_TIMED(map, elementwise)
  BENCH_TIMED(map_indexed, elementwise)
  BENCH_TIMED(map_rows, elementwise)
  BENCH_TIMED(column_sums, elementwise)
  BENCH_TIMED(sum_rows, elementwise)
  BENCH_TIMED(row_fold, elementwise)
  BENCH_TIMED(fold, elementwise)
  BENCH_TIMED(fold_to, elementwise)
  BENCH_TIMED(for_each, elementwise)
  BENCH_TIMED(for_each_in_all, elementwise)
  BENCH_TIMED(map_sums, elementwise)
  BENCH_TIMED(map_fold, elementwise)
  BENCH_TIMED(map_fold_to, elementwise)
#undef BENCH_TIMED
};

/// A traced engine is measured as what it traces.
template <class E>
struct Site<cubist::TracedEngine<E>> : Site<E>
{
};

}  // namespace bench

namespace cubist
{
template <class E>
inline constexpr bool in_host_memory<bench::MeasuredEngine<E>> = in_host_memory<E>;
template <class E>
inline constexpr std::size_t row_alignment<bench::MeasuredEngine<E>> = row_alignment<E>;
}  // namespace cubist
