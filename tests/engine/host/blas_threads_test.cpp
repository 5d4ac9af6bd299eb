// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/engine/host/blas_threads.hpp"

#include "catch.hpp"

namespace engine_host_blas_threads_test
{

using namespace cubist;

namespace
{
// Only OpenBLAS has a function for it.
bool settable() { return openblas_get_num_threads != nullptr; }
int threads() { return settable() ? openblas_get_num_threads() : 0; }
}  // namespace

TEST_CASE("BLAS threads are set for a scope, and restored")
{
  const int before = threads();
  {
    const BlasThreads one{1};
    CHECK(threads() == (settable() ? 1 : 0));
    {
      const BlasThreads two{2};
      CHECK(threads() == (settable() ? 2 : 0));
      const BlasThreads same{2};
      CHECK(threads() == (settable() ? 2 : 0));
    }
    CHECK(threads() == (settable() ? 1 : 0));
  }
  CHECK(threads() == before);
}

TEST_CASE("BLAS threads are restored by an exception")
{
  const int before = threads();
  try
  {
    const BlasThreads other{before == 1 ? 2 : 1};
    throw 1;
  }
  catch (int)
  {
  }
  CHECK(threads() == before);
}

TEST_CASE("the kernels of BLAS are named, or unknown")
{
  CHECK_FALSE(blas_core_name().empty());
  CHECK((blas_core_name() == "unknown") == (openblas_get_corename == nullptr));
}

}  // namespace engine_host_blas_threads_test
