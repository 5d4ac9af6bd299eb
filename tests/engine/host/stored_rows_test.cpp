// SPDX-License-Identifier: BSD-3-Clause
#include <array>
#include <cmath>
#include <vector>

#include "cubist/engine/host/stored_rows.hpp"

#include "catch.hpp"

namespace cubist::test::engine_host_stored_rows_test
{

using detail::Target;

constexpr Target targets[] = {Target::as_compiled, Target::avx2, Target::avx512};

/// The type of sums of products with elements W.
template <class W>
using Sum = std::conditional_t<std::is_same_v<W, double>, double, float>;

/// Small integers, whose sums and products are all exact.
template <class T>
std::vector<T> integers(std::size_t n, std::size_t seed)
{
  std::vector<T> all;
  for (std::size_t i = 0; i < n; ++i)
  {
    const auto x = static_cast<float>((seed + 7 * i + i * i) % 9) - 4;
    if constexpr (std::is_same_v<T, std::int8_t>)
      all.push_back(static_cast<T>(x));
    else
      all.push_back(T{x});
  }
  return all;
}

/// Computes y = 2 x b^T - y by its definition.
template <class W>
void checks_products()
{
  using T = Sum<W>;
  for (const Target target : targets)
    for (const std::size_t m : {1U, 3U, 6U})
      for (const std::size_t n : {1U, 4U, 7U})
        for (const std::size_t k : {32U, 75U, 736U, 2080U})
        {
          if (!detail::supports(target)) continue;
          constexpr bool scaled = detail::StoredRows<W>::has_scales;
          if (scaled && k % 32 != 0) continue;
          CAPTURE(static_cast<int>(target), m, n, k);
          const auto x = integers<T>(m * k, 1), before = integers<T>(m * n, 2);
          const auto b = integers<W>(n * k, 3);
          const auto scales = integers<half>(n * (k / 32), 4);
          auto y = before;
          const bool done = detail::multiply_rows<T>(
              target, 2, MatrixView<const T>{x.data(), {m, k}},
              detail::StoredRows<W>{MatrixView<const W>{b.data(), {n, k}},
                                    MatrixView<const half>{scales.data(), {n, k / 32}}},
              -1, MatrixView<T>{y.data(), {m, n}});
          REQUIRE(done == (target != Target::as_compiled));
          for (std::size_t i = 0; i < m && done; ++i)
            for (std::size_t j = 0; j < n; ++j)
            {
              T sum = 0;
              for (std::size_t l = 0; l < k; ++l)
                sum += x[i * k + l] * static_cast<T>(b[j * k + l]) *
                       (scaled ? static_cast<float>(scales[j * (k / 32) + l / 32]) : 1);
              REQUIRE(y[i * n + j] == 2 * sum - before[i * n + j]);
            }
        }
}

/// The products of rows whose sums are rounded, on an instruction set that this processor has.
template <class W>
std::vector<Sum<W>> rounded_products(Target target, std::size_t m, std::size_t n, std::size_t k)
{
  using T = Sum<W>;
  std::vector<T> x, y(m * n);
  std::vector<W> b;
  std::vector<half> scales;
  const auto value = [](std::size_t i) { return std::sin(static_cast<double>(i * i)); };
  for (std::size_t i = 0; i < m * k; ++i) x.push_back(static_cast<T>(value(i)));
  for (std::size_t i = 0; i < n * k; ++i)
    if constexpr (std::is_same_v<W, std::int8_t>)
      b.push_back(static_cast<W>(127 * value(i + 5)));
    else
      b.push_back(W{static_cast<T>(value(i + 5))});
  for (std::size_t i = 0; i < n * (k / 32); ++i)
    scales.push_back(half{static_cast<float>(value(i + 9))});
  REQUIRE(detail::multiply_rows<T>(
      target, 1, MatrixView<const T>{x.data(), {m, k}},
      detail::StoredRows<W>{MatrixView<const W>{b.data(), {n, k}},
                            MatrixView<const half>{scales.data(), {n, k / 32}}},
      0, MatrixView<T>{y.data(), {m, n}}));
  return y;
}

TEST_CASE("rows of 16-bit and 8-bit elements are multiplied exactly, on every instruction set")
{
  checks_products<bfloat16>();
  checks_products<half>();
  checks_products<std::int8_t>();
}

TEST_CASE("rows of float and double are multiplied exactly, on every instruction set")
{
  checks_products<float>();
  checks_products<double>();
}

TEMPLATE_TEST_CASE("products of rows are equal to the bit with AVX2 and AVX-512", "", float, double,
                   bfloat16, half, std::int8_t)
{
  if (!detail::supports(Target::avx512)) return;
  for (const std::size_t m : {1U, 6U})
  {
    CAPTURE(m);
    CHECK(rounded_products<TestType>(Target::avx2, m, 7, 2080) ==
          rounded_products<TestType>(Target::avx512, m, 7, 2080));
  }
}

TEMPLATE_TEST_CASE("the parts of a product are added in halves, on every instruction set", "",
                   float, double, bfloat16, half, std::int8_t)
{
  using T = Sum<TestType>;
  constexpr std::size_t k = 736;
  std::array<T, 64 / sizeof(T)> part{};
  const auto value = [](std::size_t i) { return std::sin(static_cast<double>(i * i)); };
  for (std::size_t l = 0; l < k; ++l)
  {
    T w;
    if constexpr (std::is_same_v<TestType, std::int8_t>)
      w = static_cast<float>(static_cast<TestType>(127 * value(l + 5))) *
          static_cast<float>(half{static_cast<float>(value(l / 32 + 9))});
    else
      w = static_cast<T>(TestType{static_cast<T>(value(l + 5))});
    T& sum = part[l % part.size()];
    sum = std::fma(w, static_cast<T>(value(l)), sum);
  }
  for (std::size_t n = part.size() / 2; n > 0; n /= 2)
    for (std::size_t p = 0; p < n; ++p) part[p] += part[p + n];
  for (const Target target : {Target::avx2, Target::avx512})
  {
    if (!detail::supports(target)) continue;
    CAPTURE(static_cast<int>(target));
    CHECK(rounded_products<TestType>(target, 1, 1, k) == std::vector<T>{part[0]});
  }
}

TEMPLATE_TEST_CASE("a product of two rows does not depend on the other rows", "", float, double,
                   bfloat16, half, std::int8_t)
{
  for (const Target target : {Target::avx2, Target::avx512})
  {
    if (!detail::supports(target)) continue;
    CAPTURE(static_cast<int>(target));
    const auto one = rounded_products<TestType>(target, 1, 7, 160);
    const auto six = rounded_products<TestType>(target, 6, 7, 160);
    CHECK(std::equal(one.begin(), one.end(), six.begin()));
    const auto columns = rounded_products<TestType>(target, 1, 3, 160);
    CHECK(columns[2] == one[2]);
  }
}

TEMPLATE_TEST_CASE("rows of 16-bit elements are added exactly, on every instruction set", "",
                   bfloat16, half)
{
  for (const Target target : targets)
    for (const std::size_t m : {1U, 5U})
      for (const std::size_t n : {3U, 16U, 85U})
      {
        if (!detail::supports(target)) continue;
        CAPTURE(static_cast<int>(target), m, n);
        constexpr std::size_t k = 13;  // 3 x 4 of these rows are added
        const auto a = integers<float>(m * k, 1), before = integers<float>(m * n, 2);
        const auto b = integers<TestType>(k * n, 3);
        auto c = before;
        const bool done = detail::add_rows<4>(target, 2, MatrixView<const float>{a.data(), {m, k}},
                                              MatrixView<const TestType>{b.data(), {k, n}}, 3,
                                              MatrixView<float>{c.data(), {m, n}});
        REQUIRE(done == (target != Target::as_compiled));
        for (std::size_t i = 0; i < m && done; ++i)
          for (std::size_t j = 0; j < n; ++j)
          {
            float sum = before[i * n + j];
            for (std::size_t l = 0; l < 12; ++l)
              sum += 2 * a[i * k + l] * static_cast<float>(b[l * n + j]);
            REQUIRE(c[i * n + j] == sum);
          }
      }
}

TEST_CASE("a row that is not read, and a NaN, are treated as in float")
{
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::vector<float> x(2 * 32, 1), y(2, nan);
  x[32 + 5] = nan;
  const std::vector<bfloat16> b(32, bfloat16{2.0F});
  const detail::StoredRows<bfloat16> rows{MatrixView<const bfloat16>{b.data(), {1, 32}}};
  for (const Target target : {Target::avx2, Target::avx512})
  {
    if (!detail::supports(target)) continue;
    REQUIRE(detail::multiply_rows<float>(target, 1, MatrixView<const float>{x.data(), {2, 32}},
                                         rows, 0, MatrixView<float>{y.data(), {2, 1}}));
    CHECK(y[0] == 64);  // beta is 0
    CHECK(std::isnan(y[1]));
  }
}

}  // namespace cubist::test::engine_host_stored_rows_test
