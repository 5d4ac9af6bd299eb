// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/backend/threads.hpp"
#include "cubist/testing/faulty_communicator.hpp"

#include "conformance.hpp"

namespace cubist::test::testing_faulty_communicator_test
{

// Tests which call of which rank has the fault. faulty_test.cpp tests how a launch then ends.

using Kind = Fault::Kind;
using World = FaultyCommunicator<ThreadsCommunicator>;

TEST_CASE("a communicator without faults behaves as the decorated one")
{
  STATIC_REQUIRE(Communicator<World>);
  STATIC_REQUIRE(ExposesMemory<World>);
  require_clear(on_ranks<Threads>(4, [](ThreadsCommunicator& inner) {
    World world{inner, std::make_shared<RankFaults>(std::vector<Fault>{}, inner.rank(), nullptr)};
    Findings found;
    for (const std::size_t n : {0U, 1U, 1000U})
      conformance::EveryCollective<World, double>{world, n, conformance::Form::waited, found}.run();
    auto half = world.split(world.rank() % 2, 0);
    const std::vector<int> mine{world.rank()};
    auto window = half.expose(mine);
    found.check(half.exposes() && window[1][0] == world.rank() % 2 + 2, "wrong block");
    window.close();
    window.wait();
    return found;
  }));
}

/// Runs `body` on ranks that have these faults.
template <class F>
void run(int ranks, const std::vector<Fault>& faults, F body)
{
  launch<Threads>({.ranks = ranks}, [&](ThreadsCommunicator& inner) {
    const auto die = [] { throw 42; };
    World world{inner, std::make_shared<RankFaults>(faults, inner.rank(), die)};
    body(world);
  });
}

TEST_CASE("calls are numbered for each collective, over all communicators of a rank")
{
  std::vector<int> completed(3);
  const auto text = message_of<CommunicationError>([&] {
    run(3, {{.kind = Kind::error, .rank = 2, .collective = CallKind::all_reduce, .call = 4}},
        [&](World& world) {
          auto half = world.split(world.rank() % 2, 0);
          for (int i = 0; i < 10; ++i)
          {
            std::vector<float> x(7);
            (i % 2 == 0 ? world : half).all_reduce(x);
            ++completed[static_cast<std::size_t>(world.rank())];
            world.barrier();
          }
        });
  });
  CHECK(text ==
        "rank 2: all_reduce of 7 float by sum failed as call 4 of rank 2, because a fault was "
        "injected, so its data is incomplete; launch without the fault");
  CHECK(completed[2] == 4);
}

TEST_CASE("a fault of no particular collective numbers all calls")
{
  const auto text = message_of<CommunicationError>([&] {
    run(2, {{.kind = Kind::error, .rank = 0, .call = 2}}, [&](World& world) {
      world.barrier();
      world.all_reduce(std::vector<int>(1));
      std::vector<int> x(3);
      (void)world.expose(x)[0];
    });
  });
  CHECK(mentions(text, "rank 0: expose of 3 int32 failed as call 2 of rank 0"));
}

TEST_CASE("the rank sleeps before a delayed call, and one call may have several faults")
{
  using namespace std::chrono_literals;
  const auto begin = std::chrono::steady_clock::now();
  const auto text = message_of<RankFailed>([&] {
    run(2,
        {{.kind = Kind::delay, .rank = 1, .delay = 30ms},
         {.kind = Kind::delay, .rank = 1, .call = 1, .delay = 30ms},
         {.kind = Kind::death, .rank = 1, .call = 1}},
        [&](World& world) {
          world.barrier();
          world.barrier();
        });
  });
  CHECK(std::chrono::steady_clock::now() - begin >= 60ms);
  CHECK(mentions(text, "rank 1"));
}

TEST_CASE("a wrong size is one element less in each piece")
{
  const auto text = message_of<CollectiveMismatch>([&] {
    run(2, {{.kind = Kind::wrong_size, .rank = 1, .collective = CallKind::all_gather}},
        [&](World& world) { world.all_gather(std::vector<int>(5), std::vector<int>(10)); });
  });
  CHECK(mentions(text, "rank 1 called all_gather of 4 int32", "rank 0 called all_gather of 5"));
  CHECK_NOTHROW(run(
      2, {{.kind = Kind::wrong_size, .rank = 1}, {.kind = Kind::wrong_size, .rank = 1, .call = 1}},
      [&](World& world) {
        world.barrier();
        world.all_reduce(std::vector<int>{});
      }));
}

TEST_CASE("a wrong order is a call of another collective first")
{
  const auto sum = message_of<CollectiveMismatch>([&] {
    run(2, {{.kind = Kind::wrong_order, .rank = 1}},
        [&](World& world) { world.all_reduce(std::vector<int>(5)); });
  });
  CHECK(mentions(sum, "rank 1 called barrier", "rank 0 called all_reduce of 5 int32"));
  const auto barrier = message_of<CollectiveMismatch>([&] {
    run(2, {{.kind = Kind::wrong_order, .rank = 1}}, [&](World& world) { world.barrier(); });
  });
  CHECK(mentions(barrier, "rank 1 called all_reduce of 1 int32", "rank 0 called barrier"));
}

}  // namespace cubist::test::testing_faulty_communicator_test
