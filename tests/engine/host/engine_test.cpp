// SPDX-License-Identifier: BSD-3-Clause
#include <atomic>
#include <tuple>

#include "cubist/engine/host/engine.hpp"

#include "catch.hpp"
#include "sanitized.hpp"

#if __has_include(<xtensor/containers/xtensor.hpp>)
#include <xtensor/containers/xtensor.hpp>
#include <xtensor/core/xmath.hpp>
#include <xtensor/core/xnoalias.hpp>
#else
#include <xtensor/xmath.hpp>
#include <xtensor/xnoalias.hpp>
#include <xtensor/xtensor.hpp>
#endif

namespace cubist::test::engine_host_engine_test
{

TEST_CASE("gemm of fractions is exact to rounding")
{
  const HostEngine engine;
  constexpr std::size_t n = 50;
  std::vector<double> a(n * n);
  std::vector<double> b(n * n);
  std::vector<double> c(n * n);
  for (std::size_t i = 0; i < n * n; ++i)
  {
    a[i] = std::sin(static_cast<double>(i));
    b[i] = std::cos(static_cast<double>(3 * i));
  }
  const MatrixView<const double> va{a.data(), {n, n}};
  const MatrixView<const double> vb{b.data(), {n, n}};
  engine.gemm<double>(Op::none, Op::none, 1.0, va, vb, 0.0, {c.data(), {n, n}});
  double worst = 0;
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = 0; j < n; ++j)
    {
      double sum = 0;
      double size = 0;
      for (std::size_t l = 0; l < n; ++l)
      {
        sum += va(i, l) * vb(l, j);
        size += std::abs(va(i, l) * vb(l, j));
      }
      worst = std::max(worst, std::abs(sum - c[i * n + j]) / size);
    }
  CHECK(worst <= 2 * (n + 1) * std::numeric_limits<double>::epsilon());
}

using Scalars = std::tuple<float, double, std::complex<float>, std::complex<double>>;
/// The scalars for functions that call no BLAS; the others instantiate the same code.
using FewScalars = std::tuple<float, std::complex<double>>;

template <Scalar T>
T number(int re, int im)
{
  if constexpr (ComplexScalar<T>)
    return {static_cast<Real<T>>(re), static_cast<Real<T>>(im)};
  else
    return static_cast<T>(re);
}

/// A matrix inside a larger buffer, whose other elements hold a mark.
template <Scalar T>
struct Strided
{
  static inline const T mark = number<T>(-77, 5);

  Strided(Shape s, std::size_t gap, int seed)
      : memory((s.rows + 2) * (s.cols + gap + 1), mark),
        view{memory.data() + s.cols + gap + 2, s.rows, s.cols, s.cols + gap}
  {
    // Small integers, whose products and sums are exact in any order.
    int x = seed;
    for (std::size_t i = 0; i < s.rows; ++i)
      for (std::size_t j = 0; j < s.cols; ++j)
      {
        x = (x * 131 + 17) % 1009;
        view(i, j) = number<T>(x % 7 - 3, x % 5 - 2);
      }
  }

  [[nodiscard]] MatrixView<const T> in() const { return view; }

  /// Whether all memory outside the matrix still has its mark.
  [[nodiscard]] bool untouched_outside() const
  {
    for (std::size_t p = 0; p < memory.size(); ++p)
    {
      const auto at = static_cast<std::ptrdiff_t>(p) - (view.data() - memory.data());
      const auto ld = static_cast<std::ptrdiff_t>(view.ld());
      const bool inside = at >= 0 && at < ld * static_cast<std::ptrdiff_t>(view.rows()) &&
                          at % ld < static_cast<std::ptrdiff_t>(view.cols());
      if (!inside && memory[p] != mark) return false;
    }
    return true;
  }

  std::vector<T> memory;
  MatrixView<T> view;
};

template <Scalar T>
T element(Op op, MatrixView<const T> a, std::size_t i, std::size_t j)
{
  const T x = op == Op::none ? a(i, j) : a(j, i);
  if constexpr (ComplexScalar<T>)
    if (op == Op::adjoint) return std::conj(x);
  return x;
}

