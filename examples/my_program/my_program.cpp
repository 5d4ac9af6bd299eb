// SPDX-License-Identifier: BSD-3-Clause
#include <iostream>

#include <xtensor/xbuilder.hpp>

#include <cubist/cubist.hpp>

using Scheme = cubist::Summa25D;  // or Summa2D, Cube3D, Grid2D, Grid3D, Megatron1D
using Backend = cubist::Threads;  // or Mpi, with one more header: <cubist/backend/mpi.hpp>

int main(int argc, char** argv)
{
  return cubist::launch<Backend>(argc, argv, {.ranks = 8}, [](auto& world) {
    cubist::Mesh<Scheme, Backend> mesh{world};  // or with its extents: {world, {.q = 2, .d = 2}}
    cubist::MLP<Scheme, Backend, float> mlp{
        mesh, {256, 1024, 256}, {.activation = cubist::gelu, .seed = 42}};
    cubist::Adam optimizer{mlp.parameters(), {.learning_rate = 1e-3}};

    xt::xtensor<float, 2> X, T;  // global matrices are on rank 0
    if (world.rank() == 0)
    {
      X = xt::ones<float>({16, 256});
      T = xt::zeros<float>({16, 256});
    }
    const auto x = cubist::scatter<Scheme::Input>(mesh, X);
    const auto target = mlp.scatter_target(T);  // cut like the network's output

    for (int step = 0; step < 10; ++step)
    {
      const auto& y = mlp.forward(x);  // y.local(): this rank's shard, an xtensor view
      auto dy = zeros_like(y);
      const double loss = mean_squared_error(y, target, dy);
      mlp.backward(dy);
      optimizer.step(mlp.parameters());
      if (world.rank() == 0) std::cout << "step " << step << "  loss " << loss << '\n';
    }
    const auto weight = cubist::gather(mlp.parameters().front().value);  // on rank 0
    if (world.rank() == 0) std::cout << "layers.0.weight has " << weight.size() << " elements\n";
  });
}
