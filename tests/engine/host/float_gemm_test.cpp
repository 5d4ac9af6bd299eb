// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/engine/host/engine.hpp"

#include "catch.hpp"
#include "counted_memory.hpp"

namespace cubist::test::engine_host_float_gemm_test
{

/// A matrix inside a larger buffer, whose other elements hold a mark.
template <class T>
struct Random
{
  static inline const T mark = T{-77};

  Random(Shape s, std::size_t gap, int seed)
      : memory(s.rows * (s.cols + gap), mark),
        view{memory.data(), s.rows, s.cols, s.cols + gap}
  {
    for (std::size_t i = 0; i < s.rows; ++i)
      for (std::size_t j = 0; j < s.cols; ++j)
        view(i, j) = std::sin(static_cast<float>(seed) + 3.0F * static_cast<float>(i * s.cols + j));
  }
  [[nodiscard]] std::vector<T> elements() const
  {
    std::vector<T> all;
    for (std::size_t i = 0; i < view.rows(); ++i)
      all.insert(all.end(), view.row(i), view.row(i) + view.cols());
    return all;
  }
  [[nodiscard]] bool untouched_outside() const
  {
    for (std::size_t i = 0; i < view.rows(); ++i)
      for (std::size_t j = view.cols(); j < view.ld(); ++j)
        if (view.row(i)[j] != mark) return false;
    return true;
  }

