// SPDX-License-Identifier: BSD-3-Clause
#include <array>

#include <sys/wait.h>
#include <unistd.h>

#include "watchdog.hpp"

namespace cubist::test::support_watchdog_test
{

using namespace std::chrono_literals;

TEST_CASE("a watchdog ends a process whose test waits for ever, and names the test")
{
  std::array<int, 2> ends{};
  REQUIRE(pipe(ends.data()) == 0);
  const auto begin = std::chrono::steady_clock::now();
  const pid_t child = fork();
  if (child == 0)
  {
    dup2(ends[1], STDERR_FILENO);
    const Watchdog watchdog{50ms};
    std::this_thread::sleep_for(60s);
    std::_Exit(0);
  }
  close(ends[1]);
  std::string text;
  std::array<char, 500> part{};
  for (ssize_t n; (n = read(ends[0], part.data(), part.size())) > 0;)
    text.append(part.data(), static_cast<std::size_t>(n));
  close(ends[0]);
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(std::chrono::steady_clock::now() - begin < 30s);
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 1);
  CHECK(text == "the test 'a watchdog ends a process whose test waits for ever, and names the "
                "test' has not ended after 50 ms, so a wait goes on that must end; the process "
                "ends here\n");
}

TEST_CASE("a watchdog does nothing to a test that ends in time")
{
  const auto begin = std::chrono::steady_clock::now();
  {
    const Watchdog watchdog;
  }
  CHECK(std::chrono::steady_clock::now() - begin < 30s);
}

}  // namespace cubist::test::support_watchdog_test
