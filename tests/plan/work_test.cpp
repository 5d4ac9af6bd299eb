// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/plan/work.hpp"

#include "catch.hpp"

namespace plan_work_test
{

using namespace cubist;

namespace
{

constexpr LocalGemm five_gemms{.m = 2, .n = 3, .k = 4, .times = 5};
static_assert(five_gemms.flops() == 240);
static_assert(five_gemms.touched() == 5 * (2 * 8 + 12 + 2 * 6));

constexpr Work two_of_each()
{
  Work work;
  work.products.add(five_gemms);
  work.products.add({1, 1, 1, 1});
  work.transfers.add({Collective::all_gather, LayerMatrix::x, 3, 1, 10, 1});
  work.transfers.add({Collective::reduce_scatter, LayerMatrix::y, 2, 3, 7, 1});
  return work;
}
static_assert(two_of_each().flops() == 242);
static_assert(two_of_each().words() == 27);
static_assert(two_of_each().messages() == 3);

}  // namespace

TEST_CASE("A cost is the sum of forward and backward")
{
  const Cost cost{
      two_of_each(), two_of_each(), {.parameters = 1, .activations = 2, .workspace = 4}};
  CHECK(cost.flops() == 484);
  CHECK(cost.words() == 54);
  CHECK(cost.messages() == 6);
  CHECK(cost.memory.total() == 7);
}

TEST_CASE("Few values are those that were added")
{
  Few<int, 3> few;
  CHECK(few.size() == 0);
  few.add(7);
  few.add(9);
  CHECK(few.size() == 2);
  CHECK(few[1] == 9);
  int sum = 0;
  for (const int value : few) sum += value;
  CHECK(sum == 16);
}

}  // namespace plan_work_test
