// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/algorithm/gather/gather_multiply_scatter.hpp"

#include "far.hpp"
#include "words.hpp"

namespace cubist::test::algorithm_gather_gather_multiply_scatter_test
{

/// The algorithm on a box of any extents, whose axes are in another order.
template <class X, class Y>
struct Box
{
  static constexpr const char* name = "Box";

  using Axes = cubist::Axes<Col, Depth, Row>;
  using Z = Depth;
  using Input = Layout<Rows<Z, Y>, Cols<X>>;
  using Weight = Layout<Rows<X, Z>, Cols<Y>>;
  using Output = Layout<Rows<Z, X>, Cols<Y>>;
  using Next = Box<Y, X>;
  using Algorithm = GatherMultiplyScatter<Input, Weight, Output>;

  struct Extents
  {
    int y;
    int z;
    int x;
  };
  static Axes::Array extents(const Extents& e, int) { return {e.y, e.z, e.x}; }
  static bool fits(const Axes::Array&) { return true; }
  static std::size_t quantum(const Axes::Array& e)
  {
    return static_cast<std::size_t>(Axes::ranks(e));
  }
};

using XYZ = Box<Row, Col>;

using Types = AllOrFirst<
    std::tuple<Subject<XYZ, TestBackend, double>,
               Subject<XYZ, TestBackend, double, Op::transpose, Op::transpose>,
               Subject<XYZ, Far<TestBackend>, std::complex<double>, Op::none, Op::adjoint>>,
    std::tuple<Subject<XYZ, TestBackend, std::complex<float>>,
               Subject<XYZ, Far<TestBackend>, double>>>;

const TestMeshes<XYZ> meshes = {{1, {1, 1, 1}},  {2, {2, 1, 1}},  {2, {1, 2, 1}}, {2, {1, 1, 2}},
                                {12, {3, 2, 2}}, {12, {2, 1, 6}}, {24, {2, 3, 4}}};

TEMPLATE_LIST_TEST_CASE("Gathering and scattering multiply on a mesh of any three extents", "",
                        Types)
{
  conform_exactly<TestType>(meshes, 5);
  if constexpr (TestType::op_w != Op::adjoint) conform_within_rounding<TestType>(meshes);
}

TEST_CASE("Gathering and scattering send what the formula says, on a mesh of any three extents")
{
  for (const auto& mesh : those_that_fit(meshes))
    for (const ProductSize size : {ProductSize{24, 48, 72}, {37, 101, 23}, {1, 1, 1}})
      for (const auto policy : {Gathered::again, Gathered::kept})
      {
        const auto e = XYZ::extents(mesh.extents, mesh.ranks);
        CAPTURE(XYZ::Axes::to_string(e), text(size), policy == Gathered::kept);
        const Operands padded{size, XYZ::quantum(e)};
        const auto y = static_cast<std::uint64_t>(e[0]);
        const auto z = static_cast<std::uint64_t>(e[1]);
        const auto x = static_cast<std::uint64_t>(e[2]);
        const auto formula = grid3d_words(x, y, z, padded, policy);
        CHECK(counted_words<XYZ>(mesh, size, policy) == formula);
        CHECK(counted_words<XYZ, Counting<Far<TestBackend>>>(mesh, size, policy) == formula);
      }
}

}  // namespace cubist::test::algorithm_gather_gather_multiply_scatter_test
