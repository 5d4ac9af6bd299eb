// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The measurement behind muon.hpp, for any backend.

#include <algorithm>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <cubist/compiled/loops.hpp>
#include <cubist/engine/syrk.hpp>
#include <cubist/nn/optimizers/muon.hpp>

#include "common/schemes.hpp"
#include "meter/meter.hpp"
#include "networks/mlp_run.hpp"
#include "networks/muon.hpp"

namespace bench
{

/// Newton-Schulz's products for one matrix, in the memory of one rank.
template <class T>
class NewtonSchulzProducts
{
 public:
  explicit NewtonSchulzProducts(cubist::Shape w)
      : n_{std::min(w.rows, w.cols)},
        k_{std::max(w.rows, w.cols)},
        x_(n_ * k_, T{1} / static_cast<T>(k_)),
        y_(n_ * k_),
        a_(n_ * n_),
        b_(n_ * n_)
  {
  }

  [[nodiscard]] double giga_operations() const
  {
    const auto n = static_cast<double>(n_), k = static_cast<double>(k_);
    return 1e-9 * steps * (n * n * k + n * n * n + 2 * n * n * k);
  }
  template <class Engine>
  void run(const Engine& engine)
  {
    using cubist::MatrixView;
    using cubist::Operand;
    using cubist::Triangle;
    const MatrixView<const T> x{x_.data(), {n_, k_}};
    const MatrixView<T> y{y_.data(), {n_, k_}}, a{a_.data(), {n_, n_}}, b{b_.data(), {n_, n_}};
    for (int i = 0; i < steps; ++i)
    {
      cubist::syrk<Engine, T>(engine, Triangle::lower, T{1}, Operand<const T>{x}, T{}, a);
      cubist::syrk<Engine, T>(engine, Triangle::lower, T{1},
                              Operand<const T>{MatrixView<const T>{a}}, T{}, b);
      engine.gemm(cubist::Op::none, cubist::Op::none, T{1}, MatrixView<const T>{b}, x, T{}, y);
    }
  }

 private:
  static constexpr int steps = 5;

  std::size_t n_, k_;
  std::vector<T> x_, y_, a_, b_;
};

[[nodiscard]] inline cubist::MuonWay muon_way(const std::string& name)
{
  for (const auto way :
       {cubist::MuonWay::distributed, cubist::MuonWay::home, cubist::MuonWay::replicated})
    if (name == cubist::name_of(way)) return way;
  return cubist::MuonWay::automatic;
}

template <class B, class S, class T>
std::optional<Row> measure_muon(const MuonTask& task)
{
  using Backend = Measured<B>;
  std::optional<Row> row;
  cubist::launch<Backend>({.ranks = task.on.ranks}, [&](auto& world) {
    const cubist::Mesh<S, Backend> mesh{world, extents_for<S>(task.on.mesh, world.size()),
                                        cubist::IdleRanks::refused};
    using M = cubist::AxisMesh<typename S::Axes, Backend>;
    using Matrix = cubist::DistMatrix<T, typename S::Weight, M>;
    std::vector<std::unique_ptr<Matrix>> kept;
    cubist::Parameters<T, M> parameters;
    std::vector<NewtonSchulzProducts<T>> products;
    Row result{.scheme = S::name, .mesh = S::Axes::to_string(mesh.extents())};
    for (std::size_t i = 0; i + 1 < task.layers.size(); ++i)
    {
      const cubist::Shape shape{task.layers[i], task.layers[i + 1]};
      for (int of = 0; of < 2; ++of)
      {
        kept.push_back(std::make_unique<Matrix>(mesh, shape));
        kept.back()->generate(Random<T>{{i, 0}, shape.cols});
      }
      parameters.push_back({"layers." + std::to_string(i) + ".weight", kept[2 * i]->view(),
                            kept[2 * i + 1]->view()});
      products.emplace_back(world.rank() == 0 ? shape : cubist::Shape{});
    }
    cubist::Muon<T, M> optimizer{parameters, {.way = muon_way(task.way)}};
    const typename B::Engine engine;
    std::vector<double> blas;
    std::unique_ptr<Torch> torch;
    if (task.torch)
      alone(world, [&] {
        std::string layers = "--layers ";
        for (const auto size : task.layers) layers.append(std::to_string(size)).append(",");
        layers.pop_back();
        torch = Torch::start("torch_muon.py", layers, false);
      });
    Meter ours{world, true};
    for (int i = -task.on.warm_up; i < task.on.repeats; ++i)
    {
      alone(world, blas, i >= 0, [&] {
        for (auto& p : products) p.run(engine);
      });
      ours.run(i >= 0, [&] { optimizer.step(parameters); });
      if (task.torch)
        alone(world, [&] {
          if (torch) torch->step(i >= 0);
        });
    }
    result.cost = ours.cost();
    result.formula_words = double(optimizer.elements_of_step()) / world.size();
    for (const auto& p : products) result.giga_operations += p.giga_operations();
    if (world.rank() != 0) return;
    result.blas = Times{blas};
    if (torch) result.torch = torch->result();
    row = result;
  });
  return row;
}

/// Measures with the scheme of the task, in float.
template <class B>
std::optional<Row> measure_named_muon(const MuonTask& task)
{
  using Few = cubist::Schemes<cubist::Summa2D, cubist::Summa25D>;
  return cubist::with_scheme<Few>(task.on.scheme,
                                  [&]<class S>() { return measure_muon<B, S, float>(task); });
}

}  // namespace bench
