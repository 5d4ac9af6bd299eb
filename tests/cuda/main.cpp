// SPDX-License-Identifier: BSD-3-Clause

// cubist_cuda_tests NAME: compares the results of GPUs with the host's. Without a GPU it says so
// and succeeds, because the test was at least compiled and linked.

#include <algorithm>
#include <array>
#include <cstdio>
#include <exception>
#include <string_view>

#include <cuda_runtime_api.h>

#include "checks.hpp"
#include "gpus.hpp"

namespace
{

using namespace cubist::test;

struct Test
{
  std::string_view name;
  void (*run)(Comparison& found);
};
constexpr std::array tests{
    Test{"engine", check_engine},       Test{"products", check_products},
    Test{"attention", check_attention}, Test{"backend", check_backend},
    Test{"steps", check_steps},         Test{"transformers", check_transformers},
    Test{"overlap", check_overlap},     Test{"saves", check_saves}};

}  // namespace

int main(int argc, char** argv)
try
{
  const auto* const test = std::find_if(
      tests.begin(), tests.end(), [&](const Test& t) { return argc == 2 && t.name == argv[1]; });
  if (test == tests.end())
  {
    std::printf("which test? One of");
    for (const auto& t : tests) std::printf(" %s", t.name.data());
    std::printf("\n");
    return 2;
  }
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0)
  {
    std::printf("no GPU here: the test was compiled, not run\n");
    return 0;
  }
  examples::Gpus::share();
  Comparison found;
  test->run(found);
  return found.report();
}
catch (const std::exception& e)
{
  std::printf("FAILED: %s\n", e.what());
  return 1;
}
