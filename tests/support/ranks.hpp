// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Runs test bodies on ranks. Catch2's assertions may only be used on the main thread, so ranks
// return their findings, and the main thread asserts.
//
// With one rank per process (MPI), every process runs the test and receives the results of all
// ranks, so all processes take the same path. A body must return its findings: variables that it
// captures belong to its own process.

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <optional>
#include <sstream>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "cubist/backend/backend.hpp"
#include "cubist/core/function_ref.hpp"

#include "backend.hpp"
#include "catch.hpp"
#include "message.hpp"
#ifdef CUBIST_TEST_MPI
#include "processes.hpp"
#endif

namespace cubist::test
{

/// How many times tests launched ranks, including nested launches, and how many times they skipped
/// a launch for want of processes.
struct Tally
{
  std::atomic<int> launches = 0;
  std::atomic<int> skipped = 0;
};
inline Tally tally;

/// Whether a backend has this many ranks. The number of threads is not limited; that of processes
/// is. `on_ranks` asks this itself. A test that needs the results skips everything: `if (!fits(8))
/// return;`.
template <BackendType B = TestBackend>
[[nodiscard]] bool fits([[maybe_unused]] int ranks)
{
#ifdef CUBIST_TEST_MPI
  if (on_processes<B> && ranks > process_count())
  {
    ++tally.skipped;
    return false;
  }
#endif
  return true;
}

/// The numbers of ranks that fit.
template <BackendType B = TestBackend, class Range>
[[nodiscard]] std::vector<int> those_that_fit(const Range& ranks)
{
  std::vector<int> fitting;
  for (const int n : ranks)
    if (fits<B>(n)) fitting.push_back(n);
  return fitting;
}

/// Runs `body(world)` on each rank, and returns the results in the order of the ranks, or nothing
/// if that many ranks do not fit. It is compiled once for each R.
/// @throws what `launch` throws
template <class R, BackendType B>
[[nodiscard]] std::vector<R>
results_of(int ranks, cubist::detail::FunctionRef<R(typename B::Communicator&)> body)
{
  if (!fits<B>(ranks)) return {};
  ++tally.launches;
#ifdef CUBIST_TEST_MPI
  if constexpr (on_processes<B>)
  {
    std::optional<R> result;
    std::optional<Failure> failure;
    try
    {
      launch<B>({.ranks = ranks, .rethrow = true},
                [&](typename B::Communicator& world) { result.emplace(body(world)); });
    }
    catch (const Error& error)
    {
      failure = Failure::of(error);
    }
    return shared_results(ranks, failure, result);
  }
  else
#endif
  {
    std::vector<std::optional<R>> by_rank(static_cast<std::size_t>(std::max(ranks, 0)));
    launch<B>({.ranks = ranks}, [&](typename B::Communicator& world) {
      by_rank[static_cast<std::size_t>(world.rank())].emplace(body(world));
    });
    std::vector<R> results;
    for (auto& result : by_rank)
      if (result) results.push_back(std::move(*result));
    return results;
  }
}

/// Runs `body(world)` on each rank, with R deduced from the body.
template <BackendType B, class F>
[[nodiscard]] auto on_ranks(int ranks, F&& body)
{
  using R = std::invoke_result_t<F&, typename B::Communicator&>;
  return results_of<R, B>(ranks, body);
}

/// What one rank checked, and what was wrong.
class Findings
{
 public:
  /// Counts a check; unless it `holds`, adds a message made of the parts.
  template <class... Parts>
  void check(bool holds, const Parts&... parts)
  {
    ++checks_;
    if (holds || wrong_.size() >= most) return;
    std::ostringstream message;
    (message << ... << parts);
    wrong_.push_back(message.str());
  }

  [[nodiscard]] std::size_t checks() const { return checks_; }
  [[nodiscard]] const std::vector<std::string>& wrong() const& { return wrong_; }
  void wrong() && = delete;  // a loop over a temporary's findings would read freed memory

  // Archives read and write these.
  [[nodiscard]] auto members() { return std::tie(checks_, wrong_); }
  [[nodiscard]] auto members() const { return std::tie(checks_, wrong_); }

 private:
  static constexpr std::size_t most = 10;
  std::size_t checks_ = 0;
  std::vector<std::string> wrong_;
};

/// Asserts, on the main thread, that every rank checked something and found nothing wrong.
inline void require_clear(const std::vector<Findings>& ranks)
{
  for (const auto& rank : ranks)
  {
    CHECK(rank.checks() > 0);
    for (const auto& message : rank.wrong()) FAIL_CHECK(message);
  }
}

}  // namespace cubist::test
