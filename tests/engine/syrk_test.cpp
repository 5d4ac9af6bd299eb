// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/engine/decorator.hpp"
#include "cubist/engine/host/engine.hpp"
#include "cubist/engine/syrk.hpp"

#include "catch.hpp"
#include "one_triangle.hpp"

namespace cubist::test::engine_syrk_test
{

/// The host's engine without its syrk.
struct GemmEngine : HostEngine
{
  void syrk() const;
};

static_assert(detail::ComputesTriangles<HostEngine, double>);
static_assert(detail::ComputesTriangles<HostEngine, bfloat16>);
static_assert(!detail::ComputesTriangles<GemmEngine, double>);

TEST_CASE("syrk computes one triangle, and mirror the other one")
{
  // (1 2 3) (1 4)   (14 32)
  // (4 5 6) (2 5) = (32 77)
  //         (3 6)
  const std::vector<double> a{1, 2, 3, 4, 5, 6};
  std::vector<double> c{-1, -2, -3, -4};
  const MatrixView<double> out{c.data(), {2, 2}};
  const HostEngine engine;
  syrk<HostEngine, double>(engine, Triangle::lower, 1, MatrixView<const double>{a.data(), {2, 3}},
                           0, out);
  CHECK(c == std::vector<double>{14, -2, 32, 77});
  mirror(engine, Triangle::lower, out);
  CHECK(c == std::vector<double>{14, 32, 32, 77});
  // 2 A A^T - 10 C, where the transpose of A is stored.
  const std::vector<double> at{1, 4, 2, 5, 3, 6};
  const Operand<const double> op_a{MatrixView<const double>{at.data(), {3, 2}}, Op::transpose};
  syrk<HostEngine, double>(engine, Triangle::upper, 2, op_a, -10, out);
  CHECK(c == std::vector<double>{-112, -256, 32, -616});
}

TEMPLATE_TEST_CASE("a triangle is that of the product, and the rest of C is unchanged", "", float,
                   double, bfloat16, half)
{
  using T = TestType;
  // Integers below 2^8 are exact in bfloat16. With one thread of BLAS, 300 rows are cut into
  // blocks.
  const BlasThreads one{1};
  const auto check = [](const auto& engine, std::size_t n, std::size_t k, Op op, Triangle triangle,
                        T beta) {
    CAPTURE(n, k, static_cast<int>(op), static_cast<int>(triangle), static_cast<float>(beta));
    const auto x = GlobalMatrix<float>{{n, k}, [](std::size_t i, std::size_t j) {
                                         return static_cast<float>(hash(1, i, j) % 3) - 1;
                                       }};
    const std::size_t gap = 3;
    const Shape stored = op_shape(op, {n, k});
    std::vector<T> a(stored.rows * (stored.cols + gap), T{50});
    const MatrixView<T> in{a.data(), stored.rows, stored.cols, stored.cols + gap};
    for (std::size_t i = 0; i < n; ++i)
      for (std::size_t j = 0; j < k; ++j) (op == Op::none ? in(i, j) : in(j, i)) = T{x(i, j)};
    const float nan = std::numeric_limits<float>::quiet_NaN();
    std::vector<T> c(n * (n + gap), T{7});
    const MatrixView<T> out{c.data(), n, n, n + gap};
    if (beta == T{})
      for (std::size_t i = 0; i < n; ++i)
        for (std::size_t j = 0; j < n; ++j)
          if (is_in(triangle, i, j)) out(i, j) = T{nan};
    using E = std::remove_cvref_t<decltype(engine)>;
    syrk<E, T>(engine, triangle, T{2}, Operand<const T>{MatrixView<const T>{in}, op}, beta, out);
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < n; ++i)
      for (std::size_t j = 0; j < n + gap; ++j)
      {
        float wanted = 7;
        if (j < n && is_in(triangle, i, j))
        {
          wanted *= static_cast<float>(beta);
          for (std::size_t l = 0; l < k; ++l) wanted += 2 * x(i, l) * x(j, l);
        }
        if (static_cast<float>(c[i * (n + gap) + j]) != wanted) ++wrong;
      }
    CHECK(wrong == 0);
  };
  for (const Shape s : {Shape{1, 1}, {5, 3}, {33, 20}, {300, 2}, {4, 0}, {0, 4}})
    for (const auto triangle : {Triangle::lower, Triangle::upper})
      for (const Op op : {Op::none, Op::transpose})
        for (const int beta : {0, 1, -3})
        {
          check(HostEngine{}, s.rows, s.cols, op, triangle, T{static_cast<float>(beta)});
          check(GemmEngine{}, s.rows, s.cols, op, triangle, T{static_cast<float>(beta)});
        }
}

