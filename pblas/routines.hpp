// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The routines of the PBLAS for one scalar. They check their arguments as ScaLAPACK does, and call
// cubist's functions on the communicator of the context.
//
// Indices and sizes are Fortran's: pointers to 32-bit integers, or to 64-bit ones in
// libcubist_pblas64. Indices count from 1. The context is that of A, except in p?gemr2d and
// p?trmr2d, which get one.

#include <algorithm>
#include <cctype>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <exception>
#include <initializer_list>
#include <string>
#include <type_traits>

#include <cubist/core/scalar.hpp>

#include "agreement.hpp"
#include "blacs.hpp"
#include "local_part.hpp"
#include "padd.hpp"
#include "pgemm.hpp"
#include "redistribution.hpp"
#include "triangular.hpp"

namespace cubist_pblas
{

using cubist::Op;
using cubist::Symmetry;
using cubist::detail::ArgumentCheck;
using cubist::detail::ArrayDescriptor;
using cubist::detail::ContextGrid;

/// A matrix in an argument list: its array, indices and descriptor.
template <class T>
struct MatrixArgument
{
  /// @param is_nine whether the descriptor has 9 entries, whatever its type says
  MatrixArgument(T* data, const FortranInt* i, const FortranInt* j, const FortranInt* d,
                 bool is_nine = false)
      : array{data},
        row{*i - 1},
        col{*j - 1},
        descriptor{is_nine ? ArrayDescriptor::read_nine(d) : ArrayDescriptor::read(d)}
  {
  }

  /// @pre the arguments have passed the checks
  [[nodiscard]] cubist::BlockCyclicMatrix<T> on(const ContextGrid& grid) const
  {
    return {{descriptor.layout({grid.rows, grid.cols}), static_cast<std::size_t>(row),
             static_cast<std::size_t>(col)},
            array,
            static_cast<std::size_t>(descriptor.ld)};
  }

  T* array;
  FortranInt row;  // counted from 0
  FortranInt col;
  ArrayDescriptor descriptor;
};

inline char upper_case(const char* text)
{
  return static_cast<char>(std::toupper(static_cast<unsigned char>(*text)));
}
inline constexpr const char* ops = "NTC";
inline Op op_of(char c) { return c == 'N' ? Op::none : c == 'C' ? Op::adjoint : Op::transpose; }
inline cubist::Side side_of(char c) { return c == 'R' ? cubist::Side::right : cubist::Side::left; }
inline cubist::Triangle triangle_of(char c)
{
  return c == 'U' ? cubist::Triangle::upper : cubist::Triangle::lower;
}
inline cubist::Shape shape_of(FortranInt m, FortranInt n)
{
  return {static_cast<std::size_t>(m), static_cast<std::size_t>(n)};
}

/// Runs f(report), and prints the report if CUBIST_PBLAS is verbose.
template <class F>
void compute(const ContextGrid& grid, const char* routine, const std::string& what, F f)
try
{
  const auto begin = std::chrono::steady_clock::now();
  cubist::PgemmReport report;
  f(report);
  if (!is_verbose() || grid.row != 0 || grid.col != 0) return;
  const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
  std::fprintf(stderr, "cubist: %s %s on %d x %d processes: %s%s%.6f s\n", routine, what.c_str(),
               grid.rows, grid.cols, report.chosen.c_str(), report.chosen.empty() ? "" : ", ",
               time.count());
}
catch (const std::exception& e)
{
  fail(grid.context, routine, e.what());
}

/// Computes C = beta C for this process's elements, for a call whose alpha is 0. Sends nothing.
template <class T>
void scale(const char* routine, const std::string& what, T beta, const MatrixArgument<T>& c,
           const ContextGrid& grid, cubist::Shape shape)
{
  compute(grid, routine, what, [&](cubist::PgemmReport& report) {
    report.chosen = "only scales C";
    if (beta == T{1}) return;
    const auto matrix = c.on(grid);
    const int rank = matrix.place.layout.grid.rank(grid.row, grid.col);
    cubist::detail::scale_local(beta, cubist::detail::local_part(matrix.place, shape, rank),
                                cubist::LocalArray<T>{matrix.data, matrix.ld});
  });
}

template <class T>
void gemm(const char* routine, const char* trans_a, const char* trans_b, const FortranInt* m,
          const FortranInt* n, const FortranInt* k, const T* alpha,
          const MatrixArgument<const T>& a, const MatrixArgument<const T>& b, const T* beta,
          const MatrixArgument<T>& c)
{
  const ContextGrid grid = grid_of(a.descriptor.context);
  const char op_a = upper_case(trans_a);
  const char op_b = upper_case(trans_b);
  ArgumentCheck checks{grid, 10};
  if (grid.rows != -1)
  {
    checks.check_letter(op_a, ops, "TRANSA", 1);
    if (checks.info() == 0) checks.check_letter(op_b, ops, "TRANSB", 2);
    const auto check = [&](const auto& x, int position, cubist::detail::SizeArgument rows,
                           cubist::detail::SizeArgument cols, bool transposed, const char* name) {
      checks.check(transposed ? cols : rows, transposed ? rows : cols, x.row, x.col, x.descriptor,
                   position, name);
    };
    check(a, 10, {*m, 3}, {*k, 5}, op_a != 'N', "A");
    check(b, 14, {*k, 5}, {*n, 4}, op_b != 'N', "B");
    check(c, 19, {*m, 3}, {*n, 4}, false, "C");
  }
  if (checks.info() != 0) return report(grid.context, routine, checks);
  if (*m == 0 || *n == 0) return;
  std::string what;
  if (is_verbose())
    what = std::string{op_a, op_b} + ' ' + std::to_string(*m) + " x " + std::to_string(*n) + " x " +
           std::to_string(*k);
  if (*alpha == T{} || *k == 0) return scale(routine, what, *beta, c, grid, shape_of(*m, *n));
  compute(grid, routine, what, [&](cubist::PgemmReport& report) {
    const auto size = [](const FortranInt* number) { return static_cast<std::size_t>(*number); };
    cubist::pgemm<T>(communicator_of(grid.context), op_of(op_a), op_of(op_b),
                     {size(m), size(n), size(k)}, *alpha, a.on(grid), b.on(grid), *beta, c.on(grid),
                     {.kept = kept_fraction(grid.context), .report = &report});
  });
}

/// Computes C = alpha op(A) + beta C, or a trapezoid of it, once `op` is known.
/// @param at_m the position of m in the argument list; n follows it
/// @param at_a the position of A's descriptor; C's is at `at_a` + 5
template <class T>
struct Sum
{
  const char* routine;
  char op;
  const FortranInt* m;
  const FortranInt* n;
  int at_m;
  int at_a;

