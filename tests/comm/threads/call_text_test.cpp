// SPDX-License-Identifier: BSD-3-Clause
#include <numeric>
#include <string>
#include <vector>

#include "cubist/comm/threads/call_text.hpp"

#include "catch.hpp"

using namespace cubist;
using namespace cubist::detail;

TEST_CASE("a call is written with its size, and what is special about it")
{
  Signature s;
  s.count = 4;
  s.element = &element_name<double>;
  const auto written = [&](Collective c) {
    s.collective = c;
    return text(s);
  };
  CHECK(written(Collective::barrier) == "barrier");
  CHECK(written(Collective::all_gather) == "all_gather of 4 double");
  CHECK(written(Collective::expose) == "expose of 4 double");
  s.op = ReduceOp::max;
  s.root = 3;
  CHECK(written(Collective::all_reduce) == "all_reduce of 4 double by max");
  CHECK(written(Collective::reduce) == "reduce of 4 double by max with root 3");
  CHECK(written(Collective::broadcast) == "broadcast of 4 double with root 3");
}

TEST_CASE("the ranks of a call are named, the first sixteen of them")
{
  ThreadCall call;
  CHECK(where(call, {5, 3}) == " on ranks {5, 3}");
  std::vector<int> many(17);
  std::iota(many.begin(), many.end(), 0);
  CHECK(where(call, many) == " on ranks {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, …}");
  call.from = 0;
  call.to = 1;
  call.members.resize(2);
  call.members[0].world_rank = 5;
  call.members[1].world_rank = 3;
  CHECK(where(call, {5, 3}) == " from rank 5 to rank 3");
}
