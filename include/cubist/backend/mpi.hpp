// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Ranks as MPI processes, on as many nodes as mpiexec or srun gives. Include it before or after
// cubist.hpp, and link cubist::mpi.
//
// `launch` initialises MPI unless the program has done so; what it initialised it finalises at the
// end of the program. A rank that throws tells the others, which leave their bodies where they
// wait; then the rank's message is printed, once, and the job ends.

#include <algorithm>
#include <array>
#include <chrono>
#include <climits>
#include <cstddef>
#include <cstdlib>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <boost/mpi/communicator.hpp>
#include <boost/mpi/environment.hpp>
#include <mpi.h>
#include <sys/prctl.h>

#include "cubist/backend/backend.hpp"
#include "cubist/backend/first_error.hpp"
#include "cubist/comm/mpi/communicator.hpp"
#include "cubist/comm/mpi/cores.hpp"
#include "cubist/comm/mpi/progress.hpp"
#include "cubist/core/error.hpp"
#include "cubist/engine/host/blas_kernels.hpp"
#include "cubist/engine/host/blas_threads.hpp"
#include "cubist/engine/host/shared_engine.hpp"

namespace cubist
{

namespace detail
{

/// MPI as this process has it: initialised here, if nobody else did, and then finalised at exit.
class MpiProcess
{
 public:
  static MpiProcess& get(int& argc, char**& argv)
  {
    static MpiProcess process{argc, argv};
    return process;
  }
  MpiProcess(const MpiProcess&) = delete;
  MpiProcess& operator=(const MpiProcess&) = delete;
  ~MpiProcess()
  {
    // A body that called exit: its peers would wait in their calls, and MPI_Finalize for them.
    if (inside && !boost::mpi::environment::finalized())
      MpiProgress::end_job(
          "the program called exit inside launch, so other ranks would wait for ever; "
          "throw an error instead");
  }

  bool inside = false;

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

/// How many threads this rank's BLAS may use.
inline int cores_of_rank(MPI_Comm comm)
{
  MPI_Comm node = MPI_COMM_NULL;
  MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
  const int share = Cores::of(node).share;
  MPI_Comm_free(&node);
  return share;
}

/// Of the ranks that have a warning of their BLAS to give, the lowest gives it.
inline void warn_of_blas(const boost::mpi::communicator& control)
{
  const std::string warning = take_blas_warning();
  int speaker = warning.empty() ? INT_MAX : control.rank();
  MPI_Allreduce(MPI_IN_PLACE, &speaker, 1, MPI_INT, MPI_MIN, control);
  if (speaker == control.rank()) warn(warning);
}

}  // namespace detail

struct Mpi
{
  using Communicator = MpiCommunicator;
  using Engine = SharedEngine;
  static constexpr bool ranks_are_processes = true;

  /// Read by `launch`; the same on all ranks.
  static inline MpiOptions options = {};

  /// Whether mpiexec, srun or their like started this process.
  [[nodiscard]] static bool started()
  {
    constexpr std::array names{"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMIX_RANK", "MPI_LOCALNRANKS"};
    return std::any_of(names.begin(), names.end(),
                       [](const char* name) { return std::getenv(name) != nullptr; });
  }

  /// Fewer ranks than processes leave the last processes idle.
  template <class F>
  static void launch(int& argc, char**& argv, const LaunchOptions& launch, F&& body)
  {
    detail::MpiProcess::get(argc, argv);
    launch_on(boost::mpi::communicator{}, launch, std::forward<F>(body));
  }

