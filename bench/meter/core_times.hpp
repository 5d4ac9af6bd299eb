// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// What this machine's cores do while a step runs, as the kernel counts it. It checks what the ranks
// say they did, and shows the share that other programs take.

#include <ctime>
#include <fstream>
#include <string>

namespace bench
{

/// Seconds, summed over all cores.
struct CoreTimes
{
  double idle = 0;
  double busy = 0;  // in all programs, and in the host's other virtual machines
  double job = 0;   // in this job's processes, including threads that are not ranks

  CoreTimes& operator+=(const CoreTimes& other)
  {
    idle += other.idle;
    busy += other.busy;
    job += other.job;
    return *this;
  }
  [[nodiscard]] CoreTimes since(const CoreTimes& before) const
  {
    return {idle - before.idle, busy - before.busy, job - before.job};
  }
};

/// Reads /proc/stat, which counts in hundredths of a second; zeros where there is none. `job` is
/// the processor time of this process.
[[nodiscard]] inline CoreTimes core_times()
{
  constexpr double ticks_per_second = 100;
  CoreTimes times;
  std::ifstream in{"/proc/stat"};
  std::string name;
  in >> name;
  // user nice system idle iowait irq softirq steal; user includes guests.
  double ticks = 0;
  for (int i = 0; i < 8 && in >> ticks; ++i)
    (i == 3 || i == 4 ? times.idle : times.busy) += ticks / ticks_per_second;
  std::timespec job{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &job);
  times.job = static_cast<double>(job.tv_sec) + 1e-9 * static_cast<double>(job.tv_nsec);
  return times;
}

}  // namespace bench
