// SPDX-License-Identifier: BSD-3-Clause
#include <vector>

#include "cubist/engine/functions.hpp"
#include "cubist/engine/host/index_loop.hpp"

#include "catch.hpp"

namespace cubist::test::engine_host_index_loop_test
{

/// A matrix of 3 x 2 elements whose rows are 4 apart: 0, 1; 4, 5; 8, 9.
struct StridedMatrix
{
  std::vector<double> memory = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
  MatrixView<double> view{memory.data(), 3, 2, 4};
  MatrixView<const double> in{view};
};

struct PlusPlace
{
  double operator()(std::size_t i, std::size_t j, double x) const
  {
    return x + 100.0 * static_cast<double>(i) + 10.0 * static_cast<double>(j);
  }
};

TEST_CASE("an index loop maps the elements of a matrix with their indices, and nothing beside it")
{
  StridedMatrix m;
  detail::IndexLoop<double, PlusPlace, const double>::run(m.view, {}, m.in);
  CHECK(m.memory == std::vector<double>{0, 11, 2, 3, 104, 115, 6, 7, 208, 219, 10, 11});
}

/// Combines numbers so that the order shows.
struct TwiceAndAdd
{
  double operator()(double all, double x) const { return 2 * all + x; }
};

TEST_CASE("a fold combines the elements of a matrix row by row")
{
  const StridedMatrix m;
  // ((((((1 * 2 + 0) * 2 + 11) * 2 + 104) * 2 + 115) * 2 + 208) * 2 + 219)
  CHECK(detail::FoldLoop<double, TwiceAndAdd, PlusPlace, const double>::run(1, {}, {}, m.in) ==
        64.0 + 16 * 11 + 8 * 104 + 4 * 115 + 2 * 208 + 219);
}

struct HalfAndTerm
{
  detail::ValueAndTerm<double, double> operator()(std::size_t, std::size_t, double x) const
  {
    return {x / 2, x};
  }
};

TEST_CASE("a map with a fold writes the values and combines the terms row by row")
{
  StridedMatrix m;
  CHECK(detail::MapFoldLoop<double, TwiceAndAdd, double, HalfAndTerm, const double>::run(
            0, {}, m.view, {}, m.in) == 16.0 * 1 + 8 * 4 + 4 * 5 + 2 * 8 + 9);
  CHECK(m.memory == std::vector<double>{0, 0.5, 2, 3, 2, 2.5, 6, 7, 4, 4.5, 10, 11});
}

TEST_CASE("rows are copied and filled, and columns are summed, with nothing beside them")
{
  StridedMatrix m;
  std::vector<double> sums{1, 2};
  detail::ColumnSums<double>::run(m.in, sums.data());
  CHECK(sums == std::vector<double>{13, 17});

  StridedMatrix to;
  detail::RowLoops<double>::fill(to.view, -1);
  CHECK(to.memory == std::vector<double>{-1, -1, 2, 3, -1, -1, 6, 7, -1, -1, 10, 11});
  detail::RowLoops<double>::copy(m.in, to.view);
  CHECK(to.memory == m.memory);
}

}  // namespace cubist::test::engine_host_index_loop_test
