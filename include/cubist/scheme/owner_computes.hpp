// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The product where ranks can read each other's memory: each rank multiplies straight into its own
// block of the result, over the pieces of the operands that this needs, read where they lie.
//
//   X (M, K), W (K, N), Y (M, N): any layouts
//
//   C = A B, for Y = X W, dX = dY W^T and dW = X^T dY alike:
//   1. everyone lends its blocks of A and B;
//   2. C(rows, cols) += A(rows, inner) B(inner, cols) for all pieces of A in my rows and of B in
//      my columns, in the order of the inner indices;
//   3. replicas of a block of C make a share of its rows each, and copy the others'.
//
// Nothing is gathered, and there are no partial sums: only valid elements are multiplied, each
// product of two once.
//
// Words: none; memory is read, not sent.
// Source: the rule of Callahan and Kennedy, "Compiling programs for distributed-memory
// multiprocessors", 1988.

#include <algorithm>
#include <cstddef>
#include <tuple>
#include <utility>
#include <vector>

#include "cubist/comm/lender.hpp"
#include "cubist/core/block.hpp"
#include "cubist/core/matrix_view.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/dist/holders.hpp"
#include "cubist/engine/operand.hpp"
#include "cubist/scheme/scheme.hpp"

namespace cubist
{

namespace detail
{

/// The blocks of op(A) on the ranks of a mesh.
class Placement
{
 public:
  Placement(std::vector<Block> stored, bool transposed)
      : stored_{std::move(stored)}, transposed_{transposed}
  {
  }

  [[nodiscard]] int ranks() const { return static_cast<int>(stored_.size()); }
  [[nodiscard]] bool transposed() const { return transposed_; }
  [[nodiscard]] Placement t() const { return {stored_, !transposed_}; }
  [[nodiscard]] Block operator[](int rank) const
  {
    const Block& b = stored_[static_cast<std::size_t>(rank)];
    return transposed_ ? Block{b.cols, b.rows} : b;
  }
  [[nodiscard]] auto holders() const
  {
    return detail::holders(ranks(), [this](int rank) { return (*this)[rank]; });
  }

 private:
  std::vector<Block> stored_;
  bool transposed_;
};

/// Where a piece of a matrix begins in the block of the rank that is asked for it.
struct Corner
{
  int rank = 0;
  std::size_t i = 0;
  std::size_t j = 0;
};

/// C += A B for a piece of each.
struct OwnedTile
{
  Corner a;
  Corner b;
  Corner c;
  ProductSize size;
  bool first = true;  // nothing has been written to this piece of C before
};

/// What one rank does for C = A B. Corners of C count in its stored block.
struct OwnedProduct
{
  struct Share
  {
    int rank;
    Corner corner;
    Shape shape;
  };

