// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/nn/embedding/position_embedding.hpp"
#include "cubist/scheme/grid2d.hpp"
#include "cubist/scheme/megatron1d.hpp"

#include "nn.hpp"

namespace cubist::test::position_embedding_test
{

constexpr std::size_t sequences = 5, length = 3, positions = 7, first = 2, width = 10;
const Pass pass{.training_step = {}, .sequence = length, .position = first};

/// Checks a layer on a mesh.
/// @param whole  whether a rank's rows are whole sequences
template <class S>
void equals_serial(const Place<S>& place, bool whole)
{
  if (!fits(place)) return;
  CAPTURE(place.name(), whole);
  const auto [h, dp] = on_root(place, [&](const auto& mesh) {
    using Layer = PositionEmbedding<S, TestBackend, double>;
    Layer layer{mesh, positions, width};
    Parameters<double, typename Layer::Mesh> list;
    layer.append_parameters(list, "");
    scatter(integers<double>(positions, width, 1), list[0].value);
    const std::size_t quantum = mesh.quantum();
    typename Layer::Output m{
        mesh, {sequences * length, width}, {whole ? length * quantum : quantum, quantum}};
    scatter(integers<double>(sequences * length, width, 2), m);
    layer.forward(m, pass);
    ImmediateSums<double, typename Layer::Mesh> sums;
    const Pass another{.sequence = 1, .position = positions - 1};
    layer.backward(m, {another, sums});  // leaves another gradient
    layer.backward(m, {pass, sums});
    auto result = gather(m);
    return std::pair{result, gather(list[0].gradient)};
  });
  const auto p = integers<double>(positions, width, 1);
  auto wanted = integers<double>(sequences * length, width, 2), slopes = p;
  slopes.fill(0);
  for (std::size_t i = 0; i < sequences * length; ++i)
    for (std::size_t j = 0; j < width; ++j)
    {
      wanted(i, j) += p(first + i % length, j);
      slopes(first + i % length, j) += wanted(i, j);
    }
  CHECK(identical(h, wanted));
  CHECK(identical(dp, slopes));
}

TEST_CASE("positions are added to the rows of each sequence, and their gradients summed")
{
  for (const bool whole : {true, false})
  {
    equals_serial(Place<Summa2D>{6, {.rows = 2, .cols = 3}}, whole);
    equals_serial(Place<Summa2DInput>{6, {.rows = 2, .cols = 3}}, whole);
    equals_serial(Place<Grid2D>{4, {.x = 2, .y = 2}}, whole);
    equals_serial(two_two_two, whole);
    equals_serial(cube, whole);
    equals_serial(Place<Megatron1D>{3, {.p = 3}}, whole);
    equals_serial(Place<Megatron1DSequence>{4, {.p = 4}}, whole);
  }
}

#if !CUBIST_SANITIZED  // counts of elements do not change under a sanitizer
TEST_CASE("only gradients of positions in use are sent")
{
  if (!fits(two_two_two)) return;
  const auto ranks = on_mesh<Counting<TestBackend>>(two_two_two, [](const auto& mesh) {
    using Layer = PositionEmbedding<Summa25D, Counting<TestBackend>, double>;
    Layer layer{mesh, positions, width};
    const typename Layer::Output dh{mesh, {sequences * length, width}};
    ImmediateSums<double, typename Layer::Mesh> sums;
    layer.backward(dh, {pass, sums});
    return std::pair{mesh.world().traffic().total().elements, dh.block().cols.size};
  });
  // Rows are cut along depth and row, so ranks send 2 (p-1)/p of a block, for p = 4 in two groups.
  std::uint64_t all = 0;
  for (const auto& r : ranks) all += r.first;
  CHECK(all == 2 * 2 * 3 * length * ranks[0].second);
}
#endif

TEST_CASE("a position that the table does not have is refused")
{
  const auto messages = on_root(one_rank, [](const auto& mesh) {
    PositionEmbedding<Summa2D, TestBackend, double> layer{mesh, 4, 3};
    DistMatrix<double, Summa2D::Input, AxisMesh<Summa2D::Axes, TestBackend>> h{mesh, {2, 3}};
    ImmediateSums<double, AxisMesh<Summa2D::Axes, TestBackend>> sums;
    const Pass too_far{.training_step = {}, .sequence = 2, .position = 3};
    return std::pair{message_of<ArgumentError>([&] { layer.forward(h, too_far); }),
                     message_of<ArgumentError>([&] {
                       layer.backward(h, {too_far, sums});
                     })};
  });
  CHECK(mentions(messages.first, "position 5", "table has only 4", "shorter"));
  CHECK(messages.second == messages.first);
}

}  // namespace cubist::test::position_embedding_test
