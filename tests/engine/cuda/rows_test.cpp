// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/engine/cuda/rows.hpp"

#include "../../cuda/engine_operations.hpp"
#include "catch.hpp"
#include "host_kernels.hpp"

namespace cubist::test::engine_cuda_rows_test
{

template <class T>
std::vector<T> numbers(std::size_t n, std::size_t seed)
{
  std::vector<T> x(n);
  for (std::size_t i = 0; i < n; ++i)
    x[i] = static_cast<T>(static_cast<float>((i * seed) % 5) - 2.0F);
  return x;
}

TEMPLATE_TEST_CASE("a function of rows sums over a row and maps it", "", float, bfloat16)
{
  using T = TestType;
  for (const Shape shape : {Shape{1, 1}, Shape{3, 8}, Shape{700, 5}, Shape{2, 1030}, Shape{0, 4}})
    for (const std::size_t gap : {0U, 3U})
    {
      CAPTURE(shape, gap);
      const std::size_t ld = shape.cols + gap;
      const auto x = numbers<T>(shape.rows * ld, 7), y = numbers<T>(shape.rows * ld, 11);
      std::vector<T> z(shape.rows * ld);
      std::vector<float> sums(shape.rows);
      const auto view = [&](auto* data) { return MatrixView{data, shape.rows, shape.cols, ld}; };
      KernelEngine{}.for_each_row(
          shape, AddSums<T, float>{view(x.data()), view(y.data()), view(z.data()), sums.data()});
      bool as_expected = true;
      for (std::size_t i = 0; i < shape.rows; ++i)
      {
        float sum = 0;
        for (std::size_t j = 0; j < shape.cols; ++j)
          sum += static_cast<float>(x[i * ld + j]) * static_cast<float>(y[i * ld + j]);
        as_expected = as_expected && sums[i] == sum;
        for (std::size_t j = 0; j < ld; ++j)
        {
          const std::size_t at = i * ld + j;
          const T wanted = j < shape.cols ? static_cast<T>(static_cast<float>(x[at]) + sum) : T{};
          as_expected = as_expected && z[at] == wanted;
        }
      }
      CHECK(as_expected);
    }
}

}  // namespace cubist::test::engine_cuda_rows_test