  std::vector<OwnedTile> tiles;
  Share mine{};
  bool shared = false;  // whether any rank has to copy what replicas made
  std::vector<Share> others;
};

/// Part i of p of a block, cut between rows.
[[nodiscard]] inline Block rows_of(const Block& whole, std::size_t i, std::size_t p)
{
  const std::size_t begin = whole.rows.valid * i / p;
  const std::size_t end = whole.rows.valid * (i + 1) / p;
  return {{whole.rows.offset + begin, end - begin, end - begin}, whole.cols};
}

[[nodiscard]] inline OwnedProduct owned_product(const Placement& a, const Placement& b,
                                                const Placement& c, int rank)
{
  // C^T = B^T A^T
  if (c.transposed()) return owned_product(b.t(), a.t(), c.t(), rank);

  OwnedProduct product;
  const Block whole = c[rank];
  Block mine;
  for (const auto& [_, replicas] : c.holders())
  {
    product.shared = product.shared || replicas.size() > 1;
    if (std::find(replicas.begin(), replicas.end(), rank) == replicas.end()) continue;
    for (std::size_t i = 0; i < replicas.size(); ++i)
    {
      const Block part = rows_of(whole, i, replicas.size());
      const OwnedProduct::Share share{
          replicas[i], {replicas[i], part.rows.offset - whole.rows.offset, 0}, part.valid()};
      if (replicas[i] == rank)
        mine = part, product.mine = share;
      else
        product.others.push_back(share);
    }
  }

  const auto holder = [rank](const std::vector<int>& replicas) {
    const bool own = std::find(replicas.begin(), replicas.end(), rank) != replicas.end();
    return own ? rank : replicas[static_cast<std::size_t>(rank) % replicas.size()];
  };
  const auto factors = b.holders();
  for (const auto& [_, a_ranks] : a.holders())
  {
    const Block in_a = a[a_ranks.front()];
    const Rectangle left = intersection(in_a, {mine.rows, in_a.cols});
    for (const auto& [__, b_ranks] : factors)
    {
      const Block in_b = b[b_ranks.front()];
      const Rectangle right = intersection(in_b, {in_a.cols, mine.cols});
      if (left.empty() || right.empty()) continue;
      product.tiles.push_back(
          {.a = {holder(a_ranks), left.i - in_a.rows.offset, right.i - in_a.cols.offset},
           .b = {holder(b_ranks), right.i - in_b.rows.offset, right.j - in_b.cols.offset},
           .c = {rank, left.i - whole.rows.offset, right.j - whole.cols.offset},
           .size = {left.shape.rows, right.shape.cols, right.shape.rows}});
    }
  }

  // Pieces come in the order of their inner indices already.
  const auto piece = [](const OwnedTile& t) { return std::tuple{t.c.i, t.c.j}; };
  std::stable_sort(product.tiles.begin(), product.tiles.end(),
                   [&](const auto& s, const auto& t) { return piece(s) < piece(t); });
  for (std::size_t i = 1; i < product.tiles.size(); ++i)
    product.tiles[i].first = piece(product.tiles[i]) != piece(product.tiles[i - 1]);
  return product;
}

/// The blocks of a matrix of layout `L`, stored with this shape, on all ranks of a mesh.
template <class L, class M>
[[nodiscard]] Placement placement(const M& mesh, Shape stored, Op op)
{
  std::vector<Block> blocks;
  for (int rank = 0; rank < mesh.size(); ++rank)
    blocks.push_back(L::template block<typename M::Axes>(stored, mesh.extents(),
                                                         mesh.coordinates(rank), mesh.quantum()));
  return {std::move(blocks), op != Op::none};
}

}  // namespace detail

/// A plan for the three products of a layer; it has the interface of a scheme's own.
template <Scalar T, class M>
class OwnerComputes
{
  using In = MatrixView<const T>;
  using Out = MatrixView<T>;
  using Placement = detail::Placement;
  using Product = detail::OwnedProduct;

 public:
  /// @pre the ranks of the mesh can lend
  OwnerComputes(const M& mesh, Ops ops, const Placement& x, const Placement& w, const Placement& y)
      : mesh_{mesh}, ops_{ops}, forward_{detail::owned_product(x, w, y, mesh.rank())},
        grad_input_{detail::owned_product(y, w.t(), x, mesh.rank())},
        grad_weight_{detail::owned_product(x.t(), y, w, mesh.rank())}
  {
  }

  /// Y = alpha X W + beta Y
  void forward(T alpha, In x, In w, T beta, Out y)
  {
    Lent xs{world(), {x, ops_.x}};
    Lent ws{world(), {w, ops_.w}};
    multiply(forward_, alpha, xs.all(), ws.all(), beta, y);
    give_back(xs, ws);
    copy_shares(forward_, y);
  }

  /// dX = alpha dY W^T + beta dX
  void grad_input(T alpha, In dy, In w, T beta, Out dx)
  {
    Lent dys{world(), dy};
    Lent ws{world(), {w, ops_.w}};
    multiply(grad_input_, alpha, dys.all(), ws.all().t(), beta, {dx, ops_.x});
    give_back(dys, ws);
    copy_shares(grad_input_, dx);
  }

