// SPDX-License-Identifier: BSD-3-Clause
#include <set>
#include <string>

#include "cubist/comm/call.hpp"

#include "catch.hpp"

using namespace cubist;

TEST_CASE("every collective has a name of its own")
{
  std::set<std::string> names;
  for (std::size_t c = 0; c < collective_count; ++c)
    names.insert(to_string(static_cast<Collective>(c)));
  CHECK(names.size() == collective_count);
  CHECK(std::string{to_string(Collective::barrier)} == "barrier");
  CHECK(std::string{to_string(Collective::all_reduce)} == "all_reduce");
  CHECK(std::string{to_string(Collective::reduce_scatter)} == "reduce_scatter");
  CHECK(std::string{to_string(Collective::all_to_all)} == "all_to_all");
  CHECK(std::string{to_string(Collective::receive)} == "receive");
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
  for (std::size_t i = 0; i < collective_count; ++i)
  {
    const auto c = static_cast<Collective>(i);
    if (has_root(c)) rooted.insert(to_string(c));
    if (reduces(c)) reducing.insert(to_string(c));
  }
  CHECK(rooted == std::set<std::string>{"broadcast", "reduce", "gather", "scatter"});
  CHECK(reducing == std::set<std::string>{"reduce", "all_reduce", "reduce_scatter"});
}

TEST_CASE("a call is a barrier until told otherwise")
{
  constexpr Call<float> call;
  STATIC_REQUIRE(call.collective == Collective::barrier);
  STATIC_REQUIRE(call.send.empty());
  STATIC_REQUIRE(call.recv.empty());
  STATIC_REQUIRE(call.count == 0);
  STATIC_REQUIRE(call.op == ReduceOp::sum);
}