TEST_CASE("a matrix is transposed and mirrored inside its block")
{
  for (const Shape s : {Shape{1, 1}, {3, 40}, {40, 3}, {33, 50}, {0, 4}, {4, 0}})
  {
    CAPTURE(s.rows, s.cols);
    const auto a = random_matrix<double>(s, 1);
    std::vector<double> b(s.cols * (s.rows + 2), 9);
    const MatrixView<double> out{b.data(), s.cols, s.rows, s.rows + 2};
    transpose(HostEngine{}, MatrixView<const double>{a.data.data(), s}, out);
    const auto wanted = transposed(a);
    for (std::size_t i = 0; i < s.cols; ++i)
      for (std::size_t j = 0; j < s.rows + 2; ++j)
        REQUIRE(b[i * (s.rows + 2) + j] == (j < s.rows ? wanted(i, j) : 9));
  }
  for (const std::size_t n : {1U, 16U, 45U})
    for (const auto known : {Triangle::lower, Triangle::upper})
    {
      CAPTURE(n, static_cast<int>(known));
      auto c = random_matrix<double>({n, n + 1}, 2);
      const auto before = c;
      mirror(HostEngine{}, known, MatrixView<double>{c.data.data(), n, n, n + 1});
      for (std::size_t i = 0; i < n; ++i)
      {
        for (std::size_t j = 0; j < n; ++j)
          REQUIRE(c(i, j) == (is_in(known, i, j) ? before(i, j) : before(j, i)));
        REQUIRE(c(i, n) == before(i, n));
      }
    }
}

TEMPLATE_TEST_CASE("syrk refuses a result that does not fit", "", HostEngine, GemmEngine)
{
  std::vector<double> memory(12);
  const MatrixView<const double> a{memory.data(), {2, 3}};
  for (const Shape c : {Shape{3, 3}, {2, 3}})
    CHECK_THROWS_WITH((syrk<TestType, double>(TestType{}, Triangle::lower, 1, a, 0,
                                              MatrixView<double>{memory.data(), c})),
                      "syrk got (2, 3) times its transpose for a result of (" +
                          std::to_string(c.rows) +
                          ", 3), so the sizes do not fit; give the result as many rows and "
                          "columns as the operand has rows");
}

TEST_CASE("a decorator sees a syrk as a product")
{
  static std::string seen;
  static std::size_t bytes = 0;
  struct LastCall : EngineDecorator<LastCall, HostEngine>
  {
    [[nodiscard]] static int around(const EngineCall& call)
    {
      seen = (call.is_product ? "product " : "pass ") + call.name.to_string() +
             (call.transposes_a ? " t" : " n") + (call.transposes_b ? "t" : "n");
      bytes = call.bytes;
      return 0;
    }
  };
  const std::vector<double> a(6);
  std::vector<double> c(4);
  syrk<LastCall, double>(LastCall{}, Triangle::upper, 1, MatrixView<const double>{a.data(), {2, 3}},
                         0, MatrixView<double>{c.data(), {2, 2}});
  CHECK(seen == "product syrk 2x2x3 nt");
  CHECK(bytes == (6 + 4) * sizeof(double));
}

}  // namespace cubist::test::engine_syrk_test
