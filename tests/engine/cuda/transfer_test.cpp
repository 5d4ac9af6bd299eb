// SPDX-License-Identifier: BSD-3-Clause
// Tests copies of matrices on the mock of CUDA.

#include "cubist/engine/cuda/buffer.hpp"
#include "cubist/engine/cuda/transfer.hpp"

#include "catch.hpp"
#include "fake.hpp"
#include "message.hpp"

namespace cubist::test::engine_cuda_transfer_test
{

static void copy(MatrixView<const int> from, MatrixView<int> to, cudaMemcpyKind kind)
{
  cubist::detail::enqueue_copy(from, to, kind, ComputeStream::get());
  ComputeStream::synchronize();
}

TEST_CASE("a matrix with gaps between its rows is copied, and so is a repeated row")
{
  const std::vector<int> numbers{1, 2, 3, 4, 5, 6};
  CudaBuffer<int> device(6);
  const MatrixView<int> left{device.data(), 2, 2, 3};
  copy({numbers.data(), {2, 2}}, left, cudaMemcpyHostToDevice);
  std::vector<int> all(6);
  copy({device.data(), {1, 6}}, {all.data(), {1, 6}}, cudaMemcpyDeviceToHost);
  CHECK(all == std::vector<int>{1, 2, 0, 3, 4, 0});
  std::vector<int> part(4);
  copy(left, {part.data(), {2, 2}}, cudaMemcpyDeviceToHost);
  CHECK(part == std::vector<int>{1, 2, 3, 4});
  copy({device.data() + 3, 2, 2, 0}, {part.data(), {2, 2}}, cudaMemcpyDeviceToHost);
  CHECK(part == std::vector<int>{3, 4, 3, 4});
}

TEST_CASE("nothing is enqueued for an empty matrix, or for a copy of a matrix to itself")
{
  const fake::Gate gate{ComputeStream::get()};
  CudaBuffer<int> device;
  const MatrixView<int> empty{device.data(), {0, 3}};
  fake::fail("cudaMemcpyAsync", cudaErrorIllegalAddress);
  cubist::detail::enqueue_copy(MatrixView<const int>{empty}, empty, cudaMemcpyDeviceToDevice,
                               ComputeStream::get());
  int x = 1;
  const MatrixView<int> one{&x, {1, 1}};
  cubist::detail::enqueue_copy(MatrixView<const int>{one}, one, cudaMemcpyDeviceToDevice,
                               ComputeStream::get());
  fake::fail("cudaMemcpyAsync", cudaSuccess);
}

TEST_CASE("a copy between other shapes, or one that CUDA refuses, is an error")
{
  CudaBuffer<int> device(6);
  std::vector<int> host(6);
  const auto to_host = [&](Shape shape) {
    copy({device.data(), {2, 3}}, {host.data(), shape}, cudaMemcpyDeviceToHost);
  };
  CHECK(mentions(message_of<ShapeError>([&] { to_host({3, 2}); }), "(2, 3)", "(3, 2)"));
  fake::fail("cudaMemcpyAsync", cudaErrorIllegalAddress);
  CHECK(mentions(message_of<DeviceError>([&] {
                   to_host({2, 3});
                 }),
                 "cudaErrorIllegalAddress", "a copy of (2, 3) elements"));
}

}  // namespace cubist::test::engine_cuda_transfer_test
