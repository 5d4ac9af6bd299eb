// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/nn/losses/softmax.hpp"
#include "cubist/scheme/grid2d.hpp"

#include "nn.hpp"

namespace cubist::test::softmax_test
{

TEST_CASE("the softmax of a row is its exponentials, divided by their sum")
{
  const auto got = on_root(single_rank, [](const auto& mesh) {
    auto x = scatter<Summa25D::Input>(mesh, Global<double>{{0, 0}, {0, std::log(3.0)}});
    softmax(x, x);
    return gather(x);
  });
  CHECK(difference(got, Global<double>{{0.5, 0.5}, {0.25, 0.75}}) < 1e-15);
}

static Global<double> serial(const Global<double>& x, double scale)
{
  auto y = x;
  for (std::size_t i = 0; i < x.shape(0); ++i)
  {
    double sum = 0;
    for (std::size_t j = 0; j < x.shape(1); ++j) sum += std::exp(scale * x(i, j));
    for (std::size_t j = 0; j < x.shape(1); ++j) y(i, j) = std::exp(scale * x(i, j)) / sum;
  }
  return y;
}

TEST_CASE("the softmax of rows is the serial one, whatever the columns' cut")
{
  const auto x = uniform<double>(13, 11, 1, 3);
  const auto check = [&](const auto& place, auto layout) {
    if (!fits(place)) return;
    CAPTURE(place.name());
    const auto got = on_root(place, [&](const auto& mesh) {
      auto in = scatter<decltype(layout)>(mesh, x);
      auto out = in;
      softmax(in, out, 0.5);
      softmax(in, in);
      return std::pair{gather(out), gather(in)};
    });
    CHECK(difference(got.first, serial(x, 0.5)) < 1e-15);
    CHECK(difference(got.second, serial(x, 1)) < 1e-15);
  };
  check(single_rank, Summa25D::Input{});
  check(single_layer, Summa25D::Input{});
  check(cube, Cube3D::Output{});
  check(Place<Grid2D>{6, {3, 2}}, Grid2D::Output{});
}

TEST_CASE("a softmax of large numbers does not overflow")
{
  const auto x = generate<double>(2, 3, [](std::size_t i, std::size_t j) {
    return i == 0 ? 1e6 * static_cast<double>(j) : -1e308;
  });
  const auto got = on_root(single_rank, [&](const auto& mesh) {
    auto in = scatter<Summa25D::Input>(mesh, x);
    softmax(in, in);
    return gather(in);
  });
  CHECK(got(0, 2) == 1);
  CHECK(got(0, 0) == 0);
  CHECK(std::abs(got(1, 1) - 1.0 / 3) < 1e-15);
}

TEST_CASE("a NaN or an infinity in a row makes its whole softmax NaN, whatever the columns' cut")
{
  const auto check = [](const auto& place) {
    CAPTURE(place.name());
    for (const double bad : {std::nan(""), -std::nan(""), std::numeric_limits<double>::infinity()})
      for (std::size_t column = 0; column < 6; ++column)
      {
        auto x = uniform<double>(3, 6, 1);
        x(1, column) = bad;
        const auto got = on_root(place, [&](const auto& mesh) {
          auto in = scatter<Grid2D::Output>(mesh, x);
          softmax(in, in);
          return gather(in);
        });
        for (std::size_t j = 0; j < 6; ++j)
          CHECK((std::isfinite(got(0, j)) && std::isnan(got(1, j)) && std::isfinite(got(2, j))));
      }
  };
  if (const Place<Grid2D> place{6, {3, 2}}; fits(place)) check(place);
}

TEST_CASE("a softmax refuses matrices that do not agree")
{
  const auto m = on_root(single_rank, [](const auto& mesh) {
    const auto in = scatter<Summa25D::Input>(mesh, uniform<double>(3, 4, 1));
    auto out = scatter<Summa25D::Input>(mesh, uniform<double>(4, 3, 1));
    return message_of<ShapeError>([&] { softmax(in, out); });
  });
  CHECK(mentions(m, "(3, 4)", "(4, 3)", "softmax"));
}

}  // namespace cubist::test::softmax_test
