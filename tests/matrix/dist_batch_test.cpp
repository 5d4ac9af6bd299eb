// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/matrix/dist_batch.hpp"
#include "cubist/scheme/batch_mesh.hpp"
#include "cubist/scheme/grid3d.hpp"
#include "cubist/scheme/summa25d.hpp"

#include "ranks.hpp"

namespace cubist::test::matrix_dist_batch_test
{

static double element(std::size_t b, std::size_t i, std::size_t j)
{
  return 1 + static_cast<double>(10000 * b + 100 * i + j);
}

/// Scatters a batch, checks the blocks, and gathers it.
template <class S>
void round_trip(int ranks, int groups, typename S::Extents extents)
{
  if (!fits(ranks)) return;
  const Shape shape{5, 7};
  for (const std::size_t batch : {0U, 1U, 4U, 5U})
  {
    CAPTURE(S::name, ranks, groups, batch);
    auto global = xt::xtensor<double, 3>::from_shape({batch, shape.rows, shape.cols});
    for (std::size_t b = 0; b < batch; ++b)
      for (std::size_t i = 0; i < shape.rows; ++i)
        for (std::size_t j = 0; j < shape.cols; ++j) global(b, i, j) = element(b, i, j);
    const auto results = on_ranks<TestBackend>(ranks, [&](TestBackend::Communicator& world) {
      using M = AxisBatchMesh<typename S::Axes, TestBackend>;
      const M mesh = BatchMesh<S, TestBackend>{world, groups, extents};
      Findings found;
      // The weight's layout has replicas on a 2.5D mesh.
      DistBatch<double, typename S::Weight, M> x{mesh, batch, shape};
      scatter(global, x);
      for (std::size_t n = 0; n < x.size(); ++n)
      {
        const Block& b = x[n].block();
        for (std::size_t i = 0; i < b.rows.valid; ++i)
          for (std::size_t j = 0; j < b.cols.valid; ++j)
            found.check(x[n].valid()(i, j) ==
                            element(x.offset() + n, b.rows.offset + i, b.cols.offset + j),
                        "matrix ", n, " on rank ", world.rank());
      }
      const auto all = gather(x);
      found.check(world.rank() != 0 || all == global, "all are gathered");
      DistBatch<double, typename S::Weight, M> y{mesh, batch, shape};
      y.generate(element);
      const auto same = gather(y);
      found.check(world.rank() != 0 || same == global, "generate gives the same elements");
      return std::pair{found, x.size()};
    });
    std::size_t held = 0;
    for (const auto& [found, size] : results)
    {
      require_clear({found});
      held += size;
    }
    CHECK(held == batch * static_cast<std::size_t>(ranks / groups));
  }
}

TEST_CASE("DistBatch: gather undoes scatter on groups of ranks")
{
  round_trip<Grid3D>(6, 1, {1, 2, 3});
  round_trip<Grid3D>(8, 2, {2, 1, 2});
  round_trip<Grid3D>(6, 6, {});
  round_trip<Summa25D>(8, 2, {.q = 1, .d = 4});
}

TEST_CASE("DistBatch: scatter of a tensor of other sizes throws on every rank")
{
  for (const auto& m : on_ranks<TestBackend>(2, [](TestBackend::Communicator& world) {
         using M = AxisBatchMesh<Grid3D::Axes, TestBackend>;
         const M mesh = BatchMesh<Grid3D, TestBackend>{world, 2};
         DistBatch<double, Grid3D::Input, M> x{mesh, 3, {4, 5}};
         const auto wrong = xt::xtensor<double, 3>::from_shape({3, 5, 4});
         const auto flat = xt::xtensor<double, 2>::from_shape({12, 5});
         return message_of<ShapeError>([&] { scatter(wrong, x); }) +
                message_of<ShapeError>([&] { scatter(flat, x); });
       }))
  {
    CHECK(mentions(m, "the batch, 3 matrices of (4, 5)", "give it these sizes"));
    CHECK(m.find("give it these sizes") != m.rfind("give it these sizes"));
  }
}

}  // namespace cubist::test::matrix_dist_batch_test
