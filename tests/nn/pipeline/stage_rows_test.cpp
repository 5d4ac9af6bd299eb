// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/matrix/global.hpp"
#include "cubist/nn/pipeline/stage_rows.hpp"

#include "ranks.hpp"

namespace cubist::test::stage_rows_test
{

TEST_CASE("micro-batches are consecutive rows, cut over the ranks of each stage")
{
  if (!fits(8)) return;
  using M = AxisMesh<Axes<PipelineStage, Row, Col>, TestBackend>;
  using L = Layout<Rows<Row>, Cols<Col>>;
  require_clear(on_ranks<TestBackend>(8, [](TestBackend::Communicator& world) {
    Findings found;
    const M mesh{world, {2, 2, 2}, 2};
    const auto of_stage = make_stage_mesh(mesh);
    const auto element = [](std::size_t i, std::size_t j) { return double(100 * i + j + 1); };
    // Two matrices with the same shape, which are cut differently.
    DistMatrix<double, L, M> matrices[] = {{mesh, {11, 5}}, {mesh, {11, 5}, {8, 2}}};
    for (auto& all : matrices) all.generate(element);
    detail::StageRows<double, L, M> rows;
    for (int repeat = 0; repeat < 4; ++repeat)
      for (const auto& [first, count] : {std::pair{0U, 4U}, {4U, 4U}, {8U, 3U}, {0U, 11U}})
      {
        const auto& all = matrices[repeat % 2];
        DistMatrix<double, L, StageMesh<M>> part{of_stage, {count, 5}, all.quanta()};
        rows.copy(all, first, part);
        const auto mine = part.valid();
        for (std::size_t i = 0; i < mine.rows(); ++i)
          for (std::size_t j = 0; j < mine.cols(); ++j)
            found.check(mine(i, j) == element(first + part.block().rows.offset + i,
                                              part.block().cols.offset + j),
                        "element (", i, ", ", j, ") of ", count, " rows from ", first);
      }
    found.check(true, "");
    return found;
  }));
}

}  // namespace cubist::test::stage_rows_test
