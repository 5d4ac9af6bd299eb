// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// A planned product of ranks that exchange messages, behind virtual functions: on the mesh of a
// scheme (converted_product.hpp), or on the grid of C (gemm_panels.hpp).

#include <cstddef>

#include <cubist/comm/mpi/communicator.hpp>
#include <cubist/core/scalar.hpp>
#include <cubist/foreign/foreign_matrix.hpp>
#include <cubist/foreign/pgemm.hpp>

#include "product_cache.hpp"

namespace cubist::CUBIST_ABI::detail
{

template <Scalar T>
class MessageProduct : public PlannedProduct
{
 public:
  static constexpr std::size_t scalar_bytes = sizeof(T);

  /// Computes the product. All ranks of the world call it; those outside the grid have no array.
  virtual void run(MpiCommunicator& world, T alpha, LocalArray<const T> a, LocalArray<const T> b,
                   T beta, LocalArray<T> c, PgemmReport& report) = 0;
};

}  // namespace cubist::CUBIST_ABI::detail
