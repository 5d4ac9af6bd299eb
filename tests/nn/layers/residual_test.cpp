// SPDX-License-Identifier: BSD-3-Clause
#include <cstddef>
#include <utility>

#include "cubist/nn/dense.hpp"
#include "cubist/nn/layers/residual.hpp"
#include "cubist/nn/layers/sequential.hpp"

#include "catch.hpp"
#include "nn.hpp"

namespace cubist::test::residual_test
{

namespace
{

constexpr std::size_t rows = 13, width = 6;

/// Y and dX of a layer beside its input, and of its steps by hand.
struct Both
{
  Global<double> y, dx, y_by_hand, dx_by_hand;
};

template <class S>
Both both(const Mesh<S, Threads>& mesh, double p)
{
  const auto make_layer = [&] {
    return Sequential{
        Dense<S, Threads, double>{mesh, width, 9, {.seed = 1}},
        Dense<typename S::Next, Threads, double>{mesh, 9, width, {.seed = 1, .index = 1}}};
  };
  const Dropout dropout{p, 7, 3};
  auto layer = make_layer();
  Residual residual{make_layer(), dropout};
  const auto x = scatter<typename S::Input>(mesh, uniform<double>(rows, width, 1));
  const auto dy = scatter<typename S::Input>(mesh, uniform<double>(rows, width, 2));
  const Pass pass{.training_step = 5};
  Both b;
  b.y = gather(residual.forward(x, pass));
  b.dx = gather(*residual.backward(x, dy, pass, true));
  residual.finish_backward();

  const auto sum = [](const Global<double>& a, const Global<double>& c) {
    return generate<double>(rows, width,
                            [&](std::size_t i, std::size_t j) { return a(i, j) + c(i, j); });
  };
  auto f = layer.forward(x, pass);
  dropout.apply(f, 5);
  auto df = dy;
  dropout.apply(df, 5);
  const auto* dx = layer.backward(x, df, pass, true);
  layer.finish_backward();
  const auto xs = gather(x), fs = gather(f), dys = gather(dy), dxs = gather(*dx);
  if (mesh.rank() != 0) return b;
  b.y_by_hand = sum(xs, fs);
  b.dx_by_hand = sum(dys, dxs);
  return b;
}

}  // namespace

TEST_CASE("a residual layer adds what is not dropped to its input, and its gradient to dY")
{
  for_each_place([](const auto& place) {
    for (const double p : {0.0, 0.4})
    {
      CAPTURE(place.name(), p);
      const auto b = on_root<Threads>(place, [&](const auto& mesh) { return both(mesh, p); });
      CHECK(difference(b.y, b.y_by_hand) == 0);
      CHECK(difference(b.dx, b.dx_by_hand) == 0);
    }
  });
}

}  // namespace cubist::test::residual_test
