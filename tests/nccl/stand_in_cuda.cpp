// SPDX-License-Identifier: BSD-3-Clause
// CUDA's run time, as stand_in.hpp says.
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "stand_in_detail.hpp"

namespace stand_in = cubist::test::stand_in;
using stand_in::Point;

namespace
{

std::mutex allocations_mutex;
std::map<const std::byte*, std::size_t> allocations;
thread_local std::map<std::string, std::pair<int, int>> failures;  // code, after

/// Now and then a while, so that work which nothing orders comes in another order.
void be_late()
{
  thread_local std::mt19937 random{std::random_device{}()};
  if (random() % 8 == 0) std::this_thread::sleep_for(std::chrono::microseconds(random() % 100));
}

}  // namespace

int stand_in::injected(const char* function)
{
  if (failures.empty()) return 0;
  const auto found = failures.find(function);
  if (found == failures.end() || found->second.second-- > 0) return 0;
  const int code = found->second.first;
  failures.erase(found);
  return code;
}

void stand_in::fail(const std::string& function, int code, int after)
{
  failures[function] = {code, after};
}

stand_in::Gate::Gate(cudaStream_t stream) : point_{std::make_shared<Point>()}
{
  stream->enqueue([point = point_] { point->wait(); });
}
void stand_in::Gate::open() { point_->reach(); }

bool stand_in::on_device(const void* data, std::size_t bytes)
{
  if (bytes == 0) return true;
  const auto* const p = static_cast<const std::byte*>(data);
  const std::lock_guard lock{allocations_mutex};
  auto after = allocations.upper_bound(p);
  if (p == nullptr || after == allocations.begin()) return false;
  --after;
  return p + bytes <= after->first + after->second;
}

CUstream_st::CUstream_st() : worker{[this] { run(); }} { ++stand_in::counts.streams; }

CUstream_st::~CUstream_st()
{
  {
    const std::lock_guard lock{mutex};
    stopped = true;
  }
  changed.notify_all();
  worker.join();
  --stand_in::counts.streams;
}

void CUstream_st::enqueue(std::function<void()> task)
{
  {
    const std::lock_guard lock{mutex};
    tasks.push_back(std::move(task));
  }
  changed.notify_all();
}

void CUstream_st::run()
{
  std::unique_lock lock{mutex};
  for (;;)
  {
    changed.wait(lock, [this] { return stopped || !tasks.empty(); });
    if (tasks.empty()) return;
    auto& task = tasks.front();
    lock.unlock();
    be_late();
    task();
    lock.lock();
    tasks.pop_front();
    changed.notify_all();
  }
}

struct CUevent_st
{
  std::shared_ptr<Point> point;
};

#define CUBIST_INJECT(function)                                                                    \
  if (const int code = stand_in::injected(#function)) return static_cast<cudaError_t>(code)

cudaError_t cudaSetDevice(int device)
{
  CUBIST_INJECT(cudaSetDevice);
  return device >= 0 && device < 8 ? cudaSuccess : cudaErrorInvalidDevice;
}

cudaError_t cudaGetDeviceCount(int* count)
{
  *count = 8;
  return cudaSuccess;
}

cudaError_t cudaMalloc(void** data, size_t bytes)
{
  CUBIST_INJECT(cudaMalloc);
  auto* const p = new std::byte[bytes];
  std::memset(p, 0xa5, bytes);
  const std::lock_guard lock{allocations_mutex};
  allocations[p] = bytes;
  ++stand_in::counts.allocations;
  *data = p;
  return cudaSuccess;
}

cudaError_t cudaFree(void* data)
{
  if (data == nullptr) return cudaSuccess;
  auto* const p = static_cast<std::byte*>(data);
  {
    const std::lock_guard lock{allocations_mutex};
    if (allocations.erase(p) == 0) return cudaErrorInvalidValue;
  }
  --stand_in::counts.allocations;
  delete[] p;
  return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream)
{
  CUBIST_INJECT(cudaMemcpyAsync);
  const bool to_device = kind != cudaMemcpyDeviceToHost;
  const bool from_device = kind != cudaMemcpyHostToDevice;
  if (to_device != (bytes != 0 && stand_in::on_device(to, bytes)) && bytes != 0)
    return cudaErrorInvalidValue;
  if (bytes != 0 && from_device && !stand_in::on_device(from, bytes)) return cudaErrorInvalidValue;
  if (from_device)
    stream->enqueue([=] {
      if (bytes != 0) std::memcpy(to, from, bytes);
    });
  else
  {  // Memory that is not pinned is read at once.
    const auto* const p = static_cast<const std::byte*>(from);
    stream->enqueue([to, data = std::vector<std::byte>(p, p + bytes)] {
      if (!data.empty()) std::memcpy(to, data.data(), data.size());
    });
  }
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned int)
{
  CUBIST_INJECT(cudaStreamCreateWithFlags);
  *stream = new CUstream_st;
  return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
  delete stream;
  return cudaSuccess;
}

cudaError_t cudaStreamQuery(cudaStream_t stream)
{
  CUBIST_INJECT(cudaStreamQuery);
  const std::lock_guard lock{stream->mutex};
  return stream->tasks.empty() ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
  std::unique_lock lock{stream->mutex};
  stream->changed.wait(lock, [stream] { return stream->tasks.empty(); });
  return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int)
{
  CUBIST_INJECT(cudaStreamWaitEvent);
  if (event->point) stream->enqueue([point = event->point] { point->wait(); });
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned int)
{
  CUBIST_INJECT(cudaEventCreateWithFlags);
  *event = new CUevent_st;
  ++stand_in::counts.events;
  return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
  delete event;
  --stand_in::counts.events;
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
  CUBIST_INJECT(cudaEventRecord);
  event->point = std::make_shared<Point>();
  stream->enqueue([point = event->point] { point->reach(); });
  return cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t event)
{
  CUBIST_INJECT(cudaEventQuery);
  return !event->point || event->point->reached() ? cudaSuccess : cudaErrorNotReady;
}

const char* cudaGetErrorName(cudaError_t error)
{
  return error == cudaErrorInvalidDevice      ? "cudaErrorInvalidDevice"
         : error == cudaErrorIllegalAddress   ? "cudaErrorIllegalAddress"
         : error == cudaErrorMemoryAllocation ? "cudaErrorMemoryAllocation"
                                              : "cudaErrorInvalidValue";
}

const char* cudaGetErrorString(cudaError_t) { return "an error of the stand-in"; }
