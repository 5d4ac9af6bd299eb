// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The product where ranks can read and write each other's memory: each rank, or as many as there
// are cores for all, multiplies straight into blocks of the result, over the pieces of the operands
// that this needs, read where they lie.
//
//   X (M, K), W (K, N), Y (M, N): any layouts
//
//   C = A B, for Y = X W, dX = dY W^T and dW = X^T dY alike:
//   1. everyone exposes its blocks of A, B and C, as far as others need them;
//   2. C(rows, cols) += A(rows, inner) B(inner, cols) for all pieces in my part of the work
//      (work_assignment.hpp says which that is);
//   3. replicas copy each other's shares of C, or owners take what workers have made in rooms.
//
// In memory: as a rule nothing; with rooms, C once more, cut among the workers, and where small
// pieces are put together a panel of A or B on each of them.
//
// Words: none; memory is read, not sent.
// Source: the rule of Callahan and Kennedy, "Compiling programs for distributed-memory
// multiprocessors", 1988.

#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "cubist/algorithm/direct/peer_matrix.hpp"
#include "cubist/algorithm/direct/work_assignment.hpp"
#include "cubist/comm/window.hpp"
#include "cubist/core/block.hpp"
#include "cubist/core/matrix_view.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/dist/placement.hpp"
#include "cubist/engine/functions.hpp"
#include "cubist/engine/operand.hpp"
#include "cubist/memory/leading_dimension.hpp"
#include "cubist/scheme/scheme.hpp"

namespace cubist
{

/// A plan for the three products of a layer; it has the interface of a scheme's own.
template <Scalar T, class M>
class DirectProduct
{
  using In = MatrixView<const T>;
  using Out = MatrixView<T>;
  using Placement = detail::Placement;
  using Buffer = typename M::Engine::template Buffer<T>;

 public:
  /// @pre the ranks of the mesh can expose
  DirectProduct(const M& mesh, Ops ops, const Placement& x, const Placement& w, const Placement& y)
      : mesh_{mesh}, ops_{ops}, forward_{planned(x, w, y)}, grad_input_{planned(y, w.t(), x)},
        grad_weight_{planned(x.t(), y, w)}
  {
    std::size_t of_a = 0;
    std::size_t places = 0;
    const auto need = [](std::size_t& room, Shape shape) {
      for (const bool transposed : {false, true})  // as it is stored
        room = std::max(room, elements_apart<T>(op_shape(transposed, shape)));
    };
    for (const auto* product : {&forward_, &grad_input_, &grad_weight_})
      for (const auto& t : product->plan.tiles)
      {
        if (t.a.size() > 1) need(of_a, {t.size.m, t.size.k});
        if (t.b.size() > 1) need(b_place_, {t.size.k, t.size.n});
        if (t.b.size() > 1) places = std::max(places, t.b_place + 1);
      }
    a_room_ = Buffer(of_a);
    b_room_ = Buffer(places * b_place_);
  }

  /// Y = alpha X W + beta Y
  void forward(T alpha, In x, In w, T beta, Out y)
  {
    Lent xs{world(), {x, ops_.x}, forward_.reads_a()};
    Lent ws{world(), {w, ops_.w}, forward_.reads_b()};
    multiply(forward_, alpha, xs.all(), ws.all(), beta, y);
    close(xs, ws);
    take_shares(forward_, beta, y);
    wait(xs, ws);
  }

  /// dX = alpha dY W^T + beta dX
  void grad_input(T alpha, In dy, In w, T beta, Out dx)
  {
    Lent dys{world(), dy, grad_input_.reads_a()};
    Lent ws{world(), {w, ops_.w}, grad_input_.reads_b()};
    multiply(grad_input_, alpha, dys.all(), ws.all().t(), beta, {dx, ops_.x});
    close(dys, ws);
    take_shares(grad_input_, beta, dx);
    wait(dys, ws);
  }

  /// dW = alpha X^T dY + beta dW, complete on every replica
  void grad_weight(T alpha, In x, In dy, T beta, Out dw)
  {
    Lent xs{world(), {x, ops_.x}, grad_weight_.reads_a()};
    Lent dys{world(), dy, grad_weight_.reads_b()};
    multiply(grad_weight_, alpha, xs.all().t(), dys.all(), beta, {dw, ops_.w});
    close(xs, dys);
    take_shares(grad_weight_, beta, dw);
    wait(xs, dys);
  }

  /// Both gradients.
  void backward(In x, In w, In dy, Out dx, Out dw, T beta)
  {
    Lent xs{world(), {x, ops_.x}, grad_weight_.reads_a()};
    Lent ws{world(), {w, ops_.w}, grad_input_.reads_b()};
    Lent dys{world(), dy, grad_input_.reads_a() || grad_weight_.reads_b()};
    multiply(grad_input_, T{1}, dys.all(), ws.all().t(), T{}, {dx, ops_.x});
    multiply(grad_weight_, T{1}, xs.all().t(), dys.all(), beta, {dw, ops_.w});
    close(xs, ws, dys);
    take_shares(grad_input_, T{}, dx);
    take_shares(grad_weight_, beta, dw);
    wait(xs, ws, dys);
  }

