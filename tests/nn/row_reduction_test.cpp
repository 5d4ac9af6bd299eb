// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/nn/row_reduction.hpp"
#include "cubist/scheme/grid2d.hpp"

#include "nn.hpp"

namespace cubist::test::row_reduction_test
{

/// Checks that every rank gets the sum and the maximum over all columns for each of its rows.
template <class L, class S>
void check_rows(const Place<S>& place)
{
  CAPTURE(place.name(), L::to_string());
  const auto global = integers<double>(13, 11, 3);
  require_clear(on_mesh(place, [&](const auto& mesh) {
    using M = AxisMesh<typename S::Axes, Threads>;
    using Values = cubist::detail::RowReduction<double, L, M>;
    DistMatrix<double, L, M> x{mesh, {13, 11}};
    x.generate([&](std::size_t i, std::size_t j) { return global(i, j); });
    const MatrixView<const double> mine = std::as_const(x).valid();
    Values sums{x.mesh(), mine.rows(), 0};
    Values maxima{x.mesh(), mine.rows(), -std::numeric_limits<double>::infinity()};
    const auto itself = [](std::size_t, std::size_t, double v) { return v; };
    const double* sum = sums.combine(
        ReduceOp::sum, [](double a, double b) { return a + b; }, itself, mine);
    const double* max = maxima.combine(
        ReduceOp::max, [](double a, double b) { return std::max(a, b); }, itself, mine);
    Findings found;
    for (std::size_t i = 0; i < mine.rows(); ++i)
    {
      double wanted_sum = 0;
      double wanted_max = -std::numeric_limits<double>::infinity();
      for (std::size_t j = 0; j < 11; ++j)
      {
        const double v = global(x.block().rows.offset + i, j);
        wanted_sum += v;
        wanted_max = std::max(wanted_max, v);
      }
      found.check(sum[i] == wanted_sum && sums.view()(i, 0) == wanted_sum, "sum of row ", i);
      found.check(max[i] == wanted_max, "maximum of row ", i);
    }
    found.check(true, "rank ", mesh.rank(), " has ", mine.rows(), " rows");
    return found;
  }));
}

TEST_CASE("values of rows are combined over all columns, whatever cuts them")
{
  check_rows<Summa25D::Input>(single_rank);
  check_rows<Summa25D::Input>(single_layer);
  check_rows<Summa25D::Input>(two_two_two);
  check_rows<Cube3D::Output>(cube);
  check_rows<Grid2D::Output>(Place<Grid2D>{6, {3, 2}});
}

}  // namespace cubist::test::row_reduction_test
