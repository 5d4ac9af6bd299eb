// SPDX-License-Identifier: BSD-3-Clause
#include <array>
#include <set>

#include "cubist/comm/call.hpp"

#include "catch.hpp"

namespace cubist::test::comm_call_test
{

TEST_CASE("every kind of call has its own name")
{
  std::set<std::string> names;
  for (std::size_t c = 0; c < call_kind_count; ++c)
    names.insert(to_string(static_cast<CallKind>(c)));
  CHECK(names.size() == call_kind_count);
  CHECK(std::string{to_string(CallKind::barrier)} == "barrier");
  CHECK(std::string{to_string(CallKind::all_reduce)} == "all_reduce");
  CHECK(std::string{to_string(CallKind::reduce_scatter)} == "reduce_scatter");
  CHECK(std::string{to_string(CallKind::all_to_all)} == "all_to_all");
  CHECK(std::string{to_string(CallKind::receive)} == "receive");
}

TEST_CASE("names of reductions")
{
  CHECK(std::string{to_string(ReduceOp::sum)} == "sum");
  CHECK(std::string{to_string(ReduceOp::min)} == "min");
  CHECK(std::string{to_string(ReduceOp::max)} == "max");
}

TEST_CASE("which collectives have a root, and which reduce")
{
  std::set<std::string> rooted;
  std::set<std::string> reducing;
  for (std::size_t i = 0; i < call_kind_count; ++i)
  {
    const auto c = static_cast<CallKind>(i);
    if (has_root(c)) rooted.insert(to_string(c));
    if (reduces(c)) reducing.insert(to_string(c));
  }
  CHECK(rooted == std::set<std::string>{"broadcast", "reduce", "gather", "scatter"});
  CHECK(reducing == std::set<std::string>{"reduce", "all_reduce", "reduce_scatter"});
}

TEST_CASE("a call is a barrier by default")
{
  constexpr Call<float> call;
  STATIC_REQUIRE(call.kind == CallKind::barrier);
  STATIC_REQUIRE(call.send.empty());
  STATIC_REQUIRE(call.recv.empty());
  STATIC_REQUIRE(call.count == 0);
  STATIC_REQUIRE(call.op == ReduceOp::sum);
}

TEST_CASE("buffers may overlap only where a rank's own piece is in place")
{
  std::array<float, 12> x{};
  const auto fits = [&](CallKind c, std::size_t send, std::size_t sends, std::size_t recv,
                        std::size_t recvs, int rank, int peer = 0) {
    const std::span all{x};
    return buffers_fit(Call<float>{c, all.subspan(send, sends), all.subspan(recv, recvs), 4, peer},
                       rank);
  };
  using enum CallKind;
  CHECK(fits(all_to_all, 0, 6, 6, 6, 0));
  CHECK(fits(all_to_all, 6, 6, 0, 6, 0));
  CHECK(fits(all_to_all, 6, 0, 0, 12, 0));
  CHECK_FALSE(fits(all_to_all, 0, 12, 0, 12, 0));
  CHECK_FALSE(fits(all_to_all, 0, 7, 6, 6, 0));
  CHECK(fits(all_reduce, 0, 4, 0, 4, 1));
  CHECK_FALSE(fits(all_reduce, 0, 4, 1, 4, 1));
  CHECK(fits(reduce, 4, 4, 4, 4, 0));
  CHECK_FALSE(fits(reduce, 4, 4, 5, 4, 0));
  CHECK(fits(all_gather, 4, 4, 0, 12, 1));
  CHECK_FALSE(fits(all_gather, 4, 4, 0, 12, 2));
  CHECK(fits(reduce_scatter, 0, 12, 8, 4, 2));
  CHECK_FALSE(fits(reduce_scatter, 0, 12, 8, 4, 0));
  CHECK(fits(gather, 0, 4, 0, 12, 0));
  CHECK_FALSE(fits(gather, 4, 4, 0, 12, 0));
  CHECK(fits(gather, 0, 4, 0, 12, 1));  // a rank that receives nothing
  CHECK(fits(scatter, 0, 12, 4, 4, 1, 1));
  CHECK_FALSE(fits(scatter, 0, 12, 4, 4, 2, 2));
}

}  // namespace cubist::test::comm_call_test
