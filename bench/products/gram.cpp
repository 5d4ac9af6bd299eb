// SPDX-License-Identifier: BSD-3-Clause

#include <cstddef>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <cubist/backend/threads.hpp>
#include <cubist/comm/window.hpp>
#include <cubist/compiled/loops.hpp>
#include <cubist/engine/host/blas_threads.hpp>
#include <cubist/engine/syrk.hpp>
#include <cubist/matmul/dist_gram.hpp>
#include <cubist/matmul/dist_matmul.hpp>
#include <cubist/mesh/mesh.hpp>
#include <cubist/scheme/gram_grid.hpp>
#include <cubist/scheme/summa2d.hpp>

#include "common/options.hpp"
#include "common/times.hpp"
#include "meter/all_cores.hpp"
#include "products/gram.hpp"
#include "products/matmul.hpp"
#include "products/product.hpp"

namespace bench
{

namespace
{

using cubist::MatrixView;
using cubist::Op;

struct GramOptions : Options
{
  GramOptions() { ranks = 8; }
  std::vector<std::string> shapes{"1024x1024", "1024x4096", "2048x2048"};
};

/// The product of X (n, k) with its transpose, on one rank.
template <class T>
class LocalGram
{
 public:
  explicit LocalGram(cubist::Shape x)
      : x_(x.size()),
        c_(x.rows * x.rows),
        in_{x_.data(), x},
        out_{c_.data(), {x.rows, x.rows}}
  {
    engine_.map_indexed(MatrixView<T>{x_.data(), x}, XAt<T>{});
  }

  void by_gemm() { engine_.gemm(Op::none, Op::transpose, T{1}, in_, in_, T{}, out_); }
  void by_syrk()
  {
    cubist::syrk<cubist::HostEngine, T>(engine_, cubist::Triangle::lower, T{1}, in_, T{}, out_);
    cubist::mirror(engine_, cubist::Triangle::lower, out_);
  }

 private:
  using Buffer = typename cubist::HostEngine::Buffer<T>;

