// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/backend/simulated.hpp"
#include "cubist/engine/host/engine.hpp"
#include "cubist/engine/repeated_work.hpp"
#include "cubist/trace/traced_engine.hpp"

#include "ranks.hpp"

namespace cubist::test::engine_repeated_work_test
{

TEST_CASE("an engine that computes does all work")
{
  int count = 0;
  for (int i = 0; i < 3; ++i) detail::repeat(HostEngine{}, {}, [&] { ++count; });
  CHECK(count == 3);
}

/// How many of three equal pieces of work, and of one with other sizes, a simulated rank does.
template <class E>
int done()
{
  return on_ranks<Simulated>(1,
                             [](SimulatedCommunicator&) {
                               int count = 0;
                               for (const std::size_t size : {1U, 1U, 2U, 1U})
                                 detail::repeat(E{}, {nullptr, {size}}, [&] { ++count; });
                               return count;
                             })
      .front();
}

TEST_CASE("an engine that computes nothing does equal work once")
{
  CHECK(done<SimulatedEngine>() == 2);
  CHECK(done<TracedEngine<SimulatedEngine>>() == 2);
}

struct SeeingEngine : EngineDecorator<SeeingEngine, SimulatedEngine>
{
  [[nodiscard]] static int around(const EngineCall&) { return 0; }
};

TEST_CASE("a decorator sees all work")
{
  CHECK(done<SeeingEngine>() == 4);
  CHECK(done<TracedEngine<SeeingEngine>>() == 4);
  STATIC_REQUIRE_FALSE(detail::RemembersTimes<TracedEngine<HostEngine>>);
}

TEST_CASE("a trace has the calls of repeated work")
{
  const int count = on_ranks<Simulated>(1, [](SimulatedCommunicator&) {
                      detail::RankTrace trace{&Simulated::now};
                      detail::rank_local() = &trace;
                      int calls = 0;
                      for (int i = 0; i < 3; ++i)
                        detail::repeat(TracedEngine<SimulatedEngine>{}, {}, [&] { ++calls; });
                      detail::rank_local() = nullptr;
                      return calls;
                    }).front();
  CHECK(count == 3);
}

TEST_CASE("work with different code has a different name")
{
  const auto first = [] {};
  const auto second = [] {};
  CHECK(code_of<decltype(first)>() == code_of<decltype(first)>());
  CHECK(code_of<decltype(first)>() != code_of<decltype(second)>());
}

}  // namespace cubist::test::engine_repeated_work_test
