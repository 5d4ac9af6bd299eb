// SPDX-License-Identifier: BSD-3-Clause
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "cubist/nn/dense.hpp"
#include "cubist/nn/layers/residual.hpp"
#include "cubist/nn/layers/sequential.hpp"
#include "cubist/nn/mlp.hpp"
#include "cubist/nn/optimizer.hpp"

#include "catch.hpp"
#include "nn.hpp"

namespace cubist::test::sequential_test
{

namespace
{

constexpr std::size_t rows = 12, in = 7, hidden = 10, out = 6;

template <class S>
auto make_network(const Mesh<S, Threads>& mesh)
{
  using Next = typename S::Next;
  return Sequential{Dense<S, Threads, double>{mesh, in, hidden, {.seed = 1}, cubist::gelu},
                    Dense<Next, Threads, double>{mesh, hidden, out, {.seed = 1, .index = 1}}};
}

/// The losses of a network and those of an MLP of the same layers.
template <class S>
std::vector<std::vector<double>> losses(const Mesh<S, Threads>& mesh)
{
  auto net = make_network(mesh);
  using Net = decltype(net);
  static_assert(LayerType<Net>);
  Parameters<double, typename Net::Mesh> parameters;
  net.append_parameters(parameters, "net.");
  Sgd<double, typename Net::Mesh> optimizer{parameters};
  MLP<S, Threads, double> mlp{mesh, {in, hidden, out}, {.seed = 1}};
  Sgd<double, typename Net::Mesh> other{mlp.parameters()};

  const auto x = scatter<typename S::Input>(mesh, uniform<double>(rows, in, 3));
  const auto labels = classes(rows, out);
  std::vector<std::vector<double>> both(2);
  for (int step = 0; step < 4; ++step)
  {
    const auto& y = net.forward(x, {});
    auto dy = y;
    both[0].push_back(softmax_cross_entropy(y, labels, dy));
    (void)net.backward(x, dy, {}, false);
    net.finish_backward();
    optimizer.step(parameters);

    const auto& z = mlp.forward(x);
    auto dz = zeros_like(z);
    both[1].push_back(softmax_cross_entropy(z, labels, dz));
    mlp.backward(dz);
    other.step(mlp.parameters());
  }
  return both;
}

}  // namespace

TEST_CASE("a sequence of dense layers is an MLP, to the bit")
{
  for_each_place([](const auto& place) {
    CAPTURE(place.name());
    const auto both = on_root<Threads>(place, [](const auto& mesh) { return losses(mesh); });
    CHECK(both[0] == both[1]);
    CHECK(both[0].back() < both[0].front());
  });
}

TEST_CASE("the parameters of a sequence have the numbers of their layers")
{
  const auto names = on_root<Threads>(one_rank, [](const auto& mesh) {
    auto net = make_network(mesh);
    State<double, typename decltype(net)::Mesh> state;
    net.append_state(state, "net.");
    std::vector<std::string> all;
    for (const auto& m : state.matrices) all.push_back(m.name);
    return all;
  });
  CHECK(names ==
        std::vector<std::string>{"net.0.weight", "net.0.bias", "net.1.weight", "net.1.bias"});
}

}  // namespace cubist::test::sequential_test
