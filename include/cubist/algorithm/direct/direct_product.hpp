// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The direct product, for ranks that can read and write each other's memory. Each rank, or as many
// ranks as there are cores, reads the blocks of its peers in place and multiplies straight into
// blocks of the result.
//
//   X (M, K), W (K, N), Y (M, N): any layouts
//
//   Each of Y = X W, dX = dY W^T and dW = X^T dY is computed as C = A B:
//   1. every rank exposes those of its blocks of A, B and C that other ranks access;
//   2. C(rows, cols) += A(rows, inner) B(inner, cols) for all pieces of the work assigned to this
//      rank (work_assignment.hpp);
//   3. each rank copies or adds up what its peers computed of its block of C.
//
// Every call returns a complete result: it synchronises the ranks, and leaves no request in flight.
//
// Memory: usually none. If workers compute in workspaces, they share memory for one more C. If
// small pieces are assembled, each worker has memory for a panel of A or B.
//
// Elements sent: none; memory is read, not sent.
// Source: the owner-computes rule, Callahan and Kennedy, "Compiling programs for distributed-memory
// multiprocessors", 1988.

#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "cubist/algorithm/direct/work_assignment.hpp"
#include "cubist/algorithm/product_plan.hpp"
#include "cubist/comm/window.hpp"
#include "cubist/core/block.hpp"
#include "cubist/core/instances.hpp"
#include "cubist/core/matrix_view.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/engine/operand.hpp"
#include "cubist/matrix/placement.hpp"
#include "cubist/memory/leading_dimension.hpp"

namespace cubist::CUBIST_ABI
{

namespace detail
{

/// A factor whose block every rank exposes (comm/window.hpp). Products read pieces of it, or of its
/// transpose, in place.
template <Scalar T, ExposesMemory C>
class PeerMatrix
{
 public:
  /// The matrix, or its transpose.
  struct Factor
  {
    PeerMatrix& matrix;
    bool transposed = false;

    [[nodiscard]] Factor t() const { return {matrix, !transposed}; }
    /// Waits until the block of `at.rank` is exposed, and returns a piece of it.
    /// @pre the matrix is read, or at.rank is this rank
    [[nodiscard]] Operand<const T> piece(Corner at, Shape shape) const
    {
      const auto stored = matrix.mine_.stored();
      const T* data = matrix.window_ ? (*matrix.window_)[at.rank].data() : stored.data();
      const auto block = matrix.mine_.with(MatrixView<const T>{data, stored.shape()});
      return (transposed ? block.t() : block).block(at.i, at.j, shape);
    }
  };

  /// @param read whether any rank reads another's block; if none does, no block is exposed and no
  /// rank waits
  PeerMatrix(C& world, Operand<const T> mine, bool read)
      : mine_{mine}
  {
    if (read) window_.emplace(world.expose(mine.stored().elements()));
  }

  [[nodiscard]] Factor all() { return {*this}; }
  /// Ends this rank's reads, without waiting.
  void close()
  {
    if (window_) window_->close();
  }
  /// Waits until no rank reads this rank's block.
  void wait()
  {
    if (window_) window_->wait();
  }

 private:
  using Window = decltype(std::declval<C&>().expose(std::declval<std::span<const T>>()));

  Operand<const T> mine_;
  std::optional<Window> window_;
};

}  // namespace detail

/// @tparam C, E the communicator and the engine, but no scheme, so that all schemes of a backend
/// share the type
template <Scalar T, ExposesMemory C, Engine E>
class DirectProduct final : public ProductPlan<T>
{
  using In = MatrixView<const T>;
  using Out = MatrixView<T>;
  using Placement = detail::Placement;
  using Buffer = typename E::template Buffer<T>;

 public:
  /// @param world the ranks of the mesh  @param x, w, y the blocks of op(X), op(W) and Y
  /// @pre world.exposes(); `world` and `engine` outlive the plan
  DirectProduct(C& world, const E& engine, Ops ops, const Placement& x, const Placement& w,
                const Placement& y)
      : world_{world},
        engine_{engine},
        ops_{ops},
        forward_{assign(x, w, y)},
        grad_input_{assign(y, w.t(), x)},
        grad_weight_{assign(x.t(), y, w)}
  {
    std::size_t a_size = 0;
    std::size_t b_slots = 0;
    const auto enlarge = [](std::size_t& size, Shape shape) {
      for (const bool transposed : {false, true})  // as it may be stored
        size = std::max(size, padded_size<T>(op_shape(transposed, shape)));
    };
    for (const auto* assigned : {&forward_, &grad_input_, &grad_weight_})
      for (const auto& p : assigned->work.products)
      {
        if (p.a.size() > 1) enlarge(a_size, {p.size.m, p.size.k});
        if (p.b.size() > 1) enlarge(b_slot_size_, {p.size.k, p.size.n});
        if (p.b.size() > 1) b_slots = std::max(b_slots, p.b_slot + 1);
      }
    a_workspace_ = Buffer(a_size);
    b_workspace_ = Buffer(b_slots * b_slot_size_);
  }

