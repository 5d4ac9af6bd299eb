// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// NCCL's communicator for tests with data on the host. In the compute stream it copies what is sent
// to the device, and what is received back.

#include <algorithm>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "cubist/comm/communicator.hpp"
#include "cubist/comm/nccl/communicator.hpp"
#include "cubist/cuda/stream.hpp"

namespace cubist::test
{

/// Device memory that this object owns.
class DeviceMemory
{
 public:
  explicit DeviceMemory(std::size_t bytes)
  {
    require<CommunicationError>(cudaMalloc(&data_, std::max<std::size_t>(bytes, 1)) == cudaSuccess,
                                "no device memory");
  }
  DeviceMemory(DeviceMemory&& other) noexcept
      : data_{std::exchange(other.data_, nullptr)}
  {
  }
  DeviceMemory& operator=(DeviceMemory&& other) noexcept
  {
    std::swap(data_, other.data_);
    return *this;
  }
  ~DeviceMemory() { cudaFree(data_); }

  template <class T>
  [[nodiscard]] T* as(std::size_t offset = 0) const
  {
    return reinterpret_cast<T*>(static_cast<std::byte*>(data_) + offset);
  }

 private:
  void* data_ = nullptr;
};

inline void copy_bytes(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                       cudaStream_t stream)
{
  detail::cuda_check(cudaMemcpyAsync(to, from, bytes, kind, stream), "cudaMemcpyAsync",
                     [] { return "a test"; });
}

/// Device copies of the ranges of a call. Ranges that overlap on the host overlap there, too.
template <Element T>
class Staging
{
 public:
  Staging(const Call<T>& host, cudaStream_t stream)
      : host_{host},
        stream_{stream},
        first_{first_size(host)},
        second_{disjoint(host) ? bytes(host.recv) : 0}
  {
    device_ = host;
    const auto at = [&](const T* p) {
      return static_cast<std::size_t>(reinterpret_cast<const std::byte*>(p) - begin(host));
    };
    const auto* const send =
        host.send.empty() ? nullptr : first_.template as<T>(at(host.send.data()));
    auto* const recv = host.recv.empty() ? nullptr
                       : disjoint(host)  ? second_.template as<T>()
                                         : first_.template as<T>(at(host.recv.data()));
    device_.send = {send, host.send.size()};
    device_.recv = {recv, host.recv.size()};
    upload(recv, host.recv);
    upload(const_cast<T*>(send), host.send);
  }

  [[nodiscard]] const Call<T>& call() const { return device_; }
  void download() const
  {
    if (!host_.recv.empty())
      copy_bytes(host_.recv.data(), device_.recv.data(), bytes(host_.recv), cudaMemcpyDeviceToHost,
                 stream_);
  }

 private:
  template <class Range>
  static std::size_t bytes(const Range& range)
  {
    return range.size_bytes();
  }
  static bool disjoint(const Call<T>& c)
  {
    const std::less<const T*> before;
    return c.send.empty() || c.recv.empty() ||
           !before(c.send.data(), c.recv.data() + c.recv.size()) ||
           !before(c.recv.data(), c.send.data() + c.send.size());
  }
  static const std::byte* begin(const Call<T>& c)
  {
    const T* first = c.send.data();
    if (!disjoint(c)) first = std::min<const T*>(first, c.recv.data());
    return reinterpret_cast<const std::byte*>(first);
  }
  static std::size_t first_size(const Call<T>& c)
  {
    const T* last = c.send.data() + c.send.size();
    if (!disjoint(c)) last = std::max<const T*>(last, c.recv.data() + c.recv.size());
    return static_cast<std::size_t>(reinterpret_cast<const std::byte*>(last) - begin(c));
  }
  template <class Range>
  void upload(T* to, const Range& from) const
  {
    if (!from.empty()) copy_bytes(to, from.data(), bytes(from), cudaMemcpyHostToDevice, stream_);
  }

  Call<T> host_;
  Call<T> device_;
  cudaStream_t stream_;
  DeviceMemory first_;
  DeviceMemory second_;
};

/// A request that copies what was received to the host.
class StagedRequest
{
 public:
  template <Element T>
  StagedRequest(NcclCommunicator world, const Call<T>& call)
      : world_{std::move(world)}
  {
    auto staging = std::make_shared<Staging<T>>(call, world_.stream());
    inner_ = world_.start(staging->call());
    finish_ = [staging] { staging->download(); };
  }
  StagedRequest(StagedRequest&&) = default;
  StagedRequest& operator=(StagedRequest&&) = default;

  void wait()
  {
    if (!inner_) return;
    inner_->wait();
    finish();
  }
  bool test()
  {
    if (inner_ && inner_->test()) finish();
    return !inner_;
  }

 private:
  void finish()
  {
    inner_.reset();
    finish_();
    world_.synchronize();
    finish_ = {};
  }

  NcclCommunicator world_;
  std::function<void()> finish_;
  std::optional<NcclRequest> inner_;
};

class StagedCommunicator : public Collectives<StagedCommunicator>
{
 public:
  explicit StagedCommunicator(NcclCommunicator inner)
      : inner_{std::move(inner)}
  {
  }

  [[nodiscard]] int rank() const { return inner_.rank(); }
  [[nodiscard]] int size() const { return inner_.size(); }
  [[nodiscard]] bool remote() const { return inner_.remote(); }
  [[nodiscard]] StagedCommunicator split(int colour, int key)
  {
    return StagedCommunicator{inner_.split(colour, key)};
  }
  template <Element T>
  [[nodiscard]] StagedRequest start(const Call<T>& call)
  {
    return {inner_, call};
  }

 private:
  NcclCommunicator inner_;
};

}  // namespace cubist::test

namespace cubist
{
template <>
inline constexpr bool sums_in_order<test::StagedCommunicator> = false;
template <>
inline constexpr bool independent_messages<test::StagedCommunicator> = false;
}  // namespace cubist
