// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The replays of captured work on the compute stream. Their calls cannot be polled one by one, so
// each replay lies between two events, as a call does.

#include <cstddef>
#include <deque>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <cuda_runtime_api.h>

#include "cubist/comm/backoff.hpp"
#include "cubist/cuda/stream.hpp"

namespace cubist::CUBIST_ABI::detail
{

class NcclReplays
{
 public:
  using Clock = Backoff::Clock;

  /// Calls `launch`, which enqueues work on the compute stream.
  template <class F>
  void start(const char* what, cudaStream_t compute, F launch)
  {
    if (free_.empty()) free_.push_back(std::make_unique<Replay>());
    auto replay = std::move(free_.back());
    free_.pop_back();
    replay->what = what;
    replay->begin.reset();
    const auto record = [&](const CudaEvent& event) {
      cuda_check(cudaEventRecord(event.get(), compute), "cudaEventRecord", [&] { return what; });
    };
    record(replay->ready);
    launch();
    record(replay->done);
    in_flight_.push_back(std::move(replay));
  }

  [[nodiscard]] std::size_t in_flight() const { return in_flight_.size(); }

  /// Returns what runs now, and since when.
  [[nodiscard]] std::optional<std::pair<const char*, Clock::time_point>> oldest_wait()
  {
    const auto is_reached = [](const CudaEvent& event, const char* what) {
      return is_complete(event, [&] { return what; });
    };
    while (!in_flight_.empty() && is_reached(in_flight_.front()->done, in_flight_.front()->what))
    {
      free_.push_back(std::move(in_flight_.front()));
      in_flight_.pop_front();
    }
    if (in_flight_.empty()) return {};
    auto& first = *in_flight_.front();
    if (!first.begin)
    {
      if (!is_reached(first.ready, first.what)) return {};
      first.begin = Clock::now();
    }
    return std::pair{first.what, *first.begin};
  }

 private:
  struct Replay
  {
    CudaEvent ready;
    CudaEvent done;
    const char* what = "";
    std::optional<Clock::time_point> begin = {};
  };

  std::deque<std::unique_ptr<Replay>> in_flight_;
  std::vector<std::unique_ptr<Replay>> free_;
};

}  // namespace cubist::CUBIST_ABI::detail
