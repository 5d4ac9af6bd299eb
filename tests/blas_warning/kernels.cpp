// SPDX-License-Identifier: BSD-3-Clause
// The program that tests/blas_warning/check.sh runs: it launches several times, multiplies, and
// prints the kernels of its BLAS if the processor has AVX2.
#include <array>
#include <cstdio>

#include "cubist/backend/threads.hpp"
#ifdef CUBIST_WITH_MPI
#include "cubist/backend/mpi.hpp"
using Backend = cubist::Mpi;
#else
using Backend = cubist::Threads;
#endif

int main()
{
  for (int i = 0; i < 3; ++i)
    cubist::launch<Backend>({}, [&](auto& world) {
      cubist::launch<cubist::Threads>({.ranks = 2}, [](auto& threads) {
        const std::array x{1.0};
        std::array y{0.0};
        const cubist::MatrixView<const double> X{x.data(), {1, 1}};
        cubist::HostEngine{}.gemm(cubist::Op::none, cubist::Op::none, 1.0, X, X, 0.0,
                                  cubist::MatrixView<double>{y.data(), {1, 1}});
        threads.barrier();
      });
      if (i > 0 || world.rank() > 0) return;
      const bool newer = cubist::Processor::current().avx2;
      std::printf("%s\n", newer ? cubist::blas_core_name().c_str() : "unknown");
    });
}
