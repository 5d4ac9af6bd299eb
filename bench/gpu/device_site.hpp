// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// How an engine is measured on a GPU. The host runs ahead of the device, so the host's time in a
// scope means nothing. One event in the compute stream at the scope's start and another at its end
// measure how long that stream computed, or waited, between them.

#include <algorithm>
#include <optional>
#include <vector>

#include <cuda_runtime_api.h>

#include <cubist/cuda/check.hpp>
#include <cubist/engine/cuda/buffer.hpp>
#include <cubist/engine/cuda/compute_stream.hpp>
#include <cubist/engine/cuda/engine.hpp>

#include "common/row.hpp"
#include "meter/site.hpp"

namespace bench
{

/// Measures the compute stream's time from the start to the end of a scope. `read` adds it to
/// `seconds`, which must live until then.
class StreamStopwatch
{
 public:
  explicit StreamStopwatch(double& seconds)
      : seconds_{&seconds},
        begin_{runs() ? record() : nullptr}
  {
  }
  StreamStopwatch(const StreamStopwatch&) = delete;
  StreamStopwatch& operator=(const StreamStopwatch&) = delete;
  ~StreamStopwatch()
  {
    if (begin_ != nullptr) all().running.push_back({seconds_, begin_, record()});
  }

  /// Whether this thread's stopwatches measure; their two events take as long as a small kernel.
  [[nodiscard]] static bool& runs()
  {
    static thread_local bool on = true;
    return on;
  }

  /// Waits for the device, and adds up the times of this thread's stopwatches.
  static void read()
  {
    cubist::ComputeStream::synchronize();
    for (const auto& [seconds, begin, end] : all().running)
    {
      float milliseconds = 0;
      cubist::detail::require_cuda(cudaEventElapsedTime(&milliseconds, begin, end),
                                   "cudaEventElapsedTime", "a measurement");
      *seconds += 1e-3 * static_cast<double>(milliseconds);
    }
    reset();
  }
  /// Discards the times of this thread's stopwatches.
  static void reset()
  {
    auto& [running, spare] = all();
    for (const auto& one : running) spare.insert(spare.end(), {one.begin, one.end});
    running.clear();
  }

 private:
  struct Running
  {
    double* seconds;
    cudaEvent_t begin;
    cudaEvent_t end;
  };
  /// The events of one thread, which are reused: a rank has one device.
  struct Events
  {
    std::vector<Running> running = {};
    std::vector<cudaEvent_t> spare = {};
    ~Events()
    {
      for (const auto& one : running) cudaEventDestroy(one.begin), cudaEventDestroy(one.end);
      for (const auto event : spare) cudaEventDestroy(event);
    }
  };
  static Events& all()
  {
    static thread_local Events events;
    return events;
  }
  static cudaEvent_t record()
  {
    auto& spare = all().spare;
    if (spare.empty())
    {
      cudaEvent_t created = nullptr;
      cubist::detail::require_cuda(cudaEventCreateWithFlags(&created, cudaEventDefault),
                                   "cudaEventCreate", "a measurement");
      spare.push_back(created);
    }
    const cudaEvent_t event = spare.back();
    cubist::detail::require_cuda(cudaEventRecord(event, cubist::ComputeStream::get()),
                                 "cudaEventRecord", "a measurement");
    spare.pop_back();
    return event;
  }

  double* seconds_;
  cudaEvent_t begin_;
};

/// Sets the number of GPUs of a row: one for each rank, but no more than the job has.
[[nodiscard]] inline std::optional<Row> with_gpus(std::optional<Row> row, const Job& job,
                                                  const Setting& setting)
{
  if (row) row->gpus = std::min(setting.ranks, job.gpus);
  return row;
}

/// The site of an engine whose buffers are CudaBuffers.
template <class E>
struct DeviceSite : OwnProducts<E>
{
  using Stopwatch = StreamStopwatch;
  struct Whole  // a rank always has a whole GPU
  {
    ~Whole() {}
  };
  static constexpr bool tells_waiting = false;
  static constexpr bool stopwatches_take_time = true;
  static void run_stopwatches(bool run) { StreamStopwatch::runs() = run; }

  static void finish() { cubist::ComputeStream::synchronize(); }
  static void read_stopwatches() { StreamStopwatch::read(); }
  static void reset_stopwatches() { StreamStopwatch::reset(); }

  template <class T>
  using Plain = cubist::CudaBuffer<T>;
  template <class T>
  [[nodiscard]] static Plain<T> plain(const T* from, std::size_t size)
  {
    Plain<T> elements(size);
    E{}.upload(cubist::MatrixView<const T>{from, {1, size}},
               cubist::MatrixView<T>{elements.data(), {1, size}});
    return elements;
  }
  template <class T>
  [[nodiscard]] static std::vector<T> on_host(const Plain<T>& elements)
  {
    std::vector<T> host(elements.size());
    E{}.download(cubist::MatrixView<const T>{elements.data(), {1, host.size()}},
                 cubist::MatrixView<T>{host.data(), {1, host.size()}});
    return host;
  }
};

}  // namespace bench
