// SPDX-License-Identifier: BSD-3-Clause
#include <cstddef>

#include "cubist/engine/cuda/functions.hpp"

#include "catch.hpp"

namespace engine_cuda_functions_test
{

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

struct IndexedValue
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

TEST_CASE("adapters of element functions for kernels")
{
  int n = 1;
  detail::IgnoreIndices<AddOne>{}(7, 8, n);
  CHECK(n == 2);
  float x = 1;
  detail::FillWith<float>{3}(x);
  CHECK(x == 3);
  detail::StoreResult<Difference>{}(x, 5.0F, 3.0F);
  CHECK(x == 2);
  detail::StoreIndexedResult<IndexedValue>{}(1, 2, x, 4.0F);
  CHECK(x == 124);
  CHECK(detail::StoreAndSum<Difference>{}(0, 0, x, 9.0F, 2.0F) == 7);
  CHECK(x == 7);
}

TEST_CASE("adapters compute 16-bit elements in float, and return the sum's terms unrounded")
{
  bfloat16 y{0.0F};
  detail::StoreIndexedResult<IndexedValue>{}(
      2, 5, y, bfloat16{7.0F});  // 257, which needs 9 bits of mantissa
  CHECK(static_cast<float>(y) == 256);
  const float term = detail::StoreAndSum<Difference>{}(0, 0, y, bfloat16{256.0F}, bfloat16{-1.0F});
  CHECK(term == 257);
  CHECK(static_cast<float>(y) == 256);
  float wide = 0;
  detail::FillWith<bfloat16>{bfloat16{1.5F}}(wide);
  CHECK(wide == 1.5F);
}

}  // namespace engine_cuda_functions_test