  /// @param trapezoid "U", "L", or null for all of C
  void add(ArgumentCheck checks, const ContextGrid& grid, const char* trapezoid, const T* alpha,
           const MatrixArgument<const T>& a, const T* beta, const MatrixArgument<T>& c) const
  {
    const cubist::detail::SizeArgument rows{*m, at_m};
    const cubist::detail::SizeArgument cols{*n, at_m + 1};
    const bool transposed = op != 'N';
    checks.check(transposed ? cols : rows, transposed ? rows : cols, a.row, a.col, a.descriptor,
                 at_a, "A");
    checks.check(rows, cols, c.row, c.col, c.descriptor, at_a + 5, "C");
    if (checks.info() != 0) return report(grid.context, routine, checks);
    if (*m == 0 || *n == 0) return;
    const auto shape = shape_of(*m, *n);
    const std::string what =
        std::string{op} + ' ' + std::to_string(*m) + " x " + std::to_string(*n);
    if (*alpha == T{} && (trapezoid == nullptr || *beta == T{1}))
      return scale(routine, what, *beta, c, grid, shape);

    compute(grid, routine, what, [&](cubist::PgemmReport& report) {
      if (*alpha == T{}) report.chosen = "only scales C";
      const auto part = trapezoid == nullptr           ? cubist::MatrixPart::all
                        : upper_case(trapezoid) == 'U' ? cubist::MatrixPart::upper
                                                       : cubist::MatrixPart::lower;
      cubist::padd<T>(communicator_of(grid.context), op_of(op), shape, *alpha, a.on(grid), *beta,
                      c.on(grid), part);
    });
  }
};

template <class T>
void tran(const char* routine, char op, const FortranInt* m, const FortranInt* n, const T* alpha,
          const MatrixArgument<const T>& a, const T* beta, const MatrixArgument<T>& c)
{
  const ContextGrid grid = grid_of(a.descriptor.context);
  Sum<T>{routine, op, m, n, 1, 7}.add(ArgumentCheck{grid, 7}, grid, nullptr, alpha, a, beta, c);
}

template <class T>
void geadd(const char* routine, const char* trans, const FortranInt* m, const FortranInt* n,
           const T* alpha, const MatrixArgument<const T>& a, const T* beta,
           const MatrixArgument<T>& c)
{
  const ContextGrid grid = grid_of(a.descriptor.context);
  const char op = upper_case(trans);
  ArgumentCheck checks{grid, 8};
  if (grid.rows != -1) checks.check_letter(op, ops, "TRANS", 1);
  Sum<T>{routine, op, m, n, 2, 8}.add(checks, grid, nullptr, alpha, a, beta, c);
}

template <class T>
void tradd(const char* routine, const char* uplo, const char* trans, const FortranInt* m,
           const FortranInt* n, const T* alpha, const MatrixArgument<const T>& a, const T* beta,
           const MatrixArgument<T>& c)
{
  const ContextGrid grid = grid_of(a.descriptor.context);
  const char op = upper_case(trans);
  ArgumentCheck checks{grid, 9};
  if (grid.rows != -1)
  {
    checks.check_letter(upper_case(uplo), "UL", "UPLO", 1);
    if (checks.info() == 0) checks.check_letter(op, ops, "TRANS", 2);
  }
  Sum<T>{routine, op, m, n, 3, 9}.add(checks, grid, uplo, alpha, a, beta, c);
}

/// Checks the character arguments of a call, which come first, and stops at the first wrong one.
struct LetterCheck
{
  const char* value;
  const char* allowed;
  const char* name;
};
inline void check_letters(ArgumentCheck& checks, std::initializer_list<LetterCheck> letters)
{
  int position = 1;
  for (const auto& [value, allowed, name] : letters)
    if (checks.info() == 0) checks.check_letter(upper_case(value), allowed, name, position++);
}

/// Returns the text of a call for CUBIST_PBLAS=verbose.
inline std::string text_of(std::initializer_list<const char*> letters,
                           std::initializer_list<FortranInt> sizes)
{
  std::string text;
  if (!is_verbose()) return text;
  for (const char* const letter : letters) text += upper_case(letter);
  for (const FortranInt size : sizes)
    text += (text.back() >= '0' && text.back() <= '9' ? " x " : " ") + std::to_string(size);
  return text;
}

template <class T>
void symm(const char* routine, Symmetry symmetry, const char* side, const char* uplo,
          const FortranInt* m, const FortranInt* n, const T* alpha,
          const MatrixArgument<const T>& a, const MatrixArgument<const T>& b, const T* beta,
          const MatrixArgument<T>& c)
{
  const ContextGrid grid = grid_of(a.descriptor.context);
  const bool is_left = upper_case(side) == 'L';
  const cubist::detail::SizeArgument rows{*m, 3};
  const cubist::detail::SizeArgument cols{*n, 4};
  ArgumentCheck checks{grid, 9};
  if (grid.rows != -1)
  {
    check_letters(checks, {{side, "LR", "SIDE"}, {uplo, "UL", "UPLO"}});
    const auto& of_a = is_left ? rows : cols;
    checks.check(of_a, of_a, a.row, a.col, a.descriptor, 9, "A");
    checks.check(rows, cols, b.row, b.col, b.descriptor, 13, "B");
    checks.check(rows, cols, c.row, c.col, c.descriptor, 18, "C");
  }
  if (checks.info() != 0) return report(grid.context, routine, checks);
  if (*m == 0 || *n == 0) return;
  const std::string what = text_of({side, uplo}, {*m, *n});
  if (*alpha == T{}) return scale(routine, what, *beta, c, grid, shape_of(*m, *n));
  compute(grid, routine, what, [&](cubist::PgemmReport& report) {
    cubist::psymm<T>(communicator_of(grid.context),
                     {side_of(upper_case(side)), triangle_of(upper_case(uplo)), symmetry},
                     shape_of(*m, *n), *alpha, a.on(grid), b.on(grid), *beta, c.on(grid),
                     {.kept = kept_fraction(grid.context), .report = &report});
  });
}

/// Runs p?trmm, or p?trsm if `solves`.
template <class T>
void triangular(const char* routine, bool solves, const char* side, const char* uplo,
                const char* trans, const char* diag, const FortranInt* m, const FortranInt* n,
                const T* alpha, const MatrixArgument<const T>& a, const MatrixArgument<T>& b)
{
  const ContextGrid grid = grid_of(a.descriptor.context);
  const cubist::detail::SizeArgument rows{*m, 5};
  const cubist::detail::SizeArgument cols{*n, 6};
  ArgumentCheck checks{grid, 11};
  if (grid.rows != -1)
  {
    check_letters(checks, {{side, "LR", "SIDE"}, {uplo, "UL", "UPLO"}, {trans, ops, "TRANS"}});
    // ScaLAPACK's p?trmm reports a wrong DIAG even where it has found another letter wrong.
    if (!solves || checks.info() == 0) checks.check_letter(upper_case(diag), "NU", "DIAG", 4, true);
    const auto& of_a = upper_case(side) == 'L' ? rows : cols;
    checks.check(of_a, of_a, a.row, a.col, a.descriptor, 11, "A");
    checks.check(rows, cols, b.row, b.col, b.descriptor, 15, "B");
  }
  if (checks.info() != 0) return report(grid.context, routine, checks);
  if (*m == 0 || *n == 0) return;
  const std::string what = text_of({side, uplo, trans, diag}, {*m, *n});
  if (*alpha == T{}) return scale(routine, what, T{}, b, grid, shape_of(*m, *n));
  compute(grid, routine, what, [&](cubist::PgemmReport& report) {
    const cubist::TriangularOperand how{
        side_of(upper_case(side)), triangle_of(upper_case(uplo)), op_of(upper_case(trans)),
        upper_case(diag) == 'U' ? cubist::Diagonal::unit : cubist::Diagonal::stored};
    const auto call = solves ? &cubist::ptrsm<T> : &cubist::ptrmm<T>;
    call(communicator_of(grid.context), how, shape_of(*m, *n), *alpha, a.on(grid), b.on(grid),
         {.kept = kept_fraction(grid.context), .report = &report});
  });
}

/// Runs p?syrk, or p?herk, whose alpha and beta are real.
/// @param allowed the characters that TRANS may be
template <class T, class R>
void syrk(const char* routine, Symmetry symmetry, const char* allowed, const char* uplo,
          const char* trans, const FortranInt* n, const FortranInt* k, const R* alpha,
          const MatrixArgument<const T>& a, const R* beta, const MatrixArgument<T>& c)
{
  const ContextGrid grid = grid_of(a.descriptor.context);
  const cubist::detail::SizeArgument rows{*n, 3};
  const cubist::detail::SizeArgument depth{*k, 4};
  const bool is_plain = upper_case(trans) == 'N';
  ArgumentCheck checks{grid, 9};
  if (grid.rows != -1)
  {
    check_letters(checks, {{uplo, "UL", "UPLO"}, {trans, allowed, "TRANS"}});
    checks.check(is_plain ? rows : depth, is_plain ? depth : rows, a.row, a.col, a.descriptor, 9,
                 "A");
    checks.check(rows, rows, c.row, c.col, c.descriptor, 14, "C");
  }
  if (checks.info() != 0) return report(grid.context, routine, checks);
  if (*n == 0 || ((*alpha == R{} || *k == 0) && *beta == R{1})) return;
  compute(grid, routine, text_of({uplo, trans}, {*n, *k}), [&](cubist::PgemmReport& report) {
    cubist::psyrk<T>(communicator_of(grid.context), triangle_of(upper_case(uplo)),
                     is_plain ? Op::none : Op::transpose, symmetry, shape_of(*n, *k), T{*alpha},
                     a.on(grid), T{*beta}, c.on(grid),
                     {.kept = kept_fraction(grid.context), .report = &report});
    if (report.chosen.empty()) report.chosen = "only scales C";
  });
}

/// Runs p?gemr2d, or p?trmr2d if `uplo` is not null.
/// @tparam E the type of the program's elements, whose bits are copied as a T of the same size
template <class T, class E>
void gemr2d(const char* routine, const char* uplo, const char* diag, const FortranInt* m,
            const FortranInt* n, const MatrixArgument<const E>& a, const MatrixArgument<E>& b,
            FortranInt context)
{
  static_assert(sizeof(T) == sizeof(E));
  const ContextGrid grid = grid_of(context);
  if (grid.row < 0 || *m <= 0 || *n <= 0) return;
  std::string what = std::to_string(*m) + " x " + std::to_string(*n);
  if (uplo != nullptr) what = text_of({uplo, diag}, {*m, *n});
  compute(grid, routine, what, [&](cubist::PgemmReport&) {
    const auto on_grid = [](const auto& x, auto* data) {
      return cubist::detail::GridMatrix<std::remove_pointer_t<decltype(data)>>{
          data, x.row, x.col, x.descriptor, grid_of(x.descriptor.context)};
    };
    const auto part = uplo == nullptr           ? cubist::MatrixPart::all
                      : upper_case(uplo) == 'U' ? cubist::MatrixPart::upper
                                                : cubist::MatrixPart::lower;
    cubist::detail::redistribute_between<T>(communicator_of(context), shape_of(*m, *n), part,
                                            diag != nullptr && upper_case(diag) == 'U',
                                            on_grid(a, reinterpret_cast<const T*>(a.array)),
                                            on_grid(b, reinterpret_cast<T*>(b.array)));
  });
}

/// Looks up ScaLAPACK's own routine.
template <class F>
class OwnRoutine
{
 public:
  explicit OwnRoutine(const char* name)
      : name_{name}
  {
  }

