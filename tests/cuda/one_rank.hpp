// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// A backend with one rank and any engine, so that distributed code runs on a GPU without NCCL.

#include <algorithm>
#include <cstddef>
#include <type_traits>

#include <cuda_runtime_api.h>

#include "cubist/comm/communicator.hpp"
#include "cubist/cuda/check.hpp"
#include "cubist/engine/cuda/compute_stream.hpp"
#include "cubist/engine/engine.hpp"

namespace cubist::test
{

/// The communicator of one rank. A call copies the sent data to the receive buffer, in E's memory.
template <class E>
class SingleRank : public Collectives<SingleRank<E>>
{
 public:
  struct Request
  {
    void wait() {}
    [[nodiscard]] bool test() { return true; }
  };

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int size() const { return 1; }
  [[nodiscard]] bool remote() const { return false; }
  [[nodiscard]] SingleRank split(int, int) { return *this; }

  template <class T>
  [[nodiscard]] Request start(const Call<T>& call)
  {
    const std::size_t n = std::min(call.send.size(), call.recv.size());
    if (n == 0 || call.send.data() == call.recv.data()) return {};
    if constexpr (in_host_memory<E>)
      std::copy_n(call.send.data(), n, call.recv.data());
    else
      cubist::detail::require_cuda(cudaMemcpyAsync(call.recv.data(), call.send.data(),
                                                   n * sizeof(T), cudaMemcpyDeviceToDevice,
                                                   ComputeStream::get()),
                                   "cudaMemcpyAsync", "a message to itself");
    return {};
  }

 private:
  int rank_ = 0;  // a member, because g++ 12 warns that an empty object is uninitialized
};

template <class E>
struct OneRank
{
  using Communicator = SingleRank<E>;
  using Engine = E;
};

}  // namespace cubist::test
