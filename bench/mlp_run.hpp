// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The measurement behind mlp.hpp, for any backend.

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <cubist/nn/mlp.hpp>
#include <cubist/nn/optimizer.hpp>
#include <cubist/plan/cost.hpp>

#include "meter.hpp"
#include "mlp.hpp"
#include "scalars.hpp"
#include "schemes.hpp"

namespace bench
{

inline cubist::Activation activation_of(const std::string& name)
{
  if (name == "gelu") return cubist::gelu;
  if (name == "gelu_tanh") return cubist::gelu_tanh;
  if (name == "relu") return cubist::relu;
  if (name == "silu") return cubist::silu;
  return cubist::identity;
}

/// A function that updates the parameters after each step.
template <class Parameters>
std::function<void()> optimizer_of(const std::string& name, const Parameters& parameters)
{
  const auto steps = [&](auto optimizer) {
    const auto shared = std::make_shared<decltype(optimizer)>(std::move(optimizer));
    return [shared, parameters] { shared->step(parameters); };
  };
  if (name == "sgd") return steps(cubist::Sgd{parameters, {.learning_rate = 1e-3}});
  if (name == "adam") return steps(cubist::Adam{parameters, {.learning_rate = 1e-3}});
  return [] {};
}

/// Numbers in [-1, 1).
template <class T>
struct Random
{
  cubist::Philox numbers;
  std::size_t columns;

  CUBIST_HOST_DEVICE T operator()(std::size_t i, std::size_t j) const
  {
    return numbers.symmetric<T>(i * columns + j, 1);
  }
};

/// The products of one step and nothing else, in the memory of one rank.
template <class T, class Engine>
class Products
{
 public:
  explicit Products(const MlpTask& task) : input_gradient_{task.input_gradient}
  {
    for (const auto& size : task.products())
      layers_.push_back({size, matrix(size.m, size.k), matrix(size.k, size.n),
                         matrix(size.m, size.n), matrix(size.m, size.k), matrix(size.k, size.n)});
  }

  void run(const Engine& engine)
  {
    using cubist::MatrixView;
    using cubist::Op;
    for (auto& [s, x, w, y, dx, dw] : layers_)
    {
      const bool wants_dx = input_gradient_ || &x != &layers_.front().x;
      const MatrixView<const T> X{x.data(), {s.m, s.k}};
      const MatrixView<const T> W{w.data(), {s.k, s.n}};
      const MatrixView<T> Y{y.data(), {s.m, s.n}};
      const MatrixView<const T> dY{Y};
      Here::multiply(engine, Op::none, Op::none, X, W, Y);
      if (wants_dx)
        Here::multiply(engine, Op::none, Op::transpose, dY, W,
                       MatrixView<T>{dx.data(), {s.m, s.k}});
      Here::multiply(engine, Op::transpose, Op::none, X, dY, MatrixView<T>{dw.data(), {s.k, s.n}});
    }
  }

 private:
  using Here = Site<Engine>;
  using Elements = typename Here::template Plain<T>;
  struct Layer
  {
    cubist::ProductSize size;
    Elements x, w, y, dx, dw;
  };

  static Elements matrix(std::size_t rows, std::size_t cols)
  {
    std::vector<T> elements(rows * cols);
    for (std::size_t i = 0; i < elements.size(); ++i)
      elements[i] = static_cast<T>(static_cast<float>(i % 7) / 8 - 0.375F);
    return Here::plain(elements.data(), elements.size());
  }

  bool input_gradient_;
  std::vector<Layer> layers_;
};

template <class B, class S, class T>
std::optional<Row> measure_mlp(const MlpTask& task)
{
  using Backend = Measured<B>;
  using Activations = cubist::Activations<S, Backend, T>;
  std::optional<Row> row;
  cubist::launch<Backend>({.ranks = task.on.ranks}, [&](auto& world) {
    const bool first = world.rank() == 0;
    const cubist::Mesh<S, Backend> mesh{world, extents_for<S>(task.on.mesh, world.size()),
                                        cubist::IdleRanks::refused};
    cubist::MLP<S, Backend, T> mlp{
        mesh,
        task.layers,
        {.activation = activation_of(task.activation), .seed = 42, .method = task.on.method}};
    const auto optimize = optimizer_of(task.optimizer, mlp.parameters());
    using Input = typename Activations::template Matrix<typename S::Input>;
    Input input{mesh, {task.tokens, task.layers.front()}};
    input.generate(Random<T>{{1, 0}, input.cols()});
    const Activations x{std::move(input)};
    auto dy = zeros_like(mlp.forward(x));
    dy.visit([&](auto& m) { m.generate(Random<T>{{2, 0}, m.cols()}); });

    const typename B::Engine engine;
    std::optional<Products<T, typename B::Engine>> products;
    if (first) products.emplace(task);
    std::vector<double> blas;
    std::unique_ptr<Torch> torch;
    if (task.torch) alone(world, [&] { torch = Torch::start(task); });
    Meter ours{world, true};
    for (int i = -task.on.warm_up; i < task.on.repeats; ++i)
    {
      alone(world, blas, i >= 0, [&] { products->run(engine); });
      ours.run(i >= 0, [&] {
        mlp.forward(x);
        if (task.input_gradient)
          (void)mlp.backward_with_input(dy);
        else
          mlp.backward(dy);
        optimize();
      });
      if (task.torch)
        alone(world, [&] {
          if (torch) torch->step(i >= 0);
        });
    }

    Row result{.scheme = S::name, .mesh = S::Axes::to_string(mesh.extents())};
    if (task.on.method != cubist::Method::collectives && cubist::can_expose(world))
      result.method = cubist::Method::direct;
    result.cost = ours.cost();
    bool with_dx = task.input_gradient;
    for (const auto& size : task.products())
    {
      const auto cost = cubist::cost<S>(mesh.extents(), size);
      if (result.method == cubist::Method::collectives)
        result.formula_words +=
            (cost.forward.words() + (with_dx ? cost.backward : cost.backward_weight).words());
      result.giga_operations += (with_dx ? 3 : 2) * giga_operations(size);
      with_dx = true;
    }
    if (!first) return;
    result.blas = Times{blas};
    if (torch) result.torch = torch->result();
    row = result;
  });
  return row;
}

/// The measurement for the scheme and the scalar of the task.
template <class B, class List = Scalars>
std::optional<Row> measure_mlp(const MlpTask& task)
{
  return cubist::with_scheme<FewSchemes>(task.on.scheme, [&]<class S>() {
    return List::with(task.on.scalar, [&]<class T>() { return measure_mlp<B, S, T>(task); });
  });
}

}  // namespace bench