  /// Returns ScaLAPACK's routine, or null if this library computes the call.
  /// @param descriptor that of a matrix of the call
  /// @param meets whether the processes of the context exchange anything in the call
  [[nodiscard]] F* of_call(const FortranInt* descriptor, bool meets)
  {
    return on_context(descriptor[1], meets);
  }
  /// Returns ScaLAPACK's routine for a product, or null if this library computes it.
  [[nodiscard]] F* of_product(const FortranInt* descriptor, bool meets, const ProductCall& call,
                              FortranInt small)
  {
    F* const own = of_call(descriptor, meets);
    const bool is_own =
        own != nullptr || (meets && is_left_to_scalapack(descriptor[1], call, small));
    return is_own ? find() : nullptr;
  }
  [[nodiscard]] F* on_context(FortranInt context, bool meets)
  {
    return (meets ? all_compute(context, name_) : !is_off()) ? nullptr : find();
  }

 private:
  [[nodiscard]] F* find()
  {
    if (found_ == nullptr) found_ = reinterpret_cast<F*>(next_routine(name_));
    return found_;
  }

  const char* name_;
  F* found_ = nullptr;
};

/// Whether the processes of a context exchange anything to compute with these sizes.
template <class T, class... Sizes>
[[nodiscard]] bool meets(const T* alpha, const Sizes*... sizes)
{
  return *alpha != T{} && ((*sizes > 0) && ...);
}

}  // namespace cubist_pblas

