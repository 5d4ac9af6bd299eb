// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// A backend: a communicator, an engine, and a way to run a function on every rank.

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "cubist/comm/communicator.hpp"
#include "cubist/core/error.hpp"
#include "cubist/engine/engine.hpp"

namespace cubist
{

struct LaunchOptions
{
  /// How many ranks; by default as many as the backend offers (processor cores, or MPI's world).
  std::optional<int> ranks = {};
  /// Where ranks are processes, a rank that throws ends the job with its message. With `rethrow`,
  /// `launch` throws on every rank instead, as it does where ranks are threads.
  bool rethrow = false;
  /// The longest that a rank may wait for others in a call; then it throws TimeLimitError, which
  /// names the late ranks. By default there is no limit. The same on all ranks.
  std::optional<std::chrono::milliseconds> time_limit = {};
};

namespace detail
{

/// The time limit of a launch, at most a year, so that clocks can represent its end.
/// @throws ArgumentError if it is not positive
[[nodiscard]] inline std::optional<std::chrono::milliseconds>
time_limit(const LaunchOptions& options)
{
  if (!options.time_limit) return {};
  const auto limit = *options.time_limit;
  require<ArgumentError>(limit.count() > 0, "got a time limit of ", limit.count(),
                         " ms, in which no call can be complete; give a longer one, or leave it "
                         "out to wait for ever");
  return std::min<std::chrono::milliseconds>(limit, std::chrono::years{1});
}

}  // namespace detail

template <class B>
concept Backend = Communicator<typename B::Communicator> && Engine<typename B::Engine>;

/// Runs `body(world)` on every rank, `world` being the rank's `B::Communicator&`, and returns 0.
/// @throws the first error that a rank threw, with its rank; one that is no cubist::Error is nested
/// in RankFailed
/// @throws ArgumentError for a number of ranks that the backend cannot give, or a time limit that
/// is not positive
template <Backend B, class F>
int launch(int& argc, char**& argv, const LaunchOptions& options, F&& body)
{
  B::launch(argc, argv, options, std::forward<F>(body));
  return 0;
}

/// The same on existing ranks, such as those of a `boost::mpi::communicator`.
template <Backend B, class Ranks, class F>
requires requires(const Ranks& ranks, F&& body) { B::launch_on(ranks, LaunchOptions{}, body); }
int launch(const Ranks& ranks, F&& body)
{
  B::launch_on(ranks, {}, std::forward<F>(body));
  return 0;
}

/// The same for a program without command-line arguments.
template <Backend B, class F>
int launch(const LaunchOptions& options, F&& body)
{
  int argc = 0;
  char* none[] = {nullptr};
  char** argv = none;
  return launch<B>(argc, argv, options, std::forward<F>(body));
}

}  // namespace cubist
