// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The logits of the next token: Y = X E^T, E being the table of an embedding or a matrix like it.
//
//   X (M, d) S::Input    E (V, d) Transposed<S::Weight>    Y (M, V) S::Output
//
// Words: those of the scheme's product of M, V and d.
// Source: Press, Wolf, "Using the Output Embedding to Improve Language Models", arXiv 1608.05859.

#include <cstddef>
#include <optional>

#include "cubist/core/scalar.hpp"
#include "cubist/matmul/dist_matmul.hpp"
#include "cubist/nn/layer.hpp"
#include "cubist/scheme/scheme.hpp"

namespace cubist::CUBIST_ABI
{

/// @throws ShapeError, MeshError from every call, for matrices that do not fit
template <SchemeType S, class B, RealScalar T>
class Logits
{
 public:
  /// The product with the table.
  using Product = DistMatMul<S, B, T, Op::none, Op::transpose>;
  using Mesh = typename Product::Mesh;
  using Input = typename Product::Input;
  /// The table of the embedding, whose transpose is the weight.
  using Table = typename Product::Weight;
  using Output = typename Product::Output;

  /// Products keep gathered operands, or gather them again.
  explicit Logits(Gathered gathered = Gathered::kept, Method method = Method::automatic)
      : gathered_{gathered}, method_{method}
  {
  }

  /// Y, which this object owns, and overwrites in the next `forward`.
  const Output& forward(const Input& x, const Table& e)
  {
    const ProductSize size{.m = x.rows(), .n = e.rows(), .k = x.cols()};
    const ProductQuanta quanta{.m = x.quanta().rows, .n = e.quanta().rows, .k = x.quanta().cols};
    if (!product_ || product_->size() != size || product_->quanta() != quanta)
      product_.emplace(x.mesh(), size, gathered_, method_, quanta);
    Output& y = detail::fit(y_, x.mesh(), {size.m, size.n}, {x.quanta().rows, e.quanta().rows});
    product_->forward(x, e, y);
    return y;
  }

  /// dX, which this object owns, and dE, which is complete after `finish_backward`.
  /// @pre X and E are those of the last `forward`
  const Input& backward(const Input& x, const Table& e, const Output& dy, Table& de)
  {
    finish_backward();  // an earlier one, which an error interrupted
    Input& dx = detail::fit_like(dx_, x);
    de_sum_ = product_->start_backward(x, e, dy, dx, de);
    return dx;
  }
  void finish_backward() { de_sum_.wait(); }

 private:
  Gathered gathered_;
  Method method_;
  std::optional<Product> product_;
  std::optional<Output> y_;
  std::optional<Input> dx_;
  ReplicaSum<typename B::Communicator> de_sum_;
};

}  // namespace cubist::CUBIST_ABI
