// SPDX-License-Identifier: BSD-3-Clause
// Tests copies to the host beside the compute stream, on the mock of CUDA.

#include "cubist/engine/cuda/buffer.hpp"
#include "cubist/engine/cuda/downloads.hpp"
#include "cubist/engine/cuda/graph.hpp"

#include "fake.hpp"
#include "message.hpp"
#include "watchdog.hpp"

namespace cubist::test::engine_cuda_downloads_test
{

using cubist::detail::CudaDownloads;
using cubist::detail::Download;

constexpr std::size_t n = 1000;

/// A buffer of n numbers, and host memory for it.
struct Copied
{
  CudaBuffer<int> device{n};
  std::vector<int> host = std::vector<int>(n);
  CudaDownloads downloads{std::as_writable_bytes(std::span{host})};

  /// Enqueues work that sets all numbers.
  void set(int value)
  {
    fake::enqueue(ComputeStream::get(), [this, value] {
      for (std::size_t i = 0; i < n; ++i) device.data()[i] = value;
    });
  }
  void start()
  {
    const std::array all{Download::of(MatrixView<const int>{device.data(), {1, n}},
                                      MatrixView<int>{host.data(), {1, n}})};
    downloads.start(all);
  }
  [[nodiscard]] bool holds(int value) const { return host == std::vector<int>(n, value); }
};

static bool is_idle(cudaStream_t stream) { return cudaStreamQuery(stream) == cudaSuccess; }

TEST_CASE("a copy has what earlier work left, and later work waits for it")
{
  const Watchdog watchdog;
  const auto before = fake::live();
  const int violations = fake::violations();
  {
    Copied copied;
    CHECK(copied.downloads.is_pinned());
    CHECK(fake::live().pinned == before.pinned + 1);
    for (int i = 1; i < 20; i += 2)
    {
      fake::Gate earlier{ComputeStream::get()};
      copied.set(i);
      copied.start();  // returns while the gate is closed
      copied.set(i + 1);
      CHECK(!copied.holds(i));
      earlier.open();
      copied.downloads.wait();
      CHECK(copied.holds(i));
    }
    ComputeStream::synchronize();
    fake::Gate copies{copied.downloads.stream()};
    copied.start();
    copied.set(0);
    std::this_thread::sleep_for(std::chrono::milliseconds{20});
    CHECK(!is_idle(ComputeStream::get()));
    copies.open();
    ComputeStream::synchronize();
    CHECK(copied.holds(20));
  }
  ComputeStream::synchronize();
  CHECK(fake::live() == before);
  CHECK(fake::violations() == violations);
}

TEST_CASE("the memory stays pinned until the copies to it are complete")
{
  const Watchdog watchdog;
  std::optional<Copied> copied;
  copied.emplace();
  fake::Gate gate{ComputeStream::get()};
  copied->start();
  std::thread opens{[&] {
    std::this_thread::sleep_for(std::chrono::milliseconds{10});
    gate.open();
  }};
  copied.reset();  // AddressSanitizer would report a copy to freed memory
  opens.join();
  CHECK(fake::live().pinned == 0);
}

TEST_CASE("where the memory cannot be pinned, the host waits for the copies")
{
  std::vector<int> host(n);
  fake::fail("cudaHostRegister", cudaErrorMemoryAllocation);
  {
    Copied copied;
    CHECK(!copied.downloads.is_pinned());
    copied.set(3);
    copied.start();
    CHECK(copied.holds(3));
  }
  CHECK(fake::live().pinned == 0);
  const CudaDownloads first{std::as_writable_bytes(std::span{host})};
  const CudaDownloads second{std::as_writable_bytes(std::span{host}.first(1))};
  CHECK(first.is_pinned());
  CHECK(!second.is_pinned());
  CHECK(!CudaDownloads{{}}.is_pinned());
}

TEST_CASE("another thread may wait for the copies on its rank's device, and gets their error")
{
  cudaSetDevice(3);
  Copied copied;
  int device = -1;
  std::string error;
  copied.start();
  std::thread{[&] {
    copied.downloads.wait();
    cudaGetDevice(&device);
    fake::fail("cudaEventQuery", cudaErrorIllegalAddress);
    error = message_of<CommunicationError>([&] { copied.downloads.wait(); });
  }}.join();
  cudaSetDevice(0);
  CHECK(device == 3);
  CHECK(mentions(error, "cudaErrorIllegalAddress", "for copies to the host"));
}

TEST_CASE("copies that CUDA refuses are an error, after which the stream and the memory are usable")
{
  Copied copied;
  for (const char* function : {"cudaMemcpyAsync", "cudaEventRecord", "cudaStreamWaitEvent"})
    for (const int after : {0, 1})
    {
      if (after == 1 && function == std::string{"cudaMemcpyAsync"}) continue;
      CAPTURE(function, after);
      copied.set(after + 1);
      fake::fail(function, cudaErrorIllegalAddress, after);
      CHECK(mentions(message_of<DeviceError>([&] { copied.start(); }), function,
                     "cudaErrorIllegalAddress"));
      copied.set(after + 3);
      copied.start();
      copied.downloads.wait();
      CHECK(copied.holds(after + 3));
    }
}

TEST_CASE("copies to the host cannot be captured")
{
  Copied copied;
  CHECK(
      mentions(message_of<CaptureError>([&] { (void)CudaGraph::capture([&] { copied.start(); }); }),
               "got a download of 1 matrices to the host in a step that is captured"));
  copied.start();
  copied.downloads.wait();
  CHECK(copied.holds(0));
}

}  // namespace cubist::test::engine_cuda_downloads_test
