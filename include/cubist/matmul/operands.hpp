// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// What a product demands of the matrices that it is handed.

#include <algorithm>
#include <initializer_list>

#include "cubist/core/block.hpp"
#include "cubist/core/error.hpp"

namespace cubist::detail
{

/// @throws ShapeError for a matrix of another size, MeshError for one of another mesh
inline void require_operand(const char* what, Shape got, Shape wanted, bool same_mesh,
                            ProductSize size)
{
  require<ShapeError>(got == wanted, "got ", what, " of ", got, " for a product with m = ", size.m,
                      ", n = ", size.n, ", k = ", size.k, ", where it is ", wanted,
                      ", so the inner sizes do not fit; make the plan for these matrices, or the "
                      "matrices for this plan");
  require<MeshError>(same_mesh, "got ", what, " of ", got,
                     " on another mesh than the product's, so its blocks lie on other ranks; make "
                     "it on the product's mesh");
}

/// Whether a result is a matrix of its own.
/// @throws ArgumentError if it is one of the others
inline void require_apart(const char* what, const void* result,
                          std::initializer_list<const void*> others)
{
  require<ArgumentError>(
      std::find(others.begin(), others.end(), result) == others.end(), "got as ", what,
      " a matrix that is also another operand, which would be overwritten while it is read; make ",
      what, " a matrix of its own");
}

}  // namespace cubist::detail
