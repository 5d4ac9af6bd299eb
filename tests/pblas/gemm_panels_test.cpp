// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>

#include <boost/mpi/communicator.hpp>

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

using detail::GemmPanels;
using detail::panel_cost;
using detail::ProductArguments;

/// The session's communicator, which counts what this rank sends.
static CountingCommunicator<MpiCommunicator> counting_world()
{
  return CountingCommunicator{detail::PblasSession::of(boost::mpi::communicator{}).world()};
}

TEST_CASE("panels of one element are multiplied by one process")
{
  auto world = counting_world();
  const SubMatrixPlace place{{.shape = {1, 1}, .block = {1, 1}}};
  const double a = 3;
  const double b = 5;
  double c = 7;
  GemmPanels<CountingCommunicator<MpiCommunicator>, double> panels{
      world, {Op::none, Op::none, {1, 1, 1}, place, place, place}, {&a, 1}, {&b, 1}, {&c, 1}};
  CHECK(sent_in(world, [&] { panels.run(2, 10); }) == 0);
  CHECK(c == (world.rank() == 0 ? 100 : 7));
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
  CAPTURE(seed, m, n, k, int(op_a), int(op_b), beta);

  RandomMatrix<T> a{op_shape(op_a, {m, k}), dice};
  RandomMatrix<T> b{op_shape(op_b, {k, n}), dice};
  RandomMatrix<T> c{{m, n}, dice};
  a.fill([](auto i, auto j) { return element<T>(1, i, j); });
  b.fill([](auto i, auto j) { return element<T>(2, i, j); });
  c.fill([&](auto i, auto j) { return beta == T{} ? nan : element<T>(3, i, j); });
  const ProductArguments call{op_a, op_b, size, a.place(), b.place(), c.place()};
  auto world = counting_world();
  GemmPanels<CountingCommunicator<MpiCommunicator>, T> panels{world,
                                                              call,
                                                              {a.matrix().data, a.matrix().ld},
                                                              {b.matrix().data, b.matrix().ld},
                                                              {c.matrix().data, c.matrix().ld}};
  const std::uint64_t sent = sent_in(world, [&] { panels.run(alpha, beta); });

  CHECK(everywhere(c.is([&, depth = k](std::size_t i, std::size_t j) {
    T sum{};
    for (std::size_t l = 0; l < depth; ++l)
      sum += element_of<T>(op_a, 1, i, l) * element_of<T>(op_b, 2, l, j);
    return beta == T{} ? alpha * sum : alpha * sum + beta * element<T>(3, i, j);
  })));
  const auto cost = panel_cost(call);
  CHECK(total(sent) == cost.a.total + cost.b.total);
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

TEST_CASE("panels of aligned matrices send what their formula says")
{
  for (const auto& [p, q] : {std::pair{2, 2}, {2, 4}, {4, 2}, {1, 4}, {3, 2}})
  {
    const ProcessGrid grid{p, q};
    const auto rows = static_cast<std::size_t>(p);
    const auto cols = static_cast<std::size_t>(q);
    const std::size_t m = 24, n = 48, k = 96;
    const auto place = [&](std::size_t i, std::size_t j) {
      return SubMatrixPlace{{.shape = {i, j}, .block = {2, 2}, .grid = grid}};
    };
    const auto cost =
        panel_cost({Op::none, Op::none, {m, n, k}, place(m, k), place(k, n), place(m, n)});
    CAPTURE(p, q);
    CHECK(cost.a == ConversionCost{m * k * (cols - 1), m * k / rows * (cols - 1) / cols,
                                   m * k / rows * (cols - 1) / cols});
    CHECK(cost.b == ConversionCost{k * n * (rows - 1), k * n / cols * (rows - 1) / rows,
                                   k * n / cols * (rows - 1) / rows});
    CHECK(cost.most() == cost.a.received + cost.b.received);
  }
}

/// Whether a product on four nodes of `ranks / 4` ranks is computed in panels.
static bool in_panels(ProductSize size, Op op_a, const ProcessGrid& grid)
{
  const auto place = [&](Shape shape) {
    return SubMatrixPlace{{.shape = shape, .block = {64, 64}, .grid = grid}};
  };
  const ProductArguments call{op_a,
                              Op::none,
                              size,
                              place(op_shape(op_a, {size.m, size.k})),
                              place({size.k, size.n}),
                              place({size.m, size.n})};
  Machine machine;
  machine.links.front().ranks = grid.size() / 4;
  const Plan plan = detail::plan_product<double>(call, grid.size(), machine).product;
  return detail::favours_panels<double>(plan, call, grid.size(), machine);
}

TEST_CASE("products are computed in panels unless a scheme sends much less between the nodes")
{
  constexpr ProductSize square{2048, 2048, 2048};
  CHECK(in_panels(square, Op::none, {2, 2}));
  CHECK(in_panels(square, Op::none, {2, 4}));
  CHECK(in_panels(square, Op::transpose, {2, 2}));
  CHECK(in_panels({4096, 4096, 512}, Op::none, {2, 4}));
  CHECK(in_panels({8192, 512, 8192}, Op::none, {2, 2}));
  // Columns of A are on all nodes, so panels send almost all of A, and a scheme B and C instead.
  CHECK_FALSE(in_panels({8192, 512, 8192}, Op::none, {1, 4}));
  CHECK_FALSE(in_panels({4096, 512, 4096}, Op::none, {2, 4}));
}

}  // namespace cubist::test::pblas_gemm_panels_test
