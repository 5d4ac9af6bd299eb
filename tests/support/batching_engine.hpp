// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// An engine that multiplies batches in one call, and counts them.

#include <cstddef>
#include <span>

#include "cubist/core/matrix_view.hpp"
#include "cubist/engine/host/engine.hpp"

namespace cubist::test
{

struct BatchingEngine : HostEngine
{
  static inline thread_local int calls = 0;

  template <class T>
  void gemm_batch(Op op_a, Op op_b, T alpha, std::span<const MatrixView<const T>> a,
                  std::span<const MatrixView<const T>> b, T beta,
                  std::span<const MatrixView<T>> c) const
  {
    ++calls;
    for (std::size_t i = 0; i < c.size(); ++i) gemm(op_a, op_b, alpha, a[i], b[i], beta, c[i]);
  }
};

}  // namespace cubist::test
