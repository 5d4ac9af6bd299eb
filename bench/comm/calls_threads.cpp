// SPDX-License-Identifier: BSD-3-Clause

#include <barrier>
#include <thread>

#include "comm/calls_run.hpp"

namespace bench
{

namespace
{

/// Times threads that meet at a std::barrier, once for each call.
Times std_barrier(int threads, int calls, int repeats)
{
  std::barrier meet{threads};
  std::vector<double> times;
  const auto run = [&](bool first) {
    for (int i = 0; i < repeats; ++i)
    {
      const double all = seconds([&] {
        for (int c = 0; c < calls; ++c) meet.arrive_and_wait();
      });
      if (first) times.push_back(all / calls);
    }
  };
  {
    std::vector<std::jthread> others;
    for (int i = 1; i < threads; ++i) others.emplace_back([&] { run(false); });
    run(true);
  }
  return Times{times};
}

}  // namespace

std::optional<std::vector<CallRow>> calls_on_threads(const CallsTask& task)
{
  return measure_calls<cubist::Threads>(task, true,
                                        [&](auto& meter, const std::string& call, int calls) {
                                          if (call != "barrier") return Times{};
                                          Times times;
                                          if (meter.is_first())
                                            times = std_barrier(task.ranks, calls, task.repeats);
                                          meter.barrier();
                                          return times;
                                        });
}

}  // namespace bench
