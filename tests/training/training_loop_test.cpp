// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/nn/networks/mlp.hpp"
#include "cubist/training/training_loop.hpp"

#include "nn.hpp"

namespace cubist::test::training_loop_test
{

/// What a loop did with its optimizer.
struct Record
{
  std::vector<double> rates;
  std::vector<double> bases;
  std::vector<double> factors;
  std::size_t parameters = 0;
};

/// An optimizer that changes nothing.
template <class M>
class Recorder final : public detail::LoopOptimizer<double, M>
{
 public:
  Recorder(Record& record, std::optional<std::size_t> micro_batches)
      : record_{record},
        micro_batches_{micro_batches}
  {
  }
  [[nodiscard]] std::optional<std::size_t> micro_batches() const override { return micro_batches_; }
  void restart() override {}
  [[nodiscard]] const Parameters<double, M>&
  with_gradients(const Parameters<double, M>& whole) override
  {
    return whole;
  }
  void set_learning_rate(double rate, double base) override
  {
    record_.rates.push_back(rate);
    record_.bases.push_back(base);
  }
  void step(const Parameters<double, M>& whole, double factor) override
  {
    record_.factors.push_back(factor);
    record_.parameters = whole.size();
  }

 private:
  Record& record_;
  std::optional<std::size_t> micro_batches_;
};

/// Runs the loop for an MLP with two layers.
/// @param of_step  the number of micro-batches that the optimizer says it takes
template <class Place>
Record run_loop(const Place& place, const TrainerOptions& options,
                std::optional<std::size_t> of_step)
{
  return on_root(place, [&](const auto& mesh) {
    using S = typename Place::Scheme;
    MLP<S, TestBackend, double> mlp{mesh, {4, 6, 3}, {.seed = 2}};
    using M = typename decltype(mlp)::Mesh;
    Record record;
    const auto loop = detail::make_training_loop<double, M>(
        mlp.parameters(), state_of(mlp), std::make_unique<Recorder<M>>(record, of_step), options);
    const auto run = loop->run(
        [&](const MicroBatch& batch) {
          const auto x = scatter<typename S::Input>(mesh, uniform<double>(8, 4, batch.index));
          return mlp.compute_gradients(x, classes(8, 3));
        },
        [](std::uint64_t) { return std::vector<NamedValue>{}; });
    if (run.losses.size() != options.steps) record.parameters = 0;
    return record;
  });
}

TEST_CASE("a loop gives its optimizer the rate of each step and the factor of clipping")
{
  const LearningRateOptions rate{.rate = 0.5, .warm_up = 2, .steps = 4};
  const Record all =
      run_loop(one_rank, {.steps = 3, .learning_rate = rate, .clip = 1e-3}, std::nullopt);
  LearningRate expected{rate};
  CHECK(all.parameters == 4);
  REQUIRE(all.rates.size() == 3);
  for (const double found : all.rates) CHECK(found == expected.next());
  CHECK(all.bases == std::vector<double>(3, 0.5));
  REQUIRE(all.factors.size() == 3);
  CHECK(std::ranges::all_of(all.factors, [](double f) { return f > 0 && f < 1; }));
}

TEST_CASE("a loop without a rate and clipping leaves both to its optimizer")
{
  const Record all = run_loop(one_rank, {.steps = 2}, std::nullopt);
  CHECK(all.rates.empty());
  CHECK(all.factors == std::vector<double>{1, 1});
}

TEST_CASE("a loop refuses an optimizer for another number of micro-batches")
{
  CHECK_NOTHROW(run_loop(one_rank, {.steps = 1, .micro_batches = 2}, 2));
  CHECK_THROWS_WITH(run_loop(one_rank, {.steps = 1, .micro_batches = 2}, 3),
                    Catch::Contains("got steps of 2 micro-batches and an optimizer for 3"));
}

}  // namespace cubist::test::training_loop_test