  /// dW = alpha X^T dY + beta dW, complete on every replica
  void grad_weight(T alpha, In x, In dy, T beta, Out dw)
  {
    Lent xs{world(), {x, ops_.x}};
    Lent dys{world(), dy};
    multiply(grad_weight_, alpha, xs.all().t(), dys.all(), beta, {dw, ops_.w});
    give_back(xs, dys);
    copy_shares(grad_weight_, dw);
  }

  /// Both gradients.
  void backward(In x, In w, In dy, Out dx, Out dw, T beta)
  {
    Lent xs{world(), {x, ops_.x}};
    Lent ws{world(), {w, ops_.w}};
    Lent dys{world(), dy};
    multiply(grad_input_, T{1}, dys.all(), ws.all().t(), T{}, {dx, ops_.x});
    multiply(grad_weight_, T{1}, xs.all().t(), dys.all(), beta, {dw, ops_.w});
    give_back(xs, ws, dys);
    copy_shares(grad_input_, dx);
    copy_shares(grad_weight_, dw);
  }

 private:
  using Communicator = typename M::Communicator;

  /// A matrix that every rank has lent its block of.
  class Lent
  {
   public:
    /// A factor of a product: the matrix, or its transpose.
    struct Factor
    {
      Lent& lent;
      bool transposed = false;

      [[nodiscard]] Factor t() const { return {lent, !transposed}; }
      [[nodiscard]] Operand<const T> piece(detail::Corner at, Shape shape) const
      {
        const auto block =
            lent.mine_.with(In{lent.loan_[at.rank].data(), lent.mine_.stored().shape()});
        return (transposed ? block.t() : block).block(at.i, at.j, shape);
      }
    };

    Lent(Communicator& world, Operand<const T> mine)
        : mine_{mine}, loan_{world.lend(mine.stored().elements())}
    {
    }

    [[nodiscard]] Factor all() { return {*this}; }
    void close() { loan_.close(); }
    void wait() { loan_.wait(); }

   private:
    Operand<const T> mine_;
    decltype(std::declval<Communicator&>().lend(std::declval<std::span<const T>>())) loan_;
  };
  using Factor = typename Lent::Factor;

  [[nodiscard]] Communicator& world() const { return mesh_.world(); }

  void multiply(const Product& product, T alpha, Factor a, Factor b, T beta, Operand<T> c)
  {
    if (c.transposed()) return multiply(product, alpha, b.t(), a.t(), beta, c.t());
    for (const auto& t : product.tiles)
      cubist::multiply(mesh_.engine(), alpha, a.piece(t.a, {t.size.m, t.size.k}),
                       b.piece(t.b, {t.size.k, t.size.n}), t.first ? beta : T{1},
                       c.block(t.c.i, t.c.j, {t.size.m, t.size.n}));
    // Without inner indices nothing is added.
    const auto& [_, at, shape] = product.mine;
    if (product.tiles.empty())
      cubist::multiply(mesh_.engine(), alpha, Operand<const T>{In{nullptr, {shape.rows, 0}}},
                       Operand<const T>{In{nullptr, {0, shape.cols}}}, beta,
                       c.block(at.i, at.j, shape));
  }

  template <class... All>
  static void give_back(All&... lent)
  {
    (lent.close(), ...);
    (lent.wait(), ...);
  }

  void copy_shares(const Product& product, Out c)
  {
    if (!product.shared) return;
    auto loan = world().lend(In{c}.elements());
    for (const auto& [rank, at, shape] : product.others)
      mesh_.engine().copy(In{loan[rank].data(), c.shape()}.block(at.i, at.j, shape),
                          c.block(at.i, at.j, shape));
    loan.close();
    loan.wait();
  }

  M mesh_;
  Ops ops_;
  Product forward_;
  Product grad_input_;
  Product grad_weight_;
};

}  // namespace cubist
