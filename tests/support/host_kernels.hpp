// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Runs a device's kernels on the host: between barriers, the threads of a block run one after the
// other.

#include <cstddef>
#include <vector>

#include "cubist/backend/threads.hpp"
#include "cubist/engine/cuda/operations.hpp"
#include "cubist/engine/host/engine.hpp"

namespace cubist::test
{

struct HostKernels
{
  /// A team of one thread, which computes a whole row.
  struct Team
  {
    static constexpr unsigned size = 1;
    template <class V, class Add>
    [[nodiscard]] static V combine(const V& x, Add)
    {
      return x;
    }
  };
  using SmallTeam = Team;
  using LargeTeam = Team;

  template <class Kernel, class... M>
  static void run(const Kernel& kernel, const M&... m)
  {
    for (unsigned block = 0; block < kernel.tiling.blocks(); ++block)
      for (unsigned thread = 0; thread < detail::block_threads; ++thread)
        kernel.run({block, thread}, m...);
  }
  template <class Kernel, class... M>
  static void reduce(const Kernel& kernel, const M&... m)
  {
    std::vector<typename Kernel::Part> shared(detail::block_threads);
    const auto each = [&](auto f) {
      for (unsigned thread = 0; thread < detail::block_threads; ++thread) f(thread);
    };
    for (unsigned block = 0; block < kernel.tiling.blocks(); ++block)
    {
      each([&](unsigned thread) { kernel.start({block, thread}, shared.data(), m...); });
      for (unsigned half = kernel.tree_size() / 2; half > 0; half /= 2)
        each([&](unsigned thread) { kernel.combine({block, thread}, half, shared.data()); });
      each([&](unsigned thread) { kernel.finish({block, thread}, shared.data()); });
    }
  }
  template <class Kernel, class Last, class P, class... M>
  static void reduce_parts(const Kernel& kernel, const Last& last, const MatrixView<P>& parts,
                           const M&... m)
  {
    reduce(kernel, m...);
    reduce(last, parts);
  }

  template <class T>
  [[nodiscard]] static T* workspace(std::size_t n)
  {
    static thread_local std::vector<T> parts;
    parts.resize(n);
    return parts.data();
  }
  template <class T>
  [[nodiscard]] static T* result()
  {
    static thread_local T value;
    return &value;
  }
  template <class T>
  [[nodiscard]] static T read(const T* result)
  {
    return *result;
  }
};

/// HostEngine with the maps and folds of a device.
class KernelEngine : public detail::KernelOperations<HostKernels>
{
 public:
  template <class T>
  using Buffer = HostEngine::Buffer<T>;

  template <Scalar T>
  void gemm(Op op_a, Op op_b, T alpha, MatrixView<const T> a, MatrixView<const T> b, T beta,
            MatrixView<T> c) const
  {
    HostEngine{}.gemm(op_a, op_b, alpha, a, b, beta, c);
  }
  template <Element T>
  void copy(MatrixView<const T> in, MatrixView<T> out) const
  {
    HostEngine{}.copy(in, out);
  }
  template <Element T>
  void upload(MatrixView<const T> in, MatrixView<T> out) const
  {
    HostEngine{}.copy(in, out);
  }
  template <Element T>
  void download(MatrixView<const T> in, MatrixView<T> out) const
  {
    HostEngine{}.copy(in, out);
  }
  template <class T>
  [[nodiscard]] auto view(MatrixView<T> m) const
  {
    return HostEngine{}.view(m);
  }
};

/// Threads whose engine passes over rows, as a device does.
struct ThreadsWithKernels : Threads
{
  using Engine = KernelEngine;
};
static_assert(detail::PassesRows<KernelEngine>);
static_assert(!detail::PassesRows<HostEngine>);

}  // namespace cubist::test
