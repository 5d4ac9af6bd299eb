// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// A backend: a communicator, an engine, and a way to run a function on every rank.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <optional>
#include <utility>

#include "cubist/comm/communicator.hpp"
#include "cubist/core/error.hpp"
#include "cubist/engine/engine.hpp"

namespace cubist::CUBIST_ABI
{

/// The options of `launch`, all of them optional.
struct LaunchOptions
{
  /// The number of ranks; by default as many as the backend offers (processor cores, or MPI's
  /// world).
  std::optional<int> ranks = {};
  /// Whether `launch` throws the error of a rank, on every rank. By default a rank that throws ends
  /// the program, or the job of processes, with its message.
  bool rethrow = false;
  /// How long a rank may wait for others in a call before it throws TimeLimitError, which names the
  /// late ranks. By default there is no limit. All ranks have the same limit.
  std::optional<std::chrono::milliseconds> time_limit = {};
};

namespace detail
{

/// Returns the time limit of a launch, at most a year, so that clocks can represent its end.
[[nodiscard]] inline std::optional<std::chrono::milliseconds>
time_limit(const LaunchOptions& options)
{
  if (!options.time_limit) return {};
  return std::min<std::chrono::milliseconds>(*options.time_limit, std::chrono::years{1});
}

/// Checks the time limit of a launch.
/// @throws ArgumentError unless it is positive
inline void check_time_limit(const LaunchOptions& options)
{
  if (!options.time_limit) return;
  const auto limit = *options.time_limit;
  require<ArgumentError>(
      limit.count() > 0, "got a time limit of ", limit.count(),
      " ms, in which no call can complete; give a longer one, or leave it out to wait for ever");
}

/// RAII: marks this thread as running a rank's body, so that a nested launch can tell.
class BodyScope
{
 public:
  BodyScope()
      : is_nested_{std::exchange(is_inside_, true)}
  {
  }
  BodyScope(BodyScope&&) = delete;
  ~BodyScope() { is_inside_ = is_nested_; }

  /// Whether this thread runs a body.
  [[nodiscard]] static bool is_inside() { return is_inside_; }

 private:
  static inline thread_local bool is_inside_ = false;
  bool is_nested_;
};

/// Prints the error of a launch, and ends the program. Destructors do not run, because the
/// destructor of MPI would wait for other processes.
[[noreturn]] inline void exit_with(const std::exception& error)
{
  std::fflush(nullptr);
  std::fprintf(stderr, "cubist: %s\n", error.what());
  std::_Exit(1);
}

}  // namespace detail

template <class B>
concept BackendType = Communicator<typename B::Communicator> && Engine<typename B::Engine>;

// Backends whose headers cubist.hpp does not include.
struct Mpi;        // backend/mpi.hpp
struct Simulated;  // backend/simulated.hpp
template <BackendType Host>
struct NcclOn;  // backend/nccl.hpp

namespace detail
{

/// Stops the compiler with a message.
template <class B>
int require_header()
{
  static_assert(BackendWithItsHeader<B>,
                "this backend is only declared, so it cannot start ranks; include its header, "
                "cubist/backend/mpi.hpp, nccl.hpp or simulated.hpp");
  return 1;
}

}  // namespace detail

/// Does not compile: the backend's header is missing.
template <class B, class F>
requires(!BackendWithItsHeader<B>) int launch(int&, char**&, const LaunchOptions&, F&&)
{
  return detail::require_header<B>();
}
template <class B, class F>
requires(!BackendWithItsHeader<B>) int launch(const LaunchOptions&, F&&)
{
  return detail::require_header<B>();
}

/// Runs `body(world)` on every rank, `world` being the rank's `B::Communicator&`, and returns 0.
/// The first error that a rank throws, or an invalid option, is printed on standard error, and ends
/// the program, or the job, with status 1. Inside the body of another launch, or with
/// LaunchOptions::rethrow, it is thrown instead, as the overload without arguments does.
template <BackendType B, class F>
int launch(int& argc, char**& argv, const LaunchOptions& options, F&& body)
{
  try
  {
    B::launch(argc, argv, options, std::forward<F>(body));
  }
  catch (const std::exception& e)
  {
    if (options.rethrow || detail::BodyScope::is_inside()) throw;
    detail::exit_with(e);
  }
  return 0;
}

/// Calls the body on existing ranks, such as those of a `boost::mpi::communicator`. All of them
/// call this. An error ends the job, or with LaunchOptions::rethrow is thrown on every rank.
/// @throws as the overload without arguments
template <BackendType B, class Ranks, class F>
requires requires(const Ranks& ranks, F&& body) { B::launch_on(ranks, LaunchOptions{}, body); }
int launch(const Ranks& ranks, const LaunchOptions& options, F&& body)
{
  B::launch_on(ranks, options, std::forward<F>(body));
  return 0;
}
/// Calls the body on existing ranks with the default options: an error ends the job.
template <BackendType B, class Ranks, class F>
requires requires(const Ranks& ranks, F&& body) { B::launch_on(ranks, LaunchOptions{}, body); }
int launch(const Ranks& ranks, F&& body)
{
  return launch<B>(ranks, LaunchOptions{}, std::forward<F>(body));
}

/// Runs `body(world)` on every rank, for a program without command-line arguments, or one that
/// catches errors. Where ranks are processes, it throws only with LaunchOptions::rethrow; otherwise
/// an error ends the job.
/// @throws the first error that a rank threw, with its rank; one that is not a cubist::Error is
/// nested in RankFailed
/// @throws ArgumentError for a number of ranks that the backend cannot give, or a time limit that
/// is not positive
template <BackendType B, class F>
int launch(const LaunchOptions& options, F&& body)
{
  int argc = 0;
  char* none[] = {nullptr};
  char** argv = none;
  B::launch(argc, argv, options, std::forward<F>(body));
  return 0;
}

}  // namespace cubist::CUBIST_ABI
