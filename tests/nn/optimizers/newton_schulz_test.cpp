// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "cubist/nn/optimizers/newton_schulz.hpp"

#include "catch.hpp"
#include "nn.hpp"

namespace cubist::test::newton_schulz_test
{

namespace
{

/// The result of Newton-Schulz on a grid of r x c ranks, put together from their blocks. If
/// `transposed`, each rank has the transpose of its block of x.
Global<double> on_grid(const Global<double>& x, int r, int c, bool transposed,
                       const NewtonSchulzOptions& options, double scale = 1)
{
  const std::size_t v = x.shape(0) / static_cast<std::size_t>(r);
  const std::size_t u = x.shape(1) / static_cast<std::size_t>(c);
  const auto blocks = on_ranks<TestBackend>(r * c, [&](TestBackend::Communicator& world) {
    const detail::OrthogonalGrid<TestBackend> grid{world, {r, c}, 1};
    const std::size_t i0 = static_cast<std::size_t>(grid.coordinate<Row>()) * v;
    const std::size_t j0 = static_cast<std::size_t>(grid.coordinate<Col>()) * u;
    const auto block = generate<double>(v, u, [&](auto i, auto j) { return x(i0 + i, j0 + j); });
    auto mine = transposed ? cubist::test::transposed(block) : block;
    detail::orthogonalize(grid, view(mine), transposed, options, scale);
    const auto back = transposed ? cubist::test::transposed(mine) : mine;
    return std::vector<double>(back.begin(), back.end());
  });
  if (blocks.empty()) return x;
  return generate<double>(x.shape(0), x.shape(1), [&](std::size_t i, std::size_t j) {
    return blocks[i / v * static_cast<std::size_t>(c) + j / u][i % v * u + j % u];
  });
}

const NewtonSchulzOptions exact{.steps = 40, .coefficients = {1.5, -0.5, 0}};

}  // namespace

TEST_CASE("a diagonal matrix becomes the signs of its elements")
{
  const auto x = on_grid({{3, 0}, {0, -1}}, 1, 1, false, exact);
  CHECK(difference(x, Global<double>{{1, 0}, {0, -1}}) < 1e-14);
}

TEST_CASE("rows become orthonormal, and the scale multiplies them")
{
  const auto x = on_grid(uniform<double>(6, 12, 1), 1, 1, false, exact, 2);
  const auto gram = product(x, transposed(x));
  CHECK(difference(gram, generate<double>(
                             6, 6, [](auto i, auto j) { return i == j ? 4.0 : 0.0; })) < 1e-12);
}

TEST_CASE("every grid computes what one rank does, of a matrix and of its transpose")
{
  const auto x = uniform<double>(12, 24, 2);
  const auto wanted = on_grid(x, 1, 1, false, {});
  for (const auto& [r, c] : std::vector<std::pair<int, int>>{
           {1, 1}, {1, 2}, {2, 1}, {2, 2}, {1, 4}, {4, 1}, {3, 2}, {2, 3}, {1, 6}, {6, 1}})
    for (const bool transposed : {false, true})
    {
      if (!fits(r * c)) continue;
      CAPTURE(r, c, transposed);
      CHECK(difference(on_grid(x, r, c, transposed, {}), wanted) < 1e-13);
    }
}

}  // namespace cubist::test::newton_schulz_test