/// Computes gemm by its definition.
template <Scalar T>
std::vector<T> reference(Op op_a, Op op_b, T alpha, MatrixView<const T> a, MatrixView<const T> b,
                         T beta, MatrixView<const T> c)
{
  std::vector<T> out;
  const std::size_t k = op_shape(op_a, a.shape()).cols;
  for (std::size_t i = 0; i < c.rows(); ++i)
    for (std::size_t j = 0; j < c.cols(); ++j)
    {
      T sum{};
      for (std::size_t l = 0; l < k; ++l) sum += element(op_a, a, i, l) * element(op_b, b, l, j);
      out.push_back(beta == T{} ? alpha * sum : alpha * sum + beta * c(i, j));
    }
  return out;
}

template <class T>
std::vector<T> elements(MatrixView<T> m)
{
  std::vector<T> all;
  for (std::size_t i = 0; i < m.rows(); ++i) all.insert(all.end(), m.row(i), m.row(i) + m.cols());
  return all;
}

constexpr Op ops[] = {Op::none, Op::transpose, Op::adjoint};

TEMPLATE_LIST_TEST_CASE("gemm multiplies strided blocks as defined", "", Scalars)
{
  using T = TestType;
  const HostEngine engine;
  struct Size
  {
    std::size_t m, n, k;
  };
  for (const auto [m, n, k] : {Size{1, 1, 1}, Size{5, 4, 3}, Size{1, 7, 2}, Size{6, 1, 5},
                               Size{17, 9, 33}, Size{40, 33, 20}})
    for (const Op op_a : ops)
      for (const Op op_b : ops)
        for (const T beta : {T{0}, T{1}, number<T>(-2, 3)})
          for (const T alpha : {T{1}, number<T>(2, -1)})
            for (const std::size_t gap : {0U, 3U})
            {
              CAPTURE(m, n, k, static_cast<int>(op_a), static_cast<int>(op_b), beta, alpha, gap);
              const Strided<T> a{op_shape(op_a, {m, k}), gap, 3};
              const Strided<T> b{op_shape(op_b, {k, n}), 2 * gap, 5};
              const Strided<T> c{{m, n}, gap, 7};
              const auto expected = reference<T>(op_a, op_b, alpha, a.in(), b.in(), beta, c.in());
              engine.gemm<T>(op_a, op_b, alpha, a.in(), b.in(), beta, c.view);
              REQUIRE(elements(c.view) == expected);
              REQUIRE(c.untouched_outside());
            }
}

TEMPLATE_LIST_TEST_CASE("gemm does not read the result when beta is 0", "", Scalars)
{
  using T = TestType;
  const HostEngine engine;
  const T nan{std::numeric_limits<Real<T>>::quiet_NaN()};
  for (const std::size_t n : {1U, 5U, 40U})
    for (const Op op : ops)
      for (const std::size_t k : {std::size_t{0}, n})
      {
        CAPTURE(n, static_cast<int>(op), k);
        const Strided<T> a{op_shape(op, {n, k}), 1, 1};
        const Strided<T> b{{k, n}, 0, 2};
        const Strided<T> c{{n, n}, 2, 3};
        const auto expected = reference<T>(op, Op::none, T{1}, a.in(), b.in(), T{}, c.in());
        engine.fill(c.view, nan);
        engine.gemm<T>(op, Op::none, T{1}, a.in(), b.in(), T{}, c.view);
        REQUIRE(elements(c.view) == expected);
      }
}

TEMPLATE_LIST_TEST_CASE("gemm of an empty sum scales the result", "", Scalars)
{
  using T = TestType;
  const HostEngine engine;
  const Strided<T> a{{4, 0}, 0, 1};
  const Strided<T> b{{0, 3}, 0, 2};
  const Strided<T> c{{4, 3}, 1, 3};
  auto expected = elements(c.view);
  engine.gemm<T>(Op::none, Op::none, T{1}, a.in(), b.in(), T{1}, c.view);
  CHECK(elements(c.view) == expected);
  engine.gemm<T>(Op::none, Op::none, T{1}, a.in(), b.in(), T{3}, c.view);
  for (auto& x : expected) x *= T{3};
  CHECK(elements(c.view) == expected);
  CHECK(c.untouched_outside());

  const MatrixView<const T> nothing;
  CHECK_NOTHROW(engine.gemm<T>(Op::none, Op::adjoint, T{1}, nothing, nothing, T{}, {}));
  const Strided<T> wide{{3, 0}, 1, 4};
  CHECK_NOTHROW(engine.gemm<T>(Op::none, Op::none, T{1}, c.in(), wide.in(), T{1},
                               MatrixView<T>{nullptr, 4, 0, 1}));
}

