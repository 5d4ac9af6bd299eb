// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Computes C = alpha op(A) op(B) + beta C for block-cyclic matrices of ranks on several nodes,
// panel by panel on the program's own grid of P x Q ranks. C stays where it is.
//
//   C (M, N) block-cyclic    op(A) (M, K), op(B) (K, N) in any layouts
//
// For a panel k of columns of op(A) and rows of op(B), each rank gets op(A)_k for its rows of C,
// and op(B)_k for its columns of C, and adds their product to its C. Messages of the next panels
// are in flight meanwhile. Nothing else is sent, and nothing is converted.
//
// Elements that one rank receives if the matrices are aligned and not transposed: M K / P (1 - 1/Q)
// of A and K N / Q (1 - 1/P) of B. For other layouts, panel_cost counts them.
// Source: van de Geijn, Watts, "SUMMA: scalable universal matrix multiplication algorithm",
// Concurrency: Practice and Experience 9 (1997).

#include <algorithm>
#include <cstddef>
#include <deque>
#include <string>
#include <vector>

#include <cubist/comm/communicator.hpp>
#include <cubist/comm/mpi/communicator.hpp>
#include <cubist/core/block.hpp>
#include <cubist/core/error.hpp>
#include <cubist/core/matrix_view.hpp>
#include <cubist/core/scalar.hpp>
#include <cubist/engine/engine.hpp>
#include <cubist/engine/shapes.hpp>
#include <cubist/foreign/conversion_plan.hpp>
#include <cubist/foreign/distribution.hpp>
#include <cubist/foreign/foreign_matrix.hpp>
#include <cubist/foreign/matrix_part.hpp>
#include <cubist/foreign/pgemm.hpp>
#include <cubist/foreign/triangular.hpp>

#include "local_part.hpp"
#include "message_product.hpp"
#include "panel_matrix.hpp"
#include "product_arguments.hpp"
#include "product_cache.hpp"

namespace cubist::CUBIST_ABI::detail
{

/// The elements of A and of B that are sent for a product in panels.
struct PanelCost
{
  ConversionCost a;
  ConversionCost b;

  /// The most elements that one unit sends or receives.
  [[nodiscard]] std::size_t most() const
  {
    return std::max(a.sent, a.received) + std::max(b.sent, b.received);
  }
};

/// Returns the cost of a product in panels. Sends nothing.
/// @param ranks_of_unit as in conversion_cost
[[nodiscard]] inline PanelCost panel_cost(const ProductArguments& call, int ranks_of_unit = 1)
{
  const auto [m, n, k] = call.size;
  const auto cost = [&](const SubMatrixPlace& x, Op op, Shape of_op, const Distribution& to) {
    return conversion_cost(Distribution{x, op_shape(op, of_op)}, to, op, MatrixPart::all,
                           ranks_of_unit);
  };
  const Shape of_c{m, n};
  return {cost(call.a, call.op_a, {m, k}, PanelLayout{call.c, of_c, true}.by_lines({0, m}, k)),
          cost(call.b, call.op_b, {k, n}, PanelLayout{call.c, of_c, false}.by_lines({0, n}, k))};
}

/// gemm on the grid of C.
template <Communicator C, PblasScalar T>
class GemmPanels
{
 public:
  /// All ranks of the world make it; those outside the grid have no array.
  GemmPanels(C& world, const ProductArguments& call, LocalArray<const T> a, LocalArray<const T> b,
             LocalArray<T> c)
      : world_{world},
        a_{world, Distribution{call.a, op_shape(call.op_a, {call.size.m, call.size.k})}, a.data,
           a.ld},
        b_{world, Distribution{call.b, op_shape(call.op_b, {call.size.k, call.size.n})}, b.data,
           b.ld},
        rows_{world, {{call.c, c.data, c.ld}, {call.size.m, call.size.n}}, true},
        cols_{call.c, {call.size.m, call.size.n}, false},
        op_a_{call.op_a},
        op_b_{call.op_b},
        panels_{panels_of(call)}
  {
  }

  /// Cuts K into panels.
  [[nodiscard]] static std::vector<Lines> panels_of(const ProductArguments& call)
  {
    const auto& grid = call.c.layout.grid;
    const auto parts = static_cast<std::size_t>(std::max(grid.rows, grid.cols));
    return cut_into_panels(call.size.k, panel_depth(call.size.k, parts));
  }

  void run(T alpha, T beta)
  {
    for (std::size_t s = 0; s < ahead; ++s) start(s);
    for (std::size_t s = 0; s < panels_.size(); ++s)
    {
      start(s + ahead);
      // BLAS gets the transposes, which are stored by rows.
      const MatrixView<const T> a = of_a_.front().finish().transposed();
      const MatrixView<const T> b = of_b_.front().finish().transposed();
      if (const MatrixView<T> out = rows_.local(); out.size() > 0)
        multiply_in_parts(Op::none, Op::none, alpha, b, a, s == 0 ? beta : T{1}, out, [this] {
          of_a_.back().advance();
          of_b_.back().advance();
        });
      of_a_.pop_front();
      of_b_.pop_front();
    }
  }

 private:
  using InFlight = std::deque<MatrixInFlight<C, T>>;

  static constexpr std::size_t ahead = 2;  // panels in flight

  void start(std::size_t panel)
  {
    if (panel >= panels_.size()) return;
    const Lines k = panels_[panel];
    start(of_a_, a_, op_a_, rows_, k, op_a_ == Op::none);
    start(of_b_, b_, op_b_, cols_, k, op_b_ != Op::none);
  }
  /// @param by_columns whether the panel is columns of the stored matrix
  void start(InFlight& in_flight, const ForeignMatrix<const T>& m, Op op, const PanelLayout& to,
             Lines k, bool by_columns)
  {
    const std::size_t n = to.lines();
    in_flight.emplace_back(world_,
                           by_columns ? m.submatrix(0, k.begin, {n, k.size})
                                      : m.submatrix(k.begin, 0, {k.size, n}),
                           op, to.by_lines({0, n}, k.size));
  }

  C& world_;
  ForeignMatrix<const T> a_;
  ForeignMatrix<const T> b_;
  PanelMatrix<C, T> rows_;  // C by rows
  PanelLayout cols_;        // and by columns
  Op op_a_;
  Op op_b_;
  std::vector<Lines> panels_;
  InFlight of_a_;
  InFlight of_b_;
};

/// A plan to compute a product in panels. It keeps no memory.
template <PblasScalar T>
class PanelProduct final : public MessageProduct<T>
{
 public:
  explicit PanelProduct(const ProductArguments& call)
      : call_{call}
  {
  }

  void run(MpiCommunicator& world, T alpha, LocalArray<const T> a, LocalArray<const T> b, T beta,
           LocalArray<T> c, PgemmReport& report) override
  {
    GemmPanels<MpiCommunicator, T> panels{world, call_, a, b, c};
    time_into(report.product, [&] { panels.run(alpha, beta); });
  }
  [[nodiscard]] std::string text() const override
  {
    const std::size_t panels = GemmPanels<MpiCommunicator, T>::panels_of(call_).size();
    return join({"on the grid of C, ", panels, panels == 1 ? " panel of K" : " panels of K"});
  }

 private:
  ProductArguments call_;
};

}  // namespace cubist::CUBIST_ABI::detail
