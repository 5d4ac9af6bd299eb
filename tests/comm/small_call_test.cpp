// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/comm/small_call.hpp"

#include "catch.hpp"

namespace cubist::test::comm_small_call_test
{

using cubist::CallKind;
using namespace cubist::detail;

TEST_CASE("a call is small if each rank waits for all others and sends at most 4 KiB")
{
  for (const auto kind : {CallKind::all_gather, CallKind::all_reduce, CallKind::expose})
  {
    CHECK(is_small(kind, 4096, 16));
    CHECK_FALSE(is_small(kind, 4097, 16));
  }
  for (const auto kind : {CallKind::all_to_all, CallKind::reduce_scatter})
  {
    CHECK(is_small(kind, 512, 8));
    CHECK_FALSE(is_small(kind, 513, 8));
  }
  for (const auto kind : {CallKind::broadcast, CallKind::reduce, CallKind::gather,
                          CallKind::scatter, CallKind::send, CallKind::receive})
    CHECK_FALSE(is_small(kind, 1, 2));
}

TEST_CASE("of many ranks each sends less, because all read it")
{
  CHECK(is_small(CallKind::all_reduce, 1024, 64));
  CHECK_FALSE(is_small(CallKind::all_reduce, 1025, 64));
  CHECK(is_small(CallKind::all_gather, 0, 100'000));
  CHECK_FALSE(is_small(CallKind::all_gather, 1, 100'000));
}

TEST_CASE("an all_reduce by messages sends whole blocks up to 32 KiB from a rank")
{
  CHECK(sends_blocks(32 * 1024, 2));
  CHECK_FALSE(sends_blocks(32 * 1024 + 1, 2));
  CHECK(sends_blocks(4681, 8));
  CHECK_FALSE(sends_blocks(4682, 8));
  CHECK(sends_blocks(1 << 30, 1));
}

}  // namespace cubist::test::comm_small_call_test
