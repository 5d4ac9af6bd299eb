// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/matrix/dist_matrix.hpp"
#include "cubist/matrix/global.hpp"
#include "cubist/matrix/redistribute.hpp"

#include "ranks.hpp"

namespace cubist::test::matrix_dist_matrix_test
{

using World = TestBackend::Communicator;
using TestMesh = AxisMesh<Axes<Depth, Row, Col>, TestBackend>;
using Blocks = Layout<Rows<Row>, Cols<Col>>;

template <class T>
using Matrix = DistMatrix<T, Blocks, TestMesh>;

/// Element (i, j) of a global matrix.
static double element(std::size_t i, std::size_t j)
{
  return static_cast<double>(1000 * i + j + 1);
}

constexpr Shape shape{5, 7};

TEST_CASE("DistMatrix: a new matrix is zero, with its padding, and has the block of its layout")
{
  require_clear(on_ranks<TestBackend>(8, [](World& world) {
    const TestMesh mesh{world, {2, 2, 2}, 4};
    const Matrix<std::complex<float>> m{mesh, shape};
    Findings found;
    found.check(m.shape() == shape && m.rows() == 5 && m.cols() == 7, "global shape");
    found.check(m.mesh() == mesh, "mesh");
    found.check(m.block() == Blocks::block<TestMesh::Axes>(shape, {2, 2, 2}, mesh.coordinates(), 4),
                "block");
    found.check(m.padded().shape() == Shape{4, 4}, "padded shape ", m.padded().shape());
    found.check(m.valid().shape() == m.block().valid(), "valid shape");
    found.check(m.valid().data() == m.padded().data() && m.valid().ld() == 4, "valid is a view");
    const auto all = m.padded().elements();
    found.check(std::all_of(all.begin(), all.end(), [](auto x) { return x == 0.0F; }), "not zero");
    return found;
  }));
}

TEST_CASE(
    "DistMatrix: a matrix padded to larger quanta has whole groups of rows and columns on a rank")
{
  require_clear(on_ranks<TestBackend>(8, [](World& world) {
    const TestMesh mesh{world, {2, 2, 2}, 4};
    Matrix<double> m{mesh, {15, 14}, {12, 28}};
    m.generate([](std::size_t i, std::size_t j) { return static_cast<double>(100 * i + j); });
    Findings found;
    found.check(m.quanta() == Quanta{12, 28} && m.view().quanta == m.quanta(), "quanta");
    found.check(m.block().rows.offset % 3 == 0 && m.block().cols.offset % 7 == 0, "first element");
    found.check(m.block() == m.view().block(mesh.rank()), "the view's block");
    const auto global = gather(m);
    for (std::size_t i = 0; i < global.size(); ++i)
      found.check(global.data()[i] == static_cast<double>(100 * (i / 14) + i % 14), "element ", i);
    auto copy = scatter_like(m, global);
    found.check(copy.quanta() == m.quanta(), "scatter_like");
    const auto standard = redistribute<Blocks>(m, mesh);
    found.check(standard.quanta() == Quanta{4}, "redistributed");
    redistribute(standard, copy);
    found.check(std::equal(copy.padded().elements().begin(), copy.padded().elements().end(),
                           m.padded().elements().begin()),
                "there and back");
    const auto message = message_of<MeshError>([&] {
      Matrix<double> wrong{mesh, {15, 14}, {6, 4}};
    });
    found.check(mentions(message, "multiples of 6 rows and 4 columns", "quantum of 4"), message);
    return found;
  }));
}

TEST_CASE("DistMatrix: generate sets elements by global index, and not the padding")
{
  require_clear(on_ranks<TestBackend>(8, [](World& world) {
    const TestMesh mesh{world, {2, 2, 2}, 4};
    Matrix<double> m{mesh, shape};
    m.generate(element);
    Findings found;
    const Block& b = m.block();
    for (std::size_t i = 0; i < b.rows.size; ++i)
      for (std::size_t j = 0; j < b.cols.size; ++j)
      {
        const bool valid = i < b.rows.valid && j < b.cols.valid;
        const double wanted = valid ? element(b.rows.offset + i, b.cols.offset + j) : 0;
        found.check(m.padded()(i, j) == wanted, "(", i, ", ", j, ") is ", m.padded()(i, j));
      }
    return found;
  }));
}

TEST_CASE("DistMatrix: local() is this rank's shard as an xtensor view")
{
  require_clear(on_ranks<TestBackend>(8, [](World& world) {
    const TestMesh mesh{world, {2, 2, 2}, 4};
    Matrix<double> m{mesh, shape};
    m.generate(element);
    const Matrix<double>& constant = m;
    Findings found;
    const Shape valid = m.block().valid();
    found.check(m.local().dimension() == 2 && m.local().shape()[0] == valid.rows &&
                    m.local().shape()[1] == valid.cols,
                "shape");
    auto local = m.local();
    for (std::size_t i = 0; i < valid.rows; ++i)
      for (std::size_t j = 0; j < valid.cols; ++j)
      {
        found.check(constant.local()(i, j) == m.valid()(i, j), "reads something else");
        local(i, j) += 0.5;
        found.check(&local(i, j) == &m.valid()(i, j), "views something else");
      }
    using Element = std::remove_reference_t<decltype(constant.local()(0, 0))>;
    static_assert(std::is_const_v<Element>);
    return found;
  }));
}

TEST_CASE("DistMatrix: a copy has its own memory, on the same mesh")
{
  require_clear(on_ranks<TestBackend>(4, [](World& world) {
    const TestMesh mesh{world, {1, 2, 2}, 2};
    Matrix<double> m{mesh, shape};
    m.generate(element);
    auto copy = m;
    copy.padded()(0, 0) = -1;
    Findings found;
    found.check(copy.mesh() == m.mesh() && copy.block() == m.block(), "mesh or block");
    found.check(m.padded()(0, 0) == element(m.block().rows.offset, m.block().cols.offset),
                "writing to the copy changed the original");
    return found;
  }));
}

TEST_CASE("DistMatrix: zeros are cut as another matrix is, with its padding")
{
  require_clear(on_ranks<TestBackend>(4, [](World& world) {
    const TestMesh mesh{world, {1, 2, 2}, 4};
    Matrix<float> m{mesh, shape, {12, 4}};
    m.generate([](std::size_t, std::size_t) { return 1.0F; });
    const auto zeros = zeros_like(m);
    Findings found;
    found.check(zeros.shape() == shape && zeros.quanta() == m.quanta() && zeros.mesh() == mesh,
                "shape, quanta or mesh");
    const auto all = zeros.padded().elements();
    found.check(all.size() == m.padded().size() && all.data() != m.padded().data(), "memory");
    found.check(std::all_of(all.begin(), all.end(), [](float x) { return x == 0; }), "not zero");
    return found;
  }));
}

TEST_CASE("DistView: refers to the block, and gives the block of each rank")
{
  require_clear(on_ranks<TestBackend>(8, [](World& world) {
    const TestMesh mesh{world, {2, 2, 2}, 4};
    Matrix<double> m{mesh, shape};
    const DistView<double, TestMesh> view = m.view();
    const DistView<const double, TestMesh> constant = std::as_const(m).view();
    Findings found;
    found.check(view.shape == shape && view.mesh == mesh, "shape or mesh");
    found.check(view.padded.data() == m.padded().data(), "the block is another one");
    found.check(constant.padded.data() == m.padded().data(), "the constant block is another one");
    found.check(view.valid().shape() == m.valid().shape(), "valid shape");
    for (int r = 0; r < 8; ++r)
    {
      found.check(view.block(r) ==
                      Blocks::block<TestMesh::Axes>(shape, {2, 2, 2}, mesh.coordinates(r), 4),
                  "block of rank ", r);
      found.check(view.is_primary(r) == (r < 4), "primary of rank ", r);
    }
    return found;
  }));
}

TEST_CASE("DistMatrix: a matrix may have no rows or columns")
{
  require_clear(on_ranks<TestBackend>(4, [](World& world) {
    const TestMesh mesh{world, {1, 2, 2}, 2};
    Findings found;
    for (const Shape empty : {Shape{0, 0}, Shape{0, 7}, Shape{5, 0}})
    {
      Matrix<float> m{mesh, empty};
      m.generate([](std::size_t, std::size_t) { return 1.0F; });
      found.check(m.valid().size() == 0 && m.shape() == empty, empty);
    }
    return found;
  }));
}

TEST_CASE("DistMatrix: on an idle rank the block is empty")
{
  require_clear(on_ranks<TestBackend>(6, [](World& world) {
    const TestMesh mesh{world, {1, 2, 2}, 4, IdleRanks::allowed};
    Matrix<double> m{mesh, shape};
    m.generate(element);
    Findings found;
    found.check(m.shape() == shape && m.view().shape == shape, "shape");
    for (const int idle : {4, 5})
      found.check(m.view().block(idle) == Block{} && !m.view().is_primary(idle), "rank ", idle);
    found.check((m.padded().size() == 0) == !mesh.active(), "padded block");
    found.check(m.valid().shape() == m.view().block(mesh.rank()).valid(), "valid block");
    found.check(m.view().valid().shape() == m.valid().shape(), "valid block of the view");
    found.check(m.local().size() == m.valid().size(), "local");
    return found;
  }));
}

TEST_CASE("DistMatrix: a size in bytes over 64 bits is an error")
{
  for (const auto& m : on_ranks<TestBackend>(4, [](World& world) {
         const TestMesh mesh{world, {1, 2, 2}, 2};
         constexpr std::size_t large = std::size_t{1} << 33;
         return message_of<ShapeError>([&] { Matrix<float>{mesh, {large, large}}; });
       }))
    CHECK(mentions(m, "(8589934592, 8589934592)", "4 bytes per element", "64 bits"));
}

TEST_CASE(
    "DistMatrix: launch throws what the function of generate throws, and the next launch works")
{
  if (!fits(4)) return;
  const auto corners = [](bool fails) {
    return on_ranks<TestBackend>(4, [fails](World& world) {
      Matrix<double> m{TestMesh{world, {1, 2, 2}, 2}, shape};
      m.generate([fails](std::size_t i, std::size_t j) {
        if (fails && i == 4) throw ArgumentError{"got row 4"};
        return element(i, j);
      });
      world.barrier();
      return m.valid()(0, 0);
    });
  };
  CHECK(mentions(message_of<Error>([&] { (void)corners(true); }), "got row 4"));
  CHECK(corners(false)[0] == element(0, 0));
}

TEST_CASE("DistMatrix: after its launch a matrix can be read, but its communicators throw")
{
  if (on_processes<TestBackend>) SKIP_TEST("communicators of processes outlive a launch");
  std::vector<std::optional<Matrix<double>>> kept(4);
  launch<TestBackend>({.ranks = 4}, [&](World& world) {
    auto& m = kept[static_cast<std::size_t>(world.rank())];
    m.emplace(TestMesh{world, {1, 2, 2}, 2}, shape);
    m->generate(element);
  });
  CHECK(kept[3]->valid()(0, 0) ==
        element(kept[3]->block().rows.offset, kept[3]->block().cols.offset));
  CHECK_THROWS_AS(kept[0]->mesh().world().barrier(), CommunicationError);
  CHECK_THROWS_AS(kept[3]->mesh().along<Row>().barrier(), CommunicationError);
}

}  // namespace cubist::test::matrix_dist_matrix_test
