// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/nn/dropout.hpp"

#include "nn.hpp"

namespace cubist::test::dropout_test
{

/// Applies dropout to a matrix of ones with layout L.
template <class L, class T = double, class S>
Global<T> mask(const Place<S>& place, Shape shape, const Dropout& dropout, std::uint64_t step)
{
  return on_root(place, [&](const auto& mesh) {
    DistMatrix<T, L, AxisMesh<typename S::Axes, Threads>> x{mesh, shape};
    x.generate([](std::size_t, std::size_t) { return T{1}; });
    dropout.apply(x, step);
    return gather(x);
  });
}
static Global<double> mask(const Dropout& dropout, std::uint64_t step)
{
  return mask<Summa25D::Input>(single_rank, {13, 11}, dropout, step);
}

static double share_of_zeros(const Global<double>& x)
{
  std::size_t zeros = 0;
  for (const double v : x) zeros += v == 0 ? 1 : 0;
  return static_cast<double>(zeros) / static_cast<double>(x.size());
}

TEST_CASE("without probability nothing is dropped")
{
  const auto x = mask(Dropout{0}, 1);
  CHECK(share_of_zeros(x) == 0);
  for (const double v : x) CHECK(v == 1);
}

TEST_CASE("masks are bit-identical on every scheme and mesh")
{
  const Dropout dropout{0.3, 42, 5};
  const auto wanted = mask(dropout, 7);
  const auto wanted_float = mask<Summa25D::Input, float>(single_rank, {13, 11}, dropout, 7);
  for_each_place([&]<class S>(const Place<S>& place) {
    CAPTURE(place.name());
    CHECK(identical(mask<typename S::Input>(place, {13, 11}, dropout, 7), wanted));
    CHECK(identical(mask<typename S::Output>(place, {13, 11}, dropout, 7), wanted));
    CHECK(identical(mask<typename S::Output, float>(place, {13, 11}, dropout, 7), wanted_float));
  });
}

TEST_CASE("another seed, layer or step makes another mask")
{
  const auto wanted = mask(Dropout{0.5, 42, 5}, 7);
  CHECK(identical(mask(Dropout{0.5, 42, 5}, 7), wanted));
  CHECK_FALSE(identical(mask(Dropout{0.5, 43, 5}, 7), wanted));
  CHECK_FALSE(identical(mask(Dropout{0.5, 42, 6}, 7), wanted));
  CHECK_FALSE(identical(mask(Dropout{0.5, 42, 5}, 8), wanted));
}

TEST_CASE("an element is dropped with probability p, and scaled by 1/(1-p) otherwise")
{
  if (!fits(single_layer)) return;
  for (const double p : {0.1, 0.5, 0.9})
  {
    constexpr std::size_t n = 200;
    const auto x = mask<Summa25D::Input>(single_layer, {n, n}, Dropout{p, 1}, 1);
    const double deviation = std::sqrt(p * (1 - p)) / n;
    CAPTURE(p);
    CHECK(share_of_zeros(x) == Approx(p).epsilon(0).margin(5 * deviation));
    double sum = 0;
    bool scaled = true;
    for (const double v : x)
    {
      sum += v;
      scaled = scaled && (v == 0 || v == 1 / (1 - p));
    }
    CHECK(scaled);
    CHECK(sum / (n * n) == Approx(1).epsilon(0).margin(5 * deviation / (1 - p)));
  }
}

TEST_CASE("forward and backward apply the same mask")
{
  const auto values = uniform<double>(13, 11, 1);
  const auto gradients = uniform<double>(13, 11, 2);
  const Dropout dropout{0.4, 3, 1};
  for_each_place([&]<class S>(const Place<S>& place) {
    const auto [y, dx] = on_root(place, [&](const auto& mesh) {
      auto forward = scatter<typename S::Output>(mesh, values);
      dropout.apply(forward, 9);
      auto backward = scatter<typename S::Output>(mesh, gradients);
      dropout.apply(backward, 9);
      return std::pair{gather(forward), gather(backward)};
    });
    CAPTURE(place.name());
    CHECK(share_of_zeros(y) > 0.2);
    for (std::size_t i = 0; i < y.size(); ++i)
    {
      const double kept = y.data()[i] == 0 ? 0 : 1 / (1 - 0.4);
      CHECK(dx.data()[i] == gradients.data()[i] * kept);
    }
  });
}

TEST_CASE("the result may be another matrix")
{
  if (!fits(single_layer)) return;
  const auto values = uniform<double>(13, 11, 1);
  const Dropout dropout{0.4, 3, 1};
  const auto [in_place, elsewhere, before] = on_root(single_layer, [&](const auto& mesh) {
    auto x = scatter<Summa25D::Output>(mesh, values);
    auto y = x;
    dropout.apply(x, y, 9);
    auto untouched = gather(x);
    dropout.apply(x, 9);
    return std::tuple{gather(x), gather(y), std::move(untouched)};
  });
  CHECK(identical(elsewhere, in_place));
  CHECK(identical(before, values));

  const auto other = [&](Shape shape, bool same_mesh) {
    on_mesh(single_layer, [&](const auto& mesh) {
      const Mesh<Summa25D, Threads> second{mesh.world(), {.q = 2}};
      using Matrix = DistMatrix<double, Summa25D::Output, AxisMesh<Summa25D::Axes, Threads>>;
      const Matrix x{mesh, {13, 11}};
      Matrix y{same_mesh ? mesh : second, shape};
      dropout.apply(x, y, 9);
      return 0;
    });
  };
  CHECK_NOTHROW(other({13, 11}, true));
  CHECK(mentions(message_of<ShapeError>([&] { other({13, 12}, true); }), "(13, 11)", "(13, 12)"));
  CHECK(mentions(message_of<MeshError>([&] { other({13, 11}, false); }), "on different meshes"));
}

TEST_CASE("what is not dropped is added to another matrix, in its place or elsewhere")
{
  const auto beside = uniform<double>(13, 11, 1);
  const auto dropped = uniform<double>(13, 11, 2);
  const Dropout dropout{0.4, 3, 1};
  for_each_place([&]<class S>(const Place<S>& place) {
    const auto [wanted, to_x, to_y, elsewhere] = on_root(place, [&](const auto& mesh) {
      auto x = scatter<typename S::Output>(mesh, beside);
      auto y = scatter<typename S::Output>(mesh, dropped);
      auto masked = y, z = y;
      dropout.apply(masked, 9);
      mesh.engine().map(
          masked.valid(), [](double a, double b) { return a + b; }, x.valid(), masked.valid());
      dropout.add(x, y, z, 9);
      auto first = x, second = y;
      dropout.add(first, y, first, 9);
      dropout.add(x, second, second, 9);
      return std::tuple{gather(masked), gather(first), gather(second), gather(z)};
    });
    CAPTURE(place.name());
    CHECK(identical(to_x, wanted));
    CHECK(identical(to_y, wanted));
    CHECK(identical(elsewhere, wanted));
  });
  if (!fits(single_layer)) return;
  CHECK(mentions(message_of<ShapeError>([&] {
                   on_mesh(single_layer, [&](const auto& mesh) {
                     using Matrix =
                         DistMatrix<double, Summa25D::Output, AxisMesh<Summa25D::Axes, Threads>>;
                     const Matrix x{mesh, {13, 11}}, y{mesh, {12, 11}};
                     Matrix z{mesh, {13, 11}};
                     dropout.add(x, y, z, 9);
                     return 0;
                   });
                 }),
                 "(13, 11)", "(12, 11)"));
}

TEST_CASE("padding stays zero")
{
  if (!fits(two_two_two)) return;
  const auto paddings = on_mesh(two_two_two, [](const auto& mesh) {
    auto x = scatter<Summa25D::Input>(mesh, uniform<double>(13, 11, 1));
    Dropout{0.5}.apply(x, 1);
    return padding(x.view());
  });
  Padding all;
  for (const auto& p : paddings) all += p;
  CHECK(all.count > 0);
  CHECK(all.largest == 0);
}

TEST_CASE("a probability out of range is refused")
{
  for (const double p : {-0.1, 1.0, 1.5, std::numeric_limits<double>::quiet_NaN(),
                         std::numeric_limits<double>::infinity()})
  {
    CAPTURE(p);
    CHECK(mentions(message_of<ArgumentError>([p] { return Dropout{p}; }),
                   "got a dropout probability of", "use a number in [0, 1)"));
  }
  CHECK(Dropout{0}.probability() == 0);
  CHECK(Dropout{0.25}.probability() == 0.25);
}

}  // namespace cubist::test::dropout_test
