// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Products of block-cyclic matrices with one triangle (foreign/pgemm.hpp).
//
// If ranks share memory, they follow the steps of foreign/triangular.hpp, whose products pgemm
// computes. A triangle is one block (shared_triangle.hpp), unless B has so few columns that ranks
// would be idle, or memory is limited; and syrk is one product, of which a triangle is computed
// (shared_product.hpp). Otherwise, trmm, trsm and syrk compute panel by panel on the program's grid
// (triangular_panels.hpp).

#include <algorithm>
#include <cstddef>
#include <memory>
#include <string>
#include <type_traits>

#include <boost/mpi/communicator.hpp>

#include <cubist/core/block.hpp>
#include <cubist/core/error.hpp>
#include <cubist/core/scalar.hpp>
#include <cubist/engine/engine.hpp>
#include <cubist/engine/host/engine.hpp>
#include <cubist/engine/shapes.hpp>
#include <cubist/foreign/block_cyclic.hpp>
#include <cubist/foreign/foreign_matrix.hpp>
#include <cubist/foreign/pgemm.hpp>
#include <cubist/foreign/triangular.hpp>

#include "local_part.hpp"
#include "pgemm.hpp"
#include "product_arguments.hpp"
#include "product_cache.hpp"
#include "session.hpp"
#include "shared_triangle.hpp"
#include "triangular_panels.hpp"

namespace cubist::CUBIST_ABI
{

namespace detail
{

/// The steps of foreign/triangular.hpp on a communicator.
template <PblasScalar T>
class PblasSteps
{
  using In = PlacedMatrix<const T>;
  using Out = PlacedMatrix<T>;

  /// An entry for the cache, which remembers how large the matrices of a call are. The memory that
  /// may be kept depends on that.
  struct TrianglePlan final : PlannedProduct
  {
    static constexpr std::size_t scalar_bytes = sizeof(T);
    [[nodiscard]] std::string text() const override { return {}; }
  };

  static constexpr std::size_t least_block = 256;  // rows of a block
  static constexpr std::size_t least_part = 8;     // columns of B for each rank

 public:
  /// @param call A is a triangle; C is B, or a third matrix  @param n the rows of the triangle
  /// @param others the number of independent columns or rows of B; 0 for syrk, which has none
  PblasSteps(PblasSession& session, const PgemmOptions& options, PgemmReport& report,
             const ProductArguments& call, std::size_t n, std::size_t others)
      : session_{session},
        options_{options},
        report_{report},
        shares_{shares_memory(session, options)},
        largest_block_{n}
  {
    const auto ranks = static_cast<std::size_t>(session.world().size());
    if (!shares_ || others == 0) return;
    if (others < least_part * ranks) largest_block_ = std::min(n, 2 * least_block);
    while (largest_block_ > least_block &&
           largest_block_ * (largest_block_ + 2 * others) * sizeof(T) > options.shared_bytes)
      largest_block_ = ceil_div(largest_block_, 2);
    (void)session.products().template find<TrianglePlan>(
        call, [] { return std::make_unique<TrianglePlan>(); });
    kept_ = most_kept(session, options, 1, session.world().size());
  }

  [[nodiscard]] std::size_t cut(std::size_t n) const { return n <= largest_block_ ? 0 : n / 2; }

  void multiply(Op op_a, Op op_b, T alpha, const In& a, const In& b, T beta, const Out& c)
  {
    PgemmReport part;
    run_product<T>(session_,
                   {op_a,
                    op_b,
                    {c.size.rows, c.size.cols, op_shape(op_a, a.size).cols},
                    a.whole.place,
                    b.whole.place,
                    c.whole.place},
                   alpha, {a.whole.data, a.whole.ld}, {b.whole.data, b.whole.ld}, beta,
                   {c.whole.data, c.whole.ld}, options_, part);
    ++products_;
    report_.conversion += part.conversion;
    report_.product += part.product;
    report_.kept = part.kept;
  }

