// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// SUMMA on the two axes of a mesh of r rows and c columns of ranks. Of three matrices
//
//   P (M, K), Q (K, N), R (M, N): rows [row] cols [col]
//
// R never moves. K is cut into lcm(r, c) blocks; block t of P lies on one column of ranks, of Q on
// one row. A panel is such a block or, where ranks are far apart, a slice of one. The products
// R = P Q, P = R Q^T and Q = P^T R (products.hpp) are the three of a layer, whichever of its
// matrices is to stay where it is:
//
//   stationary   P     Q     R
//   output       X     W     Y    X, W, Y: rows [row] cols [col]
//   input        Y     W^T   X    X, Y: rows [row] cols [col], W: rows [col] cols [row]
//   weight       X^T   Y     W    W, Y: rows [row] cols [col], X: rows [col] cols [row]
//
// Words: (c-1)/rc |P| + (r-1)/rc |Q| a rank for each of the three products.
// Source: van de Geijn, Watts, "SUMMA", 1997, section 6; Schatz, van de Geijn, Poulson, "Parallel
// Matrix Multiplication: A Systematic Journey", 2016 (stationary A, B and C); Xu et al., "Optimus",
// arXiv 2104.05343, section 3.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <type_traits>

#include "cubist/algorithm/summa/products.hpp"
#include "cubist/core/matrix_view.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/dist/layout.hpp"
#include "cubist/engine/operand.hpp"
#include "cubist/scheme/scheme.hpp"

namespace cubist
{

/// The matrix of a layer that does not move: best the largest.
enum class Stationary : std::uint8_t
{
  output,
  input,
  weight
};

template <class Row, class Col, Stationary stationary = Stationary::output>
struct Summa
{
  template <Scalar T, class M>
  class Plan
  {
    using In = MatrixView<const T>;
    using Out = MatrixView<T>;

   public:
    Plan(const M& mesh, const LocalShapes& local, Ops ops, Gathered)
        : Plan{mesh, ops, p_block(local), q_block(local)}
    {
    }

    /// Y = alpha X W + beta Y
    void forward(T alpha, In x, In w, T beta, Out y)
    {
      auto product = output_product(alpha, {x, ops_.x}, {w, ops_.w}, beta, y);
      run(product);
    }

    /// dX = alpha dY W^T + beta dX
    void grad_input(T alpha, In dy, In w, T beta, Out dx)
    {
      auto product = input_product(alpha, dy, {w, ops_.w}, beta, {dx, ops_.x});
      run(product);
    }

    /// dW = alpha X^T dY + beta dW
    void grad_weight(T alpha, In x, In dy, T beta, Out dw)
    {
      auto product = weight_product(alpha, {x, ops_.x}, dy, beta, {dw, ops_.w});
      run(product);
    }

    /// Both gradients. The last sums of the one, and the first panels of the other, travel while
    /// panels are multiplied.
    void backward(In x, In w, In dy, Out dx, Out dw, T beta)
    {
      auto to_input = input_product(T{1}, dy, {w, ops_.w}, T{}, {dx, ops_.x});
      auto to_weight = weight_product(T{1}, {x, ops_.x}, dy, beta, {dw, ops_.w});
      to_input.start();
      to_weight.start();
      to_input.run();
      to_weight.run();
      to_input.finish();
      to_weight.finish();
    }

   private:
    using Communicator = typename M::Communicator;
    using Engine = typename M::Engine;
    using Read = Operand<const T>;
    using Write = Operand<T>;
    using Buffers = detail::PanelBuffers<T, Engine>;
    using MakeR = detail::MakeR<T, Communicator, Engine>;
    using MakeP = detail::MakeP<T, Communicator, Engine>;

    // Deep enough for a BLAS to reach its speed, thin enough for the first to come soon.
    static constexpr std::size_t far_depth = 256;

    Plan(const M& mesh, Ops ops, Shape p, Shape q)
        : mesh_{mesh}, ops_{ops}, far_{row().remote() || column().remote()}, p_cut_{cut(cols(),
                                                                                        p.cols)},
          q_cut_{cut(rows(), q.rows)}, r_room_{p_buffers(p), q_buffers(q), pile({p.rows, q.cols})},
          p_room_{q_buffers(q), p_buffers(p), p_buffers(p)}, q_room_{p_buffers(p), q_buffers(q),
                                                                     q_buffers(q)}
    {
    }

