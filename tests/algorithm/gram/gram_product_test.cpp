// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/algorithm/gram/gram_product.hpp"
#include "cubist/backend/threads.hpp"

#include "matrices.hpp"
#include "ranks.hpp"

namespace cubist::test::algorithm_gram_gram_product_test
{

TEST_CASE("groups in any order multiply their rows, and their ranks share the columns")
{
  const auto x = random_matrix<float>({7, 10}, 1);
  const auto a = product(x, transposed(x));
  // Groups 0, 1, 2 have 3, 3 and 1 rows, and are ranks 2, 0, 1 of their communicator; two ranks
  // of each group have 4 and 6 columns.
  const auto all = on_ranks<Threads>(6, [&](ThreadsCommunicator& world) {
    const int in_group = world.rank() % 2;
    auto groups = world.split(in_group, world.rank());
    auto sharing = world.split(groups.rank(), world.rank());
    detail::GramPlace<ThreadsCommunicator> place;
    place.groups = &groups;
    place.sharing = &sharing;
    place.ranks = {2, 0, 1};
    place.rows = {3, 3, 1};
    place.index = groups.rank() == 2 ? 0 : static_cast<std::size_t>(groups.rank() + 1);
    place.inner = in_group == 0 ? Range{0, 4, 4} : Range{4, 6, 6};
    // C = 2 X X^T + 3 C0, where all elements of C0 are 1. Blocks have no padding, so that their
    // sizes differ.
    const std::size_t first = 3 * place.index, rows = place.rows[place.index];
    std::vector<float> c(rows * 7, 1);
    const MatrixView<float> out{c.data(), {rows, 7}};
    const HostEngine engine;
    detail::GramProduct<float, ThreadsCommunicator, HostEngine> product{
        std::move(place), engine, Op::none, Method::collectives};
    product.multiply(2, MatrixView<const float>{&x(first, 0), {rows, 10}}, 3, out, out);
    return c;
  });
  for (std::size_t rank = 0; rank < 6; ++rank)
  {
    const std::size_t index = rank / 2 == 2 ? 0 : rank / 2 + 1;
    std::vector<float> wanted;
    for (std::size_t i = 3 * index; i < (index == 2 ? 7 : 3 * index + 3); ++i)
      for (std::size_t j = 0; j < 7; ++j) wanted.push_back(2 * a(i, j) + 3);
    CAPTURE(rank);
    CHECK(all[rank] == wanted);
  }
}

}  // namespace cubist::test::algorithm_gram_gram_product_test
