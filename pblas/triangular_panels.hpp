// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Products with a triangle, for block-cyclic matrices of ranks on several nodes, panel by panel on
// the program's own grid of P x Q ranks. Messages of the next panels are in flight while one is
// multiplied.
//
//   trmm, trsm   B (M, N) = alpha op(A) B, or alpha op(A)^-1 B; B stays where it is
//
// For a lower triangle op(A) on the left and a panel k of its columns:
//
//   trmm, from the last panel to the first    trsm, from the first to the last
//   1. B_i += alpha A_ik B_k for all i > k    1. B_k = A_kk^-1 B_k
//   2. B_k = alpha A_kk B_k                   2. B_i -= A_ik B_k for all i > k
//
// Each rank gets B_k for its columns of B, and A_ik for its rows of B. For trsm, it also gets A_kk,
// and solves for B_k in all its columns, as the other ranks of its column of the grid do: that
// takes less time than another message. The rows of the next panel are updated, and sent, before
// the others. If op(A) is an upper triangle, the order of panels is reversed; if A is on the right,
// rows and columns change places.
//
//   syrk   a triangle of C (N, N) = alpha op(A) op(A)^T + beta C; A (N, K) stays where it is
//
// For a panel j of rows of A, each rank gets A_j for its columns of A, and multiplies its rows of A
// by that. The products of a row of the grid are the terms of C_ij, which the owner adds up. If A
// is transposed, rows and columns change places.
//
// Elements that one rank receives if the matrices are aligned: for trmm and trsm, M^2 / 2P (1 -
// 1/Q) of A and M N / Q (1 - 1/P) of B. For trsm M / 2 times the depth of a panel is added. For
// syrk, N K / Q (1 - 1/P) of A and N^2 / 2P (1 - 1/Q) of C. If C stayed in place instead, a rank
// outside the diagonal of a square grid would receive N K / P (2 - 1/P).
// Source: Schatz, van de Geijn, Poulson, "Parallel matrix multiplication: a systematic journey",
// SIAM J. Sci. Comput. 38 (2016): stationary matrices.

#include <algorithm>
#include <cstddef>
#include <deque>
#include <vector>

#include <cubist/backend/mpi.hpp>
#include <cubist/core/block.hpp>
#include <cubist/core/matrix_view.hpp>
#include <cubist/core/scalar.hpp>
#include <cubist/engine/engine.hpp>
#include <cubist/engine/host/engine.hpp>
#include <cubist/foreign/convert.hpp>
#include <cubist/foreign/copy_blocks.hpp>
#include <cubist/foreign/foreign_matrix.hpp>
#include <cubist/foreign/matrix_part.hpp>
#include <cubist/foreign/pgemm.hpp>
#include <cubist/foreign/triangular.hpp>
#include <cubist/memory/huge_pages.hpp>

#include "local_part.hpp"
#include "panel_matrix.hpp"

namespace cubist::CUBIST_ABI::detail
{

/// trmm and trsm on the grid of B.
template <PblasScalar T>
class TrianglePanels
{
  using InFlight = std::deque<MatrixInFlight<MpiCommunicator, T>>;

 public:
  TrianglePanels(MpiCommunicator& world, bool solves, const TriangularOperand& how,
                 const PlacedMatrix<const T>& a, const PlacedMatrix<T>& b)
      : b_{world, b, how.side == Side::left},
        a_{world, a.whole, a.size},
        how_{how},
        solves_{solves},
        is_forward_{solves_first_half_first(how)}
  {
    panels_ = cut_into_panels(b_.lines(), panel_depth(b_.lines(), b_.parts()));
    if (is_forward_ != solves) std::reverse(panels_.begin(), panels_.end());
  }

  [[nodiscard]] std::size_t panels() const { return panels_.size(); }

  void run(T alpha)
  {
    for (std::size_t s = 0; s < ahead; ++s) start_panel_of_a();
    if (solves_)
      solve(alpha);
    else
      multiply(alpha);
  }

 private:
  static constexpr std::size_t ahead = 2;  // panels in flight

  void multiply(T alpha)
  {
    for (std::size_t s = 0; s < ahead; ++s) start_panel_of_b(s);
    for (std::size_t s = 0; s < panels(); ++s)
    {
      const Lines k = panels_[s];
      start_panel_of_b(s + ahead);
      start_panel_of_a();
      const MatrixView<const T> b = of_b_.front().finish().transposed();
      const MatrixView<T> a = of_a_.front().finish().transposed();
      complete_diagonal(k, a);
      HostEngine{}.fill(b_.local(b_.local(), k), T{});
      update(lines_of_a(k), k, alpha, a, b);
      of_b_.pop_front();
      of_a_.pop_front();
    }
  }

