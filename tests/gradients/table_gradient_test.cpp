// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/gradients/table_gradient.hpp"

#include "catch.hpp"

using cubist::detail::all_reduces_table;

TEST_CASE("a table's gradient is all-reduced if sums of rows may be more than twice the table")
{
  // 4 blocks of 25 rows may have 100 distinct ids of 50, or 80 of 20.
  CHECK_FALSE(all_reduces_table(50, 100, 4, 25));
  CHECK(all_reduces_table(49, 100, 4, 25));
  CHECK(all_reduces_table(20, 100, 4, 25));
  // Two blocks hold at most two tables, however many rows they have.
  CHECK_FALSE(all_reduces_table(20, 1000, 2, 500));
  CHECK(all_reduces_table(20, 1000, 3, 334));
  // Padding rows send nothing.
  CHECK_FALSE(all_reduces_table(20, 40, 4, 25));
}
