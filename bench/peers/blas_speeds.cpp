// SPDX-License-Identifier: BSD-3-Clause
// How fast the BLAS libraries of this machine multiply, to choose one for cubist: by one thread, by
// a thread on each core, and by a caller on each core with one thread each, which is how cubist's
// ranks call it. Each library is loaded from its file and takes its turn; what it computes is
// compared with the first one's, as some return wrong results to several callers.
//
//   cubist_blas_speeds libopenblas.so.0 libblis.so.4 --shapes 2048x2048x2048

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <iostream>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

#include <CLI/CLI.hpp>
#include <dlfcn.h>

#include <cubist/core/block.hpp>
#include <cubist/core/error.hpp>

#include "../times.hpp"

namespace
{

template <class T>
using Gemm = void (*)(int order, int op_a, int op_b, int m, int n, int k, T alpha, const T* a,
                      int ld_a, const T* b, int ld_b, T beta, T* c, int ld_c);

/// "2048x1024x512": m, n and k.
cubist::ProductSize parse(const std::string& shape)
{
  cubist::ProductSize s;
  cubist::require<cubist::ShapeError>(
      std::sscanf(shape.c_str(), "%zux%zux%zu", &s.m, &s.n, &s.k) == 3 && s.m * s.n * s.k > 0,
      "got the shape ", shape, ", which has no m, n and k above 0; write 2048x1024x512");
  return s;
}

/// A BLAS with the C interface, loaded from a file.
class Blas
{
 public:
  explicit Blas(const std::string& file)
      : file_{file}, library_{dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL)}
  {
    cubist::require<cubist::DataError>(library_ != nullptr && find<Gemm<float>>("cblas_sgemm"),
                                       "got ", file, ", which is no BLAS that can be loaded with ",
                                       "the functions cblas_*gemm; name a shared library");
  }

  [[nodiscard]] const std::string& file() const { return file_; }

  /// For the calls from now on.
  void set_threads(int n) const
  {
    if (const auto set = find<void (*)(int)>("openblas_set_num_threads")) return set(n);
    if (const auto set = find<void (*)(int)>("MKL_Set_Num_Threads")) return set(n);
    if (const auto set = find<void (*)(std::int64_t)>("bli_thread_set_num_threads")) set(n);
  }

  /// C = A B, row-major.
  template <class T>
  void multiply(cubist::ProductSize s, const T* a, const T* b, T* c) const
  {
    constexpr int row_major = 101;
    constexpr int as_it_is = 111;
    const auto m = static_cast<int>(s.m);
    const auto n = static_cast<int>(s.n);
    const auto k = static_cast<int>(s.k);
    find<Gemm<T>>(std::is_same_v<T, float> ? "cblas_sgemm" : "cblas_dgemm")(
        row_major, as_it_is, as_it_is, m, n, k, T{1}, a, k, b, n, T{}, c, n);
  }

 private:
  template <class F>
  [[nodiscard]] F find(const char* name) const
  {
    return reinterpret_cast<F>(dlsym(library_, name));
  }

  std::string file_;
  void* library_;
};

/// One caller's matrices, of small integers, whose products are exact.
template <class T>
struct Matrices
{
  explicit Matrices(cubist::ProductSize s) : a(s.m * s.k), b(s.k * s.n), c(s.m * s.n)
  {
    for (std::size_t i = 0; i < a.size(); ++i) a[i] = static_cast<T>(i % 7) - 3;
    for (std::size_t i = 0; i < b.size(); ++i) b[i] = static_cast<T>(i % 5) - 2;
  }
  std::vector<T> a, b, c;
};

template <class T>
void measure(const std::vector<Blas>& libraries, const char* scalar, const std::string& shape,
             int cores, int repeats)
{
  const auto size = parse(shape);
  const double operations = 2e-9 * static_cast<double>(size.m * size.n * size.k);
  std::vector<Matrices<T>> callers(static_cast<std::size_t>(cores), Matrices<T>{size});
  // A small product runs many times, as it would.
  const int times = std::max(1, static_cast<int>(2 / operations));
  std::vector<T> right;
  const auto run = [&](const Blas& blas, int threads, std::size_t calling) {
    using namespace std::chrono_literals;
    std::this_thread::sleep_for(100ms);  // threads of the last one may still spin
    blas.set_threads(threads);
    const auto multiply = [&](Matrices<T>& mine) {
      for (int i = 0; i < times; ++i)
        blas.multiply(size, mine.a.data(), mine.b.data(), mine.c.data());
    };
    const double time = bench::seconds([&] {
      std::vector<std::jthread> others;
      for (std::size_t i = 1; i < calling; ++i)
        others.emplace_back([&, i] { multiply(callers[i]); });
      multiply(callers[0]);
    });
    if (right.empty()) right = callers[0].c;
    for (std::size_t i = 0; i < calling; ++i)
    {
      if (callers[i].c != right)
        std::printf("%s returned a wrong result to one of %zu callers\n", blas.file().c_str(),
                    calling);
      std::fill(callers[i].c.begin(), callers[i].c.end(), T{-1});
    }
    return time;
  };

  struct Speeds
  {
    std::vector<double> one, all, concurrent;
  };
  std::vector<Speeds> speeds(libraries.size());
  const double work = operations * times;
  for (int i = -1; i < repeats; ++i)  // one to warm up
    for (std::size_t l = 0; l < libraries.size(); ++l)
    {
      const double one = work / run(libraries[l], 1, 1);
      const double all = work / run(libraries[l], cores, 1);
      const double concurrent = work * cores / run(libraries[l], 1, callers.size());
      if (i < 0) continue;
      speeds[l].one.push_back(one);
      speeds[l].all.push_back(all);
      speeds[l].concurrent.push_back(concurrent);
    }
  for (std::size_t l = 0; l < libraries.size(); ++l)
    std::printf("| %s | %s | %s | %.0f | %.0f | %.0f |\n", libraries[l].file().c_str(), scalar,
                shape.c_str(), bench::median(speeds[l].one), bench::median(speeds[l].all),
                bench::median(speeds[l].concurrent));
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv)
{
  CLI::App app{"how fast BLAS libraries multiply here"};
  std::vector<std::string> files;
  std::vector<std::string> shapes{"2048x2048x2048", "4096x4096x4096"};
  int cores = static_cast<int>(std::thread::hardware_concurrency());
  int repeats = 3;
  app.add_option("libraries", files, "files, or names that the loader finds")->required();
  app.add_option("--shapes", shapes, "MxNxK")->delimiter(',')->capture_default_str();
  app.add_option("--cores", cores)->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--repeats", repeats)->check(CLI::PositiveNumber)->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  try
  {
    const std::vector<Blas> libraries(files.begin(), files.end());
    std::printf("GFLOP/s, medians of %d, on %d cores\n"
                "| library | scalar | m x n x k | 1 thread | %d threads | %d callers |\n"
                "|---|---|---|---|---|---|\n",
                repeats, cores, cores, cores);
    for (const auto& shape : shapes)
    {
      measure<float>(libraries, "float", shape, cores, repeats);
      measure<double>(libraries, "double", shape, cores, repeats);
    }
  }
  catch (const std::exception& e)
  {
    std::cerr << "cubist_blas_speeds: " << e.what() << '\n';
    return 1;
  }
}