// The functions of foreign/pgemm.hpp for C++ programs.
#define CUBIST_PBLAS_FUNCTIONS(T)                                                                  \
  template void cubist::pgemm<T>(                                                                  \
      const boost::mpi::communicator&, cubist::Op, cubist::Op, cubist::ProductSize, T,             \
      const cubist::BlockCyclicMatrix<const T>&, const cubist::BlockCyclicMatrix<const T>&, T,     \
      const cubist::BlockCyclicMatrix<T>&, const cubist::PgemmOptions&);                           \
  template void cubist::padd<T>(const boost::mpi::communicator&, cubist::Op, cubist::Shape, T,     \
                                const cubist::BlockCyclicMatrix<const T>&, T,                      \
                                const cubist::BlockCyclicMatrix<T>&, cubist::MatrixPart);          \
  template void cubist::psymm<T>(                                                                  \
      const boost::mpi::communicator&, const cubist::SymmetricOperand&, cubist::Shape, T,          \
      const cubist::BlockCyclicMatrix<const T>&, const cubist::BlockCyclicMatrix<const T>&, T,     \
      const cubist::BlockCyclicMatrix<T>&, const cubist::PgemmOptions&);                           \
  template void cubist::ptrmm<T>(                                                                  \
      const boost::mpi::communicator&, const cubist::TriangularOperand&, cubist::Shape, T,         \
      const cubist::BlockCyclicMatrix<const T>&, const cubist::BlockCyclicMatrix<T>&,              \
      const cubist::PgemmOptions&);                                                                \
  template void cubist::ptrsm<T>(                                                                  \
      const boost::mpi::communicator&, const cubist::TriangularOperand&, cubist::Shape, T,         \
      const cubist::BlockCyclicMatrix<const T>&, const cubist::BlockCyclicMatrix<T>&,              \
      const cubist::PgemmOptions&);                                                                \
  template void cubist::psyrk<T>(                                                                  \
      const boost::mpi::communicator&, cubist::Triangle, cubist::Op, cubist::Symmetry,             \
      cubist::Shape, T, const cubist::BlockCyclicMatrix<const T>&, T,                              \
      const cubist::BlockCyclicMatrix<T>&, const cubist::PgemmOptions&);

