// SPDX-License-Identifier: BSD-3-Clause
#include <stdexcept>

#include <xtensor/xbuilder.hpp>
#include <xtensor/xtensor.hpp>

#include <cubist/cubist.hpp>

int main(int argc, char** argv)
{
  return cubist::launch<cubist::Threads>(argc, argv, {.ranks = 4}, [](auto& world) {
    cubist::Mesh<cubist::Summa2D, cubist::Threads> mesh{world, {.q = 2}};

    // 2 does not divide 5 and 7, so the shards are padded, but nobody sees the padding here.
    xt::xtensor<float, 2> X = xt::arange<float>(35.0F).reshape({5, 7});
    auto x = cubist::scatter<cubist::Summa2D::Input>(mesh, X);
    auto Y = cubist::gather(x);
    if (world.rank() == 0 && Y != X)
    {
      throw std::runtime_error{"gather did not bring back what was scattered"};
    }
  });
}
