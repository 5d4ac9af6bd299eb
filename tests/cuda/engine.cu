// SPDX-License-Identifier: BSD-3-Clause

// Compares CudaEngine with HostEngine: every operation on all scalars, and a network.
// host_results.cpp, which nvcc does not compile, computes the host's results.

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <cuda_runtime_api.h>

#include "cubist/core/fingerprint.hpp"
#include "cubist/engine/cuda/engine.hpp"

#include "checks.hpp"
#include "engine_comparison.hpp"
#include "host_results.hpp"
#include "network.hpp"

using namespace cubist;
using namespace cubist::test;

#ifndef CUBIST_QUICK_TESTS
extern template void cubist::test::compare_engines<float>(Comparison&);
extern template void cubist::test::compare_engines<double>(Comparison&);
extern template void cubist::test::compare_engines<std::complex<float>>(Comparison&);
extern template void cubist::test::compare_engines<std::complex<double>>(Comparison&);
extern template void cubist::test::compare_engines<bfloat16>(Comparison&);
extern template void cubist::test::compare_engines<cubist::half>(Comparison&);
#endif

namespace
{

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

/// Checks that sums and folds in a captured CUDA graph have the same bits as direct launches, on
/// every replay.
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
  ComputeStream::synchronize();  // checks that the error is cleared

  int waits = 0;
  ComputeStream::set_wait([&] { ++waits; });
  ComputeStream::synchronize();
  ComputeStream::set_wait({});
  found.check(waits == 1, "the wait function that a backend sets");
}

}  // namespace

void cubist::test::check_engine(Comparison& found)
{
  compare_engines<double>(found);
  compare_engines<std::complex<float>>(found);
  compare_engines<bfloat16>(found);
#ifndef CUBIST_QUICK_TESTS
  compare_engines<float>(found);
  compare_engines<std::complex<double>>(found);
  compare_engines<cubist::half>(found);
#endif
  compare_captured<float>(found);
  compare_captured<bfloat16>(found);
  compare_networks(found);
  check_errors(found);
}
