// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Bodies of ranks in tests. Catch2's assertions are for the main thread alone, so a rank returns
// what it found and the main thread asserts.
//
// With one rank per process (MPI), every process runs the test, and has the results of all ranks: a
// test goes the same way in each of them. A body must return what it finds; what it writes to
// variables outside stays in its own process.

#include <atomic>
#include <cstddef>
#include <map>
#include <mutex>
#include <optional>
#include <sstream>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "cubist/backend/backend.hpp"

#include "backend.hpp"
#include "catch.hpp"
#ifdef CUBIST_TEST_MPI
#include "processes.hpp"
#endif

namespace cubist::test
{

/// How often tests ran something on ranks, some of it inside ranks, and how often they left it out
/// for want of processes.
struct Tally
{
  std::atomic<int> launches = 0;
  std::atomic<int> left_out = 0;
};
inline Tally tally;

/// Whether a backend has so many ranks; a test or the part of it that needs more is left out:
/// `if (!fits(8)) return;`. Threads are as many as one likes, processes are not.
template <Backend B = TestBackend>
[[nodiscard]] bool fits([[maybe_unused]] int ranks)
{
#ifdef CUBIST_TEST_MPI
  if (on_processes<B> && ranks > process_count())
  {
    ++tally.left_out;
    return false;
  }
#endif
  return true;
}

/// Those of some numbers of ranks that fit.
template <Backend B = TestBackend, class Range>
[[nodiscard]] std::vector<int> those_that_fit(const Range& ranks)
{
  std::vector<int> fitting;
  for (const int n : ranks)
    if (fits<B>(n)) fitting.push_back(n);
  return fitting;
}

/// Runs `body(world)` on `ranks` ranks, and gives back what it returned on each of them, in the
/// order of the ranks.
/// @throws what `launch` throws
template <Backend B, class F>
[[nodiscard]] auto on_ranks(int ranks, F&& body)
{
  using R = std::invoke_result_t<F&, typename B::Communicator&>;
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
    std::mutex mutex;
    std::map<int, R> by_rank;
    launch<B>({.ranks = ranks}, [&](typename B::Communicator& world) {
      R result = body(world);
      const std::lock_guard lock{mutex};
      by_rank.emplace(world.rank(), std::move(result));
    });
    std::vector<R> results;
    for (auto& [_, result] : by_rank) results.push_back(std::move(result));
    return results;
  }
}

/// What one rank checked, and what it found wrong.
class Findings
{
 public:
  /// Notes a message put together from the parts, unless `holds`.
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
  [[nodiscard]] const std::vector<std::string>& wrong() const { return wrong_; }

  // For archives.
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

/// The message of the `E` that `f` throws; what else it throws passes, and nothing is "".
template <class E, class F>
[[nodiscard]] std::string message_of(F&& f)
{
  try
  {
    f();
  }
  catch (const E& e)
  {
    return e.what();
  }
  return "";
}

/// Whether `text` has all of `parts`.
template <class... Parts>
[[nodiscard]] bool mentions(const std::string& text, const Parts&... parts)
{
  return ((text.find(parts) != std::string::npos) && ...);
}

}  // namespace cubist::test
