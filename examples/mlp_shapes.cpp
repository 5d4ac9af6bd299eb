// SPDX-License-Identifier: BSD-3-Clause
// The shapes of Colossal-AI's own example of 2.5D tensor parallelism: x (16, 256) through an MLP
// 256 -> 1024 -> 256 on 2 x 2 x 2 ranks, as one rank sees them.

#include <iostream>
#include <string>

#include <xtensor/xbuilder.hpp>

#include "backend.hpp"

using Scheme = cubist::Summa25D;

template <class Backend>
int run(int argc, char** argv)
{
  return cubist::launch<Backend>(argc, argv, {.ranks = 8}, [](auto& world) {
    const auto print = [&](const std::string& what, const auto& matrix) {
      const auto shape = matrix.valid().shape();
      if (world.rank() == 0)
        std::cout << what << ": [" << shape.rows << ", " << shape.cols << "]\n";
    };

    cubist::Mesh<Scheme, Backend> mesh{world, {.q = 2, .d = 2}};
    cubist::Linear<Scheme, Backend, float> dense_1{mesh, 256, 1024, {.seed = 42, .index = 0}};
    cubist::Linear<Scheme::Next, Backend, float> dense_2{mesh, 1024, 256, {.seed = 42, .index = 1}};
    print("Weight of the first linear layer", dense_1.weight());
    print("Weight of the second linear layer", dense_2.weight());

    const xt::xtensor<float, 2> X = xt::ones<float>({16, 256});
    auto x = cubist::scatter<Scheme::Input>(mesh, X);
    auto hidden = dense_1.forward(x);
    auto y = dense_2.forward(hidden);
    print("Input", x);
    print("Output of the first linear layer", hidden);
    print("Output of the second linear layer", y);

    // The same two layers with GELU between them, as a network.
    cubist::MLP<Scheme, Backend, float> mlp{
        mesh, {256, 1024, 256}, {.activation = cubist::gelu, .seed = 42}};
    for (const auto& parameter : mlp.parameters()) print(parameter.name, parameter.value);
    const auto& out = mlp.forward(x);
    if (world.rank() == 0)
      std::cout << "Output of the MLP: [" << out.local().shape()[0] << ", "
                << out.local().shape()[1] << "]\n";
  });
}

int main(int argc, char** argv)
{
  return examples::on_backend([&]<class Backend>() { return run<Backend>(argc, argv); });
}
