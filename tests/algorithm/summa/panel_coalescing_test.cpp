// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/algorithm/summa/panel_coalescing.hpp"
#include "cubist/engine/host/engine.hpp"

#include "catch.hpp"
#include "matrices.hpp"

namespace cubist::test::algorithm_summa_panel_coalescing_test
{

using cubist::detail::coalesced_depth;

TEST_CASE("Thin panels are coalesced up to a depth that is enough, deep ones are not")
{
  CHECK(coalesced_depth(16, 20) == 128);
  CHECK(coalesced_depth(31, 8) == 124);
  CHECK(coalesced_depth(1, 1000) == 128);
  CHECK(coalesced_depth(16, 3) == 48);
  CHECK(coalesced_depth(32, 8) == 0);
  CHECK(coalesced_depth(1024, 8) == 0);
}

constexpr std::size_t m = 3;
constexpr std::size_t n = 5;
constexpr std::size_t depth = 2;
constexpr std::size_t panels = 7;
constexpr std::size_t k = depth * panels;

using Coalescing = cubist::detail::PanelCoalescing<double, HostEngine>;

TEST_CASE("A single panel and empty panels are not coalesced")
{
  CHECK(coalesced_depth(16, 1) == 0);
  CHECK(coalesced_depth(0, 8) == 0);
  CHECK_FALSE(Coalescing({m, n}, coalesced_depth(0, 8)).is_used());
}

/// Computes 2 P Q + 3 R of whole matrices, with `together` panels of P and Q at a time.
static GlobalMatrix<double> multiply_coalesced(Operand<const double> p, Operand<const double> q,
                                               GlobalMatrix<double> r, std::size_t together)
{
  const HostEngine engine;
  Coalescing coalescing{{m, n}, depth * together};
  const MatrixView<double> out{r.data.data(), r.shape};
  double beta = 3;
  std::size_t products = 0;
  for (std::size_t t = 0; t < panels; ++t)
  {
    coalescing.add(engine, p.block(0, t * depth, {m, depth}), q.block(t * depth, 0, {depth, n}));
    CHECK(coalescing.is_full() == ((t + 1) % together == 0));
    if (!coalescing.is_full() && t + 1 < panels) continue;
    coalescing.multiply(engine, 2.0, beta, Operand<double>{out});
    beta = 1;
    ++products;
  }
  CHECK(products == (panels + together - 1) / together);
  return r;
}

static Operand<const double> operand(const GlobalMatrix<double>& matrix, Op op)
{
  return {MatrixView<const double>{matrix.data.data(), matrix.shape}, op};
}

TEST_CASE("Coalesced panels give the sum of their products, however operands are stored")
{
  const auto p = random_matrix<double>({m, k}, 1);
  const auto q = random_matrix<double>({k, n}, 2);
  const auto r = random_matrix<double>({m, n}, 3);
  auto expected = product(p, q);
  for (std::size_t i = 0; i < expected.data.size(); ++i)
    expected.data[i] = 2 * expected.data[i] + 3 * r.data[i];
  const auto p_t = transposed(p);
  const auto q_t = transposed(q);
  for (const std::size_t together : {1U, 2U, 3U, 7U})
  {
    CAPTURE(together);
    CHECK(multiply_coalesced(operand(p, Op::none), operand(q, Op::none), r, together).data ==
          expected.data);
    CHECK(multiply_coalesced(operand(p_t, Op::transpose), operand(q, Op::none), r, together).data ==
          expected.data);
    CHECK(multiply_coalesced(operand(p, Op::none), operand(q_t, Op::transpose), r, together).data ==
          expected.data);
  }
}

}  // namespace cubist::test::algorithm_summa_panel_coalescing_test
