// SPDX-License-Identifier: BSD-3-Clause
#include "argument_check.hpp"
#include "catch.hpp"

using cubist::detail::ArgumentCheck;
using cubist::detail::ArrayDescriptor;
using cubist::detail::ContextGrid;

static ArrayDescriptor right()
{
  return ArrayDescriptor::read(std::array{1, 5, 8, 8, 2, 2, 0, 0, 4}.data());
}

TEST_CASE("a descriptor of 9 entries is one of 11 whose first blocks are like the others")
{
  const auto nine = right();
  CHECK(nine.type == 2);
  CHECK((nine.first_row_block == 2 && nine.first_col_block == 2 && nine.ld == 4));
  const auto eleven =
      ArrayDescriptor::read(std::array{2, 5, 8, 9, 1, 3, 2, 4, 1, 2, 6}.data()).layout({2, 3});
  CHECK(eleven == cubist::BlockCyclic{.shape = {8, 9},
                                      .block = {2, 4},
                                      .grid = {2, 3},
                                      .row_source = 1,
                                      .col_source = 2,
                                      .first_block = {1, 3}});
  CHECK(ArrayDescriptor::read(std::array{7, 5}.data()).type == 7);
}

constexpr ContextGrid grid_2_by_3{.context = 5, .rows = 2, .cols = 3, .row = 1, .col = 0};

/// The error code of a sub-matrix (m, n) that begins at (i, j). Its descriptor is argument 10, m is
/// argument 3, and n is argument 5.
static int code(const ArrayDescriptor& d, int m = 4, int n = 4, int i = 0, int j = 0)
{
  ArgumentCheck checks{grid_2_by_3, 10};
  checks.check({m, 3}, {n, 5}, i, j, d, 10, "A");
  return checks.info();
}

TEST_CASE("a wrong argument is reported by its number, a wrong entry by the argument's and its own")
{
  CHECK(code(right()) == 0);
  CHECK(code(right(), -1) == -3);
  CHECK(code(right(), 4, -1) == -5);
  CHECK(code(right(), 4, 4, -1) == -8);
  CHECK(code(right(), 4, 4, 0, 5) == -9);
  const auto with = [](auto change) {
    auto d = right();
    change(d);
    return code(d);
  };
  CHECK(with([](auto& d) { d.type = 3; }) == -1001);
  CHECK(with([](auto& d) { d.context = 6; }) == -1002);
  CHECK(with([](auto& d) { d.rows = 0; }) == -1003);
  CHECK(with([](auto& d) { d.first_row_block = 0; }) == -1005);
  CHECK(with([](auto& d) { d.col_source = 3; }) == -1010);
  CHECK(with([](auto& d) { d.col_source = -1; }) == 0);
  CHECK(with([](auto& d) { d.ld = 3; }) == -1011);
}

TEST_CASE("of several wrong arguments, the first is reported")
{
  auto d = right();
  d.ld = 0;
  CHECK(code(d, -1) == -3);
  d = right();
  d.row_block = 0;
  CHECK(code(d, 4, 4, 7) == -8);

  ArgumentCheck checks{grid_2_by_3, 10};
  checks.check_letter('T', "NTC", "TRANSA", 1);
  checks.check_letter('Q', "NTC", "TRANSB", 2);
  checks.check({-1, 3}, {4, 5}, 0, 0, right(), 10, "A");
  CHECK(checks.info() == -2);
  CHECK(checks.texts() ==
        std::vector<std::string>{"Illegal TRANSB = Q\n",
                                 "Illegal number of rows of sub( A ) = -1, it must be at least 0"});
  CHECK(ArgumentCheck{ContextGrid{}, 10}.info() == -1002);
}

TEST_CASE("an empty sub-matrix may lie outside, and the leading dimension is that of this process")
{
  CHECK(code(right(), 0, 4, 100, 100) == 0);
  auto d = right();
  d.rows = 0;
  CHECK(code(d, 0) == 0);
  // 5 rows in blocks of 2: process row 0 has 3 of them, process row 1 has 2.
  d = right();
  d.rows = 5;
  d.ld = 2;
  CHECK(code(d) == 0);
  d.row_source = 1;
  CHECK(code(d) == -1011);
  // Without columns here, any leading dimension will do.
  d.cols = 2;
  d.col_source = 1;
  CHECK(code(d, 4, 2) == 0);
}