TEST_CASE("gemm refuses shapes that do not fit")
{
  const HostEngine engine;
  std::vector<double> memory(100);
  const auto matrix = [&](std::size_t rows, std::size_t cols) {
    return MatrixView<double>{memory.data(), {rows, cols}};
  };
  const auto gemm = [&](Op op_a, Op op_b, MatrixView<const double> a, MatrixView<const double> b,
                        MatrixView<double> c) { engine.gemm<double>(op_a, op_b, 1, a, b, 0, c); };
  CHECK_NOTHROW(gemm(Op::none, Op::none, matrix(2, 3), matrix(3, 4), matrix(2, 4)));
  CHECK_NOTHROW(gemm(Op::transpose, Op::none, matrix(3, 2), matrix(3, 4), matrix(2, 4)));
  CHECK_THROWS_AS(gemm(Op::none, Op::none, matrix(2, 3), matrix(4, 3), matrix(2, 4)), ShapeError);
  CHECK_THROWS_AS(gemm(Op::none, Op::none, matrix(3, 3), matrix(3, 4), matrix(2, 4)), ShapeError);
  CHECK_THROWS_AS(gemm(Op::none, Op::none, matrix(2, 3), matrix(3, 5), matrix(2, 4)), ShapeError);
  CHECK_THROWS_AS(gemm(Op::transpose, Op::none, matrix(2, 3), matrix(3, 4), matrix(2, 4)),
                  ShapeError);
  CHECK_THROWS_WITH(
      gemm(Op::none, Op::transpose, matrix(2, 3), matrix(3, 4), matrix(2, 4)),
      "gemm got (2, 3) times (4, 3) for a result of (2, 4), so the sizes do not fit; check the "
      "order of the operands");
}

TEST_CASE("gemm refuses extents that BLAS cannot count")
{
  const HostEngine engine;
  double x = 0;
  const std::size_t huge = std::size_t{1} << 31;
  const MatrixView<const double> a{&x, huge, 1, 1};
  const MatrixView<const double> b{&x, 1, 1, 1};
  const MatrixView<double> c{&x, huge, 1, 1};
  CHECK_THROWS_AS(engine.gemm<double>(Op::none, Op::none, 1, a, b, 0, c), ShapeError);
  CHECK_THROWS_WITH(engine.gemm<double>(Op::none, Op::none, 1, a, b, 0, c),
                    Catch::Matchers::ContainsSubstring("2147483648") &&
                        Catch::Matchers::ContainsSubstring("cut it over more ranks"));
}

TEST_CASE("many threads multiply concurrently")
{
  // There are more callers than OpenBLAS has buffers for.
  const BlasThreads one{1};
  constexpr int callers = 100;
  constexpr std::size_t n = 48;
  std::vector<int> right(callers);
  std::atomic<int> ready{0};
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < callers; ++t)
      threads.emplace_back([&, t] {
        const HostEngine engine;
        const Strided<double> a{{n, n}, 0, t + 1};
        const Strided<double> b{{n, n}, 1, t + 2};
        const Strided<double> c{{n, n}, 2, t + 3};
        const auto expected =
            reference<double>(Op::none, Op::transpose, 1, a.in(), b.in(), 0, c.in());
        ++ready;
        while (ready < callers) std::this_thread::yield();
        bool all = true;
        for (int run = 0; run < test::repeats(20, 4); ++run)
        {
          engine.gemm<double>(Op::none, Op::transpose, 1, a.in(), b.in(), 0, c.view);
          all = all && elements(c.view) == expected && c.untouched_outside();
        }
        right[static_cast<std::size_t>(t)] = all ? 1 : 0;
      });
  }
  CHECK(std::ranges::count(right, 1) == callers);
}

