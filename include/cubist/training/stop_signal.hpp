// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Ends a training run on SIGTERM, or on SIGUSR1, which Slurm can send before the end of a job. All
// ranks learn of the signal in the same step and save a checkpoint, and the program ends with an
// exit code that tells a job script to requeue the job.
//
//   StopSignal stop;  // in main, before launch
//   std::atomic<bool> stopped = false;
//   launch<Backend>(argc, argv, {}, [&](auto& world) {
//     …
//     for (bool stops = false; step < last && !stops;)
//     {
//       … ++step;
//       stops = stop.requested(mesh);
//       if (stops || step % every == 0) checkpoints.save(step, state);
//       if (stops) stopped = true;
//     }
//   });
//   return stopped ? requeue_exit_code : 0;  // on all processes
//
// Elements that one rank sends: what an all_reduce of one number over the mesh sends, for each call
// of `requested`.
//
// Open MPI 4.1's mpiexec forwards SIGUSR1 to all processes, and returns the code of the first that
// does not return 0. On SIGTERM it sends SIGTERM to the processes after a second, SIGKILL after one
// more (odls_base_sigkill_timeout), and returns 1. So a job script should send it SIGUSR1.

#include <array>
#include <atomic>
#include <csignal>
#include <cstddef>
#include <mutex>

#include "cubist/comm/call.hpp"
#include "cubist/matrix/staging.hpp"
#include "cubist/mesh/mesh.hpp"

namespace cubist::CUBIST_ABI
{

/// The exit code of a program that a signal stopped and that resumes when it is started again:
/// EX_TEMPFAIL of sysexits.h.
inline constexpr int requeue_exit_code = 75;

namespace detail
{

/// The signal handlers of this process. The first user installs them, and the last one removes
/// them.
class StopHandlers
{
 public:
  void add_user()
  {
    const std::lock_guard lock{mutex_};
    ++users_;
    if (installed_) return;
    struct sigaction action = {};
    action.sa_handler = [](int) { received_.store(true); };
    action.sa_flags = SA_RESTART;  // system calls of the step are restarted
    for (std::size_t i = 0; i < signals.size(); ++i) sigaction(signals[i], &action, &former_[i]);
    installed_ = true;
  }
  void remove_user()
  {
    const std::lock_guard lock{mutex_};
    --users_;
    restore();
  }

  [[nodiscard]] static bool received() { return received_.load(); }
  void reset()
  {
    const std::lock_guard lock{mutex_};
    received_.store(false);
    restore();
  }

 private:
  /// Restores the earlier handlers once there is no user. After a signal, ours stay until the
  /// process ends: a second signal must not end it before it has returned its code.
  void restore()
  {
    if (!installed_ || users_ > 0 || received()) return;
    for (std::size_t i = 0; i < signals.size(); ++i) sigaction(signals[i], &former_[i], nullptr);
    installed_ = false;
  }

  static constexpr std::array signals{SIGTERM, SIGUSR1};
  static inline std::atomic<bool> received_{false};
  static_assert(std::atomic<bool>::is_always_lock_free);

  std::mutex mutex_;
  int users_ = 0;
  bool installed_ = false;
  std::array<struct sigaction, signals.size()> former_{};
};
inline constinit StopHandlers stop_handlers;

}  // namespace detail

/// While a StopSignal exists, SIGTERM and SIGUSR1 do not end this process, but ask it to stop.
/// Several may exist, such as one per rank if ranks are threads.
class StopSignal
{
 public:
  StopSignal() { detail::stop_handlers.add_user(); }
  StopSignal(StopSignal&&) = delete;
  ~StopSignal() { detail::stop_handlers.remove_user(); }

  /// Whether the process of any rank of the mesh has received a signal. All ranks of the mesh call
  /// it and get the same answer; idle ranks get false. On a GPU it waits for the device.
  template <class A, class B>
  [[nodiscard]] bool requested(const AxisMesh<A, B>& mesh) const
  {
    if (!mesh.active()) return false;
    return detail::all_reduced(mesh, received() ? 1 : 0, ReduceOp::max) != 0;
  }

  /// Whether this process has received a signal.
  [[nodiscard]] static bool received() { return detail::StopHandlers::received(); }
  /// Forgets the signals that this process has received.
  static void reset() { detail::stop_handlers.reset(); }
};

}  // namespace cubist::CUBIST_ABI
