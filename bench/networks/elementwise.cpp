// SPDX-License-Identifier: BSD-3-Clause

#include <cstddef>
#include <cstdio>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <cubist/backend/threads.hpp>
#include <cubist/nn/dense/activation.hpp>
#include <cubist/nn/dense/activation_passes.hpp>
#include <cubist/nn/dense/linear.hpp>
#include <cubist/nn/optimizers/optimizer.hpp>
#include <cubist/scheme/mesh.hpp>
#include <cubist/scheme/summa2d.hpp>

#include "common/options.hpp"
#include "common/times.hpp"
#include "networks/elementwise.hpp"

namespace bench
{

namespace
{

using cubist::MatrixView;

struct ElementwiseOptions : Options
{
  std::size_t rows = 4096;
  std::size_t cols = 4096;
};

const std::vector<std::pair<std::string, cubist::Activation>> activations{
    {"identity", cubist::identity},  {"relu", cubist::relu}, {"sigmoid", cubist::sigmoid},
    {"tanh", cubist::tanh},          {"silu", cubist::silu}, {"gelu", cubist::gelu},
    {"gelu_tanh", cubist::gelu_tanh}};

/// Allocates memory that begins on a cache line. In cache, vector loads that cross lines cost a
/// sigmoid 6 % of its time and a ReLU 40 %, so without this two builds of the same loops would
/// differ by what they had allocated before.
template <class T>
struct OnCacheLine
{
  using value_type = T;
  static constexpr std::align_val_t line{64};

  OnCacheLine() = default;
  template <class U>
  OnCacheLine(const OnCacheLine<U>&)
  {
  }
  T* allocate(std::size_t n) { return static_cast<T*>(::operator new(n * sizeof(T), line)); }
  void deallocate(T* p, std::size_t) { ::operator delete(p, line); }
  friend bool operator==(const OnCacheLine&, const OnCacheLine&) { return true; }
};
template <class T>
using Numbers = std::vector<T, OnCacheLine<T>>;

/// Makes `count` matrices with elements from -4 to 4.
template <class T>
std::vector<Numbers<T>> matrices(std::size_t count, std::size_t size)
{
  std::vector<Numbers<T>> all(count, Numbers<T>(size));
  for (std::size_t k = 0; k < count; ++k)
    for (std::size_t i = 0; i < size; ++i)
      all[k][i] = static_cast<T>(static_cast<double>((i * 7919 + k) % 8001) / 1000 - 4);
  return all;
}

/// The plain loops, which only add: `add` writes y, and `add_to` also changes matrices that it
/// reads.
template <class T>
[[gnu::noinline]] void add(std::size_t n, T* __restrict y, const T* __restrict x)
{
  for (std::size_t i = 0; i < n; ++i) y[i] = x[i] + T{1};
}
template <class T>
[[gnu::noinline]] void add(std::size_t n, T* __restrict y, const T* __restrict a,
                           const T* __restrict b)
{
  for (std::size_t i = 0; i < n; ++i) y[i] = a[i] + b[i];
}
template <class T>
[[gnu::noinline]] void add_to(std::size_t n, T* __restrict z, T* __restrict y)
{
  for (std::size_t i = 0; i < n; ++i) y[i] = z[i] += T{1};
}
template <class T>
[[gnu::noinline]] void add_to(std::size_t n, T* __restrict w, const T* __restrict g,
                              T* __restrict v)
{
  for (std::size_t i = 0; i < n; ++i) w[i] += v[i] += g[i];
}
template <class T>
[[gnu::noinline]] void add_to(std::size_t n, T* __restrict w, const T* __restrict g,
                              T* __restrict m, T* __restrict v)
{
  for (std::size_t i = 0; i < n; ++i)
  {
    m[i] += g[i];
    v[i] += g[i];
    w[i] += m[i] + v[i];
  }
}

/// Measures functions beside plain loops, and puts each into the table and the JSON.
class Table
{
 public:
  Table(const Job& job, const ElementwiseOptions& options)
      : options_{options},
        print_{options.json != "-"},
        json_(describe(job, "elementwise"))
  {
    if (print_)
      std::printf("%zu x %zu elements, one core, medians of %d\n%-10s %-10s %-7s %10s %10s %7s\n",
                  options.rows, options.cols, options.repeats, "function", "pass", "scalar", "GB/s",
                  "plain GB/s", "ratio");
  }

  /// Measures f and its plain loop alternately, and adds a row.
  /// @param passes  how many matrices are read or written
  template <class T, class F, class G>
  void row(const std::string& function, const char* pass, int passes, F f, G plain)
  {
    std::vector<double> times;
    std::vector<double> plain_times;
    for (int i = -options_.warm_up; i < options_.repeats; ++i)
    {
      const double p = seconds(plain);
      const double t = seconds(f);
      if (i < 0) continue;
      plain_times.push_back(p);
      times.push_back(t);
    }
    const Times measured{times};
    const Times peer{plain_times};
    const auto bytes = static_cast<double>(options_.rows * options_.cols * sizeof(T)) * passes;
    const double rate = 1e-9 * bytes / measured.median;
    const double plain_rate = 1e-9 * bytes / peer.median;
    const double ratio = peer.median / measured.median;
    const char* scalar = sizeof(T) == sizeof(float) ? "float" : "double";
    if (print_)
    {
      std::printf("%-10s %-10s %-7s %10.2f %10.2f %7.2f\n", function.c_str(), pass, scalar, rate,
                  plain_rate, ratio);
      std::fflush(stdout);
    }
    json_["rows"].push_back({{"function", function},
                             {"pass", pass},
                             {"scalar", scalar},
                             {"rows", options_.rows},
                             {"cols", options_.cols},
                             {"bytes", bytes},
                             {"repeats", options_.repeats},
                             {"warm_up", options_.warm_up},
                             {"seconds", measured.median},
                             {"min_seconds", measured.min},
                             {"plain_seconds", peer.median},
                             {"plain_min_seconds", peer.min},
                             {"gigabytes_per_second", rate},
                             {"plain_gigabytes_per_second", plain_rate},
                             {"ratio", ratio}});
  }

