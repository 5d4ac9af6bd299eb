// SPDX-License-Identifier: BSD-3-Clause
#include <climits>

#include "cubist/matrix/check_replicas.hpp"
#include "cubist/matrix/redistribute.hpp"
#include "cubist/scheme/data_parallel.hpp"

#include "extents.hpp"
#include "words.hpp"

namespace cubist::test::scheme_data_parallel_test
{

static_assert(SchemeType<DataParallel<Summa2D>> && SchemeType<DataParallel<Summa2DInput>> &&
              SchemeType<DataParallel<Summa2DWeight>> && SchemeType<DataParallel<Summa25D>> &&
              SchemeType<DataParallel<Cube3D>> && SchemeType<DataParallel<Grid2D>> &&
              SchemeType<DataParallel<Grid3D>> && SchemeType<DataParallel<Megatron1D>> &&
              SchemeType<DataParallel<Megatron1DSequence>>);
static_assert(
    std::is_same_v<DataParallel<Summa25D>::Input, Layout<Rows<Data, Depth, Row>, Cols<Col>>>);
static_assert(std::is_same_v<DataParallel<Cube3D>::Next::Next, DataParallel<Cube3D>>);

TEST_CASE("DataParallel multiplies two matrices of 2 x 2")
{
  if (!fits(8)) return;
  CHECK((small_product<DataParallel<Summa2D>>({8, {.data = 2, .scheme = {.q = 2}}}) ==
         small_product_by_hand));
}

template <class S>
using Exact = Subject<DataParallel<S>, TestBackend, double>;

using Types =
    AllOrFirst<std::tuple<Exact<Cube3D>, Exact<Megatron1D::Next>>,
               std::tuple<Exact<Summa2D>, Exact<Grid3D>, Exact<Summa25D>, Exact<Megatron1DSequence>,
                          Subject<DataParallel<Summa2DWeight>, TestBackend, double, Op::transpose,
                                  Op::transpose>>>;

template <class S>
TestMeshes<S> meshes()
{
  using Scheme = typename S::Scheme;
  if constexpr (Scheme::Axes::count == 1)
    return {{6, {.data = 3, .scheme = {2}}}, {4, {.data = 2, .scheme = {2}}}};
  else if constexpr (std::is_same_v<Scheme, Summa25D>)
    return {{8, {.data = 2, .scheme = {.q = 1, .d = 4}}},
            {16, {.data = 2, .scheme = {.q = 2, .d = 2}}}};
  else if constexpr (std::is_same_v<Scheme, Grid3D>)
    return {{12, {.data = 2, .scheme = {2, 3, 1}}}, {4, {.data = 2, .scheme = {1, 2, 1}}}};
  else if constexpr (std::is_same_v<Scheme, Cube3D>)
    return {{16, {.data = 2, .scheme = {2}}}, {3, {.data = 3, .scheme = {1}}}};
  else
    return {{8, {.data = 2, .scheme = {.q = 2}}}, {12, {.data = 3, .scheme = {.q = 2}}}};
}

TEMPLATE_LIST_TEST_CASE("DataParallel multiplies small integers exactly", "", Types)
{
  conform_exactly<TestType>(meshes<typename TestType::Scheme>(), 4);
}

TEST_CASE("DataParallel of Summa2D sends what Summa25D sends where no size is padded")
{
  for (const ProductSize size : {ProductSize{24, 36, 48}, {12, 60, 24}, {6, 6, 0}})
    for (const int d : {1, 2, 3})
    {
      if (!fits(4 * d)) continue;
      CAPTURE(d, text(size));
      CHECK(counted_words<DataParallel<Summa2D>>({4 * d, {d, {.q = 2}}}, size) ==
            counted_words<Summa25D>({4 * d, {2, d}}, size));
    }
}

TEST_CASE("DataParallel sends what its scheme sends for each batch, and the sum of dW")
{
  using S = DataParallel<Cube3D>;
  for (const int d : {1, 2})
    for (const ProductSize size : {ProductSize{24, 36, 48}, {37, 101, 23}, {1, 1, 1}})
    {
      if (!fits(8 * d)) continue;
      CAPTURE(d, text(size));
      const auto batches = static_cast<std::uint64_t>(d);
      const ProductSize batch{pad(size.m, 4 * batches) / batches, size.n, size.k};
      const Operands padded{batch, 4};
      const auto w = grid3d_words(2, 2, 2, padded, Gathered::again);
      const auto sum = 2 * (batches - 1) * padded.kn;
      CHECK(counted_words<S>({8 * d, {d, {2}}}, size) ==
            Words{batches * w.forward, batches * w.grad_input, batches * w.grad_weight + sum,
                  batches * w.backward + sum, batches * w.backward_weight + sum});
    }
}

TEST_CASE("DataParallel pads rows in each batch, and weights as its scheme does")
{
  using A = DataParallel<Summa2D>::Axes;
  using S = DataParallel<Summa2D>;
  const A::Array e{3, 2, 2};
  CHECK(S::quantum(e) == 2);
  CHECK(S::Input::block<A>({13, 5}, e, {2, 1, 0}, S::quantum(e)).padded() == Shape{3, 3});
  CHECK(S::Weight::block<A>({5, 5}, e, {2, 1, 0}, S::quantum(e)).padded() == Shape{3, 3});
}

TEST_CASE("DataParallel derives the extents that are left out")
{
  using D2 = DataParallel<Summa2D>;
  using D3 = DataParallel<Cube3D>;
  CHECK(extents_of<D3>({}, 8) == D3::Axes::Array{1, 2, 2, 2});
  CHECK(extents_of<D3>({}, 16) == D3::Axes::Array{2, 2, 2, 2});
  CHECK(extents_of<D3>({}, 6) == D3::Axes::Array{6, 1, 1, 1});
  CHECK(extents_of<D3>({.data = 3}, 24) == D3::Axes::Array{3, 2, 2, 2});
  CHECK(extents_of<D2>({.data = 2}, 8) == D2::Axes::Array{2, 2, 2});
  CHECK(extents_of<D2>({.data = 0, .scheme = {.q = 2}}, 12) == D2::Axes::Array{3, 2, 2});
}

TEST_CASE("DataParallel names extents that would fit where those requested do not")
{
  using D3 = DataParallel<Cube3D>;
  CHECK(mentions(extents_error<D3>({.data = 3}, 8), "DataParallel<Cube3D>", "got .data = 3",
                 "8 ranks", "use .data = 2", "or 9 ranks"));
  CHECK(mentions(extents_error<D3>({.data = -1}, 8), "DataParallel<Cube3D>", "data = -1",
                 "use a positive extent"));
  CHECK(mentions(extents_error<D3>({.data = 2}, 8), "Cube3D", "4 ranks"));
  CHECK(mentions(extents_error<D3>({.data = 0, .scheme = {3}}, 8), "Cube3D", "8 ranks"));
  CHECK(mentions(extents_error<D3>({.data = INT_MAX}, 8), "use .data = 8"));
}

TEST_CASE("matrices are redistributed from and to meshes with a data axis")
{
  require_clear(on_ranks<TestBackend>(8, [](TestBackend::Communicator& world) {
    using S = DataParallel<Summa2D>;
    const Mesh<S, TestBackend> from{world, {.data = 2, .scheme = {.q = 2}}};
    const Mesh<Cube3D, TestBackend> to{world, {.q = 2}};
    const auto index = [](std::size_t i, std::size_t j) { return double(100 * i + j); };
    DistMatrix<double, S::Input, AxisMesh<S::Axes, TestBackend>> x{from, {13, 5}};
    x.generate(index);
    const auto y = redistribute<Cube3D::Weight>(x, to);
    const auto z = redistribute<S::Weight>(y, from);
    Findings found;
    const auto check = [&](const auto& m, const char* name) {
      const auto mine = m.valid();
      for (std::size_t i = 0; i < mine.rows(); ++i)
        for (std::size_t j = 0; j < mine.cols(); ++j)
          found.check(mine(i, j) == index(m.block().rows.offset + i, m.block().cols.offset + j),
                      name, " has another element (", i, ", ", j, ")");
    };
    check(y, "Y"), check(z, "Z");
    return found;
  }));
}

TEST_CASE("weights that differ between the meshes of a data axis are found")
{
  const auto messages = on_ranks<TestBackend>(8, [](TestBackend::Communicator& world) {
    using S = DataParallel<Summa2D>;
    const Mesh<S, TestBackend> mesh{world, {.data = 2, .scheme = {.q = 2}}};
    DistMatrix<double, S::Weight, AxisMesh<S::Axes, TestBackend>> w{mesh, {6, 4}};
    if (world.rank() == 5) w.valid()(0, 0) = 1;
    const std::vector<NamedMatrix<const double, AxisMesh<S::Axes, TestBackend>>> all{
        {"W", std::as_const(w).view()}};
    return message_of<ReplicaError>([&] { check_replicas(all); });
  });
  for (const auto& message : messages)
    CHECK(mentions(message, "W differs along data between rank 1 and rank 5"));
}

}  // namespace cubist::test::scheme_data_parallel_test
