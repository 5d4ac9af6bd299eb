// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Work that is captured once and replayed. What it reads from memory may change from one replay to
// the next; what the host passed to it may not. An engine that captures has, in addition,
//
//   Graph capture(f)       the work that f enqueues, which is not executed; Graph::replay()
//                          enqueues it; Graph::is_valid() is false once memory that it may use was
//                          freed, but for that of Graph::ignore(address)
//   bool is_capturing()
//   void before_replay(f)  while capturing: the graph calls f before each replay
//   void set(T* p, T x)    *p = x, in the order of the work, for p in the engine's memory
//   Buffer<T>::uninitialized(n)
//   Buffer<T>::apart_from_captures(n)   freed, it leaves captured work valid that was captured
//                                       while the buffer existed
//
// `capture` throws CaptureError for work that cannot be captured, and then nothing is captured.

#include <concepts>
#include <functional>
#include <type_traits>

#include "cubist/core/error.hpp"

namespace cubist::CUBIST_ABI
{

namespace detail
{

// clang-format off
template <class E>
concept Captures = requires(const E& e, std::function<void()> f, typename E::Graph& graph, double* p) {
  { e.capture(f) } -> std::same_as<typename E::Graph>;
  { e.is_capturing() } -> std::same_as<bool>;
  e.before_replay(f);
  e.set(p, 1.0);
  E::template Buffer<double>::uninitialized(1);
  E::template Buffer<double>::apart_from_captures(1);
  graph.replay();
  graph.ignore(static_cast<const void*>(p));
  { graph.is_valid() } -> std::same_as<bool>;
};
// clang-format on

template <class E>
[[nodiscard]] bool is_capturing([[maybe_unused]] const E& engine)
{
  if constexpr (Captures<E>)
    return engine.is_capturing();
  else
    return false;
}

/// A value in the engine's memory, from where work that is replayed reads it.
template <Captures E, class V>
class ReplayedValue
{
  static_assert(std::is_trivially_copyable_v<V>);

 public:
  void set(const E& engine, const V& value) { engine.set(buffer_.data(), value); }
  /// In the engine's memory.
  [[nodiscard]] const V* data() const { return buffer_.data(); }

 private:
  using Buffer = typename E::template Buffer<V>;

  Buffer buffer_ = Buffer::uninitialized(1);  // zeros would be stored in each replay
};

}  // namespace detail

}  // namespace cubist::CUBIST_ABI
