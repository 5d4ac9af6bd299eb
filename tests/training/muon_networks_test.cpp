// SPDX-License-Identifier: BSD-3-Clause
// Compares networks that Muon trains, on schemes, in stages and sharded, with
// tests/data/muon/networks.

#include "cubist/nn/optimizers/muon.hpp"
#include "cubist/nn/pipeline/pipelined_mlp.hpp"
#include "cubist/nn/transformer/transformer.hpp"
#include "cubist/plan/meshes.hpp"
#include "cubist/training/sharded_optimizer.hpp"

#include "checked_step.hpp"
#include "reference.hpp"
#include "small_transformer.hpp"

namespace cubist::test::muon_networks_test
{

constexpr std::size_t steps = 20;
const std::vector<std::size_t> sizes{1, 24, 24, 9, 30};  // one row, square, tall and wide
constexpr std::size_t length = 5;

static const Reference& reference()
{
  static const Reference file{CUBIST_TRANSFORMER_DATA "/../muon/networks.safetensors"};
  return file;
}

static MuonOptions options(MuonWay way)
{
  return {
      .learning_rate = 0.02, .way = way, .adamw = {.learning_rate = 3e-3, .weight_decay = 0.01}};
}

/// Sets the parameters to those of the reference's network.
template <class M>
void set_parameters(const Parameters<double, M>& parameters, const std::string& network)
{
  for (const auto& p : parameters) scatter(reference().matrix(network + p.name), p.value);
}

/// Trains a network, and compares its losses, and at the end each rank's blocks, with the
/// reference.
/// @param compute_gradients  (step): the loss
/// @param update  (step): changes the parameters
template <class M, class F, class G>
Findings follow(const std::string& network, const Parameters<double, M>& parameters,
                F compute_gradients, G update)
{
  Findings found;
  const auto losses = reference().matrix(network + "losses");
  for (std::size_t step = 0; step < steps; ++step)
  {
    const double loss = compute_gradients(step);
    found.check(std::abs(loss - losses(0, step)) <= 1e-10, network, " loss ", step, " is ", loss,
                ", not ", losses(0, step));
    update(step);
  }
  for (const auto& p : parameters)
  {
    const auto wanted = reference().matrix(network + "final." + p.name);
    const Block b = p.value.block(p.value.mesh.rank());
    double worst = 0;
    for (std::size_t i = 0; i < b.rows.valid; ++i)
      for (std::size_t j = 0; j < b.cols.valid; ++j)
        worst = std::max(
            worst, std::abs(p.value.padded(i, j) - wanted(b.rows.offset + i, b.cols.offset + j)));
    found.check(worst <= 1e-10, network, p.name, " is off by ", worst);
  }
  return found;
}

/// @tparam sharded  whether Muon's state is sharded among replicas
template <bool sharded = false, class S, class B>
Findings trains_mlp(const Mesh<S, B>& mesh, MuonWay way, const PipelineOptions& pipeline = {})
{
  MLP<S, B, double> mlp{mesh, sizes, {.activation = gelu_tanh, .pipeline = pipeline}};
  const auto parameters = mlp.parameters();
  set_parameters(parameters, "mlp.");
  using Whole = Muon<double, typename MLP<S, B, double>::Mesh>;
  std::conditional_t<sharded, Sharded<Whole>, Whole> optimizer{parameters, options(way)};
  const auto x = scatter<typename S::Input>(mesh, reference().matrix("mlp.x"));
  const auto labels = reference().ids("mlp.labels");
  const auto compute_gradients = [&](std::size_t) { return mlp.compute_gradients(x, labels); };
  return follow("mlp.", parameters, compute_gradients, [&](std::size_t step) {
    if constexpr (sharded)
      checked_sharded_step(optimizer, parameters);
    else
      checked_step(step, steps, optimizer, parameters);
  });
}

constexpr std::array ways{MuonWay::home, MuonWay::replicated, MuonWay::distributed,
                          MuonWay::automatic};

/// Calls f(mesh, way) on every mesh of 1 to 8 ranks, with each way in turn.
template <class S, class F>
void on_meshes(F f)
{
  std::size_t next = 0;
  for_each_mesh<S>(8, [&](const typename S::Axes::Array& extents) {
    const int ranks = S::Axes::ranks(extents);
    const std::size_t i = next++;
    if (!fits(ranks) || (quick && i % 3 != 0)) return;
    const MuonWay way = ways[(quick ? i / 3 : i) % ways.size()];
    INFO(S::name << " on " << S::Axes::to_string(extents) << ", " << name_of(way));
    require_clear(on_ranks<TestBackend>(ranks, [&](TestBackend::Communicator& world) {
      return f(Mesh<S, TestBackend>{world, extents, IdleRanks::refused}, way);
    }));
  });
}

TEST_CASE("an MLP of uneven sizes follows the reference on every mesh of 1 to 8 ranks")
{
  for_each_scheme([]<class S>() {
    if constexpr (!few_schemes_suffice || is_typical<S>)
      on_meshes<S>([](const auto& mesh, MuonWay way) { return trains_mlp(mesh, way); });
  });
}

TEST_CASE("an MLP follows the reference in stages, with data axes, and with shared state")
{
  const auto on = [](const auto& place, auto train) {
    if (!fits(place)) return;
    for (const MuonWay way : {MuonWay::home, MuonWay::distributed})
    {
      INFO(place.name() << ", " << name_of(way));
      require_clear(on_mesh(place, [&](const auto& mesh) { return train(mesh, way); }));
    }
  };
  const auto in_stages = [](const auto& mesh, MuonWay way) {
    return trains_mlp(mesh, way, {.micro_batches = 1});
  };
  const auto sharded = [](const auto& mesh, MuonWay way) { return trains_mlp<true>(mesh, way); };
  on(Place<Pipeline<Summa2D>>{8, {2, {.q = 2}}}, in_stages);
  on(Place<DataParallel<Summa2D>>{8, {.data = 2, .scheme = {.q = 2}}}, sharded);
  on(Place<DataParallel<Megatron1D>>{6, {.data = 3, .scheme = {2}}}, sharded);
  on(Place<Summa25D>{8, {.q = 2, .d = 2}}, sharded);
}

TEST_CASE("a transformer follows the reference on every mesh of 1 to 8 ranks")
{
  for_each_scheme([]<class S>() {
    if constexpr (is_typical<S> || (!quick && !few_schemes_suffice))
      on_meshes<S>([](const auto& mesh, MuonWay way) {
        Transformer<S, TestBackend, double> model{mesh, small_transformer(false)};
        const auto parameters = model.parameters();
        set_parameters(parameters, "transformer.");
        Muon optimizer{parameters, options(way)};
        const auto ids = reference().ids("transformer.ids");
        const std::size_t batch = ids.size() / steps;
        const auto compute_gradients = [&](std::size_t step) {
          return model.compute_gradients(std::span{ids}.subspan(step * batch, batch), length);
        };
        return follow("transformer.", parameters, compute_gradients,
                      [&](std::size_t step) { checked_step(step, steps, optimizer, parameters); });
      });
  });
}

}  // namespace cubist::test::muon_networks_test
