// SPDX-License-Identifier: BSD-3-Clause
#include <variant>

#include "cubist/matrix/global.hpp"
#include "cubist/matrix/redistribute.hpp"
#include "cubist/scheme/cube3d.hpp"
#include "cubist/scheme/summa25d.hpp"
#include "cubist/scheme/summa2d.hpp"

#include "matrices.hpp"
#include "ranks.hpp"

namespace cubist::test::matrix_redistribute_test
{

using B = Counting<TestBackend>;
using World = B::Communicator;
using Grid = Axes<Row, Col>;
using Layers = Axes<Depth, Row, Col>;
using Cube = Axes<AxisX, AxisY, AxisZ>;

template <class A>
using On = AxisMesh<A, B>;
template <class A>
using View = DistView<double, On<A>>;

/// Element (i, j) of a global matrix.
static double element(std::size_t i, std::size_t j)
{
  return static_cast<double>(1000 * i + j + 1);
}

TEST_CASE("redistribute to the same layout on an equal mesh sends nothing")
{
  require_clear(on_ranks<B>(8, [](World& world) {
    Findings found;
    for (const Layers::Array extents : {Layers::Array{2, 2, 2}, {3, 1, 2}})
    {
      const On<Layers> mesh{world, extents, 12, IdleRanks::allowed};
      const On<Layers> other{world, extents, 12, IdleRanks::allowed};
      DistMatrix<double, Layout<Rows<Row>, Cols<Col>>, On<Layers>> x{mesh, {7, 11}};
      x.generate(element);
      world.traffic().reset();
      const auto y = redistribute<Layout<Rows<Row>, Cols<Col>>>(x, other);
      found.check(world.traffic().total() == Sent{}, "something was sent");
      const auto a = x.padded().elements();
      const auto b = y.padded().elements();
      found.check(y.mesh() == other && std::equal(a.begin(), a.end(), b.begin(), b.end()),
                  "differs");
    }
    return found;
  }));
}

// -- Matrices of any layout on any mesh -----------------------------------------------------------

/// A matrix whose layout and axes are only known at run time.
struct AnyMatrix
{
  std::string name;
  std::shared_ptr<void> matrix;
  std::variant<View<Grid>, View<Layers>, View<Cube>> view;
};

template <class L, class A>
AnyMatrix matrix(const On<A>& mesh, Shape shape)
{
  const auto m = std::make_shared<DistMatrix<double, L, On<A>>>(mesh, shape);
  return {L::to_string() + " on " + A::to_string(mesh.extents()), m, m->view()};
}

/// Random integers.
class Random
{
 public:
  explicit Random(std::uint64_t seed)
      : seed_{seed}
  {
  }
  /// The next integer in [0, n).
  std::size_t operator()(std::size_t n) { return hash(seed_, 0, rolls_++) % n; }

