// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The logits of the next token: Y = X E^T, where E is the table of an embedding or a matrix of the
// same shape.
//
//   X (M, d) S::Input    E (V, d) Transposed<S::Weight>    Y (M, V) S::Output
//
// Elements that one rank sends: what the scheme's product sends for m = M, n = V and k = d.
// Source: Press, Wolf, "Using the Output Embedding to Improve Language Models", arXiv 1608.05859.

#include <optional>

#include "cubist/core/scalar.hpp"
#include "cubist/matmul/dist_matmul.hpp"
#include "cubist/nn/layer.hpp"
#include "cubist/scheme/scheme.hpp"

namespace cubist::CUBIST_ABI
{

/// @throws ShapeError, MeshError from any call whose matrices do not fit
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

  /// `gathered` says whether products keep gathered operands or gather them again.
  explicit Logits(Gathered gathered = Gathered::kept, Method method = Method::automatic)
      : gathered_{gathered},
        method_{method}
  {
  }

  /// What `forward` leaves for `backward`.
  struct Kept
  {
    std::optional<Product> product;
    std::optional<Output> y;
    std::optional<Input> dx;
    /// The ranks that have the other terms of dE, if `backward` left their sum to the caller.
    const typename Mesh::Communicator* left = nullptr;
  };

  /// Returns Y, which is in `kept`.
  const Output& forward(const Input& x, const Table& e, Kept& kept) const
  {
    const ProductSize size{.m = x.rows(), .n = e.rows(), .k = x.cols()};
    const ProductQuanta quanta{.m = x.quanta().rows, .n = e.quanta().rows, .k = x.quanta().cols};
    auto& product = kept.product;
    if (!product || product->size() != size || product->quanta() != quanta)
      product.emplace(x.mesh(), size, gathered_, method_, quanta);
    Output& y = fit(kept.y, x.mesh(), {size.m, size.n}, {x.quanta().rows, e.quanta().rows});
    product->forward(x, e, y);
    return y;
  }

  /// Returns dX, which is in `kept`, and passes dE to `gradients`. If dE has no elements, the table
  /// is frozen and gets no gradient.
  /// @param summed_later  the ranks over which the caller sums dE after it has added a second term;
  /// if these have the terms of dE, it is not passed to `gradients`, and they are in kept.left
  /// @pre X and E are the same as in the `forward` that filled `kept`
  const Input& backward(const Input& x, const Table& e, const Output& dy, Table& de,
                        GradientReducer<T, Mesh>& gradients, Kept& kept,
                        const typename Mesh::Communicator* summed_later = nullptr) const
  {
    Input& dx = fit_like(kept.dx, x);
    kept.left = nullptr;
    if (de.shape().size() == 0)
    {
      kept.product->backward_input(e, dy, dx);
      return dx;
    }
    auto* const replicas = kept.product->backward_parts(x, e, dy, dx, de);
    if (replicas == summed_later) kept.left = replicas;
    if (!kept.left) gradients.reduce(de.padded(), replicas);
    return dx;
  }

 private:
  Gathered gathered_;
  Method method_;
};

}  // namespace cubist::CUBIST_ABI
