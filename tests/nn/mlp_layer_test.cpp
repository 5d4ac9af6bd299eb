// SPDX-License-Identifier: BSD-3-Clause
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "cubist/nn/mlp_layer.hpp"

#include "catch.hpp"
#include "nn.hpp"

namespace cubist::test::mlp_layer_test
{

namespace
{

constexpr std::size_t tokens = 13, in = 7, out = 11;

/// The results of a layer of an MLP, and of the dense layer that it is made of.
struct Both
{
  Global<double> y, dx, dw, y_of_dense, dx_of_dense, dw_of_dense;
  std::vector<std::string> names;
  bool has_dx_unasked = true;
};

template <SchemeType S>
Both both(const Place<S>& place, double p)
{
  using A = Activations<S, Threads, double>;
  return on_root(place, [&](const auto& mesh) {
    const auto make_dense = [&] {
      return Dense<S, Threads, double>{
          mesh, in, out, {.seed = 5, .index = 3}, gelu, Dropout{p, 5, 3}};
    };
    detail::MlpLayer<A, S, Threads, double> layer{make_dense()};
    auto dense = make_dense();
    const Pass pass{.training_step = 9};
    const auto x = scatter<typename S::Input>(mesh, uniform<double>(tokens, in, 1));
    const auto dy = scatter<typename S::Output>(mesh, uniform<double>(tokens, out, 2));
    Both b;
    b.y = gather(layer.forward(A{x}, pass));
    b.has_dx_unasked = layer.backward(A{x}, A{dy}, pass, false) != nullptr;
    b.dx = gather(*layer.backward(A{x}, A{dy}, pass, true));
    layer.finish_backward();
    Parameters<double, typename A::Mesh> parameters;
    layer.append_parameters(parameters, "layers.0.");
    for (const auto& parameter : parameters) b.names.push_back(parameter.name);
    b.dw = gather(parameters.front().gradient);

    b.y_of_dense = gather(dense.forward(x, pass));
    b.dx_of_dense = gather(*dense.backward(x, dy, pass, true));
    dense.finish_backward();
    b.dw_of_dense = gather(parameters_of(dense).front().gradient);
    return b;
  });
}

}  // namespace

TEST_CASE("a layer of an MLP computes what its dense layer does")
{
  for_each_place([](const auto& place) {
    for (const double p : {0.0, 0.4})
    {
      CAPTURE(place.name(), p);
      const Both b = both(place, p);
      CHECK(identical(b.y, b.y_of_dense));
      CHECK(identical(b.dx, b.dx_of_dense));
      CHECK(identical(b.dw, b.dw_of_dense));
      CHECK(!b.has_dx_unasked);
      CHECK(b.names == std::vector<std::string>{"layers.0.weight", "layers.0.bias"});
    }
  });
}

}  // namespace cubist::test::mlp_layer_test