TEMPLATE_LIST_TEST_CASE("copies and fills stay inside their blocks", "", FewScalars)
{
  using T = TestType;
  const HostEngine engine;
  const Strided<T> from{{4, 5}, 3, 1};
  const auto wanted = elements(from.view);
  SECTION("copy")
  {
    const Strided<T> to{{4, 5}, 1, 2};
    engine.copy(from.in(), to.view);
    CHECK(elements(to.view) == wanted);
    CHECK(to.untouched_outside());
  }
  SECTION("upload")
  {
    const Strided<T> to{{4, 5}, 0, 2};
    engine.upload(from.in(), to.view);
    CHECK(elements(to.view) == wanted);
  }
  SECTION("download")
  {
    const Strided<T> to{{4, 5}, 2, 2};
    engine.download(from.in(), to.view);
    CHECK(elements(to.view) == wanted);
  }
  SECTION("fill")
  {
    const Strided<T> to{{4, 5}, 2, 2};
    engine.fill(to.view, number<T>(6, 7));
    CHECK(elements(to.view) == std::vector<T>(20, number<T>(6, 7)));
    CHECK(to.untouched_outside());
  }
  SECTION("other shapes are refused")
  {
    const Strided<T> to{{5, 4}, 0, 2};
    CHECK_THROWS_AS(engine.copy(from.in(), to.view), ShapeError);
    CHECK_THROWS_WITH(
        engine.copy(from.in(), to.view),
        "got an operand of (4, 5) where one of (5, 4) is needed, so some elements would not "
        "correspond; pass blocks of equal shapes");
  }
}

TEST_CASE("maps write f of their inputs")
{
  const HostEngine engine;
  const Strided<double> a{{3, 4}, 2, 1};
  const Strided<double> b{{3, 4}, 0, 2};
  const Strided<double> out{{3, 4}, 1, 3};
  SECTION("of one and of several inputs")
  {
    engine.map(
        out.view, [](double x) { return 2 * x; }, a.in());
    for (std::size_t i = 0; i < 3; ++i)
      for (std::size_t j = 0; j < 4; ++j) CHECK(out.view(i, j) == 2 * a.view(i, j));
    engine.map(
        out.view, [](double x, double y, double z) { return x * 100 + y * 10 + z; }, a.in(), b.in(),
        out.in());
    for (std::size_t i = 0; i < 3; ++i)
      for (std::size_t j = 0; j < 4; ++j)
        CHECK(out.view(i, j) == 102 * a.view(i, j) + 10 * b.view(i, j));
    CHECK(out.untouched_outside());
  }
  SECTION("in place, and from an input to write to")
  {
    const auto before = elements(a.view);
    engine.map(
        a.view, [](double x) { return x + 1; }, a.view);
    auto after = before;
    for (auto& x : after) x += 1;
    CHECK(elements(a.view) == after);
  }
  SECTION("by index")
  {
    engine.map_indexed(
        out.view,
        [](std::size_t i, std::size_t j, double x) { return static_cast<double>(10 * i + j) + x; },
        a.in());
    for (std::size_t i = 0; i < 3; ++i)
      for (std::size_t j = 0; j < 4; ++j)
        CHECK(out.view(i, j) == static_cast<double>(10 * i + j) + a.view(i, j));
    CHECK(out.untouched_outside());
  }
  SECTION("by row")
  {
    const auto times_row = [](std::size_t i) {
      return [i](double x, double y) { return static_cast<double>(i + 2) * x + y; };
    };
    const std::size_t cols = GENERATE(1U, 32U, 75U);
    const Strided<double> x{{3, cols}, 2, 1};
    const Strided<double> y{{3, cols}, 1, 2};
    const auto before = elements(y.view);
    engine.map_rows(y.view, times_row, x.in(), y.in());
    for (std::size_t i = 0; i < 3; ++i)
      for (std::size_t j = 0; j < cols; ++j)
        CHECK(y.view(i, j) == static_cast<double>(i + 2) * x.view(i, j) + before[i * cols + j]);
    CHECK(y.untouched_outside());
  }
  SECTION("into another type")
  {
    const Strided<float> small{{3, 4}, 1, 3};
    engine.map(
        small.view, [](double x) { return static_cast<float>(x); }, a.in());
    CHECK(small.view(2, 3) == static_cast<float>(a.view(2, 3)));
  }
  SECTION("of other shapes are refused, whichever input it is")
  {
    const Strided<double> other{{4, 3}, 0, 1};
    const auto plus = [](double x, double y) { return x + y; };
    CHECK_THROWS_AS(engine.map(out.view, plus, other.in(), b.in()), ShapeError);
    CHECK_THROWS_AS(engine.map(out.view, plus, a.in(), other.in()), ShapeError);
    CHECK_THROWS_AS(engine.map_indexed(
                        out.view, [](std::size_t, std::size_t, double x) { return x; }, other.in()),
                    ShapeError);
    const auto same = [](std::size_t) { return [](double x) { return x; }; };
    CHECK_THROWS_AS(engine.map_rows(out.view, same, other.in()), ShapeError);
  }
}

