// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// One call of a plan for products. It checks the operands, refuses a second call at the same time,
// and shows in a trace as a span that contains the call's local products and waits. The functions
// that throw are not inlined, so that all schemes share them.

#include <algorithm>
#include <initializer_list>

#include "cubist/algorithm/options.hpp"
#include "cubist/comm/window.hpp"
#include "cubist/core/block.hpp"
#include "cubist/core/call_guard.hpp"
#include "cubist/core/error.hpp"
#include "cubist/engine/engine.hpp"
#include "cubist/engine/span.hpp"
#include "cubist/matrix/dist_matrix.hpp"

namespace cubist::CUBIST_ABI::detail
{

/// @throws ShapeError for a matrix of the wrong size or padding, MeshError for one on another mesh
[[gnu::noinline]] inline void require_operand(const char* what, Shape got, Shape expected,
                                              Quanta padded, Quanta expected_quanta, bool same_mesh,
                                              ProductSize size)
{
  require<ShapeError>(got == expected, what, " is ", got, ", but a product with m = ", size.m,
                      ", n = ", size.n, ", k = ", size.k, " needs ", expected,
                      "; make the plan for these matrices, or the matrices for this plan");
  require<MeshError>(same_mesh, "got ", what, " of ", got,
                     " on a different mesh from the product's, so its blocks are on other ranks; "
                     "make it on the product's mesh");
  require<ShapeError>(
      padded == expected_quanta, "got ", what, " of ", got, " padded to multiples of ", padded.rows,
      " rows and ", padded.cols, " columns for a product that needs multiples of ",
      expected_quanta.rows, " and ", expected_quanta.cols,
      ", so the blocks of its operands do not fit; make the plan with the quanta of "
      "the matrices, or the matrices with those of the plan");
}

[[nodiscard]] inline Quanta op_quanta(Op op, Quanta q)
{
  return op == Op::none ? q : Quanta{q.cols, q.rows};
}

/// Returns the quanta of a product, where 0 stands for the quantum of the mesh.
/// @throws MeshError for quanta that are not multiples of the mesh's
[[nodiscard]] inline ProductQuanta or_of_mesh(ProductQuanta quanta, std::size_t quantum)
{
  for (auto* each : {&quanta.m, &quanta.n, &quanta.k})
  {
    if (*each == 0) *each = quantum;
    require_multiples(*each, quantum);
  }
  return quanta;
}

/// @throws ArgumentError for a result that is also one of the other operands
[[gnu::noinline]] inline void require_distinct(const char* what, const void* result,
                                               std::initializer_list<const void*> others)
{
  require<ArgumentError>(
      std::find(others.begin(), others.end(), result) == others.end(), "got the same matrix for ",
      what,
      " and for another operand, so it would be overwritten while it is read; pass a "
      "separate matrix for ",
      what);
}

/// Checks the sizes and the method of a product of matrices of these shapes.
/// @returns whether the ranks can read each other's memory
/// @throws ShapeError for sizes that exceed 64 bits, ArgumentError for a method that the ranks
/// cannot use, MeshError on an idle rank
template <class T, class M>
[[nodiscard]] bool require_possible(const M& mesh, Method requested,
                                    std::initializer_list<Shape> shapes)
{
  for (const Shape s : shapes) require_countable(s, sizeof(T));
  const bool exposed = can_expose(mesh.world());
  require<ArgumentError>(
      exposed || requested != Method::direct,
      "got Method::direct, but the ranks of this mesh cannot all read each other's memory; use "
      "Method::automatic");
  return exposed;
}

/// RAII: marks a call until the end of the scope.
template <class E>
struct ProductCall
{
  CallGuard::Scope turn;
  Span<E> span;
};

/// Guards the calls of the plan that has it as a member.
struct ProductCalls
{
  const char* scheme;  ///< a text that lives as long as the program
  ProductSize size;
  CallGuard guard = {};

  /// Begins a call and its span, such as "Summa2D forward 4x5x6" for the sizes M, N, K.
  /// @throws ArgumentError while another call is active
  template <class E>
  [[nodiscard]] ProductCall<E> enter(const E& engine, const char* product)
  {
    return {guard.enter("a plan"), {engine, {scheme, product, size.m, size.n, size.k}}};
  }
};

}  // namespace cubist::CUBIST_ABI::detail
