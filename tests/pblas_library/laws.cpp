// SPDX-License-Identifier: BSD-3-Clause
// mpiexec -n 6 cubist_pblas_laws: the routines of libcubist_pblas compared with ScaLAPACK's own, on
// all grids of the processes. Elements are small integers, so results are equal to the bit whatever
// the order of sums. Both libraries get the same random layouts, sub-matrices and factors, NaNs
// where nothing may be read, and every wrong argument that has a code.
//
// cubist_pblas_laws 5: fewer cases. cubist_pblas_laws overlap: a call that must end the job. scale:
// a call that only scales C.

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

// In place of ScaLAPACK's, which prints and ends the job. Both libraries report wrong arguments
// here.
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
std::string context_text;  // of the case that runs

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
    void* const found = dlsym(where, (name + "_").c_str());
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

/// Numbers that are the same on all processes.
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

/// One dimension of a matrix, without formulas: index by index.
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
  Matrix(Random& random, const Grid& g, int m, int n, bool may_replicate, int seed)
      : grid{g},
        i{1 + random.between(0, 9) * random.between(0, 1)},
        j{1 + random.between(0, 9) * random.between(0, 1)}
  {
    const int sizes[] = {1, 2, 3, 5, 8, 16, 32, 64, 67};
    const auto block = [&] { return sizes[random.between(0, 8)]; };
    const bool short_descriptor = random.one_in(3);
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

  /// Calls f(i, j, element) for this process's elements.
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
  /// NaNs in the sub-matrix of m x n.
  void poison(int m, int n)
  {
    const auto nan = std::numeric_limits<double>::quiet_NaN();
    for_each([&](int a, int b, T& x) {
      if (a >= i - 1 && a < i - 1 + m && b >= j - 1 && b < j - 1 + n)
        x = T{static_cast<decltype(std::abs(x))>(nan)};
    });
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

/// Sums in place: the triangles that are read and written have no element in common, or only
/// elements that depend on themselves alone.
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
    // ScaLAPACK gets two in place wrong: tradd scales what it has still to read, and geadd with a
    // complex alpha and beta 1 writes the real part of an element before it reads that part.
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

/// The integers of a call of pdgemm, any of which may be wrong.
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

/// What a library reports for a call; the arrays do not change.
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

/// Whether both print the same of each wrong argument. For a wrong J ScaLAPACK prints the value of
/// I.
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

  // A leading dimension that is too small on some processes. C is wrong on all, so that none
  // begins.
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

/// A solver of ScaLAPACK calls pdgemm inside.
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
      double sum = 0;  // of the row, so that the solution is all ones
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

/// Multiplies into an array that has A, which the library refuses: the job ends. With alpha 0 it
/// only scales that array.
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

template <class T>
void compare_all(Random& random, const Grid& grid, int cases)
{
  compare_products<T>(random, grid, cases);
  compare_sums<T>(random, grid, cases);
  compare_sums_in_place<T>(random, grid, cases);
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
      solve(grid);
    }
  }
  // BLACS uses the numbers of contexts again, and a grid may have fewer processes.
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
