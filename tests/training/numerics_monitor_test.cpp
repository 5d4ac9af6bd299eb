// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/training/numerics_monitor.hpp"

#include "training.hpp"

namespace cubist::test::numerics_monitor_test
{

template <class S>
void train_monitored(const Place<S>& place, const Training& t)
{
  CAPTURE(place.name());
  const auto errors = on_mesh(place, [&](const auto& mesh) {
    return message_of<Error>([&] {
      MLP<S, Threads, double> mlp{mesh, t.sizes, t.options};
      const auto parameters = mlp.parameters();
      AdamW optimizer{parameters, {.learning_rate = 0.01}};
      const NumericsMonitor monitor{{.replicas_every = 1, .finite_every = 1}};
      const typename MLP<S, Threads, double>::Activations x{
          scatter<typename S::Input>(mesh, uniform<double>(rows, t.in(), 1))};
      for (std::uint64_t step = 0; step < 4; ++step)
      {
        const double loss = mlp.compute_gradients(x, classes(rows, t.out()));
        monitor.check(step, loss, parameters);
        optimizer.step(parameters);
      }
    });
  });
  for (const auto& error : errors) CHECK(error.empty());
}

TEST_CASE("A network that trains passes all checks")
{
  train_monitored(two_two_two, three_layers);
  train_monitored(cube, two_layers);
  train_monitored(Place<Megatron1D>{3, {}}, two_layers);
}

/// A network after one backward pass.
template <class S>
struct Trained
{
  using Network = MLP<S, Threads, double>;
  using M = typename Network::Mesh;

  explicit Trained(const Mesh<S, Threads>& mesh)
      : mlp{mesh, {7, 11, 5}}
  {
    const typename Network::Activations x{
        scatter<typename S::Input>(mesh, uniform<double>(rows, 7, 1))};
    const auto& y = mlp.forward(x);
    auto dy = zeros_like(y);
    softmax_cross_entropy(y, classes(rows, 5), dy);
    mlp.backward(dy);
    parameters = mlp.parameters();
  }

  Network mlp;
  Parameters<double, M> parameters;
};

static void flip(double& x) { x = std::bit_cast<double>(std::bit_cast<std::uint64_t>(x) ^ 1U); }

/// The error message on all ranks if `rank` has one wrong bit.
template <class S>
std::string message_on_all(const Place<S>& place, const std::string& name, bool in_gradient,
                           int rank)
{
  const auto ranks = on_mesh(place, [&](const auto& mesh) {
    const Trained<S> t{mesh};
    const std::string before = message_of<Error>([&] { check_replicas(t.parameters); });
    for (const auto& p : t.parameters)
      if (p.name == name && mesh.rank() == rank)
        flip((in_gradient ? p.gradient : p.value).valid()(0, 0));
    return before + message_of<ReplicaError>([&] { check_replicas(t.parameters); });
  });
  for (const auto& text : ranks)
    if (text != ranks.front()) return "different";
  return ranks.front();
}

TEST_CASE("One wrong bit in a replica of a parameter or a gradient throws on every rank")
{
  if (fits(two_two_two))
  {
    CHECK(mentions(message_on_all(two_two_two, "layers.1.weight", false, 4),
                   "layers.1.weight differs along depth between rank 0 and rank 4, so "));
    CHECK(
        mentions(message_on_all(two_two_two, "layers.0.weight", true, 7),
                 "gradient of layers.0.weight differs along depth between rank 3 and rank 7, so "));
    CHECK(mentions(message_on_all(two_two_two, "layers.0.bias", false, 3),
                   "layers.0.bias differs along depth between rank 3 and rank 7, so "));
  }
  if (fits(cube))
    CHECK(
        mentions(message_on_all(cube, "layers.0.bias", false, 1), "layers.0.bias differs along "));
  if (fits(3))
    CHECK(
        mentions(message_on_all(Place<Megatron1D>{3, {}}, "layers.1.bias", true, 2),
                 "gradient of layers.1.bias differs along tensor between rank 0 and rank 2, so "));
}

TEST_CASE("Checks run in the steps that are due")
{
  for (const bool in_parts : {false, true})  // as for a sharded optimizer
  {
    CAPTURE(in_parts);
    const auto steps_of = [in_parts](const NumericsMonitorOptions& options, bool finite) {
      return on_root(single_rank, [&](const auto& mesh) {
        const Trained<Summa25D> t{mesh};
        const NumericsMonitor monitor{options};
        const double loss = finite ? 1.0 : std::numeric_limits<double>::quiet_NaN();
        std::vector<int> failed;
        for (int step = 0; step < 7; ++step)
        {
          const auto n = static_cast<std::uint64_t>(step);
          const auto message = message_of<NumericError>([&] {
            in_parts ? monitor.check(n, loss, t.parameters, t.parameters)
                     : monitor.check(n, loss, t.parameters);
          });
          if (mentions(message, "the loss in step " + std::to_string(step))) failed.push_back(step);
        }
        return failed;
      });
    };
    CHECK(steps_of({}, false).empty());
    CHECK(steps_of({.replicas_every = 1}, false).empty());
    CHECK(steps_of({.finite_every = 3}, false) == std::vector<int>{0, 3, 6});
    CHECK(steps_of({.finite_every = 1}, true).empty());
  }
}

}  // namespace cubist::test::numerics_monitor_test
