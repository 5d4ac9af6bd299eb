// SPDX-License-Identifier: BSD-3-Clause

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <cubist/cubist.hpp>

#include "matmul.hpp"
#include "report.hpp"

namespace bench
{

namespace
{

using Backend = cubist::Threads;

struct Settings
{
  std::vector<std::string> schemes = {"summa2d", "summa25d", "cube3d"};
  std::vector<std::string> scalars = {"float", "double"};
  std::vector<std::size_t> sizes = {1024, 2048, 4096};
  std::vector<std::size_t> shape;
  std::vector<int> ranks;
  int repeats = 5;
  int warm_up = 1;
  std::string json;
};

struct Row
{
  std::string scheme;
  std::string mesh;
  std::string scalar;
  cubist::ProductSize size;
  double ours = 0;  // GFLOP/s, medians
  double blas = 0;
};

template <class T>
constexpr const char* scalar_name = sizeof(T) == sizeof(float) ? "float" : "double";

/// The product over `ranks` ranks and the same product by BLAS on all cores, in turn.
template <class Scheme, class T>
Row measure(const Settings& s, cubist::ProductSize size, int ranks)
{
  using cubist::MatrixView;
  const int cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  // Small integers: their products are exact, so the two results must be equal.
  const auto x_at = [](std::size_t i, std::size_t j) {
    return static_cast<T>((3 * i + 5 * j) % 7) - 3;
  };
  const auto w_at = [](std::size_t i, std::size_t j) {
    return static_cast<T>((2 * i + 3 * j) % 5) - 2;
  };

  Row row{Scheme::name, "", scalar_name<T>, size};
  std::vector<double> ours;
  std::vector<double> blas;
  cubist::launch<Backend>({.ranks = ranks}, [&](auto& world) {
    cubist::Mesh<Scheme, Backend> mesh{world};
    cubist::DistMatMul<Scheme, Backend, T> product{mesh, size};
    using Product = decltype(product);
    typename Product::Input x{mesh, {size.m, size.k}};
    typename Product::Weight w{mesh, {size.k, size.n}};
    typename Product::Output y{mesh, {size.m, size.n}};
    x.generate(x_at);
    w.generate(w_at);

    const bool first = world.rank() == 0;
    auto X = cubist::gather(x);
    auto W = cubist::gather(w);
    std::vector<T> Y(first ? size.m * size.n : 0);
    for (int i = -s.warm_up; i < s.repeats; ++i)
    {
      world.barrier();
      if (first)
      {
        const cubist::BlasThreads all{cores};
        const double time = seconds([&] {
          mesh.engine().gemm(cubist::Op::none, cubist::Op::none, T{1},
                             MatrixView<const T>{X.data(), {size.m, size.k}},
                             MatrixView<const T>{W.data(), {size.k, size.n}}, T{},
                             MatrixView<T>{Y.data(), {size.m, size.n}});
        });
        if (i >= 0) blas.push_back(time);
        // OpenBLAS's own threads spin for tens of milliseconds after a call before they sleep.
        std::this_thread::sleep_for(std::chrono::milliseconds{100});
      }
      world.barrier();
      const double time = seconds([&] {
        product.forward(x, w, y);
        world.barrier();
      });
      if (first && i >= 0) ours.push_back(time);
    }

    const auto gathered = cubist::gather(y);
    if (!first) return;
    cubist::require<cubist::Error>(
        std::equal(Y.begin(), Y.end(), gathered.data()), Scheme::name, " on ", ranks,
        " ranks and BLAS disagree, so their times mean nothing; one of the two is broken");
    row.mesh = Scheme::Axes::to_string(mesh.extents());
  });
  const double flops = 2.0 * static_cast<double>(size.m) * static_cast<double>(size.n) *
                       static_cast<double>(size.k) / 1e9;
  row.ours = flops / median(ours);
  row.blas = flops / median(blas);
  return row;
}

template <class Scheme>
Row measure(const Settings& s, const std::string& scalar, cubist::ProductSize size, int ranks)
{
  return scalar == "float" ? measure<Scheme, float>(s, size, ranks)
                           : measure<Scheme, double>(s, size, ranks);
}

Row measure(const Settings& s, const std::string& scheme, const std::string& scalar,
            cubist::ProductSize size)
{
  const auto ranks = [&](int usual) { return s.ranks.empty() ? usual : s.ranks.front(); };
  if (scheme == "summa2d") return measure<cubist::Summa2D>(s, scalar, size, ranks(4));
  if (scheme == "summa25d") return measure<cubist::Summa25D>(s, scalar, size, ranks(8));
  return measure<cubist::Cube3D>(s, scalar, size, ranks(8));
}

void run_matmul(const Settings& s)
{
  cubist::require<cubist::ArgumentError>(
      s.shape.empty() || s.shape.size() == 3, "got a shape of ", s.shape.size(),
      " numbers, but a product has three sizes; use --shape m,n,k");
  std::vector<cubist::ProductSize> sizes;
  if (!s.shape.empty())
    sizes.push_back({s.shape[0], s.shape[1], s.shape[2]});
  else
    for (const auto n : s.sizes) sizes.push_back({n, n, n});

  const bool table = s.json != "-";
  if (table)
    std::printf("BLAS kernels %s, %u cores, threads backend; GFLOP/s, medians of %d\n"
                "%-9s %-24s %-7s %18s %9s %9s %6s\n",
                cubist::blas_core_name().c_str(), std::thread::hardware_concurrency(), s.repeats,
                "scheme", "mesh", "scalar", "m x n x k", "cubist", "BLAS", "ratio");
  auto rows = nlohmann::json::array();
  for (const auto& scheme : s.schemes)
    for (const auto& scalar : s.scalars)
      for (const auto& size : sizes)
      {
        const Row r = measure(s, scheme, scalar, size);
        const std::string shape =
            std::to_string(size.m) + "x" + std::to_string(size.n) + "x" + std::to_string(size.k);
        if (table)
        {
          std::printf("%-9s %-24s %-7s %18s %9.1f %9.1f %6.2f\n", r.scheme.c_str(), r.mesh.c_str(),
                      r.scalar.c_str(), shape.c_str(), r.ours, r.blas, r.ours / r.blas);
          std::fflush(stdout);
        }
        rows.push_back({{"scheme", r.scheme},
                        {"mesh", r.mesh},
                        {"backend", "threads"},
                        {"scalar", r.scalar},
                        {"m", size.m},
                        {"n", size.n},
                        {"k", size.k},
                        {"repeats", s.repeats},
                        {"gflops", r.ours},
                        {"blas_gflops", r.blas},
                        {"ratio", r.ours / r.blas}});
      }
  if (!s.json.empty())
    write_json({{"benchmark", "matmul"},
                {"blas_kernels", cubist::blas_core_name()},
                {"cores", std::thread::hardware_concurrency()},
                {"rows", rows}},
               s.json);
}

}  // namespace

void add_matmul(CLI::App& app, std::function<void()>& run)
{
  const auto s = std::make_shared<Settings>();
  auto* command = app.add_subcommand("matmul", "each scheme beside BLAS on all cores");
  command->add_option("--schemes", s->schemes)
      ->delimiter(',')
      ->check(CLI::IsMember({"summa2d", "summa25d", "cube3d"}))
      ->capture_default_str();
  command->add_option("--scalars", s->scalars)
      ->delimiter(',')
      ->check(CLI::IsMember({"float", "double"}))
      ->capture_default_str();
  command->add_option("--sizes", s->sizes, "n of n x n x n products")
      ->delimiter(',')
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->add_option("--shape", s->shape, "m,n,k of one product")
      ->delimiter(',')
      ->check(CLI::PositiveNumber);
  command->add_option("--ranks", s->ranks, "how many (4 for summa2d, else 8)")
      ->expected(1)
      ->check(CLI::PositiveNumber);
  command->add_option("--repeats", s->repeats)->check(CLI::PositiveNumber)->capture_default_str();
  command->add_option("--warm-up", s->warm_up)
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command->add_option("--json", s->json, "write the rows to a file, or to - for standard output");
  command->callback([s, &run] { run = [s] { run_matmul(*s); }; });
}

}  // namespace bench
