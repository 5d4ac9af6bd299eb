// SPDX-License-Identifier: BSD-3-Clause
#include <vector>

#include "cubist/plan/work.hpp"
#include "cubist/testing/traffic.hpp"

#include "catch.hpp"

namespace cubist::test::plan_work_test
{

constexpr LocalGemm five_gemms{.m = 2, .n = 3, .k = 4, .times = 5};
static_assert(five_gemms.flops() == 240);
static_assert(five_gemms.size() == ProductSize{.m = 2, .n = 3, .k = 4});

TEST_CASE("Few holds the values that were added")
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

constexpr Work two_of_each()
{
  Work work;
  work.products.add(five_gemms);
  work.products.add({1, 1, 1, 1});
  work.transfers.add({CallKind::all_gather, LayerMatrix::x, 3, 1, 10, 1});
  work.transfers.add({CallKind::reduce_scatter, LayerMatrix::y, 2, 3, 7, 1});
  return work;
}
static_assert(two_of_each().flops() == 242);
static_assert(two_of_each().words() == 27);
static_assert(two_of_each().messages() == 3);

}  // namespace cubist::test::plan_work_test

namespace cubist::test::plan_transfer_test
{

constexpr Transfer gathered{CallKind::all_gather, LayerMatrix::x, 4, 1, 10, 1};
static_assert(gathered.words() == 30 && gathered.messages() == 3 && gathered.pieces() == 4);
constexpr Transfer panels{CallKind::broadcast, LayerMatrix::w, 4, 1, 10, 6};
static_assert(panels.words() == 45 && panels.messages() == 4.5 && panels.pieces() == 6);
constexpr Transfer sliced{CallKind::broadcast, LayerMatrix::w, 4, 1, 10, 6, 3};
static_assert(sliced.words() == 45 && sliced.messages() == 4.5 && sliced.pieces() == 18);
constexpr Transfer summed{CallKind::all_reduce, LayerMatrix::w, 4, 1, 10, 1};
static_assert(summed.words() == 15 && summed.messages() == 6 && summed.pieces() == 1);

TEST_CASE("A transfer sends on average what traffic counts on each rank")
{
  for (const auto collective : {CallKind::broadcast, CallKind::reduce, CallKind::all_gather,
                                CallKind::reduce_scatter, CallKind::all_reduce})
    for (const int ranks : {1, 2, 3, 4, 7})
      for (const std::size_t count : {0U, 1U, 5U, 12U})
      {
        CAPTURE(to_string(collective), ranks, count);
        Sent all;
        Call<float> call;
        call.kind = collective;
        call.count = count;
        call.peer = ranks - 1;
        for (int rank = 0; rank < ranks; ++rank) all += sent_by(call, rank, ranks);
        const Transfer t{collective, LayerMatrix::x, ranks, 1, count, 3};
        CHECK(t.words() * ranks == Approx(3 * static_cast<double>(all.elements)));
        CHECK(t.words_of_all(2 * ranks) == 2 * 3 * all.elements);
        CHECK(t.messages() * ranks == Approx(3 * static_cast<double>(all.messages)));
      }
}

TEST_CASE("A transfer lies within nodes if every group of its axis does")
{
  const auto within = [](int ranks, int stride, int per_node, int of) {
    return Transfer{CallKind::all_gather, LayerMatrix::x, ranks, stride, 1, 1}.within(per_node, of);
  };
  CHECK(within(4, 1, 4, 16));
  CHECK(within(2, 2, 4, 16));
  CHECK_FALSE(within(4, 4, 4, 16));
  CHECK_FALSE(within(3, 1, 4, 12));
  CHECK_FALSE(within(8, 1, 4, 16));
  SECTION("all of them do where there is one node, or one rank")
  {
    CHECK(within(3, 4, 12, 12));
    CHECK(within(3, 4, 100, 12));
    CHECK(within(1, 4, 3, 16));
  }
}

}  // namespace cubist::test::plan_transfer_test