  std::vector<T> memory;
  MatrixView<T> view;
};

template <class T>
double element(Op op, const Random<T>& a, std::size_t i, std::size_t j)
{
  return op == Op::none ? a.view(i, j) : a.view(j, i);
}

template <class T>
void gemm(Op op_a, Op op_b, T alpha, MatrixView<T> a, MatrixView<T> b, T beta, MatrixView<T> c)
{
  HostEngine{}.gemm<T>(op_a, op_b, alpha, a, b, beta, c);
}

constexpr Op ops[] = {Op::none, Op::transpose, Op::adjoint};

// Products of 16-bit numbers are exact in float, and their sums are rounded as float's.
TEMPLATE_TEST_CASE("gemm of 16-bit elements sums in float and rounds once", "", bfloat16, half)
{
  using T = TestType;
  // The thread keeps its buffers, so smaller and larger products follow the first one. The last
  // ones read B as it is stored, or have several panels in one dimension.
  const ProductSize shape =
      GENERATE(ProductSize{.m = 9, .n = 7, .k = 300}, ProductSize{.m = 3, .n = 5, .k = 40},
               ProductSize{.m = 13, .n = 11, .k = 310}, ProductSize{.m = 2, .n = 131, .k = 513},
               ProductSize{.m = 17, .n = 3, .k = 1030}, ProductSize{.m = 18, .n = 520, .k = 5},
               ProductSize{.m = 1025, .n = 3, .k = 4});
  const auto [m, n, k] = std::array{shape.m, shape.n, shape.k};
  for (const Op op_a : ops)
    for (const Op op_b : ops)
      for (const double beta : {0.0, -0.5})
      {
        const Random<T> a{op_shape(op_a, {m, k}), 3, 1};
        const Random<T> b{op_shape(op_b, {k, n}), 0, 2};
        const Random<T> c{{m, n}, 2, 3};
        const auto before = c.elements();
        if (beta == 0) HostEngine{}.fill(c.view, std::numeric_limits<T>::quiet_NaN());
        gemm(op_a, op_b, T{2}, a.view, b.view, T{beta}, c.view);
        REQUIRE(c.untouched_outside());
        for (std::size_t i = 0; i < m; ++i)
          for (std::size_t j = 0; j < n; ++j)
          {
            double sum = beta * before[i * n + j];
            double size = std::abs(sum);
            for (std::size_t l = 0; l < k; ++l)
            {
              const double term = 2.0 * element(op_a, a, i, l) * element(op_b, b, l, j);
              sum += term;
              size += std::abs(term);
            }
            const double rounding = std::abs(sum) * std::numeric_limits<T>::epsilon() / 2;
            const double summing =
                size * static_cast<double>(k + 2) * std::numeric_limits<float>::epsilon();
            REQUIRE(std::abs(c.view(i, j) - sum) <= 1.01 * rounding + summing);
          }
      }
}

TEMPLATE_TEST_CASE("gemm of 16-bit elements takes empty matrices", "", bfloat16, half)
{
  using T = TestType;
  const Random<T> a{{4, 0}, 0, 1};
  const Random<T> b{{0, 3}, 0, 2};
  const Random<T> c{{4, 3}, 1, 3};
  auto expected = c.elements();
  gemm(Op::none, Op::none, T{1}, a.view, b.view, T{3}, c.view);
  for (auto& x : expected) x *= 3;
  CHECK(c.elements() == expected);
  gemm(Op::none, Op::none, T{1}, a.view, b.view, T{}, c.view);
  CHECK(c.elements() == std::vector<T>(12, T{}));
  CHECK_NOTHROW(gemm(Op::none, Op::none, T{1}, MatrixView<T>{}, MatrixView<T>{}, T{}, {}));
  CHECK_THROWS_AS(gemm(Op::none, Op::none, T{1}, c.view, c.view, T{}, c.view), ShapeError);
}

/// How far Y = X W is from its definition, relative to the error that rounding explains.
template <class T>
double error_of_stored(StoredWeights type, ProductSize size, std::size_t offset)
{
  using A = Accumulator<T>;
  const auto [m, n, k] = std::array{size.m, size.n, size.k};
  StoredWeight stored{type, {offset, k, k}, offset + k, n};
  const Random<A> w{{stored.rows().size, n}, 0, 1};
  stored.set(stored.rows().offset, 0, MatrixView<const A>{w.view}, "w");
  const StoredView& view = stored.view();
  const auto element = [&](std::size_t l, std::size_t j) -> double {
    const std::size_t at = view.first + l;
    if (type == StoredWeights::bfloat16) return static_cast<float>(view.as<bfloat16>()(j, at));
    if (type == StoredWeights::half) return static_cast<float>(view.as<half>()(j, at));
    return view.integers()(j, at) * double{static_cast<float>(view.scales_of_blocks()(j, at / 32))};
  };
  const Random<T> x{{m, k}, 3, 2};
  const Random<T> y{{m, n}, 2, 3};
  HostEngine{}.fill(y.view, std::numeric_limits<T>::quiet_NaN());
  HostEngine{}.multiply_stored(MatrixView<const T>{x.view}, view, y.view);
  if (!y.untouched_outside()) return INFINITY;
  double worst = 0;
  for (std::size_t i = 0; i < m; ++i)
    for (std::size_t j = 0; j < n; ++j)
    {
      double sum = 0, terms = 0;
      for (std::size_t l = 0; l < k; ++l)
      {
        const double term = static_cast<double>(A{x.view(i, l)}) * element(l, j);
        sum += term;
        terms += std::abs(term);
      }
      const double rounding = std::abs(sum) * double{std::numeric_limits<T>::epsilon()} / 2;
      const double summing = terms * static_cast<double>(k + 2) * std::numeric_limits<A>::epsilon();
      const double error = std::abs(static_cast<double>(A{y.view(i, j)}) - sum);
      worst = error <= 1.01 * rounding + summing ? worst : INFINITY;
      worst = std::max(worst, error);
    }
  return worst;
}

TEMPLATE_TEST_CASE("a stored weight is multiplied as it is stored, by few rows and by many", "",
                   float, double, bfloat16)
{
  for (const auto type : {StoredWeights::bfloat16, StoredWeights::half, StoredWeights::q8})
    for (const std::size_t offset : {0U, 37U})
      for (const ProductSize size :
           {ProductSize{.m = 1, .n = 1, .k = 1}, ProductSize{.m = 1, .n = 9, .k = 100},
            ProductSize{.m = 16, .n = 6, .k = 75}, ProductSize{.m = 17, .n = 6, .k = 75},
            ProductSize{.m = 20, .n = 5, .k = 600}, ProductSize{.m = 18, .n = 515, .k = 33}})
      {
        CAPTURE(to_string(type), offset, size.m, size.n, size.k);
        CHECK(error_of_stored<TestType>(type, size, offset) < INFINITY);
      }
}

#if !CUBIST_SANITIZED  // counts are equal there
TEST_CASE("a product of some rows widens a part of a stored weight that is hardly larger than them")
{
  const std::size_t rows = 1024, cols = 1536;
  const StoredWeight w{StoredWeights::q8, {0, rows, rows}, rows, cols};
  for (const std::size_t m : {17U, 100U, 200U})
  {
    std::size_t peak = 0;
    std::thread{[&] {  // a new thread has no buffers yet
      const Random<float> x{{m, rows}, 0, 1}, y{{m, cols}, 0, 1};
      detail::multiply_stored(test::CountedEngine{}, MatrixView<const float>{x.view}, w.view(),
                              y.view);
      peak = test::counted_bytes.peak;
    }}
        .join();
    CHECK(peak > 0);
    CHECK(peak <= std::max<std::size_t>(m, 128) * 512 * sizeof(float));
  }
}
#endif

TEST_CASE("a stored weight without rows gives zeros, and one that does not fit is refused")
{
  const StoredWeight empty{StoredWeights::q8, {0, 0, 0}, 0, 3},
      w{StoredWeights::q8, {0, 4, 4}, 4, 3};
  for (const std::size_t m : {0U, 2U, 20U})
  {
    const Random<float> x{{m, 0}, 0, 1};
    const Random<float> y{{m, 3}, 0, 1};
    HostEngine{}.multiply_stored(MatrixView<const float>{x.view}, empty.view(), y.view);
    CHECK(y.elements() == std::vector<float>(3 * m, 0));
  }
  const Random<float> x{{2, 5}, 0, 1}, y{{2, 3}, 0, 1};
  CHECK_THROWS_AS(HostEngine{}.multiply_stored(MatrixView<const float>{x.view}, w.view(), y.view),
                  ShapeError);
}

}  // namespace cubist::test::engine_host_float_gemm_test
