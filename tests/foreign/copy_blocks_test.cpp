// SPDX-License-Identifier: BSD-3-Clause
#include <array>
#include <cmath>
#include <complex>
#include <cstddef>
#include <limits>
#include <vector>

#include "cubist/core/float16.hpp"
#include "cubist/foreign/copy_blocks.hpp"

#include "catch.hpp"

namespace foreign_copy_blocks_test
{

using namespace cubist;
using detail::Combine;

TEMPLATE_TEST_CASE("a block is transposed in tiles, whatever its sizes", "", float, double,
                   std::complex<double>)
{
  using T = TestType;
  constexpr std::array<std::size_t, 7> sizes{1, 3, 4, 8, 16, 67, 150};
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

TEST_CASE("what is multiplied by 1 or by 0 is not computed")
{
  using C = std::complex<double>;
  constexpr double inf = std::numeric_limits<double>::infinity();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  double y = nan;
  Combine<double>{2, false, 0}(y, 3);
  CHECK(y == 6);
  C z{nan, nan};
  Combine<C>{1, true, 0}(z, {inf, 2});
  CHECK(z == C{inf, -2});
  z = {1, inf};
  Combine<C>{1, false, 1}(z, {2, 3});
  CHECK(z == C{3, inf});
  y = 5;
  Combine<double>{2, false, -1}(y, nan);
  CHECK(std::isnan(y));
  Combine<double>{0, false, 0}.scale(y);
  CHECK(y == 0);
  bfloat16 h{2.0};
  Combine<bfloat16>{bfloat16{3.0}, false, bfloat16{0.5}}(h, bfloat16{4.0});
  CHECK(float{h} == 13);
}

}  // namespace foreign_copy_blocks_test
