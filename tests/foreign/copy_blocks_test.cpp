// SPDX-License-Identifier: BSD-3-Clause
#include <array>

#include "cubist/foreign/copy_blocks.hpp"

#include "catch.hpp"

namespace cubist::test::foreign_copy_blocks_test
{

using detail::Combine;

TEMPLATE_TEST_CASE("a block is transposed in tiles, whatever its sizes", "", float, double,
                   std::complex<double>)
{
  using T = TestType;
  constexpr std::array<std::size_t, 8> sizes{1, 3, 4, 8, 16, 67, 150, 530};
  for (const std::size_t rows : sizes)
    for (const std::size_t cols : sizes)
    {
      const std::size_t x_ld = rows + 3;
      const std::size_t y_ld = cols + 2;
      std::vector<T> x(x_ld * cols, T{-1});
      std::vector<T> y(y_ld * rows, T{7});
      for (std::size_t i = 0; i < rows; ++i)
        for (std::size_t j = 0; j < cols; ++j) x[j * x_ld + i] = static_cast<float>(1000 * i + j);
      detail::copy_transposed(x.data(), x_ld, y.data(), y_ld, rows, cols, detail::CopyElement{});
      std::size_t wrong = 0;
      for (std::size_t i = 0; i < rows; ++i)
        for (std::size_t j = 0; j < y_ld; ++j)
          wrong +=
              y[i * y_ld + j] == (j < cols ? T(static_cast<float>(1000 * i + j)) : T{7}) ? 0U : 1U;
      CHECK(wrong == 0);
    }
}

TEMPLATE_TEST_CASE("a block is added to another one, by rows or transposed, whatever its sizes", "",
                   float, std::complex<double>)
{
  using T = TestType;
  const auto number = [](std::size_t i, std::size_t j) {
    if constexpr (ComplexScalar<T>)
      return T(static_cast<double>(i), static_cast<double>(j) - 40);
    else
      return static_cast<T>(100 * i + j);
  };
  const auto conjugate = [](T x) {
    if constexpr (ComplexScalar<T>) return std::conj(x);
    return x;
  };
  const T factor = number(2, 3);
  constexpr std::array<std::size_t, 4> sizes{1, 5, 33, 70};
  for (const T alpha : {T{1}, factor})
    for (const T beta : {T{0}, T{1}, factor})
      for (const bool conjugates : {false, true})
        for (const std::size_t rows : sizes)
          for (const std::size_t cols : sizes)
          {
            const std::size_t x_ld = std::max(rows, cols) + 3;
            const std::size_t y_ld = cols + 2;
            std::vector<T> x(x_ld * std::max(rows, cols), T{-1});
            std::vector<T> before(y_ld * rows);
            for (std::size_t i = 0; i < rows; ++i)
            {
              for (std::size_t j = 0; j < cols; ++j) x[i * x_ld + j] = number(i, j);
              for (std::size_t j = 0; j < y_ld; ++j) before[i * y_ld + j] = number(j, i);
            }
            auto wanted = before;
            for (std::size_t i = 0; i < rows; ++i)
              for (std::size_t j = 0; j < cols; ++j)
              {
                const T value = conjugates ? conjugate(number(i, j)) : number(i, j);
                wanted[i * y_ld + j] = alpha * value + beta * before[i * y_ld + j];
              }
            const Combine<T> combine{alpha, conjugates && ComplexScalar<T>, beta};
            auto y = before;
            detail::copy_rows(x.data(), x_ld, y.data(), y_ld, rows, cols, combine);
            CHECK(y == wanted);
            y = before;
            std::vector<T> columns(x.size());
            for (std::size_t i = 0; i < rows; ++i)
              for (std::size_t j = 0; j < cols; ++j) columns[j * x_ld + i] = x[i * x_ld + j];
            detail::copy_transposed(columns.data(), x_ld, y.data(), y_ld, rows, cols, combine);
            CHECK(y == wanted);
          }
}

TEST_CASE("what is multiplied by 1 or by 0 is not computed")
{
  using C = std::complex<double>;
  constexpr double inf = std::numeric_limits<double>::infinity();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const auto combined = [](auto alpha, bool conjugates, decltype(alpha) beta, decltype(alpha) x,
                           decltype(alpha) y) {
    detail::copy_rows(&x, 1, &y, 1, 1, 1, Combine<decltype(x)>{alpha, conjugates, beta});
    return y;
  };
  CHECK(combined(2.0, false, 0, 3, nan) == 6);
  CHECK(combined(1.0, false, 1, inf, 3) == inf);
  CHECK(combined(C{1}, true, 0, {inf, 2}, {nan, nan}) == C{inf, -2});
  CHECK(combined(C{1}, false, 1, {2, 3}, {1, inf}) == C{3, inf});
  CHECK(std::isnan(combined(2.0, false, -1, nan, 5)));
  const bfloat16 three{3.0}, half{0.5}, two{2.0}, four{4.0};
  CHECK(float{combined(three, false, half, four, two)} == 13);
}

TEST_CASE("elements are multiplied by beta, or overwritten where it is 0")
{
  using C = std::complex<double>;
  constexpr double inf = std::numeric_limits<double>::infinity();
  std::array<C, 3> y{C{1, 2}, {inf, -1}, {7, 7}};
  Combine<C>{0, false, 1}.scale(y.data(), 2);
  CHECK(y == std::array<C, 3>{C{1, 2}, {inf, -1}, {7, 7}});
  Combine<C>{0, false, {0, 1}}.scale(y.data(), 1);
  CHECK(y[0] == C{-2, 1});
  Combine<C>{0, false, 0}.scale(y.data(), 2);
  CHECK(y == std::array<C, 3>{C{}, {}, {7, 7}});
}

}  // namespace cubist::test::foreign_copy_blocks_test
