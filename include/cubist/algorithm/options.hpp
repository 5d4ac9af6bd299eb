// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The options of a product Y = op(X) op(W), whatever its scheme:
//
//   Op        whether X and W are stored as they are, transposed, or as the adjoint (in
//             engine.hpp, because the engine's gemm has the same option)
//   Gathered  whether the product keeps what it gathered in forward until backward
//   Method    which algorithm runs: see the list in scheme/scheme.hpp

#include <cstdint>

#include "cubist/engine/engine.hpp"

namespace cubist::CUBIST_ABI
{

/// How the operands of a product are stored: Y = op(X) op(W).
struct Ops
{
  Op x = Op::none;  ///< how X is stored
  Op w = Op::none;  ///< how W is stored
};

/// Whether a plan keeps what it gathered in forward until backward, or gathers it again. Keeping it
/// takes more memory and sends fewer elements.
enum class Gathered : bool
{
  again,  ///< gathered in forward, and again in backward
  kept    ///< kept from forward until backward
};

/// How a rank gets the blocks of operands that other ranks hold.
enum class Method : std::uint8_t
{
  automatic,    // direct if every rank of the mesh can read the others' memory, else collectives
  collectives,  // S::Algorithm
  direct        // reads peers' memory in place: algorithm/direct/direct_product.hpp
};

}  // namespace cubist::CUBIST_ABI
