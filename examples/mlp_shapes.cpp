// SPDX-License-Identifier: BSD-3-Clause
// Computes two linear layers with an activation between them, and prints the shapes of rank 0's
// blocks, as the pages of Colossal-AI and MindSpore do.
//
//   mlp_shapes --mode 2.5d    1d, 2d, 2.5d, 3d: the MLP of Colossal-AI's pages, x (16, 256) through
//                             256 -> 1024 -> 256, GELU, with a dropout at the end
//   mlp_shapes --mode nd2d    nd2d, nd3d: the example of MindSpore's page, x (1024, 256) of ones
//                             through 256 -> 512 -> 256 on 8 devices, ReLU, without bias
//
// The output is compared with that of one rank. Colossal-AI cuts the columns of a 3D weight
// further, into (128, 256) of (256, 1024); cubist cuts its rows, as MindSpore does. Both send the
// same number of elements.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iostream>
#include <string>
#include <utility>

#include <CLI/CLI.hpp>
#include <xtensor-blas/xlinalg.hpp>
#include <xtensor/xbuilder.hpp>
#include <xtensor/xmath.hpp>

#include "../tools/strict_options.hpp"
#include "backend.hpp"

using Matrix = xt::xtensor<float, 2>;

struct Network
{
  std::size_t tokens;
  std::size_t in;
  std::size_t hidden;
  bool gelu;  // else ReLU
  double dropout;
  bool bias;
  cubist::Initial weights;
};

const Network colossal_ai{16, 256, 1024, true, 0.1, true, cubist::Uniform{}};
const Network mindspore{1024, 256, 512, false, 0, false, cubist::Normal{.std = 0.01}};

/// Returns the output that one rank computes from whole weights. The rows b1 and b2 are only read
/// if the network has biases.
Matrix serial_output(const Network& network, const Matrix& x, const Matrix& w1, const Matrix& b1,
                     const Matrix& w2, const Matrix& b2)
{
  const auto linear = [&](const Matrix& a, const Matrix& w, const Matrix& b) {
    Matrix y = xt::linalg::dot(a, w);
    if (network.bias) y += b;
    return y;
  };
  Matrix h = linear(x, w1, b1);
  for (float& v : h)
    v = network.gelu ? 0.5F * v * (1 + std::erf(v / std::sqrt(2.0F))) : std::max(v, 0.0F);
  return linear(h, w2, b2);
}

/// Prints the shapes, and compares the output with that of one rank.
template <class Scheme, class Backend>
void show(typename Backend::Communicator& world, const typename Scheme::Extents& extents,
          const Network& network)
{
  const bool first = world.rank() == 0;
  const auto print = [&](const std::string& what, const auto& matrix) {
    const auto shape = matrix.valid().shape();
    if (first) std::cout << what << ": [" << shape.rows << ", " << shape.cols << "]\n";
  };

  const cubist::Mesh<Scheme, Backend> mesh{world, extents};
  cubist::LinearOptions options{
      .bias = network.bias, .seed = 42, .index = 0, .initial_weights = network.weights};
  cubist::Linear<Scheme, Backend, float> dense_1{mesh, network.in, network.hidden, options};
  options.index = 1;
  using Next = typename Scheme::Next;
  cubist::Linear<Next, Backend, float> dense_2{mesh, network.hidden, network.in, options};
  const cubist::Dropout dropout{network.dropout, 42, 1};
  print("Weight of the first linear layer", dense_1.weight());
  print("Weight of the second linear layer", dense_2.weight());

  const Matrix X = xt::ones<float>({network.tokens, network.in});
  const auto x = cubist::scatter<typename Scheme::Input>(mesh, X);
  auto hidden = dense_1.forward(x);
  const auto activate = [&](auto f) {
    mesh.engine().map(hidden.valid(), f, std::as_const(hidden).valid());
  };
  if (network.gelu)
    activate(cubist::gelu);
  else
    activate(cubist::relu);
  auto y = dense_2.forward(hidden);
  print("Input", x);
  print("Output of the first linear layer", hidden);
  print("Output of the second linear layer", y);

  const Matrix Y = cubist::gather(y);
  if (network.dropout > 0)
  {
    dropout.apply(y, 1);  // as a network does in training
    print("Output after the dropout", y);
  }
  const Matrix W1 = cubist::gather(dense_1.weight());
  const Matrix b1 = cubist::gather(dense_1.bias());
  const Matrix W2 = cubist::gather(dense_2.weight());
  const Matrix b2 = cubist::gather(dense_2.bias());
  if (!first) return;
  const Matrix serial = serial_output(network, X, W1, b1, W2, b2);
  const float error = xt::amax(xt::abs(Y - serial))() / xt::amax(xt::abs(serial))();
  std::cout << "The output is: [" << Y(0, 0) << ", " << Y(0, 1) << ", ...], " << Y.shape(0) << " x "
            << Y.shape(1) << '\n'
            << "It " << (error < 1e-5F ? "agrees with" : "differs from") << " that of one rank.\n";
}

template <class Backend>
int run(int argc, char** argv, const std::string& mode)
{
  const int ranks = mode == "1d" ? 2 : mode == "2d" ? 4 : 8;
  return cubist::launch<Backend>(argc, argv, {.ranks = ranks}, [&](auto& world) {
    using namespace cubist;
    if (mode == "1d") show<Megatron1D, Backend>(world, {}, colossal_ai);
    if (mode == "2d") show<Summa2D, Backend>(world, {.q = 2}, colossal_ai);
    if (mode == "2.5d") show<Summa25D, Backend>(world, {.q = 2, .d = 2}, colossal_ai);
    if (mode == "3d") show<Cube3D, Backend>(world, {.q = 2}, colossal_ai);
    if (mode == "nd2d") show<Grid2D, Backend>(world, {.x = 2, .y = 4}, mindspore);
    if (mode == "nd3d") show<Grid3D, Backend>(world, {.x = 2, .y = 2, .z = 2}, mindspore);
  });
}

int main(int argc, char** argv)
{
  CLI::App app{"Shapes of an MLP's blocks on a rank"};
  std::string mode = "2.5d";
  app.add_option("--mode", mode,
                 "the mode, as Colossal-AI (1d to 3d) or MindSpore (nd2d, nd3d) names it")
      ->check(CLI::IsMember({"1d", "2d", "2.5d", "3d", "nd2d", "nd3d"}))
      ->capture_default_str();
  std::string trace;
  app.add_option("--trace", trace,
                 "write a trace of the first ranks to this file, for ui.perfetto.dev");
  cubist::parse_strictly(app, argc, argv);
  CLI11_PARSE(app, argc, argv);
  return examples::on_traced_backend(
      trace, [&]<class Backend>() { return run<Backend>(argc, argv, mode); });
}
