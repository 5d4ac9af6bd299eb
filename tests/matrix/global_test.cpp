// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/matrix/global.hpp"

#if __has_include(<xtensor/containers/xarray.hpp>)
#include <xtensor/containers/xarray.hpp>
#include <xtensor/views/xview.hpp>
#else
#include <xtensor/xarray.hpp>
#include <xtensor/xview.hpp>
#endif

#include "cubist/scheme/cube3d.hpp"
#include "cubist/scheme/summa25d.hpp"
#include "cubist/scheme/summa2d.hpp"

#include "matrices.hpp"
#include "ranks.hpp"

namespace cubist::test::matrix_global_test
{

template <class T>
using Global = xt::xtensor<T, 2>;

template <class T>
Global<T> numbered(Shape shape, std::uint64_t seed = 1)
{
  auto m = Global<T>::from_shape({shape.rows, shape.cols});
  const auto values = random_matrix<T, Fractions>(shape, seed);
  std::copy(values.data.begin(), values.data.end(), m.data());
  return m;
}

TEST_CASE("scatter sends each other rank its block, gather the first replica of each block")
{
  if (!fits(8)) return;
  using B = Counting<TestBackend>;
  const auto global = numbered<double>({37, 23});
  const auto sent = on_ranks<B>(8, [&](B::Communicator& world) {
    const Mesh<Summa25D, B> mesh{world, {.q = 2, .d = 2}};
    world.traffic().reset();
    const auto w = scatter<Summa25D::Weight>(mesh, global);
    const auto scattered = world.traffic()[CallKind::send].elements;
    world.traffic().reset();
    (void)gather(w);
    return std::array{scattered, world.traffic().total().elements};
  });
  // 40 x 24 elements with padding, on 2 x 2 ranks and 2 replicas.
  const std::uint64_t block = 20 * 12;
  for (std::size_t r = 0; r < sent.size(); ++r)
  {
    CHECK(sent[r][0] == (r == 0 ? 7 * block : 0));
    CHECK(sent[r][1] == (r >= 1 && r < 4 ? block : 0));
  }
}

using World = TestBackend::Communicator;

template <class T>
bool identical(const Global<T>& a, const Global<T>& b)
{
  return a.shape() == b.shape() && std::equal(a.data(), a.data() + a.size(), b.data());
}

/// Whether a shard equals its slice of `global`, and has zeros as padding.
template <class D, class T>
bool is_slice(const D& shard, const Global<T>& global)
{
  const Block& b = shard.block();
  for (std::size_t i = 0; i < b.rows.size; ++i)
    for (std::size_t j = 0; j < b.cols.size; ++j)
    {
      const bool valid = i < b.rows.valid && j < b.cols.valid;
      const T wanted = valid ? global(b.rows.offset + i, b.cols.offset + j) : T{};
      if (shard.padded()(i, j) != wanted) return false;
    }
  return true;
}

/// Checks in one layout that scatter, called twice, and gather work.
template <class L, class M, class T>
void check_round_trip(const M& mesh, const Global<T>& global, Findings& found)
{
  const auto what = L::to_string() + " of " + std::to_string(global.shape(0)) + " x " +
                    std::to_string(global.shape(1)) + " " + element_name<T>();
  const Global<T> nothing = Global<T>::from_shape({0, 0});
  const bool root = mesh.rank() == 0;

  auto x = scatter<L>(mesh, root ? global : nothing);
  found.check(is_slice(x, global), "scatter, ", what, ", rank ", mesh.rank());
  const auto back = gather(x);
  found.check(identical(back, root ? global : nothing), "gather, ", what, ", rank ", mesh.rank());

  const auto other = numbered<T>({global.shape(0), global.shape(1)}, 2);
  mesh.engine().fill(x.padded(), T{9});
  scatter(root ? other : nothing, x);
  found.check(is_slice(x, other), "scatter into, ", what, ", rank ", mesh.rank());
  scatter(root ? global : nothing, x.view());
  found.check(identical(gather(std::as_const(x).view()), root ? global : nothing),
              "scatter into and gather a view, ", what, ", rank ", mesh.rank());
}

template <class T, class S, class... L>
void check_layouts(int ranks, typename S::Extents extents)
{
  if (!fits(ranks)) return;
  for (const Shape shape :
       {Shape{1, 1}, Shape{2, 3}, Shape{37, 23}, Shape{16, 32}, Shape{0, 5}, Shape{5, 0}})
  {
    const auto global = numbered<T>(shape);
    require_clear(on_ranks<TestBackend>(ranks, [&](World& world) {
      const Mesh<S, TestBackend> mesh{world, extents};
      Findings found;
      (check_round_trip<L>(mesh, global, found), ...);
      return found;
    }));
  }
}

TEST_CASE("gather undoes scatter in the layouts of the schemes")
{
  check_layouts<double, Summa2D, Summa2D::Input, RowVector<Summa2D::Output>>(1, {.q = 1});
  check_layouts<double, Summa2D, Summa2D::Input, RowVector<Summa2D::Output>>(
      2, {.rows = 1, .cols = 2});
  check_layouts<double, Summa2D, Summa2D::Input, RowVector<Summa2D::Output>>(
      6, {.rows = 2, .cols = 3});
  check_layouts<double, Summa25D, Summa25D::Input, Summa25D::Weight, RowVector<Summa25D::Output>>(
      12, {.q = 2, .d = 3});
  check_layouts<double, Cube3D, Cube3D::Input, Cube3D::Weight, Cube3D::Output,
                Cube3D::Next::Weight>(8, {.q = 2});
  check_layouts<double, Summa25D, Summa25D::Input, Summa25D::Weight, RowVector<Summa25D::Output>>(
      4, {.q = 1, .d = 4});
}

TEMPLATE_TEST_CASE("gather undoes scatter of other scalars", "", float, std::complex<double>)
{
  check_layouts<TestType, Summa25D, Summa25D::Weight>(12, {.q = 2, .d = 3});
}

using Mesh2 = Mesh<Summa2D, TestBackend>;

TEST_CASE("scatter accepts any xtensor expression")
{
  const auto a = numbered<double>({5, 7}, 1);
  const auto b = numbered<double>({5, 7}, 2);
  const Global<double> sum = a + 2.0 * b;
  const Global<double> turned = xt::transpose(a);
  const Global<double> part = xt::view(a, xt::range(1, 4), xt::range(2, 7));
  const xt::xarray<double> dynamic = a;
  const xt::xtensor<double, 2, xt::layout_type::column_major> by_columns = a;
  require_clear(on_ranks<TestBackend>(4, [&](World& world) {
    const Mesh2 mesh{world, {.q = 2}};
    Findings found;
    const auto same = [&](const char* what, const auto& input, const Global<double>& wanted) {
      auto x = scatter<Summa2D::Input>(mesh, input);
      static_assert(std::is_same_v<typename decltype(x)::Value, double>);
      found.check(is_slice(x, wanted), what);
      mesh.engine().fill(x.valid(), -1.0);
      scatter(input, x);
      found.check(is_slice(x, wanted), what, ", into a matrix");
    };
    same("a sum", a + 2.0 * b, sum);
    same("a transpose", xt::transpose(a), turned);
    same("a block", xt::view(a, xt::range(1, 4), xt::range(2, 7)), part);
    same("an xarray", dynamic, a);
    same("columns", by_columns, a);
    return found;
  }));
}

TEST_CASE("scatter reads rank 0's matrix only")
{
  const auto global = numbered<double>({5, 7});
  require_clear(on_ranks<TestBackend>(4, [&](World& world) {
    const Mesh2 mesh{world, {.q = 2}};
    const xt::xarray<double> mine =
        world.rank() == 0 ? xt::xarray<double>{global} : xt::xarray<double>::from_shape({2, 2, 2});
    Findings found;
    auto x = scatter<Summa2D::Input>(mesh, mine);
    found.check(x.shape() == Shape{5, 7} && is_slice(x, global), "scatter read another one");
    scatter(mine, x);
    found.check(is_slice(x, global), "scatter into read another one");
    found.check(is_slice(scatter_like(x, mine), global), "scatter_like read another one");
    return found;
  }));
}

TEST_CASE("scatter of a matrix on another rank than 0 throws on every rank, and names both")
{
  if (!fits(4)) return;
  const auto global = numbered<double>({5, 7});
  const auto check = [&]<class Tensor>(const Tensor& none) {
    require_clear(on_ranks<TestBackend>(4, [&](World& world) {
      const Mesh2 mesh{world, {.q = 2}};
      const Tensor mine = world.rank() == 2 ? Tensor{global} : none;
      Findings found;
      const auto created =
          message_of<ShapeError>([&] { (void)scatter<Summa2D::Input>(mesh, mine); });
      DistMatrix<double, Summa2D::Input, Mesh2::AxisMesh> x{mesh, {5, 7}};
      const auto set = message_of<ShapeError>([&] { scatter(mine, x); });
      for (const auto& message : {created, set})
        found.check(mentions(message, "got a matrix of (5, 7) on rank 2", "an empty one on rank 0",
                             "pass the matrix on rank 0"),
                    "got '", message, "'");
      return found;
    }));
  };
  check(Global<double>{});
  check(xt::xarray<double>{});  // no dimensions
}

TEST_CASE("scatter into a matrix of another shape throws on every rank, and does not change it")
{
  const auto right = numbered<float>({5, 7});
  const auto wrong = numbered<float>({7, 5});
  require_clear(on_ranks<TestBackend>(4, [&](World& world) {
    const Mesh2 mesh{world, {.q = 2}};
    auto x = scatter<Summa2D::Input>(mesh, right);
    Findings found;
    const auto message = message_of<ShapeError>([&] { scatter(wrong, x); });
    found.check(mentions(message, "(7, 5)", "(5, 7)", "give both the same shape"), "got '", message,
                "'");
    found.check(message == message_of<ShapeError>([&] { (void)scatter_like(x, wrong); }),
                "scatter_like took it");
    found.check(is_slice(x, right), "the target changed");
    found.check(identical(gather(x), world.rank() == 0 ? right : Global<float>::from_shape({0, 0})),
                "the mesh cannot be used any more");
    return found;
  }));
}

TEST_CASE("scatter of a tensor of other than two dimensions throws on every rank")
{
  require_clear(on_ranks<TestBackend>(4, [](World& world) {
    const Mesh2 mesh{world, {.q = 2}};
    DistMatrix<double, Summa2D::Input, Mesh2::AxisMesh> x{mesh, {2, 2}};
    Findings found;
    for (const auto& tensor : {xt::xarray<double>::from_shape({2, 2, 2}),
                               xt::xarray<double>::from_shape({4}), xt::xarray<double>{}})
    {
      const auto dimensions = "tensor of " + std::to_string(tensor.dimension()) + " dimensions";
      const auto created =
          message_of<ShapeError>([&] { (void)scatter<Summa2D::Input>(mesh, tensor); });
      found.check(mentions(created, dimensions, "reshape it to two"), "scatter: '", created, "'");
      const auto set = message_of<ShapeError>([&] { scatter(tensor, x); });
      found.check(mentions(set, dimensions, "reshape it to two"), "scatter into: '", set, "'");
    }
    return found;
  }));
}

TEST_CASE("scatter and gather with idle ranks")
{
  const auto global = numbered<double>({5, 7});
  require_clear(on_ranks<TestBackend>(6, [&](World& world) {
    const Mesh2 mesh{world, {2, 2}, IdleRanks::allowed};
    const auto nothing = Global<double>::from_shape({0, 0});
    Findings found;
    DistMatrix<double, Summa2D::Input, Mesh2::AxisMesh> x{mesh, {5, 7}};
    scatter(global, x);
    found.check(is_slice(x, global), "scatter into");
    found.check(identical(gather(x), world.rank() == 0 ? global : nothing), "gather");
    if (mesh.active())
      found.check(is_slice(scatter<Summa2D::Input>(mesh, global), global), "scatter");
    else
      found.check(
          mentions(message_of<MeshError>([&] { (void)scatter<Summa2D::Input>(mesh, global); }),
                   "check active() first"),
          "scatter gave an idle rank a matrix");
    return found;
  }));
}

TEST_CASE("scatter of an empty xtensor gives an empty matrix")
{
  for (const auto& shape : on_ranks<TestBackend>(4, [](World& world) {
         const auto x = scatter<Summa2D::Input>(Mesh2{world, {.q = 2}}, xt::xtensor<double, 2>{});
         return std::pair{x.rows() + x.cols(), gather(x).size()};
       }))
    CHECK(shape == std::pair{std::size_t{0}, std::size_t{0}});
}

TEST_CASE("scatter into a matrix from a view of itself")
{
  require_clear(on_ranks<TestBackend>(4, [](World& world) {
    const Mesh2 mesh{world, {.q = 2}};
    // Rank 0 passes a view as large as the matrix, of which every rank holds all.
    DistMatrix<double, Layout<Rows<>, Cols<>>, Mesh2::AxisMesh> x{mesh, {3, 4}};
    x.generate([](std::size_t i, std::size_t j) { return static_cast<double>(10 * i + j + 1); });
    scatter(x.local(), x);
    Findings found;
    found.check(x.valid()(2, 3) == 24 && x.valid()(0, 0) == 1, "elements changed");
    return found;
  }));
}

}  // namespace cubist::test::matrix_global_test
