// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// A fake of CudaEngine without kernels: HostEngine computes on the fake's device memory, in the
// order of the compute stream, with the fake's delays.

#include <cstddef>
#include <functional>
#include <span>
#include <utility>

#include "cubist/backend/nccl.hpp"
#include "cubist/engine/cuda/engine.hpp"
#include "cubist/engine/host/engine.hpp"

#include "fake.hpp"

namespace cubist::test
{

class FakeCudaEngine
{
 public:
  template <class T>
  using Buffer = CudaBuffer<T>;

  static void begin_span(const SpanName& name) { CudaEngine::begin_span(name); }
  static void end_span() { CudaEngine::end_span(); }

  template <Scalar T>
  void gemm(Op op_a, Op op_b, T alpha, MatrixView<const T> a, MatrixView<const T> b, T beta,
            MatrixView<T> c) const
  {
    enqueue([=] { HostEngine{}.gemm(op_a, op_b, alpha, a, b, beta, c); });
  }
  template <Element T>
  void copy(MatrixView<const T> in, MatrixView<T> out) const
  {
    CudaEngine{}.copy(in, out);
  }
  template <Element T>
  void upload(MatrixView<const T> host, MatrixView<T> mine) const
  {
    CudaEngine{}.upload(host, mine);
  }
  template <Element T>
  void download(MatrixView<const T> mine, MatrixView<T> host) const
  {
    CudaEngine{}.download(mine, host);
  }
  using Downloads = CudaEngine::Downloads;
  void download_beside(std::span<const cubist::detail::Download> all, Downloads& downloads) const
  {
    CudaEngine{}.download_beside(all, downloads);
  }
  template <Element T>
  void fill(MatrixView<T> out, T value) const
  {
    enqueue([=] { HostEngine{}.fill(out, value); });
  }
  template <class F, class... M>
  void for_each(F f, M... m) const
  {
    enqueue([=] { HostEngine{}.for_each(f, m...); });
  }
  template <class T, class F, class... In>
  void map(MatrixView<T> out, F f, In... in) const
  {
    enqueue([=] { HostEngine{}.map(out, f, in...); });
  }
  template <class T, class F, class... In>
  void map_sums(MatrixView<T> out, MatrixView<T> sums, F f, In... in) const
  {
    enqueue([=] { HostEngine{}.map_sums(out, sums, f, in...); });
  }
  template <class T, class F, class... In>
  void map_indexed(MatrixView<T> out, F f, In... in) const
  {
    enqueue([=] { HostEngine{}.map_indexed(out, f, in...); });
  }
  template <class T, class F, class... In>
  void map_rows(MatrixView<T> out, F f, In... in) const
  {
    enqueue([=] { HostEngine{}.map_rows(out, f, in...); });
  }
  template <class T>
  void column_sums(MatrixView<const T> in, MatrixView<T> out) const
  {
    enqueue([=] { HostEngine{}.column_sums(in, out); });
  }
  template <class T>
  void sum_rows(MatrixView<const T> in, const RowLists& lists, MatrixView<T> out, bool adds) const
  {
    enqueue([=] { HostEngine{}.sum_rows(in, lists, out, adds); });
  }
  template <class T, class Combine, class F, class... In>
  void row_fold(MatrixView<T> out, T init, Combine combine, F f, In... in) const
  {
    enqueue([=] { HostEngine{}.row_fold(out, init, combine, f, in...); });
  }
  template <class T, class Combine, class F, class... In>
  [[nodiscard]] T fold(T init, Combine combine, F f, In... in) const
  {
    T result{};
    enqueue([=, &result] { result = HostEngine{}.fold(init, combine, f, in...); });
    ComputeStream::synchronize();
    return result;
  }
  template <class V, class Combine, class T, class F, class... In>
  [[nodiscard]] V map_fold(V init, Combine combine, MatrixView<T> out, F f, In... in) const
  {
    V result{};
    enqueue([=, &result] { result = HostEngine{}.map_fold(init, combine, out, f, in...); });
    ComputeStream::synchronize();
    return result;
  }
  template <class V, class Combine, class T, class F, class... In>
  void map_fold_to(MatrixView<V> result, V init, Combine combine, MatrixView<T> out, F f,
                   In... in) const
  {
    enqueue([=] { result(0, 0) = HostEngine{}.map_fold(init, combine, out, f, in...); });
  }
  template <class T, class Combine, class F, class... In>
  void fold_to(MatrixView<T> out, T init, Combine combine, F f, In... in) const
  {
    enqueue([=] { out(0, 0) = HostEngine{}.fold(init, combine, f, in...); });
  }
  template <class F, class... T>
  void for_each_in_all(const F* f, const MatrixGroup* groups, std::size_t count,
                       MatrixTypes<T...> types) const
  {
    enqueue([=] {
      for (std::size_t i = 0; i < count; ++i)
        detail::for_each_in_group(HostEngine{}, *f, groups[i], types);
    });
  }
  using Graph = CudaGraph;
  [[nodiscard]] Graph capture(const std::function<void()>& f) const { return Graph::capture(f); }
  [[nodiscard]] bool is_capturing() const { return CudaEngine{}.is_capturing(); }
  void before_replay(std::function<void()> f) const { CudaEngine{}.before_replay(std::move(f)); }
  template <class T>
  void set(T* p, const T& value) const
  {
    CudaEngine{}.set(p, value);
  }
  template <class T>
  [[nodiscard]] MatrixView<T> view(MatrixView<T> m) const
  {
    return m;
  }

 private:
  template <class F>
  static void enqueue(F f)
  {
    fake::enqueue(ComputeStream::get(), f);
  }
};

/// The NCCL backend with this engine.
struct FakeNccl : Nccl
{
  using Engine = FakeCudaEngine;
};

}  // namespace cubist::test

namespace cubist
{
template <>
inline constexpr bool in_host_memory<test::FakeCudaEngine> = false;
}  // namespace cubist
