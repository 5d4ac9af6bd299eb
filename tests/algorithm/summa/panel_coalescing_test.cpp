// SPDX-License-Identifier: BSD-3-Clause
#include <cstddef>

#include "cubist/algorithm/summa/panel_coalescing.hpp"
#include "cubist/engine/host/engine.hpp"

#include "catch.hpp"
#include "matrices.hpp"

using namespace cubist;
using namespace cubist::test;
using cubist::detail::pile_depth;

namespace
{

constexpr std::size_t m = 3;
constexpr std::size_t n = 5;
constexpr std::size_t depth = 2;
constexpr std::size_t panels = 7;
constexpr std::size_t k = depth * panels;

using Pile = cubist::detail::PanelCoalescing<double, HostEngine>;
using Room = cubist::detail::PileRoom<double, HostEngine>;

/// 2 P Q + 3 R of whole matrices, by panels of P and Q through a pile for `together` of them.
Dense<double> piled(Operand<const double> p, Operand<const double> q, Dense<double> r,
                    std::size_t together)
{
  const HostEngine engine;
  Room room{{m, n}, depth * together};
  Pile pile{engine, room};
  const MatrixView<double> out{r.data.data(), r.shape};
  double beta = 3;
  std::size_t products = 0;
  for (std::size_t t = 0; t < panels; ++t)
  {
    pile.add(p.block(0, t * depth, {m, depth}), q.block(t * depth, 0, {depth, n}));
    CHECK(pile.full() == ((t + 1) % together == 0));
    if (!pile.full() && t + 1 < panels) continue;
    pile.multiply(2.0, beta, Operand<double>{out});
    beta = 1;
    ++products;
  }
  CHECK(products == (panels + together - 1) / together);
  return r;
}

Operand<const double> operand(const Dense<double>& matrix, Op op)
{
  return {MatrixView<const double>{matrix.data.data(), matrix.shape}, op};
}

}  // namespace

TEST_CASE("Thin panels are piled up to what is deep enough, deep ones are not")
{
  CHECK(pile_depth(16, 20) == 128);
  CHECK(pile_depth(31, 8) == 124);
  CHECK(pile_depth(1, 1000) == 128);
  CHECK(pile_depth(16, 3) == 48);
  CHECK(pile_depth(32, 8) == 0);
  CHECK(pile_depth(1024, 8) == 0);
}

TEST_CASE("One panel alone, and panels of nothing, are not piled up")
{
  CHECK(pile_depth(16, 1) == 0);
  CHECK(pile_depth(0, 8) == 0);
  const HostEngine engine;
  Room none{{m, n}, pile_depth(0, 8)};
  CHECK_FALSE(Pile{engine, none}.used());
}

TEST_CASE("A pile of panels makes their products' sum, however operands are stored")
{
  const auto p = random_matrix<double>({m, k}, 1);
  const auto q = random_matrix<double>({k, n}, 2);
  const auto r = random_matrix<double>({m, n}, 3);
  auto wanted = product(p, q);
  for (std::size_t i = 0; i < wanted.data.size(); ++i)
    wanted.data[i] = 2 * wanted.data[i] + 3 * r.data[i];
  const auto p_t = transposed(p);
  const auto q_t = transposed(q);
  for (const std::size_t together : {1U, 2U, 3U, 7U})
  {
    CAPTURE(together);
    CHECK(piled(operand(p, Op::none), operand(q, Op::none), r, together).data == wanted.data);
    CHECK(piled(operand(p_t, Op::transpose), operand(q, Op::none), r, together).data ==
          wanted.data);
    CHECK(piled(operand(p, Op::none), operand(q_t, Op::transpose), r, together).data ==
          wanted.data);
  }
}
