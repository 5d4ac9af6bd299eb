// SPDX-License-Identifier: BSD-3-Clause

// CudaEngine compared with HostEngine: every operation on all scalars, and a network. The results
// of the host are computed in host_results.cpp, which nvcc does not compile. Without a GPU the test
// prints that and succeeds: it has been compiled and linked.

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <cuda_runtime_api.h>

#include "cubist/core/fingerprint.hpp"
#include "cubist/engine/affine.hpp"
#include "cubist/engine/batch.hpp"
#include "cubist/engine/cuda/engine.hpp"
#include "cubist/engine/host/engine.hpp"

#include "comparison.hpp"
#include "engine_operations.hpp"
#include "host_results.hpp"
#include "network.hpp"

using namespace cubist;
using namespace cubist::test;

namespace
{

template <Scalar T>
void compare_engines(Comparison& found)
{
  const auto got = engine_results<CudaEngine, T>();
  const auto expected = host_engine_results<T>();
  found.check(got.size() == expected.size(), "the number of results");
  for (std::size_t r = 0; r < std::min(got.size(), expected.size()); ++r)
    found.equal(got[r].second, expected[r].second,
                element_name<T>() + ", " + got[r].first + ", result " + std::to_string(r));
}

void compare_networks(Comparison& found)
{
  const OnOneRank<CudaEngine> device;
  const HostNetwork<float> host = host_network<float>();
  const auto all_near = [&]<class T>(const NamedGlobalsOf<T>& got,
                                     const NamedGlobalsOf<T>& expected, double units) {
    for (std::size_t r = 0; r < got.size(); ++r)
      found.near(got[r].second, expected[r].second, units, element_name<T>() + " " + got[r].first);
  };
  all_near(device.exact(), host.exact, 0);
  all_near(device.functions(), host.functions, 16);
  all_near(device.training(), host.training, 4096);
  // The order of sums is the same on every run.
  all_near(device.training(), device.training(), 0);

  all_near(OnOneRank<CudaEngine, bfloat16>{}.training(), host_network<bfloat16>().training, 8);

  const auto all = gather(device.uniform({17, 10}, 3));
  const auto x17 = device.uniform({17, 10}, 3);
  const auto fingerprint_here = CudaEngine{}.fold(std::uint64_t{0}, cubist::detail::Sum{},
                                                  FingerprintTerm{0, 0, 10}, x17.valid());
  found.check(fingerprint_here == fingerprint(MatrixView<const float>{all.data(), {17, 10}}),
              "a fingerprint");

  // An extended lambda.
  auto x = device.uniform({5, 7}, 1);
  x.generate([] __host__ __device__(std::size_t i, std::size_t j) {
    return static_cast<float>(10 * i + j);
  });
  found.check(gather(x)(3, 2) == 32, "generate by an extended lambda");

  auto y = x;
  y.generate([] __host__ __device__(std::size_t i, std::size_t j) {
    return i == 3 && j == 2 ? INFINITY : 0.0F;
  });
  const Parameters<float, AxisMesh<Grid3D::Axes, OneRank<CudaEngine>>> list{
      {"w", x.view(), y.view()}};
  std::string message;
  try
  {
    check_finite(0, list, 1);
  }
  catch (const NumericError& e)
  {
    message = e.what();
  }
  found.check(message.find("an infinity in the gradient of w at row 3, column 2") !=
                  std::string::npos,
              "check_finite: " + message);
}

/// Z = X W + b and Y = gelu_tanh(Z), with sizes that cublasLt supports, and sizes that it may not.
template <RealScalar T>
void compare_affine(Comparison& found, std::size_t m, std::size_t n, std::size_t k)
{
  const auto random = [](auto view, std::uint64_t seed) {
    for (std::size_t i = 0; i < view.rows(); ++i)
      for (std::size_t j = 0; j < view.cols(); ++j)
        view(i, j) = Philox{seed, 1}.symmetric<Accumulator<T>>(i * view.cols() + j, 1);
    return view;
  };
  std::vector<T> host(m * k + k * n + n + 4 * m * n);
  T* next = host.data();
  const auto take = [&](std::size_t rows, std::size_t cols) {
    return MatrixView<T>{std::exchange(next, next + rows * cols), {rows, cols}};
  };
  const auto x = random(take(m, k), 1);
  const auto w = random(take(k, n), 2);
  const auto b = random(take(1, n), 3);
  const auto z = take(m, n);
  const auto y = take(m, n);
  const auto device_z = take(m, n);
  const auto device_y = take(m, n);
  const auto in = [](MatrixView<T> v) { return MatrixView<const T>{v}; };
  cubist::detail::affine(HostEngine{}, in(x), in(w), in(b), gelu_tanh, z, y);

  const CudaEngine engine;
  CudaBuffer<T> xs(m * k), ws(k * n), bs(n), zs(m * n), ys(m * n);
  const MatrixView<T> dx{xs.data(), {m, k}}, dw{ws.data(), {k, n}}, db{bs.data(), {1, n}};
  const MatrixView<T> dz{zs.data(), {m, n}}, dy{ys.data(), {m, n}};
  engine.upload(in(x), dx);
  engine.upload(in(w), dw);
  engine.upload(in(b), db);
  const std::string what = "Z = X W + b of " + std::to_string(m) + " x " + std::to_string(k) +
                           " x " + std::to_string(n) + " in " + element_name<T>();
  const auto compare = [&](MatrixView<T> got, MatrixView<T> wanted, const char* of) {
    double most = 0;
    for (std::size_t i = 0; i < wanted.size(); ++i)
      most = std::max(most, std::abs(static_cast<double>(got.data()[i]) -
                                     static_cast<double>(wanted.data()[i])));
    const double bound =
        8 * static_cast<double>(k) * std::numeric_limits<Accumulator<T>>::epsilon() +
        8 * static_cast<double>(std::numeric_limits<T>::epsilon());
    found.check(most <= bound, what + ", " + of + ": off by " + std::to_string(most));
  };
  const bool fused = engine.fused_affine(in(dx), in(dw), in(db), gelu_tanh, dz, dy);
  std::printf("%s: %s\n", what.c_str(), fused ? "in one pass" : "cublasLt has none");
  cubist::detail::affine(engine, in(dx), in(dw), in(db), gelu_tanh, dz, dy);
  engine.download(in(dz), device_z);
  engine.download(in(dy), device_y);
  compare(device_z, z, "Z");
  compare(device_y, y, "Y");
  cubist::detail::affine(engine, in(dx), in(dw), in(db), dy);
  engine.download(in(dy), device_y);
  compare(device_y, z, "alone");
}

/// Five products in one call, compared with one by one.
template <RealScalar T>
void compare_batch(Comparison& found)
{
  constexpr Shape a{7, 9}, b{9, 6}, c{7, 6};
  constexpr std::size_t count = 5;
  std::vector<T> numbers(count * (a.size() + b.size() + c.size()));
  for (std::size_t i = 0; i < numbers.size(); ++i)
    numbers[i] = Philox{7, 1}.symmetric<Accumulator<T>>(i, 1);
  const MatrixView<const T> host{numbers.data(), {1, numbers.size()}};
  const auto multiplied = [&](bool at_once) {
    const CudaEngine engine;
    CudaBuffer<T> buffer(numbers.size());
    engine.upload(host, MatrixView<T>{buffer.data(), host.shape()});
    cubist::detail::ProductBatch<T> batch;
    T* next = buffer.data();
    for (std::size_t i = 0; i < count; ++i)
    {
      // A is stored transposed.
      const MatrixView<const T> at{std::exchange(next, next + a.size()), {a.cols, a.rows}};
      const MatrixView<const T> bi{std::exchange(next, next + b.size()), b};
      const MatrixView<T> ci{std::exchange(next, next + c.size()), c};
      if (at_once)
        batch.add({at, Op::transpose}, bi, ci);
      else
        engine.gemm(Op::transpose, Op::none, T{2}, at, bi, T{3}, ci);
    }
    batch.multiply(engine, T{2}, T{3});
    std::vector<T> result(numbers.size());
    engine.download(MatrixView<const T>{buffer.data(), host.shape()},
                    MatrixView<T>{result.data(), host.shape()});
    return result;
  };
  const auto got = multiplied(true);
  const auto wanted = multiplied(false);
  double most = 0;
  for (std::size_t i = 0; i < got.size(); ++i)
    most = std::max(most, std::abs(static_cast<double>(got[i]) - static_cast<double>(wanted[i])));
  found.check(most <= 64 * static_cast<double>(std::numeric_limits<T>::epsilon()),
              "a batch of products in " + element_name<T>() + ": off by " + std::to_string(most));
}

/// Sums and folds that are captured in a CUDA graph have the bits of direct launches, on every
/// replay.
template <RealScalar T>
void compare_captured(Comparison& found)
{
  constexpr Shape shape{3000, 24};
  const CudaEngine engine;
  CudaBuffer<T> x(shape.size()), y(shape.size()), sums(2 * shape.cols), rows(shape.rows);
  std::vector<T> host(shape.size());
  for (std::size_t i = 0; i < host.size(); ++i)
    host[i] = Philox{11, 1}.symmetric<Accumulator<T>>(i, 1);
  const MatrixView<T> in{x.data(), shape}, out{y.data(), shape}, all_rows{rows.data(), {3000, 1}};
  const MatrixView<T> of_columns{sums.data(), {1, 24}}, of_map{sums.data() + 24, {1, 24}};
  engine.upload(MatrixView<const T>{host.data(), shape}, in);
  const auto run = [&] {
    engine.column_sums(MatrixView<const T>{in}, of_columns);
    engine.map_sums(out, of_map, cubist::detail::Sum{}, in, in);
    engine.row_fold(all_rows, T{}, cubist::detail::Sum{}, cubist::detail::Itself{}, in);
  };
  const auto results = [&] {
    std::vector<T> all(sums.size() + rows.size());
    engine.download(MatrixView<const T>{sums.data(), {1, 48}}, MatrixView<T>{all.data(), {1, 48}});
    engine.download(MatrixView<const T>{rows.data(), {1, 3000}},
                    MatrixView<T>{all.data() + 48, {1, 3000}});
    engine.fill(of_columns, T{}), engine.fill(of_map, T{}), engine.fill(all_rows, T{});
    return all;
  };
  run();
  const auto wanted = results();
  const auto ok = [](cudaError_t code) {
    cubist::detail::require_cuda(code, "a CUDA graph", "a test of kernels");
  };
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t replay = nullptr;
  ok(cudaStreamBeginCapture(ComputeStream::get(), cudaStreamCaptureModeThreadLocal));
  run();
  ok(cudaStreamEndCapture(ComputeStream::get(), &graph));
  ok(cudaGraphInstantiate(&replay, graph, 0));
  for (int i = 0; i < 2; ++i)
  {
    ok(cudaGraphLaunch(replay, ComputeStream::get()));
    found.equal(results(), wanted, element_name<T>() + ", sums of a CUDA graph");
  }
  ok(cudaGraphExecDestroy(replay));
  ok(cudaGraphDestroy(graph));
}

void check_errors(Comparison& found)
{
  std::string message;
  try
  {
    const CudaBuffer<double> huge(std::size_t{1} << 40);
  }
  catch (const DeviceError& e)
  {
    message = e.what();
  }
  found.check(message.find("cudaErrorMemoryAllocation") != std::string::npos,
              "a buffer that is too large: " + message);
  CudaBuffer<double> small(3);
  ComputeStream::synchronize();  // the error is cleared

  int waits = 0;
  ComputeStream::set_wait([&] { ++waits; });
  ComputeStream::synchronize();
  ComputeStream::set_wait({});
  found.check(waits == 1, "the wait function that a backend sets");
}

}  // namespace

int main()
try
{
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0)
  {
    std::printf("no GPU here: the GPU's engine was compiled, not run\n");
    return 0;
  }
  Comparison found;
  compare_engines<double>(found);
  compare_engines<std::complex<float>>(found);
  compare_engines<bfloat16>(found);
#ifndef CUBIST_QUICK_TESTS
  compare_engines<float>(found);
  compare_engines<std::complex<double>>(found);
  compare_engines<cubist::half>(found);
#endif
  compare_batch<float>(found);
  compare_batch<bfloat16>(found);
  compare_captured<float>(found);
  compare_captured<bfloat16>(found);
  for (const std::size_t n : {64, 40, 37})
  {
    compare_affine<float>(found, 96, n, 128);
    compare_affine<double>(found, 96, n, 128);
    compare_affine<bfloat16>(found, 96, n, 128);
  }
  compare_networks(found);
  check_errors(found);
  return found.report();
}
catch (const std::exception& e)
{
  std::printf("FAILED: %s\n", e.what());
  return 1;
}
