// SPDX-License-Identifier: BSD-3-Clause
#include <numeric>

#include "cubist/comm/call_text.hpp"

#include "catch.hpp"

namespace cubist::test::comm_call_text_test
{

TEST_CASE("the text of a call has its size, its reduction and its root, if it has them")
{
  const auto text = [](CallKind c) {
    return detail::text(detail::CallSignature::of(
        Call<double>{.kind = c, .count = 4, .peer = 3, .op = ReduceOp::max}));
  };
  CHECK(text(CallKind::barrier) == "barrier");
  CHECK(text(CallKind::expose) == "expose of 4 double");
  CHECK(text(CallKind::all_reduce) == "all_reduce of 4 double by max");
  CHECK(text(CallKind::reduce) == "reduce of 4 double by max with root 3");
  CHECK(text(CallKind::scatter) == "scatter of 4 double with root 3");
}

TEST_CASE("at most sixteen ranks are listed")
{
  using detail::rank_list;
  CHECK(rank_list({}) == "{}");
  CHECK(rank_list({5, 3}) == "{5, 3}");
  std::vector<int> many(17);
  std::iota(many.begin(), many.end(), 0);
  CHECK(rank_list(many) == "{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, …}");
}

}  // namespace cubist::test::comm_call_text_test
