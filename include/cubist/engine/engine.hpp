// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The complete contract of an engine: the class that allocates a rank's memory and computes on it.
//
// Every engine is cheap to copy, and is default-constructed wherever a rank needs one. It works on
// views of its own memory and provides the functions of the concept `Engine`: products, copies, and
// maps and folds of small functions. These functions have no side effects, and also run on a device
// (core/host_device.hpp). An engine passes 16-bit elements to them as floats (engine/widened.hpp)
// and sums them in float; a device passes complex elements as Complex (core/complex.hpp). Each call
// checks the shapes of its operands, and throws a ShapeError unless they fit.
//
// An engine may offer more. Each optional part is a concept below, which says what its functions
// do, and `optional_parts` lists which of them an engine has. One header uses the part, and does
// without it on an engine that lacks it: the table of docs/conventions.md says which header, and
// what it does.
//
// Three constants, `in_host_memory`, `has_elements` and `row_alignment`, describe the engine's
// memory. An engine for which the values below are wrong specialises them.
//
// A class that adds something to another engine's calls, such as a trace, is an EngineDecorator
// (engine/decorator.hpp).

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <utility>

#include "cubist/core/matrix_view.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/engine/functions.hpp"

namespace cubist::CUBIST_ABI
{

// The arguments of optional functions.
struct SpanName;        // engine/span.hpp
struct AttentionShape;  // engine/attention.hpp
struct MatrixGroup;     // engine/matrix_groups.hpp
struct RepeatedWork;    // core/repeated_work.hpp
struct StoredView;      // engine/stored_weight.hpp
template <class... T>
struct MatrixTypes;  // engine/matrix_groups.hpp

/// op(A): A itself, its transpose, or its conjugate transpose.
enum class Op : std::uint8_t
{
  none,       ///< A
  transpose,  ///< A^T
  adjoint     ///< A^H
};

/// The shape of op(A) for A of shape `s`.
[[nodiscard]] constexpr Shape op_shape(bool transposed, Shape s)
{
  return transposed ? Shape{s.cols, s.rows} : s;
}
[[nodiscard]] constexpr Shape op_shape(Op op, Shape s) { return op_shape(op != Op::none, s); }

/// A triangle of a square matrix, its diagonal included.
enum class Triangle : std::uint8_t
{
  lower,  ///< (i, j) for j <= i
  upper   ///< (i, j) for j >= i
};

/// The side of a product on which a triangular or symmetric matrix stands.
enum class Side : std::uint8_t
{
  left,  ///< A B
  right  ///< B A
};

/// How the diagonal of a triangular matrix is stored.
enum class Diagonal : std::uint8_t
{
  stored,  ///< read from memory
  unit     ///< all ones, and never read
};

/// What a square matrix holds at (i, j) in the triangle that is not stored.
enum class Symmetry : std::uint8_t
{
  symmetric,  ///< A(j, i)
  hermitian   ///< the conjugate of A(j, i); imaginary parts on the diagonal count as 0
};

/// How a triangular matrix A multiplies another one: op(A) B, or B op(A). Only its triangle is
/// read.
struct TriangularOperand
{
  Side side = Side::left;                ///< the side of op(A)
  Triangle triangle = Triangle::lower;   ///< the triangle of A, not of op(A)
  Op op = Op::none;                      ///< the operation on A
  Diagonal diagonal = Diagonal::stored;  ///< whether the diagonal is read
};

/// How a symmetric or Hermitian matrix A multiplies another one: A B, or B A. Only one triangle is
/// read.
struct SymmetricOperand
{
  Side side = Side::left;                   ///< the side of A
  Triangle triangle = Triangle::lower;      ///< the triangle that is read
  Symmetry symmetry = Symmetry::symmetric;  ///< what the other triangle holds
};

/// Lists of rows to sum, in an engine's memory. Row targets[l] of the result is the sum of list l,
/// which holds rows[k] for k in [starts[l], starts[l + 1]).
struct RowLists
{
  std::size_t count = 0;  ///< the number of lists
  /// The index of each list's first row in `rows`, followed by the length of `rows`: count + 1
  /// numbers.
  const int* starts = nullptr;
  const int* rows = nullptr;
  const int* targets = nullptr;  // all different
};

// clang-format off

/// What every engine provides.
template <class E>
concept Engine = std::copyable<E> && std::default_initializable<E> &&
                 requires(E e, MatrixView<double> out, MatrixView<const double> in, double alpha,
                          void (*write)(double&, double&, double), double (*f)(double),
                          double (*at)(std::size_t, std::size_t, double),
                          double (*(*of_row)(std::size_t))(double),
                          double (*combine)(double, double),
                          detail::ValueAndTerm<double, double> (*both)(std::size_t, std::size_t,
                                                                       double),
                          const RowLists& lists) {
                   typename E::template Buffer<double>;  // (n): n zeros; data(), size()
                   // out = alpha op(in) op(in) + beta out
                   e.gemm(Op::none, Op::transpose, alpha, in, in, alpha, out);
                   e.copy(in, out);
                   e.fill(out, alpha);
                   e.upload(in, out);    // from host memory
                   e.download(in, out);  // to host memory
                   // f(m(i, j), …), which may write to elements that are not const
                   e.for_each(write, out, out, in);
                   // out(i, j) = f(in(i, j), …), or f(i, j, in(i, j), …)
                   e.map(out, f, in);
                   e.map_indexed(out, at, in);
                   // out(i, j) = f(i)(in(i, j), …)
                   e.map_rows(out, of_row, in);
                   // as map(out, f, in…), and sums(0, j) = sum over i of out(i, j)
                   e.map_sums(out, out, f, in);
                   // out(0, j) = sum over i of in(i, j)
                   e.column_sums(in, out);
                   // out(targets[l], :) = the sum of the rows of `in` in list l, or += that sum,
                   // which is complete and rounded before it is added
                   e.sum_rows(in, lists, out, false);
                   // out(i, 0) = init combined with f(i, j, in(i, j), …) for all j, in an order
                   // that is the same on every run
                   e.row_fold(out, alpha, combine, at, in);
                   // as row_fold, but over all rows and columns, and returned to the host
                   { e.fold(alpha, combine, at, in) } -> std::same_as<double>;
                   // f returns values and terms: out(i, j) = the value, and the terms are folded
                   // as by fold
                   { e.map_fold(alpha, combine, out, both, in) } -> std::same_as<double>;
                   e.view(out);  // what `local()` returns to users
                 };

namespace detail
{

/// Engines that show the parts of a program, in a trace or to a profiler. A part ends before the
/// parts that contain it.
template <class E>
concept ShowsSpans = requires(const E& e, const SpanName& name) {
  e.begin_span(name);
  e.end_span();
};

/// Engines whose library computes products of one size in one call, which is faster for small
/// matrices on a GPU: c[i] = alpha op(a[i]) op(b[i]) + beta c[i].
template <class E, class T>
concept MultipliesBatches =
    requires(const E& e, T alpha, std::span<const MatrixView<const T>> in,
             std::span<const MatrixView<T>> out) {
      e.gemm_batch(Op::none, Op::none, alpha, in, in, alpha, out);
    };

/// Engines that compute one triangle of a symmetric product of elements T, as BLAS's syrk does: out
/// = alpha op(in) op(in)^T + beta out. Elements outside the triangle are neither read nor written.
template <class E, class T>
concept ComputesTriangles = requires(const E& e, T alpha, MatrixView<const T> in,
                                     MatrixView<T> out) {
  e.syrk(Triangle::lower, Op::transpose, alpha, in, alpha, out);
};

/// Engines that multiply by a weight stored in fewer bits than an element T has: out = in W, summed
/// in Accumulator<T>.
template <class E, class T>
concept ReadsStoredWeights = requires(const E& e, MatrixView<const T> in, const StoredView& w,
                                      MatrixView<T> out) {
  e.multiply_stored(in, w, out);
};

/// Engines that multiply by a matrix A of elements T, and read one triangle of it, as BLAS does:
///
///   trmm   b = alpha op(A) b, or alpha b op(A), for a triangular A
///   trsm   as trmm, with the inverse of op(A)
///   symm   out = alpha A in + beta out, or alpha in A + beta out, for a symmetric or Hermitian A
template <class E, class T>
concept SolvesTriangles = requires(const E& e, T alpha, MatrixView<const T> in, MatrixView<T> out,
                                   const TriangularOperand& triangular,
                                   const SymmetricOperand& symmetric) {
  e.trmm(triangular, alpha, in, out);
  e.trsm(triangular, alpha, in, out);
  e.symm(symmetric, alpha, in, in, alpha, out);
};

/// Engines whose library adds a bias to a product, and applies a function to it, as it writes the
/// result. Both functions return false for a call that they do not support, and then compute
/// nothing.
///
///   bool fused_affine(x, w, b, z)        Z = X W + b
///   bool fused_affine(x, w, b, f, z, y)  Z = X W + b, Y = f(Z)
///
///   X (M, K)    W (K, N)    b (1, N)    Z, Y (M, N)
template <class E, class T>
concept FusesAffine = requires(const E& e, MatrixView<const T> in, MatrixView<T> out, Same f) {
  { e.fused_affine(in, in, in, out) } -> std::same_as<bool>;
  { e.fused_affine(in, in, in, f, out, out) } -> std::same_as<bool>;
};

/// Engines that compute attention on elements T in one pass, without a matrix of scores in memory.
/// Both functions return false for sizes or strides that they do not support, and then compute
/// nothing.
///
///   bool fused_attention(s, q, k, v, o, l)
///   bool fused_attention_gradients(s, q, k, v, o, l, d_o, dq, dk, dv, d)
///
///   Q, O, dO, dQ (B queries, H dh)    K, V, dK, dV (B key_rows, G dh), elements T
///   L, D (1, B H queries), elements Accumulator<T>: the value of query i of head h of sequence b
///                          is at (b H + h) queries + i. `fused_attention` writes L, the logarithm
///                          of the sum of exp(score); `fused_attention_gradients` reads L and
///                          overwrites D.
template <class E, class T>
concept FusesAttention = requires(const E& e, const AttentionShape& s, MatrixView<const T> in,
                                  MatrixView<T> out, MatrixView<Accumulator<T>> rows) {
  e.fused_attention(s, in, in, in, out, rows);
  e.fused_attention_gradients(s, in, in, in, in, rows, in, out, out, out, rows);
};

/// Engines that compute each row of several matrices in one launch, by a function that sums over
/// the row's columns and then maps them. The function gets `row`, with
///
///   row.index()             i
///   row.sum(f, m…)          the sum of f(m(i, j), …) over all columns j
///   row.map(out, f, in…)    out(i, j) = f(in(i, j), …)
///   row.owns(j, m…)         whether this thread, one of the row's, maps column j of m
///   row.set(values, x)      values[i] = x
///
/// passes_rows(shape) is false if several launches are faster.
template <class E>
concept PassesRows = requires(const E& e, Shape shape, void (*of_row)(int),
                              double (*(*in_row)(std::size_t))(double), MatrixView<double> out,
                              MatrixView<const double> in) {
  e.for_each_row(shape, of_row);
  { e.passes_rows(shape) } -> std::same_as<bool>;
  // out(0, j) = sum over i of f(i)(in(i, j), …)
  e.column_sums_of(in_row, out, in);
};

/// Engines that can leave a fold's result in their memory, so that the host need not wait.
template <class E>
concept FoldsInMemory = requires(const E& e, MatrixView<double> out, double init,
                                 double (*combine)(double, double),
                                 double (*at)(std::size_t, std::size_t, double),
                                 ValueAndTerm<double, double> (*both)(std::size_t, std::size_t,
                                                                      double),
                                 MatrixView<const double> in) {
  e.fold_to(out, init, combine, at, in);              // out(0, 0) = what `fold` returns
  e.map_fold_to(out, init, combine, out, both, in);  // out(0, 0) = what `map_fold` returns
};

/// Engines that capture work, and replay it at less cost to the host. The values that the work
/// reads from memory may change from one replay to the next; the values that the host passed to it
/// may not. These engines also map one function over many groups of matrices in one launch.
template <class E>
concept Captures = requires(const E& e, std::function<void()> f, typename E::Graph& graph, double* p,
                            const Add* add, const MatrixGroup* groups, std::size_t count,
                            MatrixTypes<double, const double> types) {
  // Captures the work that f enqueues, without executing it. Throws a CaptureError, and captures
  // nothing, for work that cannot be captured.
  { e.capture(f) } -> std::same_as<typename E::Graph>;
  { e.is_capturing() } -> std::same_as<bool>;
  e.before_replay(f);  // while capturing: the graph calls f before each replay
  e.set(p, 1.0);       // *p = x, enqueued like other work, for p in the engine's memory
  E::template Buffer<double>::uninitialized(1);
  // When this buffer is freed, work that was captured while it existed stays valid.
  E::template Buffer<double>::apart_from_captures(1);
  graph.replay();  // enqueues the work
  // False once memory that the work may use has been freed, except memory that it ignores.
  { graph.is_valid() } -> std::same_as<bool>;
  graph.ignore(static_cast<const void*>(p));
  // Computes f(a(i, j), b(i, j), …) for the matrices a, b, … of each group, which have these types;
  // f and the groups are in the engine's memory.
  e.for_each_in_all(add, groups, count, types);
};

/// Engines that compute nothing and only take time, such as a simulation's. After the first call
/// for some work, `repeat` takes the time that f() took, and need not call it. f may call only the
/// engine.
template <class E>
concept RemembersTimes = requires(const E& e, const RepeatedWork& work, void (*f)()) {
  e.repeat(work, f);
};

/// Engines without elements. Their background saves write nothing, and take the time of a disk that
/// all ranks share. Times are on the engine's clock.
template <class E>
concept WritesInTime = requires(const E& e, double bytes, double time) {
  { e.start_write(bytes) } -> std::same_as<double>;  // the time at which it ends
  { e.seconds() } -> std::same_as<double>;           // the time now
  e.wait_until(time);
};

/// A matrix to copy from an engine's memory to the host's. A column of these views is a byte.
struct Download
{
  MatrixView<const std::byte> from;  ///< in the engine's memory
  MatrixView<std::byte> to;          ///< in host memory