TEST_CASE("several matrices are read and written in one pass")
{
  const HostEngine engine;
  const std::size_t cols = GENERATE(1U, 4U, 40U, 64U);
  const std::size_t gap = GENERATE(0U, 2U);
  CAPTURE(cols, gap);
  const Strided<double> a{{3, cols}, gap, 1};
  const Strided<float> b{{3, cols}, 0, 2};
  const Strided<double> in{{3, cols}, 2 * gap, 3};
  const auto before = elements(a.view);
  engine.for_each(
      [](double& x, float& y, const double& z) {
        x += z;
        y = static_cast<float>(2 * x);
      },
      a.view, b.view, in.in());
  std::size_t k = 0;
  for (std::size_t i = 0; i < 3; ++i)
    for (std::size_t j = 0; j < cols; ++j, ++k)
    {
      CHECK(a.view(i, j) == before[k] + in.view(i, j));
      CHECK(b.view(i, j) == static_cast<float>(2 * a.view(i, j)));
    }
  CHECK(a.untouched_outside());
  CHECK(b.untouched_outside());
  const Strided<double> other{{3, cols + 1}, 0, 1};
  CHECK_THROWS_AS(engine.for_each([](double&, const double&) {}, a.view, other.in()), ShapeError);
  CHECK_NOTHROW(engine.for_each([](double& x) { x = 0; }, MatrixView<double>{}));
}

TEST_CASE("a repeated row is an input")
{
  const HostEngine engine;
  const Strided<double> a{{3, 40}, 0, 1};
  const Strided<double> row{{1, 40}, 0, 2};
  const auto before = elements(a.view);
  engine.for_each([](double& x, const double& r) { x += r; }, a.view, row.view.repeated(3));
  for (std::size_t i = 0; i < 3; ++i)
    for (std::size_t j = 0; j < 40; ++j) CHECK(a.view(i, j) == before[i * 40 + j] + row.view(0, j));
}

TEMPLATE_LIST_TEST_CASE("map_sums maps and sums columns", "", FewScalars)
{
  using T = TestType;
  const HostEngine engine;
  const auto times = [](const T& x, const T& y) { return x * y; };
  for (const std::size_t rows : {0U, 1U, 6U})
    for (const std::size_t cols : {5U, 37U})
    {
      CAPTURE(rows, cols);
      const Strided<T> a{{rows, cols}, 2, 1};
      const Strided<T> b{{rows, cols}, 0, 5};
      const Strided<T> out{{rows, cols}, 1, 3};
      const Strided<T> sums{{1, cols}, 1, 2};
      engine.map_sums(out.view, sums.view, times, a.in(), b.view);
      const Strided<T> wanted{{rows, cols}, 0, 3};
      const Strided<T> wanted_sums{{1, cols}, 0, 2};
      engine.map(wanted.view, times, a.in(), b.in());
      engine.column_sums(wanted.in(), wanted_sums.view);
      CHECK(elements(out.view) == elements(wanted.view));
      CHECK(elements(sums.view) == elements(wanted_sums.view));
      CHECK(out.untouched_outside());
      CHECK(sums.untouched_outside());
      // In place.
      engine.map_sums(a.view, sums.view, times, a.view, b.in());
      CHECK(elements(a.view) == elements(wanted.view));
      const Strided<T> wide{{1, cols + 1}, 0, 1};
      CHECK_THROWS_AS(engine.map_sums(out.view, wide.view, times, a.in(), b.in()), ShapeError);
      CHECK_THROWS_AS(engine.map_sums(out.view, sums.view, times, a.in(), wide.in()), ShapeError);
    }
}

