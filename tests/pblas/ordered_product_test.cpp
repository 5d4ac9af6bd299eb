// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/foreign/conversion_plan.hpp"
#include "cubist/scheme/summa2d.hpp"

#include "catch.hpp"
#include "foreign_matrices.hpp"
#include "ordered_product.hpp"

namespace cubist::test::pblas_ordered_product_test
{

using detail::OrderedProduct;

TEST_CASE("by part each part has an interval")
{
  // Part 1 has 0 and 1 of the matrix, then 4 and 5; the sub-matrix begins at 1.
  const auto sets =
      detail::ordered_by_part(detail::windows(detail::cyclic_sets(9, 2, 2, 1, 2), 1, 6));
  REQUIRE(sets.size() == 2);
  CHECK((sets[0] == detail::IndexSet::interval(0, 3)));     // 2 3 6
  CHECK((sets[1] == detail::IndexSet::interval(3, 3, 1)));  // 1 4 5, where 0 is in front of them
}

/// One dimension of a sub-matrix.
struct Dimension
{
  std::size_t first;
  std::size_t block;
  int source;
  int parts;
  std::size_t begin;

  /// The part that has an index, by definition.
  [[nodiscard]] int owner_of(std::size_t i) const
  {
    const std::size_t at = begin + i;
    const std::size_t of_block = at < first ? 0 : 1 + (at - first) / block;
    return static_cast<int>((static_cast<std::size_t>(source) + of_block) %
                            static_cast<std::size_t>(parts));
  }
  [[nodiscard]] std::vector<detail::IndexSet> sets(std::size_t size) const
  {
    return detail::windows(detail::cyclic_sets(begin + size + 5, first, block, source, parts),
                           begin, size);
  }
};

static Dimension some_dimension(test::Dice& dice)
{
  const int parts = 1 + dice.integer(3);
  return {1 + dice(4), 1 + dice(3), dice.integer(parts), parts, dice(12)};
}

TEST_CASE("dimensions have the same parts if each index has the same owner in both")
{
  test::Dice dice{11};
  int same = 0;
  for (int run = 0; run < 4000; ++run)
  {
    const auto a = some_dimension(dice);
    const auto b = some_dimension(dice);
    const std::size_t size = dice(9);
    bool equal = a.parts == b.parts;
    for (std::size_t i = 0; i < size; ++i) equal = equal && a.owner_of(i) == b.owner_of(i);
    CAPTURE(run, size);
    CHECK(detail::have_same_parts(a.sets(size), b.sets(size)) == equal);
    same += equal && size > 1 && a.parts > 1 ? 1 : 0;
  }
  CHECK(same > 40);
  const auto replicated = detail::cyclic_sets(5, 2, 2, -1, 2);
  CHECK_FALSE(detail::have_same_parts(replicated, detail::cyclic_sets(5, 2, 2, 0, 2)));
  CHECK((detail::ordered_by_part(replicated) == replicated));
}

/// The elements that conversions of A, B and C send for Summa2D on r x c ranks.
static std::array<std::size_t, 3> sent(const detail::ProductArguments& call, int r, int c)
{
  const auto [m, n, k] = call.size;
  const Summa2D::Axes::Array extents{r, c};
  const Quanta quanta{Summa2D::quantum(extents)};
  const auto on_mesh = [&]<class L>(Shape shape) {
    return Distribution::of<L, Summa2D::Axes>(shape, extents, quanta);
  };
  const OrderedProduct ordered{call};
  return {conversion_cost(ordered.a, on_mesh.operator()<Summa2D::Input>({m, k}), call.op_a).total,
          conversion_cost(ordered.b, on_mesh.operator()<Summa2D::Weight>({k, n}), call.op_b).total,
          conversion_cost(on_mesh.operator()<Summa2D::Output>({m, n}), ordered.c).total};
}

TEST_CASE("matrices of one layout on a square grid are not converted between ranks")
{
  const auto place = [](Shape shape, std::size_t i, std::size_t j) {
    return SubMatrixPlace{
        {.shape = {shape.rows + i, shape.cols + j}, .block = {8, 8}, .grid = {2, 2}}, i, j};
  };
  const ProductSize size{64, 32, 96};
  const detail::ProductArguments call{Op::none,
                                      Op::none,
                                      size,
                                      place({64, 96}, 0, 0),
                                      place({96, 32}, 0, 0),
                                      place({64, 32}, 0, 0)};
  CHECK(sent(call, 2, 2) == std::array<std::size_t, 3>{0, 0, 0});
  auto moved = call;  // by a whole number of turns of the grid, all three
  moved.a = place({64, 96}, 16, 32);
  moved.b = place({96, 32}, 32, 48);
  moved.c = place({64, 32}, 16, 48);
  CHECK(sent(moved, 2, 2) == std::array<std::size_t, 3>{0, 0, 0});
  // A is on the ranks that have its transpose, so half of them keep what they have.
  auto transposed = call;
  transposed.op_a = Op::transpose;
  transposed.a = place({96, 64}, 0, 0);
  CHECK(sent(transposed, 2, 2) == std::array<std::size_t, 3>{64 * 96 / 2, 0, 0});
  // The rows of C begin on another part than those of A, so both stay in their order.
  moved.c = place({64, 32}, 8, 48);
  const auto unlike = sent(moved, 2, 2);
  CHECK((unlike[0] > 0 && unlike[1] == 0 && unlike[2] > 0));
}

TEST_CASE("on a grid that is not square only inner indices move")
{
  const auto place = [](Shape shape) {
    return SubMatrixPlace{{.shape = shape, .block = {8, 8}, .grid = {2, 4}}};
  };
  const detail::ProductArguments call{Op::none,        Op::none,        {64, 64, 64},
                                      place({64, 64}), place({64, 64}), place({64, 64})};
  // Each rank has its rows of A and keeps a quarter of the columns; of B it keeps half of the rows.
  CHECK(sent(call, 2, 4) == std::array<std::size_t, 3>{64 * 64 * 3 / 4, 64 * 64 / 2, 0});
}

}  // namespace cubist::test::pblas_ordered_product_test
