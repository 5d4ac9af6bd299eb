// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// SUMMA on two axes of a mesh, with r rows and c columns of ranks. Of these three matrices, R
// never moves:
//
//   P (M, K), Q (K, N), R (M, N): rows [row] cols [col]
//
// K is cut into lcm(r, c) blocks. Block t of P is on one column of ranks, and block t of Q on one
// row. A panel is such a block or, if ranks are on several nodes, a slice of one. The products R =
// P Q, P = R Q^T and Q = P^T R (products.hpp) are the three products of a layer, whichever of its
// matrices is stationary:
//
//   stationary   P     Q     R
//   output       X     W     Y    X, W, Y: rows [row] cols [col]
//   input        Y     W^T   X    X, Y: rows [row] cols [col], W: rows [col] cols [row]
//   weight       X^T   Y     W    W, Y: rows [row] cols [col], X: rows [col] cols [row]
//
// Elements that one rank sends in each of the three products: (c-1)/rc |P| + (r-1)/rc |Q|.
// Source: van de Geijn, Watts, "SUMMA", 1997, section 6; Schatz, van de Geijn, Poulson, "Parallel
// Matrix Multiplication: A Systematic Journey", 2016 (stationary A, B and C); Xu et al., "Optimus",
// arXiv 2104.05343, section 3.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <type_traits>

#include "cubist/algorithm/product_plan.hpp"
#include "cubist/algorithm/summa/products.hpp"
#include "cubist/core/instances.hpp"
#include "cubist/core/matrix_view.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/engine/operand.hpp"
#include "cubist/matrix/layout.hpp"

namespace cubist::CUBIST_ABI
{

/// The matrix of a layer that does not move. The largest is the best choice.
enum class Stationary : std::uint8_t
{
  output,  ///< Y is not sent
  input,   ///< X is not sent
  weight   ///< W is not sent
};

namespace detail
{

/// The plan of SUMMA. It knows the communicators of this rank's row and column, not the mesh, so
/// that all schemes of a backend share the type.
template <Scalar T, class C, class E>
class SummaPlan final : public ProductPlan<T>
{
  using In = MatrixView<const T>;
  using Out = MatrixView<T>;

 public:
  /// @param row, column the ranks of this rank's row and column  @pre they outlive the plan
  /// @param remote whether the ranks of the grid are on several nodes
  SummaPlan(C& row, C& column, bool remote, const E& engine, Stationary stationary,
            const LocalShapes& local, Ops ops)
      : SummaPlan{row,
                  column,
                  remote,
                  engine,
                  stationary,
                  ops,
                  p_block(stationary, local),
                  q_block(stationary, local)}
  {
  }

  void forward(T alpha, In x, In w, T beta, Out y) override
  {
    const Read xs{x, ops_.x};
    const Read ws{w, ops_.w};
    if (stationary_ == Stationary::output) return run(r_product(alpha, xs, ws, beta, y));
    if (stationary_ == Stationary::input) return run(p_product(alpha, xs, ws.t(), beta, y));
    run(q_product(alpha, xs.t(), ws, beta, y));
  }

  void grad_input(T alpha, In dy, In w, T beta, Out dx) override
  {
    with_grad_input(alpha, dy, {w, ops_.w}, beta, {dx, ops_.x},
                    [](auto&& product) { run(product); });
  }

  void grad_weight(T alpha, In x, In dy, T beta, Out dw) override
  {
    with_grad_weight(alpha, {x, ops_.x}, dy, beta, {dw, ops_.w},
                     [](auto&& product) { run(product); });
  }

  /// The last sums of dX, and the first panels for dW, are in flight while panels are multiplied.
  void backward(In x, In w, In dy, Out dx, Out dw, T beta) override
  {
    with_grad_input(T{1}, dy, {w, ops_.w}, T{}, {dx, ops_.x}, [&](auto&& dxs) {
      with_grad_weight(T{1}, {x, ops_.x}, dy, beta, {dw, ops_.w},
                       [&](auto&& dws) { run(dxs, dws); });
    });
  }

  [[nodiscard]] std::size_t workspace_bytes() const override
  {
    return r_buffers_.bytes() + p_buffers_.bytes() + q_buffers_.bytes();
  }
  void release_workspace() override
  {
    r_buffers_.release(), p_buffers_.release(), q_buffers_.release();
  }

 private:
  using Read = Operand<const T>;
  using Write = Operand<T>;
  using Buffers = PanelBuffers<T, E>;

  // Deep enough for BLAS to reach its speed, and thin enough for the first panel to arrive soon.
  static constexpr std::size_t remote_depth = 256;

  SummaPlan(C& row, C& column, bool remote, const E& engine, Stationary stationary, Ops ops,
            Shape p, Shape q)
      : stationary_{stationary},
        ops_{ops},
        remote_{remote},
        grid_{row, column, engine, cut(row, column, row.size(), p.cols),
              cut(row, column, column.size(), q.rows)},
        r_buffers_{p_buffers(p),
                   q_buffers(q),
                   {{p.rows, q.cols}, coalesced_depth(grid_.p_cut.block, grid_.p_cut.count())}},
        p_buffers_{q_buffers(q), p_buffers(p), p_buffers(p)},
        q_buffers_{p_buffers(p), q_buffers(q), q_buffers(q)}
  {
  }

