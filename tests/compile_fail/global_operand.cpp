// expect: scatter it.*scatter it.*scatter it.*a different scalar.*scatter_like\(y, T\)
// SPDX-License-Identifier: BSD-3-Clause
// A network, a layer, a product and a loss take distributed matrices of one scalar.
#include "cubist/backend/threads.hpp"
#include "cubist/nn/networks/mlp.hpp"
#include "cubist/scheme/cube3d.hpp"
#include "cubist/scheme/summa25d.hpp"
#include "cubist/scheme/summa2d.hpp"

using namespace cubist;

using Net = MLP<Summa25D, Threads, float>;
using Layer = Linear<Summa2D, Threads, float>;
using Product = DistMatMul<Cube3D, Threads, float>;
using Global = xt::xtensor<float, 2>;
#ifdef CUBIST_CONTROL
using X = DistMatrix<float, Summa25D::Input, Net::Mesh>;
using LayerX = Layer::Input;
using ProductX = Product::Input;
using ProductW = Product::Weight;
using Target = X;
#else
using X = Global;
using LayerX = Global;
using ProductX = Global;
using ProductW = DistMatrix<double, Cube3D::Weight, Product::Mesh>;
using Target = xt::xtensor<double, 2>;
#endif

void multiply(Net& net, Layer& layer, Product& product, const X& x, const LayerX& layer_x,
              const ProductX& product_x, const ProductW& product_w, const Target& target,
              Net::Activations& dy)
{
  const auto& y = net.forward(x);
  (void)layer.forward(layer_x);
  (void)product.forward(product_x, product_w);
  mean_squared_error(y, target, dy);
}
