// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include <boost/mpi/communicator.hpp>

#include "cubist/comm/call.hpp"
#include "cubist/testing/traffic.hpp"

#include "backend.hpp"
#include "catch.hpp"
#include "economy.hpp"
#include "gemm_panels.hpp"
#include "one_triangle.hpp"
#include "pgemm.hpp"
#include "random_matrix.hpp"
#include "sent.hpp"
#include "session.hpp"

namespace cubist::test::pblas_gemm_panels_test
{

using detail::GemmPanelPlan;
using detail::PanelShare;
using detail::ProductArguments;
using World = CountingCommunicator<MpiCommunicator>;

/// The elements that this rank sends in a product.
struct SentInPanels
{
  std::uint64_t to_any_node = 0;
  std::uint64_t in_groups = 0;
};

/// Computes a product in panels, as if so many consecutive ranks were on a node.
template <class T>
SentInPanels multiply(const ProductArguments& call, int ranks_of_node, T alpha,
                      const BlockCyclicMatrix<const T>& a, const BlockCyclicMatrix<const T>& b,
                      T beta, const BlockCyclicMatrix<T>& c)
{
  World world{detail::PblasSession::of(boost::mpi::communicator{}).world()};
  const GemmPanelPlan plan{call, ranks_of_node};
  const detail::PanelGroups<World> groups{world, plan};
  detail::GemmPanels<World, T> panels{world,          plan,           groups,
                                      {a.data, a.ld}, {b.data, b.ld}, {c.data, c.ld}};
  const std::uint64_t all = sent_in(world, [&] { panels.run(alpha, beta); });
  const std::uint64_t gathered = world.traffic()[CallKind::all_gather].elements;
  return {all - gathered, gathered};
}

TEST_CASE("panels of one element are multiplied by one process")
{
  const SubMatrixPlace place{{.shape = {1, 1}, .block = {1, 1}}};
  const double a = 3;
  const double b = 5;
  double c = 7;
  const SentInPanels sent =
      multiply<double>({Op::none, Op::none, {1, 1, 1}, place, place, place}, 1, 2, {place, &a, 1},
                       {place, &b, 1}, 10, {place, &c, 1});
  CHECK(sent.to_any_node + sent.in_groups == 0);
  CHECK(c == (boost::mpi::communicator{}.rank() == 0 ? 100 : 7));
}

TEST_CASE("ranks of a node share the panels that they all need")
{
  const auto shares = [](const ProcessGrid& grid, bool of_cols, int ranks_of_node) {
    return detail::shares_on_nodes(grid, of_cols, ranks_of_node);
  };
  using Shares = std::vector<PanelShare>;
  CHECK(shares({2, 4}, true, 2) == Shares{{0, 2}, {1, 2}, {0, 2}, {1, 2}});
  CHECK(shares({2, 4}, false, 2) == Shares{{0, 1}, {0, 1}});
  CHECK(shares({4, 2}, false, 4) == Shares{{0, 2}, {1, 2}, {0, 2}, {1, 2}});
  CHECK(shares({2, 4, StorageOrder::column_major}, false, 2) == Shares{{0, 2}, {1, 2}});
  CHECK(shares({1, 5}, true, 3) == Shares{{0, 3}, {1, 3}, {2, 3}, {0, 2}, {1, 2}});
  // The nodes are 0-3, 4-7 and 8-11; the first row is 0-5, the second 6-11.
  CHECK(shares({2, 6}, true, 4) == Shares(6));
}

/// The sum of a number over all processes.
static std::uint64_t total(std::uint64_t n)
{
  MPI_Allreduce(MPI_IN_PLACE, &n, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
  return n;
}

template <class T>
T element(int matrix, std::size_t i, std::size_t j)
{
  return SmallIntegers::element<T>(hash(static_cast<std::uint64_t>(matrix), i, j));
}
template <class T>
T element_of(Op op, int matrix, std::size_t i, std::size_t j)
{
  if (op == Op::none) return element<T>(matrix, i, j);
  const T x = element<T>(matrix, j, i);
  return op == Op::adjoint ? conjugate(x) : x;
}

template <class T>
void check_product(std::uint64_t seed, Op op_a, Op op_b)
{
  Dice dice{seed};
  const ProductSize size{1 + dice(40), 1 + dice(40), 1 + dice(300)};  // up to three panels
  const auto [m, n, k] = size;
  const T alpha = scalar<T>(2, -1);
  const T beta = dice(3) == 0 ? T{} : scalar<T>(3, 1);
  const T nan = scalar<T>(std::numeric_limits<double>::quiet_NaN(), 0);
  const int ranks_of_node = 1 + dice.integer(4);
  CAPTURE(seed, m, n, k, int(op_a), int(op_b), beta, ranks_of_node);

  RandomMatrix<T> a{op_shape(op_a, {m, k}), dice};
  RandomMatrix<T> b{op_shape(op_b, {k, n}), dice};
  RandomMatrix<T> c{{m, n}, dice};
  a.fill([](auto i, auto j) { return element<T>(1, i, j); });
  b.fill([](auto i, auto j) { return element<T>(2, i, j); });
  c.fill([&](auto i, auto j) { return beta == T{} ? nan : element<T>(3, i, j); });
  const ProductArguments call{op_a, op_b, size, a.place(), b.place(), c.place()};
  const SentInPanels sent =
      multiply<T>(call, ranks_of_node, alpha, a.matrix(), b.matrix(), beta, c.matrix());

  CHECK(everywhere(c.is([&, depth = k](std::size_t i, std::size_t j) {
    T sum{};
    for (std::size_t l = 0; l < depth; ++l)
      sum += element_of<T>(op_a, 1, i, l) * element_of<T>(op_b, 2, l, j);
    return beta == T{} ? alpha * sum : alpha * sum + beta * element<T>(3, i, j);
  })));
  const GemmPanelPlan plan{call, ranks_of_node};
  const auto cost = plan.cost(1);
  CHECK(total(sent.to_any_node) == cost.a.total + cost.b.total);
  // Each rank of a group sends its share of each panel to all others.
  const int rank = boost::mpi::communicator{}.rank();
  std::uint64_t gathered = 0;
  if (rank < call.c.layout.grid.size())
  {
    const Shape mine = Distribution{call.c, {m, n}}.held_shape(rank);
    const auto of_share = [&](const PanelShare& share, std::size_t lines) {
      return (share.count - 1) * (plan.depth() / share.count) * lines;
    };
    gathered = plan.panels().size() * (of_share(plan.share_of_a(rank), mine.rows) +
                                       of_share(plan.share_of_b(rank), mine.cols));
  }
  CHECK(everywhere(sent.in_groups == gathered));
}

TEMPLATE_TEST_CASE(
    "panels of products in any layouts add up to the serial oracle's and send what is counted", "",
    double, std::complex<float>)
{
  const int rounds = repeats(8, 2, 2);
  std::uint64_t seed = 0;
  for (int r = 0; r < rounds; ++r)
    for (const auto op_a : {Op::none, Op::transpose, Op::adjoint})
      for (const auto op_b : {Op::none, Op::transpose, Op::adjoint})
        check_product<TestType>(seed++, op_a, op_b);
}

static SubMatrixPlace aligned(Shape shape, const ProcessGrid& grid)
{
  return {{.shape = shape, .block = {64, 64}, .grid = grid}};
}
static ProductArguments aligned_product(ProductSize size, Op op_a, const ProcessGrid& grid)
{
  const auto [m, n, k] = size;
  return {op_a,
          Op::none,
          size,
          aligned(op_shape(op_a, {m, k}), grid),
          aligned({k, n}, grid),
          aligned({m, n}, grid)};
}

TEST_CASE("panels of aligned matrices send what their formula says")
{
  constexpr std::size_t m = 1024, n = 2048, k = 4096;
  // A node has `rows` rows and `cols` columns of the grid of P x Q ranks.
  struct Case
  {
    std::size_t p, q, ranks_of_node, rows, cols;
  };
  for (const auto& [p, q, ranks_of_node, rows, cols] :
       {Case{2, 2, 1, 1, 1}, {4, 2, 1, 1, 1}, {2, 4, 2, 1, 2}, {4, 4, 8, 2, 4}, {1, 4, 2, 1, 2}})
  {
    const ProcessGrid grid{static_cast<int>(p), static_cast<int>(q)};
    const auto unit = static_cast<int>(ranks_of_node);
    const auto call = aligned_product({m, n, k}, Op::none, grid);
    const auto cost = GemmPanelPlan{call, unit}.cost(unit);
    const std::size_t nodes = p * q / ranks_of_node;
    const std::size_t of_a = rows * (m * k / p) * (q - cols) / q;
    const std::size_t of_b = cols * (k * n / q) * (p - rows) / p;
    CAPTURE(p, q, ranks_of_node);
    CHECK(cost.a == ConversionCost{nodes * of_a, of_a, of_a});
    CHECK(cost.b == ConversionCost{nodes * of_b, of_b, of_b});
    CHECK(GemmPanelPlan{call, unit}.cost(unit).most() == of_a + of_b);
  }
}

/// Whether a product on four nodes of `ranks / 4` ranks is computed in panels.
static bool in_panels(ProductSize size, Op op_a, const ProcessGrid& grid)
{
  const auto call = aligned_product(size, op_a, grid);
  Machine machine;
  machine.links.front().ranks = grid.size() / 4;
  const Plan plan = detail::plan_product<double>(call, grid.size(), machine).product;
  return detail::favours_panels<double>(GemmPanelPlan{call, grid.size() / 4}, plan, grid.size(),
                                        machine);
}

TEST_CASE("products are computed in panels unless a scheme sends much less between the nodes")
{
  constexpr ProductSize square{2048, 2048, 2048};
  CHECK(in_panels(square, Op::none, {2, 2}));
  CHECK(in_panels(square, Op::none, {2, 4}));
  CHECK(in_panels(square, Op::transpose, {2, 2}));
  CHECK(in_panels({4096, 4096, 512}, Op::none, {2, 4}));
  CHECK(in_panels({8192, 8192, 8192}, Op::none, {16, 16}));
  CHECK(in_panels({8192, 512, 8192}, Op::none, {2, 2}));
  // The inner indices of the largest matrix are on all nodes, so panels send almost all of it, and
  // a scheme sends the other two instead.
  CHECK_FALSE(in_panels({8192, 512, 8192}, Op::none, {1, 4}));
  CHECK_FALSE(in_panels({512, 8192, 8192}, Op::none, {4, 1}));
}

}  // namespace cubist::test::pblas_gemm_panels_test
