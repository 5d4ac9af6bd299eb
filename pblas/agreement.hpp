// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The processes of a context agree on who computes their calls, because a process that runs
// ScaLAPACK's routine and one that runs this library's would wait for each other for ever. Some
// processes may not run this library, because CUBIST_PBLAS is off there, or LD_PRELOAD has not
// reached them.

#include <cstddef>
#include <initializer_list>
#include <optional>

#include "blacs.hpp"

namespace cubist_pblas
{

/// Whether this library computes the calls of all processes of a context. If CUBIST_PBLAS is off in
/// some, it computes none, and one process says so. The first call on a context waits for all of
/// its processes, except where the setting is off. A process that waits for a long time prints what
/// the others may lack.
/// @param routine its name as in Fortran: "pdgemm"
[[nodiscard]] bool all_compute(FortranInt context, const char* routine);

/// A call of a product, equal on all processes.
struct ProductCall
{
  // If a size is smaller, ScaLAPACK is at least as fast on several nodes.
  static constexpr FortranInt small = 400;
  static constexpr FortranInt small_symmetric = 700;    // symm, hemm, syrk and herk
  static constexpr FortranInt small_triangular = 1800;  // trmm and trsm

  FortranInt least_size = 0;  ///< the smallest of m, n and k
  std::size_t key = 0;        ///< a hash of the call's sizes and layouts
};
/// @param letters, sizes, indices, descriptors the call's; leading dimensions do not count
[[nodiscard]] ProductCall product_call(std::initializer_list<const char*> letters,
                                       std::initializer_list<FortranInt> sizes,
                                       std::initializer_list<FortranInt> indices,
                                       std::initializer_list<const FortranInt*> descriptors);

/// Whether ScaLAPACK's routine is faster. On several nodes, it is faster if the product is small or
/// thin, as in a factorisation, or differs from each of the last 32 different products: new memory
/// and a plan may take longer than one product. All processes of the context ask this for each
/// call.
/// @param small ScaLAPACK is as fast if m, n or k is below it
/// @pre all_compute(context, …)
[[nodiscard]] bool is_left_to_scalapack(FortranInt context, const ProductCall& call,
                                        FortranInt small);

/// Returns PgemmOptions::kept for a product that this library computes: CUBIST_PBLAS_KEEP if it is
/// set. Otherwise, on several nodes, a fraction that is enough for the next call, because a call
/// that the library computes there repeats an earlier one.
[[nodiscard]] std::optional<double> kept_fraction(FortranInt context);

}  // namespace cubist_pblas
