// SPDX-License-Identifier: BSD-3-Clause
// mpiexec -n 6 cubist_pblas_laws: compares the routines of libcubist_pblas with ScaLAPACK's own, on
// all grids of the processes. Elements are small integers, so results are equal to the bit whatever
// the order of sums. Both libraries get the same random layouts, sub-matrices and factors, NaNs
// where nothing may be read, and every wrong argument that has a code.
//
// cubist_pblas_laws 5 runs fewer cases. With overlap it makes a call that must end the job, with
// scale a call that only scales C, and with repeated products of sizes 16 and 400, each twice.

#include <algorithm>
#include <array>
#include <climits>
#include <cmath>
#include <complex>
#include <cstdarg>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include <dlfcn.h>
#include <mpi.h>

extern "C" {
void blacs_get_(const int* context, const int* what, int* value);
void blacs_gridinit_(int* context, const char* order, const int* rows, const int* cols);
void blacs_gridinfo_(const int* context, int* rows, int* cols, int* row, int* col);
void blacs_gridexit_(const int* context);
void pdgetrf_(const int* m, const int* n, double* a, const int* ia, const int* ja, const int* desc,
              int* pivots, int* info);
void pdgetrs_(const char* trans, const int* n, const int* columns, const double* a, const int* ia,
              const int* ja, const int* desc, const int* pivots, double* b, const int* ib,
              const int* jb, const int* desc_b, int* info);

// Replaces ScaLAPACK's error handler, which prints and ends the job. Both libraries report wrong
// arguments here.
int reported = 0;
std::vector<std::string> warnings;
[[gnu::visibility("default")]] void PB_Cabort(int, const char*, int info) { reported = info; }
[[gnu::visibility("default")]] void PB_Cwarn(int, int, const char* routine, const char* format, ...)
{
  char text[200];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  warnings.push_back(std::string{routine} + ": " + text);
}
}

namespace
{

int failures = 0;
int comparisons = 0;
std::string context_text;  // names the case that runs

void check(bool holds, const std::string& law)
{
  ++comparisons;
  if (holds) return;
  if (++failures > 10) return;
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  std::fprintf(stderr, "process %d: not so: %s; %s\n", rank, law.c_str(), context_text.c_str());
}

/// A routine of both libraries.
template <class... A>
class Routine
{
 public:
  using Function = void(A...);

  explicit Routine(const std::string& name)
      : ours_{find(RTLD_DEFAULT, name)},
        reference_{find(scalapack(), name)}
  {
    check(ours_ != reference_, name + " is the library's");
  }
  void ours(A... a) const { ours_(a...); }
  void reference(A... a) const { reference_(a...); }

 private:
  static void* scalapack()
  {
    static void* const library = dlopen(CUBIST_SCALAPACK_LIBRARY, RTLD_NOW | RTLD_NOLOAD);
    return library;
  }
  static Function* find(void* where, const std::string& name)
  {
    // C functions have no underscore.
    void* const found = dlsym(where, (name[0] == 'C' ? name : name + "_").c_str());
    if (found == nullptr)
    {
      std::fprintf(stderr, "%s_ is missing\n", name.c_str());
      MPI_Abort(MPI_COMM_WORLD, 1);
    }
    return reinterpret_cast<Function*>(found);
  }

  Function* ours_;
  Function* reference_;
};

/// A process grid.
struct Grid
{
  Grid(const char* order, int r, int c)
      : rows{r},
        cols{c}
  {
    const int system = -1;
    const int what = 0;
    blacs_get_(&system, &what, &context);
    blacs_gridinit_(&context, order, &rows, &cols);
    blacs_gridinfo_(&context, &rows, &cols, &row, &col);
  }
  Grid(const Grid&) = delete;
  Grid& operator=(const Grid&) = delete;
  ~Grid()
  {
    if (row >= 0) blacs_gridexit_(&context);
  }

  int context = -1;
  int rows;
  int cols;
  int row = -1;
  int col = -1;
};

/// Random numbers that are the same on all processes.
class Random
{
 public:
  int between(int low, int high)
  {
    return low + static_cast<int>(engine_() % static_cast<unsigned>(high - low + 1));
  }
  bool one_in(int n) { return between(1, n) == 1; }

 private:
  std::mt19937 engine_{4711};
};

template <class T>
struct Letter;
template <>
struct Letter<float>
{
  static constexpr const char* value = "s";
};
template <>
struct Letter<double>
{
  static constexpr const char* value = "d";
};
template <>
struct Letter<std::complex<float>>
{
  static constexpr const char* value = "c";
};
template <>
struct Letter<std::complex<double>>
{
  static constexpr const char* value = "z";
};

template <class T>
constexpr bool is_complex = false;
template <class T>
constexpr bool is_complex<std::complex<T>> = true;

template <class T>
T number(int real, int imaginary)
{
  if constexpr (is_complex<T>)
    return {static_cast<typename T::value_type>(real),
            static_cast<typename T::value_type>(imaginary)};
  else
    return static_cast<T>(real);
}

template <class T>
bool equal(const T& x, const T& y)
{
  return x == y || (x != x && y != y);
}

/// One dimension of a matrix, computed index by index, without formulas.
struct Dimension
{
  int size;
  int first;
  int block;
  int source;
  int parts;

