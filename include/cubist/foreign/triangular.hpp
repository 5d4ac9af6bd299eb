// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Products with one triangle of a matrix, and rank-k updates of one triangle, for distributed
// matrices of any layouts, like ScaLAPACK's p?symm, p?hemm, p?trmm, p?trsm, p?syrk and p?herk:
//
//   symm    C (M, N) = alpha A B + beta C, or alpha B A + beta C     A symmetric or Hermitian
//   trmm    B (M, N) = alpha op(A) B, or alpha B op(A)               A triangular
//   trsm    B (M, N) = alpha op(A)^-1 B, or alpha B op(A)^-1         A triangular
//   syrk    a triangle of C (N, N) = alpha op(A) op(A)^T + beta C, or with the adjoint
//
// For trmm and trsm, the triangle is halved recursively, down to blocks of the diagonal:
//
//        | A1     |      trsm, A on the left:  1. B1 = A1^-1 B1     trmm:  1. B2 = A2 B2
//    A = |        |                            2. B2 -= A21 B1             2. B2 += A21 B1
//        | A21 A2 |                            3. B2 = A2^-1 B2            3. B1 = A1 B1
//
// Steps 1 and 3 recurse; step 2 is a product of rectangles. If op(A) is an upper triangle, or A is
// on the right, the halves change places. So nothing is multiplied by the zeros outside the
// triangle. BLAS solves or multiplies a block of the diagonal: each rank gets the block's triangle,
// and an equal part of the columns of B (rows, if A is on the right), which are independent.
//
// symm is one product: the triangle goes to where the product needs it, and its transpose to where
// the product needs the other triangle.
//
// syrk computes C on a grid of p x q ranks in a block-cyclic layout. Each rank computes the part of
// its blocks inside the triangle. For that it gets the rows of op(A) with the indices of its rows
// and of its columns of C, some columns of op(A) at a time. If K is so much larger than N that this
// would be more, each rank gets an equal part of the columns of op(A) instead, and the sums are
// reduced.
//
// Elements sent. trmm and trsm, halved L times: those of the products, which are 2^(l-1) of A / 2^l
// by B / 2^l for l = 1 ... L, so A is sent half as often, and B L / 2 times as often, as in one
// product of the matrices. For the blocks, each rank also sends, on average, M^2 / 2^(L+1) of A and
// 2 M N / P of B. symm: as many as a product of full matrices. If that product would find A in
// place, symm also sends the missing triangle, N^2 / 2 (1 - 1 / q) elements on a grid of q x q
// ranks. For syrk, each rank receives N K / p + N K / q elements, less those that it holds, as in a
// product that leaves C in place.
//
// symm cannot send less without sending C: a rank that computes N / q rows of C = A B has to
// receive the elements of these rows of A that it does not hold. If only one triangle is stored,
// rank (r, c) with r != c holds half as many of them as of a full matrix.
//
// Source: Elmroth, Gustavson, Jonsson, Kågström, "Recursive blocked algorithms and hybrid data
// structures for dense matrix library software", SIAM Review 46 (2004), section 3.

#include <algorithm>
#include <array>
#include <cstddef>
#include <type_traits>
#include <utility>
#include <vector>

#include "cubist/comm/communicator.hpp"
#include "cubist/comm/reduction.hpp"
#include "cubist/core/block.hpp"
#include "cubist/core/error.hpp"
#include "cubist/core/matrix_view.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/engine/engine.hpp"
#include "cubist/engine/shapes.hpp"
#include "cubist/foreign/add.hpp"
#include "cubist/foreign/block_cyclic.hpp"
#include "cubist/foreign/convert.hpp"
#include "cubist/foreign/copy_blocks.hpp"
#include "cubist/foreign/distribution.hpp"
#include "cubist/foreign/foreign_matrix.hpp"
#include "cubist/foreign/index_set.hpp"
#include "cubist/foreign/matrix_part.hpp"
#include "cubist/foreign/redistribute.hpp"
#include "cubist/matmul/dist_matmul.hpp"
#include "cubist/memory/huge_pages.hpp"
#include "cubist/scheme/mesh.hpp"

