// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// How an engine is measured: its clock, the part of the machine that one rank alone can use, and
// its BLAS in the memory of a program without cubist. gpu/device_site.hpp specialises this for
// GPUs.

#include <chrono>
#include <vector>

#include <cubist/core/matrix_view.hpp>
#include <cubist/engine/engine.hpp>

#include "meter/all_cores.hpp"

namespace bench
{

/// Adds its lifetime to a number of seconds.
class Stopwatch
{
 public:
  explicit Stopwatch(double& seconds)
      : seconds_{seconds}
  {
  }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;
  ~Stopwatch() { seconds_ += std::chrono::duration<double>(Clock::now() - start_).count(); }

 private:
  using Clock = std::chrono::steady_clock;
  double& seconds_;
  Clock::time_point start_ = Clock::now();
};

/// Multiplies by the engine's gemm.
template <class E>
struct OwnProducts
{
  /// C = op(A) op(B)
  template <class T>
  static void multiply(const E& engine, cubist::Op op_a, cubist::Op op_b,
                       cubist::MatrixView<const T> a, cubist::MatrixView<const T> b,
                       cubist::MatrixView<T> c)
  {
    engine.gemm(op_a, op_b, T{1}, a, b, T{}, c);
  }
};

template <class E>
struct Site : OwnProducts<E>
{
  using Stopwatch = bench::Stopwatch;
  /// Whether stopwatches would lengthen a run, so that it is timed without them and then repeated.
  static constexpr bool stopwatches_take_time = false;
  /// The part of the machine that one rank has while the others sleep.
  using Whole = AllCores;
  /// Whether processor time tells a rank that communicates from one that waits.
  static constexpr bool tells_waiting = true;

  /// Waits for everything that this rank has started.
  static void finish() {}
  /// `read_stopwatches` completes the seconds, and `reset_stopwatches` discards what was not read.
  static void read_stopwatches() {}
  static void reset_stopwatches() {}

  /// The container that a program without cubist would use.
  template <class T>
  using Plain = std::vector<T>;
  template <class T>
  [[nodiscard]] static Plain<T> plain(const T* from, std::size_t size)
  {
    return {from, from + size};
  }
  template <class T>
  [[nodiscard]] static std::vector<T> on_host(const Plain<T>& elements)
  {
    return elements;
  }
};

}  // namespace bench