TEMPLATE_TEST_CASE("map_sums has the same bits as map and column_sums", "", float, double)
{
  using T = TestType;
  const HostEngine engine;
  constexpr std::size_t rows = 50;
  constexpr std::size_t cols = 45;
  std::vector<T> a(rows * cols);
  for (std::size_t i = 0; i < a.size(); ++i)
    a[i] = static_cast<T>(std::sin(static_cast<double>(i)));
  std::vector<T> out(rows * cols);
  std::vector<T> sums(cols);
  std::vector<T> wanted(cols);
  const MatrixView<const T> in{a.data(), {rows, cols}};
  const MatrixView<T> y{out.data(), {rows, cols}};
  engine.map_sums(
      y, MatrixView<T>{sums.data(), {1, cols}}, [](T x, T z) { return x * (z + T{1}); }, in, in);
  engine.column_sums(MatrixView<const T>{y}, MatrixView<T>{wanted.data(), {1, cols}});
  CHECK(sums == wanted);
}

TEST_CASE("sums and folds of other shapes are refused")
{
  const HostEngine engine;
  const Strided<double> in{{3, 4}, 0, 1};
  const Strided<double> other{{3, 5}, 0, 1};
  const Strided<double> short_row{{1, 3}, 0, 1};
  const Strided<double> two_rows{{2, 4}, 0, 1};
  const Strided<double> column{{2, 1}, 0, 1};
  const Strided<double> fitting{{3, 1}, 0, 1};
  const auto add = [](double a, double b) { return a + b; };
  const auto sum_of = [](std::size_t, std::size_t, double x, double y) { return x + y; };
  CHECK_THROWS_AS(engine.column_sums(in.in(), short_row.view), ShapeError);
  CHECK_THROWS_AS(engine.column_sums(in.in(), two_rows.view), ShapeError);
  CHECK_THROWS_AS(engine.row_fold(column.view, 0.0, add, sum_of, in.in(), in.in()), ShapeError);
  CHECK_THROWS_AS(engine.row_fold(fitting.view, 0.0, add, sum_of, in.in(), other.in()), ShapeError);
  CHECK_THROWS_AS(engine.fold(0.0, add, sum_of, in.in(), other.in()), ShapeError);
  CHECK_NOTHROW(engine.row_fold(fitting.view, 0.0, add, sum_of, in.in(), in.in()));
}

TEMPLATE_LIST_TEST_CASE("column_sums sums each column", "", FewScalars)
{
  using T = TestType;
  const HostEngine engine;
  for (const std::size_t rows : {0U, 1U, 6U})
  {
    const Strided<T> in{{rows, 5}, 2, 1};
    const Strided<T> out{{1, 5}, 1, 2};
    engine.column_sums(in.in(), out.view);
    for (std::size_t j = 0; j < 5; ++j)
    {
      T sum{};
      for (std::size_t i = 0; i < rows; ++i) sum += in.view(i, j);
      CHECK(out.view(0, j) == sum);
    }
    CHECK(out.untouched_outside());
  }
}

TEST_CASE("a map that folds has the same bits as the map and of the fold")
{
  const HostEngine engine;
  std::vector<double> x{1, 2, 3, 4, 5, 6};
  std::vector<double> y{0.1, 0.2, 0.3, 0.4, 0.5, 0.6};
  const MatrixView<const double> in{y.data(), {2, 3}};
  const MatrixView<double> out{x.data(), {2, 3}};
  const auto both = [](std::size_t i, std::size_t j, double a, double b) {
    const double c = a * b;
    return detail::ValueAndTerm<double, double>{c + static_cast<double>(10 * i + j), c};
  };
  const auto term = [](std::size_t, std::size_t, double a, double b) { return a * b; };
  const double wanted = engine.fold(1.5, detail::Sum{}, term, out, in);
  CHECK(engine.map_fold(1.5, detail::Sum{}, out, both, MatrixView<const double>{out}, in) ==
        wanted);
  CHECK(x == std::vector<double>{0.1, 0.4 + 1, 3 * 0.3 + 2, 1.6 + 10, 2.5 + 11, 6 * 0.6 + 12});
  CHECK_THROWS_AS(engine.map_fold(0.0, detail::Sum{}, out, both, in, in.block(0, 0, {2, 2})),
                  ShapeError);
}

