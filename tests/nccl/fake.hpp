// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// A fake on the host for what cubist uses of CUDA's run time and NCCL, compiled against their
// own headers and linked in place of their libraries: ranks are threads, device memory is the
// host's. It checks orders, not speed: streams have a thread each and run late at random, NCCL
// answers ncclInProgress and launches later, refuses memory that is not the device's, and hangs
// where NCCL would.

#include <functional>
#include <memory>
#include <string>

#include <cuda_runtime_api.h>
#include <nccl.h>

namespace cubist::test::fake
{

class Point;

/// The next call of `function` by this thread but `after` ones returns `code` and does nothing.
void fail(const std::string& function, int code, int after = 0);
/// The GPUs of this machine that this thread sees; at first 8 from the first one.
void see_gpus(int first, int count);
/// What this thread gives NCCL next is not carried out, and has this asynchronous result.
void fail_later(ncclResult_t code);
/// Whether ranks get ncclRemoteError when another one aborts its communicator; at first they don't.
void notice_aborts(bool notice);

/// Gives a stream something to do.
void enqueue(cudaStream_t stream, std::function<void()> work);

/// Holds a stream's work from here on until it is opened.
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

/// What was made and is not freed.
struct Live
{
  int communicators = 0;
  int streams = 0;
  int events = 0;
  int allocations = 0;
  friend bool operator==(const Live&, const Live&) = default;
};
[[nodiscard]] Live live();
/// How often a communicator was aborted so far.
[[nodiscard]] int aborts();

}  // namespace cubist::test::fake
