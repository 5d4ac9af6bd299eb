// SPDX-License-Identifier: BSD-3-Clause

#include <array>
#include <string>

#include <mpi.h>

#include "scalapack/scalapack.hpp"

// ScaLAPACK and BLACS have no headers.
extern "C" {
int Csys2blacs_handle(MPI_Comm);
void Cfree_blacs_system_handle(int);
void Cblacs_gridinit(int* context, const char* order, int rows, int cols);
void Cblacs_gridexit(int context);
void descinit_(int* descriptor, const int* m, const int* n, const int* row_block,
               const int* col_block, const int* first_row, const int* first_col, const int* context,
               const int* ld, int* info);
void pdgemm_(const char* op_a, const char* op_b, const int* m, const int* n, const int* k,
             const double* alpha, const double* a, const int* ia, const int* ja, const int* desc_a,
             const double* b, const int* ib, const int* jb, const int* desc_b, const double* beta,
             double* c, const int* ic, const int* jc, const int* desc_c);
void psgemm_(const char* op_a, const char* op_b, const int* m, const int* n, const int* k,
             const float* alpha, const float* a, const int* ia, const int* ja, const int* desc_a,
             const float* b, const int* ib, const int* jb, const int* desc_b, const float* beta,
             float* c, const int* ic, const int* jc, const int* desc_c);
void pdsymm_(const char* side, const char* uplo, const int* m, const int* n, const double* alpha,
             const double* a, const int* ia, const int* ja, const int* desc_a, const double* b,
             const int* ib, const int* jb, const int* desc_b, const double* beta, double* c,
             const int* ic, const int* jc, const int* desc_c);
void pdtrmm_(const char* side, const char* uplo, const char* trans, const char* diag, const int* m,
             const int* n, const double* alpha, const double* a, const int* ia, const int* ja,
             const int* desc_a, double* b, const int* ib, const int* jb, const int* desc_b);
void pdtrsm_(const char* side, const char* uplo, const char* trans, const char* diag, const int* m,
             const int* n, const double* alpha, const double* a, const int* ia, const int* ja,
             const int* desc_a, double* b, const int* ib, const int* jb, const int* desc_b);
void pdsyrk_(const char* uplo, const char* trans, const int* n, const int* k, const double* alpha,
             const double* a, const int* ia, const int* ja, const int* desc_a, const double* beta,
             double* c, const int* ic, const int* jc, const int* desc_c);
void pssymm_(const char* side, const char* uplo, const int* m, const int* n, const float* alpha,
             const float* a, const int* ia, const int* ja, const int* desc_a, const float* b,
             const int* ib, const int* jb, const int* desc_b, const float* beta, float* c,
             const int* ic, const int* jc, const int* desc_c);
void pstrmm_(const char* side, const char* uplo, const char* trans, const char* diag, const int* m,
             const int* n, const float* alpha, const float* a, const int* ia, const int* ja,
             const int* desc_a, float* b, const int* ib, const int* jb, const int* desc_b);
void pstrsm_(const char* side, const char* uplo, const char* trans, const char* diag, const int* m,
             const int* n, const float* alpha, const float* a, const int* ia, const int* ja,
             const int* desc_a, float* b, const int* ib, const int* jb, const int* desc_b);
void pssyrk_(const char* uplo, const char* trans, const int* n, const int* k, const float* alpha,
             const float* a, const int* ia, const int* ja, const int* desc_a, const float* beta,
             float* c, const int* ic, const int* jc, const int* desc_c);
}

namespace bench
{

namespace
{

using Descriptor = std::array<int, 9>;

Descriptor describe(const BlacsGrid& grid, std::size_t rows, std::size_t cols, std::size_t block)
{
  const int m = static_cast<int>(rows);
  const int n = static_cast<int>(cols);
  const int b = static_cast<int>(block);
  const int first = 0;
  const int context = grid.context();
  const cubist::Distribution distribution{layout_on(grid, {rows, cols}, block)};
  const int ld = std::max(1, static_cast<int>(distribution.local_shape(grid.rank()).rows));
  int info = 0;
  Descriptor descriptor{};
  descinit_(descriptor.data(), &m, &n, &b, &b, &first, &first, &context, &ld, &info);
  cubist::require<cubist::Error>(info == 0, "ScaLAPACK got a matrix of ", m, " x ", n,
                                 " in blocks of ", b, ", but rejects argument ", -info,
                                 "; use sizes that it can cut, or --scalapack off");
  return descriptor;
}

}  // namespace

bool has_scalapack() { return true; }

BlacsGrid::BlacsGrid(int ranks)
    : shape_{ranks}
{
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm members = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, rank < ranks ? 0 : MPI_UNDEFINED, rank, &members);
  if (members == MPI_COMM_NULL) return;
  rank_ = rank;
  context_ = handle_ = Csys2blacs_handle(members);
  Cblacs_gridinit(&context_, "Row-major", shape_.rows, shape_.cols);
  MPI_Comm_free(&members);
}