  [[nodiscard]] bool is_on(int part, int i) const
  {
    if (source == -1) return true;
    return part == (i < first ? source : (source + 1 + (i - first) / block) % parts);
  }
  [[nodiscard]] int count(int part) const
  {
    int n = 0;
    for (int i = 0; i < size; ++i) n += is_on(part, i) ? 1 : 0;
    return n;
  }
};

/// A random distributed matrix with a sub-matrix of m x n.
template <class T>
struct Matrix
{
  /// @param plain  whether it has a descriptor with 9 entries
  Matrix(Random& random, const Grid& g, int m, int n, bool may_replicate, int seed,
         bool plain = false)
      : grid{g},
        i{1 + random.between(0, 9) * random.between(0, 1)},
        j{1 + random.between(0, 9) * random.between(0, 1)}
  {
    const int sizes[] = {1, 2, 3, 5, 8, 16, 32, 64, 67};
    const auto block = [&] { return sizes[random.between(0, 8)]; };
    const bool short_descriptor = random.one_in(3) || plain;
    const auto dimension = [&](int size, int parts) {
      const int b = block();
      const int first = short_descriptor || random.one_in(3) ? b : block();
      const int source = may_replicate && random.one_in(12) ? -1 : random.between(0, parts - 1);
      return Dimension{size, first, b, source, parts};
    };
    rows = dimension(i - 1 + m + random.between(0, 3), g.rows);
    cols = dimension(j - 1 + n + random.between(0, 3), g.cols);
    const int local_rows = rows.count(g.row);
    const int gap = random.between(0, 3);
    ld = std::max(1, local_rows + gap);
    if (short_descriptor)
      descriptor = {1,          g.context,   rows.size,   cols.size, rows.block,
                    cols.block, rows.source, cols.source, ld};
    else
      descriptor = {2,          g.context,  rows.size,   cols.size,   rows.first, cols.first,
                    rows.block, cols.block, rows.source, cols.source, ld};
    array.assign(static_cast<std::size_t>(ld) * static_cast<std::size_t>(cols.count(g.col)),
                 number<T>(-77, 5));
    for_each([&](int a, int b, T& x) {
      x = number<T>((3 * a + 5 * b + seed) % 7 - 3, (2 * a + b + seed) % 5 - 2);
    });
  }

  /// Calls f(i, j, element) for each of this process's elements.
  template <class F>
  void for_each(F f)
  {
    std::size_t at_column = 0;
    for (int b = 0; b < cols.size; ++b)
    {
      if (!cols.is_on(grid.col, b)) continue;
      std::size_t at = at_column++ * static_cast<std::size_t>(ld);
      for (int a = 0; a < rows.size; ++a)
        if (rows.is_on(grid.row, a)) f(a, b, array[at++]);
    }
  }
  /// Fills the m x n sub-matrix with NaNs.
  void poison(int m, int n)
  {
    for_each_inside([&](int a, int b, T& x) {
      if (a < m && b < n) x = nan();
    });
  }
  /// Calls f(i, j, element), where indices count from 0 in the sub-matrix.
  template <class F>
  void for_each_inside(F f)
  {
    for_each([&](int a, int b, T& x) {
      if (a >= i - 1 && b >= j - 1) f(a - (i - 1), b - (j - 1), x);
    });
  }
  [[nodiscard]] static T nan()
  {
    return T{static_cast<decltype(std::abs(T{}))>(std::numeric_limits<double>::quiet_NaN())};
  }

