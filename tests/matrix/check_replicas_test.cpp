// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/matrix/check_replicas.hpp"

#include "ranks.hpp"

namespace cubist::test::matrix_check_replicas_test
{

using World = TestBackend::Communicator;
using Ranks = Axes<Depth, Row, Col>;
using Grid = AxisMesh<Ranks, TestBackend>;
using Everywhere = Layout<Rows<>, Cols<>>;
using Tiles = Layout<Rows<Row>, Cols<Col>>;
using NoReplicas = Layout<Rows<Depth, Row>, Cols<Col>>;

/// Flips the lowest bit of the last element of this rank's shard.
template <class L>
void flip_bit(DistMatrix<double, L, Grid>& m)
{
  const auto x = m.valid();
  double& last = x(x.rows() - 1, x.cols() - 1);
  last = std::bit_cast<double>(std::bit_cast<std::uint64_t>(last) ^ 1U);
}

template <class L>
DistMatrix<double, L, Grid> index_matrix(const Grid& mesh, Shape shape)
{
  DistMatrix<double, L, Grid> m{mesh, shape};
  m.generate([](std::size_t i, std::size_t j) { return static_cast<double>(10 * i + j); });
  return m;
}

/// The message that check_replicas throws on each rank, for a (5, 7) matrix in which these ranks
/// flip a bit.
template <class L>
std::vector<std::string> errors(std::vector<int> flipped, const Grid::Array& extents = {2, 2, 2})
{
  return on_ranks<TestBackend>(Ranks::ranks(extents), [&](World& world) {
    const Grid mesh{world, extents, 1};
    const auto equal = index_matrix<Everywhere>(mesh, {2, 2});
    auto m = index_matrix<L>(mesh, {5, 7});
    for (const int rank : flipped)
      if (rank == world.rank()) flip_bit(m);
    const std::vector<NamedMatrix<const double, Grid>> both{{"A", equal.view()}, {"B", m.view()}};
    return message_of<ReplicaError>([&] { check_replicas(both); });
  });
}

static void require_error(const std::vector<std::string>& ranks, const std::string& text)
{
  CAPTURE(ranks.front(), text);
  CHECK(mentions(ranks.front(), text));
  for (const auto& rank : ranks) CHECK(rank == ranks.front());
}

TEST_CASE("check_replicas: no error for equal replicas, and for layouts without replicas")
{
  for (const auto& extents : {Grid::Array{1, 1, 1}, {1, 2, 2}, {2, 2, 2}, {2, 3, 1}})
  {
    if (!fits(Ranks::ranks(extents))) continue;
    const std::vector<std::string> no_errors(static_cast<std::size_t>(Ranks::ranks(extents)));
    CHECK(errors<Tiles>({}, extents) == no_errors);
    CHECK(errors<Everywhere>({}, extents) == no_errors);
    CHECK(errors<NoReplicas>({0}, extents) == no_errors);
  }
}

TEST_CASE("check_replicas: every rank gets an error with the matrix, axis and ranks that differ")
{
  if (!fits(8)) return;
  require_error(errors<Tiles>({6}), "B differs along depth between rank 2 and rank 6, so ");
  require_error(errors<Tiles>({1}), "B differs along depth between rank 1 and rank 5, so ");
  require_error(errors<Everywhere>({3, 7}), "B differs along row between rank 1 and rank 3, so ");
  require_error(errors<Everywhere>({0}), "B differs along depth between rank 0 and rank 4, so ");
}

TEST_CASE("check_replicas: names all replicas that differ from the first along an axis")
{
  if (!fits(4)) return;
  require_error(errors<Tiles>({0}, {4, 1, 1}),
                "B differs along depth between rank 0 and rank 1, rank 2, rank 3, so ");
  require_error(errors<Tiles>({2}, {4, 1, 1}),
                "B differs along depth between rank 0 and rank 2, so ");
}

TEST_CASE("check_replicas: ignores empty matrices, padding and idle ranks")
{
  require_clear(on_ranks<TestBackend>(6, [](World& world) {
    Findings found;
    const Grid mesh{world, {2, 2, 1}, 4, IdleRanks::allowed};
    auto empty = index_matrix<Everywhere>(mesh, {0, 3});
    auto padded = index_matrix<Tiles>(mesh, {1, 1});
    if (mesh.active()) padded.padded()(1, 0) = world.rank();
    const std::vector<NamedMatrix<const double, Grid>> all{{"A", empty.view()},
                                                           {"B", padded.view()}};
    found.check(message_of<Error>([&] { check_replicas(all); }).empty(), "nothing differs");
    found.check(message_of<Error>([] {
                  check_replicas(std::vector<NamedMatrix<const double, Grid>>{});
                }).empty(),
                "nothing to compare");
    return found;
  }));
}

TEST_CASE("check_replicas: sends one value for each matrix and rank")
{
  if (!fits(4)) return;
  using B = Counting<TestBackend>;
  using M = AxisMesh<Ranks, B>;
  const auto sent = on_ranks<B>(4, [](B::Communicator& world) {
    const M mesh{world, {2, 2, 1}, 1};
    const DistMatrix<double, Tiles, M> a{mesh, {5, 7}};
    const std::vector<NamedMatrix<const double, M>> all{{"A", a.view()}, {"B", a.view()}};
    world.traffic().reset();
    check_replicas(all);
    return world.traffic().total().elements;
  });
  CHECK(sent == std::vector<std::uint64_t>(4, 3 * 2));
}

TEST_CASE("check_replicas: matrices of several meshes are an error")
{
  require_clear(on_ranks<TestBackend>(1, [](World& world) {
    Findings found;
    const auto a = index_matrix<Tiles>(Grid{world, {1, 1, 1}, 1}, {2, 2});
    const auto b = index_matrix<Tiles>(Grid{world, {1, 1, 1}, 1}, {2, 2});
    const std::vector<NamedMatrix<const double, Grid>> both{{"A", a.view()}, {"B", b.view()}};
    found.check(mentions(message_of<MeshError>([&] { check_replicas(both); }), "got B", "from A"),
                "two meshes");
    return found;
  }));
}

}  // namespace cubist::test::matrix_check_replicas_test
