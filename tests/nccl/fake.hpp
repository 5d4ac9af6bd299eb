// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// A mock of the functions of CUDA's runtime and NCCL that cubist uses. It is compiled against their
// headers and linked instead of their libraries: ranks are threads, device memory is host memory.
// It tests ordering. Each stream is a thread with random delays. The fake NCCL returns
// ncclInProgress and launches later, rejects memory that is not on a device, and blocks where NCCL
// would. A copy to host memory that is not pinned, or a large one from it, returns when it is
// complete; CUDA's documentation allows this. Such a wait notices no failure of another rank.

#include <functional>
#include <memory>
#include <string>

#include <cuda_runtime_api.h>
#include <nccl.h>

namespace cubist::test::fake
{

class Point;

/// Makes this thread's next call of `function`, after `after` others, return `code` and do nothing.
void fail(const std::string& function, int code, int after = 0);
/// Sets which of the machine's GPUs this thread sees; by default GPUs 0 to 7.
void see_gpus(int first, int count);
/// Makes this thread's next call have this asynchronous result, without being executed.
void fail_later(ncclResult_t code);
/// Sets whether ranks get ncclRemoteError when another one aborts its communicator. They do not by
/// default.
void report_aborts(bool report);

/// Sets whether the ranks have NVLink, without which NCCL opens no symmetric window. They have it
/// by default.
void connect_by_nvlink(bool connected);

/// Enqueues work on a stream.
void enqueue(cudaStream_t stream, std::function<void()> work);

/// Blocks the work that is later enqueued on a stream, until the gate is opened.
class Gate
{
 public:
  explicit Gate(cudaStream_t stream);
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;
  ~Gate() { open(); }
  void open();

 private:
  std::shared_ptr<Point> point_;
};

/// Sets whether this thread's streams are being captured; their work is executed all the same.
void capture(bool is_capturing);

/// The number of resources that exist.
struct Live
{
  int communicators = 0;
  int streams = 0;
  int events = 0;
  int allocations = 0;
  int graphs = 0;
  int registrations = 0;  // of memory with communicators, and windows
  int pinned = 0;         // ranges of host memory
  friend bool operator==(const Live&, const Live&) = default;
};
[[nodiscard]] Live live();
/// The number of communicators that were aborted so far.
[[nodiscard]] int aborts();
/// How many times something happened that NCCL's documentation forbids and NCCL does not report.
/// Counted are collectives with registered memory on only some ranks, or at different offsets of a
/// symmetric window. So are memory that is freed or a communicator that is finalized while it is
/// registered, memory that is deregistered while a call uses it, and host memory that is unpinned
/// but was not pinned.
[[nodiscard]] int violations();

}  // namespace cubist::test::fake
