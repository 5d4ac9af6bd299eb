// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/nn/dense/dense.hpp"
#include "cubist/nn/residual.hpp"
#include "cubist/nn/sequential.hpp"

#include "nn.hpp"

namespace cubist::test::residual_test
{

namespace
{

constexpr std::size_t rows = 13, width = 6;

/// Y and dX of a layer with a residual connection, and of its steps by hand.
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
  ImmediateSums<double, typename decltype(layer)::Mesh> sums;
  typename decltype(residual)::Kept kept_by_residual;
  typename decltype(layer)::Kept kept;
  b.y = gather(residual.forward(x, pass, kept_by_residual));
  b.dx = gather(*residual.backward(x, dy, {pass, sums}, kept_by_residual, true));

  const auto sum = [](const Global<double>& a, const Global<double>& c) {
    return generate<double>(rows, width,
                            [&](std::size_t i, std::size_t j) { return a(i, j) + c(i, j); });
  };
  auto f = layer.forward(x, pass, kept);
  dropout.apply(f, 5);
  auto df = dy;
  dropout.apply(df, 5);
  const auto* dx = layer.backward(x, df, {pass, sums}, kept, true);
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

TEST_CASE("a residual layer drops nothing in evaluation, and computes dX where it is wanted")
{
  if (!fits(single_layer)) return;
  const auto found = on_root<Threads>(single_layer, [](const auto& mesh) {
    using Layer = cubist::Dense<Summa25D, Threads, double>;
    Residual<Layer> with{Layer{mesh, width, width}, Dropout{0.4}};
    Residual<Layer> without{Layer{mesh, width, width}};
    const auto x = scatter<Summa25D::Input>(mesh, uniform<double>(rows, width, 1));
    std::vector<bool> all;
    Residual<Layer>::Kept kept;
    Residual<Layer>::Kept kept_without;
    ImmediateSums<double, Layer::Mesh> sums;
    const auto y = gather(with.forward(x, {}, kept));
    all.push_back(identical(y, gather(*kept.sum.y)));
    all.push_back(identical(y, gather(without.forward(x, {}, kept_without))));
    all.push_back(with.backward(x, x, {{}, sums}, kept, false) == nullptr);
    State<double, Layer::Mesh> state;
    with.append_state(state, "block.");
    all.push_back(state.matrices.at(1).name == "block.bias");
    return all;
  });
  CHECK(found == std::vector<bool>(4, true));
}

TEST_CASE("a layer of other widths beside its input is refused")
{
  const auto message = message_of<ShapeError>([] {
    on_mesh<Threads>(one_rank, [](const auto& mesh) {
      using Layer = cubist::Dense<Summa2D, Threads, double>;
      Residual<Layer> residual{Layer{mesh, width, width + 1}};
      const auto x = scatter<Summa2D::Input>(mesh, uniform<double>(rows, width, 1));
      Residual<Layer>::Kept kept;
      (void)residual.forward(x, {}, kept);
      return 0;
    });
  });
  CHECK(mentions(message, "(13, 6)", "(13, 7)", "as many outputs as inputs"));
}

}  // namespace cubist::test::residual_test