namespace cubist::CUBIST_ABI
{

namespace detail
{

[[nodiscard]] constexpr MatrixPart part_of(Triangle t)
{
  return t == Triangle::lower ? MatrixPart::lower : MatrixPart::upper;
}

/// Returns the transpose that completes a symmetric or Hermitian matrix.
[[nodiscard]] constexpr Op mirror_of(Symmetry s)
{
  return s == Symmetry::hermitian ? Op::adjoint : Op::transpose;
}

/// A matrix that is cut into two halves.
/// @tparam X has shape() and submatrix(i, j, shape)
template <class X>
struct Halves
{
  X first;
  X second;

  /// @param side left: rows [0, h) and the rest, right: columns
  Halves(const X& x, Side side, std::size_t h)
      : first{side == Side::left ? x.submatrix(0, 0, {h, x.shape().cols})
                                 : x.submatrix(0, 0, {x.shape().rows, h})},
        second{side == Side::left ? x.submatrix(h, 0, {x.shape().rows - h, x.shape().cols})
                                  : x.submatrix(0, h, {x.shape().rows, x.shape().cols - h})}
  {
  }
};

/// The blocks of a triangle: two on the diagonal, and the one between them.
template <class X>
struct TriangleBlocks
{
  X first;
  X second;
  X between;

  TriangleBlocks(const X& x, Triangle t, std::size_t h)
      : first{x.submatrix(0, 0, {h, h})},
        second{x.submatrix(h, h, {x.shape().rows - h, x.shape().rows - h})},
        between{t == Triangle::lower ? x.submatrix(h, 0, {x.shape().rows - h, h})
                                     : x.submatrix(0, h, {h, x.shape().rows - h})}
  {
  }
};

/// Whether op(A)^-1 B starts by solving for the first half of B.
[[nodiscard]] constexpr bool solves_first_half_first(const TriangularOperand& how)
{
  const bool is_lower = (how.triangle == Triangle::lower) == (how.op == Op::none);
  return is_lower == (how.side == Side::left);
}

// The recursions into halves. `Steps` has
//
//   cut(n)                                   the rows of the first half of a triangle of n rows, or
//                                            0 if it is one block
//   multiply(op_a, op_b, alpha, a, b, beta, c)
//   triangular(solves, how, alpha, a, b)     for one block

/// Computes C = alpha op(A) B + beta C, or with A on the right.
template <class Steps, class T, class A, class B, class C>
void multiply_from(Steps& steps, Side side, Op op, T alpha, const A& a, const B& b, T beta,
                   const C& c)
{
  if (side == Side::left)
    steps.multiply(op, Op::none, alpha, a, b, beta, c);
  else
    steps.multiply(Op::none, op, alpha, b, a, beta, c);
}

/// Computes B = alpha op(A)^-1 B if `solves`, otherwise B = alpha op(A) B, or with A on the right.
template <class Steps, class T, class A, class B>
void triangular_by_halves(Steps& steps, bool solves, const TriangularOperand& how, T alpha,
                          const A& a, const B& b)
{
  const std::size_t h = steps.cut(a.shape().rows);
  if (h == 0) return steps.triangular(solves, how, alpha, a, b);
  const TriangleBlocks<A> blocks{a, how.triangle, h};
  const Halves<B> halves{b, how.side, h};
  const bool in_order = solves == solves_first_half_first(how);
  const B& known = in_order ? halves.first : halves.second;
  const B& rest = in_order ? halves.second : halves.first;
  const auto half = [&](bool is_first, T factor, const B& of_b) {
    triangular_by_halves(steps, solves, how, factor, is_first ? blocks.first : blocks.second, of_b);
  };
  half(in_order, alpha, known);
  if (solves)
    multiply_from(steps, how.side, how.op, T{-1}, blocks.between, known, alpha, rest);
  else
    multiply_from(steps, how.side, how.op, alpha, blocks.between, rest, T{1}, known);
  half(!in_order, solves ? T{1} : alpha, rest);
}

/// Computes the part of a rank's C that is inside a triangle. Halving the rank's rows and columns
/// finds the rectangles inside. Small blocks that the diagonal cuts are multiplied whole, and only
/// their elements inside are added to C.
class TriangleOfProduct
{
 public:
  TriangleOfProduct() = default;
  /// @param rows, cols the indices of the rank's rows and columns, in order
  TriangleOfProduct(MatrixPart part, std::vector<std::size_t> rows, std::vector<std::size_t> cols)
      : is_lower_{part == MatrixPart::lower},
        rows_{std::move(rows)},
        cols_{std::move(cols)}
  {
  }

