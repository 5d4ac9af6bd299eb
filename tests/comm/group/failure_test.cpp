// SPDX-License-Identifier: BSD-3-Clause
#include <array>
#include <string>

#include "cubist/comm/threads/rank_state.hpp"

#include "catch.hpp"

namespace comm_threads_rank_state_test
{

using namespace cubist::detail;

namespace
{

struct Named final : Waiter
{
  bool advance() override { return false; }
  [[nodiscard]] std::string describe() const override { return "a call"; }
};

}  // namespace

TEST_CASE("the text of a deadlock names waiting ranks, up to sixteen, and finished ones")
{
  const Named call;
  std::array<RankState, 20> states;
  for (auto& s : states) s.waits_for = &call;
  states[1].finished = states[3].finished = true;
  const auto text = deadlock_text(states);
  CHECK(text.find("rank 0 waits in a call; rank 2 waits in a call; rank 4") != std::string::npos);
  CHECK(text.find("rank 17 waits in a call; and 2 more ranks wait") != std::string::npos);
  CHECK(text.find("; ranks {1, 3} have returned") != std::string::npos);
  CHECK(text.find("rank 18") == std::string::npos);
}

TEST_CASE("ranks that are all finished are no deadlock")
{
  std::array<RankState, 2> states;
  for (auto& s : states) s.finished = true;
  CHECK(deadlock_text(states).empty());
}

}  // namespace comm_threads_rank_state_test
