// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Captures work of the compute stream, and of streams that it forks to and joins, as a CUDA graph.

#include <functional>
#include <memory>
#include <type_traits>

#include <cuda_runtime_api.h>

#include "cubist/core/error.hpp"
#include "cubist/cuda/check.hpp"
#include "cubist/engine/cuda/capture.hpp"
#include "cubist/engine/cuda/compute_stream.hpp"

namespace cubist::CUBIST_ABI
{

/// Work that a thread captured, and that only this thread may replay.
class CudaGraph
{
 public:
  /// Captures the work that f enqueues, without executing it.
  /// @throws CaptureError for work that cannot be captured, and whatever f throws; then the stream
  /// is as it was before
  [[nodiscard]] static CudaGraph capture(const std::function<void()>& f)
  {
    detail::require_no_capture("another step");
    ComputeStream::synchronize();  // captured work cannot wait for work outside the capture
    const auto stream = ComputeStream::get();
    CudaGraph result;
    Graph graph;
    check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed), "cudaStreamBeginCapture");
    auto& capture = detail::CudaCapture::get();
    capture.current = result.work_.get();
    result.work_->oldest = capture.allocations + 1;
    try
    {
      f();
      capture.current = nullptr;
    }
    catch (...)
    {
      capture.current = nullptr;
      end(graph);
      throw;
    }
    check(end(graph), "cudaStreamEndCapture");
    cudaGraphExec_t exec = nullptr;
    check(cudaGraphInstantiate(&exec, graph.get(), 0), "cudaGraphInstantiate");
    result.exec_.reset(exec);
    result.work_->newest = capture.allocations;
    return result;
  }

  /// Calls the functions that prepare a replay, then enqueues the work.
  void replay()
  {
    for (const auto& prepare : work_->before_replay) prepare();
    detail::require_cuda(cudaGraphLaunch(exec_.get(), ComputeStream::get()), "cudaGraphLaunch",
                         "the replay of a step");
  }

  /// Leaves it to the caller to check that this memory still exists when the graph is replayed.
  void ignore(const void* memory) { work_->ignored.push_back(memory); }
  /// Whether all other memory that existed during the capture still exists.
  [[nodiscard]] bool is_valid() const { return work_->valid; }

 private:
  using Work = detail::CapturedWork;

  struct Destroy
  {
    void operator()(cudaGraph_t graph) const { cudaGraphDestroy(graph); }
    void operator()(cudaGraphExec_t exec) const { cudaGraphExecDestroy(exec); }
    void operator()(Work* work) const
    {
      detail::CudaCapture::get().remove(*work);
      for (void* const data : work->freed) cudaFreeAsync(data, ComputeStream::get());
      delete work;
    }
  };
  using Graph = std::unique_ptr<std::remove_pointer_t<cudaGraph_t>, Destroy>;
  using Exec = std::unique_ptr<std::remove_pointer_t<cudaGraphExec_t>, Destroy>;

  CudaGraph()
      : work_{new Work}
  {
    detail::CudaCapture::get().add(*work_);
  }

  static cudaError_t end(Graph& graph)
  {
    cudaGraph_t captured = nullptr;
    const cudaError_t code = cudaStreamEndCapture(ComputeStream::get(), &captured);
    static_cast<void>(cudaGetLastError());
    graph.reset(captured);
    return code;
  }

  static void check(cudaError_t code, const char* call)
  {
    static_cast<void>(cudaGetLastError());
    require<CaptureError>(
        code == cudaSuccess, call, " failed (", cudaGetErrorName(code), ": ",
        cudaGetErrorString(code),
        ") for a step, so it cannot be replayed; wait in the step for every call that it starts, "
        "use no other stream in it and wait for none, or run it without capturing");
  }

  std::unique_ptr<Work, Destroy> work_;
  Exec exec_;  // destroyed first
};

}  // namespace cubist::CUBIST_ABI
