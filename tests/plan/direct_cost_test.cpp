// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/plan/direct_cost.hpp"
#include "cubist/scheme/grid3d.hpp"
#include "cubist/scheme/summa2d.hpp"

#include "catch.hpp"

namespace cubist::test::plan_direct_cost_test
{

/// A machine that does one multiply-add a second, and needs next to no time for packing, copies and
/// windows.
static Machine product_machine()
{
  Machine machine;
  machine.rates["double"] = RateTable::peak(2);
  auto& gemm = machine.gemm;
  gemm.products = 1;
  gemm.result = gemm.copy = gemm.window = 1e-12;
  gemm.pack_a_double = gemm.pack_b_double = 1e-12;
  gemm.shared_core = 1;
  return machine;
}

static DirectCost on_square(double cores, Ranks ranks, Machine machine = product_machine())
{
  machine.cores = cores;
  return direct_cost<Summa2D>({2, 2}, {64, 64, 64}, ranks, machine, sizeof(double));
}

TEST_CASE("The direct method takes the time of the products on all cores")
{
  const double all = 64.0 * 64 * 64;  // seconds of forward on one core
  const auto four = on_square(4, {4, 4});
  CHECK(four.forward.total == Approx(all / 4));
  CHECK(four.forward.products == Approx(four.forward.total));
  CHECK(four.backward.total == Approx(2 * four.forward.total));
  CHECK(four.forward.across == 0);
  SECTION("two cores take twice as long, however many ranks share them")
  {
    CHECK(on_square(2, {4, 4}).forward.total == Approx(all / 2));
  }
  SECTION("with several cores for each rank, BLAS has threads, but not those of idle ranks")
  {
    CHECK(on_square(8, {4, 4}).forward.total == Approx(all / 8));
    CHECK(on_square(8, {4, 8}).forward.total == Approx(all / 4));
  }
}

TEST_CASE("Windows of the direct method cost time for each rank")
{
  auto machine = product_machine();
  machine.gemm.window = 1;
  // Ranks read blocks of X and of W.
  const auto cost = on_square(4, {4, 4}, machine);
  CHECK(cost.forward.inside == Approx(2 * 4));
  CHECK(cost.forward.total == Approx(cost.forward.products + cost.forward.inside));
  const auto one = direct_cost<Grid3D>({1, 1, 1}, {64, 64, 64}, {1, 1}, machine, sizeof(double));
  CHECK(one.forward.inside == Approx(0).margin(1e-6));
  CHECK(one.workspace == 0);
}

TEST_CASE("The predicted time is that by which a direct product is planned")
{
  const Machine machine;
  const Grid3D::Axes::Array e{2, 1, 2};
  const ProductSize size{.m = 300, .n = 200, .k = 100};
  const auto x = cubist::detail::planned_placement<Grid3D, Grid3D::Input>({size.m, size.k}, e,
                                                                          Grid3D::quantum(e));
  const auto w = cubist::detail::planned_placement<Grid3D, Grid3D::Weight>({size.k, size.n}, e,
                                                                           Grid3D::quantum(e));
  const auto y = cubist::detail::planned_placement<Grid3D, Grid3D::Output>({size.m, size.n}, e,
                                                                           Grid3D::quantum(e));
  const auto product = cubist::detail::assign_work(x, w, y, 0, 16, sizeof(float), machine.gemm);
  const double unit = 2 * 56 / machine.rates_of(sizeof(float)).largest();
  const auto cost = direct_cost<Grid3D>(e, size, {4, 4}, machine, sizeof(float));
  CHECK(cost.forward.inside == Approx(unit * (product.time - product.products_time)));
  CHECK(cost.forward.products == Approx(unit * product.products_time / 4));  // BLAS threads
}

}  // namespace cubist::test::plan_direct_cost_test
