// SPDX-License-Identifier: BSD-3-Clause
#include <cstddef>
#include <utility>

#include "cubist/nn/layers/position_embedding.hpp"
#include "cubist/scheme/megatron1d.hpp"

#include "catch.hpp"
#include "nn.hpp"

namespace cubist::test::position_embedding_test
{

namespace
{

constexpr std::size_t sequences = 5, length = 3, positions = 7, first = 2, width = 10;

template <class S>
void equals_serial(const Place<S>& place)
{
  CAPTURE(place.name());
  const auto [h, dp] = on_root<Threads>(place, [](const auto& mesh) {
    using Layer = PositionEmbedding<S, Threads, double>;
    Layer layer{mesh, positions, width};
    Parameters<double, typename Layer::Mesh> list;
    layer.append_parameters(list, "");
    scatter(integers<double>(positions, width, 1), list[0].value);
    const Pass pass{.sequence = length, .position = first};
    typename Layer::Output m{
        mesh, {sequences * length, width}, {length * mesh.quantum(), mesh.quantum()}};
    scatter(integers<double>(sequences * length, width, 2), m);
    layer.forward(m, pass);
    for (int again = 0; again < 2; ++again) layer.backward(m, pass);
    layer.finish_backward();
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
  CHECK(difference(h, wanted) == 0);
  CHECK(difference(dp, slopes) == 0);
}

}  // namespace

TEST_CASE("positions are added to the rows of each sequence, and their gradients summed")
{
  equals_serial(Place<Summa2D>{6, {.rows = 2, .cols = 3}});
  equals_serial(two_two_two);
  equals_serial(cube);
  equals_serial(Place<Megatron1DSequence>{4, {.p = 4}});
}

TEST_CASE("a position that the table does not have is refused")
{
  const auto message = on_root<Threads>(one_rank, [](const auto& mesh) {
    PositionEmbedding<Summa2D, Threads, double> layer{mesh, 4, 3};
    DistMatrix<double, Summa2D::Input, AxisMesh<Summa2D::Axes, Threads>> h{mesh, {2, 3}};
    return message_of<ArgumentError>([&] { layer.forward(h, {.sequence = 2, .position = 3}); });
  });
  CHECK(mentions(message, "position 5", "table of 4", "shorter"));
}

}  // namespace cubist::test::position_embedding_test
