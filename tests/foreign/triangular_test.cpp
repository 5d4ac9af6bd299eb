// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/backend/threads.hpp"
#include "cubist/foreign/triangular.hpp"

#include "foreign_matrices.hpp"
#include "one_triangle.hpp"
#include "ranks.hpp"

namespace cubist::test::foreign_triangular_test
{

template <class T>
using Any = AnyDistributed<T, Threads>;

/// Calls f(i, j, element) for the elements that this rank holds.
template <class T, class F>
void for_each_held(const Any<T>& m, F f)
{
  for (std::size_t i = 0; i < m.matrix().shape().rows; ++i)
    for (std::size_t j = 0; j < m.matrix().shape().cols; ++j)
      if (const auto place = m.place(m.matrix().rank(), i, j)) f(i, j, m.at(*place));
}

template <class T, class F>
void fill(const Any<T>& m, F f)
{
  for_each_held(m, [&](std::size_t i, std::size_t j, T& x) { x = f(i, j); });
}

template <class T, class F>
void check(Findings& found, const Any<T>& m, const std::string& what, F wanted)
{
  for_each_held(m, [&](std::size_t i, std::size_t j, const T& x) {
    found.check(x == wanted(i, j), what, " on ", m.name(), ": ", x, " at ", i, ", ", j);
  });
}

TEMPLATE_TEST_CASE("triangles of matrices in any layouts multiply as the serial oracle does", "",
                   double, std::complex<float>)
{
  // Random operands in random layouts: up to 70 rows are cut into 8 blocks.
  using T = TestType;
  require_clear(on_ranks<Threads>(4, [](Threads::Communicator& world) {
    Findings found;
    found.check(true, "ranks without elements check nothing else");
    const Mesh<Summa2D, Threads> mesh{world};
    for (std::uint64_t seed = 0; seed < 24; ++seed)
    {
      Dice dice{seed};
      const auto side = dice(2) == 0 ? Side::left : Side::right;
      const auto triangle = dice(2) == 0 ? Triangle::lower : Triangle::upper;
      const auto op = static_cast<Op>(dice(3));
      const auto diagonal = dice(2) == 0 ? Diagonal::unit : Diagonal::stored;
      const auto symmetry = dice(2) == 0 ? Symmetry::symmetric : Symmetry::hermitian;
      const std::size_t n = 1 + dice(70);
      const std::size_t other = 1 + dice(20);
      const Shape shape = side == Side::left ? Shape{n, other} : Shape{other, n};
      const std::string text = std::to_string(seed) + ", " + std::to_string(n) + " rows";
      const T alpha = scalar<T>(2, -1);
      const T beta = dice(3) == 0 ? T{} : scalar<T>(3, 1);

      const TriangularOperand how{side, triangle, op, diagonal};
      const Any<T> a{world, {n, n}, dice};
      const Any<T> b{world, shape, dice};
      fill(a, [&](auto i, auto j) { return stored<T>(how, i, j); });
      const auto x = small_integers<T>(1);
      const auto op_a_x = [&](auto i, auto j) { return product_at<T>(how, n, x, i, j); };
      fill(b, x);
      trmm(mesh, how, alpha, a.matrix(), b.matrix());
      check(found, b, "trmm " + text, [&](auto i, auto j) { return alpha * op_a_x(i, j); });
      fill(b, op_a_x);
      trsm(mesh, how, alpha, a.matrix(), b.matrix());
      check(found, b, "trsm " + text, [&](auto i, auto j) { return alpha * x(i, j); });

      const SymmetricOperand symmetric{side, triangle, symmetry};
      const Any<T> c{world, shape, dice};
      fill(a, [&](auto i, auto j) { return stored<T>(symmetric, i, j); });
      fill(b, x);
      const auto old = [&](auto i, auto j) {
        return beta == T{} ? scalar<T>(std::numeric_limits<double>::quiet_NaN(), 0)
                           : small_integers<T>(2)(i, j);
      };
      fill(c, old);
      symm(mesh, symmetric, alpha, a.matrix(), b.matrix(), beta, c.matrix());
      check(found, c, "symm " + text, [&](auto i, auto j) {
        const T sum = alpha * product_at<T>(symmetric, n, x, i, j);
        return beta == T{} ? sum : sum + beta * old(i, j);
      });

      // A (n, n) is updated from B: op(B) has n rows.
      const auto of_b = op == Op::none ? Shape{n, other} : Shape{other, n};
      const bool is_hermitian = symmetry == Symmetry::hermitian;
      const T factor = is_hermitian ? T{2} : alpha;
      const Any<T> in{world, of_b, dice};
      fill(in, x);
      const auto out = small_integers<T>(4);
      fill(a, out);
      syrk(mesh, triangle, op, symmetry, factor, in.matrix(), T{-1}, a.matrix());
      check(found, a, "syrk " + text, [&](auto i, auto j) {
        if (!is_in(triangle, i, j)) return out(i, j);
        T sum{};
        const auto times = [&](T p, T q) { return is_hermitian ? p * conjugate(q) : p * q; };
        for (std::size_t k = 0; k < other; ++k)
          sum += op == Op::none ? times(x(i, k), x(j, k)) : times(x(k, j), x(k, i));
        T wanted = factor * sum - out(i, j);
        if constexpr (ComplexScalar<T>)
          if (is_hermitian && i == j) wanted.imag(0);
        return wanted;
      });
    }
    return found;
  }));
}

TEST_CASE("products with a triangle do not read what they need not, and refuse wrong shapes")
{
  require_clear(on_ranks<Threads>(4, [](auto& world) {
    Findings found;
    found.check(true, "ranks without elements check nothing else");
    const Mesh<Summa2D, Threads> mesh{world};
    Dice dice{1};
    const double nan = std::numeric_limits<double>::quiet_NaN();
    const Any<double> a{world, {3, 3}, dice};
    const Any<double> b{world, {3, 2}, dice};
    fill(a, [&](auto...) { return nan; });
    fill(b, [&](auto...) { return nan; });
    trsm(mesh, {}, 0, a.matrix(), b.matrix());
    check(found, b, "alpha 0", [](auto...) { return 0.0; });
    fill(b, small_integers<double>(1));
    syrk(mesh, Triangle::lower, Op::none, Symmetry::symmetric, 0, b.matrix(), 0, a.matrix());
    for_each_held(a, [&](std::size_t i, std::size_t j, double x) {
      found.check(j <= i ? x == 0 : x != x, "syrk with alpha 0 at ", i, ", ", j);
    });
    const auto text = message_of<ShapeError>(
        [&] { trmm(mesh, {.side = Side::right}, 1, a.matrix(), b.matrix()); });
    found.check(mentions(text, "(3, 3)", "right", "(3, 2)"), text);
    return found;
  }));
}

}  // namespace cubist::test::foreign_triangular_test
