// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/engine/decorator.hpp"
#include "cubist/nn/attention/local_attention.hpp"

#include "machine_scope.hpp"
#include "ranks.hpp"

// Tests that a simulated rank computes the time of attention once for each shape.

namespace cubist::test::backend_simulated_attention_test
{

/// A decorator, which makes the engine do all work each time.
struct SeenEngine : EngineDecorator<SeenEngine, SimulatedEngine>
{
  [[nodiscard]] static int around(const EngineCall&) { return 0; }
};

struct Case
{
  AttentionShape shape;
  AttentionRun run;
  bool drops = false;
  AttentionBlocks blocks{.queries = 8, .keys = 16};
};

/// Cases, each of which differs from the first in one number.
static std::vector<Case> cases()
{
  const Case first{{.sequences = 2,
                    .queries = 24,
                    .keys = 24,
                    .key_rows = 64,
                    .heads = 4,
                    .head_size = 4,
                    .query_rows = 64},
                   {.first_query = 24, .first_key = 24, .length = 72}};
  std::vector<Case> all(10, first);
  all[1].shape.sequences = 3;
  all[2].shape.queries = 17;
  all[3].shape.keys = 30;
  all[4].shape.heads = 6;
  all[5].shape.head_size = 8;
  all[6].shape.causal = false;
  all[7].run.first_key = 16;
  all[8].drops = true;
  all[9].blocks = {.queries = 12, .keys = 20};
  return all;
}

/// The seconds of each part of attention for every case, measured three times, and a report of all.
template <class E>
std::pair<std::vector<double>, SimulatedRankReport> taken(const Machine& machine)
{
  const MachineScope scope{machine};
  return on_ranks<Simulated>(1, [](SimulatedCommunicator&) {
    std::vector<double> seconds;
    const auto measure = [&](auto call) {
      const double before = Simulated::now();
      call();
      seconds.push_back(Simulated::now() - before);
    };
    for (int i = 0; i < 3; ++i)
      for (const Case& each : cases())
      {
        const AttentionShape& s = each.shape;
        const AttentionRun& run = each.run;
        LocalAttention<float, E> attention{E{}, each.blocks};
        std::optional<AttentionDropout> dropout;
        if (each.drops) dropout = {.probability = 0.1, .heads = s.heads};
        const Shape shape{s.sequences * 64, s.heads * s.head_size};
        SimulatedBuffer<float> buffer(shape.size()), numbers(s.sequences * s.heads * s.queries);
        const MatrixView<float> m{buffer.data(), shape},
            row{numbers.data(), {1, s.sequences * s.heads * s.queries}};
        const MatrixView<const float> in{m}, in_row{row};
        AttentionShape whole = s;
        whole.keys = s.queries;
        measure([&] { attention.forward(whole, dropout, in, in, in, m, row); });
        measure([&] { attention.add_run(s, run, dropout, in, in, in, m, row, row); });
        measure([&] { attention.finish(s, m, row, row, row); });
        measure([&] { attention.scale(s, m, row); });
        measure([&] { attention.backward(whole, dropout, in, in, in, in, in_row, in, m, m, m); });
        measure([&] { attention.backward(s, dropout, in, in, in, in, in_row, in, m, m, m, &run); });
      }
    return std::pair{seconds, Simulated::rank_report()};
  })[0];
}

static Machine small_machine()
{
  Machine machine;
  machine.call_seconds = 1e-6;
  machine.memory_bandwidth = 1e9;
  machine.rates = {{"float", RateTable::peak(1e10)}};
  return machine;
}

static void check_equal(const Machine& machine)
{
  const auto [seen, report] = taken<SeenEngine>(machine);
  const auto [repeated, report_of_repeated] = taken<SimulatedEngine>(machine);
  REQUIRE(repeated.size() == seen.size());
  for (std::size_t i = 0; i < seen.size(); ++i)
  {
    CAPTURE(i);
    CHECK(seen[i] > 0);
    CHECK(repeated[i] == Approx(seen[i]).epsilon(1e-9));
  }
  CHECK(report_of_repeated.products == Approx(report.products));
  CHECK(report_of_repeated.passes == Approx(report.passes));
  CHECK(report_of_repeated.flops == Approx(report.flops));
}

TEST_CASE("simulated: attention that is repeated takes the time of all its calls")
{
  check_equal(small_machine());
}

TEST_CASE("simulated: attention of ranks that share cores takes the time of all its calls")
{
  auto machine = small_machine();
  machine.cores = 1;
  machine.links.front().core_seconds_per_message = 1e-9;
  REQUIRE(machine.shares_cores(1));
  check_equal(machine);
}

}  // namespace cubist::test::backend_simulated_attention_test
