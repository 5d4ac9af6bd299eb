// SPDX-License-Identifier: BSD-3-Clause
#include <utility>

#include "cubist/engine/widened.hpp"

#include "catch.hpp"

namespace cubist::test::engine_widened_test
{

using cubist::detail::element_of;
using cubist::detail::on_widened;
using cubist::detail::wide;

TEST_CASE("16-bit elements are widened, others are passed by reference")
{
  const std::complex<double> z{1, 2};
  CHECK(&wide(z) == &z);
  STATIC_REQUIRE(std::is_same_v<decltype(wide(std::declval<const half&>())), float>);
  CHECK(wide(bfloat16{2.5F}) == 2.5F);
}

TEST_CASE("a function for a device may return Complex on the host, too")
{
  CHECK(element_of(2.5F) == 2.5F);
  const std::complex<float> z = element_of(Complex<float>{1, 2});
  CHECK(z == std::complex<float>{1, 2});
}

struct Shift
{
  template <class A, class B, class C>
  void operator()(A& a, const B& b, C& c) const
  {
    static_assert(std::is_same_v<A, float> && std::is_same_v<B, float> && std::is_same_v<C, int>);
    a = b + 0x1p-20F;
    c = a == b ? 1 : 2;
  }
};

TEST_CASE("a function writes floats, which are rounded when they are stored")
{
  half a{5};
  const bfloat16 b{1};
  int c = 0;
  on_widened<half, const bfloat16, int>(Shift{})(a, b, c);
  CHECK(a == 1);
  CHECK(c == 2);
  CHECK(b == 1);
}

TEST_CASE("functions of other elements are not wrapped")
{
  STATIC_REQUIRE(std::is_same_v<decltype(on_widened<float, const int>(Shift{})), Shift>);
}

}  // namespace cubist::test::engine_widened_test
