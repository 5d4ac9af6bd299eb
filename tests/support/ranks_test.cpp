// SPDX-License-Identifier: BSD-3-Clause
#include <thread>

#include "ranks.hpp"

namespace cubist::test::support_ranks_test
{

TEST_CASE("results are in the order of the ranks")
{
  const int size = GENERATE(from_range(those_that_fit(std::vector{1, 2, 3, 4, 8})));
  const auto got = on_ranks<TestBackend>(size, [](auto& world) {
    return std::string(static_cast<std::size_t>(world.rank()), 'x') + std::to_string(world.size());
  });
  REQUIRE(got.size() == static_cast<std::size_t>(size));
  for (std::size_t r = 0; r < got.size(); ++r)
    CHECK(got[r] == std::string(r, 'x') + std::to_string(size));
}

TEST_CASE("the error of one rank is thrown, not its consequences")
{
  if (!fits(2)) return;
  const auto run = [] {
    return on_ranks<TestBackend>(2, [](auto& world) {
      if (world.rank() == 1) throw DataError{"the file ended"};
      world.barrier();
      return 0;
    });
  };
  for (int repeat = 0; repeat < 20; ++repeat)
  {
    CHECK(message_of<DataError>(run) == "rank 1: the file ended");
    CHECK(on_ranks<TestBackend>(2, [](auto& world) { return world.rank(); }) ==
          std::vector<int>{0, 1});
  }
}

TEST_CASE("an error that all ranks throw is thrown")
{
  if (!fits(4)) return;
  for (int repeat = 0; repeat < 20; ++repeat)
    CHECK(mentions(message_of<MeshError>([] {
                     (void)on_ranks<TestBackend>(4, [](auto& world) {
                       if (world.size() == 4) throw MeshError{"too many"};
                       return 0;
                     });
                   }),
                   "rank ", "too many"));
}

TEST_CASE("a launch that does not fit is skipped, and counted")
{
  const int launches = tally.launches;
  const int skipped = tally.skipped;
  CHECK(fits(1));
  CHECK(tally.skipped == skipped);
  const bool any_number = fits(1'000'000);
  CHECK(any_number == !on_processes<TestBackend>);
  CHECK(tally.skipped == skipped + (any_number ? 0 : 1));
  CHECK(those_that_fit(std::vector{1, 1'000'000}).size() == (any_number ? 2 : 1));
  if (!any_number)
  {
    CHECK(on_ranks<TestBackend>(1'000'000, [](auto&) { return 0; }).empty());
    CHECK(tally.skipped == skipped + 3);
  }
  CHECK(tally.launches == launches);
  (void)on_ranks<TestBackend>(1, [](auto&) { return 0; });
  CHECK(tally.launches == launches + 1);
  tally.launches = launches;
  tally.skipped = skipped;
}

#ifdef CUBIST_TEST_MPI
// For a test of the time limit (mpi_main.cpp).
TEST_CASE("a case that waits for ever", "[.]")
{
  std::this_thread::sleep_for(std::chrono::hours{1});
}
#endif

}  // namespace cubist::test::support_ranks_test