  [[nodiscard]] auto r_product(T alpha, Read p, Read q, T beta, Write r)
  {
    return ProductR<T, C, E>{grid_, r_buffers_, alpha, p, q, beta, r};
  }
  [[nodiscard]] auto p_product(T alpha, Read r, Read q, T beta, Write p)
  {
    return ProductP<T, C, E>{grid_, p_buffers_, alpha, r, q, beta, p};
  }
  /// Returns the product Q = alpha P^T R + beta Q, computed as Q^T = R^T P.
  [[nodiscard]] auto q_product(T alpha, Read p, Read r, T beta, Write q)
  {
    return ProductP<T, C, E>{grid_.t(), q_buffers_, alpha, r.t(), p.t(), beta, q.t()};
  }
  /// Calls f with the product dX = alpha dY W^T + beta dX.
  template <class F>
  void with_grad_input(T alpha, Read dy, Read w, T beta, Write dx, F f)
  {
    if (stationary_ == Stationary::output) return f(p_product(alpha, dy, w, beta, dx));
    if (stationary_ == Stationary::input) return f(r_product(alpha, dy, w.t(), beta, dx));
    f(p_product(alpha, w, dy, beta, dx.t()));
  }
  /// Calls f with the product dW = alpha X^T dY + beta dW.
  template <class F>
  void with_grad_weight(T alpha, Read x, Read dy, T beta, Write dw, F f)
  {
    if (stationary_ == Stationary::output) return f(q_product(alpha, x, dy, beta, dw));
    if (stationary_ == Stationary::input) return f(q_product(alpha, dy, x, beta, dw.t()));
    f(r_product(alpha, x.t(), dy, beta, dw));
  }
  template <class... Product>
  static void run(Product&&... products)
  {
    (products.start(), ...);
    (products.run(), ...);
    (products.finish(), ...);
  }

  [[nodiscard]] static Shape p_block(Stationary stationary, const LocalShapes& local)
  {
    if (stationary == Stationary::weight) return op_shape(true, local.x);
    return stationary == Stationary::output ? local.x : local.y;
  }
  [[nodiscard]] static Shape q_block(Stationary stationary, const LocalShapes& local)
  {
    if (stationary == Stationary::input) return op_shape(true, local.w);
    return stationary == Stationary::output ? local.w : local.y;
  }

  /// Returns how K is cut into panels if `owners` ranks hold `mine` indices each.
  [[nodiscard]] PanelCut cut(const C& row, const C& column, int owners, std::size_t mine) const
  {
    const auto count = static_cast<std::size_t>(owners);
    const auto blocks = static_cast<std::size_t>(std::lcm(row.size(), column.size()));
    const std::size_t block = mine * count / blocks;
    return {count, blocks, block, remote_ ? std::min(block, remote_depth) : block};
  }
  [[nodiscard]] Buffers p_buffers(Shape p) const { return buffers({p.rows, grid_.p_cut.depth}); }
  [[nodiscard]] Buffers q_buffers(Shape q) const { return buffers({grid_.q_cut.depth, q.cols}); }
  [[nodiscard]] Buffers buffers(Shape panel) const { return {panel, remote_ ? 4U : 2U}; }

  Stationary stationary_;
  Ops ops_;
  bool remote_;
  SummaGrid<C, E> grid_;
  FactorBuffers<T, E> r_buffers_;
  SumBuffers<T, E> p_buffers_;
  SumBuffers<T, E> q_buffers_;
};

/// Makes the plan. It is a function so that the compiled library can contain it.
template <Scalar T, class C, class E>
std::unique_ptr<ProductPlan<T>> make_summa_plan(C& row, C& column, bool remote, const E& engine,
                                                Stationary stationary, const LocalShapes& local,
                                                Ops ops)
{
  return std::make_unique<SummaPlan<T, C, E>>(row, column, remote, engine, stationary, local, ops);
}

}  // namespace detail

/// SUMMA on the axes `Row` and `Col` of a mesh.
template <class Row, class Col, Stationary stationary = Stationary::output>
struct Summa
{
  /// Makes a plan; collective.
  /// @pre the mesh outlives the plan
  template <Scalar T, class M>
  [[nodiscard]] static std::unique_ptr<ProductPlan<T>>
  make_plan(const M& mesh, const LocalShapes& local, Ops ops, Gathered)
  {
    // Ask the whole grid, not this rank's row and column, because all ranks of a grid must cut K
    // into the same panels.
    const bool remote = mesh.template along<Row, Col>().remote();
    return detail::make_summa_plan<T>(mesh.template along<Col>(), mesh.template along<Row>(),
                                      remote, mesh.engine(), stationary, local, ops);
  }
};

/// The layouts of a layer for SUMMA, on as many grids as there are ranks along `Layers...`.
template <Stationary stationary, class Row, class Col, class... Layers>
struct SummaLayouts
{
  using Output = Layout<Rows<Layers..., Row>, Cols<Col>>;
  using Input = std::conditional_t<stationary == Stationary::weight,
                                   Layout<Rows<Layers..., Col>, Cols<Row>>, Output>;
  using Weight = std::conditional_t<stationary == Stationary::input, Layout<Rows<Col>, Cols<Row>>,
                                    Layout<Rows<Row>, Cols<Col>>>;
};

/// The instances of the compiled library (cubist/core/instances.hpp).
#define CUBIST_SUMMA_INSTANCES(prefix, B, T)                                                       \
  CUBIST_INSTANCE(                                                                                 \
      prefix,                                                                                      \
      detail::make_summa_plan<T, detail::Named<B>::Communicator, detail::Named<B>::Engine>)
CUBIST_FOR_BACKENDS(CUBIST_SUMMA_INSTANCES)

}  // namespace cubist::CUBIST_ABI
