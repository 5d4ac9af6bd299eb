// SPDX-License-Identifier: BSD-3-Clause
// A scheme, a network and checkpoints on the NCCL backend. They run on the mock of CUDA and NCCL,
// whose random delays reveal missing synchronization.

#include "cubist/backend/nccl.hpp"
#include "cubist/scheme/summa25d.hpp"

#include "comparison.hpp"
#include "fake.hpp"
#include "fake_engine.hpp"
#include "overlap.hpp"
#include "ranks.hpp"
#include "scheme_run.hpp"

namespace cubist::test::backend_nccl_schemes_test
{

static void compare(const NamedGlobals& got, const NamedGlobals& expected, double units)
{
  REQUIRE(got.size() == expected.size());
  Comparison found;
  for (std::size_t r = 0; r < got.size(); ++r)
    found.near(got[r].second, expected[r].second, units, got[r].first);
  CHECK(found.report() == 0);
}

TEST_CASE("Summa25D on NCCL: the results of threads, and the same bits on every run")
{
  const auto results = [] {
    return results_of<Summa25D, FakeNccl>({.ranks = 8}, {.q = 2, .d = 2});
  };
  const auto host = results_of<Summa25D, Threads>({.ranks = 8}, {.q = 2, .d = 2});
  const auto first = results();
  compare(first.products, host.products, 16);
  compare(first.training, host.training, 4096);
  compare(first.again, first.training, 0);

  ComputeStream::synchronize();
  const auto before = fake::live();  // this thread, rank 0, keeps some buffers
  const auto second = results();
  compare(second.products, first.products, 0);
  compare(second.training, first.training, 0);
  ComputeStream::synchronize();
  CHECK(fake::live() == before);

  const int violations = fake::violations();
  Nccl::options.registered_buffers = true;
  const auto registered = results();
  Nccl::options = {};
  compare(registered.products, first.products, 0);
  compare(registered.training, first.training, 0);
  ComputeStream::synchronize();
  CHECK(fake::violations() == violations);
}

TEST_CASE("collectives beside products: no stream overtakes another")
{
  for (const bool registered : {false, true})
  {
    Nccl::options.registered_buffers = registered;
    const auto wrong = on_ranks<FakeNccl>(3, [](NcclCommunicator& world) {
      return Overlap<FakeNccl>{world, 32}.run(20);
    });
    Nccl::options = {};
    CHECK(wrong == std::vector<std::size_t>(3, 0));
  }
}

}  // namespace cubist::test::backend_nccl_schemes_test
