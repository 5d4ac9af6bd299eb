// SPDX-License-Identifier: BSD-3-Clause
#include "catch.hpp"
#include "converted_product.hpp"

namespace cubist::test::pblas_converted_product_test
{

/// Four nodes with some ranks each, and a slow network between them.
static Machine four_nodes(int ranks_of_node = 2)
{
  Machine machine;
  machine.cores = ranks_of_node;
  machine.links.front().ranks = ranks_of_node;
  machine.links.back().bandwidth = 125e6;
  return machine;
}

/// A product of three n x n matrices, each cut into one block for each rank of a grid.
static detail::ProductArguments product_on(const ProcessGrid& grid, std::size_t n)
{
  const SubMatrixPlace place{one_block_a_rank({n, n}, grid, StorageOrder::column_major)};
  return {Op::none, Op::none, {n, n, n}, place, place, place};
}

TEST_CASE("a conversion takes as long as the links of the nodes need for what leaves them")
{
  // Rows [256 p, 256 (p + 1)) are on node p. On the 2 x 4 mesh each node needs a quarter of the
  // matrix, which is 512 x 512, and already holds half of that.
  const auto call = product_on({4, 2}, 1024);
  auto machine = four_nodes();
  machine.links.front().bandwidth = std::numeric_limits<double>::infinity();
  machine.links.back().bandwidth = 1e6;
  CHECK(detail::conversion_seconds<Summa2D>({2, 4}, call, sizeof(double), machine, 8) ==
        Approx(3 * 256 * 512 * 8 / 1e6));
  CHECK(detail::conversion_seconds<Summa2D>({4, 2}, call, sizeof(double), machine, 8) == 0);
  // With one node nothing leaves it, and rank 1 copies its whole block, of which it holds nothing.
  machine.links.front() = {.ranks = 8, .bandwidth = 1e6};
  CHECK(detail::conversion_seconds<Summa2D>({2, 4}, call, sizeof(double), machine, 8) ==
        Approx(3 * 512 * 256 * 8 / 1e6));
}

TEST_CASE("the planner counts conversions, so the mesh that needs none is chosen")
{
  const auto chosen = [](const detail::ProductArguments& call, int ranks) {
    const auto plan = detail::plan_product<double>(call, ranks, four_nodes(ranks / 4));
    CHECK(plan.seconds() == plan.product.seconds() + plan.conversion);
    return std::tuple{plan.product.scheme, plan.product.extents, plan.conversion};
  };
  using Chosen = std::tuple<std::string, std::vector<int>, double>;
  CHECK(chosen(product_on({2, 4}, 1024), 8) == Chosen{"Summa2D", {2, 4}, 0});
  // Once its indices are ordered by part, a block-cyclic matrix on a square grid is cut like a
  // scheme's. C is the largest of the three, so a scheme that keeps it in place is the fastest.
  const auto cyclic = [](Shape shape) {
    return SubMatrixPlace{{.shape = shape, .block = {64, 64}, .grid = {4, 4}}};
  };
  detail::ProductArguments call{Op::none,
                                Op::none,
                                {2048, 2048, 256},
                                cyclic({2048, 256}),
                                cyclic({256, 2048}),
                                cyclic({2048, 2048})};
  CHECK(chosen(call, 16) == Chosen{"Summa2D", {4, 4}, 0});
  // With C on other ranks, something has to be converted.
  call.c.layout.row_source = 1;
  CHECK(std::get<2>(chosen(call, 16)) > 0);
}

TEST_CASE("the links need as long as a plan's messages and conversions between nodes")
{
  auto machine = four_nodes(1);
  machine.links.back().bandwidth = 1e6;
  const auto call = product_on({2, 2}, 1024);
  const auto seconds = [&](const std::vector<int>& extents) {
    const auto plan = plan_on<Summa2D>({extents[0], extents[1]}, {call.size}, 4, machine,
                                       detail::options_of_plan<double>());
    return detail::link_seconds<double>(plan, call, 4, machine);
  };
  // Each rank receives half a row of blocks of X, and half a column of W.
  CHECK(seconds({2, 2}) == Approx(2 * 512 * 512 * 8 / 1e6).epsilon(0.01));
  CHECK(seconds({1, 4}) > 1.5 * seconds({2, 2}));
}

TEST_CASE("a plan is faster with its conversions than all others")
{
  const ProductSize size{512, 256, 4096};
  const auto place = [](Shape shape) {
    return SubMatrixPlace{{.shape = shape, .block = {64, 64}, .grid = {2, 4}}};
  };
  const detail::ProductArguments call{Op::none,           Op::transpose,      size,
                                      place({512, 4096}), place({256, 4096}), place({512, 256})};
  const auto machine = four_nodes();
  const auto chosen = detail::plan_product<float>(call, 8, machine);
  CHECK(chosen.conversion > 0);
  int meshes = 0;
  for_each_scheme<detail::ProductSchemes>([&]<class S>() {
    for_each_mesh<S>(8, [&](const typename S::Axes::Array& extents) {
      if (S::Axes::ranks(extents) < 8) return;
      ++meshes;
      const auto product = plan_on<S>(extents, {size}, 8, machine,
                                      {.scalar_bytes = sizeof(float),
                                       .training = false,
                                       .gathered = Gathered::again,
                                       .method = Method::collectives});
      CHECK(chosen.seconds() <= product.seconds() + detail::conversion_seconds<S>(
                                                        extents, call, sizeof(float), machine, 8));
    });
  });
  CHECK(meshes > 10);
}

}  // namespace cubist::test::pblas_converted_product_test