  /// @param multiply multiply(row, column, beta, out) computes out = product + beta out, where the
  /// view `out` of C begins at this row and column
  template <class T, class F>
  void multiply(T beta, MatrixView<T> c, const F& multiply) const
  {
    multiply_inside(0, 0, beta, c, multiply);
  }

 private:
  template <class T, class F>
  void multiply_inside(std::size_t row, std::size_t col, T beta, MatrixView<T> c,
                       const F& multiply) const
  {
    if (c.size() == 0) return;
    constexpr std::size_t smallest = 32;
    const auto [rows, cols] = c.shape();
    const std::size_t top = rows_[row];
    const std::size_t bottom = rows_[row + rows - 1];
    const std::size_t left = cols_[col];
    const std::size_t right = cols_[col + cols - 1];
    if (is_lower_ ? bottom < left : top > right) return;
    if (is_lower_ ? top >= right : bottom <= left) return multiply(row, col, beta, c);
    if (rows > smallest && rows >= cols)
    {
      const std::size_t h = pad(rows / 2, smallest);
      multiply_inside(row, col, beta, c.block(0, 0, {h, cols}), multiply);
      multiply_inside(row + h, col, beta, c.block(h, 0, {rows - h, cols}), multiply);
      return;
    }
    if (cols > smallest)
    {
      const std::size_t h = pad(cols / 2, smallest);
      multiply_inside(row, col, beta, c.block(0, 0, {rows, h}), multiply);
      multiply_inside(row, col + h, beta, c.block(0, h, {rows, cols - h}), multiply);
      return;
    }
    std::array<T, smallest * smallest> values;
    const MatrixView<T> whole{values.data(), c.shape()};
    multiply(row, col, T{}, whole);
    const Combine<T> combine{T{1}, false, beta};
    const auto first = cols_.begin() + static_cast<std::ptrdiff_t>(col);
    const auto last = first + static_cast<std::ptrdiff_t>(cols);
    for (std::size_t i = 0; i < rows; ++i)
    {
      const std::size_t of_row = rows_[row + i];
      const auto cut =
          is_lower_ ? std::upper_bound(first, last, of_row) : std::lower_bound(first, last, of_row);
      const auto before = static_cast<std::size_t>(cut - first);
      const std::size_t begin = is_lower_ ? 0 : before;
      copy_rows(whole.row(i) + begin, 0, c.row(i) + begin, 0, 1, is_lower_ ? before : cols - before,
                combine);
    }
  }

  bool is_lower_ = true;
  std::vector<std::size_t> rows_;
  std::vector<std::size_t> cols_;
};

/// A matrix in temporary memory.
template <Scalar T>
class TemporaryMatrix
{
 public:
  /// Makes a matrix that every rank holds in full.
  template <Communicator C>
  [[nodiscard]] static TemporaryMatrix replicated(const C& world, Shape shape)
  {
    return {world, BlockCyclic{.shape = shape,
                               .block = {std::max<std::size_t>(shape.rows, 1),
                                         std::max<std::size_t>(shape.cols, 1)},
                               .grid = {1, world.size()},
                               .col_source = -1,
                               .order = StorageOrder::row_major}};
  }
  /// Makes a matrix of which each rank holds a block of columns, or of rows.
  template <Communicator C>
  [[nodiscard]] static TemporaryMatrix cut(const C& world, Shape shape, bool by_columns)
  {
    const int n = world.size();
    return {world, one_block_a_rank(shape, by_columns ? ProcessGrid{1, n} : ProcessGrid{n, 1})};
  }

  [[nodiscard]] const ForeignMatrix<T>& matrix() const { return matrix_; }
  /// Makes a matrix of any distribution.
  template <Communicator C>
  TemporaryMatrix(const C& world, const Distribution& d)
      : shape_{d.local_arrays(world.rank()) == 0 ? Shape{} : d.local_shape(world.rank())},
        memory_(shape_.size()),
        matrix_{world, d, memory_.data(), leading_dimension(d.local_order(world.rank()))}
  {
  }

