// SPDX-License-Identifier: BSD-3-Clause
// Tests networks on all schemes, or on some of them under MPI and sanitizers. With an odd number of
// layers, the output and the labels are cut differently from the input.

#include "cubist/nn/merge_lora.hpp"
#include "cubist/training/clip_gradients.hpp"

#include "reference.hpp"
#include "training.hpp"

namespace cubist::test::mlp_on_meshes_test
{

/// Calls f(place) for each place that fits.
template <SchemeType S, class F>
void for_each_of(const std::vector<Place<S>>& places, F& f)
{
  for (const auto& place : places)
    if (fits(place)) f(place);
}

/// Calls f(place) for each mesh of each scheme that fits.
template <class F>
void for_each_mesh(F f)
{
  for_each_of(places<Summa25D>(), f);
  for_each_of<Grid3D>({{6, {1, 2, 3}}, {12, {2, 3, 2}}, {8, {4, 2, 1}}}, f);
  for_each_of<Megatron1D>({{4, {}}, {3, {}}}, f);
  for_each_of<DataParallel<Megatron1D>>({{4, {2, {2}}}}, f);
  if constexpr (!few_suffice<TestBackend>)
  {
    for_each_of<Summa2D>({{6, {.rows = 2, .cols = 3}}, {2, {.rows = 2, .cols = 1}}}, f);
    for_each_of<Summa2DWeight>({{6, {.rows = 2, .cols = 3}}}, f);
    for_each_of<Summa2DInput>({{6, {.rows = 3, .cols = 2}}}, f);
    for_each_of(places<Cube3D>(), f);
    for_each_of<Grid2D>({{8, {2, 4}}, {6, {3, 2}}}, f);
    for_each_of<Megatron1DSequence>({{4, {}}, {3, {}}}, f);
    for_each_of<DataParallel<Summa25D>>({{8, {2, {.q = 1, .d = 4}}}}, f);
    for_each_of<DataParallel<Cube3D>>({{16, {2, {2}}}}, f);
  }
}

static void trains_as_one_rank(Training t)
{
  t.steps = repeats(t.steps, 8, t.steps);  // dropout and Adam differ in each step
  const auto wanted = loss_curve<double>(single_rank, t);
  CHECK(wanted.back() < wanted.front());
  for_each_mesh([&](const auto& place) {
    CAPTURE(place.name());
    CHECK(deviation(loss_curve<double>(place, t), wanted) < 1e-8);
  });
}

TEST_CASE("one layer trains as on one rank") { trains_as_one_rank(one_layer); }

TEST_CASE("two layers with GELU, dropout and AdamW train as on one rank")
{
  trains_as_one_rank(two_layers);
}

TEST_CASE("three layers without bias train as on one rank") { trains_as_one_rank(three_layers); }

TEST_CASE("five layers train as on one rank") { trains_as_one_rank(five_layers); }

/// Compares this rank's gradients, bit by bit, after a step with dropout.
template <SchemeType S, class B>
[[nodiscard]] Findings recomputes_gradients(const Mesh<S, B>& mesh)
{
  Findings found;
  const auto x = scatter<typename S::Input>(mesh, uniform<double>(rows, five_layers.in(), 1));
  const auto gradients = [&](std::size_t recompute) {
    auto options = five_layers.options;
    options.recompute = recompute;
    MLP<S, B, double> mlp{mesh, five_layers.sizes, options};
    auto dy = mlp.forward(x);  // serves as a gradient
    std::vector<double> all;
    const auto append = [&](MatrixView<const double> m) {
      for (std::size_t i = 0; i < m.rows(); ++i)
        all.insert(all.end(), m.row(i), m.row(i) + m.cols());
    };
    append(mlp.backward_with_input(dy).view().valid());
    for (const auto& p : mlp.parameters()) append(p.gradient.valid());
    return all;
  };
  const auto wanted = gradients(0);
  for (const std::size_t recompute : {1U, 2U})
    found.check(gradients(recompute) == wanted, "segments of ", recompute, " give other bits");
  return found;
}

TEST_CASE("five layers that recompute activations have the gradients of those that keep them")
{
  for_each_mesh([](const auto& place) {
    CAPTURE(place.name());
    require_clear(on_mesh(place, [](const auto& mesh) { return recomputes_gradients(mesh); }));
  });
}

/// The norm of a step's gradients, which is the same on every rank.
template <class S>
std::vector<double> gradient_norms(const Place<S>& place)
{
  return on_mesh(place, [](const auto& mesh) {
    const auto x = scatter<typename S::Input>(mesh, uniform<double>(rows, five_layers.in(), 1));
    MLP<S, TestBackend, double> mlp{mesh, five_layers.sizes, five_layers.options};
    const auto dy = mlp.forward(x);  // serves as a gradient
    mlp.backward(dy);
    return gradient_norm(mlp.parameters());
  });
}

TEST_CASE("the norm of all gradients is that of one rank, whatever is replicated")
{
  const double wanted = gradient_norms(single_rank)[0];
  REQUIRE(wanted > 0);
  for_each_mesh([&](const auto& place) {
    CAPTURE(place.name());
    for (const double norm : gradient_norms(place)) CHECK(norm == Approx(wanted).epsilon(1e-12));
  });
}

TEST_CASE("no rows and one row of one feature train on every mesh")
{
  for_each_mesh([](const auto& place) {
    CAPTURE(place.name());
    for (const std::size_t m : {0U, 1U})
      require_clear(on_mesh(place, [m](const auto& mesh) { return trains_on_few(mesh, m); }));
  });
}

/// Compares outputs, gradients, training and merged weights with tests/data/lora/mlp.py.
template <SchemeType S, class B>
[[nodiscard]] Findings equals_reference_of_lora(const Mesh<S, B>& mesh)
{
  Findings found;
  const Reference reference{std::string{CUBIST_TRANSFORMER_DATA} + "/../lora/mlp.safetensors"};
  using Network = MLP<S, B, double>;
  Network mlp{mesh, {6, 10, 9, 4}, {}, LoraOptions{.rank = 3, .alpha = 6}};
  const auto parameters = mlp.parameters();
  for (const auto& p : parameters) scatter(reference.matrix(p.name), p.value);
  const auto near = [&](const std::string& name, const Global<double>& got, double tolerance) {
    if (mesh.rank() != 0) return;
    const auto wanted = reference.matrix(name);
    double largest = 0;
    for (const double v : wanted) largest = std::max(largest, std::abs(v));
    const double off = difference(got, wanted);
    found.check(off <= tolerance * largest, name, " is off by ", off, " of ", largest);
  };
  const typename Network::Activations x{scatter<typename S::Input>(mesh, reference.matrix("x"))};
  const auto target = mlp.scatter_target(reference.matrix("target"));
  near("y", gather(mlp.predict(x)), 1e-12);
  const double loss = mlp.compute_gradients(x, target);
  near("loss", {{loss}}, 1e-12);
  for (const auto& p : parameters)
    if (is_of_lora(p.name))
      near("grad." + p.name, gather(p.gradient), 1e-12);
    else
      found.check(p.frozen && p.gradient.padded.size() == 0, p.name, " is trained");
  merge_lora(mlp, KeepWeights::yes);
  near("y", gather(mlp.predict(x)), 1e-12);
  for (const auto& p : mlp.parameters())
    if (p.lora != nullptr) near("merged." + p.name, gather(p.value), 1e-12);
  unmerge_lora(mlp);

  AdamW<double, typename Network::Mesh> optimizer{parameters,
                                                  {.learning_rate = 1e-2, .weight_decay = 0.01}};
  const auto losses = reference.matrix("train.loss");
  auto trained = losses;
  for (std::size_t i = 0; i < losses.size(); ++i)
  {
    trained.data()[i] = mlp.compute_gradients(x, target);
    checked_step(i, losses.size(), optimizer, parameters);
  }
  near("train.loss", trained, 1e-10);
  for (const auto& p : parameters)
    if (is_of_lora(p.name)) near("final." + p.name, gather(p.value), 1e-10);
  return found;
}

TEST_CASE("networks with LoRA compute and train as plain Python does")
{
  for_each_mesh([](const auto& place) {
    CAPTURE(place.name());
    require_clear(on_mesh(place, [](const auto& mesh) { return equals_reference_of_lora(mesh); }));
  });
}

}  // namespace cubist::test::mlp_on_meshes_test
