// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/nn/dense/dense.hpp"
#include "cubist/nn/residual.hpp"
#include "cubist/nn/sequential.hpp"

#include "nn.hpp"
#include "passes.hpp"

namespace cubist::test::residual_test
{

constexpr std::size_t rows = 13, width = 6;

TEST_CASE("a residual layer adds what is not dropped to its input, and its gradient to dY")
{
  // Y and dX of the layer, and of its steps by hand
  const auto results = [](const auto& mesh, double p) {
    using S = typename std::decay_t<decltype(mesh)>::Scheme;
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
    Passes passes{residual};
    std::vector<Global<double>> all{gather(passes.forward(x, pass))};
    all.push_back(gather(*passes.backward(x, dy, pass, true)));

    Passes by_hand{layer};
    auto f = by_hand.forward(x, pass);
    dropout.apply(f, 5);
    auto df = dy;
    dropout.apply(df, 5);
    const auto* dx = by_hand.backward(x, df, pass, true);
    const auto add = [&](const Global<double>& a, const Global<double>& b) {
      all.push_back(generate<double>(a.shape(0), a.shape(1),
                                     [&](auto i, auto j) { return a(i, j) + b(i, j); }));
    };
    add(gather(x), gather(f));
    add(gather(dy), gather(*dx));
    return all;
  };
  for_each_place([&](const auto& place) {
    for (const double p : {0.0, 0.4})
    {
      CAPTURE(place.name(), p);
      const auto r = on_root<Threads>(place, [&](const auto& mesh) { return results(mesh, p); });
      CHECK(difference(r[0], r[2]) == 0);
      CHECK(difference(r[1], r[3]) == 0);
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
