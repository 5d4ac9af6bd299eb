// SPDX-License-Identifier: BSD-3-Clause
// A ScaLAPACK program, which knows nothing of cubist: C = A B on a grid of BLACS.
//
//   mpiexec -n 4 ./blacs_multiply                                  ScaLAPACK multiplies
//   LD_PRELOAD=libcubist_pblas.so mpiexec -n 4 ./blacs_multiply    cubist multiplies

#include <algorithm>
#include <cstdio>
#include <vector>

extern "C" {
void blacs_pinfo_(int* rank, int* processes);
void blacs_get_(const int* context, const int* what, int* value);
void blacs_gridinit_(int* context, const char* order, const int* rows, const int* cols);
void blacs_gridinfo_(const int* context, int* rows, int* cols, int* row, int* col);
void blacs_exit_(const int* proceed);
int numroc_(const int* n, const int* block, const int* part, const int* source, const int* parts);
void descinit_(int* descriptor, const int* m, const int* n, const int* mb, const int* nb,
               const int* row, const int* col, const int* context, const int* ld, int* info);
void pdgemm_(const char*, const char*, const int*, const int*, const int*, const double*,
             const double*, const int*, const int*, const int*, const double*, const int*,
             const int*, const int*, const double*, double*, const int*, const int*, const int*);
}

int main()
{
  const int n = 1000, block = 64, zero = 0, one = 1, system = -1;
  int rank, processes, context, rows = 1, row, col, info, descriptor[9];
  blacs_pinfo_(&rank, &processes);
  while (processes % (rows + 1) == 0 && (rows + 1) * (rows + 1) <= processes) ++rows;
  int cols = processes / rows;
  blacs_get_(&system, &zero, &context);
  blacs_gridinit_(&context, "Row-major", &rows, &cols);
  blacs_gridinfo_(&context, &rows, &cols, &row, &col);

  const int m_local = std::max(1, numroc_(&n, &block, &row, &zero, &rows));
  const int n_local = std::max(1, numroc_(&n, &block, &col, &zero, &cols));
  descinit_(descriptor, &n, &n, &block, &block, &zero, &zero, &context, &m_local, &info);
  std::vector<double> a(static_cast<std::size_t>(m_local) * static_cast<std::size_t>(n_local), 1);
  std::vector<double> b(a.size(), 2), c(a.size());
  const double alpha = 1, beta = 0;
  pdgemm_("N", "N", &n, &n, &n, &alpha, a.data(), &one, &one, descriptor, b.data(), &one, &one,
          descriptor, &beta, c.data(), &one, &one, descriptor);
  if (rank == 0) std::printf("C(1, 1) = %g, and 2 n = %d\n", c[0], 2 * n);
  blacs_exit_(&zero);
  return 0;
}
