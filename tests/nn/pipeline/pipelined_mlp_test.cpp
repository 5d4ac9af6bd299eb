// SPDX-License-Identifier: BSD-3-Clause
// Tests that an MLP trains in stages as on one rank.

#include "cubist/nn/optimizers/optimizer.hpp"
#include "cubist/nn/pipeline/pipelined_mlp.hpp"
#include "cubist/training/clip_gradients.hpp"

#include "checked_step.hpp"
#include "nn.hpp"

namespace cubist::test::pipelined_mlp_test
{

const std::vector<std::size_t> sizes{7, 11, 6, 13, 9, 5};
constexpr std::size_t samples = 14;
constexpr int steps = 8;

static MlpOptions options()
{
  return {.activation = gelu, .output = cubist::tanh, .dropout = 0.1, .seed = 5};
}

TEST_CASE("layers in stages begin with the bits that they have on one rank")
{
  const auto values_of = [](const auto& mesh, auto& mlp) {
    std::vector<std::pair<std::string, Global<double>>> all;
    for (const auto& p : mlp.parameters()) all.emplace_back(p.name, gather(p.value));
    static_cast<void>(mesh);
    return all;
  };
  const auto wanted = on_root(one_rank, [&](const auto& mesh) {
    MLP<Summa2D, TestBackend, double> mlp{mesh, sizes, options()};
    return values_of(mesh, mlp);
  });
  if (!fits(8)) return;
  const auto got = on_root(Place<Pipeline<Summa2D>>{8, {2, {.q = 2}}}, [&](const auto& mesh) {
    MLP<Pipeline<Summa2D>, TestBackend, double> mlp{mesh, sizes, options()};
    return values_of(mesh, mlp);
  });
  REQUIRE(got.size() == wanted.size());
  for (std::size_t i = 0; i < got.size(); ++i)
  {
    CHECK(got[i].first == wanted[i].first);
    CHECK(identical(got[i].second, wanted[i].second));
  }
}

/// Labels, where the third of four micro-batches has none.
static std::vector<int> labels()
{
  auto all = classes(samples, sizes.back());
  for (const std::size_t i : {3U, 8U, 9U, 10U}) all[i] = -100;
  return all;
}

/// The losses, the norms of gradients, and the parameters after training on one rank, with batches
/// of consecutive rows that are weighted by their labels.
struct Run
{
  std::vector<double> curve, norms;
  std::vector<Global<double>> values;
};

/// The first row of each micro-batch, and its number of rows: as equal as possible, the first ones
/// larger.
static std::vector<std::pair<std::size_t, std::size_t>> ranges(std::size_t parts)
{
  std::vector<std::pair<std::size_t, std::size_t>> all;
  for (std::size_t i = 0, first = 0; i < parts; ++i)
  {
    const std::size_t rows = (samples - first + parts - i - 1) / (parts - i);
    all.emplace_back(first, rows);
    first += rows;
  }
  return all;
}

static Run trained_on_one_rank(std::size_t micro_batches)
{
  return on_root(one_rank, [&](const auto& mesh) {
    using S = Summa2D;
    MLP<S, TestBackend, double> mlp{mesh, sizes, options()};
    const auto parameters = mlp.parameters();
    AdamW optimizer{parameters, {.learning_rate = 0.01}};
    const auto x = uniform<double>(samples, sizes.front(), 1, 2);
    const auto all = labels();
    const auto parts = ranges(micro_batches);
    GradientAccumulation accumulation{parameters, parts.size()};
    Run run;
    for (int step = 0; step < steps; ++step)
    {
      double loss = 0;
      for (const auto& [first, rows] : parts)
      {
        const auto mine = generate<double>(rows, x.shape(1),
                                           [&, f = first](auto i, auto j) { return x(f + i, j); });
        const std::span<const int> of{all.data() + first, rows};
        const auto& y = mlp.forward(scatter<S::Input>(mesh, mine));
        auto dy = zeros_like(y);
        const double share = static_cast<double>(detail::count_labels(of)) / (samples - 4);
        const double mean = softmax_cross_entropy(y, of, dy);
        if (share > 0) loss += share * mean;
        scale_gradient(dy, share * static_cast<double>(parts.size()));
        mlp.backward(dy);
      }
      run.curve.push_back(loss);
      run.norms.push_back(clip_gradients(parameters, 0.5));
      checked_step(optimizer, parameters);
    }
    for (const auto& p : parameters) run.values.push_back(gather(p.value));
    return run;
  });
}

template <class P>
Run trained(const Place<P>& place, const PipelineOptions& pipeline, std::size_t recompute = 0)
{
  return on_root(place, [&](const auto& mesh) {
    auto o = options();
    o.pipeline = pipeline;
    o.recompute = recompute;
    MLP<P, TestBackend, double> mlp{mesh, sizes, o};
    const auto parameters = mlp.parameters();
    AdamW optimizer{parameters, {.learning_rate = 0.01}};
    const auto x = scatter<typename P::Input>(mesh, uniform<double>(samples, sizes.front(), 1, 2));
    const auto all = labels();
    Run run;
    for (int step = 0; step < steps; ++step)
    {
      run.curve.push_back(mlp.compute_gradients(x, all));
      run.norms.push_back(clip_gradients(parameters, 0.5));
      checked_step(optimizer, parameters);
    }
    for (const auto& p : parameters) run.values.push_back(gather(p.value));
    return run;
  });
}

static void check_equal(const Run& run, const Run& wanted)
{
  CHECK(deviation(run.curve, wanted.curve) < 1e-12);
  CHECK(deviation(run.norms, wanted.norms) < 1e-12);
  REQUIRE(run.values.size() == wanted.values.size());
  for (std::size_t i = 0; i < run.values.size(); ++i)
    CHECK(difference(run.values[i], wanted.values[i]) < 1e-11);
}

TEST_CASE("an MLP in stages trains as on one rank")
{
  const Run wanted = trained_on_one_rank(4);
  CHECK(wanted.curve.back() < wanted.curve.front());
  const auto on = [&](const auto& place, const PipelineOptions& pipeline,
                      std::size_t recompute = 0) {
    if (!fits(place.ranks)) return;
    CAPTURE(place.name(), pipeline.micro_batches, pipeline.pieces, recompute);
    check_equal(trained(place, pipeline, recompute), wanted);
  };
  on(Place<Pipeline<Summa2D>>{2, {2, {.q = 1}}}, {.micro_batches = 4});
  on(Place<Pipeline<Summa2D>>{8, {2, {.q = 2}}}, {.micro_batches = 4});
  on(Place<Pipeline<Summa2D>>{8, {4, {.rows = 1, .cols = 2}}}, {.micro_batches = 4});
  on(Place<Pipeline<Cube3D>>{3, {3, {1}}}, {.micro_batches = 4, .layers = {1, 3, 1}});
  on(Place<Pipeline<Summa2D>>{2, {2, {.q = 1}}}, {.micro_batches = 4}, 2);
  on(Place<Pipeline<Summa2D>>{4, {2, {.rows = 2, .cols = 1}}}, {.micro_batches = 4, .pieces = 2});
  on(Place<DataParallel<Pipeline<Summa2D>>>{8, {2, {2, {.rows = 1, .cols = 2}}}},
     {.micro_batches = 4});
  // One stage has only one piece.
  on(Place<Pipeline<Summa2D>>{1, {1, {.q = 1}}}, {.micro_batches = 4, .pieces = 7});
}

TEST_CASE("an MLP in stages has the outputs, the score and the gradients of one rank")
{
  struct Found
  {
    Global<double> y;
    Score score;
    double loss;
    std::vector<Global<double>> gradients;
  };
  const auto x = uniform<double>(samples, sizes.front(), 1, 2);
  const auto target = uniform<double>(samples, sizes.back(), 7, 1);
  auto o = options();
  o.dropout = 0;
  o.frozen = {"layers.0.*"};
  o.pipeline.micro_batches = 3;
  const auto gradients_of = [](auto& mlp) {
    std::vector<Global<double>> all;
    for (const auto& p : mlp.parameters()) all.push_back(gather(p.gradient));
    return all;
  };
  const Found wanted = on_root(one_rank, [&](const auto& mesh) {
    MLP<Summa2D, TestBackend, double> mlp{mesh, sizes, o};
    const auto in = scatter<Summa2D::Input>(mesh, x);
    Found f{{}, mlp.evaluate(in, labels()), 0, {}};
    const auto& y = mlp.forward(in);
    f.y = gather(y);
    auto dy = zeros_like(y);
    f.loss = mean_squared_error(y, mlp.scatter_target(target), dy);
    scale_gradient(dy, 4);
    mlp.backward(dy);
    f.gradients = gradients_of(mlp);
    return f;
  });
  const auto on = [&]<class P>(const Place<P>& place) {
    if (!fits(place.ranks)) return;
    CAPTURE(place.name());
    const Found got = on_root(place, [&](const auto& mesh) {
      MLP<P, TestBackend, double> mlp{mesh, sizes, o};
      const auto in = scatter<typename P::Input>(mesh, x);
      Found f{gather(mlp.predict(in)), mlp.evaluate(in, labels()), 0, {}};
      f.loss = mlp.compute_gradients(in, mlp.scatter_target(target), 4);
      f.gradients = gradients_of(mlp);
      return f;
    });
    CHECK(difference(got.y, wanted.y) < 1e-14);
    CHECK(deviation({got.loss, got.score.loss, got.score.accuracy},
                    {wanted.loss, wanted.score.loss, wanted.score.accuracy}) < 1e-13);
    REQUIRE(got.gradients.size() == wanted.gradients.size());
    for (std::size_t i = 0; i < got.gradients.size(); ++i)
      CHECK(difference(got.gradients[i], wanted.gradients[i]) < 1e-13);
  };
  on(Place<Pipeline<Summa2D>>{8, {2, {.q = 2}}});
  on(Place<Pipeline<Cube3D>>{3, {3, {1}}});
}

TEST_CASE("a step of an MLP in stages does not depend on the shapes of the steps before")
{
  const auto check = [](const auto& place) {
    if (!fits(place.ranks)) return;
    CAPTURE(place.name());
    enum class Batch
    {
      whole,
      one_row,
      coarse
    };
    const auto gradients_after = [&](std::initializer_list<Batch> batches) {
      return on_root(place, [&](const auto& mesh) {
        using Net = MLP<Pipeline<Summa2D>, TestBackend, double>;
        // As many micro-batches as stages, or as rows.
        Net mlp{mesh, sizes, {.activation = gelu, .seed = 5}};
        for (const Batch batch : batches)
        {
          const std::size_t count = batch == Batch::one_row ? 1 : samples;
          typename Net::Input x{mesh, {count, sizes.front()}};
          if (batch == Batch::coarse) x = {mesh, x.shape(), {3 * x.quanta().rows, x.quanta().cols}};
          scatter(uniform<double>(count, sizes.front(), 1, 2), x);
          (void)mlp.compute_gradients(x, classes(count, sizes.back()));
        }
        std::vector<Global<double>> all;
        for (const auto& p : mlp.parameters()) all.push_back(gather(p.gradient));
        return all;
      });
    };
    const auto same = [&](std::initializer_list<Batch> batches) {
      const auto got = gradients_after(batches), wanted = gradients_after({*(batches.end() - 1)});
      for (std::size_t i = 0; i < wanted.size(); ++i) CHECK(identical(got[i], wanted[i]));
    };
    same({Batch::whole, Batch::one_row});
    same({Batch::one_row, Batch::whole});
    same({Batch::whole, Batch::coarse});
  };
  check(Place<Pipeline<Summa2D>>{2, {2, {.q = 1}}});
  check(Place<Pipeline<Summa2D>>{4, {2, {.rows = 2, .cols = 1}}});
}

TEST_CASE("labels, inputs and cuts that do not fit an MLP in stages are refused")
{
  if (!fits(2)) return;
  const auto messages = on_root(Place<Pipeline<Summa2D>>{2, {2, {.q = 1}}}, [](const auto& mesh) {
    using Net = MLP<Pipeline<Summa2D>, TestBackend, double>;
    Net mlp{mesh, {3, 4, 2}, {.pipeline = {.micro_batches = 7}}};
    const typename Net::Input x{mesh, {6, 3}}, wide{mesh, {6, 4}};
    const std::vector<int> six(6, 1), five(5, 1);
    std::vector<std::string> all;
    const auto of_shape = [&](auto f) { all.push_back(message_of<ShapeError>(f)); };
    of_shape([&] { (void)mlp.compute_gradients(x, five); });
    of_shape([&] { (void)mlp.compute_gradients(wide, six); });
    of_shape([&] { Net none{mesh, {3}}; });
    all.push_back(message_of<ArgumentError>([&] { Net thin{mesh, {3, 2}}; }));
    all.push_back(message_of<ArgumentError>([&] { (void)mlp.compute_gradients(x, six); }));
    all.push_back(std::isfinite(mlp.evaluate(x, six).loss) ? "evaluated" : "");
    return all;
  });
  CHECK(mentions(messages[0], "5 labels"));
  CHECK(mentions(messages[1], "(6, 4)", "3 inputs"));
  CHECK(mentions(messages[2], "1 sizes"));
  CHECK(mentions(messages[3], "1 layers", "2 stages"));
  CHECK(mentions(messages[4], "got 6 rows for 7 micro-batches", "fewer `.micro_batches`"));
  CHECK(messages[5] == "evaluated");
}

}  // namespace cubist::test::pipelined_mlp_test
