// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The linear layer, on any scheme: Y = X W + b; or with an activation, Z = X W + b and Y = f(Z).
//
//   X (M, K) S::Input    W (K, N) S::Weight    b (1, N) cut as Y's columns    Y, Z (M, N) S::Output
//
// W is (in, out). PyTorch's nn.Linear keeps (out, in): load its weights with WeightOrder::out_in
// (io/safetensors.hpp, io/npy.hpp), or scatter their transpose.
//
//   dX = dY W^T    dW = X^T dY    db = sums of dY's columns, all-reduced along the axes that cut M
//
// dX is computed only where it is asked for: the first layer of a network does not need it.
//
// and with an activation, dZ = f'(Z) dY in place of dY. Where products are local, an engine may add
// b and apply f as it writes Z (engine/affine.hpp).
//
// Words: those of the product, and 2(p-1)/p N' for db, p being the ranks along those axes and N' a
// rank's columns.

#include <cstddef>
#include <optional>
#include <string>
#include <utility>

#include "cubist/core/error.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/dist/dist_matrix.hpp"
#include "cubist/engine/affine.hpp"
#include "cubist/engine/functions.hpp"
#include "cubist/matmul/dist_matmul.hpp"
#include "cubist/nn/activate.hpp"
#include "cubist/nn/linear_options.hpp"
#include "cubist/nn/parameter.hpp"
#include "cubist/nn/random.hpp"
#include "cubist/scheme/scheme.hpp"

namespace cubist::CUBIST_ABI
{

/// @throws ShapeError, MeshError from every call, for matrices that do not fit
template <SchemeType S, class B, Scalar T>
class Linear
{
 public:
  /// The product.
  using Product = DistMatMul<S, B, T>;
  using Mesh = typename Product::Mesh;
  using Input = typename Product::Input;
  using Weight = typename Product::Weight;
  using Output = typename Product::Output;
  /// The bias (1, out), cut as the columns of the output.
  using Bias = DistMatrix<T, RowVector<typename S::Output>, Mesh>;

  /// Weights and bias begin with the same bits on every scheme and mesh; by default they are
  /// uniform in ±1/sqrt(in).
  /// @throws ShapeError for a layer without inputs or outputs, ArgumentError for options out of
  /// range
  Linear(const Mesh& mesh, std::size_t in, std::size_t out, const LinearOptions& options = {})
      : mesh_{mesh}, options_{detail::with_quanta(options, mesh.quantum())}, in_{in}, out_{out},
        w_{mesh, {in, out}, {options_.in_quantum, options_.out_quantum}}, dw_{w_},
        b_{mesh, {1, out}, {mesh.quantum(), options_.out_quantum}}, db_{b_}
  {
    require<ShapeError>(in > 0 && out > 0, "got a layer from ", in, " to ", out,
                        " features, which has no weights; give it at least one of each");
    const auto draw = [&](Draw what) { return stream(options_.seed, what, options_.index); };
    detail::initialize(w_, options.initial_weights, draw(Draw::weight), in);
    if (options.bias)
      detail::initialize(b_, options.initial_bias, draw(Draw::bias), in);
    else
      mesh.engine().fill(b_.valid(), T(-Accumulator<T>{}));
  }

  /// The number of input features.
  [[nodiscard]] std::size_t in() const { return in_; }
  /// The number of output features.
  [[nodiscard]] std::size_t out() const { return out_; }
  /// What the outputs are padded to a multiple of.
  [[nodiscard]] std::size_t out_quantum() const { return options_.out_quantum; }
  /// W (in, out).
  [[nodiscard]] Weight& weight() { return w_; }
  /// dW (in, out), complete after `finish_backward`.
  [[nodiscard]] const Weight& weight_gradient() const { return dw_; }
  /// @pre the layer has a bias
  [[nodiscard]] Bias& bias() { return b_; }
  /// Db (1, out), complete after `finish_backward`.
  [[nodiscard]] const Bias& bias_gradient() const { return db_; }