  void solve(T alpha)
  {
    if (alpha != T{1}) scale(alpha, b_.matrix());
    start_panel_of_b(0);
    for (std::size_t s = 0; s < panels(); ++s)
    {
      const Lines k = panels_[s];
      const MatrixView<T> b = of_b_.front().finish().transposed();
      solve_panel(k, diagonals_.front().finish().transposed(), b);
      const MatrixView<const T> a = of_a_.front().finish().transposed();
      Lines rest = rest_after(k);
      if (s + 1 < panels())
      {
        const Lines next = panels_[s + 1];
        update(next, k, T{-1}, a, b);
        start_panel_of_b(s + 1);
        rest = rest_after(next);
      }
      start_panel_of_a();
      update(rest, k, T{-1}, a, b);
      of_b_.pop_front();
      diagonals_.pop_front();
      of_a_.pop_front();
    }
  }

  /// Returns the lines that a panel updates.
  [[nodiscard]] Lines rest_after(Lines k) const
  {
    return is_forward_ ? Lines{k.end(), b_.lines() - k.end()} : Lines{0, k.begin};
  }
  /// Returns the lines of op(A) that are sent with a panel.
  [[nodiscard]] Lines lines_of_a(Lines k) const
  {
    if (solves_) return rest_after(k);
    return is_forward_ ? Lines{k.begin, b_.lines() - k.begin} : Lines{0, k.end()};
  }

  void start_panel_of_a()
  {
    if (started_ == panels()) return;
    const Lines k = panels_[started_++];
    const Lines i = lines_of_a(k);
    if (solves_)
      diagonals_.emplace_back(b_.world(), a_.submatrix(k.begin, k.begin, {k.size, k.size}),
                              Op::none, b_.everywhere(k.size), part_of(how_.triangle));
    of_a_.emplace_back(b_.world(), how_.op == Op::none ? b_.block(a_, i, k) : b_.block(a_, k, i),
                       how_.op, b_.by_lines(i, k.size));
  }
  void start_panel_of_b(std::size_t panel)
  {
    if (panel < panels()) b_.start(of_b_, panels_[panel]);
  }

  /// Computes B_i += alpha op(A)_ik B_k.
  void update(Lines i, Lines k, T alpha, MatrixView<const T> a, MatrixView<const T> b)
  {
    const MatrixView<T> out = b_.local(b_.local(), i);
    if (out.size() == 0) return;
    const auto of_i = b_.local(a, i, b_.local(lines_of_a(k)).begin);
    multiply_in_parts(Op::none, Op::none, alpha, b_.by_rows() ? b : of_i, b_.by_rows() ? of_i : b,
                      T{1}, out, [this] {
                        of_b_.back().advance();
                        of_a_.back().advance();
                      });
  }

  /// Sets the elements of op(A)_kk outside the triangle to 0, and those of a unit diagonal to 1.
  void complete_diagonal(Lines k, MatrixView<T> a) const
  {
    const std::size_t first = b_.local(lines_of_a(k)).begin;
    b_.for_each_run(k, [&](std::size_t own, std::size_t line, std::size_t size) {
      for (std::size_t i = 0; i < size; ++i)
        for (std::size_t j = 0; j < k.size; ++j)
        {
          const std::size_t at = own + i - first;
          T& x = b_.by_rows() ? a(j, at) : a(at, j);
          if (is_forward_ ? j > line + i : j < line + i) x = T{};
          if (j == line + i && how_.diagonal == Diagonal::unit) x = T{1};
        }
    });
  }

  /// Computes B_k = op(A)_kk^-1 B_k in `b`, and stores this rank's lines of it.
  void solve_panel(Lines k, MatrixView<const T> a, MatrixView<T> b) const
  {
    if (b.size() == 0) return;
    // BLAS gets the transposes, which are stored by rows.
    TriangularOperand of_transposes{how_};
    of_transposes.side = b_.by_rows() ? Side::right : Side::left;
    of_transposes.triangle = how_.triangle == Triangle::lower ? Triangle::upper : Triangle::lower;
    HostEngine{}.trsm(of_transposes, T{1}, a, b);
    const MatrixView<T> to = b_.local();
    b_.for_each_run(k, [&](std::size_t own, std::size_t line, std::size_t size) {
      if (b_.by_rows())
        copy_rows(b.data() + line, b.ld(), to.data() + own, to.ld(), b.rows(), size, CopyElement{});
      else
        copy_rows(b.row(line), b.ld(), to.row(own), to.ld(), size, b.cols(), CopyElement{});
    });
  }

