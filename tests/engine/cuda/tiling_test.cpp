// SPDX-License-Identifier: BSD-3-Clause
#include <vector>

#include "cubist/engine/cuda/tiling.hpp"

#include "catch.hpp"

namespace cubist::test::engine_cuda_tiling_test
{

using detail::Tiling;

const std::vector<Shape> shapes{{1, 1},   {1, 1000},  {1000, 1}, {7, 13},  {64, 300},
                                {129, 8}, {5000, 33}, {3, 9000}, {4096, 2}};

/// How many times each element is visited. A chunk ends where its row does.
static std::vector<int> visits(const Tiling& t)
{
  std::vector<int> all(t.shape.size());
  for (unsigned block = 0; block < t.blocks(); ++block)
    for (unsigned thread = 0; thread < detail::block_threads; ++thread)
      t.for_chunks({block, thread}, [&](std::size_t i, std::size_t j) {
        for (std::size_t k = j; k < std::min(j + t.width, t.shape.cols); ++k)
          ++all[i * t.shape.cols + k];
      });
  return all;
}

static bool visits_each_once(const Tiling& t)
{
  const auto all = visits(t);
  return std::all_of(all.begin(), all.end(), [](int n) { return n == 1; });
}

/// Large shapes, whose elements are not visited here.
const std::vector<Shape> large{{8192, 8192}, {1U << 20, 64}, {64, 1U << 20},
                               {1024, 1024}, {1U << 26, 1},  {1, 1U << 26}};

TEST_CASE("every tiling visits each element once")
{
  for (const Shape shape : shapes)
    for (const unsigned width : {1U, 2U, 4U, 8U})
    {
      CAPTURE(shape, width);
      CHECK(visits_each_once(detail::map_tiling(shape, width)));
      CHECK(visits_each_once(detail::column_tiling(shape, width)));
      CHECK(visits_each_once(detail::row_tiling(shape, width)));
      CHECK(visits_each_once(detail::fold_tiling(shape, width)));
    }
}

TEST_CASE("a tiling visits each element once where threads have several chunks")
{
  Tiling t{{100, 700}, 4, 8, 3, 2};
  CHECK(visits_each_once(t));
  t.across = 256;
  CHECK(visits_each_once(t));
  t.shape.rows = 0;
  CHECK(visits_each_once(t));
}

TEST_CASE("a thread of column sums has one chunk of columns, of row folds one row")
{
  for (const Shape shape : shapes)
    for (const unsigned width : {1U, 4U})
    {
      const Tiling columns = detail::column_tiling(shape, width);
      CHECK(columns.blocks_across * columns.across * width >= shape.cols);
      const Tiling rows = detail::row_tiling(shape, width);
      CHECK(rows.rows_apart() >= shape.rows);
    }
}

TEST_CASE("tilings of large shapes fill a device, and their parts fit into its workspace")
{
  constexpr std::size_t multiprocessors = 132;
  constexpr std::size_t workspace = std::size_t{4} << 20;
  for (const Shape shape : large)
    for (const unsigned width : {1U, 2U, 4U, 8U})
    {
      CAPTURE(shape, width);
      const Tiling columns = detail::column_tiling(shape, width);
      const Tiling rows = detail::row_tiling(shape, width);
      const Tiling all = detail::fold_tiling(shape, width);
      if (width == 4 || shape.size() > (1U << 20))
        for (const Tiling& t : {columns, rows, all}) CHECK(t.blocks() >= multiprocessors);
      // A sum of 16 bytes has a width of at most 2, one of 8 bytes may have the greatest.
      const std::size_t sum = width <= 2 ? 16 : 8;
      if (columns.blocks_down > 1) CHECK(columns.blocks_down * shape.cols * sum <= workspace);
      if (rows.blocks_across > 1) CHECK(rows.blocks_across * shape.rows * 32 <= workspace);
      CHECK(std::size_t{all.blocks()} * 32 <= workspace);
      // Blocks that share a result need a counter.
      if (columns.blocks_down > 1) CHECK(columns.blocks_across <= detail::filling_blocks());
      if (rows.blocks_across > 1) CHECK(rows.blocks_down <= detail::filling_blocks());
    }
}

TEST_CASE("threads across are a power of two")
{
  CHECK(detail::threads_across(1, 32) == 1);
  CHECK(detail::threads_across(3, 32) == 4);
  CHECK(detail::threads_across(33, 32) == 32);
  CHECK(detail::threads_across(1000, 256) == 256);
}

}  // namespace cubist::test::engine_cuda_tiling_test
