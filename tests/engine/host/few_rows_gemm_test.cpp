// SPDX-License-Identifier: BSD-3-Clause
#include <tuple>

#include "cubist/engine/host/engine.hpp"
#include "cubist/engine/host/few_rows_gemm.hpp"

#include "catch.hpp"

namespace cubist::test::engine_host_few_rows_gemm_test
{

using Reals = std::tuple<float, double>;

/// A matrix of small integers, whose sums and products are all exact. Between rows there are gaps,
/// whose elements are 77.
template <class T>
struct Integers
{
  Integers(std::size_t rows, std::size_t cols, std::size_t gap, std::size_t seed)
      : memory(rows * (cols + gap), T{77.0F}),
        view{memory.data(), rows, cols, cols + gap}
  {
    for (std::size_t i = 0; i < rows; ++i)
      for (std::size_t j = 0; j < cols; ++j)
        view(i, j) = T{static_cast<float>((seed + 7 * i + 13 * j + i * j) % 9) - 4};
  }
  Integers(const Integers& other)
      : memory{other.memory},
        view{memory.data(), other.view.rows(), other.view.cols(), other.view.ld()}
  {
  }
  Integers& operator=(const Integers&) = delete;
  [[nodiscard]] MatrixView<const T> in() const { return view; }

  std::vector<T> memory;
  MatrixView<T> view;
};

/// Computes C = alpha A op(B) + beta C by its definition.
template <class T, class W>
std::vector<T> by_definition(T alpha, MatrixView<const T> a, MatrixView<const W> b, bool transposed,
                             T beta, Integers<T> c)
{
  for (std::size_t i = 0; i < c.view.rows(); ++i)
    for (std::size_t j = 0; j < c.view.cols(); ++j)
    {
      T sum{};
      for (std::size_t k = 0; k < a.cols(); ++k) sum += a(i, k) * T{transposed ? b(j, k) : b(k, j)};
      c.view(i, j) = alpha * sum + beta * c.view(i, j);
    }
  return c.memory;
}

/// Checks products by matrices with elements W, which may have 16 bits.
template <class T, class W>
void multiplies_as_defined()
{
  using Gemm = detail::FewRowsGemm<T, W>;
  for (const std::size_t m : {1U, 3U})
    for (const std::size_t n : {1U, 70U, 131U})
      for (const std::size_t k : {0U, 1U, 8U, 45U})
        for (const std::size_t gap : {0U, 5U})
        {
          CAPTURE(m, n, k, gap);
          const Integers<T> a{m, k, gap, 1};
          const Integers<W> b{k, n, gap, 2}, bt{n, k, gap, 3};
          Integers<T> c{m, n, gap, 4};
          const auto sum = by_definition<T>(2, a.in(), b.in(), false, 1, c);
          Gemm::add(2, a.in(), b.in(), c.view);
          REQUIRE(c.memory == sum);
          for (const T beta : {T{0}, T{1}, T{-3}})
          {
            const auto expected = by_definition<T>(2, a.in(), bt.in(), true, beta, c);
            Gemm::multiply_transposed(2, a.in(), bt.in(), beta, c.view);
            REQUIRE(c.memory == expected);
          }
          for (const T beta : {T{0}, T{1}, T{-3}})
          {
            const auto expected = by_definition<T>(2, a.in(), b.in(), false, beta, c);
            if (beta == 0) std::fill_n(c.view.data(), n, std::numeric_limits<T>::quiet_NaN());
            Gemm::multiply(Op::none, 2, a.in(), b.in(), beta, c.view);
            REQUIRE(c.memory == expected);
          }
        }
}

TEMPLATE_LIST_TEST_CASE("a product of few rows multiplies strided blocks as defined", "", Reals)
{
  multiplies_as_defined<TestType, TestType>();
}

TEST_CASE("a product of few rows reads 16-bit elements as they are stored")
{
  multiplies_as_defined<float, bfloat16>();
  multiplies_as_defined<float, half>();
  multiplies_as_defined<double, half>();
}

TEST_CASE("only products of few rows and a large matrix are computed without a copy of it")
{
  using detail::has_few_rows;
  CHECK(has_few_rows({.m = 1, .n = 256, .k = 256}));
  CHECK(has_few_rows({.m = 4, .n = 64, .k = 1024}));
  CHECK_FALSE(has_few_rows({.m = 5, .n = 256, .k = 256}));
  CHECK(has_few_rows({.m = 5, .n = 256, .k = 256}, 16));
  CHECK_FALSE(has_few_rows({.m = 1, .n = 255, .k = 256}));
  CHECK_FALSE(has_few_rows({.m = 1, .n = 63, .k = 4096}));
  CHECK_FALSE(has_few_rows({.m = 1, .n = 4096, .k = 63}));
}

TEST_CASE("a product of one or two rows and a small matrix of long rows is computed without BLAS")
{
  using detail::has_small_rows;
  CHECK(has_small_rows(Op::none, {.m = 1, .n = 64, .k = 1}));
  CHECK(has_small_rows(Op::none, {.m = 2, .n = 255, .k = 256}));
  CHECK(has_small_rows(Op::transpose, {.m = 1, .n = 1, .k = 64}));
  CHECK_FALSE(has_small_rows(Op::none, {.m = 3, .n = 64, .k = 64}));
  CHECK_FALSE(has_small_rows(Op::none, {.m = 1, .n = 63, .k = 64}));
  CHECK_FALSE(has_small_rows(Op::transpose, {.m = 1, .n = 64, .k = 63}));
  CHECK_FALSE(has_small_rows(Op::none, {.m = 1, .n = 256, .k = 256}));
}

TEST_CASE("BLAS is faster only with more than two threads, and used if their number is unknown")
{
  CHECK(detail::is_faster_than_blas(1));
  CHECK(detail::is_faster_than_blas(2));
  CHECK_FALSE(detail::is_faster_than_blas(3));
  CHECK_FALSE(detail::is_faster_than_blas(0));
}

TEST_CASE("an engine's product of a row does not read C when beta is 0, and keeps a NaN of B")
{
  // With one thread FewRowsGemm multiplies, and with three BLAS's gemv.
  const int threads = GENERATE(1, 3);
  const BlasThreads scope{threads};
  const HostEngine engine;
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Integers<float> a{1, 256, 0, 1}, b{256, 300, 0, 2}, bt{300, 256, 0, 3};
  for (const Op op : {Op::none, Op::transpose, Op::adjoint})
  {
    CAPTURE(threads, static_cast<int>(op));
    Integers<float> factor{op == Op::none ? b : bt};
    Integers<float> c{1, 300, 0, 4};
    const auto expected = by_definition<float>(3, a.in(), factor.in(), op != Op::none, 0, c);
    c.memory.assign(300, nan);
    engine.gemm<float>(Op::none, op, 3, a.in(), factor.in(), 0, c.view);
    CHECK(c.memory == expected);
    (op == Op::none ? factor.view(5, 7) : factor.view(7, 5)) = nan;
    engine.gemm<float>(Op::none, op, 3, a.in(), factor.in(), 0, c.view);
    CHECK(std::isnan(c.memory[7]));
    c.memory[7] = expected[7];
    CHECK(c.memory == expected);
  }
}

TEMPLATE_LIST_TEST_CASE("an engine adds a product of a row to a block of C, on any BLAS threads",
                        "", Reals)
{
  using T = TestType;
  const Integers<T> a{1, 256, 3, 1}, b{256, 300, 5, 2}, bt{300, 256, 5, 3};
  for (const int threads : {1, 2, 3})
    for (const T beta : {T{1}, T{-3}})
      for (const Op op : {Op::none, Op::transpose})
      {
        CAPTURE(threads, beta, static_cast<int>(op));
        const BlasThreads scope{threads};
        const Integers<T>& factor = op == Op::none ? b : bt;
        Integers<T> c{1, 300, 2, 4};
        const auto expected = by_definition<T>(2, a.in(), factor.in(), op != Op::none, beta, c);
        HostEngine{}.gemm<T>(Op::none, op, 2, a.in(), factor.in(), beta, c.view);
        CHECK(c.memory == expected);
      }
}

TEMPLATE_LIST_TEST_CASE("an engine multiplies a row by a small block, on any BLAS threads", "",
                        Reals)
{
  using T = TestType;
  for (const int threads : {1, 3})
    for (const std::size_t m : {1U, 2U})
      for (const std::size_t k : {64U, 70U})
        for (const std::size_t n : {1U, 75U})
          for (const Op op : {Op::none, Op::transpose})
          {
            CAPTURE(threads, m, k, n, static_cast<int>(op));
            const BlasThreads scope{threads};
            const bool is_plain = op == Op::none;
            const Integers<T> a{m, k, 3, 1}, b{is_plain ? k : n, is_plain ? n : k, 5, 2};
            Integers<T> c{m, n, 2, 4};
            const auto expected = by_definition<T>(2, a.in(), b.in(), !is_plain, T{-3}, c);
            HostEngine{}.gemm<T>(Op::none, op, 2, a.in(), b.in(), T{-3}, c.view);
            CHECK(c.memory == expected);
          }
}

TEMPLATE_LIST_TEST_CASE("a product of few rows is equal to the bit on one and two BLAS threads", "",
                        Reals)
{
  using T = TestType;
  constexpr std::size_t m = 4, k = 300, n = 256;
  std::vector<T> a, b;
  const auto value = [](std::size_t i) { return static_cast<T>(std::sin(double(i * i))); };
  for (std::size_t i = 0; i < m * k; ++i) a.push_back(value(i));
  for (std::size_t i = 0; i < k * n; ++i) b.push_back(value(i + 3));
  for (const Op op : {Op::none, Op::transpose})
    for (std::size_t rows = 1; rows <= m; ++rows)
    {
      CAPTURE(static_cast<int>(op), rows);
      std::vector<std::vector<T>> results;
      for (const int threads : {1, 2})
      {
        const BlasThreads scope{threads};
        std::vector<T> c(rows * n);
        HostEngine{}.gemm<T>(Op::none, op, 1, {a.data(), Shape{rows, k}},
                             {b.data(), op == Op::none ? Shape{k, n} : Shape{n, k}}, 0,
                             {c.data(), Shape{rows, n}});
        results.push_back(c);
      }
      CHECK(results[0] == results[1]);
    }
}

}  // namespace cubist::test::engine_host_few_rows_gemm_test