  void forward(T alpha, In x, In w, T beta, Out y) override
  {
    run(forward_, alpha, {x, ops_.x}, {w, ops_.w}, beta, y);
  }

  /// Computes dX = alpha dY op(W)^T + beta dX.
  void grad_input(T alpha, In dy, In w, T beta, Out dx) override
  {
    run(grad_input_, alpha, dy, Operand{w, ops_.w}.t(), beta, {dx, ops_.x});
  }

  /// Computes dW = alpha op(X)^T dY + beta dW.
  void grad_weight(T alpha, In x, In dy, T beta, Out dw) override
  {
    run(grad_weight_, alpha, Operand{x, ops_.x}.t(), dy, beta, {dw, ops_.w});
  }

  void backward(In x, In w, In dy, Out dx, Out dw, T beta) override
  {
    Peers xs{world_, {x, ops_.x}, grad_weight_.reads_a()};
    Peers ws{world_, {w, ops_.w}, grad_input_.reads_b()};
    Peers dys{world_, dy, grad_input_.reads_a() || grad_weight_.reads_b()};
    auto dxs = multiply(grad_input_, T{1}, dys.all(), ws.all().t(), T{}, {dx, ops_.x});
    auto dws = multiply(grad_weight_, T{1}, xs.all().t(), dys.all(), beta, {dw, ops_.w});
    xs.close(), ws.close(), dys.close();
    complete(dxs, dws);
    read_peer_parts(grad_input_, T{}, dx);
    read_peer_parts(grad_weight_, beta, dw);
    xs.wait(), ws.wait(), dys.wait();
  }

 private:
  using Peers = detail::PeerMatrix<T, C>;
  using Factor = typename Peers::Factor;
  using Pieces = std::vector<detail::BlockProduct::Piece>;
  using WritableWindow = decltype(std::declval<C&>().expose_writable(std::declval<std::span<T>>()));

  /// This rank's work for one of the products, and its workspace.
  struct Assigned
  {
    // A and B are the caller's. If C is stored transposed, the assignment is for C^T = B^T A^T.
    [[nodiscard]] bool reads_a() const { return transposed ? work.reads_b : work.reads_a; }
    [[nodiscard]] bool reads_b() const { return transposed ? work.reads_a : work.reads_b; }

    detail::WorkAssignment work;
    bool transposed;
    Buffer workspace;
  };

  [[nodiscard]] Assigned assign(const Placement& a, const Placement& b, const Placement& c) const
  {
    auto work = detail::assign_work(a, b, c, world_.rank(), world_.cores(), sizeof(T));
    const std::size_t size = work.products.empty() ? 0 : padded_size<T>(work.workspace);
    return {std::move(work), c.transposed(), Buffer(size)};
  }

  /// Computes C = alpha A B + beta C.
  void run(Assigned& assigned, T alpha, Operand<const T> a, Operand<const T> b, T beta,
           Operand<T> c)
  {
    Peers as{world_, a, assigned.reads_a()};
    Peers bs{world_, b, assigned.reads_b()};
    auto cs = multiply(assigned, alpha, as.all(), bs.all(), beta, c);
    as.close(), bs.close();
    complete(cs);
    read_peer_parts(assigned, beta, c.stored());
    as.wait(), bs.wait();
  }

  /// Computes this rank's part of C = alpha A B + beta C. Returns the window through which ranks
  /// write to blocks of C, still open, or nothing if none does.
  [[nodiscard]] std::optional<WritableWindow> multiply(Assigned& assigned, T alpha, Factor a,
                                                       Factor b, T beta, Operand<T> c)
  {
    if (c.transposed()) return multiply(assigned, alpha, b.t(), a.t(), beta, c.t());
    const auto& work = assigned.work;
    std::optional<WritableWindow> cs;
    if (work.writes_c) cs.emplace(world_.expose_writable(c.stored().elements()));
    if (work.in_workspace)
    {
      c = padded_view(assigned.workspace.data(), work.workspace);
      beta = T{};
    }
    for (const auto& p : work.products)
    {
      const auto& [m, n, k] = p.size;
      const auto c_block = cs ? c.with(Out{(*cs)[p.c.rank].data(), c.stored().shape()}) : c;
      const auto c_mn = c_block.block(p.c.i, p.c.j, {m, n});
      const auto a_mk = assemble(a, p.a, {m, k}, a_workspace_.data(), p.same_a);
      T* const b_workspace = b_workspace_.data() + p.b_slot * b_slot_size_;
      const auto b_kn = assemble(b, p.b, {k, n}, b_workspace, p.same_b);
      if (&p == &work.products.front()) spread_over_cores(work);  // all blocks can be read now
      cubist::multiply(engine_, alpha, a_mk, b_kn, p.first ? beta : T{1}, c_mn);
    }
    if (const auto& [i, j, shape] = work.zero_k; shape.size() > 0)
      cubist::multiply(engine_, alpha, Operand<const T>{In{nullptr, {shape.rows, 0}}},
                       Operand<const T>{In{nullptr, {0, shape.cols}}}, beta, c.block(i, j, shape));
    return cs;
  }

