// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The gated linear layer on any scheme, Y = f(X V + a) ∘ (X W + b): the first half of Llama's
// feed-forward network. With f = Silu it is called SwiGLU, with f = GeluTanh GEGLU.
//
//   X (M, K) S::Input    V, W (K, N) S::Weight    a, b (1, N) cut as Y's columns
//   G = X V + a, U = X W + b, Y (M, N) S::Output
//
//   dU = f(G) ∘ dY    dG = f'(G) ∘ U ∘ dY
//
// Each rank sends what MergedLinear sends, which gathers X once.
// Source: Shazeer, "GLU Variants Improve Transformer", arXiv 2002.05202.

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>

#include "cubist/core/host_device.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/gradients/parameter.hpp"
#include "cubist/nn/dense/activation.hpp"
#include "cubist/nn/dense/linear.hpp"
#include "cubist/nn/dense/merged_linear.hpp"
#include "cubist/nn/layer.hpp"
#include "cubist/scheme/scheme.hpp"

namespace cubist::CUBIST_ABI
{

namespace detail
{

/// f(g) u
template <class F>
struct GatedProduct
{
  F f;

  template <class T>
  [[gnu::always_inline]] CUBIST_HOST_DEVICE T operator()(const T& g, const T& u) const
  {
    return f(g) * u;
  }
};

/// dg = f'(g) u dy, du = f(g) dy
template <class F>
struct GatedSlopes
{
  F f;

  template <class T>
  [[gnu::always_inline]] CUBIST_HOST_DEVICE void operator()(T& dg, T& du, const T& g, const T& u,
                                                            const T& dy) const
  {
    const T slope = f.derivative(g) * u * dy;
    du = f(g) * dy;
    dg = slope;
  }
};

}  // namespace detail

/// @tparam F the activation function of the gate
template <SchemeType S, class B, RealScalar T, class F = Silu>
class GatedLinear
{
 public:
  using Value = T;
  /// Both products, merged into one.
  using Merged = MergedLinear<S, B, T>;
  using Mesh = typename Merged::Mesh;
  using Input = typename Merged::Input;
  using Output = typename Merged::Output;

  /// Makes the parameters gate.weight and gate.bias (V and a), and up.weight and up.bias (W and b).
  /// The gate draws the initial values that a Linear with options.index draws, and W and b those of
  /// one with options.index + 1.
  /// @param storage  how a layer without gradients stores V and W
  /// @throws ShapeError for a layer without inputs or outputs
  GatedLinear(const Mesh& mesh, std::size_t in, std::size_t out, const LinearOptions& options = {},
              const WeightStorage<S, B, T>& storage = {})
      : merged_{mesh,
                in,
                {{"gate", out, options.out_quantum}, {"up", out, options.out_quantum}},
                options,
                storage},
        out_{out},
        quantum_{options.out_quantum == 0 ? mesh.quantum() : options.out_quantum}
  {
  }

  /// What `forward` leaves for `backward`.
  struct Kept
  {
    typename Merged::Kept merged;
    std::optional<Output> y;
    std::optional<Input> dx;
  };

  /// Returns Y, which is in `kept`.
  const Output& forward(const Input& x, const Pass& pass, Kept& kept)
  {
    const Output& merged = merged_.forward(x, kept.merged, pass);
    Output& y = fit(kept.y, x.mesh(), {x.rows(), out_}, {x.quanta().rows, quantum_});
    for_each_piece(y, [&](std::size_t gate, std::size_t up, std::size_t at, Shape piece) {
      x.mesh().engine().map(y.valid().block(0, at, piece), detail::GatedProduct<F>{},
                            merged.valid().block(0, gate, piece),
                            merged.valid().block(0, up, piece));
    });
    return y;
  }

  /// Returns dX, which is in `kept`, or null if it is not wanted.
  const Input* backward(const Input& x, const Output& dy, const BackwardPass<T, Mesh>& pass,
                        Kept& kept, bool wants_dx)
  {
    const Output& y = *kept.merged.y;
    Output& d = merged_.output_gradient(kept.merged);
    for_each_piece(dy, [&](std::size_t gate, std::size_t up, std::size_t at, Shape piece) {
      x.mesh().engine().for_each(detail::GatedSlopes<F>{}, d.valid().block(0, gate, piece),
                                 d.valid().block(0, up, piece), y.valid().block(0, gate, piece),
                                 y.valid().block(0, up, piece), dy.valid().block(0, at, piece));
    });
    Input* const dx = wants_dx ? &fit_like(kept.dx, x) : nullptr;
    merged_.backward(x, pass.gradients, kept.merged, dx, pass);
    return dx;
  }

  void append_parameters(Parameters<T, Mesh>& list, const std::string& prefix)
  {
    merged_.append_parameters(list, prefix);
  }

 private:
  /// Calls f(first column in G, in U, in Y, shape) for each piece of this rank's columns.
  template <class G>
  void for_each_piece(const Output& y, G f) const
  {
    const MergedColumns gate = merged_.columns(0);
    const MergedColumns up = merged_.columns(1);
    const std::size_t rows = y.valid().rows();
    for (std::size_t at = 0, piece = 0; at < gate.valid; at += gate.width, ++piece)
      f(gate.first + piece * gate.stride, up.first + piece * up.stride, at,
        Shape{rows, std::min(gate.width, gate.valid - at)});
  }

  Merged merged_;
  std::size_t out_;
  std::size_t quantum_;
};

}  // namespace cubist::CUBIST_ABI