  [[nodiscard]] const nlohmann::json& json() const { return json_; }

 private:
  const ElementwiseOptions& options_;
  bool print_;
  nlohmann::json json_;
};

/// Measures each activation: y = f(z) alone, forward with the bias as in a layer, and backward with
/// the sums for the bias.
template <class T>
void measure_activations(const ElementwiseOptions& options, Table& table)
{
  const cubist::HostEngine engine;
  const cubist::Shape shape{options.rows, options.cols};
  auto m = matrices<T>(3, shape.size());
  auto row = matrices<T>(2, shape.cols);
  const MatrixView<T> z{m[0].data(), shape};
  const MatrixView<T> y{m[1].data(), shape};
  const MatrixView<T> dy{m[2].data(), shape};
  const MatrixView<T> sums{row[1].data(), {1, shape.cols}};
  // The bias is zero, so that z stays in its range, however often it is added.
  row[0].assign(shape.cols, T{});
  const auto bias = MatrixView<T>{row[0].data(), {1, shape.cols}}.repeated(shape.rows);
  const std::size_t n = shape.size();
  for (const auto& [name, activation] : activations)
    std::visit(
        [&, label = name](auto f) {
          using F = decltype(f);
          table.row<T>(
              label, "map", 2, [&] { engine.map(y, f, z); },
              [&] { add<T>(n, y.data(), z.data()); });
          table.row<T>(
              label, "forward", 3,
              [&] { engine.for_each(cubist::detail::AddAndActivate<F>{f}, z, y, bias); },
              [&] { add_to<T>(n, dy.data(), y.data()); });
          table.row<T>(
              label, "backward", 3,
              [&] { engine.map_sums(y, sums, cubist::detail::Slope<F>{f}, dy, z); },
              [&] { add<T>(n, y.data(), dy.data(), z.data()); });
        },
        activation);
}

/// Measures a step of each optimizer on one layer's weight.
template <class T>
void measure_optimizers(const ElementwiseOptions& options, Table& table)
{
  cubist::launch<cubist::Threads>({.ranks = 1}, [&](auto& world) {
    using Layer = cubist::Linear<cubist::Summa2D, cubist::Threads, T>;
    const cubist::Mesh<cubist::Summa2D, cubist::Threads> mesh{world};
    Layer layer{mesh, options.rows, options.cols, {.bias = false}};
    cubist::Parameters<T, typename Layer::Mesh> parameters;
    layer.append_parameters(parameters, "");
    const std::size_t n = options.rows * options.cols;
    auto m = matrices<T>(4, n);
    const MatrixView<const T> gradient{m[1].data(), {options.rows, options.cols}};
    mesh.engine().copy(gradient, parameters[0].gradient.valid());
    const auto measure = [&](const char* name, int passes, auto optimizer, auto plain) {
      table.row<T>(
          name, "step", passes, [&] { optimizer.step(parameters); }, plain);
    };
    const auto plain_sgd = [&] { add_to<T>(n, m[0].data(), m[1].data(), m[2].data()); };
    const auto plain_adam = [&] {
      add_to<T>(n, m[0].data(), m[1].data(), m[2].data(), m[3].data());
    };
    measure("sgd", 5, cubist::Sgd{parameters, {.momentum = 0.9}}, plain_sgd);
    measure("adam", 7, cubist::Adam{parameters}, plain_adam);
    measure("adamw", 7, cubist::AdamW{parameters}, plain_adam);
  });
}

void run_elementwise(const Job& job, const ElementwiseOptions& options)
{
  if (!job.first) return;
  Table table{job, options};
  for (const auto& scalar : options.scalars)
  {
    const auto measure = [&]<class T>(T) {
      measure_activations<T>(options, table);
      measure_optimizers<T>(options, table);
    };
    if (scalar == "float")
      measure(float{});
    else
      measure(double{});
  }
  write_json(table.json(), options.json);
}

}  // namespace

void add_elementwise(CLI::App& app, Action& action)
{
  const auto options = std::make_shared<ElementwiseOptions>();
  auto* command = app.add_subcommand(
      "elementwise", "measures activations and optimizers beside plain loops over as many bytes");
  command->add_option("--rows", options->rows, "the rows of a matrix")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->add_option("--cols", options->cols, "the columns of a matrix")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->add_option("--scalars", options->scalars, "the types of the elements")
      ->delimiter(',')
      ->check(CLI::IsMember({"float", "double"}))
      ->capture_default_str();
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
  command->callback([options, &action] {
    action = [options](const Job& job) { run_elementwise(job, *options); };
  });
}

}  // namespace bench
