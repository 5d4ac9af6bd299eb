// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/engine/host/engine.hpp"
#include "cubist/nn/dense/dense.hpp"
#include "cubist/nn/dense/linear.hpp"

#include "nn.hpp"

namespace cubist::test::linear_test
{

/// The results of a layer for one X and one dY.
template <class T>
struct Pass
{
  Global<T> y, dx, dw, db;
};

TEST_CASE("a linear layer computes X W + b, and its gradients")
{
  const auto got = on_root<Threads>(one_rank, [](const auto& mesh) {
    Linear<Summa2D, Threads, double> layer{mesh, 2, 1};
    scatter(Global<double>{{3}, {4}}, layer.weight());
    scatter(Global<double>{{7}}, layer.bias());
    const auto x = scatter<Summa2D::Input>(mesh, Global<double>{{1, 2}, {5, 6}});
    const auto dy = scatter<Summa2D::Output>(mesh, Global<double>{{1}, {10}});
    const auto y = layer.forward(x);
    auto dx = x;
    layer.backward(x, dy, dx);
    return Pass<double>{gather(y), gather(dx), gather(layer.weight_gradient()),
                        gather(layer.bias_gradient())};
  });
  CHECK(identical(got.y, Global<double>{{18}, {46}}));
  CHECK(identical(got.dx, Global<double>{{3, 4}, {30, 40}}));
  CHECK(identical(got.dw, Global<double>{{51}, {62}}));
  CHECK(identical(got.db, Global<double>{{11}}));
}

struct Case
{
  std::vector<std::size_t> rows;  // for successive calls
  std::size_t in, out;
  bool bias;
};

const std::vector<Case> cases{{{13, 5, 13}, 7, 11, true},  // uneven, and M changes
                              {{12}, 24, 12, true},        // nothing to pad on most meshes
                              {{3}, 2, 1, true},           // ranks without a row or a column
                              {{10, 9}, 5, 6, false}};

template <class T>
Global<T> input(std::size_t rows, std::size_t in)
{
  return integers<T>(rows, in, 100 + rows);
}
template <class T>
Global<T> output_gradient(std::size_t rows, std::size_t out)
{
  return integers<T>(rows, out, 200 + rows);
}

/// Runs a layer of integers on the mesh, forward and backward, for each number of rows in turn.
template <class T, class S>
std::vector<Pass<T>> passes(const Mesh<S, Threads>& mesh, const Case& c)
{
  using Layer = Linear<S, Threads, T>;
  Layer layer{mesh, c.in, c.out, {.bias = c.bias}};
  scatter(integers<T>(c.in, c.out, 1), layer.weight());
  if (c.bias) scatter(integers<T>(1, c.out, 2), layer.bias());
  std::vector<Pass<T>> all;
  for (const std::size_t rows : c.rows)
  {
    const auto x = scatter<typename S::Input>(mesh, input<T>(rows, c.in));
    const auto dy = scatter<typename S::Output>(mesh, output_gradient<T>(rows, c.out));
    typename Layer::Output y{mesh, {rows, c.out}};
    typename Layer::Input dx{mesh, {rows, c.in}};
    layer.forward(x, y);
    layer.backward(x, dy, dx);
    all.push_back({gather(y), gather(dx), gather(layer.weight_gradient()), {}});
    if (c.bias) all.back().db = gather(layer.bias_gradient());
  }
  return all;
}

/// Checks one scheme; the schemes' own tests have every scalar on every scheme.
template <class T, class S>
void equals_oracle()
{
  for_each_place_of<S>([](const auto& place) {
    for (const auto& c : cases)
    {
      const auto got = on_root(place, [&](const auto& mesh) { return passes<T>(mesh, c); });
      REQUIRE(got.size() == c.rows.size());
      const auto w = integers<T>(c.in, c.out, 1);
      const auto b = integers<T>(1, c.out, 2);
      for (std::size_t i = 0; i < got.size(); ++i)
      {
        const std::size_t rows = c.rows[i];
        CAPTURE(place.name(), rows, c.in, c.out, c.bias);
        const auto x = input<T>(rows, c.in);
        const auto dy = output_gradient<T>(rows, c.out);
        auto y = product(x, w);
        if (c.bias)
          for (std::size_t r = 0; r < rows; ++r)
            for (std::size_t j = 0; j < c.out; ++j) y(r, j) += b(0, j);
        CHECK(difference(got[i].y, y) == 0);
        CHECK(difference(got[i].dx, product(dy, transposed(w))) == 0);
        CHECK(difference(got[i].dw, product(transposed(x), dy)) == 0);
        if (c.bias) CHECK(difference(got[i].db, column_sums(dy)) == 0);
      }
    }
  });
}

TEST_CASE("a layer of float equals the serial oracle") { equals_oracle<float, Summa25D>(); }

TEST_CASE("a layer of double equals the serial oracle")
{
  equals_oracle<double, Summa25D>();
  equals_oracle<double, Cube3D>();
}

TEST_CASE("a layer of complex<float> equals the serial oracle")
{
  equals_oracle<std::complex<float>, Summa25D>();
}

/// The results of a layer with an activation, by one pass over Z or by separate steps.
struct Activated
{
  Global<double> z, y, dz, dx, dw, db;
};

template <class S>
Activated activated(const Place<S>& place, bool bias, bool one_pass)
{
  return on_root(place, [&](const auto& mesh) {
    using Layer = Linear<S, Threads, double>;
    Layer layer{mesh, 7, 45, {.bias = bias, .seed = 3}};
    const auto x = scatter<typename S::Input>(mesh, uniform<double>(13, 7, 1));
    const auto dy = scatter<typename S::Output>(mesh, uniform<double>(13, 45, 2));
    typename Layer::Output z{mesh, {13, 45}};
    auto y = z;
    auto dz = z;
    typename Layer::Input dx{mesh, {13, 7}};
    typename Layer::Kept kept;
    ImmediateSums<double, typename Layer::Mesh> sums;
    if (one_pass)
    {
      const Activation f = gelu;
      layer.forward(x, z, f, y, kept);
      cubist::detail::slopes_and_sums(mesh.engine(), gelu, std::as_const(z).valid(), dy.valid(),
                                      dz.valid(), layer.column_sums().valid());
      layer.backward_from_sums(x, dz, sums, kept, &dx);
    }
    else
    {
      layer.forward(x, z, kept);
      mesh.engine().map(y.valid(), gelu, z.valid());
      mesh.engine().map(dz.valid(), cubist::detail::Slope<Gelu>{}, dy.valid(), z.valid());
      layer.backward(x, dz, sums, kept, &dx);
    }
    Activated a{gather(z), gather(y), gather(dz), gather(dx), gather(layer.weight_gradient()), {}};
    if (bias) a.db = gather(layer.bias_gradient());
    return a;
  });
}

TEST_CASE("with an activation, one pass gives the same bits as separate steps")
{
  for_each_place([](const auto& place) {
    for (const bool bias : {true, false})
    {
      CAPTURE(place.name(), bias);
      const Activated got = activated(place, bias, true);
      const Activated wanted = activated(place, bias, false);
      CHECK(identical(got.z, wanted.z));
      CHECK(identical(got.y, wanted.y));
      CHECK(identical(got.dz, wanted.dz));
      CHECK(identical(got.dx, wanted.dx));
      CHECK(identical(got.dw, wanted.dw));
      CHECK(identical(got.db, wanted.db));
      CHECK(difference(got.y, got.z) > 0.1);
    }
  });
}

/// The initial weights and biases of a layer.
template <class T, class S>
std::pair<Global<T>, Global<T>> drawn(const Place<S>& place, const LinearOptions& options)
{
  return on_root(place, [&](const auto& mesh) {
    Linear<S, Threads, T> layer{mesh, 13, 7, options};
    return std::pair{gather(layer.weight()), gather(layer.bias())};
  });
}

template <class T, class S>
void draws_the_same_everywhere()
{
  const LinearOptions options{.seed = 42, .index = 3};
  const auto wanted = drawn<T>(single_rank, options);
  for_each_place_of<S>([&](const auto& place) {
    CAPTURE(place.name());
    const auto got = drawn<T>(place, options);
    CHECK(identical(got.first, wanted.first));
    CHECK(identical(got.second, wanted.second));
  });
}

TEST_CASE("weights and biases are bit-identical on every scheme and mesh")
{
  draws_the_same_everywhere<double, Summa25D>();
  draws_the_same_everywhere<double, Cube3D>();
  draws_the_same_everywhere<float, Summa25D>();
  draws_the_same_everywhere<std::complex<float>, Summa25D>();
}

TEST_CASE("weights differ between seeds and between layers, and lie in ±1/sqrt(in)")
{
  const auto [w, b] = drawn<double>(single_rank, {.seed = 42, .index = 3});
  const auto seed = drawn<double>(single_rank, {.seed = 43, .index = 3});
  const auto index = drawn<double>(single_rank, {.seed = 42, .index = 4});
  const auto equal = [](const auto& a, const auto& other) {
    std::size_t n = 0;
    for (std::size_t i = 0; i < a.size(); ++i) n += a.data()[i] == other.data()[i] ? 1 : 0;
    return n;
  };
  CHECK(equal(w, seed.first) == 0);
  CHECK(equal(b, seed.second) == 0);
  CHECK(equal(w, index.first) == 0);
  CHECK(equal(b, index.second) == 0);
  CHECK(w(0, 0) != b(0, 0));

  const double bound = 1 / std::sqrt(13.0);
  double least = 0;
  double most = 0;
  for (const double v : w)
  {
    least = std::min(least, v);
    most = std::max(most, v);
  }
  CHECK(least >= -bound);
  CHECK(least < -0.8 * bound);
  CHECK(most < bound);
  CHECK(most > 0.8 * bound);
}

TEST_CASE("weights and biases begin as the options say")
{
  const auto drawn_by = [](const LinearOptions& options) {
    return drawn<double>(single_rank, options);
  };
  const auto [w, b] = drawn_by(
      {.seed = 42, .index = 3, .initial_weights = Normal{.std = 0.5}, .initial_bias = Zeros{}});
  for (std::size_t i = 0; i < w.size(); ++i)
    CHECK(w.data()[i] == stream(42, Draw::weight, 3).normal<double>(i, 0.5));
  for (const double v : b) CHECK(v == 0);
  const auto bias = drawn_by({.seed = 42, .index = 3, .initial_bias = Normal{.std = 0.5}}).second;
  for (std::size_t i = 0; i < bias.size(); ++i)
    CHECK(bias.data()[i] == stream(42, Draw::bias, 3).normal<double>(i, 0.5));
}

TEST_CASE("the padding of weight, bias and their gradients stays zero")
{
  for_each_place([]<class S>(const Place<S>& place) {
    CAPTURE(place.name());
    const auto paddings = on_mesh(place, [](const auto& mesh) {
      Linear<S, Threads, double> layer{mesh, 7, 11, {}};
      const auto x = scatter<typename S::Input>(mesh, uniform<double>(13, 7, 1));
      const auto dy = scatter<typename S::Output>(mesh, uniform<double>(13, 11, 2));
      DistMatrix<double, typename S::Output, AxisMesh<typename S::Axes, Threads>> y{mesh, {13, 11}};
      DistMatrix<double, typename S::Input, AxisMesh<typename S::Axes, Threads>> dx{mesh, {13, 7}};
      layer.forward(x, y);
      layer.backward(x, dy, dx);
      Padding p = padding(y.view());
      p += padding(dx.view());
      p += padding(layer.weight().view());
      p += padding(layer.weight_gradient().view());
      p += padding(layer.bias().view());
      p += padding(layer.bias_gradient().view());
      return p;
    });
    Padding all;
    for (const auto& p : paddings) all += p;
    CHECK(all.count > 0);
    CHECK(all.largest == 0);
  });
}

#if !CUBIST_SANITIZED  // counts of elements do not change under a sanitizer
TEST_CASE("the bias sends the elements of its gradient's sum, and no more")
{
  for_each_place([]<class S>(const Place<S>& place) {
    constexpr std::size_t rows = 24;
    constexpr std::size_t in = 12;
    constexpr std::size_t out = 48;
    const auto words = [&](bool bias) {
      const auto sent = on_mesh<Counting<Threads>>(place, [&](const auto& mesh) {
        Linear<S, Counting<Threads>, double> layer{mesh, in, out, {.bias = bias}};
        const typename decltype(layer)::Input x{mesh, {rows, in}};
        typename decltype(layer)::Input dx{mesh, {rows, in}};
        typename decltype(layer)::Output y{mesh, {rows, out}};
        const typename decltype(layer)::Output dy{mesh, {rows, out}};
        layer.forward(x, y);
        layer.backward(x, dy, dx);
        return mesh.world().traffic().total().elements;
      });
      std::uint64_t all = 0;
      for (const auto n : sent) all += n;
      return all;
    };
    // The p ranks that cut the rows of Y hold parts of db, and each sends 2 (p-1)/p N' elements.
    const auto found = on_root(place, [](const auto& mesh) {
      const DistMatrix<double, typename S::Output, AxisMesh<typename S::Axes, Threads>> y{
          mesh, {rows, out}};
      return std::pair{rows / y.block().rows.size, y.block().cols.size};
    });
    const auto [parts, cols] = found;
    CAPTURE(place.name(), parts, cols);
    const std::uint64_t groups = static_cast<std::uint64_t>(place.ranks) / parts;
    CHECK(words(true) - words(false) == groups * 2 * (parts - 1) * cols);
  });
}
#endif

TEST_CASE("a layer without features is refused")
{
  const auto make = [](std::size_t in, std::size_t out) {
    return message_of<ShapeError>([&] {
      on_mesh(single_rank, [&](const auto& mesh) {
        return Linear<Summa25D, Threads, double>{mesh, in, out}.in();
      });
    });
  };
  CHECK(mentions(make(0, 5), "from 0 to 5", "give it at least one"));
  CHECK(mentions(make(5, 0), "from 5 to 0", "give it at least one"));
  CHECK(make(5, 1) == "");
}

TEST_CASE("matrices of other sizes, or on another mesh, are refused")
{
  if (!fits(single_layer)) return;
  using Layer = Linear<Summa25D, Threads, double>;
  using Matrix = Layer::Input;
  const auto forward = [](Shape x, Shape y) {
    on_mesh(single_layer, [&](const auto& mesh) {
      Layer layer{mesh, 7, 5};
      Matrix result{mesh, y};
      layer.forward(Matrix{mesh, x}, result);
      return 0;
    });
  };
  CHECK_NOTHROW(forward({3, 7}, {3, 5}));
  CHECK(mentions(message_of<ShapeError>([&] { forward({3, 8}, {3, 5}); }), "X is (3, 8)"));
  CHECK(mentions(message_of<ShapeError>([&] { forward({3, 7}, {3, 6}); }), "Y is (3, 6)"));
  CHECK(mentions(message_of<ShapeError>([&] { forward({3, 7}, {4, 5}); }), "Y is (4, 5)"));

  const auto backward = [](Shape dy) {
    on_mesh(single_layer, [&](const auto& mesh) {
      Layer layer{mesh, 7, 5};
      const Matrix x{mesh, {3, 7}};
      Matrix dx{mesh, {3, 7}};
      (void)layer.forward(x);
      layer.backward(x, Matrix{mesh, dy}, dx);
      return 0;
    });
  };
  CHECK_NOTHROW(backward({3, 5}));
  for (const Shape dy : {Shape{3, 6}, Shape{3, 4}, Shape{4, 5}})
    CHECK(mentions(message_of<ShapeError>([&] { backward(dy); }),
                   "got dY of (" + std::to_string(dy.rows) + ", " + std::to_string(dy.cols) +
                       ") for a Y of (3, 5)",
                   "make it like Y"));

  const auto elsewhere = [] {
    on_mesh(single_layer, [](const auto& mesh) {
      const Mesh<Summa25D, Threads> other{mesh.world(), {.q = 2}};
      Layer layer{mesh, 7, 5};
      Matrix y{mesh, {3, 5}};
      layer.forward(Matrix{other, {3, 7}}, y);
      return 0;
    });
  };
  CHECK(mentions(message_of<MeshError>(elsewhere), "make it on the product's mesh"));
}

/// An engine that counts how many times it is asked for an affine map in one pass.
struct FusingEngine : HostEngine
{
  static inline thread_local int fused = 0;

