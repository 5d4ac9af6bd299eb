// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// A decorator of any engine that records its calls, and the named parts of the program. On a device
// a call ends when it is queued, so its time is that of the host.

#include <cstddef>
#include <span>
#include <utility>

#include "cubist/core/matrix_view.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/engine/attention.hpp"
#include "cubist/engine/engine.hpp"
#include "cubist/engine/span.hpp"
#include "cubist/trace/rank_trace.hpp"

namespace cubist::CUBIST_ABI
{

template <Engine E>
class TracedEngine : public E
{
 public:
  template <class T>
  using Buffer = typename E::template Buffer<T>;

  /// Begins a span, within those that are open.
  static void begin_span(const SpanName& name)
  {
    if constexpr (requires { E::begin_span(name); }) E::begin_span(name);
    if (auto* trace = detail::RankTrace::current()) trace->begin(name);
  }
  /// Ends the innermost span.
  static void end_span()
  {
    if (auto* trace = detail::RankTrace::current()) trace->end(TraceCategory::part);
    if constexpr (requires { E::end_span(); }) E::end_span();
  }

  template <Scalar T>
  void gemm(Op op_a, Op op_b, T alpha, MatrixView<const T> a, MatrixView<const T> b, T beta,
            MatrixView<T> c) const
  {
    const std::size_t k = op_shape(op_a, a.shape()).cols;
    const detail::TraceSpan span{TraceCategory::product, {"gemm", c.rows(), c.cols(), k}};
    E::gemm(op_a, op_b, alpha, a, b, beta, c);
  }
  /// Products of one shape, one after the other.
  template <Scalar T>
  void gemm_batch(Op op_a, Op op_b, T alpha, std::span<const MatrixView<const T>> a,
                  std::span<const MatrixView<const T>> b, T beta,
                  std::span<const MatrixView<T>> c) const requires requires(const E& e)
  {
    e.gemm_batch(op_a, op_b, alpha, a, b, beta, c);
  }
  {
    const detail::TraceSpan span{TraceCategory::product, {"batch of gemm", c.size()}};
    E::gemm_batch(op_a, op_b, alpha, a, b, beta, c);
  }
  /// Whether Y = activation(X W + b) was computed in one pass; if not, nothing was.
  template <class T, class... Rest>
  bool fused_affine(MatrixView<const T> x, MatrixView<const T> w, Rest&&... rest) const requires
      requires(const E& e)
  {
    e.fused_affine(x, w, rest...);
  }
  {
    const detail::TraceSpan span{TraceCategory::product,
                                 {"gemm with bias", x.rows(), w.cols(), w.rows()}};
    return E::fused_affine(x, w, std::forward<Rest>(rest)...);
  }
  /// Whether attention was computed in one pass; if not, nothing was.
  template <class... Rest>
  bool fused_attention(const AttentionShape& s, Rest&&... rest) const requires requires(const E& e)
  {
    e.fused_attention(s, rest...);
  }
  {
    const detail::TraceSpan span{TraceCategory::product,
                                 {"attention", s.sequences, s.heads, s.queries}};
    return E::fused_attention(s, std::forward<Rest>(rest)...);
  }
  /// Whether its gradients were computed in one pass; if not, nothing was.
  template <class... Rest>
  bool fused_attention_gradients(const AttentionShape& s, Rest&&... rest) const requires
      requires(const E& e)
  {
    e.fused_attention_gradients(s, rest...);
  }
  {
    const detail::TraceSpan span{TraceCategory::product,
                                 {"attention's gradients", s.sequences, s.heads, s.queries}};
    return E::fused_attention_gradients(s, std::forward<Rest>(rest)...);
  }

