// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The backend whose ranks are threads of this process, on the host's processors. Use it to develop
// and test programs for a cluster on one machine, and to use all cores of a machine.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <numeric>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "cubist/backend/backend.hpp"
#include "cubist/backend/first_error.hpp"
#include "cubist/backend/process_manager.hpp"
#include "cubist/comm/call_text.hpp"
#include "cubist/comm/group/failure.hpp"
#include "cubist/comm/threads/communicator.hpp"
#include "cubist/comm/threads/group.hpp"
#include "cubist/comm/threads/scheduler.hpp"
#include "cubist/core/compiled.hpp"
#include "cubist/core/error.hpp"
#include "cubist/core/function_ref.hpp"
#include "cubist/engine/host/blas_kernels.hpp"
#include "cubist/engine/host/blas_threads.hpp"
#include "cubist/engine/host/engine.hpp"

namespace cubist::CUBIST_ABI
{

struct Threads
{
  using Communicator = ThreadsCommunicator;
  using Engine = HostEngine;

  static constexpr int most_ranks = 1 << 15;

  template <class F>
  static void launch(int&, char**&, const LaunchOptions& options, F&& body)
  {
    run<Communicator>(options, [&body](Communicator& world) { body(world); });
  }

 private:
  using Scheduler = detail::ThreadScheduler;

  /// Runs the body; a template, so that the compiled library can hold an instance.
  template <class C>
  static void run(const LaunchOptions& options, detail::FunctionRef<void(C&)> body);

  /// Runs the body on one rank, and fails the others if it throws.
  template <class C>
  static void run_rank(int rank, const std::shared_ptr<detail::ThreadGroup>& group,
                       Scheduler& scheduler, detail::FirstError& first,
                       detail::FunctionRef<void(C&)> body)
  {
    first.run(
        rank,
        [&] {
          const detail::BodyScope scope;
          C world{group, rank};
          body(world);
        },
        [&](const std::string& what, bool) {
          scheduler.fail(Scheduler::Failure::peer_failed, first.for_peers(rank, what));
        });
    scheduler.finish(rank);
  }

  /// Prints the ranks that `launch` still waits for, because a thread that computes cannot be ended
  /// from outside.
  static void report_stragglers(Scheduler& scheduler, std::chrono::milliseconds limit)
  {
    const auto [message, late] = scheduler.stragglers(limit);
    if (!late.empty())
      std::fprintf(stderr, "cubist: %s; launch still waits for ranks %s to return\n",
                   message.c_str(), detail::rank_list(late).c_str());
  }
};

/// Ranks that have one GPU of this machine each; backend/nccl.hpp defines it.
using Nccl = NcclOn<Threads>;

template <class C>
void Threads::run(const LaunchOptions& options, detail::FunctionRef<void(C&)> body)
{
  const int cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  const int ranks = options.ranks.value_or(cores);
  require<ArgumentError>(ranks >= 1 && ranks <= most_ranks, "got ", ranks,
                         " ranks, but threads can be 1 to ", most_ranks,
                         " ranks; use a number in this range, or leave it out for ", cores,
                         ", one for each core");

  detail::check_time_limit(options);
  const auto limit = detail::time_limit(options);
  const auto scheduler = std::make_shared<Scheduler>(ranks, limit);
  std::vector<int> all(static_cast<std::size_t>(ranks));
  std::iota(all.begin(), all.end(), 0);
  const auto group = std::make_shared<detail::ThreadGroup>(scheduler, std::move(all));
  const BlasThreads share{std::max(1, cores / ranks)};
  detail::warn(detail::take_blas_warning());
  if (!detail::BodyScope::is_inside()) detail::warn(detail::take_copies_warning());

  detail::FirstError first;
  const auto run_one = [&](int rank) { run_rank<C>(rank, group, *scheduler, first, body); };
  {
    std::vector<std::jthread> threads;
    threads.reserve(static_cast<std::size_t>(ranks));
    try
    {
      for (int rank = 1; rank < ranks; ++rank) threads.emplace_back(run_one, rank);
      if (limit) threads.emplace_back([&] { report_stragglers(*scheduler, *limit); });
    }
    catch (const std::system_error& e)
    {
      const auto message =
          detail::join({"got ", ranks, " ranks, but the system lets this process start only ",
                        threads.size() + 1, " threads (", e.what(),
                        "); use fewer ranks, or raise the limit (ulimit -u)"});
      scheduler->fail(Scheduler::Failure::peer_failed, message);
      threads.clear();
      throw CommunicationError{message};
    }
    run_one(0);
  }
  scheduler->fail(Scheduler::Failure::ended, detail::ended_text);
  first.rethrow();
}

/// The instance of the compiled library.
#define CUBIST_LAUNCH_INSTANCE_OF_Threads(prefix)                                                  \
  prefix void Threads::run<Threads::Communicator>(                                                 \
      const LaunchOptions&, detail::FunctionRef<void(ThreadsCommunicator&)>);
CUBIST_IF_COMPILED(CUBIST_LAUNCH_INSTANCE_OF_Threads(extern template))

}  // namespace cubist::CUBIST_ABI