  /// Y = X W + b
  template <class LX, class LY>
  void forward(const DistMatrix<T, LX, Mesh>& x, DistMatrix<T, LY, Mesh>& y)
  {
    auto& p = product(x);
    if (options_.bias && p.is_local())
      return p.forward_locally(x, w_, y, [&](auto x_mine, auto w_mine, auto y_mine) {
        detail::affine(mesh_.engine(), x_mine, w_mine, bias_row(), y_mine);
      });
    p.forward(x, w_, y);
    if (options_.bias)
      mesh_.engine().for_each(detail::Add{}, y.valid(), bias_row().repeated(y.valid().rows()));
  }

  /// Z = X W + b, Y = f(Z), f being an activation function or an Activation
  template <class LX, class LY, class F>
  void forward(const DistMatrix<T, LX, Mesh>& x, F f, DistMatrix<T, LY, Mesh>& z,
               DistMatrix<T, LY, Mesh>& y)
  {
    check("Y", y, "Z", z.shape());
    auto& p = product(x);
    if (options_.bias && p.is_local())
      return p.forward_locally(x, w_, z, [&](auto x_mine, auto w_mine, auto z_mine) {
        detail::multiply_and_activate(mesh_.engine(), x_mine, w_mine, bias_row(), f, z_mine,
                                      y.valid());
      });
    p.forward(x, w_, z);
    detail::add_and_activate(mesh_.engine(), f, z.valid(), y.valid(),
                             bias_row().repeated(z.valid().rows()));
  }

  /// Zeros for Y = X W + b, padded as `forward` needs it.
  template <class LX>
  [[nodiscard]] Output make_output(const DistMatrix<T, LX, Mesh>& x) const
  {
    return {mesh_, {x.rows(), out_}, {x.quanta().rows, options_.out_quantum}};
  }

  /// Y = X W + b, in a new matrix.
  template <class LX>
  [[nodiscard]] Output forward(const DistMatrix<T, LX, Mesh>& x)
  {
    Output y = make_output(x);
    forward(x, y);
    return y;
  }
  /// Does not compile: X is not distributed.
  template <class X>
  requires(!detail::DistMatrixOf<X, T, Mesh>) Output forward(const X&)
  {
    detail::require_distributed<X, T, Mesh>();
    return {mesh_, {}};
  }

  /// The gradients of weight and bias, without dX.
  /// @pre X is that of the last `forward`
  template <class LX, class LY>
  void backward(const DistMatrix<T, LX, Mesh>& x, const DistMatrix<T, LY, Mesh>& dy)
  {
    start_backward(x, dy);
    finish_backward();
  }

  /// dX, and the gradients of weight and bias.
  /// @pre X is that of the last `forward`
  template <class LX, class LY, class LDX>
  void backward(const DistMatrix<T, LX, Mesh>& x, const DistMatrix<T, LY, Mesh>& dy,
                DistMatrix<T, LDX, Mesh>& dx)
  {
    start_backward(x, dy, &dx);
    finish_backward();
  }

  /// The same, dX only where `dx` is given, but the gradients of weight and bias are complete only
  /// after `finish_backward`: their sums over replicas overlap with the backward passes of the
  /// layers before this one.
  /// @pre X is that of the last `forward`
  template <class LX, class LY, class LDX = typename S::Input>
  void start_backward(const DistMatrix<T, LX, Mesh>& x, const DistMatrix<T, LY, Mesh>& dy,
                      DistMatrix<T, LDX, Mesh>* dx = nullptr)
  {
    finish_backward();  // an earlier one, which an error interrupted
    check("dY", dy, "Y", {x.rows(), out_});
    if (options_.bias) mesh_.engine().column_sums(dy.valid(), db_.valid());
    start_gradients(x, dy, dx);
  }
  template <class LX, class LY, class LDX>
  void start_backward(const DistMatrix<T, LX, Mesh>& x, const DistMatrix<T, LY, Mesh>& dy,
                      DistMatrix<T, LDX, Mesh>& dx)
  {
    start_backward(x, dy, &dx);
  }

