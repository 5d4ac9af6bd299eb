// SPDX-License-Identifier: BSD-3-Clause
// Counts the elements that one rank sends for a linear layer by collectives, in units of X's size:
// X, W and Y are square, so all of them have this size. docs/costs.md compares the counts with the
// costs that others have published.

#include <array>
#include <cstddef>
#include <cstdio>
#include <string>

#include <cubist/cubist.hpp>
#include <cubist/testing/counting.hpp>

using Backend = cubist::Counting<cubist::Threads>;

constexpr std::size_t edge = 48;

/// Prints the elements that one rank sends in forward and in backward, averaged over the ranks.
template <class Scheme>
void count(int ranks, const typename Scheme::Extents& extents)
{
  cubist::launch<Backend>({.ranks = ranks}, [&](auto& world) {
    const cubist::Mesh<Scheme, Backend> mesh{world, extents};
    using Product = cubist::DistMatMul<Scheme, Backend, double>;
    Product product{mesh, {edge, edge, edge}, cubist::Gathered::kept, cubist::Method::collectives};
    const typename Product::Input x{mesh, {edge, edge}};
    const typename Product::Weight w{mesh, {edge, edge}};
    typename Product::Output y{mesh, {edge, edge}};
    auto dx = x;
    auto dw = w;
    const auto sent = [&](auto call) {
      world.barrier();
      world.traffic().reset();
      call();
      std::array words{static_cast<double>(world.traffic().total().elements)};
      world.all_reduce(words);
      return words[0] / world.size() / (edge * edge);
    };
    const double forward = sent([&] { product.forward(x, w, y); });
    const double backward = sent([&] { product.backward(x, w, y, dx, dw); });
    if (world.rank() == 0)
      std::printf("%-18s %-24s %7.4f %8.4f %7.4f\n", Scheme::name,
                  Scheme::Axes::to_string(mesh.extents()).c_str(), forward, backward,
                  forward + backward);
  });
}

int main()
{
  std::printf("%-18s %-24s %7s %8s %7s\n", "scheme", "mesh", "forward", "backward", "both");
  count<cubist::Megatron1D>(4, {});
  count<cubist::Megatron1D::Next>(4, {});
  count<cubist::Summa2D>(4, {.q = 2});
  count<cubist::Summa2D>(16, {.q = 4});
  count<cubist::Summa25D>(8, {.q = 2, .d = 2});
  count<cubist::Summa25D>(32, {.q = 4, .d = 2});
  count<cubist::Cube3D>(8, {.q = 2});
  count<cubist::Cube3D>(64, {.q = 4});
  count<cubist::Grid2D>(8, {.x = 2, .y = 4});
  count<cubist::Grid3D>(12, {.x = 2, .y = 3, .z = 2});
  return 0;
}