TEST_CASE("folds combine elements in row-major order")
{
  const HostEngine engine;
  std::vector<double> memory{1, 2, 3, -1, 4, 5, 6, -1};
  const MatrixView<const double> m{memory.data(), 2, 3, 4};
  // The function is not commutative, so that the order shows.
  const auto append = [](double a, double b) { return 10 * a + b; };
  const auto itself = [](std::size_t, std::size_t, double x) { return x; };

  std::vector<double> rows(4, -1);
  engine.row_fold(MatrixView<double>{rows.data(), 2, 1, 2}, 7.0, append, itself, m);
  CHECK(rows == std::vector<double>{7123, -1, 7456, -1});

  CHECK(engine.fold(7.0, append, itself, m) == 7123456);
  CHECK(engine.fold(
            0.0, [](double a, double b) { return a + b; },
            [](std::size_t i, std::size_t j, double x, double y) {
              return static_cast<double>(100 * i + 10 * j) + x * y;
            },
            m, m) == 1 + 14 + 29 + 116 + 135 + 156);
  CHECK(engine.fold(3.5, append, itself, MatrixView<const double>{}) == 3.5);
  engine.row_fold(MatrixView<double>{rows.data(), 2, 1, 2}, 9.0, append, itself,
                  MatrixView<const double>{memory.data(), 2, 0, 4});
  CHECK(rows == std::vector<double>{9, -1, 9, -1});
}

TEST_CASE("a buffer is zeroed")
{
  const HostEngine::Buffer<std::complex<float>> buffer(5);
  CHECK(buffer.size() == 5);
  CHECK(std::ranges::all_of(buffer, [](auto x) { return x == std::complex<float>{}; }));
}

TEST_CASE("a view is an xtensor of the same memory")
{
  const HostEngine engine;
  const std::size_t rows = GENERATE(1U, 2U, 5U);
  const std::size_t cols = GENERATE(1U, 3U);
  const std::size_t gap = GENERATE(0U, 2U);
  CAPTURE(rows, cols, gap);
  const Strided<double> m{{rows, cols}, gap, 1};
  auto x = engine.view(m.view);
  REQUIRE(x.dimension() == 2);
  REQUIRE(x.shape(0) == rows);
  REQUIRE(x.shape(1) == cols);
  REQUIRE(x.size() == rows * cols);
  const auto before = elements(m.view);
  std::vector<double> seen;
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t j = 0; j < cols; ++j) seen.push_back(x(i, j));
  CHECK(seen == before);
  CHECK(std::vector<double>(x.begin(), x.end()) == before);

  SECTION("copied into a container")
  {
    const xt::xtensor<double, 2> copy = x;
    CHECK(std::vector<double>(copy.begin(), copy.end()) == before);
    CHECK(copy == x);
  }
  SECTION("read in expressions, broadcast against other shapes")
  {
    double sum = 0;
    for (const double v : before) sum += v;
    CHECK(xt::sum(x)() == sum);
    const xt::xtensor<double, 2> ones = xt::ones<double>({std::size_t{5}, std::size_t{3}});
    if (rows == 1 || rows == 5)
    {
      const xt::xtensor<double, 2> both = x + ones;
      REQUIRE(both.shape(0) == 5);
      for (std::size_t i = 0; i < 5; ++i)
        for (std::size_t j = 0; j < 3; ++j)
          CHECK(both(i, j) == m.view(rows == 1 ? 0 : i, cols == 1 ? 0 : j) + 1);
    }
  }
  SECTION("written to")
  {
    x(rows - 1, cols - 1) = 42;
    CHECK(m.view(rows - 1, cols - 1) == 42);
    xt::noalias(x) = 2 * xt::ones<double>({rows, cols});
    CHECK(elements(m.view) == std::vector<double>(rows * cols, 2));
    x += 1;
    CHECK(elements(m.view) == std::vector<double>(rows * cols, 3));
    x.fill(4);
    CHECK(m.view(0, 0) == 4);
    x += 2 * xt::ones<double>({rows, cols});
    CHECK(elements(m.view) == std::vector<double>(rows * cols, 6));
    CHECK(m.untouched_outside());
  }
  SECTION("assigned from a container")
  {
    xt::xtensor<double, 2> values({rows, cols});
    for (std::size_t i = 0; i < values.size(); ++i) values.data()[i] = static_cast<double>(i);
    x = values;
    for (std::size_t i = 0; i < rows; ++i)
      for (std::size_t j = 0; j < cols; ++j)
        CHECK(m.view(i, j) == static_cast<double>(i * cols + j));
    CHECK(m.untouched_outside());
  }
  SECTION("to read from alone")
  {
    const auto y = engine.view(m.in());
    CHECK(y(0, 0) == before[0]);
    CHECK(std::vector<double>(y.begin(), y.end()) == before);
  }
}