 private:
  using Communicator = typename M::Communicator;
  using Lent = detail::PeerMatrix<T, Communicator>;
  using Factor = typename Lent::Factor;
  using Pieces = std::vector<detail::OwnedTile::Piece>;

  /// One of the products, and room for what a rank makes that is not C.
  struct Planned
  {
    Planned(detail::OwnedProduct product, bool transposed)
        : plan{std::move(product)}, turned{transposed},
          room(plan.tiles.empty() ? 0 : elements_apart<T>(plan.room))
    {
    }

    // Of A and B as they are multiplied, whichever way round the plan has them.
    [[nodiscard]] bool reads_a() const { return turned ? plan.reads_b : plan.reads_a; }
    [[nodiscard]] bool reads_b() const { return turned ? plan.reads_a : plan.reads_b; }

    detail::OwnedProduct plan;
    bool turned;  // C is stored transposed
    Buffer room;
  };

  [[nodiscard]] Planned planned(const Placement& a, const Placement& b, const Placement& c) const
  {
    return {detail::owned_product(a, b, c, mesh_.rank(), world().cores(), sizeof(T)),
            c.transposed()};
  }

  using LoanToWrite =
      decltype(std::declval<Communicator&>().expose_writable(std::declval<std::span<T>>()));

  [[nodiscard]] Communicator& world() const { return mesh_.world(); }

  template <class... All>
  static void close(All&... lent)
  {
    (lent.close(), ...);
  }
  template <class... All>
  static void wait(All&... lent)
  {
    (lent.wait(), ...);
  }

  void multiply(Planned& product, T alpha, Factor a, Factor b, T beta, Operand<T> c)
  {
    if (c.transposed()) return multiply(product, alpha, b.t(), a.t(), beta, c.t());
    const auto& plan = product.plan;
    std::optional<LoanToWrite> cs;
    if (plan.writes_c) cs.emplace(world().expose_writable(c.stored().elements()));
    if (plan.rooms)
    {
      c = rows_apart(product.room.data(), plan.room);
      beta = T{};
    }
    for (const auto& t : plan.tiles)
    {
      const auto out = cs ? c.with(Out{(*cs)[t.c.rank].data(), c.stored().shape()}) : c;
      const auto left = together(a, t.a, {t.size.m, t.size.k}, a_room_.data(), t.same_a);
      const auto right =
          together(b, t.b, {t.size.k, t.size.n}, b_room_.data() + t.b_place * b_place_, t.same_b);
      cubist::multiply(mesh_.engine(), alpha, left, right, t.first ? beta : T{1},
                       out.block(t.c.i, t.c.j, {t.size.m, t.size.n}));
    }
    if (const auto& [i, j, shape] = plan.hollow; shape.size() > 0)
      cubist::multiply(mesh_.engine(), alpha, Operand<const T>{In{nullptr, {shape.rows, 0}}},
                       Operand<const T>{In{nullptr, {0, shape.cols}}}, beta, c.block(i, j, shape));
    if (!cs) return;
    cs->close();
    cs->wait();
  }

  /// A factor of a tile: where it lies, if it is one piece, else copied to `room`, if it is not
  /// there yet.
  [[nodiscard]] Operand<const T> together(Factor factor, const Pieces& pieces, Shape whole, T* room,
                                          bool there)
  {
    const auto lying = [&](const auto& p) { return factor.piece(p.at, p.to.shape); };
    const Operand<const T> first = lying(pieces.front());
    if (pieces.size() == 1) return first;
    const Operand<T> all = first.with(rows_apart(room, op_shape(first.transposed(), whole)));
    if (there) return all;
    for (const auto& p : pieces)
      mesh_.engine().copy(lying(p).stored(), all.block(p.to.i, p.to.j, p.to.shape).stored());
    return all;
  }

  /// What other ranks have made of this rank's block of C = A B + beta C.
  void take_shares(Planned& product, T beta, Out c)
  {
    const auto& plan = product.plan;
    if (!plan.shared) return;
    const auto made = [&](const T* data) {
      return plan.rooms ? rows_apart(data, plan.room) : In{data, c.shape()};
    };
    auto window = world().expose(plan.rooms ? std::span<const T>{product.room} : In{c}.elements(),
                                 plan.rooms ? elements_apart<T>(plan.room) : c.size());
    for (const auto& [from, to, shape, first] : plan.shares)
    {
      const In share = made(window[from.rank].data()).block(from.i, from.j, shape);
      const Out mine = c.block(to.i, to.j, shape);
      const T factor = first ? beta : T{1};
      if (!plan.rooms || factor == T{})
        mesh_.engine().copy(share, mine);
      else
        mesh_.engine().map(mine, detail::AddScaled<T>{factor}, share, In{mine});
    }
    window.close();
    window.wait();
  }

  M mesh_;
  Ops ops_;
  Planned forward_;
  Planned grad_input_;
  Planned grad_weight_;
  Buffer a_room_ = Buffer(0);
  Buffer b_room_ = Buffer(0);
  std::size_t b_place_ = 0;  // the elements of each place in it
};

}  // namespace cubist
