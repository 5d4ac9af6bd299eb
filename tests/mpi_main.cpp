// SPDX-License-Identifier: BSD-3-Clause
// The main function of tests whose ranks are processes: mpiexec -n 4 cubist_nn_mpi_tests.
//
// Every process runs all tests, and process 0 prints the report. Each other process writes its
// report to a file, and prints it if a test case fails there. The job then ends at once, because
// processes that take different paths would wait for each other. CUBIST_TEST_SECONDS is the job's
// time limit, a little below that of ctest, which does not know which case runs.
#if __has_include(<catch2/catch_session.hpp>)
#include <catch2/catch_session.hpp>
#include <catch2/catch_test_case_info.hpp>
#include <catch2/reporters/catch_reporter_event_listener.hpp>
#include <catch2/reporters/catch_reporter_registrars.hpp>
using Listener = Catch::EventListenerBase;
#else
#define CATCH_CONFIG_RUNNER
#define CATCH_CONFIG_NO_POSIX_SIGNALS  // a process that the job's end kills has not failed
#include <catch2/catch.hpp>
using Listener = Catch::TestEventListenerBase;
#endif

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>

#include <mpi.h>
#include <unistd.h>

#include "ranks.hpp"

// Defined if AddressSanitizer is linked.
extern "C" {
__attribute__((weak)) void __lsan_disable();
__attribute__((weak)) void __lsan_enable();
__attribute__((weak)) void __lsan_do_leak_check();
}

namespace
{

int process = 0;
std::FILE* report = nullptr;  // in processes other than 0

/// Redirects the output of this process to a temporary file.
void redirect_report()
{
  report = std::tmpfile();
  if (report != nullptr) dup2(fileno(report), STDOUT_FILENO);
}

void print_report()
{
  std::cout.flush();
  if (report == nullptr) return;
  std::fprintf(stderr, "process %d failed:\n", process);
  std::fflush(stdout);
  std::rewind(report);
  char text[4096];
  for (std::size_t n; (n = std::fread(text, 1, sizeof text, report)) > 0;)
    std::fwrite(text, 1, n, stderr);
  std::fflush(stderr);
}

/// Ends the job when its time is up, and names the case that runs.
class TimeLimit
{
 public:
  void start(std::chrono::seconds limit)
  {
    thread_ = std::jthread{[this, limit](const std::stop_token& stop) {
      std::unique_lock lock{mutex_};
      // Process 0 is the first, and ends the others.
      const auto mine = limit + process * std::chrono::milliseconds{500};
      static_cast<void>(never_.wait_for(lock, stop, mine, [] { return false; }));
      if (stop.stop_requested()) return;
      const std::chrono::duration<double> of_case = std::chrono::steady_clock::now() - begin_;
      std::fprintf(stderr,
                   "process %d: the time limit of %lld s is over while the test case '%s' runs, "
                   "%.0f s after its start and after %d other cases, so the job ends here; run the "
                   "case alone to see whether it hangs, or all on a machine with less other work\n",
                   process, static_cast<long long>(limit.count()), name_.c_str(), of_case.count(),
                   cases_ - 1);
      std::fflush(stderr);
      MPI_Abort(MPI_COMM_WORLD, 1);
    }};
  }
  void stop() { thread_ = {}; }
  void begin_case(const std::string& name)
  {
    const std::scoped_lock lock{mutex_};
    name_ = name;
    begin_ = std::chrono::steady_clock::now();
    ++cases_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable_any never_;
  std::string name_;
  std::chrono::steady_clock::time_point begin_;
  int cases_ = 0;
  std::jthread thread_;
};
TimeLimit time_limit;

struct EndOnFailure : Listener
{
  using Listener::Listener;

  void testCaseStarting(const Catch::TestCaseInfo& test) override
  {
    time_limit.begin_case(test.name);
  }
  void testCaseEnded(const Catch::TestCaseStats& stats) override
  {
    if (stats.totals.testCases.failed == 0) return;
    // Most tests fail on all processes, so the first one reports the failure, and ends the others.
    std::this_thread::sleep_for(process * std::chrono::milliseconds{100});
    print_report();
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
};

}  // namespace

CATCH_REGISTER_LISTENER(EndOnFailure)

int main(int argc, char** argv)
{
  int level = 0;
  // Ignores what MPI allocates when it starts, some of it in plugins that it unloads.
  if (__lsan_disable != nullptr) __lsan_disable();
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
  if (__lsan_enable != nullptr) __lsan_enable();
  // Like Boost's environment; MPICH reports there what MPI_Test finds on any communicator.
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_rank(MPI_COMM_WORLD, &process);
  static_cast<void>(cubist::test::one_node());
  if (process != 0) redirect_report();
  if (const char* limit = std::getenv("CUBIST_TEST_SECONDS"); limit != nullptr)
    time_limit.start(std::chrono::seconds{std::atoi(limit)});

  const int mine = Catch::Session().run(argc, argv);
  int worst = 0;
  MPI_Allreduce(&mine, &worst, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  if (process == 0)
    std::cout << cubist::test::tally.launches << " launches on up to "
              << cubist::test::process_count() << " processes; " << cubist::test::tally.skipped
              << " that need more were skipped" << std::endl;
  time_limit.stop();
  // Checks for leaks while all of MPI's plugins are loaded, as later their pointers cannot be
  // found.
  if (__lsan_do_leak_check != nullptr) __lsan_do_leak_check();
  MPI_Finalize();
  return worst;
}