  template <Element T>
  void copy(MatrixView<const T> in, MatrixView<T> out) const
  {
    const auto span = pass("copy", out);
    E::copy(in, out);
  }
  template <Element T>
  void upload(MatrixView<const T> in, MatrixView<T> out) const
  {
    const auto span = pass("upload", out);
    E::upload(in, out);
  }
  template <Element T>
  void download(MatrixView<const T> in, MatrixView<T> out) const
  {
    const auto span = pass("download", out);
    E::download(in, out);
  }
  template <Element T>
  void fill(MatrixView<T> out, T value) const
  {
    const auto span = pass("fill", out);
    E::fill(out, value);
  }
  template <class F, class First, class... T>
  void for_each(F f, MatrixView<First> first, MatrixView<T>... m) const
  {
    const auto span = pass("for_each", first);
    E::for_each(f, first, m...);
  }
  template <class T, class F, class... In>
  void map(MatrixView<T> out, F f, MatrixView<In>... in) const
  {
    const auto span = pass("map", out);
    E::map(out, f, in...);
  }
  template <class T, class F, class... In>
  void map_sums(MatrixView<T> out, MatrixView<T> sums, F f, MatrixView<In>... in) const
  {
    const auto span = pass("map_sums", out);
    E::map_sums(out, sums, f, in...);
  }
  template <class T, class F, class... In>
  void map_indexed(MatrixView<T> out, F f, MatrixView<In>... in) const
  {
    const auto span = pass("map_indexed", out);
    E::map_indexed(out, f, in...);
  }
  template <class T, class F, class... In>
  void map_rows(MatrixView<T> out, F f, MatrixView<In>... in) const
  {
    const auto span = pass("map_rows", out);
    E::map_rows(out, f, in...);
  }
  template <class T>
  void column_sums(MatrixView<const T> in, MatrixView<T> out) const
  {
    const auto span = pass("column_sums", in);
    E::column_sums(in, out);
  }
  template <Scalar T>
  void sum_rows(MatrixView<const T> in, const RowLists& lists, MatrixView<T> out, bool adds) const
  {
    const auto span = pass("sum_rows", out);
    E::sum_rows(in, lists, out, adds);
  }
  template <class T, class Combine, class F, class First, class... In>
  void row_fold(MatrixView<T> out, T init, Combine combine, F f, MatrixView<First> first,
                MatrixView<In>... in) const
  {
    const auto span = pass("row_fold", first);
    E::row_fold(out, init, combine, f, first, in...);
  }
  template <class T, class Combine, class F, class First, class... In>
  [[nodiscard]] T fold(T init, Combine combine, F f, MatrixView<First> first,
                       MatrixView<In>... in) const
  {
    const auto span = pass("fold", first);
    return E::fold(init, combine, f, first, in...);
  }
  template <class T, class Combine, class F, class First, class... In>
  void fold_to(MatrixView<T> out, T init, Combine combine, F f, MatrixView<First> first,
               MatrixView<In>... in) const requires requires(const E& e)
  {
    e.fold_to(out, init, combine, f, first, in...);
  }
  {
    const auto span = pass("fold", first);
    E::fold_to(out, init, combine, f, first, in...);
  }
  template <class V, class Combine, class T, class F, class... In>
  [[nodiscard]] V map_fold(V init, Combine combine, MatrixView<T> out, F f,
                           MatrixView<In>... in) const
  {
    const auto span = pass("map_fold", out);
    return E::map_fold(init, combine, out, f, in...);
  }
  template <class V, class Combine, class T, class F, class... In>
  void map_fold_to(MatrixView<V> result, V init, Combine combine, MatrixView<T> out, F f,
                   MatrixView<In>... in) const requires requires(const E& e)
  {
    e.map_fold_to(result, init, combine, out, f, in...);
  }
  {
    const auto span = pass("map_fold", out);
    E::map_fold_to(result, init, combine, out, f, in...);
  }

 private:
  template <class T>
  [[nodiscard]] static detail::TraceSpan pass(const char* name, MatrixView<T> m)
  {
    return {TraceCategory::pass, {name, m.rows(), m.cols()}};
  }
};

template <class E>
inline constexpr bool in_host_memory<TracedEngine<E>> = in_host_memory<E>;
/// A traced engine multiplies as the engine that it traces.
template <class E>
inline constexpr std::size_t row_alignment<TracedEngine<E>> = row_alignment<E>;

}  // namespace cubist::CUBIST_ABI
