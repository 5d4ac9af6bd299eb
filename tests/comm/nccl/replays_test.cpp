// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/comm/nccl/replays.hpp"

#include "catch.hpp"
#include "fake.hpp"

namespace cubist::test::comm_nccl_replays_test
{

TEST_CASE("a replay is watched from its begin to its end, one after the other")
{
  const cubist::detail::CudaStream stream;
  cubist::detail::NcclReplays replays;
  CHECK(!replays.oldest_wait());
  int launched = 0;
  fake::Gate before{stream.get()};
  std::optional<fake::Gate> inside;
  replays.start("the first", stream.get(), [&] {
    ++launched;
    inside.emplace(stream.get());
  });
  replays.start("the second", stream.get(), [&] { ++launched; });
  CHECK(launched == 2);
  CHECK(replays.in_flight() == 2);
  CHECK(!replays.oldest_wait());  // the stream computes what precedes

  before.open();
  while (!replays.oldest_wait()) std::this_thread::yield();
  const auto first = replays.oldest_wait();
  CHECK(std::string{first->first} == "the first");
  CHECK(replays.oldest_wait()->second == first->second);  // since it began

  inside->open();
  while (replays.in_flight() > 0) static_cast<void>(replays.oldest_wait());
  CHECK(!replays.oldest_wait());
}

TEST_CASE("an error of CUDA in a replay names it")
{
  const cubist::detail::CudaStream stream;
  cubist::detail::NcclReplays replays;
  fake::fail("cudaEventRecord", cudaErrorIllegalAddress);
  CHECK_THROWS_WITH(
      replays.start("a replay of a step", stream.get(), [] {}),
      Catch::Matchers::ContainsSubstring("cudaEventRecord failed (cudaErrorIllegalAddress") &&
          Catch::Matchers::ContainsSubstring("for a replay of a step"));
}

}  // namespace cubist::test::comm_nccl_replays_test