  void triangular(bool solves, const TriangularOperand& how, T alpha, const In& a, const Out& b)
  {
    ++blocks_;
    auto& world = session_.world();
    // BLAS gets the transposes, which are stored by rows.
    const auto compute = [&](const SharedMatrix<T>& all_a, MatrixView<T> mine) {
      TriangularOperand of_transposes{how};
      of_transposes.side = opposite(how.side);
      of_transposes.triangle = opposite(how.triangle);
      const MatrixView<const T> triangle{all_a.transposed()};
      if (solves)
        HostEngine{}.trsm(of_transposes, alpha, triangle, mine);
      else
        HostEngine{}.trmm(of_transposes, alpha, triangle, mine);
    };
    if (is_in_place(how.side, b))
      return with_shared_triangle_alone<T>(session_, kept_, how.triangle, a, b, report_, compute);
    with_shared_triangle<T>(
        session_, kept_, how.triangle, a, b, T{}, b, false, report_,
        [&](const auto& all_a, const auto& all_b, const auto&) {
          compute(all_a, all_b.share(how.side == Side::left, world.rank(), world.size()));
        });
  }

  void symm(const SymmetricOperand& how, T alpha, const In& a, const In& b, T beta, const Out& c)
  {
    auto& world = session_.world();
    if (!shares_ || cut(a.size.rows) > 0)
    {
      const BlockCyclic layout = layout_of(a.whole.place, a.size);
      TemporaryMatrix<T> full{world, layout};
      time_into(report_.conversion, [&] { complete(world, how, foreign(a), full.matrix()); });
      const In all{{{layout}, full.memory().data(), full.matrix().arrays()[0].ld}, a.size};
      return multiply_from(*this, how.side, Op::none, alpha, all, b, beta, c);
    }
    ++blocks_;
    with_shared_triangle<T>(session_, kept_, how.triangle, a, b, beta, c, true, report_,
                            [&](const auto& all_a, const auto& all_b, const auto& all_c) {
                              SymmetricOperand of_transposes{how};
                              of_transposes.side = opposite(how.side);
                              of_transposes.triangle = opposite(how.triangle);
                              const auto mine = [&](const SharedMatrix<T>& x) {
                                return x.share(how.side == Side::left, world.rank(), world.size());
                              };
                              HostEngine{}.symm<T>(of_transposes, alpha, all_a.transposed(),
                                                   mine(all_b), T{}, mine(all_c));
                            });
  }

  void syrk(Triangle triangle, Op op, Symmetry symmetry, T alpha, const In& a, T beta, const Out& c)
  {
    ++blocks_;
    if (!shares_)
      return syrk_on_grid(HostEngine{}, session_.world(), layout_of(c.whole.place, c.size),
                          triangle, op, symmetry, alpha, foreign(a), beta, foreign(c));
    const Op mirror = mirror_of(symmetry);
    const std::size_t n = c.size.rows;
    const LocalArray<const T> array{a.whole.data, a.whole.ld};
    run_product<T>(session_,
                   {op == Op::none ? Op::none : mirror,
                    op == Op::none ? mirror : Op::none,
                    {n, n, op_shape(op, a.size).cols},
                    a.whole.place,
                    a.whole.place,
                    c.whole.place,
                    part_of(triangle)},
                   alpha, array, array, beta, {c.whole.data, c.whole.ld}, options_, report_);
  }

  /// Says in the report how the triangle was cut.
  void report() const
  {
    if (!report_.chosen.empty()) return;
    report_.chosen = join({shares_ ? "in shared memory, " : "", blocks_,
                           blocks_ == 1 ? " block of the triangle, " : " blocks of the triangle, ",
                           products_, products_ == 1 ? " product" : " products"});
    if (shares_) report_kept(report_, session_.shared().kept());
  }

 private:
  template <class E>
  [[nodiscard]] static constexpr E opposite(E e)
  {
    return e == E{} ? E{1} : E{};
  }
  template <class U>
  [[nodiscard]] ForeignMatrix<U> foreign(const PlacedMatrix<U>& x) const
  {
    return {session_.world(), x.whole, x.size};
  }