    [[nodiscard]] auto output_product(T alpha, Read x, Read w, T beta, Write y)
    {
      if constexpr (stationary == Stationary::output)
        return MakeR{place(), r_room_, alpha, x, w, beta, y};
      else if constexpr (stationary == Stationary::input)
        return MakeP{place(), p_room_, alpha, x, w.t(), beta, y};
      else
        return make_q(alpha, x.t(), w, beta, y);
    }
    [[nodiscard]] auto input_product(T alpha, Read dy, Read w, T beta, Write dx)
    {
      if constexpr (stationary == Stationary::output)
        return MakeP{place(), p_room_, alpha, dy, w, beta, dx};
      else if constexpr (stationary == Stationary::input)
        return MakeR{place(), r_room_, alpha, dy, w.t(), beta, dx};
      else
        return MakeP{place(), p_room_, alpha, w, dy, beta, dx.t()};
    }
    [[nodiscard]] auto weight_product(T alpha, Read x, Read dy, T beta, Write dw)
    {
      if constexpr (stationary == Stationary::output)
        return make_q(alpha, x, dy, beta, dw);
      else if constexpr (stationary == Stationary::input)
        return make_q(alpha, dy, x, beta, dw.t());
      else
        return MakeR{place(), r_room_, alpha, x.t(), dy, beta, dw};
    }
    /// Q = alpha P^T R + beta Q, as Q^T = R^T P.
    [[nodiscard]] MakeP make_q(T alpha, Read p, Read r, T beta, Write q)
    {
      return {place().t(), q_room_, alpha, r.t(), p.t(), beta, q.t()};
    }
    [[nodiscard]] static Shape p_block(const LocalShapes& local)
    {
      if (stationary == Stationary::weight) return op_shape(true, local.x);
      return stationary == Stationary::output ? local.x : local.y;
    }
    [[nodiscard]] static Shape q_block(const LocalShapes& local)
    {
      if (stationary == Stationary::input) return op_shape(true, local.w);
      return stationary == Stationary::output ? local.w : local.y;
    }

    template <class Product>
    static void run(Product& product)
    {
      product.start();
      product.run();
      product.finish();
    }

    [[nodiscard]] std::size_t rows() const
    {
      return static_cast<std::size_t>(mesh_.template extent<Row>());
    }
    [[nodiscard]] std::size_t cols() const
    {
      return static_cast<std::size_t>(mesh_.template extent<Col>());
    }
    [[nodiscard]] Communicator& row() const { return mesh_.template along<Col>(); }
    [[nodiscard]] Communicator& column() const { return mesh_.template along<Row>(); }
    [[nodiscard]] detail::SummaPlace<Communicator, Engine> place() const
    {
      return {row(), column(), mesh_.engine(), p_cut_, q_cut_};
    }

    /// How `owners` ranks with `mine` of the indices of K each are cut into panels.
    [[nodiscard]] detail::PanelCut cut(std::size_t owners, std::size_t mine) const
    {
      const std::size_t blocks = std::lcm(rows(), cols());
      const std::size_t block = mine * owners / blocks;
      return {owners, blocks, block, far_ ? std::min(block, far_depth) : block};
    }
    [[nodiscard]] Buffers p_buffers(Shape p) const { return buffers({p.rows, p_cut_.depth}); }
    [[nodiscard]] Buffers q_buffers(Shape q) const { return buffers({q_cut_.depth, q.cols}); }
    [[nodiscard]] Buffers buffers(Shape panel) const { return {panel, far_ ? 4U : 2U}; }
    [[nodiscard]] detail::PileRoom<T, Engine> pile(Shape product) const
    {
      return {product, detail::pile_depth(p_cut_.block, p_cut_.count())};
    }

    M mesh_;
    Ops ops_;
    bool far_;
    detail::PanelCut p_cut_;
    detail::PanelCut q_cut_;
    detail::FactorPanels<T, Engine> r_room_;
    detail::SumPanels<T, Engine> p_room_;
    detail::SumPanels<T, Engine> q_room_;
  };
};

/// The layouts of a layer for SUMMA, on as many copies of the mesh as `Layers...` have ranks.
template <Stationary stationary, class Row, class Col, class... Layers>
struct SummaLayouts
{
  using Output = Layout<Rows<Layers..., Row>, Cols<Col>>;
  using Input = std::conditional_t<stationary == Stationary::weight,
                                   Layout<Rows<Layers..., Col>, Cols<Row>>, Output>;
  using Weight = std::conditional_t<stationary == Stationary::input, Layout<Rows<Col>, Cols<Row>>,
                                    Layout<Rows<Row>, Cols<Col>>>;
};

}  // namespace cubist