TEST_CASE("a view of an empty matrix is an empty xtensor")
{
  const HostEngine engine;
  std::vector<float> memory(6);
  for (const Shape shape : {Shape{0, 0}, Shape{0, 3}, Shape{2, 0}})
  {
    const auto x = engine.view(MatrixView<float>{memory.data(), shape.rows, shape.cols, 3});
    CHECK(x.shape(0) == shape.rows);
    CHECK(x.shape(1) == shape.cols);
    CHECK(x.size() == 0);
    CHECK(x.begin() == x.end());
    const xt::xtensor<float, 2> copy = x;
    CHECK(copy.size() == 0);
  }
}

TEMPLATE_TEST_CASE("functions of 16-bit elements get floats, and sums are in float", "", bfloat16,
                   half)
{
  using T = TestType;
  const HostEngine engine;
  constexpr std::size_t rows = 3000;
  const T small = 0x1p-9F;  // lost when added to 1, or to a sum of many, in 16 bits
  const Strided<T> x{{rows, 3}, 1, 1};
  const Strided<T> y{{rows, 3}, 2, 1};
  const Strided<T> sums{{1, 3}, 0, 1};
  engine.fill(x.view, small);

  engine.column_sums(x.in(), sums.view);
  const T expected = static_cast<float>(rows) * 0x1p-9F;
  CHECK(elements(sums.view) == std::vector<T>(3, expected));
  engine.map_sums(
      y.view, sums.view, [](float a) { return 2 * a; }, x.in());
  CHECK(elements(sums.view) == std::vector<T>(3, T{2 * expected}));
  CHECK(y.view(rows - 1, 2) == 0x1p-8F);
  CHECK(y.untouched_outside());

  const auto sum = [](float a, float b) { return a + b; };
  const auto itself = [](std::size_t, std::size_t, float a) { return a; };
  CHECK(engine.fold(T{}, sum, itself, x.in()) == T{9000 * 0x1p-9F});
  CHECK(engine.fold(0.0F, sum, itself, x.in()) == 9000 * 0x1p-9F);
  const MatrixView<const T> wide{x.in().data(), 2, 1000, 2000};
  std::vector<T> column(2);
  engine.row_fold(
      MatrixView<T>{column.data(), {2, 1}}, T{1}, sum,
      [](std::size_t, std::size_t, float) { return 0x1p-12F; }, wide);
  CHECK(column[0] == T{1 + 1000 * 0x1p-12F});

  // Rounded once, at the end.
  engine.map(
      y.view, [](float a) { return (1 + a * 0x1p-9F) - 1; }, x.in());
  CHECK(y.view(7, 1) == 0x1p-18F);
  engine.map_indexed(
      y.view, [](std::size_t i, std::size_t, float a) { return a + static_cast<float>(i); },
      x.in());
  CHECK(y.view(257, 0) == T{257 + 0x1p-9F});
  engine.for_each(
      [](float& a, const float& b, float& c) {
        c = a;
        a += b;
      },
      x.view, y.in(), MatrixView<T>{y.view});
  CHECK(x.view(257, 0) == T{T{257 + 0x1p-9F} + small});
  CHECK(y.view(257, 0) == small);
}

}  // namespace cubist::test::engine_host_engine_test
