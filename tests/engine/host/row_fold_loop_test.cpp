// SPDX-License-Identifier: BSD-3-Clause
#include <vector>

#include "cubist/engine/functions.hpp"
#include "cubist/engine/host/row_fold_loop.hpp"

#include "catch.hpp"

namespace cubist::test::engine_host_row_fold_loop_test
{

using detail::block_length;
using detail::Target;

TEST_CASE("a long row of floats is summed with less rounding than from left to right")
{
  const std::vector<float> x(1 << 20, 0.1F);
  float sum = 0;
  detail::fold_rows(detail::best_target(), MatrixView<float>{&sum, {1, 1}}, 0.0F, detail::Sum{},
                    detail::Itself{}, MatrixView<const float>{x.data(), {1, x.size()}});
  CHECK(sum == Approx(0.1 * (1 << 20)).epsilon(1e-3));
}

/// A function that is neither commutative nor associative, so that the order shows. All values are
/// exact.
struct Shuffle
{
  double operator()(double a, double b) const
  {
    const auto mix = static_cast<unsigned>(a) * 31U + static_cast<unsigned>(b) * 17U;
    return static_cast<double>(mix % 65521U);
  }
};

struct WithIndices
{
  template <class T>
  double operator()(std::size_t i, std::size_t j, const T& x, const T& y) const
  {
    return static_cast<double>(7 * i + j) + 3 * static_cast<double>(x) + static_cast<double>(y);
  }
};

/// Folds some numbers in the order that the header states.
static double fold_of(std::vector<double> x)
{
  const Shuffle combine;
  double all = 5;
  if (x.size() < block_length)
  {
    for (const double each : x) all = combine(all, each);
    return all;
  }
  for (std::size_t j = block_length; j < x.size(); ++j)
    x[j % block_length] = combine(x[j % block_length], x[j]);
  for (std::size_t half = block_length / 2; half > 0; half /= 2)
    for (std::size_t p = 0; p < half; ++p) x[p] = combine(x[p], x[p + half]);
  return combine(all, x[0]);
}

template <class T>
void check(std::size_t n)
{
  const std::size_t rows = 3, ld = n + 2;
  std::vector<T> a(rows * ld + 1), b(rows * n + 1);
  for (std::size_t i = 0; i < a.size(); ++i) a[i] = static_cast<T>(i * i % 101);
  for (std::size_t i = 0; i < b.size(); ++i) b[i] = static_cast<T>(i * i % 89);
  for (const Target target : {Target::as_compiled, Target::avx2, Target::avx512})
  {
    if (!detail::supports(target)) continue;
    std::vector<double> out(2 * rows, -1);
    detail::fold_rows(target, MatrixView<double>{out.data(), rows, 1, 2}, 5.0, Shuffle{},
                      WithIndices{}, MatrixView<const T>{a.data(), rows, n, ld},
                      MatrixView<const T>{b.data(), rows, n, n});
    for (std::size_t i = 0; i < rows; ++i)
    {
      std::vector<double> x(n);
      for (std::size_t j = 0; j < n; ++j) x[j] = WithIndices{}(i, j, a[i * ld + j], b[i * n + j]);
      CAPTURE(n, i, static_cast<int>(target));
      CHECK(out[2 * i] == fold_of(x));
      CHECK(out[2 * i + 1] == -1);
    }
  }
}

TEST_CASE("rows are folded in the stated order on every target")
{
  for (const std::size_t n : {0U, 1U, 31U, 32U, 33U, 63U, 64U, 100U, 160U})
  {
    check<double>(n);
    check<bfloat16>(n);
  }
}

}  // namespace cubist::test::engine_host_row_fold_loop_test