 private:
  std::uint64_t seed_;
  std::uint64_t rolls_ = 0;
};

/// A mesh with random extents, on no more ranks than the world has, and with a random quantum.
template <class A>
On<A> any_mesh(const World& world, Random& random)
{
  typename A::Array extents;
  int free_ranks = world.size();
  for (int& e : extents)
  {
    e = 1 + static_cast<int>(random(static_cast<std::size_t>(free_ranks)));
    free_ranks /= e;
  }
  std::rotate(extents.begin(), extents.begin() + static_cast<std::ptrdiff_t>(random(A::count)),
              extents.end());
  return {world, extents, 1 + random(12), IdleRanks::allowed};
}

template <class A, class... L>
AnyMatrix any_layout(const World& world, Shape shape, Random& random)
{
  const auto mesh = any_mesh<A>(world, random);
  constexpr std::array makers{&matrix<L, A>...};
  return makers[random(makers.size())](mesh, shape);
}

static AnyMatrix any_matrix(const World& world, Shape shape, Random& random)
{
  switch (random(3))
  {
  case 0:
    return any_layout<Grid, Layout<Rows<Row>, Cols<Col>>, Layout<Rows<Col>, Cols<Row>>,
                      Layout<Rows<>, Cols<Row, Col>>, Layout<Rows<>, Cols<Col>>,
                      Layout<Rows<>, Cols<>>>(world, shape, random);
  case 1:
    return any_layout<Layers, Layout<Rows<Depth, Row>, Cols<Col>>, Layout<Rows<Row>, Cols<Col>>,
                      Layout<Rows<Row, Col, Depth>, Cols<>>, Layout<Rows<>, Cols<Depth>>>(
        world, shape, random);
  default:
    return any_layout<Cube, Layout<Rows<AxisZ, AxisY>, Cols<AxisX>>,
                      Layout<Rows<AxisX, AxisZ>, Cols<AxisY>>,
                      Layout<Rows<AxisY>, Cols<AxisZ, AxisX>>, Layout<Rows<AxisZ>, Cols<>>>(
        world, shape, random);
  }
}

static void move(const AnyMatrix& from, const AnyMatrix& to)
{
  std::visit([](const auto& f, const auto& t) { redistribute(f, t); }, from.view, to.view);
}

// -- Properties -----------------------------------------------------------------------------------

template <class V>
bool holds(const V& view, int rank, std::size_t i, std::size_t j)
{
  const Block b = view.block(rank);
  return i >= b.rows.offset && i < b.rows.offset + b.rows.valid && j >= b.cols.offset &&
         j < b.cols.offset + b.cols.valid;
}
static bool holds(const AnyMatrix& m, int rank, std::size_t i, std::size_t j)
{
  return std::visit([&](const auto& view) { return holds(view, rank, i, j); }, m.view);
}

/// The number of elements that a rank holds in `to` but not in `from`.
static std::uint64_t missing(const AnyMatrix& from, const AnyMatrix& to, Shape shape, int rank)
{
  std::uint64_t n = 0;
  for (std::size_t i = 0; i < shape.rows; ++i)
    for (std::size_t j = 0; j < shape.cols; ++j)
      n += holds(to, rank, i, j) && !holds(from, rank, i, j) ? 1U : 0U;
  return n;
}

/// Sets this rank's block to f(i, j), without its padding.
template <class F>
void fill(const AnyMatrix& m, F f)
{
  std::visit(
      [&](const auto& view) {
        const Block b = view.block(view.mesh.rank());
        for (std::size_t i = 0; i < b.rows.valid; ++i)
          for (std::size_t j = 0; j < b.cols.valid; ++j)
            view.padded(i, j) = f(b.rows.offset + i, b.cols.offset + j);
      },
      m.view);
}

/// Whether this rank's block has the right elements, and zeros as padding.
static bool is_right(const AnyMatrix& m)
{
  return std::visit(
      [](const auto& view) {
        const Block b = view.block(view.mesh.rank());
        bool right = view.padded.shape() == b.padded();
        for (std::size_t i = 0; i < b.rows.size; ++i)
          for (std::size_t j = 0; j < b.cols.size; ++j)
          {
            const bool valid = i < b.rows.valid && j < b.cols.valid;
            right = right && view.padded(i, j) ==
                                 (valid ? element(b.rows.offset + i, b.cols.offset + j) : 0);
          }
        return right;
      },
      m.view);
}

/// The number of elements that one rank sent in a redistribution, and that it had to receive.
struct ElementCounts
{
  std::uint64_t sent = 0;
  std::uint64_t missing = 0;
};

constexpr std::array sizes{0, 1, 1, 2, 3, 5, 7, 12, 13, 24, 31};

TEST_CASE("redistribute: each rank receives each element that it needs and does not hold, once")
{
  constexpr int cases = 30;
  for (const int ranks : those_that_fit<B>(std::array{1, 2, 3, 4, 6, 8, 12}))
  {
    const auto results = on_ranks<B>(ranks, [](World& world) {
      Findings found;
      std::vector<ElementCounts> counts;
      for (std::uint64_t seed = 0; seed < cases; ++seed)
      {
        Random random{100 * seed + static_cast<std::uint64_t>(world.size())};
        const Shape shape{static_cast<std::size_t>(sizes[random(sizes.size())]),
                          static_cast<std::size_t>(sizes[random(sizes.size())])};
        const AnyMatrix a = any_matrix(world, shape, random);
        const AnyMatrix b = any_matrix(world, shape, random);
        std::ostringstream name;
        name << shape << " from " << a.name << " to " << b.name << ", rank " << world.rank();
        const auto redistribute_and_check = [&](const AnyMatrix& from, const AnyMatrix& to,
                                                const char* what) {
          fill(to, [](std::size_t, std::size_t) { return -1.0; });
          world.traffic().reset();
          move(from, to);
          counts.push_back(
              {world.traffic().total().elements, missing(from, to, shape, world.rank())});
          found.check(is_right(to), what, " of ", name.str());
        };
        fill(a, element);
        redistribute_and_check(a, b, "there");
        found.check(is_right(a), "the source of ", name.str());
        fill(a, [](std::size_t, std::size_t) { return -1.0; });
        redistribute_and_check(b, a, "back");
      }
      return std::tuple{found, counts};
    });

    std::vector<Findings> found;
    std::vector<ElementCounts> sums(2 * cases);
    for (const auto& [findings, counts] : results)
    {
      found.push_back(findings);
      REQUIRE(counts.size() == sums.size());
      for (std::size_t i = 0; i < sums.size(); ++i)
      {
        sums[i].sent += counts[i].sent;
        sums[i].missing += counts[i].missing;
      }
    }
    require_clear(found);
    std::uint64_t total = 0;
    for (std::size_t i = 0; i < sums.size(); ++i)
    {
      CAPTURE(ranks, i);
      CHECK(sums[i].sent == sums[i].missing);
      total += sums[i].sent;
    }
    CHECK((ranks == 1 || total > 1000));
  }
}

TEST_CASE("From a replicated layout to a part of it nothing is sent")
{
  require_clear(on_ranks<B>(6, [](World& world) {
    const On<Grid> mesh{world, {2, 3}, 6};
    DistMatrix<double, Layout<Rows<>, Cols<>>, On<Grid>> x{mesh, {7, 11}};
    x.generate(element);
    world.traffic().reset();
    const auto y = redistribute<Layout<Rows<Row>, Cols<Col>>>(x, mesh);
    Findings found;
    found.check(world.traffic().total() == Sent{}, "something was sent");
    const Block& b = y.block();
    for (std::size_t i = 0; i < b.rows.valid; ++i)
      for (std::size_t j = 0; j < b.cols.valid; ++j)
        found.check(y.valid()(i, j) == element(b.rows.offset + i, b.cols.offset + j), "element");
    return found;
  }));
}

TEST_CASE("redistribute: replicas share the sending")
{
  if (!fits<B>(8)) return;
  const auto sent = on_ranks<B>(8, [](World& world) {
    // Ranks 0 to 3 hold everything; 4 to 7 need a row each.
    const On<Layers> four{world, {4, 1, 1}, 4, IdleRanks::allowed};
    const On<Layers> eight{world, {8, 1, 1}, 8};
    const DistMatrix<double, Layout<Rows<>, Cols<>>, On<Layers>> x{four, {8, 5}};
    world.traffic().reset();
    (void)redistribute<Layout<Rows<Depth>, Cols<>>>(x, eight);
    return world.traffic().total();
  });
  for (std::size_t r = 0; r < 8; ++r) CHECK(sent[r] == (r < 4 ? Sent{1, 5} : Sent{}));
}

TEMPLATE_TEST_CASE("redistribute between schemes' meshes with other numbers of ranks", "", float,
                   std::complex<double>)
{
  using T = TestType;
  const auto values = random_matrix<T, Fractions>({37, 23}, 1);
  const auto results = on_ranks<B>(8, [&](World& world) {
    const Mesh<Cube3D, B> cube{world};
    const Mesh<Summa25D, B> layers{world, {.q = 2, .d = 2}};
    const Mesh<Summa2D, B> grid{world, {2, 3}, IdleRanks::allowed};
    DistMatrix<T, Cube3D::Output, On<Cube>> x{cube, values.shape};
    x.generate([&](std::size_t i, std::size_t j) { return values(i, j); });
    const auto weight = redistribute<Summa25D::Weight>(x, layers);
    auto block = redistribute<Summa2D::Input>(weight, grid);
    DistMatrix<T, Cube3D::Next::Weight, On<Cube>> y{cube, values.shape};
    redistribute(block, y);
    redistribute(std::as_const(y).view(), block.view());
    // Gathered on the mesh that leaves ranks 6 and 7 idle.
    const auto global = gather(block);
    if (world.rank() != 0) return global.size() == 0;
    return std::equal(values.data.begin(), values.data.end(), global.begin(), global.end());
  });
  for (const bool right : results) CHECK(right);
}

TEST_CASE("redistribute to another shape throws on every rank")
{
  for (const auto& m : on_ranks<B>(4, [](World& world) {
         const Mesh<Summa2D, B> mesh{world, {.q = 2}};
         const DistMatrix<double, Summa2D::Input, On<Grid>> x{mesh, {5, 7}};
         DistMatrix<double, Summa2D::Input, On<Grid>> y{mesh, {7, 5}};
         return message_of<ShapeError>([&] { redistribute(x, y); });
       }))
    CHECK(mentions(m, "(5, 7)", "(7, 5)", "give both the same shape"));
}

TEST_CASE("redistribute between meshes on different communicators throws on every rank")
{
  if (!fits<B>(4)) return;
  const auto messages = on_ranks<B>(4, [](World& world) {
    World half = world.split(world.rank() / 2, world.rank());
    World turned = world.split(0, -world.rank());
    const Mesh<Summa2D, B> all{world, {.q = 2}};
    const Mesh<Summa2D, B> two{half, {.rows = 1, .cols = 2}};
    const Mesh<Summa2D, B> back{turned, {.q = 2}};
    const DistMatrix<double, Summa2D::Input, On<Grid>> x{all, {5, 7}};
    return message_of<MeshError>([&] { (void)redistribute<Summa2D::Input>(x, two); }) +
           message_of<MeshError>([&] { (void)redistribute<Summa2D::Input>(x, back); });
  });
  for (const auto& m : messages)
    CHECK(mentions(m, "of 4 for one", "of 2, so messages", "on the same communicator"));
  CHECK(mentions(messages[0], "created as rank 0 of 4 for one on a mesh created as rank 3 of 4"));
}

TEST_CASE("redistribute of a matrix to itself does not change it")
{
  for (const bool same : on_ranks<B>(4, [](World& world) {
         const Mesh<Summa2D, B> mesh{world, {.q = 2}};
         DistMatrix<double, Summa2D::Input, On<Grid>> x{mesh, {5, 7}};
         x.generate([](std::size_t i, std::size_t j) { return static_cast<double>(10 * i + j); });
         const auto before = x;
         redistribute(x, x);
         const auto a = before.valid();
         const auto b = x.valid();
         bool equal = true;
         for (std::size_t i = 0; i < a.rows(); ++i)
           for (std::size_t j = 0; j < a.cols(); ++j) equal = equal && a(i, j) == b(i, j);
         return equal;
       }))
    CHECK(same);
}

}  // namespace cubist::test::matrix_redistribute_test