  /// The elements of this rank.
  /// @pre they are stored by rows
  [[nodiscard]] MatrixView<T> local() { return {memory_.data(), shape_}; }
  /// The transpose of the elements of this rank.
  /// @pre they are stored by columns
  [[nodiscard]] MatrixView<T> transposed() { return {memory_.data(), {shape_.cols, shape_.rows}}; }
  [[nodiscard]] std::vector<T, HugePages<T>>& memory() { return memory_; }

 private:
  [[nodiscard]] std::size_t leading_dimension(StorageOrder order) const
  {
    return std::max<std::size_t>(order == StorageOrder::row_major ? shape_.cols : shape_.rows, 1);
  }

  Shape shape_;
  std::vector<T, HugePages<T>> memory_;
  ForeignMatrix<T> matrix_;
};

/// A temporary matrix whose elements are in flight while its ranks compute.
template <Communicator C, Scalar T>
class MatrixInFlight
{
 public:
  /// Starts to copy a part of op(from), which may change after that.
  MatrixInFlight(C& world, const ForeignMatrix<const T>& from, Op op, const Distribution& d,
                 MatrixPart part = MatrixPart::all)
      : matrix_{world, d},
        conversion_{world, from, matrix_.matrix(), {op}, part}
  {
  }

  void advance() { conversion_.advance(); }
  /// Returns the matrix when it is complete.
  [[nodiscard]] TemporaryMatrix<T>& finish()
  {
    conversion_.finish();
    return matrix_;
  }

 private:
  TemporaryMatrix<T> matrix_;
  ConversionInFlight<C, T> conversion_;
};

/// One block of the diagonal, and the matrix that it multiplies, shared out among all ranks of
/// `world`.
template <Communicator C, Scalar T>
struct SharedOutBlock
{
  TemporaryMatrix<T> a;  // the triangle, whole on each rank
  TemporaryMatrix<T> b;  // cut among the ranks

