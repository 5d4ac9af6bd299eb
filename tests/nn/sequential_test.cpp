// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/nn/networks/mlp.hpp"
#include "cubist/nn/optimizers/optimizer.hpp"
#include "cubist/nn/residual.hpp"
#include "cubist/nn/sequential.hpp"

#include "checked_step.hpp"
#include "nn.hpp"
#include "passes.hpp"

namespace cubist::test::sequential_test
{

constexpr std::size_t rows = 12, in = 7, hidden = 10, out = 6;

template <class S>
auto make_network(const Mesh<S, Threads>& mesh)
{
  using Next = typename S::Next;
  return Sequential{Dense<S, Threads, double>{mesh, in, hidden, {.seed = 1}, cubist::gelu},
                    Dense<Next, Threads, double>{mesh, hidden, out, {.seed = 1, .index = 1}}};
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

/// The losses of a network, and of an MLP with the same layers.
template <class S>
std::vector<std::vector<double>> losses(const Mesh<S, Threads>& mesh)
{
  auto net = make_network(mesh);
  using Net = decltype(net);
  static_assert(LayerType<Net>);
  Passes passes{net};
  const auto parameters = parameters_of(net);
  Sgd<double, typename Net::Mesh> optimizer{parameters};
  MLP<S, Threads, double> mlp{mesh, {in, hidden, out}, {.seed = 1}};
  Sgd<double, typename Net::Mesh> other{mlp.parameters()};

  const auto x = scatter<typename S::Input>(mesh, uniform<double>(rows, in, 3));
  const auto labels = classes(rows, out);
  std::vector<std::vector<double>> both(2);
  for (int step = 0; step < 4; ++step)
  {
    const auto& y = passes.forward(x, {});
    auto dy = y;
    both[0].push_back(softmax_cross_entropy(y, labels, dy));
    (void)passes.backward(x, dy, {}, false);
    checked_step(optimizer, parameters);

    const auto& z = mlp.forward(x);
    auto dz = zeros_like(z);
    both[1].push_back(softmax_cross_entropy(z, labels, dz));
    mlp.backward(dz);
    checked_step(other, mlp.parameters());
  }
  return both;
}

TEST_CASE("a sequence of dense layers is an MLP, to the bit")
{
  for_each_place([](const auto& place) {
    CAPTURE(place.name());
    const auto both = on_root<Threads>(place, [](const auto& mesh) { return losses(mesh); });
    CHECK(both[0] == both[1]);
    CHECK(both[0].back() < both[0].front());
  });
}

TEST_CASE("a sequence in a sequence is a layer of it")
{
  const auto [same, names] = on_root<Threads>(single_layer, [](const auto& mesh) {
    using Layer = cubist::Dense<Summa25D, Threads, double>;
    const auto make_layer = [&](std::size_t from, std::size_t to, std::size_t index) {
      return Layer{mesh, from, to, {.seed = 1, .index = index}, cubist::gelu};
    };
    Sequential flat{make_layer(7, 5, 0), make_layer(5, 9, 1), make_layer(9, 4, 2)};
    Sequential nested{Sequential{make_layer(7, 5, 0), make_layer(5, 9, 1)}, make_layer(9, 4, 2)};
    const auto x = scatter<Summa25D::Input>(mesh, uniform<double>(rows, 7, 3));
    Passes of_flat{flat};
    Passes of_nested{nested};
    const Layer::Output y = of_flat.forward(x, {});
    const auto* dx = of_flat.backward(x, y, {}, true);
    std::vector<bool> equal;
    equal.push_back(identical(gather(of_nested.forward(x, {})), gather(y)));
    equal.push_back(identical(gather(*of_nested.backward(x, y, {}, true)), gather(*dx)));
    equal.push_back(of_nested.backward(x, y, {}, false) == nullptr);
    std::vector<std::string> all;
    for (const auto& p : parameters_of(nested)) all.push_back(p.name);
    return std::pair{equal, all};
  });
  CHECK(same == std::vector<bool>(3, true));
  CHECK(names == std::vector<std::string>{"0.0.weight", "0.0.bias", "0.1.weight", "0.1.bias",
                                          "1.weight", "1.bias"});
}

TEST_CASE("backward without a successful forward of these layers is refused")
{
  const auto messages = on_root<Threads>(one_rank, [](const auto& mesh) {
    std::vector<std::string> all;
    auto net = make_network(mesh);
    const auto x = scatter<Summa2D::Input>(mesh, uniform<double>(rows, in, 3));
    const auto dy = scatter<Summa2D::Input>(mesh, uniform<double>(rows, out, 4));
    Passes passes{net};
    const auto try_backward = [&](auto& layers) {
      all.push_back(message_of<ArgumentError>([&] { (void)layers.backward(x, dy, {}, false); }));
    };
    try_backward(passes);
    (void)passes.forward(x, {});
    (void)passes.backward(x, dy, {}, false);
    const auto narrow = scatter<Summa2D::Input>(mesh, uniform<double>(rows, in - 1, 3));
    (void)message_of<ShapeError>([&] { (void)passes.forward(narrow, {}); });
    try_backward(passes);
    return all;
  });
  REQUIRE(messages.size() == 2);
  for (const auto& message : messages)
    CHECK(mentions(message, "got backward before any forward", "call forward first"));
}

}  // namespace cubist::test::sequential_test
