// SPDX-License-Identifier: BSD-3-Clause
#include <vector>

#include "cubist/comm/reduction.hpp"

#include "catch.hpp"

namespace cubist::test::comm_reduction_test
{

using namespace cubist::detail;

template <class T>
using Inputs = std::vector<std::vector<T>>;

template <class T>
void combine_to(T* out, ReduceOp op, const Inputs<T>& in)
{
  combine(
      op, in.size(), [&](std::size_t i) { return in[i].data(); }, in[0].size(), out);
}

template <class T>
std::vector<T> combine_all(ReduceOp op, const Inputs<T>& in)
{
  std::vector<T> out(in[0].size());
  combine_to(out.data(), op, in);
  return out;
}

/// Numbers whose sum depends on their order.
static Inputs<float> uneven(std::size_t inputs, std::size_t n)
{
  Inputs<float> in(inputs, std::vector<float>(n));
  for (std::size_t k = 0; k < inputs; ++k)
    for (std::size_t i = 0; i < n; ++i)
      in[k][i] = std::ldexp(k % 2 == 0 ? 1.1F : -1.3F, static_cast<int>((5 * i + 7 * k) % 31));
  return in;
}

static std::vector<float> added(const Inputs<float>& in, const std::vector<std::size_t>& order)
{
  auto sum = in[order[0]];
  for (std::size_t k = 1; k < order.size(); ++k)
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += in[order[k]][i];
  return sum;
}

TEST_CASE("inputs are added in their order, whatever their size")
{
  for (const std::size_t n : {0U, 1U, 511U, 512U, 513U, 2000U})
  {
    CAPTURE(n);
    const auto in = uneven(4, n);
    const auto expected = added(in, {0, 1, 2, 3});
    if (n > 1)
      REQUIRE(expected != added(in, {3, 2, 1, 0}));  // otherwise the order would not matter
    CHECK(combine_all(ReduceOp::sum, in) == expected);
  }
}

TEMPLATE_TEST_CASE("an extreme is a NaN whichever input has it", "", float, double, half, bfloat16)
{
  using T = TestType;
  const T nan = std::numeric_limits<T>::quiet_NaN(), infinity = std::numeric_limits<T>::infinity();
  for (const auto op : {ReduceOp::min, ReduceOp::max})
    for (std::size_t place = 0; place < 3; ++place)
    {
      CAPTURE(place, op == ReduceOp::max);
      Inputs<T> in(3, std::vector<T>{T{2.0F}, infinity, T{-1.0F}});
      in[0][0] = T{1.0F}, in[2][0] = T{3.0F};
      in[place][2] = nan;
      const auto out = combine_all(op, in);
      CHECK(static_cast<float>(out[0]) == (op == ReduceOp::max ? 3 : 1));
      CHECK(out[1] == infinity);
      CHECK(std::isnan(static_cast<float>(out[2])));
    }
}

TEST_CASE("the result may overwrite any input")
{
  for (std::size_t place = 0; place < 4; ++place)
  {
    CAPTURE(place);
    auto in = uneven(4, 1300);
    const auto expected = added(in, {0, 1, 2, 3});
    combine_to(in[place].data(), ReduceOp::sum, in);
    CHECK(in[place] == expected);
  }
}

TEST_CASE("one input is copied")
{
  const auto in = uneven(1, 700);
  for (const auto op : {ReduceOp::sum, ReduceOp::min, ReduceOp::max})
    CHECK(combine_all(op, in) == in[0]);
}

TEST_CASE("minimum and maximum of inputs")
{
  const Inputs<std::int8_t> bytes{{-5, 100}, {3, 127}, {-128, 50}};
  CHECK(combine_all(ReduceOp::min, bytes) == std::vector<std::int8_t>{-128, 50});
  CHECK(combine_all(ReduceOp::max, bytes) == std::vector<std::int8_t>{3, 127});

  constexpr double infinity = std::numeric_limits<double>::infinity();
  const Inputs<double> doubles{{-5, 1e300}, {3, -1}, {-128, infinity}};
  CHECK(combine_all(ReduceOp::min, doubles) == std::vector<double>{-128, -1});
  CHECK(combine_all(ReduceOp::max, doubles) == std::vector<double>{3, infinity});
}

TEST_CASE("complex numbers are added in each part")
{
  const Inputs<std::complex<float>> in{{{1, 2}, {3, 4}}, {{10, 20}, {30, 40}}, {{-5, 0}, {0, -5}}};
  CHECK(combine_all(ReduceOp::sum, in) == std::vector<std::complex<float>>{{6, 22}, {33, 39}});
}

TEST_CASE("small integers are added modulo their range")
{
  const Inputs<std::uint8_t> in{{200}, {100}};
  CHECK(combine_all(ReduceOp::sum, in) == std::vector<std::uint8_t>{44});
}

TEST_CASE("shares cover all elements once, and the first ones are the larger ones")
{
  for (int ranks = 1; ranks <= 9; ++ranks)
    for (std::size_t n = 0; n <= 40; ++n)
    {
      std::size_t next = 0;
      std::size_t before = n + 1;
      for (int r = 0; r < ranks; ++r)
      {
        const auto [offset, count] = share_of(r, ranks, n);
        REQUIRE(offset == next);
        REQUIRE(count <= before);
        REQUIRE(count >= n / static_cast<std::size_t>(ranks));
        REQUIRE(count <= n / static_cast<std::size_t>(ranks) + 1);
        next += count;
        before = count;
      }
      REQUIRE(next == n);
    }
}

}  // namespace cubist::test::comm_reduction_test
