// SPDX-License-Identifier: BSD-3-Clause

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <cubist/core/error.hpp>
#include <cubist/core/matrix_view.hpp>
#include <cubist/core/stored_weights.hpp>
#include <cubist/engine/host/blas_threads.hpp>
#include <cubist/engine/host/engine.hpp>
#include <cubist/engine/stored_weight.hpp>

#include "common/options.hpp"
#include "common/times.hpp"
#include "products/weights.hpp"

namespace bench
{

namespace
{

using cubist::HostEngine;
using cubist::MatrixView;
using cubist::Op;
using cubist::Shape;

template <class T>
using Buffer = HostEngine::Buffer<T>;

struct WeightsOptions : Options
{
  std::vector<std::size_t> rows{1, 4, 16};
  std::size_t k = 4096;
  std::size_t n = 4096;
};

/// A product to measure, and the bytes of the weight that it reads.
struct Product
{
  std::string weights;
  std::string stored;  // "in_out", "out_in" or, for a model's own storage, "blocks"
  std::size_t bytes;
  std::function<void(std::size_t rows)> run;
};

/// The products. Elements of X are 1 and those of weights 1/64, so that those of Y are k / 64.
class Products
{
 public:
  explicit Products(const WeightsOptions& options)
      : k_{options.k},
        n_{options.n},
        most_{*std::max_element(options.rows.begin(), options.rows.end())},
        x_(most_ * k_, 1.0F),
        y_(most_ * n_)
  {
    for (const Op op : {Op::none, Op::transpose})
    {
      add<float>("float", op);
      add<cubist::bfloat16>("bfloat16", op);
      add<cubist::half>("half", op);
    }
    for (const auto type :
         {cubist::StoredWeights::bfloat16, cubist::StoredWeights::half, cubist::StoredWeights::q8})
      add(type);
  }
  [[nodiscard]] const std::vector<Product>& all() const { return all_; }

  /// Checks the result of the last product.
  /// @throws cubist::NumericError if it is wrong
  void check(std::size_t rows, const std::string& weights) const
  {
    const float wanted = static_cast<float>(k_) / 64;
    for (std::size_t i = 0; i < rows * n_; ++i)
      cubist::require<cubist::NumericError>(
          std::abs(y_[i] - wanted) <= 0.01F * wanted, "got ", y_[i], " from weights in ", weights,
          ", but ", wanted, " is right, so the measurement means nothing; report this");
  }

 private:
  [[nodiscard]] MatrixView<const float> x(std::size_t rows) const
  {
    return {x_.data(), Shape{rows, k_}};
  }
  [[nodiscard]] MatrixView<float> y(std::size_t rows) { return {y_.data(), Shape{rows, n_}}; }

  /// Adds a product of matrices of one type.
  template <class T>
  void add(const std::string& weights, Op op)
  {
    const auto w = std::make_shared<Buffer<T>>(k_ * n_, T{1.0F / 64});
    const auto xs = std::make_shared<Buffer<T>>(most_ * k_, T{1.0F});
    const auto ys = std::make_shared<Buffer<T>>(most_ * n_);
    all_.push_back(
        {weights, op == Op::none ? "in_out" : "out_in", k_ * n_ * sizeof(T),
         [this, w, xs, ys, op](std::size_t rows) {
           const MatrixView<const T> in{xs->data(), Shape{rows, k_}};
           const MatrixView<const T> weight{w->data(), cubist::op_shape(op, Shape{k_, n_})};
           const MatrixView<T> out{ys->data(), Shape{rows, n_}};
           const HostEngine engine;
           engine.gemm(Op::none, op, T{1.0F}, in, weight, T{0.0F}, out);
           std::copy_n(ys->begin(), rows * n_, y_.begin());
         }});
  }
  /// Adds a product of floats and a stored weight.
  void add(cubist::StoredWeights type)
  {
    const auto w = std::make_shared<cubist::StoredWeight>(type, cubist::Range{0, k_, k_}, k_, n_);
    const std::vector<float> row(n_ * 32, 1.0F / 64);
    for (std::size_t i = 0; i < k_; i += 32)
      w->set(i, 0,
             MatrixView<const float>{row.data(), Shape{std::min<std::size_t>(32, k_ - i), n_}},
             "w");
    all_.push_back({to_string(type), "blocks", w->view().bytes(), [this, w](std::size_t rows) {
                      HostEngine{}.multiply_stored(x(rows), w->view(), y(rows));
                    }});
  }

  std::size_t k_;
  std::size_t n_;
  std::size_t most_;
  Buffer<float> x_;
  Buffer<float> y_;
  std::vector<Product> all_;
};

void run_weights(const Job& job, const WeightsOptions& options)
{
  if (!job.first) return;
  const cubist::BlasThreads one{1};
  const bool table = options.json != "-";
  if (table)
    std::printf(
        "Y = X W on one core, W (%zu, %zu); and a copy that reads and writes as many bytes.\n"
        "%s; medians of %d\n%-9s %-7s %5s %10s %8s %10s %6s\n",
        options.k, options.n, job.blas().c_str(), options.repeats, "weights", "stored", "rows",
        "ms", "GB/s", "copy GB/s", "ratio");
  auto result = describe(job, "weights");
  Products products{options};
  for (const std::size_t rows : options.rows)
    for (const auto& product : products.all())
    {
      const Buffer<std::byte> from(product.bytes / 2, std::byte{1});
      Buffer<std::byte> to(product.bytes / 2);
      std::vector<double> times, copies;
      for (int i = -options.warm_up; i < options.repeats; ++i)
      {
        const double copy = seconds([&] { std::copy(from.begin(), from.end(), to.begin()); });
        const double time = seconds([&] { product.run(rows); });
        if (i < 0) continue;
        times.push_back(time);
        copies.push_back(copy);
      }
      products.check(rows, product.weights);
      const Times time{times}, copy{copies};
      const auto bytes = static_cast<double>(product.bytes);
      const double ratio = copy.median / time.median;
      if (table)
        std::printf("%-9s %-7s %5zu %10.3f %8.2f %10.2f %6.2f\n", product.weights.c_str(),
                    product.stored.c_str(), rows, 1e3 * time.median, 1e-9 * bytes / time.median,
                    1e-9 * bytes / copy.median, ratio);
      std::fflush(stdout);
      result["rows"].push_back({{"weights", product.weights},
                                {"stored", product.stored},
                                {"rows", rows},
                                {"k", options.k},
                                {"n", options.n},
                                {"bytes", product.bytes},
                                {"repeats", options.repeats},
                                {"seconds", time.median},
                                {"min_seconds", time.min},
                                {"copy_seconds", copy.median},
                                {"copy_min_seconds", copy.min},
                                {"gigabytes_per_second", 1e-9 * bytes / time.median},
                                {"ratio", ratio}});
    }
  write_json(result, options.json);
}

}  // namespace

void add_weights(CLI::App& app, Action& action)
{
  const auto options = std::make_shared<WeightsOptions>();
  options->repeats = 15;
  auto* command = app.add_subcommand(
      "weights", "measures products with a few rows on one core, for each storage of the weight");
  add_run_options(*command, *options);
  command->add_option("--rows", options->rows, "the numbers of rows of X, one after another")
      ->delimiter(',')
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->add_option("--k", options->k, "the rows of W")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->add_option("--n", options->n, "the columns of W")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->callback(
      [options, &action] { action = [options](const Job& job) { run_weights(job, *options); }; });
}

}  // namespace bench
