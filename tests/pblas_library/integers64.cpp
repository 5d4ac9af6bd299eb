// SPDX-License-Identifier: BSD-3-Clause
// mpiexec -n 4 cubist_pblas_integers64: calls a routine of libcubist_pblas64, whose integers have
// 64 bits. Debian's ScaLAPACK has 32 bits, so this program defines the two routines of BLACS that
// the library needs, for one context: a row of all processes.

#include <array>
#include <cstdint>
#include <cstdio>
#include <vector>

#include <mpi.h>

#include "routines.hpp"

extern "C" {
[[gnu::visibility("default")]] void blacs_get_(const std::int64_t*, const std::int64_t*,
                                               std::int64_t* value)
{
  *value = MPI_Comm_c2f(MPI_COMM_WORLD);
}
[[gnu::visibility("default")]] void blacs_gridinfo_(const std::int64_t*, std::int64_t* rows,
                                                    std::int64_t* cols, std::int64_t* row,
                                                    std::int64_t* col)
{
  int size = 0;
  int rank = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  *rows = 1;
  *cols = size;
  *row = 0;
  *col = rank;
}
CUBIST_PBLAS_GEADD(double, pdgeadd, PDGEADD)
}

int main(int argc, char** argv)
{
  MPI_Init(&argc, &argv);
  int size = 0;
  int rank = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  // C = 2 A^T + C, where each process has one row or column, and element (i, j) of A is 10 i + j.
  const std::int64_t n = size;
  const std::int64_t first = 1;
  const std::array<std::int64_t, 9> descriptor{1, 0, n, n, n, 1, 0, 0, n};
  std::vector<double> a;
  for (int i = 0; i < size; ++i) a.push_back(10 * i + rank);
  std::vector<double> c(a.size(), 0.5);
  const double two = 2;
  const double one = 1;
  pdgeadd_("T", &n, &n, &two, a.data(), &first, &first, descriptor.data(), &one, c.data(), &first,
           &first, descriptor.data());
  int wrong = 0;
  for (int i = 0; i < size; ++i)
    wrong += c[static_cast<std::size_t>(i)] == 2 * (10 * rank + i) + 0.5 ? 0 : 1;
  MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0) std::printf("%d wrong elements\n", wrong);
  MPI_Finalize();
  return wrong == 0 ? 0 : 1;
}