  PanelMatrix<MpiCommunicator, T> b_;
  ForeignMatrix<const T> a_;
  TriangularOperand how_;
  bool solves_;
  bool is_forward_;  // whether a panel updates the lines after it
  std::vector<Lines> panels_;
  InFlight of_b_;
  InFlight of_a_;
  InFlight diagonals_;
  std::size_t started_ = 0;  // panels of A that have been started
};

/// syrk on the grid of A.
template <PblasScalar T>
class SyrkPanels
{
 public:
  SyrkPanels(MpiCommunicator& world, Triangle triangle, Op op, Symmetry symmetry,
             const PlacedMatrix<const T>& a, const PlacedMatrix<T>& c)
      : a_{world, a, op == Op::none},
        c_{world, c.whole, c.size},
        triangle_{triangle},
        mirror_{mirror_of(symmetry)},
        panels_{cut_into_panels(a_.lines(), 128)}
  {
  }

  [[nodiscard]] std::size_t panels() const { return panels_.size(); }

  void run(T alpha, T beta)
  {
    scale(beta, c_, part_of(triangle_));
    for (std::size_t s = 0; s < ahead; ++s) start_panel(s);
    for (std::size_t s = 0; s < panels(); ++s)
    {
      start_panel(s + ahead);
      multiply(panels_[s], alpha, of_a_.front().finish().transposed());
      of_a_.pop_front();
      finish_sums();
      start_sums(panels_[s]);
    }
    finish_sums();
  }

 private:
  static constexpr std::size_t ahead = 2;  // panels in flight

  /// Returns the lines of a panel of C: those after the panel of A, or those before.
  [[nodiscard]] Lines lines_of_c(Lines panel) const
  {
    return is_after() ? Lines{panel.begin, a_.lines() - panel.begin} : Lines{0, panel.end()};
  }
  [[nodiscard]] bool is_after() const { return (triangle_ == Triangle::lower) == a_.by_rows(); }

  void start_panel(std::size_t panel)
  {
    if (panel < panels()) a_.start(of_a_, panels_[panel]);
  }

  /// Computes this rank's term of a panel of C.
  void multiply(Lines panel, T alpha, MatrixView<const T> of_panel)
  {
    const Lines i = lines_of_c(panel);
    const std::size_t lines = a_.local(i).size;
    term_.resize(std::max(term_.size(), lines * panel.size));
    if (lines == 0) return;
    const MatrixView<T> out{term_.data(),
                            a_.by_rows() ? Shape{panel.size, lines} : Shape{lines, panel.size}};
    if (a_.local().size() == 0) return HostEngine{}.fill(out, T{});
    const auto mine = a_.local(a_.local(), i);
    const auto advance = [this] {
      if (!sums_.empty()) sums_.back().advance();
      of_a_.back().advance();
    };
    if (a_.by_rows())
      multiply_in_parts(mirror_, Op::none, alpha, of_panel, mine, T{}, out, advance);
    else
      multiply_in_parts(Op::none, mirror_, alpha, mine, of_panel, T{}, out, advance);
  }

  /// Starts to add all terms of a panel to C.
  void start_sums(Lines panel)
  {
    const Lines i = lines_of_c(panel);
    const auto ld = std::max<std::size_t>(a_.by_rows() ? a_.local(i).size : panel.size, 1);
    for (std::size_t t = 0; t < a_.terms(); ++t)
    {
      const ForeignMatrix<const T> term{a_.world(), a_.by_lines(i, panel.size, t), term_.data(),
                                        ld};
      const auto add = [&](Lines lines, MatrixPart part) {
        const Lines of_term{lines.begin - i.begin, lines.size};
        if (lines.size > 0)
          sums_.emplace_back(a_.world(), a_.block(term, of_term, {0, panel.size}),
                             a_.block(c_, lines, panel), ConversionOptions<T>{Op::none, T{1}, T{1}},
                             part);
      };
      // A part begins on the diagonal.
      if (is_after()) add(i, part_of(triangle_));
      if (!is_after()) add({0, panel.begin}, MatrixPart::all), add(panel, part_of(triangle_));
    }
  }
  void finish_sums()
  {
    for (; !sums_.empty(); sums_.pop_front()) sums_.front().finish();
  }

  PanelMatrix<MpiCommunicator, const T> a_;
  ForeignMatrix<T> c_;
  Triangle triangle_;
  Op mirror_;
  std::vector<Lines> panels_;
  std::deque<MatrixInFlight<MpiCommunicator, T>> of_a_;
  std::deque<ConversionInFlight<MpiCommunicator, T>> sums_;
  std::vector<T, HugePages<T>> term_;
};

}  // namespace cubist::CUBIST_ABI::detail