  template <class T, class... More>
  bool fused_affine(MatrixView<const T>, MatrixView<const T>, const More&...) const
  {
    ++fused;
    return false;
  }
};

struct Fusing
{
  using Communicator = Threads::Communicator;
  using Engine = FusingEngine;
};

/// How many times `forward`, with and without an activation, asked a rank's engine, and the
/// results.
template <class S>
std::pair<int, Findings> asked_to_fuse(Threads::Communicator& world,
                                       const typename S::Extents& extents)
{
  const Mesh<S, Fusing> mesh{world, extents};
  Linear<S, Fusing, double> layer{mesh, 7, 11, {}};
  const auto x = scatter<typename S::Input>(mesh, integers<double>(13, 7, 1));
  typename Linear<S, Fusing, double>::Output z{mesh, {13, 11}};
  auto y = z;
  auto plain = z;
  FusingEngine::fused = 0;
  typename decltype(layer)::Kept kept;
  const Activation f = relu;
  layer.forward(x, z, f, y, kept);
  layer.forward(x, plain);
  Findings found;
  found.check(identical(gather(z), gather(plain)), "Z with and without an activation");
  const typename decltype(layer)::Input other{mesh, {13, 8}};
  const auto message = message_of<ShapeError>([&] { layer.forward(other, plain); });
  found.check(mentions(message, "X is (13, 8)"), message);
  return {FusingEngine::fused, found};
}

TEST_CASE("where products are local, the engine may do all of a layer in one pass")
{
  const auto expect = [](int ranks, int times, auto run) {
    require_clear(on_ranks<Threads>(ranks, [&](auto& world) {
      auto [asked, found] = run(world);
      found.check(asked == times, "asked ", asked, " times");
      return found;
    }));
  };
  using Column = Megatron1D;
  expect(1, 2, [](auto& world) { return asked_to_fuse<Summa25D>(world, {.q = 1}); });
  expect(4, 2, [](auto& world) { return asked_to_fuse<Column>(world, {.p = 4}); });
  expect(4, 0, [](auto& world) { return asked_to_fuse<Column::Next>(world, {.p = 4}); });
  expect(4, 0, [](auto& world) { return asked_to_fuse<Summa25D>(world, {.q = 2}); });
}

}  // namespace cubist::test::linear_test
