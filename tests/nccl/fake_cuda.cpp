// SPDX-License-Identifier: BSD-3-Clause
// The mock of CUDA's runtime; see fake.hpp.
#include <cstdio>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "fake_detail.hpp"
#include "fake_graph.hpp"

namespace fake = cubist::test::fake;
using fake::Point;

namespace
{

std::mutex allocations_mutex;
std::map<const std::byte*, std::size_t> allocations;
std::mutex pinned_mutex;
std::map<const std::byte*, std::size_t> pinned;
thread_local std::map<std::string, std::pair<int, int>> failures;  // code, after
thread_local int first_gpu = 0;
thread_local int gpus = 8;
thread_local int current_device = 0;
thread_local bool captures = false;
/// Copies of up to this many bytes to a device are asynchronous, even from pageable memory.
constexpr std::size_t small_copy = std::size_t{64} << 10;

/// Delays some tasks at random, so that unordered work on streams runs in varying orders.
void delay_at_random()
{
  thread_local std::mt19937 random{std::random_device{}()};
  if (random() % 8 == 0) std::this_thread::sleep_for(std::chrono::microseconds(random() % 100));
}

}  // namespace

int fake::injected(const char* function)
{
  if (failures.empty()) return 0;
  const auto found = failures.find(function);
  if (found == failures.end() || found->second.second-- > 0) return 0;
  const int code = found->second.first;
  failures.erase(found);
  return code;
}

void fake::fail(const std::string& function, int code, int after)
{
  failures[function] = {code, after};
}

void fake::capture(bool is_capturing) { captures = is_capturing; }

void fake::see_gpus(int first, int count)
{
  first_gpu = first;
  gpus = count;
}

void fake::enqueue(cudaStream_t stream, std::function<void()> work)
{
  resolved(stream)->enqueue(std::move(work));
}

fake::Gate::Gate(cudaStream_t stream)
    : point_{std::make_shared<Point>()}
{
  resolved(stream)->enqueue([point = point_] { point->wait(); });
}
void fake::Gate::open() { point_->reach(); }

bool fake::on_device(const void* data, std::size_t bytes)
{
  if (bytes == 0) return true;
  const auto* const p = static_cast<const std::byte*>(data);
  const std::lock_guard lock{allocations_mutex};
  auto after = allocations.upper_bound(p);
  if (p == nullptr || after == allocations.begin()) return false;
  --after;
  return p + bytes <= after->first + after->second;
}

namespace
{

/// Whether a range of host memory overlaps one that is pinned, or lies inside it.
bool is_pinned(const void* data, std::size_t bytes, bool inside)
{
  const auto* const p = static_cast<const std::byte*>(data);
  const std::lock_guard lock{pinned_mutex};
  for (const auto& [begin, size] : pinned)
    if (inside ? begin <= p && p + bytes <= begin + size : begin < p + bytes && p < begin + size)
      return true;
  return false;
}

}  // namespace

CUstream_st::CUstream_st()
    : worker{[this] { run(); }}
{
}

CUstream_st::~CUstream_st()
{
  {
    const std::lock_guard lock{mutex};
    stopped = true;
  }
  changed.notify_all();
  worker.join();
}

void CUstream_st::record(std::function<std::function<void()>()> make)
{
  capture->add(this, std::move(make));
}

void CUstream_st::enqueue(std::function<void()> task)
{
  if (capture) return record([task] { return task; });
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
    delay_at_random();
    task();
    lock.lock();
    tasks.pop_front();
    changed.notify_all();
  }
}

cudaStream_t fake::resolved(cudaStream_t stream)
{
  if (stream != cudaStreamPerThread) return stream;
  thread_local CUstream_st own;
  return &own;
}

struct CUevent_st
{
  std::shared_ptr<Point> point;
  std::shared_ptr<fake::Capture> capture;  // in which the event was last recorded
  std::size_t number = 0;                  // of the event there
};