  const Grid& grid;
  int i;
  int j;
  Dimension rows{};
  Dimension cols{};
  int ld = 1;
  std::array<int, 11> descriptor{};
  std::vector<T> array;
};

template <class T>
T factor(Random& random)
{
  switch (random.between(0, 3))
  {
  case 0:
    return number<T>(0, 0);
  case 1:
    return number<T>(1, 0);
  case 2:
    return number<T>(-2, 1);
  default:
    return number<T>(3, -2);
  }
}

/// Calls both routines, whose last array is C's, and compares all of C's local arrays.
template <class T, class F>
void compare(const std::string& law, const Matrix<T>& c, F call)
{
  auto ours = c.array;
  auto reference = c.array;
  call(true, ours.data());
  call(false, reference.data());
  check(std::equal(ours.begin(), ours.end(), reference.begin(), &equal<T>), law);
}

template <class T>
using Gemm = Routine<const char*, const char*, const int*, const int*, const int*, const T*,
                     const T*, const int*, const int*, const int*, const T*, const int*, const int*,
                     const int*, const T*, T*, const int*, const int*, const int*>;
template <class T>
using Tran = Routine<const int*, const int*, const T*, const T*, const int*, const int*, const int*,
                     const T*, T*, const int*, const int*, const int*>;
template <class T>
using Geadd = Routine<const char*, const int*, const int*, const T*, const T*, const int*,
                      const int*, const int*, const T*, T*, const int*, const int*, const int*>;
template <class T>
using Tradd =
    Routine<const char*, const char*, const int*, const int*, const T*, const T*, const int*,
            const int*, const int*, const T*, T*, const int*, const int*, const int*>;

template <class T>
using Symm = Routine<const char*, const char*, const int*, const int*, const T*, const T*,
                     const int*, const int*, const int*, const T*, const int*, const int*,
                     const int*, const T*, T*, const int*, const int*, const int*>;
template <class T>
using Triangular =
    Routine<const char*, const char*, const char*, const char*, const int*, const int*, const T*,
            const T*, const int*, const int*, const int*, T*, const int*, const int*, const int*>;
template <class T, class R>
using Syrk =
    Routine<const char*, const char*, const int*, const int*, const R*, const T*, const int*,
            const int*, const int*, const R*, T*, const int*, const int*, const int*>;
template <class T>
using Gemr2d = Routine<int, int, const T*, int, int, const int*, T*, int, int, const int*, int>;
template <class T>
using Trmr2d = Routine<const char*, const char*, int, int, const T*, int, int, const int*, T*, int,
                       int, const int*, int>;

const char* const ops[] = {"N", "T", "C", "n", "t", "c"};
bool transposes(const char* op) { return *op != 'N' && *op != 'n'; }

std::string text_of(const char* routine, const Grid& grid, const std::array<int, 3>& sizes)
{
  return std::string{routine} + " of " + std::to_string(sizes[0]) + " x " +
         std::to_string(sizes[1]) + " x " + std::to_string(sizes[2]) + " on " +
         std::to_string(grid.rows) + " x " + std::to_string(grid.cols);
}

template <class T>
void compare_products(Random& random, const Grid& grid, int cases)
{
  const Gemm<T> gemm{std::string{"p"} + Letter<T>::value + "gemm"};
  for (int run = 0; run < cases; ++run)
  {
    const int most = random.one_in(4) ? 150 : 40;
    const int m = random.between(0, most);
    const int n = random.between(0, most);
    const int k = random.one_in(6) ? 500 : random.between(0, most);
    const char* const op_a = ops[random.between(0, 5)];
    const char* const op_b = ops[random.between(0, 5)];
    context_text = text_of("gemm", grid, {m, n, k}) + ", " + op_a + op_b;
    Matrix<T> a{random, grid, transposes(op_a) ? k : m, transposes(op_a) ? m : k, true, 1};
    Matrix<T> b{random, grid, transposes(op_b) ? n : k, transposes(op_b) ? k : n, true, 2};
    Matrix<T> c{random, grid, m, n, true, 3};
    const T alpha = factor<T>(random);
    const T beta = factor<T>(random);
    if (beta == T{}) c.poison(m, n);
    if (alpha == T{}) a.poison(a.rows.size, a.cols.size), b.poison(b.rows.size, b.cols.size);
    compare<T>("the products are equal", c, [&](bool ours, T* out) {
      const auto call = [&](auto... x) { ours ? gemm.ours(x...) : gemm.reference(x...); };
      call(op_a, op_b, &m, &n, &k, &alpha, static_cast<const T*>(a.array.data()), &a.i, &a.j,
           a.descriptor.data(), static_cast<const T*>(b.array.data()), &b.i, &b.j,
           b.descriptor.data(), &beta, out, &c.i, &c.j, c.descriptor.data());
    });
  }
}

template <class T>
void compare_sums(Random& random, const Grid& grid, int cases)
{
  const std::string p = std::string{"p"} + Letter<T>::value;
  const Geadd<T> geadd{p + "geadd"};
  const Tradd<T> tradd{p + "tradd"};
  std::vector<Tran<T>> trans;
  for (const char* const name : {"tran", "tranu", "tranc"})
    if ((std::strlen(name) > 4) == is_complex<T>) trans.emplace_back(p + name);
  for (int run = 0; run < cases; ++run)
  {
    const int m = random.between(0, 90);
    const int n = random.between(0, 90);
    const int which = random.between(0, 2);
    const char* const op = which == 0 ? "T" : ops[random.between(0, 5)];
    const char* const uplo = random.one_in(2) ? "U" : "l";
    context_text = text_of(which == 0   ? "tran"
                           : which == 1 ? "geadd"
                                        : "tradd",
                           grid, {m, n, 0}) +
                   ", " + op + uplo;
    Matrix<T> a{random, grid, transposes(op) ? n : m, transposes(op) ? m : n, false, 1};
    Matrix<T> c{random, grid, m, n, false, 3};
    const T alpha = factor<T>(random);
    const T beta = factor<T>(random);
    if (beta == T{}) c.poison(m, n);
    if (alpha == T{}) a.poison(a.rows.size, a.cols.size);
    const auto* const from = static_cast<const T*>(a.array.data());
    const std::size_t of_trans = static_cast<std::size_t>(random.between(0, 1)) % trans.size();
    compare<T>("the sums are equal", c, [&](bool ours, T* out) {
      const auto call = [&](const auto& routine, auto... first) {
        const auto all = [&](auto... x) { ours ? routine.ours(x...) : routine.reference(x...); };
        all(first..., &m, &n, &alpha, from, &a.i, &a.j, a.descriptor.data(), &beta, out, &c.i, &c.j,
            c.descriptor.data());
      };
      if (which == 0) call(trans[of_trans]);
      if (which == 1) call(geadd, op);
      if (which == 2) call(tradd, uplo, op);
    });
  }
}

/// Whether an element is in a triangle: on its side of the diagonal, or on the diagonal.
bool is_in(const char* uplo, int i, int j) { return *uplo == 'U' ? i <= j : i >= j; }

/// Compares products with a symmetric or Hermitian matrix, with NaNs in the triangle that is not
/// stored.
template <class T>
void compare_symmetric(Random& random, const Grid& grid, int cases)
{
  const std::string p = std::string{"p"} + Letter<T>::value;
  std::vector<Symm<T>> routines{Symm<T>{p + "symm"}};
  if constexpr (is_complex<T>) routines.emplace_back(p + "hemm");
  for (int run = 0; run < cases; ++run)
  {
    const int most = random.one_in(4) ? 150 : 40;
    const int m = random.between(0, most);
    const int n = random.between(0, most);
    const char* const side = random.one_in(2) ? "L" : "r";
    const char* const uplo = random.one_in(2) ? "U" : "L";
    const int of_a = *side == 'L' ? m : n;
    const auto which = static_cast<std::size_t>(random.between(0, 1)) % routines.size();
    context_text = text_of(which == 0 ? "symm" : "hemm", grid, {m, n, 0}) + ", " + side + uplo;
    Matrix<T> a{random, grid, of_a, of_a, true, 1};
    Matrix<T> b{random, grid, m, n, true, 2};
    Matrix<T> c{random, grid, m, n, true, 3};
    const T alpha = factor<T>(random);
    const T beta = factor<T>(random);
    a.for_each_inside([&](int i, int j, T& x) {
      if (i < of_a && j < of_a && !is_in(uplo, i, j)) x = Matrix<T>::nan();
    });
    if (beta == T{}) c.poison(m, n);
    if (alpha == T{}) b.poison(b.rows.size, b.cols.size);
    compare<T>("the products with a symmetric matrix are equal", c, [&](bool ours, T* out) {
      const auto call = [&](auto... x) {
        ours ? routines[which].ours(x...) : routines[which].reference(x...);
      };
      call(side, uplo, &m, &n, &alpha, static_cast<const T*>(a.array.data()), &a.i, &a.j,
           a.descriptor.data(), static_cast<const T*>(b.array.data()), &b.i, &b.j,
           b.descriptor.data(), &beta, out, &c.i, &c.j, c.descriptor.data());
    });
  }
}

/// Compares products with a triangular matrix, and solutions. A solution has integers if the
/// diagonal has roots of 1; they are small if each row or column has only one other element.
template <class T>
void compare_triangular(Random& random, const Grid& grid, int cases)
{
  const std::string p = std::string{"p"} + Letter<T>::value;
  const Triangular<T> trmm{p + "trmm"};
  const Triangular<T> trsm{p + "trsm"};
  for (int run = 0; run < cases; ++run)
  {
    const int most = random.one_in(4) ? 150 : 40;
    const int m = random.between(0, most);
    const int n = random.between(0, most);
    const bool solves = random.one_in(2);
    const char* const side = random.one_in(2) ? "l" : "R";
    const char* const uplo = random.one_in(2) ? "U" : "L";
    const char* const op = ops[random.between(0, 5)];
    const char* const diag = random.one_in(2) ? "U" : "n";
    const int of_a = *side == 'l' ? m : n;
    context_text =
        text_of(solves ? "trsm" : "trmm", grid, {m, n, 0}) + ", " + side + uplo + op + diag;
    Matrix<T> a{random, grid, of_a, of_a, true, 1};
    Matrix<T> b{random, grid, m, n, true, 2};
    const T alpha = factor<T>(random);
    a.for_each_inside([&](int i, int j, T& x) {
      if (i >= of_a || j >= of_a) return;
      const int far = std::max(i, j);
      if (!is_in(uplo, i, j) || (i == j && *diag == 'U'))
        x = Matrix<T>::nan();
      else if (i == j)
        x = i % 3 == 0 ? number<T>(is_complex<T> ? 0 : 1, 1) : number<T>(-1, 0);
      else if (solves)
        x = std::min(i, j) == 7 * far % far ? number<T>(far % 2 == 0 ? 1 : -1, 0) : T{};
    });
    if (alpha == T{}) b.poison(m, n);
    compare<T>("the products with a triangle are equal", b, [&](bool ours, T* out) {
      const auto& routine = solves ? trsm : trmm;
      const auto call = [&](auto... x) { ours ? routine.ours(x...) : routine.reference(x...); };
      call(side, uplo, op, diag, &m, &n, &alpha, static_cast<const T*>(a.array.data()), &a.i, &a.j,
           a.descriptor.data(), out, &b.i, &b.j, b.descriptor.data());
    });
  }
}

/// @tparam R  the type of the factors
template <class T, class R>
void compare_updates(Random& random, const Grid& grid, int cases, const char* name)
{
  const Syrk<T, R> syrk{std::string{"p"} + Letter<T>::value + name};
  const bool is_hermitian = *name == 'h';
  for (int run = 0; run < cases; ++run)
  {
    const int n = random.between(0, random.one_in(4) ? 150 : 40);
    const int k = random.one_in(6) ? 500 : random.between(0, 40);
    const char* const uplo = random.one_in(2) ? "U" : "L";
    const char* const op = random.one_in(2) ? "n" : is_hermitian ? "C" : "T";
    context_text = text_of(name, grid, {n, k, 0}) + ", " + uplo + op;
    Matrix<T> a{random, grid, *op == 'n' ? n : k, *op == 'n' ? k : n, true, 1};
    Matrix<T> c{random, grid, n, n, true, 3};
    const R alpha = factor<R>(random);
    const R beta = factor<R>(random);
    c.for_each_inside([&](int i, int j, T& x) {
      const bool is_read = i >= n || j >= n || (is_in(uplo, i, j) && beta != R{});
      if (!is_read) x = Matrix<T>::nan();
    });
    compare<T>("the triangles of updates are equal", c, [&](bool ours, T* out) {
      const auto call = [&](auto... x) { ours ? syrk.ours(x...) : syrk.reference(x...); };
      call(uplo, op, &n, &k, &alpha, static_cast<const T*>(a.array.data()), &a.i, &a.j,
           a.descriptor.data(), &beta, out, &c.i, &c.j, c.descriptor.data());
    });
  }
}

/// Compares copies from one grid to another, either of which may lack processes, by the C
/// functions, which Fortran's routines call.
template <class T>
void compare_redistributions(Random& random, const Grid& all, int cases, const char* letter)
{
  const std::string p = std::string{"Cp"} + letter;
  const Gemr2d<T> gemr2d{p + "gemr2d"};
  const Trmr2d<T> trmr2d{p + "trmr2d"};
  const int processes = all.rows * all.cols;
  for (int run = 0; run < cases; ++run)
  {
    const auto grid = [&]() -> std::array<int, 2> {
      const int rows = random.between(1, processes);
      return {rows, random.between(1, processes / rows)};
    };
    const auto of_a = grid();
    const auto of_b = grid();
    const Grid grid_a{random.one_in(2) ? "R" : "C", of_a[0], of_a[1]};
    const Grid grid_b{random.one_in(2) ? "R" : "C", of_b[0], of_b[1]};
    const int m = random.between(0, 70);
    const int n = random.between(0, 70);
    const bool is_whole = random.one_in(2);
    const char* const uplo = random.one_in(2) ? "U" : "L";
    const char* const diag = random.one_in(2) ? "U" : "N";
    context_text = text_of(is_whole ? "gemr2d" : "trmr2d", grid_a, {m, n, 0}) + " to " +
                   std::to_string(of_b[0]) + " x " + std::to_string(of_b[1]) + ", " + uplo + diag;
    Matrix<T> a{random, grid_a, m, n, false, 1, true};
    Matrix<T> b{random, grid_b, m, n, false, 2, true};
    compare<T>("the copies are equal", b, [&](bool ours, T* out) {
      const auto call = [&](const auto& routine, auto... first) {
        const auto both = [&](auto... x) { ours ? routine.ours(x...) : routine.reference(x...); };
        both(first..., m, n, static_cast<const T*>(a.array.data()), a.i, a.j, a.descriptor.data(),
             out, b.i, b.j, b.descriptor.data(), all.context);
      };
      if (is_whole)
        call(gemr2d);
      else
        call(trmr2d, uplo, diag);
    });
  }
}

/// Compares sums in place, where the triangles that are read and written share no element, or only
/// elements that depend on nothing but themselves.
template <class T>
void compare_sums_in_place(Random& random, const Grid& grid, int cases)
{
  const std::string p = std::string{"p"} + Letter<T>::value;
  const Geadd<T> geadd{p + "geadd"};
  const Tradd<T> tradd{p + "tradd"};
  for (int run = 0; run < cases; ++run)
  {
    const int n = random.between(2, 40);
    const int which = random.between(0, 3);
    const bool is_upper = random.one_in(2);
    const bool apart = which == 0;
    const char* const uplo = is_upper ? "U" : "L";
    const char* const op = which == 2 ? "N" : random.one_in(2) ? "T" : "C";
    context_text = text_of(which == 3 ? "geadd in place" : "tradd in place", grid, {n, n, 0}) +
                   ", " + op + uplo;
    const Matrix<T> a{random, grid, n + 1, n + 1, false, 1};
    const int down = apart && is_upper ? 1 : 0;  // from the square of C to that of A
    const int right = apart && !is_upper ? 1 : 0;
    const std::array<int, 4> at{a.i + down, a.j + right, a.i + right, a.j + down};
    // ScaLAPACK gets two sums in place wrong: tradd scales what it must still read, and geadd with
    // a complex alpha and beta = 1 writes an element's real part before it reads that part.
    const T beta = which == 1 || which == 2 ? number<T>(1, 0) : factor<T>(random);
    const T alpha = which == 3 && beta == number<T>(1, 0) ? number<T>(-2, 0) : factor<T>(random);
    compare<T>("the sums in place are equal", a, [&](bool ours, T* out) {
      const auto call = [&](const auto& routine, auto... first) {
        const auto all = [&](auto... x) { ours ? routine.ours(x...) : routine.reference(x...); };
        all(first..., &n, &n, &alpha, static_cast<const T*>(out), &at[0], &at[1],
            a.descriptor.data(), &beta, out, &at[2], &at[3], a.descriptor.data());
      };
      if (which == 3)
        call(geadd, "N");
      else
        call(tradd, uplo, op);
    });
  }
}

/// The integers in a call of pdgemm, any of which may be wrong.
struct Integers
{
  explicit Integers(const Grid& grid)
  {
    for (auto* d : {&a, &b, &c}) *d = {2, grid.context, 8, 8, 2, 2, 2, 2, 0, 0, 8};
  }

