// SPDX-License-Identifier: BSD-3-Clause
#include <complex>
#include <vector>

#include "cubist/memory/leading_dimension.hpp"

#include "catch.hpp"

namespace cubist::test::memory_leading_dimension_test
{

TEMPLATE_TEST_CASE(
    "rows are padded by at most a cache line, and never begin a multiple of 1 KiB apart", "", float,
    double, std::complex<double>)
{
  for (std::size_t cols = 1; cols <= 8192; ++cols)
  {
    const std::size_t bytes = padded_leading_dimension<TestType>(cols) * sizeof(TestType);
    const std::size_t least = cols * sizeof(TestType);
    if (bytes < least || bytes > least + 64 || bytes % 1024 == 0) FAIL(cols << " columns");
    if (least % 1024 != 0 && bytes != least) FAIL(cols << " columns are moved without need");
    if (least % 64 == 0 && bytes % 64 != 0) FAIL("rows of " << cols << " columns cross lines");
  }
  CHECK(padded_leading_dimension<TestType>(0) == 0);
}

TEST_CASE("the rows of a padded view do not overlap, and fit in its size")
{
  for (const Shape shape : {Shape{3, 5}, Shape{2, 256}, Shape{4, 1024}, Shape{7, 0}, Shape{0, 256}})
  {
    CAPTURE(shape.rows, shape.cols);
    std::vector<float> buffer(padded_size<float>(shape));
    const auto all = padded_view(buffer.data(), shape);
    CHECK(all.shape() == shape);
    for (std::size_t i = 0; i < shape.rows; ++i)
      for (std::size_t j = 0; j < shape.cols; ++j) ++all(i, j);
    std::size_t ones = 0;
    for (const float x : buffer)
    {
      CHECK(x <= 1);
      ones += x == 1 ? 1 : 0;
    }
    CHECK(ones == shape.size());
    if (shape.size() > 0)
      CHECK(&all(shape.rows - 1, shape.cols - 1) < buffer.data() + buffer.size());
  }
}

}  // namespace cubist::test::memory_leading_dimension_test