  SharedOutBlock(C& world, Side side, Triangle triangle, const ForeignMatrix<const T>& from_a,
                 const ForeignMatrix<const T>& from_b)
      : a{TemporaryMatrix<T>::replicated(world, from_a.shape())},
        b{TemporaryMatrix<T>::cut(world, from_b.shape(), side == Side::left)}
  {
    cubist::add(world, from_a, a.matrix(), ConversionOptions<T>{}, part_of(triangle));
    cubist::redistribute(world, from_b, b.matrix());
  }
};

/// Computes that, with one block of the diagonal.
template <class E, Communicator C, Scalar T>
void multiply_block(const E& engine, C& world, bool solves, const TriangularOperand& how, T alpha,
                    const ForeignMatrix<const T>& a, const ForeignMatrix<T>& b)
{
  SharedOutBlock<C, T> block{world, how.side, how.triangle, a, b};
  const MatrixView<const T> triangle{block.a.local()};
  if (solves)
    engine.trsm(how, alpha, triangle, block.b.local());
  else
    engine.trmm(how, alpha, triangle, block.b.local());
  cubist::redistribute(world, block.b.matrix(), b);
}

/// Sets the imaginary parts of this rank's elements (i, i) to 0.
template <class T>
void make_diagonal_real(const ForeignMatrix<T>& m)
{
  if constexpr (ComplexScalar<T>)
  {
    const Patches patches = m.distribution().patches();
    for (std::size_t k = patches.begin(m.rank()); k < patches.end(m.rank()); ++k)
    {
      const Patch& p = patches.all[k];
      const LocalArray<T>& a = m.arrays()[p.array];
      const auto one =
          p.row_major ? std::pair{a.ld, std::size_t{1}} : std::pair{std::size_t{1}, a.ld};
      for_each_common_run(patches.rows(p), patches.cols(p),
                          [&](std::size_t, std::size_t size, std::size_t row, std::size_t col) {
                            for (std::size_t i = 0; i < size; ++i)
                              a.data[(row + i) * one.first + (col + i) * one.second].imag(0);
                          });
    }
  }
}

/// Sets `to` to the whole matrix, of which `a` holds one triangle. `to` may have replicas.
template <Communicator C, Scalar T>
void complete(C& world, const SymmetricOperand& how, const ForeignMatrix<const T>& a,
              const ForeignMatrix<T>& to)
{
  const MatrixPart stored = part_of(how.triangle);
  cubist::add(world, a, to, ConversionOptions<T>{}, stored);
  cubist::add(world, a, to, ConversionOptions<T>{mirror_of(how.symmetry)}, transposed(stored));
  if (how.symmetry == Symmetry::hermitian) make_diagonal_real(to);
}

/// Computes a triangle of C. Each rank gets a part of the columns of op(A).
template <class E, Communicator C, Scalar T>
void syrk_by_columns(const E& engine, C& world, Triangle triangle, Op op, Symmetry symmetry,
                     T alpha, const ForeignMatrix<const T>& a, T beta, const ForeignMatrix<T>& c)
{
  auto mine = TemporaryMatrix<T>::cut(world, a.shape(), op == Op::none);
  cubist::redistribute(world, a, mine.matrix());
  auto sum = TemporaryMatrix<T>::replicated(world, c.shape());
  const Op mirror = mirror_of(symmetry);
  const MatrixView<const T> in{mine.local()};
  engine.gemm(op == Op::none ? Op::none : mirror, op == Op::none ? mirror : Op::none, alpha, in, in,
              T{}, sum.local());
  world.all_reduce(sum.memory());
  cubist::add(world, sum.matrix(), c, {Op::none, T{1}, beta}, part_of(triangle));
}

/// Computes a triangle of C (N, N) = alpha op(A) op(A)^T + beta C in a block-cyclic layout.
/// @param layout the layout of an (N, N) matrix
template <class E, Communicator C, Scalar T>
void syrk_on_grid(const E& engine, C& world, const BlockCyclic& layout, Triangle triangle, Op op,
                  Symmetry symmetry, T alpha, const ForeignMatrix<const T>& a, T beta,
                  const ForeignMatrix<T>& c)
{
  const auto [n, k] = op_shape(op, a.shape());
  const auto rows = row_sets(layout);
  const auto cols = col_sets(layout);
  const double received = 1.0 / double(rows.size()) + 1.0 / double(cols.size());
  if (double(k) * (received - 1.0 / world.size()) > 2 * double(n))
    return syrk_by_columns(engine, world, triangle, op, symmetry, alpha, a, beta, c);

  const ProcessGrid& grid = layout.grid;
  BlockCyclic by_rows{layout};
  by_rows.order = StorageOrder::row_major;
  TemporaryMatrix<T> out{world, by_rows};
  TriangleOfProduct triangle_of_out;
  if (world.rank() < grid.size())
    triangle_of_out = {part_of(triangle), indices(set_of(rows, grid.row(world.rank()))),
                       indices(set_of(cols, grid.col(world.rank())))};
  constexpr std::size_t least_depth = 256;
  constexpr std::size_t most_bytes = std::size_t{128} << 20;  // that a rank receives at a time
  const std::size_t per_column = ceil_div(n, rows.size()) + ceil_div(n, cols.size());
  const std::size_t depth = std::max(most_bytes / sizeof(T) / per_column, least_depth);
  const Op mirror = mirror_of(symmetry);
  for (std::size_t at = 0; at < k; at += depth)
  {
    const std::size_t size = std::min(depth, k - at);
    const auto all = std::vector{IndexSet::interval(0, size)};
    TemporaryMatrix<T> x{world, {{n, size}, grid, StorageOrder::row_major, rows, all}};
    TemporaryMatrix<T> w{world, {{size, n}, grid, StorageOrder::row_major, all, cols}};
    const auto slab =
        op == Op::none ? a.submatrix(0, at, {n, size}) : a.submatrix(at, 0, {size, n});
    cubist::redistribute(world, slab, x.matrix(), {op == Op::none ? Op::none : mirror});
    cubist::redistribute(world, x.matrix(), w.matrix(), {mirror});
    const MatrixView<const T> of_x{x.local()};
    const MatrixView<const T> of_w{w.local()};
    triangle_of_out.multiply(at == 0 ? T{} : T{1}, out.local(),
                             [&](std::size_t row, std::size_t col, T factor, MatrixView<T> part) {
                               engine.gemm(Op::none, Op::none, alpha,
                                           of_x.block(row, 0, {part.rows(), size}),
                                           of_w.block(0, col, {size, part.cols()}), factor, part);
                             });
  }
  cubist::add(world, out.matrix(), c, {Op::none, T{1}, beta}, part_of(triangle));
}

/// Returns a layout for a matrix (n, n) on all ranks: a grid that is as square as possible, and
/// small blocks.
[[nodiscard]] inline BlockCyclic square_layout(std::size_t n, int ranks)
{
  ProcessGrid grid{1, ranks};
  for (int rows = 1; rows * rows <= ranks; ++rows)
    if (ranks % rows == 0) grid = {rows, ranks / rows};
  const std::size_t block = std::clamp<std::size_t>(n / static_cast<std::size_t>(4 * ranks), 1, 64);
  return {.shape = {n, n}, .block = {block, block}, .grid = grid};
}

/// The steps, with products on the mesh of a scheme.
template <SchemeType S, class B, Scalar T>
class MeshSteps
{
  using M = Mesh<S, B>;
  using Engine = typename M::Engine;
  using Matmul = DistMatMul<S, B, T>;
  using In = ForeignMatrix<const T>;
  using Out = ForeignMatrix<T>;
  static_assert(in_host_memory<Engine> && SolvesTriangles<Engine, T>,
                "triangles of foreign matrices are solved in host memory; use a backend whose "
                "engine has BLAS's trmm, trsm and symm");

