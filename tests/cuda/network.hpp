// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Trains a network for three steps with its losses and optimizers, on one rank with any engine.

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "cubist/core/host_device.hpp"
#include "cubist/core/philox.hpp"
#include "cubist/matrix/global.hpp"
#include "cubist/matrix/redistribute.hpp"
#include "cubist/nn/initial_values.hpp"
#include "cubist/nn/losses/loss.hpp"
#include "cubist/nn/networks/mlp.hpp"
#include "cubist/nn/optimizers/muon.hpp"
#include "cubist/nn/optimizers/optimizer.hpp"
#include "cubist/scheme/grid3d.hpp"
#include "cubist/training/numerics_monitor.hpp"

#include "one_rank.hpp"

namespace cubist::test
{

template <class T>
using NamedGlobalsOf = std::vector<std::pair<std::string, xt::xtensor<T, 2>>>;
using NamedGlobals = NamedGlobalsOf<float>;

/// Random numbers, uniform in [-1, 1).
struct Uniform
{
  std::size_t cols;
  std::uint64_t seed;

  CUBIST_HOST_DEVICE float operator()(std::size_t i, std::size_t j) const
  {
    return Philox{seed, 1}.symmetric<float>(i * cols + j, 1);
  }
};

template <class E, RealScalar T = float>
struct OnOneRank
{
  using Results = NamedGlobalsOf<T>;
  using Scheme = Grid3D;
  using B = OneRank<E>;
  using Matrix = DistMatrix<T, typename Scheme::Input, AxisMesh<typename Scheme::Axes, B>>;

  SingleRank<E> world{};
  Mesh<Scheme, B> mesh{world};
  std::vector<int> labels = std::vector<int>(17);

  OnOneRank()
  {
    for (std::size_t i = 0; i < labels.size(); ++i) labels[i] = static_cast<int>(i * i % 10);
  }

  [[nodiscard]] Matrix uniform(Shape shape, std::uint64_t seed) const
  {
    Matrix x{mesh, shape};
    x.generate(Uniform{shape.cols, seed});
    return x;
  }

  /// Results that must have the same bits: random numbers, scatter, gather and redistribute.
  [[nodiscard]] Results exact() const
  {
    Results results;
    auto x = uniform({17, 10}, 3);
    results.push_back({"generate", gather(x)});
    auto y = x;
    cubist::detail::initialize(y, Normal{0.02}, Philox{42, 7}, 17);
    results.push_back({"normal values", gather(y)});
    Dropout{0.25, 5, 1}.apply(x, y, 7);
    results.push_back({"dropout", gather(y)});
    auto z = scatter<typename Scheme::Input>(mesh, gather(y));
    results.push_back({"scatter and gather", gather(z)});
    redistribute(x, z);
    results.push_back({"redistribute", gather(z)});
    return results;
  }

  [[nodiscard]] Results functions() const
  {
    Results results;
    const auto x = uniform({17, 10}, 3);
    auto wide = x;
    mesh.engine().map(wide.valid(), cubist::detail::Scaled<float>{8}, x.valid());
    auto y = x;
    const auto apply = [&](const char* name, const Activation& f) {
      cubist::detail::with_function(mesh.engine(), f, [&](const auto& g) {
        mesh.engine().map(y.valid(), g, std::as_const(wide).valid());
      });
      results.push_back({name, gather(y)});
      cubist::detail::with_function(mesh.engine(), f, [&]<class G>(const G& g) {
        mesh.engine().map(y.valid(), cubist::detail::Slope<G>{g}, std::as_const(x).valid(),
                          std::as_const(wide).valid());
      });
      results.push_back({std::string{name} + "'", gather(y)});
    };
    apply("relu", relu), apply("sigmoid", sigmoid), apply("tanh", tanh), apply("silu", silu);
    apply("gelu", gelu), apply("gelu_tanh", gelu_tanh);
    softmax(x, y, 3.0F);
    results.push_back({"softmax", gather(y)});
    const double entropy = softmax_cross_entropy(wide, labels, y);
    results.push_back({"slope of the cross-entropy", gather(y)});
    // On a device, each row of one shape gets a warp, and each row of the other gets a block.
    std::vector<double> of_rows;
    for (const Shape shape : {Shape{17, 1001}, Shape{530, 4099}})
    {
      const auto logits = uniform(shape, 4);
      auto slope = logits;
      std::vector<int> last(shape.rows, static_cast<int>(shape.cols) - 1);
      last[1] = -100;
      of_rows.push_back(softmax_cross_entropy(logits, last, slope));
      results.push_back({"slope of the cross-entropy of longer rows", gather(slope)});
    }
    const double error = mean_squared_error(wide, x, y);
    results.push_back({"slope of the squared error", gather(y)});
    results.push_back(
        {"losses",
         {{static_cast<T>(entropy), static_cast<T>(of_rows[0]), static_cast<T>(of_rows[1]),
           static_cast<T>(error), static_cast<T>(accuracy(wide, labels))}}});
    return results;
  }

  template <class Optimizer>
  void train(Results& results, const char* name) const
  {
    MLP<Scheme, B, T> mlp{mesh, {12, 33, 10}, {.activation = gelu, .dropout = 0.1, .seed = 42}};
    Optimizer optimizer{mlp.parameters()};
    const auto x = uniform({17, 12}, 9);
    double loss = 0;
    for (int step = 0; step < 3; ++step)
    {
      const auto& y = mlp.forward(x);
      auto dy = zeros_like(y);
      loss = softmax_cross_entropy(y, labels, dy);
      mlp.backward(dy);
      check_finite(loss, mlp.parameters(), static_cast<std::uint64_t>(step));
      check_replicas(mlp.parameters());
      optimizer.step(mlp.parameters());
    }
    for (const auto& p : mlp.parameters())
    {
      results.push_back({name + (" " + p.name), gather(p.value)});
      results.push_back({name + (" gradient of " + p.name), gather(p.gradient)});
    }
    results.push_back({std::string{name} + " loss", {{static_cast<T>(loss)}}});
  }

  [[nodiscard]] Results training() const
  {
    using M = AxisMesh<typename Scheme::Axes, B>;
    Results results;
    train<Sgd<T, M>>(results, "SGD");
    train<AdamW<T, M>>(results, "AdamW");
    train<Muon<T, M>>(results, "Muon");
    return results;
  }
};

}  // namespace cubist::test