  cubist::HostEngine engine_;
  Buffer x_;
  Buffer c_;
  MatrixView<const T> in_;
  MatrixView<T> out_;
};

/// The times of each way, which take turns: on one core, on all cores, and on the ranks.
struct GramTimes
{
  std::vector<double> core_gemm, core_syrk, cores_gemm, ranks_gemm, ranks_gram;
  std::string mesh;
};

template <class T>
GramTimes measure(cubist::Shape x, const GramOptions& options)
{
  using World = cubist::Threads::Communicator;
  using Grid = cubist::AxisMesh<cubist::GramGrid::Axes, cubist::Threads>;
  using ByGemm = cubist::DistMatMul<cubist::Summa2D, cubist::Threads, T, Op::none, Op::transpose>;
  GramTimes times;
  cubist::launch<cubist::Threads>({.ranks = options.ranks}, [&](World& world) {
    const Grid grid{
        world,
        cubist::GramGrid::best_extents(options.ranks, x.rows, x.cols, cubist::can_expose(world)),
        1};
    cubist::DistGram<T, cubist::GramGrid::Weight, Grid> gram{grid, x.rows, x.cols};
    cubist::DistMatrix<T, cubist::GramGrid::Weight, Grid> on_grid{grid, x};
    cubist::DistMatrix<T, cubist::GramGrid::Input, Grid> a{grid, {x.rows, x.rows}};
    const cubist::Mesh<cubist::Summa2D, cubist::Threads> mesh{world};
    ByGemm product{mesh, {.m = x.rows, .n = x.rows, .k = x.cols}};
    typename ByGemm::Input left{mesh, x};
    typename ByGemm::Weight right{mesh, x};
    typename ByGemm::Output y{mesh, {x.rows, x.rows}};
    on_grid.generate(XAt<T>{}), left.generate(XAt<T>{}), right.generate(XAt<T>{});
    const bool first = world.rank() == 0;
    if (first) times.mesh = cubist::GramGrid::Axes::to_string(grid.extents());
    const auto together = [&](auto f) {
      world.barrier();
      return seconds([&] { f(), world.barrier(); });
    };
    std::unique_ptr<LocalGram<T>> local;
    if (first) local = std::make_unique<LocalGram<T>>(x);
    for (int i = -options.warm_up; i < options.repeats; ++i)
    {
      const double by_gemm = together([&] { product.forward(left, right, y); });
      const double by_gram = together([&] { gram.forward(on_grid, a); });
      if (first)
      {
        const auto alone = [&] {
          const cubist::BlasThreads one{1};
          const double begin = processor_seconds();
          local->by_gemm();
          const double middle = processor_seconds();
          local->by_syrk();
          return std::pair{middle - begin, processor_seconds() - middle};
        }();
        const double on_cores = [&] {
          const AllCores cores;
          return seconds([&] { local->by_gemm(); });
        }();
        if (i >= 0)
        {
          times.ranks_gemm.push_back(by_gemm), times.ranks_gram.push_back(by_gram);
          times.core_gemm.push_back(alone.first), times.core_syrk.push_back(alone.second);
          times.cores_gemm.push_back(on_cores);
        }
      }
      world.barrier();
    }
  });
  return times;
}

void run_gram(const Job& job, const GramOptions& options)
{
  const bool print = options.json != "-";
  auto result = describe(job, "gram");
  if (print)
    std::printf(
        "X X^T, medians of %d, ms and ratios\n%-6s %-12s %8s %8s %6s   %-16s %8s %8s %6s  %s\n",
        options.repeats, "scalar", "n x k", "gemm", "syrk", "ratio", "ranks on a grid", "gemm",
        "gram", "ratio", "gram / BLAS on all cores");
  for (const auto& scalar : options.scalars)
    for (const auto& text : options.shapes)
    {
      const auto parsed = parse_shape(text + "x1");
      const cubist::Shape x{parsed.m, parsed.n};
      const auto t = scalar == "float" ? measure<float>(x, options) : measure<double>(x, options);
      const Times core_gemm{t.core_gemm}, core_syrk{t.core_syrk}, ranks_gemm{t.ranks_gemm},
          ranks_gram{t.ranks_gram}, cores{t.cores_gemm};
      const double ratio = core_syrk.median / core_gemm.median;
      const double ranks_ratio = ranks_gram.median / ranks_gemm.median;
      const double cores_ratio = ranks_gram.median / cores.median;
      if (print)
      {
        std::printf("%-6s %-12s %8.2f %8.2f %6.2f   %-16s %8.2f %8.2f %6.2f  %6.2f\n",
                    scalar.c_str(), text.c_str(), 1e3 * core_gemm.median, 1e3 * core_syrk.median,
                    ratio, t.mesh.c_str(), 1e3 * ranks_gemm.median, 1e3 * ranks_gram.median,
                    ranks_ratio, cores_ratio);
        std::fflush(stdout);
      }
      result["rows"].push_back({{"scalar", scalar},
                                {"n", x.rows},
                                {"k", x.cols},
                                {"ranks", options.ranks},
                                {"mesh", t.mesh},
                                {"repeats", options.repeats},
                                {"warm_up", options.warm_up},
                                {"core_gemm_seconds", core_gemm.median},
                                {"core_syrk_seconds", core_syrk.median},
                                {"core_ratio", ratio},
                                {"gemm_seconds", ranks_gemm.median},
                                {"seconds", ranks_gram.median},
                                {"ratio", ranks_ratio},
                                {"blas_seconds", cores.median},
                                {"blas_ratio", cores_ratio}});
    }
  write_json(result, options.json);
}

}  // namespace

void add_gram(CLI::App& app, Action& action)
{
  const auto options = std::make_shared<GramOptions>();
  auto* command = app.add_subcommand(
      "gram", "measures X X^T with half the operations beside gemm, on one core and on threads");
  command->add_option("--repeats", options->repeats, "the number of measured runs")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command
      ->add_option("--warm-up", options->warm_up,
                   "the number of runs before these, which are not counted")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command->add_option("--json", options->json,
                      "write the results to this file; - for standard output");
  command->add_option("--ranks", options->ranks, "the number of threads")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->add_option("--scalars", options->scalars, "the types of the elements")
      ->delimiter(',')
      ->check(CLI::IsMember({"float", "double"}))
      ->capture_default_str();
  command->add_option("--shapes", options->shapes, "the sizes of X, as NxK")
      ->delimiter(',')
      ->capture_default_str();
  command->callback(
      [options, &action] { action = [options](const Job& job) { run_gram(job, *options); }; });
}

}  // namespace bench