 public:
  /// @param n the number of rows of the triangle
  MeshSteps(const M& mesh, std::size_t n)
      : mesh_{mesh},
        block_{std::max<std::size_t>(ceil_div(n, most_blocks), least_block)}
  {
  }

  [[nodiscard]] std::size_t cut(std::size_t n) const { return n <= block_ ? 0 : n / 2; }

  void multiply(Op op_a, Op op_b, T alpha, const In& a, const In& b, T beta, const Out& c)
  {
    const std::size_t k = op_shape(op_a, a.shape()).cols;
    multiply(k, alpha, beta, c, [&](const Out& x, const Out& w) {
      cubist::redistribute(mesh_.parent(), a, x, {op_a});
      cubist::redistribute(mesh_.parent(), b, w, {op_b});
    });
  }
  void triangular(bool solves, const TriangularOperand& how, T alpha, const In& a, const Out& b)
  {
    multiply_block(mesh_.engine(), mesh_.parent(), solves, how, alpha, a, b);
  }
  void symm(const SymmetricOperand& how, T alpha, const In& a, const In& b, T beta, const Out& c)
  {
    multiply(a.shape().rows, alpha, beta, c, [&](const Out& x, const Out& w) {
      const bool is_left = how.side == Side::left;
      complete(mesh_.parent(), how, a, is_left ? x : w);
      cubist::redistribute(mesh_.parent(), b, is_left ? w : x);
    });
  }

 private:
  static constexpr std::size_t most_blocks = 8;
  static constexpr std::size_t least_block = 16;

  /// @param copy copy(x, w) fills the operands of the product, (m, k) and (k, n)
  template <class F>
  void multiply(std::size_t k, T alpha, T beta, const Out& c, F copy)
  {
    const auto [m, n] = c.shape();
    typename Matmul::Input x{mesh_, {m, k}};
    typename Matmul::Weight w{mesh_, {k, n}};
    typename Matmul::Output y{mesh_, {m, n}};
    copy(Out::of(x.view()), Out::of(w.view()));
    if (mesh_.active()) Matmul{mesh_, {m, n, k}}.forward(x, w, y);
    cubist::redistribute(std::as_const(y), c, {Op::none, alpha, beta});
  }

