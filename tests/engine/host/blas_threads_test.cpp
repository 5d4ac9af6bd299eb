// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/engine/host/blas_threads.hpp"

#include "catch.hpp"

using namespace cubist;

namespace
{
// With another BLAS than OpenBLAS the number is not ours to set.
bool settable() { return openblas_get_num_threads != nullptr; }
int threads() { return settable() ? openblas_get_num_threads() : 0; }
}  // namespace

TEST_CASE("BLAS threads are set for a scope, and given back")
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

TEST_CASE("BLAS threads are given back when an error passes")
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

TEST_CASE("BLAS tells its kernels, or that they are unknown")
{
  CHECK_FALSE(blas_core_name().empty());
  CHECK((blas_core_name() == "unknown") == (openblas_get_corename == nullptr));
}