  std::string op_a = "N";
  std::string op_b = "N";
  int m = 4;
  int n = 4;
  int k = 4;
  std::array<int, 6> indices{1, 1, 1, 1, 1, 1};
  std::array<int, 11> a{};
  std::array<int, 11> b{};
  std::array<int, 11> c{};
};

/// What a library reports.
struct Report
{
  int code = 0;
  std::vector<std::string> texts;
};

/// What a library reports for a call; also checks that the arrays do not change.
template <class F>
Report report_of(const Integers& x, F call)
{
  const double one = 1;
  const std::vector<double> in(64, 1);
  std::vector<double> out(64, 7);
  const auto& i = x.indices;
  reported = 0;
  warnings.clear();
  call(x.op_a.c_str(), x.op_b.c_str(), &x.m, &x.n, &x.k, &one, in.data(), &i[0], &i[1], x.a.data(),
       in.data(), &i[2], &i[3], x.b.data(), &one, out.data(), &i[4], &i[5], x.c.data());
  check(std::all_of(out.begin(), out.end(), [](double y) { return y == 7; }),
        "a refused call changes nothing");
  return {reported, warnings};
}

/// Whether both print the same about each wrong argument. For a wrong J, ScaLAPACK prints the value
/// of I.
bool same_texts(const Report& ours, const Report& reference)
{
  return std::equal(ours.texts.begin(), ours.texts.end(), reference.texts.begin(),
                    reference.texts.end(), [](const std::string& a, const std::string& b) {
                      return a == b || (b.find(": Illegal J") != std::string::npos &&
                                        a.find(": Illegal J") != std::string::npos);
                    });
}

void compare_codes(Random& random, const Grid& grid)
{
  const Gemm<double> gemm{"pdgemm"};
  const auto expect = [&](const Integers& x, int code) {
    context_text = "code " + std::to_string(code);
    const Report ours = report_of(x, [&](auto... all) { gemm.ours(all...); });
    const Report reference = report_of(x, [&](auto... all) { gemm.reference(all...); });
    check(ours.code == reference.code, "ScaLAPACK reports " + std::to_string(reference.code) +
                                           ", the library " + std::to_string(ours.code));
    if (code != 0) check(ours.code == code, "the code is " + std::to_string(ours.code));
    check(same_texts(ours, reference),
          "both print the same, the library first '" +
              (ours.texts.empty() ? std::string{} : ours.texts.front()) + "', ScaLAPACK '" +
              (reference.texts.empty() ? std::string{} : reference.texts.front()) + "'");
  };
  const auto wrong = [&](auto change, int code) {
    Integers x{grid};
    change(x);
    expect(x, code);
  };
  wrong([](auto& x) { x.op_a = "X"; }, -1);
  wrong([](auto& x) { x.op_b = "H"; }, -2);
  wrong([](auto& x) { x.m = -1; }, -3);
  wrong([](auto& x) { x.n = -1; }, -4);
  wrong([](auto& x) { x.k = -1; }, -5);
  const int positions[] = {8, 9, 12, 13, 17, 18};
  for (std::size_t at = 0; at < 6; ++at)
    for (const int value : {0, 6}) wrong([&](auto& x) { x.indices[at] = value; }, -positions[at]);
  const int of_descriptors[] = {10, 14, 19};
  const auto descriptor = [](Integers & x, std::size_t which) -> auto&
  {
    return which == 0 ? x.a : which == 1 ? x.b : x.c;
  };
  const int wrong_entries[] = {3, INT_MAX, 0, 0, 0, 0, 0, 0, -2, -2, 0};
  for (std::size_t which = 0; which < 3; ++which)
    for (std::size_t entry = 0; entry < 11; ++entry)
      wrong(
          [&](auto& x) {
            descriptor(x, which)[entry] = wrong_entries[entry];
            if (which == 0 && entry == 1) x.b[1] = x.c[1] = INT_MAX;
          },
          -(100 * of_descriptors[which] + static_cast<int>(entry) + 1));
  wrong([&](auto& x) { x.a[8] = grid.rows; }, -1009);
  wrong([&](auto& x) { x.c[9] = grid.cols; }, -1910);
  wrong([&](auto& x) { x.b[1] = -1; }, -1402);

  // A leading dimension is too small on some processes. C is wrong on all, so that none begins.
  const int held = Dimension{8, 2, 2, 0, grid.rows}.count(grid.row);
  for (const std::size_t which : {std::size_t{0}, std::size_t{1}})
    for (const int ld : {held - 1, held, held + 1})
      wrong(
          [&](auto& x) {
            x.c[0] = 7;
            descriptor(x, which)[10] = ld;
          },
          0);

  // Several wrong integers at once.
  for (int run = 0; run < 200; ++run)
  {
    Integers x{grid};
    const int count = random.between(1, 3);
    x.a[0] = 7;  // whatever else is wrong, no library may begin
    for (int i = 0; i < count; ++i)
    {
      const int value = random.between(-3, 9);
      switch (random.between(0, 5))
      {
      case 0:
        x.op_a = random.one_in(2) ? "T" : "Q";
        break;
      case 1:
        x.m = value;
        break;
      case 2:
        x.k = value;
        break;
      case 3:
        x.indices[static_cast<std::size_t>(random.between(0, 5))] = value;
        break;
      default:
        descriptor(x, static_cast<std::size_t>(random.between(
                          0, 2)))[static_cast<std::size_t>(random.between(2, 10))] = value;
      }
    }
    expect(x, 0);
  }
}

/// The arguments of a routine for triangles, any of which may be wrong.
struct Faulty
{
  std::vector<std::string> letters;
  std::vector<int> sizes;
  std::vector<int> indices;
  std::vector<std::array<int, 11>> descriptors;
};

/// Compares the reports of both libraries for each wrong argument, and for several at once.
/// @param right  arguments with letters and sizes
/// @param call  call(ours, arguments, in, out): calls one library's routine
template <class F>
void compare_reports(Random& random, const Grid& grid, const char* name, Faulty right,
                     std::size_t matrices, F call)
{
  right.indices.assign(2 * matrices, 1);
  right.descriptors.assign(matrices, {2, grid.context, 8, 8, 2, 2, 2, 2, 0, 0, 8});
  const auto expect = [&](const Faulty& x, bool is_wrong) {
    const std::vector<double> in(64, 1);
    std::vector<double> out(64, 7);
    const auto report = [&](bool ours) {
      reported = 0;
      warnings.clear();
      call(ours, x, in.data(), out.data());
      return Report{reported, warnings};
    };
    const Report ours = report(true);
    const Report reference = report(false);
    context_text = std::string{name} + ", code " + std::to_string(reference.code);
    check(ours.code == reference.code, "the library reports " + std::to_string(ours.code));
    check(!is_wrong || ours.code != 0, "a wrong argument has a code");
    check(same_texts(ours, reference), "both print the same");
    check(std::all_of(out.begin(), out.end(), [](double y) { return y == 7; }),
          "a refused call changes nothing");
  };
  const auto wrong = [&](auto change) {
    Faulty x = right;
    change(x);
    expect(x, true);
  };
  for (std::size_t k = 0; k < right.letters.size(); ++k)
    wrong([&](auto& x) { x.letters[k] = "Q"; });
  for (std::size_t k = 0; k < right.sizes.size(); ++k) wrong([&](auto& x) { x.sizes[k] = -1; });
  for (std::size_t k = 0; k < right.indices.size(); ++k)
    for (const int value : {0, 6}) wrong([&](auto& x) { x.indices[k] = value; });
  const int entries[] = {3, INT_MAX, 0, 0, 0, 0, 0, 0, -2, -2, 0};
  for (std::size_t k = 0; k < matrices; ++k)
    for (std::size_t entry = 0; entry < 11; ++entry)
      wrong([&](auto& x) {
        x.descriptors[k][entry] = entries[entry];
        if (k == 0 && entry == 1)
          for (auto& d : x.descriptors) d[1] = INT_MAX;
      });
  for (int run = 0; run < 60; ++run)
  {
    Faulty x = right;
    x.descriptors[0][0] = 7;  // whatever else is wrong, no library may begin
    for (int i = random.between(1, 3); i > 0; --i)
    {
      const auto any = [&](auto& list) -> auto&
      {
        return list[static_cast<std::size_t>(random.between(0, static_cast<int>(list.size()) - 1))];
      };
      const int value = random.between(-3, 9);
      const int kind = random.between(0, 4);
      if (kind == 0) any(x.letters) = random.one_in(2) ? "T" : "U";
      if (kind == 1) any(x.sizes) = value;
      if (kind == 2) any(x.indices) = value;
      if (kind > 2) any(x.descriptors)[static_cast<std::size_t>(random.between(2, 10))] = value;
    }
    expect(x, true);
  }
}

void compare_reports_of_triangles(Random& random, const Grid& grid)
{
  const double one = 1;
  const Symm<double> symm{"pdsymm"};
  compare_reports(random, grid, "pdsymm", {{"L", "U"}, {4, 4}, {}, {}}, 3,
                  [&](bool ours, const Faulty& x, const double* in, double* out) {
                    const auto call = [&](auto... all) {
                      ours ? symm.ours(all...) : symm.reference(all...);
                    };
                    call(x.letters[0].c_str(), x.letters[1].c_str(), &x.sizes[0], &x.sizes[1], &one,
                         in, &x.indices[0], &x.indices[1], x.descriptors[0].data(), in,
                         &x.indices[2], &x.indices[3], x.descriptors[1].data(), &one, out,
                         &x.indices[4], &x.indices[5], x.descriptors[2].data());
                  });
  for (const char* const name : {"pdtrmm", "pdtrsm"})
  {
    const Triangular<double> triangular{name};
    compare_reports(random, grid, name, {{"R", "L", "N", "U"}, {4, 4}, {}, {}}, 2,
                    [&](bool ours, const Faulty& x, const double* in, double* out) {
                      const auto call = [&](auto... all) {
                        ours ? triangular.ours(all...) : triangular.reference(all...);
                      };
                      call(x.letters[0].c_str(), x.letters[1].c_str(), x.letters[2].c_str(),
                           x.letters[3].c_str(), &x.sizes[0], &x.sizes[1], &one, in, &x.indices[0],
                           &x.indices[1], x.descriptors[0].data(), out, &x.indices[2],
                           &x.indices[3], x.descriptors[1].data());
                    });
  }
  const Syrk<double, double> syrk{"pdsyrk"};
  compare_reports(random, grid, "pdsyrk", {{"U", "T"}, {4, 4}, {}, {}}, 2,
                  [&](bool ours, const Faulty& x, const double* in, double* out) {
                    const auto call = [&](auto... all) {
                      ours ? syrk.ours(all...) : syrk.reference(all...);
                    };
                    call(x.letters[0].c_str(), x.letters[1].c_str(), &x.sizes[0], &x.sizes[1], &one,
                         in, &x.indices[0], &x.indices[1], x.descriptors[0].data(), &one, out,
                         &x.indices[2], &x.indices[3], x.descriptors[1].data());
                  });
}

/// Calls a solver of ScaLAPACK, which calls pdgemm.
void solve(const Grid& grid)
{
  const int n = 200;
  const int one = 1;
  context_text = "pdgetrf on " + std::to_string(grid.rows) + " x " + std::to_string(grid.cols);
  const Dimension rows{n, 16, 16, 0, grid.rows};
  const Dimension cols{n, 16, 16, 0, grid.cols};
  const Dimension column{1, 16, 16, 0, grid.cols};
  const int local = std::max(1, rows.count(grid.row));
  const std::array<int, 9> of_a{1, grid.context, n, n, 16, 16, 0, 0, local};
  const std::array<int, 9> of_b{1, grid.context, n, 1, 16, 16, 0, 0, local};
  std::vector<double> a;
  std::vector<double> b;
  const auto at = [](int i, int j) { return (i == j ? 40.0 : 0.0) + (7 * i + 3 * j) % 11 - 5; };
  for (int j = 0; j < n; ++j)
    for (int i = 0; i < n && cols.is_on(grid.col, j); ++i)
      if (rows.is_on(grid.row, i)) a.push_back(at(i, j));
  for (int i = 0; i < n && column.is_on(grid.col, 0); ++i)
    if (rows.is_on(grid.row, i))
    {
      double sum = 0;  // of the row's elements, so that the solution is all ones
      for (int j = 0; j < n; ++j) sum += at(i, j);
      b.push_back(sum);
    }
  a.resize(std::max<std::size_t>(a.size(), 1));
  b.resize(std::max<std::size_t>(b.size(), 1));
  std::vector<int> pivots(static_cast<std::size_t>(local) + 16);
  int info = 0;
  pdgetrf_(&n, &n, a.data(), &one, &one, of_a.data(), pivots.data(), &info);
  check(info == 0, "the factorisation ends");
  pdgetrs_("N", &n, &one, a.data(), &one, &one, of_a.data(), pivots.data(), b.data(), &one, &one,
           of_b.data(), &info);
  for (int i = 0; i < rows.count(grid.row) && column.is_on(grid.col, 0); ++i)
    check(std::abs(b[static_cast<std::size_t>(i)] - 1) < 1e-10, "the solution is all ones");
}

/// Multiplies into the array that holds A. The library refuses that, and the job ends. With alpha =
/// 0 it only scales the array.
void overlap(double alpha)
{
  int processes = 1;
  MPI_Comm_size(MPI_COMM_WORLD, &processes);
  const Grid grid{"R", 1, processes};
  Integers x{grid};
  std::vector<double> array(64, 1);
  const double one = 1;
  const auto& i = x.indices;
  const Gemm<double> gemm{"pdgemm"};
  gemm.ours("N", "N", &x.m, &x.n, &x.k, &alpha, array.data(), &i[0], &i[1], x.a.data(),
            array.data(), &i[2], &i[3], x.b.data(), &one, array.data(), &i[4], &i[5], x.c.data());
}

/// Computes some products of square matrices, each twice.
void repeat_products()
{
  int processes = 1;
  MPI_Comm_size(MPI_COMM_WORLD, &processes);
  const Grid grid{"R", 1, processes};
  const Gemm<double> gemm{"pdgemm"};
  const double one = 1;
  const int first = 1;
  for (const int n : {16, 400})
  {
    const int block = (n + processes - 1) / processes;
    const std::array descriptor{1, grid.context, n, n, n, block, 0, 0, n};
    const std::vector<double> a(static_cast<std::size_t>(n) * static_cast<std::size_t>(block), 1);
    for (int call = 0; call < 2; ++call)
    {
      std::vector<double> c(a);
      gemm.ours("N", "N", &n, &n, &n, &one, a.data(), &first, &first, descriptor.data(), a.data(),
                &first, &first, descriptor.data(), &one, c.data(), &first, &first,
                descriptor.data());
      const int columns = std::clamp(n - grid.col * block, 0, block);
      const auto computed = c.begin() + static_cast<std::ptrdiff_t>(columns) * n;
      failures += std::all_of(c.begin(), computed, [n](double x) { return x == n + 1; }) ? 0 : 1;
    }
  }
}

template <class T>
void compare_all(Random& random, const Grid& grid, int cases)
{
  compare_products<T>(random, grid, cases);
  compare_sums<T>(random, grid, cases);
  compare_sums_in_place<T>(random, grid, cases);
  compare_symmetric<T>(random, grid, cases);
  compare_triangular<T>(random, grid, cases);
  compare_updates<T, T>(random, grid, cases, "syrk");
  if constexpr (is_complex<T>)
    compare_updates<T, typename T::value_type>(random, grid, cases, "herk");
}

}  // namespace

