// SPDX-License-Identifier: BSD-3-Clause
#include <tuple>

#include "cubist/engine/host/q8_rows.hpp"

#include "catch.hpp"

namespace cubist::test::engine_host_q8_rows_test
{

using detail::Q8Rows;
using detail::Target;

using Reals = std::tuple<float, double>;

/// Fills W (k, n) with integers and scales that are exact.
static StoredWeight& integers(StoredWeight& w, std::size_t k, std::size_t n)
{
  std::vector<double> x(k * n);
  for (std::size_t i = 0; i < k; ++i)
    for (std::size_t j = 0; j < n; ++j)
      x[i * n + j] = i % 32 == 0 ? 127 : static_cast<double>((7 * i + 13 * j) % 9) - 4;
  w.set(0, 0, MatrixView<const double>{x.data(), {k, n}}, "w");
  return w;
}

TEMPLATE_LIST_TEST_CASE("rows are multiplied by integers exactly, on every instruction set", "",
                        Reals)
{
  using T = TestType;
  for (const Target target : {Target::as_compiled, Target::avx2, Target::avx512})
  {
    if (!detail::supports(target)) continue;
    for (const std::size_t m : {1U, 3U})
      for (const std::size_t n : {1U, 4U, 7U})
        for (const std::size_t k : {1U, 32U, 75U, 2100U})
        {
          CAPTURE(static_cast<int>(target), m, n, k);
          StoredWeight stored{StoredWeights::q8, {0, k, k}, k, n};
          const StoredView& w = integers(stored, k, n).view();
          std::vector<T> wide(n * w.padded), x(m * w.padded), y(m * n, T{7});
          Q8Rows<T>::widen(target, w, 0, 0, MatrixView<T>{wide.data(), {n, w.padded}});
          for (std::size_t i = 0; i < m; ++i)
            for (std::size_t l = 0; l < k; ++l)
              x[i * w.padded + l] = static_cast<T>((i + 5 * l) % 7) - T{3};
          Q8Rows<T>::multiply(target, MatrixView<const T>{x.data(), {m, w.padded}}, w,
                              MatrixView<T>{y.data(), {m, n}});
          for (std::size_t j = 0; j < n; ++j)
            for (std::size_t l = 0; l < w.padded; ++l)
              REQUIRE(wide[j * w.padded + l] ==
                      (l >= k        ? 0
                       : l % 32 == 0 ? 127
                                     : static_cast<T>((7 * l + 13 * j) % 9) - T{4}));
          for (std::size_t i = 0; i < m; ++i)
            for (std::size_t j = 0; j < n; ++j)
            {
              T sum{};
              for (std::size_t l = 0; l < k; ++l)
                sum += x[i * w.padded + l] * wide[j * w.padded + l];
              REQUIRE(y[i * n + j] == sum);
            }
        }
  }
}

TEST_CASE("a NaN among the rows stays one, and only in its row")
{
  StoredWeight stored{StoredWeights::q8, {0, 40, 40}, 40, 5};
  const StoredView& w = integers(stored, 40, 5).view();
  std::vector<float> x(2 * w.padded, 0), y(10);
  x[w.padded + 3] = std::numeric_limits<float>::quiet_NaN();
  Q8Rows<float>::multiply(detail::best_target(), MatrixView<const float>{x.data(), {2, w.padded}},
                          w, MatrixView<float>{y.data(), {2, 5}});
  for (std::size_t j = 0; j < 5; ++j)
  {
    CHECK(y[j] == 0);
    CHECK(std::isnan(y[5 + j]));
  }
}

TEST_CASE("columns are widened starting at any of them, and at any block")
{
  StoredWeight stored{StoredWeights::q8, {0, 96, 96}, 96, 5};
  const StoredView& w = integers(stored, 96, 5).view();
  std::vector<float> all(5 * 96), some(2 * 64);
  Q8Rows<float>::widen(detail::best_target(), w, 0, 0, MatrixView<float>{all.data(), {5, 96}});
  Q8Rows<float>::widen(detail::best_target(), w, 3, 32, MatrixView<float>{some.data(), {2, 64}});
  for (std::size_t j = 0; j < 2; ++j)
    for (std::size_t l = 0; l < 64; ++l) REQUIRE(some[j * 64 + l] == all[(3 + j) * 96 + 32 + l]);
}

}  // namespace cubist::test::engine_host_q8_rows_test