using cubist_pblas::FortranInt;

// Defines a routine under all names that Fortran compilers give it. `lower` and `upper` are its
// name.
#define CUBIST_PBLAS_NAMES(lower, upper, parameters)                                               \
  [[gnu::visibility("default"), gnu::alias(#lower "_")]] void lower parameters;                    \
  [[gnu::visibility("default"), gnu::alias(#lower "_")]] void lower##__ parameters;                \
  [[gnu::visibility("default"), gnu::alias(#lower "_")]] void upper parameters;                    \
  [[gnu::visibility("default"), gnu::alias(#lower "_")]] void upper##_ parameters;

#define CUBIST_PBLAS_MATRIX(T, x)                                                                  \
  T *x, const FortranInt *i##x, const FortranInt *j##x, const FortranInt *desc##x

// p?gemm
#define CUBIST_PBLAS_GEMM(T, lower, upper)                                                         \
  [[gnu::visibility("default")]] void lower##_(                                                    \
      const char* trans_a, const char* trans_b, const FortranInt* m, const FortranInt* n,          \
      const FortranInt* k, const T* alpha, CUBIST_PBLAS_MATRIX(const T, a),                        \
      CUBIST_PBLAS_MATRIX(const T, b), const T* beta, CUBIST_PBLAS_MATRIX(T, c))                   \
  {                                                                                                \
    static cubist_pblas::OwnRoutine<decltype(lower##_)> routine{#lower};                           \
    if (auto* const own = routine.of_product(                                                      \
            desca, cubist_pblas::meets(alpha, m, n, k),                                            \
            cubist_pblas::product_call({trans_a, trans_b}, {*m, *n, *k},                           \
                                       {*ia, *ja, *ib, *jb, *ic, *jc}, {desca, descb, descc}),     \
            cubist_pblas::ProductCall::small))                                                     \
      return own(trans_a, trans_b, m, n, k, alpha, a, ia, ja, desca, b, ib, jb, descb, beta, c,    \
                 ic, jc, descc);                                                                   \
    cubist_pblas::gemm<T>(#upper, trans_a, trans_b, m, n, k, alpha, {a, ia, ja, desca},            \
                          {b, ib, jb, descb}, beta, {c, ic, jc, descc});                           \
  }                                                                                                \
  CUBIST_PBLAS_NAMES(lower, upper,                                                                 \
                     (const char*, const char*, const FortranInt*, const FortranInt*,              \
                      const FortranInt*, const T*, const T*, const FortranInt*, const FortranInt*, \
                      const FortranInt*, const T*, const FortranInt*, const FortranInt*,           \
                      const FortranInt*, const T*, T*, const FortranInt*, const FortranInt*,       \
                      const FortranInt*))

// p?tran, p?tranu and p?tranc
#define CUBIST_PBLAS_TRAN(T, lower, upper, op)                                                     \
  [[gnu::visibility("default")]] void lower##_(const FortranInt* m, const FortranInt* n,           \
                                               const T* alpha, CUBIST_PBLAS_MATRIX(const T, a),    \
                                               const T* beta, CUBIST_PBLAS_MATRIX(T, c))           \
  {                                                                                                \
    static cubist_pblas::OwnRoutine<decltype(lower##_)> routine{#lower};                           \
    if (auto* const own = routine.of_call(desca, cubist_pblas::meets(alpha, m, n)))                \
      return own(m, n, alpha, a, ia, ja, desca, beta, c, ic, jc, descc);                           \
    cubist_pblas::tran<T>(#upper, op, m, n, alpha, {a, ia, ja, desca}, beta, {c, ic, jc, descc});  \
  }                                                                                                \
  CUBIST_PBLAS_NAMES(lower, upper,                                                                 \
                     (const FortranInt*, const FortranInt*, const T*, const T*, const FortranInt*, \
                      const FortranInt*, const FortranInt*, const T*, T*, const FortranInt*,       \
                      const FortranInt*, const FortranInt*))

// p?geadd
#define CUBIST_PBLAS_GEADD(T, lower, upper)                                                        \
  [[gnu::visibility("default")]] void lower##_(                                                    \
      const char* trans, const FortranInt* m, const FortranInt* n, const T* alpha,                 \
      CUBIST_PBLAS_MATRIX(const T, a), const T* beta, CUBIST_PBLAS_MATRIX(T, c))                   \
  {                                                                                                \
    static cubist_pblas::OwnRoutine<decltype(lower##_)> routine{#lower};                           \
    if (auto* const own = routine.of_call(desca, cubist_pblas::meets(alpha, m, n)))                \
      return own(trans, m, n, alpha, a, ia, ja, desca, beta, c, ic, jc, descc);                    \
    cubist_pblas::geadd<T>(#upper, trans, m, n, alpha, {a, ia, ja, desca}, beta,                   \
                           {c, ic, jc, descc});                                                    \
  }                                                                                                \
  CUBIST_PBLAS_NAMES(lower, upper,                                                                 \
                     (const char*, const FortranInt*, const FortranInt*, const T*, const T*,       \
                      const FortranInt*, const FortranInt*, const FortranInt*, const T*, T*,       \
                      const FortranInt*, const FortranInt*, const FortranInt*))

// p?tradd
#define CUBIST_PBLAS_TRADD(T, lower, upper)                                                        \
  [[gnu::visibility("default")]] void lower##_(                                                    \
      const char* uplo, const char* trans, const FortranInt* m, const FortranInt* n,               \
      const T* alpha, CUBIST_PBLAS_MATRIX(const T, a), const T* beta, CUBIST_PBLAS_MATRIX(T, c))   \
  {                                                                                                \
    static cubist_pblas::OwnRoutine<decltype(lower##_)> routine{#lower};                           \
    if (auto* const own = routine.of_call(desca, cubist_pblas::meets(alpha, m, n)))                \
      return own(uplo, trans, m, n, alpha, a, ia, ja, desca, beta, c, ic, jc, descc);              \
    cubist_pblas::tradd<T>(#upper, uplo, trans, m, n, alpha, {a, ia, ja, desca}, beta,             \
                           {c, ic, jc, descc});                                                    \
  }                                                                                                \
  CUBIST_PBLAS_NAMES(lower, upper,                                                                 \
                     (const char*, const char*, const FortranInt*, const FortranInt*, const T*,    \
                      const T*, const FortranInt*, const FortranInt*, const FortranInt*, const T*, \
                      T*, const FortranInt*, const FortranInt*, const FortranInt*))

// p?symm and p?hemm
#define CUBIST_PBLAS_SYMM(T, lower, upper, symmetry)                                               \
  [[gnu::visibility("default")]] void lower##_(                                                    \
      const char* side, const char* uplo, const FortranInt* m, const FortranInt* n,                \
      const T* alpha, CUBIST_PBLAS_MATRIX(const T, a), CUBIST_PBLAS_MATRIX(const T, b),            \
      const T* beta, CUBIST_PBLAS_MATRIX(T, c))                                                    \
  {                                                                                                \
    static cubist_pblas::OwnRoutine<decltype(lower##_)> routine{#lower};                           \
    if (auto* const own = routine.of_product(                                                      \
            desca, cubist_pblas::meets(alpha, m, n),                                               \
            cubist_pblas::product_call({side, uplo}, {*m, *n}, {*ia, *ja, *ib, *jb, *ic, *jc},     \
                                       {desca, descb, descc}),                                     \
            cubist_pblas::ProductCall::small_symmetric))                                           \
      return own(side, uplo, m, n, alpha, a, ia, ja, desca, b, ib, jb, descb, beta, c, ic, jc,     \
                 descc);                                                                           \
    cubist_pblas::symm<T>(#upper, cubist::Symmetry::symmetry, side, uplo, m, n, alpha,             \
                          {a, ia, ja, desca}, {b, ib, jb, descb}, beta, {c, ic, jc, descc});       \
  }                                                                                                \
  CUBIST_PBLAS_NAMES(lower, upper,                                                                 \
                     (const char*, const char*, const FortranInt*, const FortranInt*, const T*,    \
                      const T*, const FortranInt*, const FortranInt*, const FortranInt*, const T*, \
                      const FortranInt*, const FortranInt*, const FortranInt*, const T*, T*,       \
                      const FortranInt*, const FortranInt*, const FortranInt*))

// p?trmm and p?trsm
#define CUBIST_PBLAS_TRIANGULAR(T, lower, upper, solves)                                           \
  [[gnu::visibility("default")]] void lower##_(                                                    \
      const char* side, const char* uplo, const char* trans, const char* diag,                     \
      const FortranInt* m, const FortranInt* n, const T* alpha, CUBIST_PBLAS_MATRIX(const T, a),   \
      CUBIST_PBLAS_MATRIX(T, b))                                                                   \
  {                                                                                                \
    static cubist_pblas::OwnRoutine<decltype(lower##_)> routine{#lower};                           \
    if (auto* const own =                                                                          \
            routine.of_product(desca, cubist_pblas::meets(alpha, m, n),                            \
                               cubist_pblas::product_call({side, uplo, trans, diag}, {*m, *n},     \
                                                          {*ia, *ja, *ib, *jb}, {desca, descb}),   \
                               cubist_pblas::ProductCall::small_triangular))                       \
      return own(side, uplo, trans, diag, m, n, alpha, a, ia, ja, desca, b, ib, jb, descb);        \
    cubist_pblas::triangular<T>(#upper, solves, side, uplo, trans, diag, m, n, alpha,              \
                                {a, ia, ja, desca}, {b, ib, jb, descb});                           \
  }                                                                                                \
  CUBIST_PBLAS_NAMES(lower, upper,                                                                 \
                     (const char*, const char*, const char*, const char*, const FortranInt*,       \
                      const FortranInt*, const T*, const T*, const FortranInt*, const FortranInt*, \
                      const FortranInt*, T*, const FortranInt*, const FortranInt*,                 \
                      const FortranInt*))

// p?syrk and p?herk; R is the type of alpha and beta
#define CUBIST_PBLAS_SYRK(T, R, lower, upper, symmetry, allowed)                                   \
  [[gnu::visibility("default")]] void lower##_(                                                    \
      const char* uplo, const char* trans, const FortranInt* n, const FortranInt* k,               \
      const R* alpha, CUBIST_PBLAS_MATRIX(const T, a), const R* beta, CUBIST_PBLAS_MATRIX(T, c))   \
  {                                                                                                \
    static cubist_pblas::OwnRoutine<decltype(lower##_)> routine{#lower};                           \
    if (auto* const own =                                                                          \
            routine.of_product(desca, cubist_pblas::meets(alpha, n, k),                            \
                               cubist_pblas::product_call({uplo, trans}, {*n, *k},                 \
                                                          {*ia, *ja, *ic, *jc}, {desca, descc}),   \
                               cubist_pblas::ProductCall::small_symmetric))                        \
      return own(uplo, trans, n, k, alpha, a, ia, ja, desca, beta, c, ic, jc, descc);              \
    cubist_pblas::syrk<T, R>(#upper, cubist::Symmetry::symmetry, allowed, uplo, trans, n, k,       \
                             alpha, {a, ia, ja, desca}, beta, {c, ic, jc, descc});                 \
  }                                                                                                \
  CUBIST_PBLAS_NAMES(lower, upper,                                                                 \
                     (const char*, const char*, const FortranInt*, const FortranInt*, const R*,    \
                      const T*, const FortranInt*, const FortranInt*, const FortranInt*, const R*, \
                      T*, const FortranInt*, const FortranInt*, const FortranInt*))

// p?gemr2d and p?trmr2d, and the C functions Cp?gemr2d and Cp?trmr2d, which ScaLAPACK's Fortran
// routines call; T is a scalar of the same size as E, the type of the elements
#define CUBIST_PBLAS_GEMR2D(T, E, lower, upper)                                                    \
  [[gnu::visibility("default")]] void C##lower(                                                    \
      FortranInt m, FortranInt n, const E* a, FortranInt ia, FortranInt ja,                        \
      const FortranInt* desca, E* b, FortranInt ib, FortranInt jb, const FortranInt* descb,        \
      FortranInt context)                                                                          \
  {                                                                                                \
    static cubist_pblas::OwnRoutine<decltype(C##lower)> routine{"C" #lower};                       \
    if (auto* const own = routine.on_context(context, m > 0 && n > 0))                             \
      return own(m, n, a, ia, ja, desca, b, ib, jb, descb, context);                               \
    cubist_pblas::gemr2d<T, E>(#upper, nullptr, nullptr, &m, &n, {a, &ia, &ja, desca, true},       \
                               {b, &ib, &jb, descb, true}, context);                               \
  }                                                                                                \
  [[gnu::visibility("default")]] void lower##_(                                                    \
      const FortranInt* m, const FortranInt* n, CUBIST_PBLAS_MATRIX(const E, a),                   \
      CUBIST_PBLAS_MATRIX(E, b), const FortranInt* context)                                        \
  {                                                                                                \
    C##lower(*m, *n, a, *ia, *ja, desca, b, *ib, *jb, descb, *context);                            \
  }                                                                                                \
  CUBIST_PBLAS_NAMES(lower, upper,                                                                 \
                     (const FortranInt*, const FortranInt*, const E*, const FortranInt*,           \
                      const FortranInt*, const FortranInt*, E*, const FortranInt*,                 \
                      const FortranInt*, const FortranInt*, const FortranInt*))
#define CUBIST_PBLAS_TRMR2D(T, E, lower, upper)                                                    \
  [[gnu::visibility("default")]] void C##lower(                                                    \
      const char* uplo, const char* diag, FortranInt m, FortranInt n, const E* a, FortranInt ia,   \
      FortranInt ja, const FortranInt* desca, E* b, FortranInt ib, FortranInt jb,                  \
      const FortranInt* descb, FortranInt context)                                                 \
  {                                                                                                \
    static cubist_pblas::OwnRoutine<decltype(C##lower)> routine{"C" #lower};                       \
    if (auto* const own = routine.on_context(context, m > 0 && n > 0))                             \
      return own(uplo, diag, m, n, a, ia, ja, desca, b, ib, jb, descb, context);                   \
    cubist_pblas::gemr2d<T, E>(#upper, uplo, diag, &m, &n, {a, &ia, &ja, desca, true},             \
                               {b, &ib, &jb, descb, true}, context);                               \
  }                                                                                                \
  [[gnu::visibility("default")]] void lower##_(                                                    \
      const char* uplo, const char* diag, const FortranInt* m, const FortranInt* n,                \
      CUBIST_PBLAS_MATRIX(const E, a), CUBIST_PBLAS_MATRIX(E, b), const FortranInt* context)       \
  {                                                                                                \
    C##lower(uplo, diag, *m, *n, a, *ia, *ja, desca, b, *ib, *jb, descb, *context);                \
  }                                                                                                \
  CUBIST_PBLAS_NAMES(lower, upper,                                                                 \
                     (const char*, const char*, const FortranInt*, const FortranInt*, const E*,    \
                      const FortranInt*, const FortranInt*, const FortranInt*, E*,                 \
                      const FortranInt*, const FortranInt*, const FortranInt*, const FortranInt*))