  /// The same for Y = f(Z); also computes dZ = f'(Z) dY, which may be dY.
  /// @pre X and Z are those of the last `forward`
  template <class LX, class LY, class F, class LDX = typename S::Input>
  void start_backward(const DistMatrix<T, LX, Mesh>& x, F f, const DistMatrix<T, LY, Mesh>& z,
                      const DistMatrix<T, LY, Mesh>& dy, DistMatrix<T, LY, Mesh>& dz,
                      DistMatrix<T, LDX, Mesh>* dx = nullptr)
  {
    finish_backward();
    const Shape y{x.rows(), out_};
    check("Z", z, "Y", y), check("dY", dy, "Y", y), check("dZ", dz, "Y", y);
    detail::slopes_and_sums(mesh_.engine(), f, z.valid(), dy.valid(), dz.valid(), db_.valid());
    start_gradients(x, dz, dx);
  }
  template <class LX, class LY, class F, class LDX>
  void start_backward(const DistMatrix<T, LX, Mesh>& x, F f, const DistMatrix<T, LY, Mesh>& z,
                      const DistMatrix<T, LY, Mesh>& dy, DistMatrix<T, LY, Mesh>& dz,
                      DistMatrix<T, LDX, Mesh>& dx)
  {
    start_backward(x, f, z, dy, dz, &dx);
  }

  void finish_backward()
  {
    db_sum_.wait();
    dw_sum_.wait();
  }

  /// Appends the layer's parameters, with names that begin with `prefix`.
  void append_parameters(Parameters<T, Mesh>& list, const std::string& prefix)
  {
    list.push_back({prefix + "weight", w_.view(), dw_.view()});
    if (options_.bias) list.push_back({prefix + "bias", b_.view(), db_.view()});
  }

  /// Exchanges the plans of products, with their workspaces and what they keep of the last forward.
  void swap_workspace(Linear& other) { std::swap(product_, other.product_); }

 private:
  [[nodiscard]] MatrixView<const T> bias_row() const { return b_.valid(); }

  template <class L>
  void check(const char* what, const DistMatrix<T, L, Mesh>& m, const char* like, Shape shape) const
  {
    require<ShapeError>(m.shape() == shape, "got ", what, " of ", m.shape(), " for a ", like,
                        " of ", shape, ", so their elements do not correspond; make it like ",
                        like);
    require<MeshError>(m.mesh() == mesh_, "got ", what, " of ", m.shape(),
                       " on another mesh than the layer's, so its blocks lie on other ranks; make "
                       "it on the layer's mesh");
  }

  /// Computes dX if it is wanted, and dW; starts the sums of dW and of db, which has this rank's
  /// sums.
  template <class LX, class LY, class LDX>
  void start_gradients(const DistMatrix<T, LX, Mesh>& x, const DistMatrix<T, LY, Mesh>& dy,
                       DistMatrix<T, LDX, Mesh>* dx)
  {
    using Pending = typename PendingAxes<typename Bias::Layout, typename S::Output::RowAxes>::type;
    if (options_.bias) db_sum_ = sum_replicas(mesh_, Pending{}, db_.padded());
    auto& p = product(x);
    dw_sum_ = dx ? p.start_backward(x, w_, dy, *dx, dw_) : p.start_backward(x, dy, dw_);
  }

  /// The plan for X's rows; a new one when they change.
  template <class LX>
  Product& product(const DistMatrix<T, LX, Mesh>& x)
  {
    const ProductSize size{.m = x.rows(), .n = out_, .k = in_};
    const ProductQuanta quanta{
        .m = x.quanta().rows, .n = options_.out_quantum, .k = options_.in_quantum};
    if (!product_ || product_->size() != size || product_->quanta() != quanta)
      product_.emplace(mesh_, size, options_.gathered, options_.method, quanta);
    return *product_;
  }

  Mesh mesh_;
  LinearOptions options_;
  std::size_t in_;
  std::size_t out_;
  Weight w_;
  Weight dw_;
  Bias b_;  // without a bias, -0
  Bias db_;
  std::optional<Product> product_;
  ReplicaSum<typename B::Communicator> dw_sum_;
  ReplicaSum<typename B::Communicator> db_sum_;
};

}  // namespace cubist::CUBIST_ABI
