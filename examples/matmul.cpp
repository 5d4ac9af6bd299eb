// SPDX-License-Identifier: BSD-3-Clause
// A product cut by Summa25D over 8 ranks, compared with the same product by BLAS on one.

#include <iostream>

#include <xtensor-blas/xlinalg.hpp>
#include <xtensor/xrandom.hpp>

#include "backend.hpp"

using Scheme = cubist::Summa25D;  // or Summa2D, Cube3D, Grid2D, Grid3D, Megatron1D

template <class Backend>
int run(int argc, char** argv)
{
  return cubist::launch<Backend>(argc, argv, {.ranks = 8}, [](auto& world) {
    xt::xtensor<double, 2> X, W;  // global matrices live on rank 0
    if (world.rank() == 0)
    {
      X = xt::random::rand<double>({370, 1010});
      W = xt::random::rand<double>({1010, 230});
    }
    cubist::Mesh<Scheme, Backend> mesh{world};
    auto x = cubist::scatter<Scheme::Input>(mesh, X);
    auto w = cubist::scatter<Scheme::Weight>(mesh, W);

    cubist::DistMatMul<Scheme, Backend, double> product{mesh, {.m = 370, .n = 230, .k = 1010}};
    auto y = product.forward(x, w);  // every rank has its shard: y.local()
    auto Y = cubist::gather(y);

    if (world.rank() == 0)
      std::cout << "each of " << world.size() << " ranks holds (" << y.local().shape()[0] << ", "
                << y.local().shape()[1] << ") of Y (370, 230)\nlargest difference from BLAS "
                << xt::amax(xt::abs(Y - xt::linalg::dot(X, W)))() << '\n';
  });
}

int main(int argc, char** argv)
{
  return examples::on_backend([&]<class Backend>() { return run<Backend>(argc, argv); });
}
