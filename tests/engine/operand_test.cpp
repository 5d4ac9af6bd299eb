// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/engine/host/engine.hpp"
#include "cubist/engine/operand.hpp"

#include "catch.hpp"
#include "matrices.hpp"

namespace cubist::test::engine_operand_test
{

template <class T>
MatrixView<T> view(GlobalMatrix<T>& m)
{
  return {m.data.data(), m.shape};
}

TEST_CASE("A block of an operand is a block of op(A)")
{
  GlobalMatrix<double> a{
      {3, 5}, [](std::size_t i, std::size_t j) { return static_cast<double>(10 * i + j); }};
  const Operand<double> plain{view(a)};
  const Operand<double> flipped{view(a), Op::transpose};
  CHECK(plain.shape() == Shape{3, 5});
  CHECK(flipped.shape() == Shape{5, 3});
  CHECK(plain.block(1, 2, {2, 3}).stored()(0, 0) == a(1, 2));
  CHECK(flipped.block(2, 1, {3, 2}).stored()(0, 0) == a(1, 2));
  CHECK(flipped.block(2, 1, {3, 2}).shape() == Shape{3, 2});
  CHECK(flipped.t().shape() == Shape{3, 5});
  CHECK(flipped.t().op() == Op::none);
  CHECK(flipped.block(2, 1, {3, 2}).t().op() == Op::none);
}

using C = std::complex<double>;

/// The matrix for which op gives `x`.
static GlobalMatrix<C> stored(Op op, const GlobalMatrix<C>& x)
{
  if (op == Op::none) return x;
  auto a = transposed(x);
  for (auto& v : a.data) v = op == Op::adjoint ? std::conj(v) : v;
  return a;
}

TEST_CASE("Products of operands do not depend on how they are stored")
{
  const Op op_a = GENERATE(Op::none, Op::transpose, Op::adjoint);
  const Op op_b = GENERATE(Op::none, Op::transpose, Op::adjoint);
  const auto x = random_matrix<C>({4, 3}, 1);
  const auto y = random_matrix<C>({3, 5}, 2);
  const auto expected = product(x, y);
  auto a = stored(op_a, x);
  auto b = stored(op_b, y);
  GlobalMatrix<C> c{{4, 5}};
  const HostEngine engine;
  multiply(engine, C{1}, Operand<const C>{view(a), op_a}, Operand<const C>{view(b), op_b}, C{},
           Operand<C>{view(c)});
  CHECK(c.data == expected.data);

  if (op_a == Op::adjoint || op_b == Op::adjoint) return;
  GlobalMatrix<C> result{{5, 4}};
  multiply(engine, C{2}, Operand<const C>{view(a), op_a}, Operand<const C>{view(b), op_b}, C{},
           Operand<C>{view(result), Op::transpose});
  for (auto& v : result.data) v /= 2;
  CHECK(transposed(result).data == expected.data);
}

TEST_CASE("The adjoint of real numbers is their transpose")
{
  GlobalMatrix<double> a{{2, 3}};
  CHECK(Operand<double>{view(a), Op::adjoint}.op() == Op::transpose);
  CHECK(Operand<double>{view(a), Op::adjoint}.t().op() == Op::none);
}

TEST_CASE("A conjugate that is not transposed is refused")
{
  GlobalMatrix<C> a{{2, 3}};
  const Operand<C> conjugate = Operand<C>{view(a), Op::adjoint}.t();
  CHECK_THROWS_AS(conjugate.op(), ArgumentError);
  CHECK_THROWS_WITH(conjugate.op(),
                    Catch::Matchers::ContainsSubstring("adjoint") &&
                        Catch::Matchers::ContainsSubstring("conjugate the operand first"));
}

}  // namespace cubist::test::engine_operand_test
