// SPDX-License-Identifier: BSD-3-Clause
#include <cstddef>

#include "cubist/engine/cuda/functions.hpp"

#include "catch.hpp"

using namespace cubist;

namespace
{

struct Difference
{
  template <class T>
  T operator()(T a, T b) const
  {
    return a - b;
  }
};

struct Place
{
  float operator()(std::size_t i, std::size_t j, float x) const
  {
    return 100.0F * static_cast<float>(i) + 10.0F * static_cast<float>(j) + x;
  }
};

struct AddOne
{
  void operator()(int& x) const { ++x; }
};

}  // namespace

TEST_CASE("functions of elements as kernels call them")
{
  int n = 1;
  detail::WithIndices<AddOne>{}(7, 8, n);
  CHECK(n == 2);
  float x = 1;
  detail::Become<float>{3}(x);
  CHECK(x == 3);
  detail::Mapped<Difference>{}(x, 5.0F, 3.0F);
  CHECK(x == 2);
  detail::MappedAt<Place>{}(1, 2, x, 4.0F);
  CHECK(x == 124);
  CHECK(detail::MappedTerm<Difference>{}(0, 0, x, 9.0F, 2.0F) == 7);
  CHECK(x == 7);
}

TEST_CASE(
    "kernels compute with floats where elements have 16 bits, and add up what was not rounded")
{
  bfloat16 y{0.0F};
  detail::MappedAt<Place>{}(2, 5, y, bfloat16{7.0F});  // 257, which 8 digits do not have
  CHECK(static_cast<float>(y) == 256);
  const float term = detail::MappedTerm<Difference>{}(0, 0, y, bfloat16{256.0F}, bfloat16{-1.0F});
  CHECK(term == 257);
  CHECK(static_cast<float>(y) == 256);
  float wide = 0;
  detail::Become<bfloat16>{bfloat16{1.5F}}(wide);
  CHECK(wide == 1.5F);
}
