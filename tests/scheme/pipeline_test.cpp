// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/scheme/cube3d.hpp"
#include "cubist/scheme/data_parallel.hpp"
#include "cubist/scheme/pipeline.hpp"
#include "cubist/scheme/summa2d.hpp"

#include "extents.hpp"
#include "ranks.hpp"

namespace cubist::test::scheme_pipeline_test
{

using P2 = Pipeline<Summa2D>;
using P3 = Pipeline<Cube3D>;

TEST_CASE("Pipeline has the names and extents of its scheme after those of the stages")
{
  CHECK(std::string{P2::name} == "Pipeline<Summa2D>");
  CHECK(std::string{Pipeline<DataParallel<Cube3D>>::name} == "Pipeline<DataParallel<Cube3D>>");
  CHECK(extents_of<P3>({}, 8) == P3::Axes::Array{1, 2, 2, 2});
  CHECK(extents_of<P3>({}, 6) == P3::Axes::Array{6, 1, 1, 1});
  CHECK(extents_of<P3>({.stages = 3}, 24) == P3::Axes::Array{3, 2, 2, 2});
  CHECK(extents_of<P2>({.stages = 0, .scheme = {.q = 2}}, 12) == P2::Axes::Array{3, 2, 2});
  CHECK(P2::quantum({3, 2, 2}) == Summa2D::quantum({2, 2}));
  CHECK(P2::fits({3, 2, 2}));
  CHECK_FALSE(P3::fits({3, 2, 2, 1}));
}

static_assert(MeshShape<P2> && NetworkScheme<P2> && NetworkScheme<Summa2D>);
// Products are not cut into stages.
static_assert(!SchemeType<P2>);
static_assert(std::is_same_v<P2::Axes, Axes<PipelineStage, Row, Col>>);
static_assert(std::is_same_v<P2::Input, Summa2D::Input>);
static_assert(std::is_same_v<P3::Next::Next, P3>);
static_assert(
    std::is_same_v<Pipeline<DataParallel<Summa2D>>::Axes, Axes<PipelineStage, Data, Row, Col>>);

TEST_CASE("Pipeline names extents that would fit where those requested do not")
{
  CHECK(mentions(extents_error<P3>({.stages = 3}, 8), "Pipeline<Cube3D>", "got .stages = 3",
                 "8 ranks", "use .stages = 2", "or 9 ranks"));
  CHECK(mentions(extents_error<P3>({.stages = -1}, 8), "stages = -1", "use a positive extent"));
  CHECK(mentions(extents_error<P3>({.stages = 2}, 8), "Cube3D", "4 ranks"));
}

}  // namespace cubist::test::scheme_pipeline_test
