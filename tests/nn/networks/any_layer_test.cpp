// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/nn/dense/dense.hpp"
#include "cubist/nn/networks/any_layer.hpp"
#include "cubist/nn/networks/network_matrix.hpp"
#include "cubist/nn/norm/row_norm.hpp"

#include "nn.hpp"

namespace cubist::test::any_layer_test
{

using Norm = LayerNorm<Summa25D, TestBackend, double>;
using Layer = cubist::Dense<Summa25D, TestBackend, double>;
using Hidden = Norm::Input;

TEST_CASE("a layer of any type computes what the layer does, and keeps it in a set of its own")
{
  const auto [same, fits] = on_root(Place<Summa25D>{4, {.q = 2}}, [](const auto& mesh) {
    using Mesh = Norm::Mesh;
    Norm layer{mesh, 6};
    Norm::Kept kept;
    detail::LayerOf<Hidden, Norm> any{Norm{mesh, 6}};
    const detail::LayerOf<Hidden, Norm> another{Norm{mesh, 9}};
    const detail::LayerOf<Hidden, Layer> any_dense{Layer{mesh, 6, 6}};
    const auto of_norm = any.make_kept();
    const auto x = scatter<Summa25D::Input>(mesh, uniform<double>(5, 6, 1));
    ImmediateSums<double, Mesh> sums;
    const bool y =
        identical(gather(any.forward(x, {}, *of_norm)), gather(layer.forward(x, {}, kept)));
    const auto* dx = any.backward(x, x, {{}, sums}, *of_norm, true);
    const bool d = identical(gather(*dx), gather(*layer.backward(x, x, {{}, sums}, kept, true)));
    const bool none = any.backward(x, x, {{}, sums}, *of_norm, false) == nullptr;
    return std::pair{y && d && none, another.fits(*of_norm) && !any_dense.fits(*of_norm)};
  });
  CHECK(same);
  CHECK(fits);
}

TEST_CASE("a layer between matrices of one of two layouts computes what the layer does")
{
  const auto same = on_root(cube, [](const auto& mesh) {
    using Dense = cubist::Dense<Cube3D, TestBackend, double>;
    using Matrix = NetworkMatrix<Cube3D, TestBackend, double>;
    const LinearOptions options{.seed = 3};
    Dense layer{mesh, 6, 9, options};
    Dense::Kept kept;
    detail::LayerOf<Matrix, Dense> any{Dense{mesh, 6, 9, options}};
    const auto of_any = any.make_kept();
    const auto x = scatter<Cube3D::Input>(mesh, uniform<double>(5, 6, 1));
    ImmediateSums<double, Dense::Mesh> sums;
    const auto& y = layer.forward(x, {}, kept);
    const Matrix in{x};
    const bool y_is = identical(gather(any.forward(in, {}, *of_any)), gather(y));
    const auto* dx = any.backward(in, Matrix{y}, {{}, sums}, *of_any, true);
    const bool dx_is =
        identical(gather(*dx), gather(*layer.backward(x, y, {{}, sums}, kept, true)));
    return std::pair{y_is, dx_is};
  });
  CHECK(same.first);
  CHECK(same.second);
}

}  // namespace cubist::test::any_layer_test
