// SPDX-License-Identifier: BSD-3-Clause

// The GPU's engine against the host's: every operation on all scalars, and a network on top of
// them. Without a GPU it says so, and has at least been compiled and linked.

#include <algorithm>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <string>

#include <cuda_runtime_api.h>

#include "cubist/core/fingerprint.hpp"
#include "cubist/engine/cuda_engine.hpp"
#include "cubist/engine/host_engine.hpp"

#include "comparison.hpp"
#include "engine_operations.hpp"
#include "network.hpp"

using namespace cubist;
using namespace cubist::test;

namespace
{

template <Scalar T>
void compare_engines(Comparison& found)
{
  const auto got = engine_results<CudaEngine, T>();
  const auto expected = engine_results<HostEngine, T>();
  found.check(got.size() == expected.size(), "the number of results");
  for (std::size_t r = 0; r < std::min(got.size(), expected.size()); ++r)
    found.equal(got[r].second, expected[r].second,
                element_name<T>() + ", " + got[r].first + ", result " + std::to_string(r));
}

void compare_networks(Comparison& found)
{
  const OnOneRank<CudaEngine> device;
  const OnOneRank<HostEngine> host;
  const auto all_near = [&]<class T>(const NamedGlobalsOf<T>& got,
                                     const NamedGlobalsOf<T>& expected, double units) {
    for (std::size_t r = 0; r < got.size(); ++r)
      found.near(got[r].second, expected[r].second, units, element_name<T>() + " " + got[r].first);
  };
  all_near(device.exact(), host.exact(), 0);
  all_near(device.functions(), host.functions(), 16);
  all_near(device.training(), host.training(), 4096);
  // The order of sums is the same on every run.
  all_near(device.training(), device.training(), 0);

  all_near(OnOneRank<CudaEngine, bfloat16>{}.training(),
           OnOneRank<HostEngine, bfloat16>{}.training(), 8);

  const auto all = gather(device.uniform({17, 10}, 3));
  const auto x17 = device.uniform({17, 10}, 3);
  const auto fingerprint_here = CudaEngine{}.fold(std::uint64_t{0}, cubist::detail::Sum{},
                                                  FingerprintTerm{0, 0, 10}, x17.valid());
  found.check(fingerprint_here == fingerprint(MatrixView<const float>{all.data(), {17, 10}}),
              "a fingerprint");

  // A user's lambda.
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
  ComputeStream::synchronize();  // the error has gone

  int waits = 0;
  ComputeStream::wait_by([&] { ++waits; });
  ComputeStream::synchronize();
  ComputeStream::wait_by({});
  found.check(waits == 1, "the way to wait that a backend gives");
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
  compare_engines<float>(found);
  compare_engines<double>(found);
  compare_engines<std::complex<float>>(found);
  compare_engines<std::complex<double>>(found);
  compare_engines<bfloat16>(found);
  compare_engines<cubist::half>(found);
  compare_networks(found);
  check_errors(found);
  return found.report();
}
catch (const std::exception& e)
{
  std::printf("FAILED: %s\n", e.what());
  return 1;
}
