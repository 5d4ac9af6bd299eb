// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The products of a training step and nothing else, in the memory of one rank: Y = X W and, if
// there is a backward pass, dX = dY W^T and dW = X^T dY.

#include <cstddef>
#include <vector>

#include <cubist/core/block.hpp>
#include <cubist/core/matrix_view.hpp>
#include <cubist/engine/operand.hpp>

#include "common/row.hpp"
#include "meter/site.hpp"

namespace bench
{

struct StepProduct
{
  cubist::ProductSize size;
  bool input_gradient = true;
  std::size_t count = 1;  // how many times, on the same operands
  bool backward = true;   // if false, only Y
};

/// Returns the operations of forward and, if there is one, backward, in units of 10^9.
[[nodiscard]] inline double giga_operations(const StepProduct& p)
{
  const int products = !p.backward ? 1 : p.input_gradient ? 3 : 2;
  return products * static_cast<double>(p.count) * giga_operations(p.size);
}

template <class T, class Engine>
class StepProducts
{
 public:
  explicit StepProducts(const std::vector<StepProduct>& products)
  {
    for (const auto& p : products)
    {
      const auto [m, n, k] = p.size;
      layers_.push_back({p, matrix(m, k), matrix(k, n), matrix(m, n), matrix(m, k), matrix(k, n)});
    }
  }

  void run(const Engine& engine)
  {
    for (auto& layer : layers_)
      for (std::size_t i = 0; i < layer.product.count; ++i) run(engine, layer);
  }

 private:
  using Here = Site<Engine>;
  using Elements = typename Here::template Plain<T>;
  struct Layer
  {
    StepProduct product;
    Elements x, w, y, dx, dw;
  };

  static void run(const Engine& engine, Layer& layer)
  {
    using cubist::MatrixView;
    using cubist::Op;
    auto& [product, x, w, y, dx, dw] = layer;
    const auto& s = product.size;
    const MatrixView<const T> X{x.data(), {s.m, s.k}};
    const MatrixView<const T> W{w.data(), {s.k, s.n}};
    const MatrixView<T> Y{y.data(), {s.m, s.n}};
    const MatrixView<const T> dY{Y};
    Here::multiply(engine, Op::none, Op::none, X, W, Y);
    if (!product.backward) return;
    if (product.input_gradient)
      Here::multiply(engine, Op::none, Op::transpose, dY, W, MatrixView<T>{dx.data(), {s.m, s.k}});
    Here::multiply(engine, Op::transpose, Op::none, X, dY, MatrixView<T>{dw.data(), {s.k, s.n}});
  }

  static Elements matrix(std::size_t rows, std::size_t cols)
  {
    std::vector<T> elements(rows * cols);
    for (std::size_t i = 0; i < elements.size(); ++i)
      elements[i] = static_cast<T>(static_cast<float>(i % 7) / 8 - 0.375F);
    return Here::plain(elements.data(), elements.size());
  }

  std::vector<Layer> layers_;
};

}  // namespace bench