  /// Moves this rank to another core if that has fewer of the ranks that multiply, and if the
  /// products are long enough.
  void spread_over_cores([[maybe_unused]] const detail::WorkAssignment& work) const
  {
    constexpr double least = 40'000;  // 10 to 40 us
    if constexpr (SpreadsOverCores<C>)
      if (work.products_time >= least) world_.spread_over_cores(work.workers);
  }

  /// Waits until the ranks have written to this rank's blocks. Closes all windows before it waits
  /// for any, so that a rank sleeps only once.
  template <class... W>
  static void complete(std::optional<W>&... windows)
  {
    ((windows ? windows->close() : void()), ...);
    ((windows ? windows->wait() : void()), ...);
  }

  /// Returns a factor of a block product. A single piece is used in place. Several pieces are
  /// copied to `workspace`, unless they are there already (`assembled`).
  [[nodiscard]] Operand<const T> assemble(Factor factor, const Pieces& pieces, Shape whole,
                                          T* workspace, bool assembled)
  {
    const auto in_place = [&](const auto& p) { return factor.piece(p.from, p.to.shape); };
    const Operand<const T> first = in_place(pieces.front());
    if (pieces.size() == 1) return first;
    const Operand<T> all = first.with(padded_view(workspace, op_shape(first.transposed(), whole)));
    if (assembled) return all;
    for (const auto& p : pieces)
      engine_.copy(in_place(p).stored(), all.block(p.to.i, p.to.j, p.to.shape).stored());
    return all;
  }

  /// Copies what peers computed of C = A B + beta C to this rank's block, or adds it there.
  void read_peer_parts(Assigned& assigned, T beta, Out c)
  {
    const auto& work = assigned.work;
    if (!work.reads_c) return;
    const auto peer_view = [&](const T* data) {
      return work.in_workspace ? padded_view(data, work.workspace) : In{data, c.shape()};
    };
    auto window = world_.expose(
        work.in_workspace ? std::span<const T>{assigned.workspace.data(), assigned.workspace.size()}
                          : In{c}.elements(),
        work.in_workspace ? padded_size<T>(work.workspace) : c.size());
    for (const auto& [from, to, shape, first] : work.peer_parts)
    {
      const In part = peer_view(window[from.rank].data()).block(from.i, from.j, shape);
      const Out mine = c.block(to.i, to.j, shape);
      const T factor = !work.in_workspace ? T{} : first ? beta : T{1};
      detail::add_scaled<E, T>(engine_, part, factor, mine, mine);
    }
    window.close();
    window.wait();
  }

  C& world_;
  const E& engine_;
  Ops ops_;
  Assigned forward_;
  Assigned grad_input_;
  Assigned grad_weight_;
  Buffer a_workspace_ = Buffer(0);
  Buffer b_workspace_ = Buffer(0);
  std::size_t b_slot_size_ = 0;  // in elements
};

namespace detail
{

/// Makes the plan. It is a function so that the compiled library can contain it.
template <Scalar T, class C, class E>
std::unique_ptr<ProductPlan<T>> make_direct_product(C& world, const E& engine, Ops ops,
                                                    const Placement& x, const Placement& w,
                                                    const Placement& y)
{
  return std::make_unique<DirectProduct<T, C, E>>(world, engine, ops, x, w, y);
}

}  // namespace detail

/// The instances of the compiled library (cubist/core/instances.hpp).
#define CUBIST_DIRECT_INSTANCES(prefix, B, T)                                                      \
  CUBIST_INSTANCE(                                                                                 \
      prefix,                                                                                      \
      detail::make_direct_product<T, detail::Named<B>::Communicator, detail::Named<B>::Engine>)
CUBIST_FOR_BACKENDS(CUBIST_DIRECT_INSTANCES)

}  // namespace cubist::CUBIST_ABI
