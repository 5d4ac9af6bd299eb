// SPDX-License-Identifier: BSD-3-Clause
// Marks exercise 5: the library's product, forward and backward, runs on every mesh in simulated
// time.

#include <cstddef>
#include <iomanip>
#include <limits>
#include <string>
#include <vector>

#include <cubist/backend/simulated.hpp>
#include <cubist/matmul/dist_matmul.hpp>
#include <cubist/scheme/summa25d.hpp>
#include <cubist/scheme/summa2d.hpp>

#include "mark.hpp"

namespace course
{

namespace mesh
{

using Fastest = Choice (*)(cubist::ProductSize, int);
using Computers = cubist::Traced<cubist::Simulated>;

/// Computers with a link of 1 Gbit/s each.
inline cubist::Machine computers()
{
  cubist::Machine machine;
  machine.name = "computers with 1 Gbit/s";
  machine.links = {
      {.name = "memory", .ranks = 1, .latency = 1e-6, .bandwidth = 4e9, .overlaps = false},
      {.name = "network", .latency = 5e-5, .bandwidth = 1.2e8}};
  return machine;
}

template <class S>
double seconds(const typename S::Axes::Array& extents, cubist::ProductSize size)
{
  using M = cubist::AxisMesh<typename S::Axes, Computers>;
  cubist::launch<Computers>({.ranks = S::Axes::ranks(extents)}, [&](auto& world) {
    const M mesh{world, extents, S::quantum(extents)};
    const cubist::DistMatrix<float, typename S::Input, M> x{mesh, {size.m, size.k}};
    const cubist::DistMatrix<float, typename S::Weight, M> w{mesh, {size.k, size.n}};
    cubist::DistMatMul<S, Computers, float> product{mesh, size};
    const auto& y = product.forward(x, w);
    auto dx = zeros_like(x);
    auto dw = zeros_like(w);
    product.backward(x, w, y, dx, dw);
  });
  return cubist::Simulated::report().seconds();
}

inline double seconds(const Choice& choice, cubist::ProductSize size)
{
  if (choice.layers == 1) return seconds<cubist::Summa2D>({choice.rows, choice.cols}, size);
  return seconds<cubist::Summa25D>({choice.layers, choice.rows, choice.cols}, size);
}

inline std::string name(const Choice& choice)
{
  const auto layer = text_of(choice.rows, " x ", choice.cols);
  return choice.layers == 1 ? layer : text_of(choice.layers, " layers of ", layer);
}

inline std::string milliseconds(double seconds)
{
  return text_of(std::fixed, std::setprecision(1), 1e3 * seconds, " ms");
}

/// All meshes of this many ranks.
inline std::vector<Choice> all(int ranks)
{
  std::vector<Choice> choices;
  for (int layers = 1; layers <= ranks; ++layers)
    for (int rows = 1; rows <= ranks; ++rows)
      for (int cols = 1; cols <= ranks; ++cols)
        if (layers * rows * cols == ranks && (layers == 1 || rows == cols))
          choices.push_back({rows, cols, layers});
  return choices;
}

inline void run(int ranks, cubist::ProductSize size, Fastest answer)
{
  const Choice mine = answer(size, ranks);
  const auto shape = text_of("X (", size.m, ", ", size.k, ") and W (", size.k, ", ", size.n,
                             ") on ", ranks, " ranks");
  need(mine.rows > 0 && mine.cols > 0 && mine.layers > 0 &&
           mine.rows * mine.cols * mine.layers == ranks,
       "for ", shape, " the answer is ", name(mine), ", which is not a mesh of ", ranks,
       " ranks; let rows times cols times layers be their number");
  need(mine.layers == 1 || mine.rows == mine.cols, "for ", shape, " the answer is ", name(mine),
       ", but each layer of Summa25D is a square; use several layers only of q x q ranks");
  Choice best;
  double least = std::numeric_limits<double>::infinity();
  for (const Choice& choice : all(ranks))
    if (const double time = seconds(choice, size); time < least) least = time, best = choice;
  constexpr double close = 1.02;
  const double time = seconds(mine, size);
  need(time <= close * least, "for ", shape, " the answer is ", name(mine), ", which takes ",
       milliseconds(time), ", but ", name(best), " takes ", milliseconds(least),
       "; compare the elements that both send");
  std::cout << "  right for " << shape << ": " << name(mine) << " takes " << milliseconds(time)
            << std::endl;
}

}  // namespace mesh

int check_mesh(int argc, char** argv, mesh::Fastest answer)
{
  constexpr auto hint =
      "let r run over all divisors of the ranks, with c = ranks / r, and q over all numbers with "
      "q q d = ranks. forward and backward send three times what the formulas of exercises 3 and 4 "
      "give for forward; with d layers add the sum of the gradient. Return the mesh that sends "
      "the fewest elements.";
  return mark("Exercise 5: find the fastest mesh for a shape", hint, [&] {
    cubist::Simulated::machine = mesh::computers();
    mesh::run(8, {.m = 16384, .n = 256, .k = 1024}, answer);
    mesh::run(8, {.m = 256, .n = 4096, .k = 1024}, answer);
    mesh::run(8, {.m = 1024, .n = 1024, .k = 1024}, answer);
    mesh::run(8, {.m = 256, .n = 512, .k = 2048}, answer);
    mesh::run(12, {.m = 512, .n = 2048, .k = 768}, answer);
    mesh::run(16, {.m = 1024, .n = 1024, .k = 1024}, answer);
    mesh::run(16, {.m = 3000, .n = 1000, .k = 1000}, answer);
    const cubist::ProductSize size{.m = 1024, .n = 1024, .k = 1024};
    trace_to<mesh::Computers>(argc, argv);
    mesh::seconds(answer(size, 8), size);
    trace_to<mesh::Computers>(argc, argv, "_one_row");
    mesh::seconds(Choice{.rows = 1, .cols = 8}, size);
  });
}

}  // namespace course
