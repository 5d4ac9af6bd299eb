// SPDX-License-Identifier: BSD-3-Clause
#include <cstddef>
#include <cstdint>
#include <tuple>

#include "cubist/scheme/cube3d.hpp"
#include "cubist/scheme/grid3d.hpp"
#include "cubist/scheme/megatron1d.hpp"
#include "cubist/scheme/owner_computes.hpp"
#include "cubist/scheme/summa25d.hpp"

#include "backend.hpp"
#include "catch.hpp"
#include "sanitized.hpp"
#include "scheme_conformance.hpp"

// The products that owners do not make alone: those with so few elements that the inner indices
// are cut, and those of which thin pieces are copied together. The others are tested for every
// scheme by its own conformance.

using namespace cubist;
using namespace cubist::test;

namespace
{

template <class Sub>
void conform_where_sums_and_merged_pieces_are_made(const TestMesh<typename Sub::Scheme>& mesh)
{
  // Few elements of Y, of dX and of dW; thin pieces of one factor, of the other, and of both.
  std::uint64_t seed = 1;
  constexpr std::size_t many = 40001;
  const auto ranks = static_cast<std::size_t>(mesh.ranks);
  REQUIRE(cubist::detail::better_cut({9, 7, many}, ranks, {3, 4, many}));
  conform_exactly<Sub>(mesh, {{9, 7, many}, {9, many, 7}, {many, 7, 9}}, seed);
  conform_exactly<Sub>(mesh, {{530, 40, 40}, {40, 530, 40}, {40, 40, 530}, {21, 22, 43}}, seed);
}

}  // namespace

TEST_CASE("Owners add up sums and multiply merged pieces as the oracle does")
{
  conform_where_sums_and_merged_pieces_are_made<Subject<Summa25D, TestBackend, double>>(
      {8, {.q = 2, .d = 2}});
  if (sanitized) return;
  conform_where_sums_and_merged_pieces_are_made<Subject<Grid3D, TestBackend, double>>(
      {6, {.x = 1, .y = 2, .z = 3}});
  conform_where_sums_and_merged_pieces_are_made<Subject<Megatron1D, TestBackend, double>>({4, {}});
}

TEST_CASE("Owners of transposed operands do, too")
{
  conform_where_sums_and_merged_pieces_are_made<
      Subject<Cube3D, TestBackend, double, Op::transpose, Op::none>>({8, {.q = 2}});
  if (sanitized) return;
  conform_where_sums_and_merged_pieces_are_made<
      Subject<Cube3D, TestBackend, double, Op::none, Op::transpose>>({8, {.q = 2}});
}