#define CUBIST_INJECT(function)                                                                    \
  if (const int code = fake::injected(#function)) return static_cast<cudaError_t>(code)

cudaError_t cudaSetDevice(int device)
{
  CUBIST_INJECT(cudaSetDevice);
  if (device < 0 || device >= gpus) return cudaErrorInvalidDevice;
  current_device = device;
  return cudaSuccess;
}

cudaError_t cudaGetDevice(int* device)
{
  *device = current_device;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int* count)
{
  CUBIST_INJECT(cudaGetDeviceCount);
  *count = gpus;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetPCIBusId(char* id, int length, int device)
{
  CUBIST_INJECT(cudaDeviceGetPCIBusId);
  std::snprintf(id, static_cast<std::size_t>(length), "0000:%02x:00.0",
                static_cast<unsigned>(first_gpu + device));
  return cudaSuccess;
}

cudaError_t cudaMalloc(void** data, size_t bytes)
{
  CUBIST_INJECT(cudaMalloc);
  auto* const p = new std::byte[bytes];
  std::memset(p, 0xa5, bytes);
  const std::lock_guard lock{allocations_mutex};
  allocations[p] = bytes;
  ++fake::counts.allocations;
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
  --fake::counts.allocations;
  delete[] p;
  return cudaSuccess;
}

namespace
{

/// Breaks a stream's capture with an error. Returns whether the stream captures.
bool is_broken_by(cudaStream_t stream)
{
  const auto& capture = fake::resolved(stream)->capture;
  return capture && (capture->broken = true);
}

}  // namespace

cudaError_t cudaMallocAsync(void** data, size_t bytes, cudaStream_t stream)
{
  CUBIST_INJECT(cudaMallocAsync);
  // CUDA would give memory of the graph, which exists only while the graph runs; no buffer wants
  // that.
  if (is_broken_by(stream)) return cudaErrorStreamCaptureUnsupported;
  return cudaMalloc(data, bytes);
}

cudaError_t cudaFreeAsync(void* data, cudaStream_t stream)
{
  if (fake::resolved(stream)->capture) return cudaErrorInvalidValue;  // memory of no graph
  fake::resolved(stream)->enqueue([data] { cudaFree(data); });
  return cudaSuccess;
}

cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int)
{
  *pool = nullptr;
  return cudaSuccess;
}

cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t, cudaMemPoolAttr, void*) { return cudaSuccess; }

cudaError_t cudaMemsetAsync(void* data, int value, size_t bytes, cudaStream_t stream)
{
  CUBIST_INJECT(cudaMemsetAsync);
  if (!fake::on_device(data, bytes)) return cudaErrorInvalidValue;
  fake::resolved(stream)->enqueue([=] { std::memset(data, value, bytes); });
  return cudaSuccess;
}

cudaError_t cudaHostRegister(void* data, size_t bytes, unsigned int)
{
  CUBIST_INJECT(cudaHostRegister);
  if (data == nullptr || bytes == 0) return cudaErrorInvalidValue;
  if (is_pinned(data, bytes, false)) return cudaErrorHostMemoryAlreadyRegistered;
  const std::lock_guard lock{pinned_mutex};
  pinned[static_cast<std::byte*>(data)] = bytes;
  ++fake::counts.pinned;
  return cudaSuccess;
}

cudaError_t cudaHostUnregister(void* data)
{
  auto* const p = static_cast<volatile std::byte*>(data);
  const std::lock_guard lock{pinned_mutex};
  const auto found = pinned.find(static_cast<std::byte*>(data));
  if (found == pinned.end())
  {
    ++fake::counts.violations;
    return cudaErrorHostMemoryNotRegistered;
  }
  // AddressSanitizer reports memory that was freed while it was pinned.
  p[found->second - 1] = p[found->second - 1];
  pinned.erase(found);
  --fake::counts.pinned;
  return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream)
{
  return cudaMemcpy2DAsync(to, bytes, from, bytes, bytes, 1, kind, stream);
}

cudaError_t cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch,
                              size_t width, size_t height, cudaMemcpyKind kind, cudaStream_t stream)
{
  CUBIST_INJECT(cudaMemcpyAsync);  // of matrices with gaps, too
  const auto extent = [&](size_t pitch) {
    return width == 0 || height == 0 ? 0 : (height - 1) * pitch + width;
  };
  const size_t written = extent(to_pitch);
  const size_t read = extent(from_pitch);
  const bool to_device = kind != cudaMemcpyDeviceToHost;
  const bool from_device = kind != cudaMemcpyHostToDevice;
  if (written > 0 &&
      (to_device != fake::on_device(to, written) || (from_device && !fake::on_device(from, read))))
    return cudaErrorInvalidValue;
  const auto copy = [=](const std::byte* p) {
    for (size_t i = 0; i < height && width > 0; ++i)
      std::memcpy(static_cast<std::byte*>(to) + i * to_pitch, p + i * from_pitch, width);
  };
  const auto* const p = static_cast<const std::byte*>(from);
  if (from_device)
    fake::resolved(stream)->enqueue([=] { copy(p); });
  else  // Pageable host memory is read before the call returns.
    fake::resolved(stream)->enqueue(
        [copy, data = std::vector<std::byte>(p, p + read)] { copy(data.data()); });
  const bool pageable = (!to_device && written > 0 && !is_pinned(to, written, true)) ||
                        (!from_device && read > small_copy && !is_pinned(from, read, true));
  return pageable && !fake::resolved(stream)->capture ? cudaStreamSynchronize(stream) : cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned int)
{
  CUBIST_INJECT(cudaStreamCreateWithFlags);
  *stream = new CUstream_st;
  ++fake::counts.streams;
  return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
  delete stream;
  --fake::counts.streams;
  return cudaSuccess;
}

