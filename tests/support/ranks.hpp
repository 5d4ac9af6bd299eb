// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Bodies of ranks in tests. Catch2's assertions are for the main thread alone, so a rank returns
// what it found and the main thread asserts.
//
// With one rank per process (MPI), every process runs the test and has the results of its own rank
// alone: a result must be judged by itself, never by its place in the vector. What concerns several
// ranks is brought to one of them by the communicator.

#include <cstddef>
#include <map>
#include <mutex>
#include <sstream>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "cubist/backend/backend.hpp"

#include "catch.hpp"

namespace cubist::test
{

/// Runs `body(world)` on `ranks` ranks, and gives back what it returned on each rank of this
/// process, in the order of the ranks.
/// @throws what `launch` throws
template <Backend B, class F>
[[nodiscard]] auto on_ranks(int ranks, F&& body)
{
  using R = std::invoke_result_t<F&, typename B::Communicator&>;
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
