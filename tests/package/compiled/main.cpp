// SPDX-License-Identifier: BSD-3-Clause
// Trains on a scheme of the compiled library and on a scheme of this program, and prints losses.
#include <cstdio>

#include <xtensor/xbuilder.hpp>

#include <cubist/cubist.hpp>
#ifdef CONSUMER_ON_MPI
#include <cubist/backend/mpi.hpp>
using Backend = cubist::Mpi;
#else
using Backend = cubist::Threads;
#endif

namespace
{

/// Like Grid2D, which this test's library does not contain either.
template <class X, class Y>
struct MyGrid
{
  static constexpr const char* name = "MyGrid";
  using Axes = cubist::Axes<cubist::AxisX, cubist::AxisY>;
  using Input = cubist::Layout<cubist::Rows<>, cubist::Cols<X, Y>>;
  using Weight = cubist::Layout<cubist::Rows<X>, cubist::Cols<Y>>;
  using Output = cubist::Layout<cubist::Rows<>, cubist::Cols<Y, X>>;
  using Next = MyGrid<Y, X>;
  using Algorithm = cubist::GatherMultiplyScatter<Input, Weight, Output>;
  using Extents = cubist::Grid2D::Extents;

  static Axes::Array extents(const Extents& requested, int ranks)
  {
    return cubist::Grid2D::extents(requested, ranks);
  }
  static constexpr bool fits(const Axes::Array& e) { return cubist::Grid2D::fits(e); }
  static constexpr std::size_t quantum(const Axes::Array& e) { return cubist::Grid2D::quantum(e); }
};

template <class Scheme, class T, class World>
double train(World& world)
{
  const cubist::Mesh<Scheme, Backend> mesh{world};
  cubist::MLP<Scheme, Backend, T> mlp{mesh, {5, 9, 3}, {.activation = cubist::gelu, .seed = 3}};
  cubist::Adam<T, typename decltype(mlp)::Mesh> optimizer{mlp.parameters()};
  xt::xtensor<T, 2> x = xt::arange<T>(0, 35).reshape({7, 5}) / T{35};
  xt::xtensor<T, 2> target = xt::zeros<T>({7, 3});
  const auto input = cubist::scatter<typename Scheme::Input>(mesh, x);
  const auto wanted = mlp.scatter_target(target);
  double loss = 0;
  for (int step = 0; step < 5; ++step)
  {
    const auto& y = mlp.forward(input);
    auto dy = zeros_like(y);
    loss = mean_squared_error(y, wanted, dy);
    mlp.backward(dy);
    optimizer.step(mlp.parameters());
  }
  return loss;
}

}  // namespace

int main(int argc, char** argv)
{
#ifdef CONSUMER_ON_MPI
  const cubist::LaunchOptions options{};  // one rank, without mpiexec
#else
  const cubist::LaunchOptions options{.ranks = 4};
#endif
  return cubist::launch<Backend>(argc, argv, options, [](auto& world) {
    using Mine = MyGrid<cubist::AxisX, cubist::AxisY>;
    const double losses[] = {train<cubist::Summa2D, float>(world),
                             train<cubist::Summa2D, double>(world), train<Mine, double>(world)};
    if (world.rank() == 0)
      for (const double loss : losses) std::printf("%a\n", loss);
  });
}
