// SPDX-License-Identifier: BSD-3-Clause
#include <numeric>
#include <vector>

#include "cubist/core/matrix_view.hpp"

#include "catch.hpp"

namespace cubist::test::core_matrix_view_test
{

static std::vector<int> iota(int n)
{
  std::vector<int> v(static_cast<std::size_t>(n));
  std::iota(v.begin(), v.end(), 0);
  return v;
}

TEST_CASE("a view is row-major, with a leading dimension")
{
  auto memory = iota(20);
  const MatrixView<int> m{memory.data(), 4, 3, 5};
  CHECK(m.shape() == Shape{4, 3});
  CHECK(m.size() == 12);
  CHECK(m.ld() == 5);
  CHECK(m(0, 0) == 0);
  CHECK(m(1, 0) == 5);
  CHECK(m(3, 2) == 17);
  CHECK(m.row(2) == memory.data() + 10);

  m(1, 1) = -1;
  CHECK(memory[6] == -1);
}

TEST_CASE("a block of a view is a view of the same memory")
{
  auto memory = iota(20);
  const MatrixView<int> m{memory.data(), {4, 5}};
  const auto b = m.block(1, 2, {2, 3});
  CHECK(b.shape() == Shape{2, 3});
  CHECK(b.ld() == 5);
  CHECK(&b(0, 0) == &m(1, 2));
  CHECK(&b(1, 2) == &m(2, 4));

  const auto inner = b.block(1, 1, {1, 2});
  CHECK(&inner(0, 1) == &m(2, 4));
  CHECK(m.block(4, 5, {0, 0}).size() == 0);
}

TEST_CASE("a repeated row has the same memory in every row")
{
  auto memory = iota(6);
  const MatrixView<int> row{memory.data() + 3, {1, 3}};
  const MatrixView<const int> m = row.repeated(4);
  CHECK(m.shape() == Shape{4, 3});
  CHECK_FALSE(m.contiguous());
  for (std::size_t i = 0; i < 4; ++i) CHECK(&m(i, 2) == &memory[5]);
  CHECK(row.repeated(1).contiguous());
  CHECK(row.repeated(0).size() == 0);
}

TEST_CASE("a view converts to a read-only one, and not back")
{
  STATIC_REQUIRE(std::is_convertible_v<MatrixView<int>, MatrixView<const int>>);
  STATIC_REQUIRE_FALSE(std::is_convertible_v<MatrixView<const int>, MatrixView<int>>);

  auto memory = iota(6);
  const MatrixView<const int> m = MatrixView<int>{memory.data(), 2, 2, 3};
  CHECK(m.data() == memory.data());
  CHECK(m.shape() == Shape{2, 2});
  CHECK(m.ld() == 3);
}

TEST_CASE("contiguous elements are a span, and others are refused")
{
  auto memory = iota(20);
  const MatrixView<int> whole{memory.data(), {4, 5}};
  REQUIRE(whole.contiguous());
  CHECK(whole.elements().size() == 20);
  CHECK(whole.elements().data() == memory.data());

  const auto one_row = whole.block(2, 1, {1, 3});
  REQUIRE(one_row.contiguous());
  CHECK(one_row.elements().size() == 3);
  CHECK(one_row.elements()[0] == 11);

  CHECK(whole.block(0, 0, {0, 3}).elements().empty());
  CHECK(MatrixView<int>{}.elements().empty());

  const auto cut = whole.block(0, 0, {2, 3});
  CHECK_FALSE(cut.contiguous());
  CHECK_THROWS_AS(cut.elements(), ShapeError);
  CHECK_THROWS_WITH(cut.elements(), Catch::Matchers::ContainsSubstring("2 x 3") &&
                                        Catch::Matchers::ContainsSubstring("5 apart") &&
                                        Catch::Matchers::ContainsSubstring("copy it to a buffer"));
}

}  // namespace cubist::test::core_matrix_view_test