  /// On a communicator of the program's, whose ranks all call this. It is duplicated, so traffic of
  /// the program's own does not get in the way.
  template <class F>
  static void launch_on(const boost::mpi::communicator& processes, const LaunchOptions& launch,
                        F&& body)
  {
    int argc = 0;
    char** argv = nullptr;
    auto& process = detail::MpiProcess::get(argc, argv);
    const auto limit = detail::time_limit(launch);
    const boost::mpi::communicator control{processes, boost::mpi::comm_duplicate};
    MPI_Comm_set_errhandler(control, MPI_ERRORS_RETURN);
    const bool may_help = options.overlap && boost::mpi::environment::thread_level() ==
                                                 boost::mpi::threading::multiple;
    prctl(PR_SET_TIMERSLACK, 1'000UL);  // ranks that wait sleep microseconds, not the usual 50 more
    const auto world = std::make_shared<detail::MpiProgress>(control, may_help, limit);
    const int cores = detail::cores_of_rank(control);
    const int most = blas_threads();
    const BlasThreads share{most > 0 ? std::min(most, cores) : cores};
    detail::warn_of_blas(control);

    detail::FirstError first;
    bool consequence = false;
    const auto failed = [&](const char* what, bool follows) {
      consequence = follows;
      first.record(world->rank(), std::current_exception(), follows);
      if (!follows)
        world->spread("rank " + std::to_string(world->rank()) + " failed (" + what +
                      "), so what other ranks wait for cannot come; mend that rank's error");
    };
    // Held until all ranks are through: what a rank sends that makes more calls than others
    // would else arrive at a later communicator that has got this one's number.
    std::optional<boost::mpi::communicator> members;
    const bool inside_another = std::exchange(process.inside, true);
    try
    {
      const int ranks = launch.ranks.value_or(world->size());
      require<ArgumentError>(
          ranks >= 1 && ranks <= world->size(), "got ", ranks, " ranks, but MPI has ",
          world->size(), " processes, of which each is one rank; start ", ranks < 1 ? 1 : ranks,
          " with mpiexec -n or srun -n, or leave the number out to use them all");
      members = control.split(world->rank() < ranks ? 0 : 1);
      if (world->rank() < ranks)
      {
        MpiCommunicator communicator{std::make_shared<detail::MpiGroup>(world, *members, options)};
        body(communicator);
      }
    }
    catch (const PeerFailed& e)
    {
      failed(e.what(), true);
    }
    catch (const std::exception& e)
    {
      failed(e.what(), false);
    }
    catch (...)
    {
      failed("an unknown exception", false);
    }
    process.inside = inside_another;
    finish(control, members, *world, first, consequence, launch.rethrow);
  }

 private:
  /// Returns when all ranks are through; throws, or ends the job, if one failed.
  static void finish(const boost::mpi::communicator& control,
                     const std::optional<boost::mpi::communicator>& members,
                     detail::MpiProgress& world, const detail::FirstError& first, bool consequence,
                     bool rethrow)
  {
    using namespace std::chrono_literals;
    const auto limit = !first    ? std::chrono::steady_clock::duration::max() / 2
                       : rethrow ? std::chrono::steady_clock::duration{60s}
                                 : 1s;
    // The lowest rank with an error of its own, else the lowest with another's.
    int reporter = !first ? INT_MAX : world.rank() + (consequence ? INT_MAX / 2 : 0);
    const bool all_through = world.agree_on_smallest(reporter, limit);
    if (reporter != INT_MAX || world.broken())
    {
      detail::keep_for_ever(control);
      if (members) detail::keep_for_ever(*members);
    }
    if (all_through && reporter == INT_MAX) return;
    if (all_through && rethrow)
    {
      if (!consequence) first.rethrow();
      const auto news = world.news();
      PeerFailed failed{news.empty() ? "another rank failed; look for its error" : news};
      failed.set_rank(world.rank());
      throw failed;
    }
    const bool reports = all_through ? reporter % (INT_MAX / 2) == world.rank()
                                     : !consequence && !world.failed_below();
    if (!reports) std::this_thread::sleep_for(5s);  // the reporter ends this process meanwhile
    detail::MpiProgress::end_job(first ? first.message() : world.news());
  }
};

static_assert(Backend<Mpi>);

}  // namespace cubist
