// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Ranks as MPI processes, on as many nodes as mpiexec or srun starts. Include it before or after
// cubist.hpp, and link cubist::mpi.
//
// Unless the program has initialised MPI, `launch` does so, and finalises it at the end of the
// program. A rank that throws notifies the others, which throw PeerFailed in their next call; then
// one rank prints its message, and the job ends.

#include <algorithm>
#include <chrono>
#include <climits>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include <boost/mpi/communicator.hpp>
#include <boost/mpi/environment.hpp>
#include <mpi.h>
#include <sys/prctl.h>

#include "cubist/backend/backend.hpp"
#include "cubist/backend/first_error.hpp"
#include "cubist/backend/process_manager.hpp"
#include "cubist/comm/mpi/communicator.hpp"
#include "cubist/comm/mpi/cores.hpp"
#include "cubist/comm/mpi/failure.hpp"
#include "cubist/comm/mpi/group.hpp"
#include "cubist/comm/mpi/progress.hpp"
#include "cubist/comm/mpi/shutdown.hpp"
#include "cubist/core/compiled.hpp"
#include "cubist/core/error.hpp"
#include "cubist/core/function_ref.hpp"
#include "cubist/engine/host/blas_kernels.hpp"
#include "cubist/engine/host/blas_threads.hpp"
#include "cubist/engine/host/shared_engine.hpp"

namespace cubist::CUBIST_ABI
{

namespace detail
{

/// Initialises MPI and finalises it at exit, unless the program has initialised it.
class MpiProcess
{
 public:
  static MpiProcess& get(int& argc, char**& argv)
  {
    static MpiProcess process{argc, argv};
    return process;
  }
  MpiProcess(MpiProcess&&) = delete;
  ~MpiProcess()
  {
    // If a program calls exit inside a body, its peers wait in their calls, and MPI_Finalize would
    // wait for them.
    if (inside_launch && !boost::mpi::environment::finalized())
      abort_job("the program called exit inside launch, so other ranks would wait forever; "
                "throw an error instead");
  }

  bool inside_launch = false;

 private:
  MpiProcess(int& argc, char**& argv)
  {
    using boost::mpi::environment;
    require<CommunicationError>(
        !environment::finalized(),
        "MPI is finalised, so no ranks can be launched; launch before MPI_Finalize");
    if (environment::initialized()) return;
    constexpr auto level = boost::mpi::threading::multiple;
    if (argc > 0)
      environment_.emplace(argc, argv, level, false);
    else
      environment_.emplace(level, false);
  }

  std::optional<boost::mpi::environment> environment_;
};

/// Prints the warning about BLAS of the lowest rank that has one.
inline void print_blas_warning(const boost::mpi::communicator& control)
{
  const std::string warning = take_blas_warning();
  int lowest = warning.empty() ? INT_MAX : control.rank();
  MPI_Allreduce(MPI_IN_PLACE, &lowest, 1, MPI_INT, MPI_MIN, control);
  if (lowest == control.rank()) warn(warning);
}

}  // namespace detail

struct Mpi
{
  using Communicator = MpiCommunicator;
  using Engine = SharedEngine;
  static constexpr bool ranks_are_processes = true;

  /// The options that `launch` reads, the same on all ranks. Libraries that hide their symbols
  /// share the program's options.
  [[gnu::visibility("default")]] static inline MpiOptions options = {};

  /// Whether mpiexec, srun or a similar tool started this process.
  [[nodiscard]] static bool started() { return detail::started_by_process_manager(); }

  /// Runs `body(world)` on every rank. If there are fewer ranks than processes, the last processes
  /// are idle.
  template <class F>
  static void launch(int& argc, char**& argv, const LaunchOptions& launch, F&& body)
  {
    detail::MpiProcess::get(argc, argv);
    launch_on(boost::mpi::communicator{}, launch, std::forward<F>(body));
  }

  /// Runs `body(world)` on a communicator of the program, whose ranks all call this. The
  /// communicator is duplicated, so the program's messages on it never match those of `world`.
  template <class F>
  static void launch_on(const boost::mpi::communicator& processes, const LaunchOptions& launch,
                        F&& body)
  {
    run<Communicator>(processes, launch, [&body](MpiCommunicator& world) { body(world); });
  }

 private:
  /// Runs the body; a template, so that the compiled library can hold an instance.
  template <class C>
  static void run(const boost::mpi::communicator& processes, const LaunchOptions& launch,
                  detail::FunctionRef<void(C&)> body);

