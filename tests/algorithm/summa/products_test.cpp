// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/algorithm/summa/products.hpp"
#include "cubist/engine/host/engine.hpp"

#include "matrices.hpp"
#include "ranks.hpp"

namespace cubist::test::algorithm_summa_products_test
{

using World = TestBackend::Communicator;
using Grid = cubist::detail::SummaGrid<World, HostEngine>;
using Buffers = cubist::detail::PanelBuffers<double, HostEngine>;
using cubist::detail::PanelCut;

constexpr std::size_t m = 6;
constexpr std::size_t n = 12;
constexpr std::size_t k = 24;

/// A matrix's block on rank (i, j) of r x c, and a view of it.
struct Mine
{
  Mine(const GlobalMatrix<double>& all, std::size_t r, std::size_t c, std::size_t i, std::size_t j)
      : block{{all.shape.rows / r, all.shape.cols / c}, [&](std::size_t a, std::size_t b) {
                return all(i * (all.shape.rows / r) + a, j * (all.shape.cols / c) + b);
              }}
  {
  }
  [[nodiscard]] MatrixView<double> view() { return {block.data.data(), block.shape}; }
  [[nodiscard]] Operand<const double> read() { return Operand<double>{view()}; }

  GlobalMatrix<double> block;
};

template <class Product>
void run(Product product)
{
  product.start();
  product.run();
  product.finish();
}

/// Checks each of three products, which computes one matrix from the other two, on r x c ranks.
static void check_products(int r, int c, std::size_t depth)
{
  CAPTURE(r, c, depth);
  const auto p_all = random_matrix<double>({m, k}, 1);
  const auto q_all = random_matrix<double>({k, n}, 2);
  const auto r_all = random_matrix<double>({m, n}, 3);
  require_clear(on_ranks<TestBackend>(r * c, [&](World& world) {
    const auto rows = static_cast<std::size_t>(r);
    const auto cols = static_cast<std::size_t>(c);
    const auto i = static_cast<std::size_t>(world.rank() / c);
    const auto j = static_cast<std::size_t>(world.rank() % c);
    World row = world.split(static_cast<int>(i), world.rank());
    World column = world.split(static_cast<int>(j), world.rank());
    const HostEngine engine;
    const std::size_t blocks = std::lcm(rows, cols);
    const std::size_t block = k / blocks;
    const Grid grid{row, column, engine, PanelCut{cols, blocks, block, depth},
                    PanelCut{rows, blocks, block, depth}};
    const Shape p_panel{m / rows, depth};
    const Shape q_panel{depth, n / cols};
    cubist::detail::FactorBuffers<double, HostEngine> r_buffers{Buffers{p_panel, 2},
                                                                Buffers{q_panel, 2}};
    cubist::detail::SumBuffers<double, HostEngine> p_buffers{
        Buffers{q_panel, 2}, Buffers{p_panel, 2}, Buffers{p_panel, 2}};
    cubist::detail::SumBuffers<double, HostEngine> q_buffers{
        Buffers{p_panel, 2}, Buffers{q_panel, 2}, Buffers{q_panel, 2}};
    Mine p{p_all, rows, cols, i, j};
    Mine q{q_all, rows, cols, i, j};
    Mine s{r_all, rows, cols, i, j};
    Findings found;
    const auto check = [&](const char* what, const Mine& got, const Mine& before,
                           const GlobalMatrix<double>& product, double beta) {
      Mine expected{product, rows, cols, i, j};
      for (std::size_t e = 0; e < expected.block.data.size(); ++e)
        expected.block.data[e] = 2 * expected.block.data[e] + beta * before.block.data[e];
      found.check(got.block.data == expected.block.data, what, " on rank ", world.rank(), ", beta ",
                  beta);
    };
    using ProductR = cubist::detail::ProductR<double, World, HostEngine>;
    using ProductP = cubist::detail::ProductP<double, World, HostEngine>;
    for (const double beta : {0.0, 3.0})
    {
      Mine out = s;
      run(ProductR{grid, r_buffers, 2.0, p.read(), q.read(), beta, Operand<double>{out.view()}});
      check("R = P Q", out, s, product(p_all, q_all), beta);
      out = p;
      run(ProductP{grid, p_buffers, 2.0, s.read(), q.read(), beta, Operand<double>{out.view()}});
      check("P = R Q^T", out, p, product(r_all, transposed(q_all)), beta);
      out = q;
      run(ProductP{grid.t(), q_buffers, 2.0, s.read().t(), p.read().t(), beta,
                   Operand<double>{out.view()}.t()});
      check("Q = P^T R", out, q, product(transposed(p_all), r_all), beta);
    }
    return found;
  }));
}

TEST_CASE("Each of three matrices is computed from the two others, on any mesh of rows and columns")
{
  check_products(1, 1, 24);
  check_products(2, 2, 12);
  check_products(2, 3, 4);
  check_products(3, 2, 4);
  check_products(1, 4, 6);
  check_products(6, 1, 4);
}

TEST_CASE("Panels that are slices of blocks give the same products")
{
  check_products(2, 2, 5);
  check_products(3, 2, 3);
}

}  // namespace cubist::test::algorithm_summa_products_test
