// SPDX-License-Identifier: BSD-3-Clause
#include <memory>

#include "cubist/engine/host/blas_threads.hpp"

#include "catch.hpp"

namespace cubist::test::engine_host_blas_threads_test
{

// Whether the number of threads can be set: only OpenBLAS has functions for that.
static bool settable() { return blas_threads() != 0; }

TEST_CASE("BLAS threads are set for a scope, and restored")
{
  const int before = blas_threads();
  {
    const BlasThreads one{1};
    CHECK(blas_threads() == (settable() ? 1 : 0));
    {
      const BlasThreads two{2};
      CHECK(blas_threads() == (settable() ? 2 : 0));
      const BlasThreads same{2};
      CHECK(blas_threads() == (settable() ? 2 : 0));
    }
    CHECK(blas_threads() == (settable() ? 1 : 0));
  }
  CHECK(blas_threads() == before);
}

TEST_CASE("BLAS threads are restored where scopes of two threads overlap")
{
  const int before = blas_threads();
  auto first = std::make_unique<BlasThreads>(before + 1);
  auto second = std::make_unique<BlasThreads>(before + 2);
  first.reset();
  CHECK(blas_threads() == (settable() ? before + 2 : 0));
  first = std::make_unique<BlasThreads>(before + 3);
  second.reset();
  CHECK(blas_threads() == (settable() ? before + 3 : 0));
  first.reset();
  CHECK(blas_threads() == before);
}

TEST_CASE("BLAS threads are restored by an exception")
{
  const int before = blas_threads();
  try
  {
    const BlasThreads other{before == 1 ? 2 : 1};
    throw 1;
  }
  catch (int)
  {
  }
  CHECK(blas_threads() == before);
}

TEST_CASE("the kernels of BLAS are named, or unknown")
{
  CHECK_FALSE(blas_core_name().empty());
  CHECK((blas_core_name() == "unknown") == !settable());
}

}  // namespace cubist::test::engine_host_blas_threads_test