  const M& mesh_;
  std::size_t block_;
};

/// Computes B = alpha B for this rank's elements. If alpha is 0, they are overwritten.
template <Scalar T>
void scale(T alpha, const ForeignMatrix<T>& b, MatrixPart part = MatrixPart::all)
{
  scale_own(b, part, Combine<T>{T{}, false, alpha});
}

/// Computes B = alpha op(A)^-1 B if `solves`, otherwise B = alpha op(A) B, or with A on the right.
template <SchemeType S, class B, Scalar T>
void triangular(const Mesh<S, B>& mesh, bool solves, const TriangularOperand& how, T alpha,
                const ForeignMatrix<const T>& a, const ForeignMatrix<T>& b)
{
  require_square_factor(how.side, a.shape(), b.shape());
  if (b.shape().size() == 0) return;
  if (alpha == T{}) return scale(T{}, b);
  MeshSteps<S, B, T> steps{mesh, a.shape().rows};
  triangular_by_halves(steps, solves, how, alpha, a, b);
}

}  // namespace detail

/// Computes C = alpha A B + beta C, or C = alpha B A + beta C, where A is symmetric or Hermitian,
/// with the products of a scheme on the mesh. Matrices may be distributed in any way over the ranks
/// of the mesh's parent, which must all call it. The other triangle of A is not read. C is not read
/// if beta is 0, and A and B are not read if alpha is 0.
/// @pre C shares no memory with A or B
/// @throws on all ranks ShapeError unless the shapes fit, MeshError for a matrix on another
/// communicator
template <SchemeType S, class B, Scalar T>
void symm(const Mesh<S, B>& mesh, const SymmetricOperand& how, std::type_identity_t<T> alpha,
          const ForeignMatrix<const std::type_identity_t<T>>& a,
          const ForeignMatrix<const std::type_identity_t<T>>& b, std::type_identity_t<T> beta,
          const ForeignMatrix<T>& c)
{
  require_square_factor(how.side, a.shape(), c.shape());
  require_shape(b.shape(), c.shape());
  if (c.shape().size() == 0) return;
  if (alpha == T{}) return detail::scale(beta, c);
  detail::MeshSteps<S, B, T>{mesh, a.shape().rows}.symm(how, alpha, a, b, beta, c);
}

/// Computes B = alpha op(A) B, or B = alpha B op(A), where A is triangular, with the products of a
/// scheme on the mesh. All ranks of the mesh's parent call it. The other triangle of A is not read,
/// and nothing of A and B is read if alpha is 0.
/// @pre B shares no memory with A
/// @throws on all ranks ShapeError unless the shapes fit, MeshError for a matrix on another
/// communicator
template <SchemeType S, class B, Scalar T>
void trmm(const Mesh<S, B>& mesh, const TriangularOperand& how, std::type_identity_t<T> alpha,
          const ForeignMatrix<const std::type_identity_t<T>>& a, const ForeignMatrix<T>& b)
{
  detail::triangular(mesh, false, how, alpha, a, b);
}

/// Solves op(A) X = alpha B, or X op(A) = alpha B, where A is triangular, with the products of a
/// scheme on the mesh; B becomes X. All ranks of the mesh's parent call it. The other triangle of A
/// is not read, and nothing of A and B is read if alpha is 0.
/// @pre B shares no memory with A
/// @throws on all ranks ShapeError unless the shapes fit, MeshError for a matrix on another
/// communicator
template <SchemeType S, class B, Scalar T>
void trsm(const Mesh<S, B>& mesh, const TriangularOperand& how, std::type_identity_t<T> alpha,
          const ForeignMatrix<const std::type_identity_t<T>>& a, const ForeignMatrix<T>& b)
{
  detail::triangular(mesh, true, how, alpha, a, b);
}

/// Computes a triangle of C (N, N) = alpha A A^T + beta C for A (N, K), or alpha A^T A + beta C for
/// A (K, N) if op is not Op::none. With Symmetry::hermitian, the adjoint replaces the transpose,
/// and the diagonal of C becomes real. The other triangle of C is neither read nor written. All
/// ranks of the mesh's parent call it.
/// @pre C shares no memory with A; for a Hermitian C, alpha and beta are real
/// @throws on all ranks ShapeError unless the shapes fit, MeshError for a matrix on another
/// communicator
template <SchemeType S, class B, Scalar T>
void syrk(const Mesh<S, B>& mesh, Triangle triangle, Op op, Symmetry symmetry,
          std::type_identity_t<T> alpha, const ForeignMatrix<const std::type_identity_t<T>>& a,
          std::type_identity_t<T> beta, const ForeignMatrix<T>& c)
{
  const std::size_t k = syrk_size(op, a.shape(), c.shape()).k;
  if (alpha == T{} || k == 0)
    detail::scale(beta, c, detail::part_of(triangle));
  else if (c.shape().size() > 0)
  {
    auto& world = mesh.parent();
    detail::syrk_on_grid(mesh.engine(), world, detail::square_layout(c.shape().rows, world.size()),
                         triangle, op, symmetry, alpha, a, beta, c);
  }
  if (symmetry == Symmetry::hermitian) detail::make_diagonal_real(c);
}

}  // namespace cubist::CUBIST_ABI