BlacsGrid::~BlacsGrid()
{
  if (rank_ < 0) return;
  Cblacs_gridexit(context_);
  Cfree_blacs_system_handle(handle_);
}

template <class T>
void scalapack_multiply(const BlacsGrid& grid, cubist::ProductSize size, std::size_t block,
                        const std::vector<T>& a, const std::vector<T>& b, std::vector<T>& c,
                        bool transposed_b, void* routine)
{
  const Descriptor of_a = describe(grid, size.m, size.k, block);
  const Descriptor of_b =
      transposed_b ? describe(grid, size.n, size.k, block) : describe(grid, size.k, size.n, block);
  const Descriptor of_c = describe(grid, size.m, size.n, block);
  const int m = static_cast<int>(size.m);
  const int n = static_cast<int>(size.n);
  const int k = static_cast<int>(size.k);
  const int one = 1;
  const T alpha = 1;
  const T beta = 0;
  const auto gemm = [&](auto function) {
    function("N", transposed_b ? "T" : "N", &m, &n, &k, &alpha, a.data(), &one, &one, of_a.data(),
             b.data(), &one, &one, of_b.data(), &beta, c.data(), &one, &one, of_c.data());
  };
  if constexpr (sizeof(T) == sizeof(float))
    gemm(routine != nullptr ? reinterpret_cast<decltype(&psgemm_)>(routine) : psgemm_);
  else
    gemm(routine != nullptr ? reinterpret_cast<decltype(&pdgemm_)>(routine) : pdgemm_);
}

template <class T>
void scalapack_triangle(const BlacsGrid& grid, const std::string& routine, cubist::ProductSize size,
                        std::size_t block, const std::vector<T>& a, const std::vector<T>& b,
                        std::vector<T>& c)
{
  constexpr bool is_float = sizeof(T) == sizeof(float);
  const auto pick = [](auto single, auto twice) {
    if constexpr (is_float)
      return single;
    else
      return twice;
  };
  const bool updates = routine == "syrk";
  const Descriptor of_a = describe(grid, size.m, updates ? size.k : size.m, block);
  const Descriptor of_c = describe(grid, size.m, updates ? size.m : size.n, block);
  const int m = static_cast<int>(size.m);
  const int n = static_cast<int>(size.n);
  const int k = static_cast<int>(size.k);
  const int one = 1;
  const T alpha = 1;
  const T beta = 0;
  if (routine == "symm")
    pick(pssymm_, pdsymm_)("L", "L", &m, &n, &alpha, a.data(), &one, &one, of_a.data(), b.data(),
                           &one, &one, of_c.data(), &beta, c.data(), &one, &one, of_c.data());
  else if (updates)
    pick(pssyrk_, pdsyrk_)("L", "N", &m, &k, &alpha, a.data(), &one, &one, of_a.data(), &beta,
                           c.data(), &one, &one, of_c.data());
  else
    (routine == "trmm" ? pick(pstrmm_, pdtrmm_) : pick(pstrsm_, pdtrsm_))(
        "L", "L", "N", "N", &m, &n, &alpha, a.data(), &one, &one, of_a.data(), c.data(), &one, &one,
        of_c.data());
}

template void scalapack_triangle(const BlacsGrid&, const std::string&, cubist::ProductSize,
                                 std::size_t, const std::vector<float>&, const std::vector<float>&,
                                 std::vector<float>&);
template void scalapack_triangle(const BlacsGrid&, const std::string&, cubist::ProductSize,
                                 std::size_t, const std::vector<double>&,
                                 const std::vector<double>&, std::vector<double>&);
template void scalapack_multiply(const BlacsGrid&, cubist::ProductSize, std::size_t,
                                 const std::vector<float>&, const std::vector<float>&,
                                 std::vector<float>&, bool, void*);
template void scalapack_multiply(const BlacsGrid&, cubist::ProductSize, std::size_t,
                                 const std::vector<double>&, const std::vector<double>&,
                                 std::vector<double>&, bool, void*);

}  // namespace bench
