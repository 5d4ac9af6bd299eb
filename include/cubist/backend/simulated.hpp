// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The backend whose ranks run the real program in simulated time, on matrices that have a shape but
// no elements, and on a machine that a file describes.
//
//   Simulated::machine = read_machine("machines/dgx_h100.json");
//   launch<Simulated>({.ranks = 4096}, [](auto& world) { … });
//   std::cout << Simulated::report().seconds();
//
// Values in host memory, such as labels or shapes, are exchanged as on any backend. Every value
// that a program reads from a matrix is 0. All ranks run on the thread that calls `launch`, so they
// share its thread_local variables.

#include <cstddef>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "cubist/backend/backend.hpp"
#include "cubist/backend/first_error.hpp"
#include "cubist/comm/simulated/communicator.hpp"
#include "cubist/comm/simulated/group.hpp"
#include "cubist/core/compiled.hpp"
#include "cubist/core/error.hpp"
#include "cubist/core/function_ref.hpp"
#include "cubist/engine/simulated/engine.hpp"
#include "cubist/machine/machine.hpp"
#include "cubist/simulation/folding.hpp"
#include "cubist/simulation/report.hpp"
#include "cubist/simulation/simulation.hpp"

namespace cubist::CUBIST_ABI
{

/// What is simulated, and what is reported.
struct SimulatedOptions
{
  /// Whether a collective between nodes completes in the background, as in MpiOptions; otherwise it
  /// completes when it starts.
  bool overlap = true;
  /// Replicas that do the same work. Only as many of them are simulated as are needed for the time
  /// of all (simulation/folding.hpp); the report says how many. A program whose replicas do
  /// different work, or that splits communicators other than through meshes, is refused, or its
  /// simulated time is wrong.
  Replicas replicas = {};
  /// Called from time to time with the simulated time so far, in seconds.
  std::function<void(double)> progress = {};
};

struct Simulated
{
  using Communicator = SimulatedCommunicator;
  using Engine = SimulatedEngine;

  static constexpr int most_ranks = 1 << 14;         ///< the maximum number of ranks that run
  static constexpr int most_folded_ranks = 1 << 17;  ///< the maximum number, folded ones included

  /// The machine that `launch` simulates.
  static inline Machine machine = {};
  static inline SimulatedOptions options = {};

  /// The report of the last launch.
  [[nodiscard]] static const SimulationReport& report() { return report_; }

  /// Returns the time since the launch on the calling rank's clock, in seconds.
  /// @throws ArgumentError outside a launch
  [[nodiscard]] static double now()
  {
    return current("now() outside a launch, where no clock runs").clock;
  }

  /// Returns what the calling rank has done and sent so far.
  /// @throws ArgumentError outside a launch
  [[nodiscard]] static const SimulatedRankReport& rank_report()
  {
    return current("rank_report() outside a launch, where there are no ranks").report;
  }

  /// Runs `body(world)` on every rank; by default there are as many ranks as one node has.
  template <class F>
  static void launch(int&, char**&, const LaunchOptions& settings, F&& body)
  {
    run<Communicator>(settings, [&body](Communicator& world) { body(world); });
  }

 private:
  static inline SimulationReport report_ = {};

  /// Returns the calling rank.
  [[nodiscard]] static const detail::SimulatedRank& current(const char* call)
  {
    const auto* rank = detail::SimulatedRank::current();
    require<ArgumentError>(rank != nullptr, "got a call of Simulated::", call,
                           "; call it inside the body of the launch");
    return *rank;
  }

  /// Runs the body; a template, so that the compiled library can hold an instance.
  template <class C>
  static void run(const LaunchOptions& settings, detail::FunctionRef<void(C&)> body);
};

template <class C>
void Simulated::run(const LaunchOptions& settings, detail::FunctionRef<void(C&)> body)
{
  require_valid(machine);
  const int ranks = settings.ranks.value_or(machine.on_a_node(static_cast<int>(machine.cores)));
  const auto require_at_most = [&](int n, int most, const char* which) {
    require<ArgumentError>(n >= 1 && n <= most, "got ", n, " ranks", which, ", but 1 to ", most,
                           " can be simulated; use a number in this range, or leave it out for ",
                           machine.on_a_node(static_cast<int>(machine.cores)));
  };
  const bool has_replicas = options.replicas.count > 1;
  require_at_most(ranks, has_replicas ? most_folded_ranks : most_ranks, "");
  detail::check_time_limit(settings);
  const detail::Folding folding{options.replicas, ranks, machine};
  require_at_most(folding.running(ranks), most_ranks, " that run");
  const auto simulation =
      std::make_shared<detail::Simulation>(machine, ranks, options.overlap, options.replicas);
  simulation->report_progress_to(options.progress);
  std::vector<int> all(static_cast<std::size_t>(ranks));
  std::iota(all.begin(), all.end(), 0);
  const auto group = std::make_shared<detail::SimulatedGroup>(simulation, all);
  detail::FirstError first;
  const detail::BodyScope scope;
  // Runs the body on each rank, and fails the others if it throws.
  simulation->run([&](detail::SimulatedRank& self) {
    first.run(
        self.number,
        [&] {
          simulation->raise();
          C world{group, self.number};
          body(world);
        },
        [&](const std::string& what, bool) {
          simulation->fail(detail::Simulation::Failure::peer_failed,
                           first.for_peers(self.number, what));
        });
  });
  report_.ranks.clear();
  for (int r = 0; r < ranks; ++r)
    report_.ranks.push_back(simulation->rank(folding.representative(r)).report);
  report_.folding = folding.text();
  first.rethrow();
}

static_assert(BackendType<Simulated>);

/// The instance of the compiled library.
#define CUBIST_LAUNCH_INSTANCE_OF_Simulated(prefix)                                                \
  prefix void Simulated::run<Simulated::Communicator>(                                             \
      const LaunchOptions&, detail::FunctionRef<void(SimulatedCommunicator&)>);
CUBIST_IF_COMPILED(CUBIST_LAUNCH_INSTANCE_OF_Simulated(extern template))

}  // namespace cubist::CUBIST_ABI