int main(int argc, char** argv)
{
  MPI_Init(&argc, &argv);
  if (argc > 1 && std::strcmp(argv[1], "overlap") == 0) overlap(1);
  if (argc > 1 && std::strcmp(argv[1], "scale") == 0)
  {
    overlap(0);
    return MPI_Finalize();
  }
  if (argc > 1 && std::strcmp(argv[1], "repeated") == 0)
  {
    repeat_products();
    if (failures > 0) std::printf("repeated products are wrong\n");
    return MPI_Finalize();
  }
  const int cases = argc > 1 ? std::atoi(argv[1]) : 20;
  int processes = 1;
  MPI_Comm_size(MPI_COMM_WORLD, &processes);
  Random random;
  for (int rows = 1; rows <= processes; ++rows)
  {
    if (processes % rows != 0) continue;
    for (const char* const order : {"R", "C"})
    {
      const Grid grid{order, rows, processes / rows};
      compare_all<float>(random, grid, cases);
      compare_all<double>(random, grid, cases);
      compare_all<std::complex<float>>(random, grid, cases);
      compare_all<std::complex<double>>(random, grid, cases);
      compare_codes(random, grid);
      compare_reports_of_triangles(random, grid);
      solve(grid);
    }
  }
  {
    const Grid grid{"R", 1, processes};
    compare_redistributions<float>(random, grid, cases, "s");
    compare_redistributions<double>(random, grid, cases, "d");
    compare_redistributions<std::complex<float>>(random, grid, cases, "c");
    compare_redistributions<std::complex<double>>(random, grid, cases, "z");
    compare_redistributions<int>(random, grid, cases, "i");
  }
  // BLACS reuses the numbers of contexts, and a grid may have fewer processes.
  for (int run = 0; run < 20; ++run)
  {
    Random same;
    const Grid grid{"R", 1, std::max(1, processes - run % 2)};
    if (grid.row >= 0) compare_products<double>(same, grid, 1);
  }

  std::array<int, 2> counts{failures, comparisons};
  MPI_Allreduce(MPI_IN_PLACE, counts.data(), 2, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank == 0) std::printf("%d comparisons, %d differences\n", counts[1], counts[0]);
  MPI_Finalize();
  return counts[0] == 0 ? 0 : 1;
}