  /// Whether B stays in place. Then only the processes that hold it compute, which takes longer,
  /// unless they have all cores, or copies would take as long as the product.
  [[nodiscard]] bool is_in_place(Side side, const Out& b) const
  {
    constexpr std::size_t most_rows = 256;
    const std::size_t holders = holders_of_lines(side, b.whole.place, b.size);
    const int workers = std::min(session_.cores(), session_.world().size());
    return holders >= static_cast<std::size_t>(workers) ||
           (holders > 0 && (side == Side::left ? b.size.rows : b.size.cols) <= most_rows);
  }

  PblasSession& session_;
  const PgemmOptions& options_;
  PgemmReport& report_;
  bool shares_;
  std::size_t kept_ = 0;
  std::size_t largest_block_;
  int blocks_ = 0;
  int products_ = 0;
};

/// Checks the two matrices of a call that writes to `c`, and then calls `f(session, report)`, which
/// computes.
/// @param reads whether A is read  @param written the name of C
template <class T, class F>
void run_triangular(const boost::mpi::communicator& comm, const PlacedMatrix<const T>& a,
                    bool reads, const char* written, const PlacedMatrix<T>& c,
                    const PgemmOptions& options, F f)
{
  auto& session = PblasSession::of(comm);
  session.run([&] {
    const int rank = session.world().rank();
    const int ranks = session.world().size();
    require_block_cyclic("A", a.whole, a.size, reads && c.size.size() > 0, rank, ranks);
    require_block_cyclic(written, c.whole, c.size, true, rank, ranks);
    PgemmReport unused;
    PgemmReport& report = options.report != nullptr ? *options.report : unused;
    report = {};
    f(session, report);
  });
}

/// Returns the arguments of a product with a triangle.
/// @param shape the shape of B
[[nodiscard]] inline ProductArguments triangular_call(Side side, Triangle triangle, Shape shape,
                                                      const SubMatrixPlace& a,
                                                      const SubMatrixPlace& b,
                                                      const SubMatrixPlace& c)
{
  const std::size_t n = side == Side::left ? shape.rows : shape.cols;
  return {Op::none, Op::none, {shape.rows, shape.cols, n}, a, b, c, part_of(triangle)};
}

template <PblasScalar T>
void run_ptriangular(bool solves, const boost::mpi::communicator& comm,
                     const TriangularOperand& how, Shape shape, T alpha,
                     const BlockCyclicMatrix<const T>& matrix_a,
                     const BlockCyclicMatrix<T>& matrix_b, const PgemmOptions& options)
{
  const bool is_left = how.side == Side::left;
  const std::size_t n = is_left ? shape.rows : shape.cols;
  const PlacedMatrix<const T> a{matrix_a, {n, n}};
  const PlacedMatrix<T> b{matrix_b, shape};
  run_triangular(
      comm, a, alpha != T{}, "B", b, options, [&](PblasSession& session, PgemmReport& report) {
        if (shape.size() == 0) return;
        const int rank = session.world().rank();
        if (alpha == T{})
          return scale_local(T{}, local_part(matrix_b.place, shape, rank),
                             {matrix_b.data, matrix_b.ld});
        require_apart_from_triangle("A", how.triangle, matrix_a, n, "B", matrix_b, shape, rank);
        if (!shares_memory(session, options))
        {
          const BlasThreads of_each{session.threads()};
          TrianglePanels<T> panels{session.world(), solves, how, a, b};
          time_into(report.product, [&] { panels.run(alpha); });
          report.chosen = join({panels.panels(), " panels of the triangle"});
          return;
        }
        PblasSteps<T> steps{session,
                            options,
                            report,
                            triangular_call(how.side, how.triangle, shape, matrix_a.place,
                                            matrix_b.place, matrix_b.place),
                            n,
                            shape.size() / n};
        triangular_by_halves(steps, solves, how, alpha, a, b);
        steps.report();
      });
}

}  // namespace detail

template <PblasScalar T>
void psymm(const boost::mpi::communicator& comm, const SymmetricOperand& how, Shape shape, T alpha,
           const BlockCyclicMatrix<const std::type_identity_t<T>>& a,
           const BlockCyclicMatrix<const std::type_identity_t<T>>& b, std::type_identity_t<T> beta,
           const BlockCyclicMatrix<std::type_identity_t<T>>& c, const PgemmOptions& options)
{
  using namespace detail;
  const std::size_t n = how.side == Side::left ? shape.rows : shape.cols;
  const PlacedMatrix<const T> placed_a{a, {n, n}};
  const PlacedMatrix<const T> placed_b{b, shape};
  const PlacedMatrix<T> placed_c{c, shape};
  run_triangular(
      comm, placed_a, alpha != T{}, "C", placed_c, options,
      [&](PblasSession& session, PgemmReport& report) {
        auto& world = session.world();
        const int rank = world.rank();
        require_block_cyclic("B", b, shape, alpha != T{}, rank, world.size());
        if (shape.size() == 0) return;
        if (alpha == T{})
        {
          if (beta != T{1}) scale_local(beta, local_part(c.place, shape, rank), {c.data, c.ld});
          return;
        }
        require_apart_from_triangle("A", how.triangle, a, n, "C", c, shape, rank);
        require_apart("B", b, shape, c, shape, rank);
        PblasSteps<T> steps{
            session, options,
            report,  triangular_call(how.side, how.triangle, shape, a.place, b.place, c.place),
            n,       shape.size() / n};
        steps.symm(how, alpha, placed_a, placed_b, beta, placed_c);
        steps.report();
      });
}

template <PblasScalar T>
void ptrmm(const boost::mpi::communicator& comm, const TriangularOperand& how, Shape shape, T alpha,
           const BlockCyclicMatrix<const std::type_identity_t<T>>& a,
           const BlockCyclicMatrix<std::type_identity_t<T>>& b, const PgemmOptions& options)
{
  detail::run_ptriangular<T>(false, comm, how, shape, alpha, a, b, options);
}

template <PblasScalar T>
void ptrsm(const boost::mpi::communicator& comm, const TriangularOperand& how, Shape shape, T alpha,
           const BlockCyclicMatrix<const std::type_identity_t<T>>& a,
           const BlockCyclicMatrix<std::type_identity_t<T>>& b, const PgemmOptions& options)
{
  detail::run_ptriangular<T>(true, comm, how, shape, alpha, a, b, options);
}

template <PblasScalar T>
void psyrk(const boost::mpi::communicator& comm, Triangle triangle, Op op, Symmetry symmetry,
           Shape shape, T alpha, const BlockCyclicMatrix<const std::type_identity_t<T>>& a,
           std::type_identity_t<T> beta, const BlockCyclicMatrix<std::type_identity_t<T>>& c,
           const PgemmOptions& options)
{
  using namespace detail;
  const std::size_t n = shape.rows;
  const std::size_t k = shape.cols;
  const PlacedMatrix<const T> placed_a{a, op_shape(op, shape)};
  const PlacedMatrix<T> placed_c{c, {n, n}};
  run_triangular(comm, placed_a, alpha != T{} && k != 0, "C", placed_c, options,
                 [&](PblasSession& session, PgemmReport& report) {
                   if (n == 0) return;
                   const ForeignMatrix<T> to{session.world(), c, {n, n}};
                   if (alpha == T{} || k == 0)
                     scale(beta, to, part_of(triangle));
                   else
                   {
                     require_apart_from_triangle("A", triangle, c, n, "C", a, op_shape(op, shape),
                                                 session.world().rank());
                     // If A is so thin that its ranks would add up more of C than they multiply,
                     // C stays where it is.
                     if (!shares_memory(session, options) && 8 * k > n)
                     {
                       const BlasThreads of_each{session.threads()};
                       SyrkPanels<T> panels{session.world(), triangle, op,
                                            symmetry,        placed_a, placed_c};
                       time_into(report.product, [&] { panels.run(alpha, beta); });
                       report.chosen = join({panels.panels(), " panels of the triangle"});
                     }
                     else
                     {
                       PblasSteps<T> steps{session, options, report, {}, n, 0};
                       steps.syrk(triangle, op, symmetry, alpha, placed_a, beta, placed_c);
                       steps.report();
                     }
                   }
                   if (symmetry == Symmetry::hermitian) make_diagonal_real(to);
                 });
}

}  // namespace cubist::CUBIST_ABI