  /// Returns when all ranks have left their bodies; throws, or aborts the job, if one has failed.
  static void finish(const boost::mpi::communicator& control,
                     const std::optional<boost::mpi::communicator>& members,
                     detail::MpiProgress& progress, const detail::FirstError& error,
                     bool is_consequence, bool rethrow)
  {
    using namespace std::chrono_literals;
    using detail::MpiFailures;
    const auto limit = !error    ? std::chrono::steady_clock::duration::max() / 2
                       : rethrow ? std::chrono::steady_clock::duration{60s}
                                 : 1s;
    // The lowest rank whose error is a root cause reports it; if there is none, the lowest rank
    // with a consequence does.
    const int mine = !error ? INT_MAX : progress.rank() + (is_consequence ? INT_MAX / 2 : 0);
    const auto agreed = detail::agree_on_end(progress, mine, limit);
    const int reporter = agreed ? agreed->minimum : mine;
    // All ranks agree on this: a broken rank's notification may not have reached all others.
    const bool is_broken = !agreed || reporter != INT_MAX || agreed->is_broken;
    detail::end_communicators(progress, is_broken);
    if (is_broken)
    {
      detail::leak_communicator(control);
      if (members) detail::leak_communicator(*members);
    }
    if (agreed && reporter == INT_MAX) return;
    const auto peer_error = [&] {
      return progress.with_failures([](MpiFailures& f) { return f.wait_for_error(); });
    };
    if (agreed && rethrow)
    {
      if (!is_consequence) error.rethrow();
      const auto message = peer_error();
      PeerFailed failed{message.empty() ? "another rank failed; look for its error" : message};
      failed.set_rank(progress.rank());
      throw failed;
    }
    const auto has_lower_failure = [&] {
      return progress.with_failures(
          [&](MpiFailures& f) { return f.poll() && f.source() < progress.rank(); });
    };
    const bool reports = agreed ? reporter % (INT_MAX / 2) == progress.rank()
                                : !is_consequence && !has_lower_failure();
    if (!reports) std::this_thread::sleep_for(5s);  // the reporter ends this process first
    detail::abort_job(error ? error.message() : peer_error());
  }
};

template <class C>
void Mpi::run(const boost::mpi::communicator& processes, const LaunchOptions& launch,
              detail::FunctionRef<void(C&)> body)
{
  int argc = 0;
  char** argv = nullptr;
  auto& process = detail::MpiProcess::get(argc, argv);
  const auto limit = detail::time_limit(launch);
  const boost::mpi::communicator control{processes, boost::mpi::comm_duplicate};
  MPI_Comm_set_errhandler(control, MPI_ERRORS_RETURN);
  const bool with_helper =
      options.overlap && boost::mpi::environment::thread_level() == boost::mpi::threading::multiple;
  prctl(PR_SET_TIMERSLACK, 1'000UL);  // ns; the default lets short sleeps take 50 us longer
  const auto progress = std::make_shared<detail::MpiProgress>(control, with_helper, limit);
  const int rank = progress->rank();
  const int cores = detail::Cores::of_process(control);
  const int max_threads = blas_threads();
  const BlasThreads share{max_threads > 0 ? std::min(max_threads, cores) : cores};
  detail::print_blas_warning(control);
  static_cast<void>(detail::take_copies_warning());  // this program uses its processes

  detail::FirstError error;
  bool is_consequence = false;
  const auto failed = [&](const std::string& what, bool follows) {
    is_consequence = follows;
    if (follows) return;
    progress->with_failures([&](detail::MpiFailures& failures) { failures.broadcast_error(what); });
  };
  // This communicator is freed only when all ranks have left their bodies. Otherwise MPI could
  // reuse its number, and match the messages of a rank that makes more calls than others with those
  // of a later communicator.
  std::optional<boost::mpi::communicator> members;
  const bool inside_another = std::exchange(process.inside_launch, true);
  const auto run_body = [&] {
    const detail::BodyScope scope;
    detail::check_time_limit(launch);
    const int ranks = launch.ranks.value_or(progress->size());
    require<ArgumentError>(
        ranks >= 1 && ranks <= progress->size(), "got ", ranks, " ranks, but MPI has ",
        progress->size(), " processes, and each process is one rank; start ", ranks < 1 ? 1 : ranks,
        " with mpiexec -n or srun -n, or leave the number out to use all processes");
    members = control.split(rank < ranks ? 0 : 1);
    if (rank < ranks)
    {
      C world{std::make_shared<detail::MpiGroup>(progress, *members, options)};
      body(world);
    }
  };
  error.run(rank, run_body, failed);
  process.inside_launch = inside_another;
  finish(control, members, *progress, error, is_consequence, launch.rethrow);
}

static_assert(BackendType<Mpi>);

/// The instance of the compiled library.
#define CUBIST_LAUNCH_INSTANCE_OF_Mpi(prefix)                                                      \
  prefix void Mpi::run<Mpi::Communicator>(const boost::mpi::communicator&, const LaunchOptions&,   \
                                          detail::FunctionRef<void(MpiCommunicator&)>);
CUBIST_IF_COMPILED_MPI(CUBIST_LAUNCH_INSTANCE_OF_Mpi(extern template))

}  // namespace cubist::CUBIST_ABI
