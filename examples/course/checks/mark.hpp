// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Marks an answer: runs its checks, says in a sentence what is wrong, and gives a hint. An answer
// that waits for ever or crashes is wrong, too, and ends the program with such a sentence.

#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include <unistd.h>

#include <cubist/core/error.hpp>

#include "../course.hpp"

namespace course
{

/// The mistake in an answer.
class Wrong : public cubist::Error
{
 public:
  using cubist::Error::Error;
};

/// Throws what is wrong unless `right` holds.
template <class... Text>
void need(bool right, const Text&... text)
{
  cubist::require<Wrong>(right, text...);
}

/// The longest time that a rank waits for others.
constexpr std::chrono::seconds longest_wait{30};

namespace detail
{

constexpr unsigned longest_seconds = 50;

[[noreturn]] inline void end(int signal)
{
  constexpr char late[] =
      "  wrong: the answer has run for 50 s, but a correct one needs one second; look for a loop that "
      "does not end\n";
  constexpr char crash[] =
      "  wrong: the answer has accessed memory that is not its own; check the offsets and sizes of "
      "blocks and spans\n";
  const auto written = signal == SIGALRM ? ::write(STDOUT_FILENO, late, sizeof late - 1)
                                         : ::write(STDOUT_FILENO, crash, sizeof crash - 1);
  static_cast<void>(written);
  ::_exit(1);
}

}  // namespace detail

/// Runs the checks of an exercise.
/// @returns 0 if none of them throws
template <class F>
int mark(const char* title, const char* hint, F checks)
{
  std::signal(SIGALRM, detail::end);
  std::signal(SIGSEGV, detail::end);
  alarm(detail::longest_seconds);
  std::cout << title << std::endl;
  try
  {
    checks();
    alarm(0);
    std::cout << "Passed.\n";
    return 0;
  }
  catch (const cubist::DeadlockError& e)
  {
    std::cout << "  wrong: the ranks wait for each other for ever, as when all of them send, or "
                 "one waits for a message that nobody sends.\n  "
              << e.what() << '\n';
  }
  catch (const std::exception& e)
  {
    std::cout << "  wrong: " << e.what() << '\n';
  }
  std::cout << "Not yet. Hint: " << hint << '\n';
  return 1;
}

/// Records what the ranks of B do from now on in FILE.json, where FILE is the program's argument.
template <class B = cubist::Traced<cubist::Threads>>
void trace_to(int argc, char** argv, const char* suffix = "")
{
  if (argc > 1) B::options = {.file = argv[1] + std::string{suffix} + ".json"};
}

/// The launch of every check.
inline cubist::LaunchOptions on(int ranks) { return {.ranks = ranks, .time_limit = longest_wait}; }

/// Joins values into one text.
template <class... Values>
std::string text_of(const Values&... values)
{
  std::ostringstream out;
  (out << ... << values);
  return out.str();
}

/// "1 rank", "2 ranks"
inline std::string count_text(std::uint64_t n, const std::string& what)
{
  return std::to_string(n) + ' ' + what + (n == 1 ? "" : "s");
}

/// "zero times", "once", "twice", "3 times"
inline std::string times_text(std::int64_t n)
{
  if (n == 0) return "zero times";
  return n == 1 ? "once" : n == 2 ? "twice" : std::to_string(n) + " times";
}

/// How many times a sum contains each of `terms` terms, which are powers of this base; empty if the
/// sum contains anything else.
inline std::vector<std::int64_t> digits(std::int64_t sum, std::int64_t base, std::size_t terms)
{
  std::vector<std::int64_t> times;
  for (std::size_t i = 0; i < terms; ++i, sum /= base) times.push_back(sum % base);
  if (sum != 0) times.clear();
  for (const auto n : times)
    if (n < 0) return {};
  return times;
}

/// "rank 1 twice and rank 2 zero times": the first two terms that a sum does not contain exactly
/// once.
inline std::string wrong_terms(const std::vector<std::int64_t>& times, const std::string& term,
                               const std::string& of = "")
{
  std::string text;
  int found = 0;
  for (std::size_t i = 0; i < times.size() && found < 2; ++i)
    if (times[i] != 1)
      text += (found++ > 0 ? " and " : "") + term + ' ' + std::to_string(i) + of + ' ' +
              times_text(times[i]);
  return text;
}

}  // namespace course