  /// The copy of a matrix of any elements, to a matrix of the same shape.
  template <class T>
  [[nodiscard]] static Download of(MatrixView<const T> from, MatrixView<T> to)
  {
    const std::size_t size = sizeof(T);
    return {{reinterpret_cast<const std::byte*>(from.data()), from.rows(), from.cols() * size,
             from.ld() * size},
            {reinterpret_cast<std::byte*>(to.data()), to.rows(), to.cols() * size,
             to.ld() * size}};
  }
};

/// Engines that copy to host memory while the host and the engine go on. `E::Downloads` prepares
/// the host memory for this until its destructor, which waits for the copies. `download_beside`
/// copies what earlier work leaves, and later work waits for the copies. Any thread may wait for
/// the copies that were started last; the wait throws their error.
template <class E>
concept DownloadsBeside = requires(const E& e, std::span<const Download> all,
                                   typename E::Downloads& downloads) {
  requires std::constructible_from<typename E::Downloads, std::span<std::byte>>;
  e.download_beside(all, downloads);
  downloads.wait();
};

/// The name of an optional part, and whether an engine has it.
using OptionalPart = std::pair<std::string_view, bool>;

/// Which of the optional parts above an engine has, for elements T where a part depends on their
/// type.
template <class E, class T = double>
inline constexpr std::array optional_parts{
    OptionalPart{"ShowsSpans", ShowsSpans<E>},
    OptionalPart{"MultipliesBatches", MultipliesBatches<E, T>},
    OptionalPart{"ComputesTriangles", ComputesTriangles<E, T>},
    OptionalPart{"ReadsStoredWeights", ReadsStoredWeights<E, T>},
    OptionalPart{"SolvesTriangles", SolvesTriangles<E, T>},
    OptionalPart{"FusesAffine", FusesAffine<E, T>},
    OptionalPart{"FusesAttention", FusesAttention<E, T>},
    OptionalPart{"PassesRows", PassesRows<E>},
    OptionalPart{"FoldsInMemory", FoldsInMemory<E>},
    OptionalPart{"Captures", Captures<E>},
    OptionalPart{"RemembersTimes", RemembersTimes<E>},
    OptionalPart{"WritesInTime", WritesInTime<E>},
    OptionalPart{"DownloadsBeside", DownloadsBeside<E>}};

/// The size of a matrix in memory, in bytes. A repeated row counts once.
template <class T>
[[nodiscard]] std::size_t bytes_of(const MatrixView<T>& m)
{
  return (m.ld() == 0 ? m.cols() : m.size()) * sizeof(T);
}

/// Enlarges an engine's buffer to at least n elements, and returns its elements. If it grows, it
/// holds zeros.
template <class Buffer>
auto* enlarge(Buffer& buffer, std::size_t n)
{
  if (buffer.size() < n) buffer = Buffer(n);
  return buffer.data();
}

/// Computes out = x + factor y. The elements of y are not read if the factor is 0. `out` may be y.
template <class E, Scalar T>
void add_scaled(const E& engine, MatrixView<const T> x, T factor, MatrixView<const T> y,
                MatrixView<T> out)
{
  if (factor == T{})
    engine.copy(x, out);
  else
    engine.map(out, AddScaled<T>{factor}, x, y);
}

}  // namespace detail

// clang-format on

/// Whether engine `E` keeps its memory on the host, where communicators and programs may access it.
template <class E>
inline constexpr bool in_host_memory = true;

/// Whether matrices of engine `E` have elements; a simulation's matrices do not.
template <class E>
inline constexpr bool has_elements = true;

/// Rows of a matrix on engine `E` should begin at multiples of this many bytes, so that products
/// are fast. A matrix whose number of columns follows from data, such as a vocabulary, is padded to
/// it.
template <class E>
inline constexpr std::size_t row_alignment = 1;

}  // namespace cubist::CUBIST_ABI