cudaError_t cudaStreamQuery(cudaStream_t stream)
{
  CUBIST_INJECT(cudaStreamQuery);
  if (is_broken_by(stream)) return cudaErrorStreamCaptureUnsupported;
  stream = fake::resolved(stream);
  const std::lock_guard lock{stream->mutex};
  return stream->tasks.empty() ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
  if (is_broken_by(stream)) return cudaErrorStreamCaptureUnsupported;
  stream = fake::resolved(stream);
  std::unique_lock lock{stream->mutex};
  stream->changed.wait(lock, [stream] { return stream->tasks.empty(); });
  return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int)
{
  CUBIST_INJECT(cudaStreamWaitEvent);
  stream = fake::resolved(stream);
  if (event->capture)
  {
    // A stream that waits for captured work is captured from then on.
    if (event->capture->streams.empty() || (stream->capture && stream->capture != event->capture))
      return cudaErrorStreamCaptureIsolation;
    stream->capture = event->capture;
    stream->capture->wait(stream, event->number);
    return cudaSuccess;
  }
  if (event->point && is_broken_by(stream)) return cudaErrorStreamCaptureIsolation;
  if (event->point) stream->enqueue([point = event->point] { point->wait(); });
  return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode)
{
  CUBIST_INJECT(cudaStreamBeginCapture);
  stream = fake::resolved(stream);
  if (stream->capture || mode != cudaStreamCaptureModeRelaxed) return cudaErrorIllegalState;
  stream->capture = std::make_shared<fake::Capture>();
  stream->capture->branch_of(stream);
  return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph)
{
  *graph = nullptr;
  stream = fake::resolved(stream);
  const auto capture = stream->capture;
  if (!capture || capture->streams.front() != stream) return cudaErrorIllegalState;
  for (auto* const captured : capture->streams) captured->capture.reset();
  const bool joined = capture->is_joined();
  capture->streams.clear();
  if (capture->broken) return cudaErrorStreamCaptureInvalidated;
  if (!joined) return cudaErrorStreamCaptureUnjoined;
  *graph = new CUgraph_st{capture};
  ++fake::counts.graphs;
  return cudaSuccess;
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status)
{
  *status = captures || fake::resolved(stream)->capture ? cudaStreamCaptureStatusActive
                                                        : cudaStreamCaptureStatusNone;
  return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long)
{
  CUBIST_INJECT(cudaGraphInstantiate);
  *exec = new CUgraphExec_st{graph->capture, {}};
  for (std::size_t b = 1; b < graph->capture->clocks.size(); ++b)
    (*exec)->streams.push_back(std::make_unique<CUstream_st>());
  ++fake::counts.graphs;
  return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream)
{
  CUBIST_INJECT(cudaGraphLaunch);
  if (is_broken_by(stream)) return cudaErrorStreamCaptureUnsupported;
  exec->launch(fake::resolved(stream));
  return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
  delete graph;
  --fake::counts.graphs;
  return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec)
{
  delete exec;
  --fake::counts.graphs;
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned int)
{
  CUBIST_INJECT(cudaEventCreateWithFlags);
  *event = new CUevent_st;
  ++fake::counts.events;
  return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
  delete event;
  --fake::counts.events;
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
  CUBIST_INJECT(cudaEventRecord);
  stream = fake::resolved(stream);
  event->capture = stream->capture;
  if (stream->capture)
  {
    event->number = stream->capture->record(stream);
    return cudaSuccess;
  }
  event->point = std::make_shared<Point>();
  stream->enqueue([point = event->point] { point->reach(); });
  return cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t event)
{
  CUBIST_INJECT(cudaEventQuery);
  if (event->capture)
  {
    event->capture->broken = true;
    return cudaErrorCapturedEvent;
  }
  return !event->point || event->point->reached() ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end)
{
  if (!begin->point || !end->point) return cudaErrorInvalidResourceHandle;
  if (!begin->point->reached() || !end->point->reached()) return cudaErrorNotReady;
  *milliseconds =
      std::chrono::duration<float, std::milli>(end->point->when() - begin->point->when()).count();
  return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int)
{
  *properties = {};
  std::snprintf(properties->name, sizeof properties->name, "fake");
  properties->totalGlobalMem = std::size_t{1} << 30;
  return cudaSuccess;
}

cudaError_t cudaGetLastError() { return cudaSuccess; }

const char* cudaGetErrorName(cudaError_t error)
{
  return error == cudaErrorInvalidDevice              ? "cudaErrorInvalidDevice"
         : error == cudaErrorIllegalAddress           ? "cudaErrorIllegalAddress"
         : error == cudaErrorMemoryAllocation         ? "cudaErrorMemoryAllocation"
         : error == cudaErrorStreamCaptureUnjoined    ? "cudaErrorStreamCaptureUnjoined"
         : error == cudaErrorStreamCaptureInvalidated ? "cudaErrorStreamCaptureInvalidated"
         : error == cudaErrorStreamCaptureIsolation   ? "cudaErrorStreamCaptureIsolation"
         : error == cudaErrorStreamCaptureUnsupported ? "cudaErrorStreamCaptureUnsupported"
         : error == cudaErrorCapturedEvent            ? "cudaErrorCapturedEvent"
                                                      : "cudaErrorInvalidValue";
}

const char* cudaGetErrorString(cudaError_t) { return "an error of the fake"; }
