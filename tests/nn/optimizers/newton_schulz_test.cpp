// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/nn/optimizers/newton_schulz.hpp"

#include "nn.hpp"

namespace cubist::test::newton_schulz_test
{

/// Runs Newton-Schulz on a grid of r x c ranks, and puts the result together from their blocks. If
/// `transposed`, each rank has the transpose of its block of x.
static Global<double> on_grid(const Global<double>& x, int r, int c, bool transposed,
                              const NewtonSchulzOptions& options, double scale = 1)
{
  using Plan = detail::NewtonSchulz<double, TestBackend>;
  const auto results = on_ranks<TestBackend>(r * c, [&](TestBackend::Communicator& world) {
    const Plan::Grid grid{world, {r, c}, 1};
    Plan plan{grid, x.shape(0), x.shape(1)};
    auto mine = scatter<GramGrid::Weight>(grid, x);
    const Shape shape = mine.valid().shape();
    auto block = generate<double>(shape.rows, shape.cols,
                                  [&](auto i, auto j) { return mine.valid()(i, j); });
    if (transposed) block = cubist::test::transposed(block);
    plan.orthogonalize(view(block), transposed, options, scale);
    if (transposed) block = cubist::test::transposed(block);
    for (std::size_t i = 0; i < shape.rows; ++i)
      for (std::size_t j = 0; j < shape.cols; ++j) mine.valid()(i, j) = block(i, j);
    return gather(mine);
  });
  return results.empty() ? x : results[0];
}

const NewtonSchulzOptions exact{.steps = 40, .coefficients = {1.5, -0.5, 0}};

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
  const auto x = uniform<double>(11, 23, 2);
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
