// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The linear layer on any scheme: Y = X W + b.
//
//   X (M, K) S::Input    W (K, N) S::Weight    b (1, N) cut as Y's columns    Y (M, N) S::Output
//
// W is (in, out). PyTorch's nn.Linear keeps (out, in): load its weights with WeightOrder::out_in
// (io/safetensors.hpp, io/npy.hpp), or scatter their transpose.
//
//   dX = dY W^T    dW = X^T dY    db = sums of dY's columns, all-reduced along the axes that cut M
//
// dX is computed only where the caller asks for it: the first layer of a network does not need it.
// Where products are local, the engine may add b as it writes Y (engine/epilogue.hpp).
//
// W may have LoRA's thin matrices beside it: Y += s (X A) B (nn/dense/lora.hpp). A layer without
// gradients may store W in fewer bits (core/stored_weights.hpp); matmul/stored_product.hpp then
// computes the product.
//
// Elements that one rank sends: what the product sends, and 2(p-1)/p N' for db, with p ranks along
// the axes that cut M, and N' columns on a rank.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "cubist/core/error.hpp"
#include "cubist/core/matrix_view.hpp"
#include "cubist/core/philox.hpp"
#include "cubist/core/random_stream.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/core/stored_weights.hpp"
#include "cubist/engine/epilogue.hpp"
#include "cubist/gradients/gradient_reducer.hpp"
#include "cubist/gradients/parameter.hpp"
#include "cubist/matmul/dist_matmul.hpp"
#include "cubist/matmul/stored_product.hpp"
#include "cubist/matrix/dist_matrix.hpp"
#include "cubist/nn/dense/lora_layer.hpp"
#include "cubist/nn/initial_values.hpp"
#include "cubist/nn/layer.hpp"
#include "cubist/scheme/scheme.hpp"

namespace cubist::CUBIST_ABI
{

/// The options of a linear layer.
struct LinearOptions
{
  bool bias = true;
  std::uint64_t seed = 0;
  /// The layer's number, below 2^16. Layers with the same seed but different numbers draw different
  /// random numbers.
  std::size_t index = 0;
  Gathered gathered = Gathered::kept;
  Method method = Method::automatic;
  Initial initial_weights = Uniform{};  ///< the initial values of W
  Initial initial_bias = Uniform{};     ///< the initial values of the bias
  /// The inputs are padded to a multiple of this; 0 stands for the mesh's quantum.
  std::size_t in_quantum = 0;
  /// The outputs are padded to a multiple of this; 0 stands for the mesh's quantum.
  std::size_t out_quantum = 0;
  /// Whether the layer has gradients. If not, it allocates no memory for them, and has no backward
  /// pass.
  bool gradients = true;
};

namespace detail
{

/// Replaces quanta of 0 by the mesh's quantum.
[[nodiscard]] inline LinearOptions with_quanta(LinearOptions options, std::size_t mesh_quantum)
{
  if (options.in_quantum == 0) options.in_quantum = mesh_quantum;
  if (options.out_quantum == 0) options.out_quantum = mesh_quantum;
  return options;
}

/// Returns the quanta of W.
/// @param options  as with_quanta() returns them
[[nodiscard]] inline Quanta weight_quanta(const LinearOptions& options)
{
  return {options.in_quantum, options.out_quantum};
}

/// Makes the weight of a layer that stores it in fewer bits. Returns null for a layer that does
/// not.
/// @throws ArgumentError for a layer with gradients
template <SchemeType S, class B, Scalar T>
[[nodiscard]] std::shared_ptr<StoredProduct<T, AxisMesh<typename S::Axes, B>>>
stored_weight(const AxisMesh<typename S::Axes, B>& mesh, const LinearOptions& options,
              const WeightStorage<S, B, T>& storage, Shape shape, Quanta quanta)
{
  require<ArgumentError>(storage.type() == StoredWeights::scalar || !options.gradients,
                         "got weights to be stored as ", to_string(storage.type()),
                         " in a layer with gradients, so training steps would be lost in rounding; "
                         "make the model with `.inference = true`, or store scalars");
  return storage.make(mesh, shape, quanta);
}

/// Returns the source of initial values for a weight of `cols` columns in a layer of `in` features.
template <Scalar T, class E>
[[nodiscard]] BlockSource<T> initial_blocks(const E& engine, std::size_t cols,
                                            const Initial& initial, const Philox& random,
                                            std::size_t in)
{
  return {"initial weights", false, [=](const Block& block, MatrixView<T> to) {
            initialize_block(engine, to, block, cols, initial, random, in);
          }};
}

}  // namespace detail

/// @throws ShapeError, MeshError from any call whose matrices do not fit
template <SchemeType S, class B, Scalar T>
class Linear : public LayerWithLora<T, AxisMesh<typename S::Axes, B>>
{
 public:
  /// The product X W and its gradients.
  using Product = DistMatMul<S, B, T>;
  using Mesh = typename Product::Mesh;
  using Input = typename Product::Input;
  using Weight = typename Product::Weight;
  using Output = typename Product::Output;
  /// b (1, out), cut as Y's columns.
  using Bias = DistMatrix<T, RowVector<typename S::Output>, Mesh>;

  /// Draws weights and bias, which are bit-identical on every scheme and mesh. By default they are
  /// uniform in ±1/sqrt(in).
  /// @param storage  how a layer without gradients stores W; in fewer bits, W is rounded
  /// @throws ShapeError for a layer without inputs or outputs, ArgumentError for options out of
  /// range, and for stored weights in a layer with gradients or on an engine without such a product
  Linear(const Mesh& mesh, std::size_t in, std::size_t out, const LinearOptions& options = {},
         const WeightStorage<S, B, T>& storage = {})
      : mesh_{mesh},
        options_{detail::with_quanta(options, mesh.quantum())},
        in_{in},
        out_{out},
        stored_{detail::stored_weight(mesh, options, storage, {in, out},
                                      detail::weight_quanta(options_))},
        w_{mesh, stored_ ? Shape{} : Shape{in, out}, detail::weight_quanta(options_)},
        dw_{gradient_like(w_, options.gradients)},
        b_{mesh, {1, out}, {mesh.quantum(), options_.out_quantum}},
        db_{gradient_like(b_, options.gradients)}
  {
    require<ShapeError>(in > 0 && out > 0, "got a layer from ", in, " to ", out,
                        " features, so it would have no weights; give it at least one of each");
    if (options.bias)
      detail::initialize(b_, options.initial_bias, draw(Draw::bias), in);
    else
      mesh.engine().fill(b_.valid(), T(-Accumulator<T>{}));
    if (stored_)
      stored_->value().set(detail::initial_blocks<T>(mesh.engine(), out, options.initial_weights,
                                                     draw(Draw::weight), in));
    else
      detail::initialize(w_, options.initial_weights, draw(Draw::weight), in);
  }

  [[nodiscard]] const Mesh& mesh() const { return mesh_; }
  /// The number of input features.
  [[nodiscard]] std::size_t in() const { return in_; }
  /// The number of output features.
  [[nodiscard]] std::size_t out() const { return out_; }
  /// The outputs are padded to a multiple of this number.
  [[nodiscard]] std::size_t out_quantum() const { return options_.out_quantum; }
  /// Whether W is stored in fewer bits.
  [[nodiscard]] bool is_stored() const { return stored_ != nullptr; }
  /// W (in, out). If W is stored in fewer bits, this matrix has no elements.
  [[nodiscard]] Weight& weight() { return w_; }
  /// dW (in, out).
  [[nodiscard]] const Weight& weight_gradient() const { return dw_; }
  /// b (1, out).
  /// @pre the layer has a bias
  [[nodiscard]] Bias& bias() { return b_; }
  /// db (1, out).
  [[nodiscard]] const Bias& bias_gradient() const { return db_; }

  /// What `forward` leaves for `backward`.
  struct Kept
  {
    std::optional<Product> product;         ///< its plan, with the operands that it gathered
    std::unique_ptr<detail::AnyKept> lora;  ///< what LoRA's matrices keep
    /// The workspace of the product if W is stored in fewer bits.
    std::unique_ptr<typename StoredProduct<T, Mesh>::Workspace> stored;
  };

  /// Computes Y = X W + b.
  template <class LX, class LY>
  void forward(const DistMatrix<T, LX, Mesh>& x, DistMatrix<T, LY, Mesh>& y)
  {
    forward(x, y, kept_);
  }
  /// Computes Y = X W + b, and leaves in `kept` what `backward` needs.
  template <class LX, class LY>
  void forward(const DistMatrix<T, LX, Mesh>& x, DistMatrix<T, LY, Mesh>& y, Kept& kept,
               const Pass& pass = {}) const
  {
    const detail::Epilogue<T> bias{bias_row()};
    if (stored_)
    {
      multiply_stored(x, y, kept);
      if (options_.bias) detail::apply(mesh_.engine(), bias, y.valid());
    }
    else if (options_.bias)
      product(x, kept).forward(x, w_, y, bias);
    else
      product(x, kept).forward(x, w_, y);
    if (this->pairs_) this->pairs_->forward(x.view(), pass, kept.lora, y.padded());
  }
  /// Computes Z = X W + b and Y = f(Z).
  /// @param f  a function of elements, or a variant of such functions
  /// @pre y has z's shape and padding. It may be z if is_stored(); then f(Z) replaces Z.
  template <class LX, class LY, class F>
  void forward(const DistMatrix<T, LX, Mesh>& x, DistMatrix<T, LY, Mesh>& z, const F& f,
               DistMatrix<T, LY, Mesh>& y, Kept& kept, const Pass& pass = {}) const
  {
    const detail::Epilogue<T, F> epilogue{bias_row(), f, y.valid()};
    if (stored_)
      multiply_stored(x, z, kept);
    else
    {
      auto& p = product(x, kept);
      if (options_.bias && !(this->pairs_ && this->pairs_->is_on()))
        return p.forward(x, w_, z, epilogue);
      p.forward(x, w_, z);
    }
    if (this->pairs_) this->pairs_->forward(x.view(), pass, kept.lora, z.padded());
    detail::apply(mesh_.engine(), epilogue, z.valid());  // b is -0, and z + -0 is z to the bit
  }

  /// Returns zeros with the shape and the padding that `forward` needs for Y.
  template <class LX>
  [[nodiscard]] Output make_output(const DistMatrix<T, LX, Mesh>& x) const
  {
    return {mesh_, {x.rows(), out_}, {x.quanta().rows, options_.out_quantum}};
  }

  /// Returns Y = X W + b in a new matrix.
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

  /// Computes the complete gradients of weight and bias, but not dX.
  /// @pre X is the same as in the last `forward`
  template <class LX, class LY>
  void backward(const DistMatrix<T, LX, Mesh>& x, const DistMatrix<T, LY, Mesh>& dy)
  {
    ImmediateSums<T, Mesh> sums;
    backward(x, dy, sums, kept_, static_cast<Input*>(nullptr));
  }
  /// Computes dX and the complete gradients of weight and bias.
  /// @pre X is the same as in the last `forward`
  template <class LX, class LY, class LDX>
  void backward(const DistMatrix<T, LX, Mesh>& x, const DistMatrix<T, LY, Mesh>& dy,
                DistMatrix<T, LDX, Mesh>& dx)
  {
    ImmediateSums<T, Mesh> sums;
    backward(x, dy, sums, kept_, &dx);
  }

  /// Computes dX unless it is null, and the gradients of weight and bias, which it passes to
  /// `gradients`.
  /// @pre X and `kept` are those of a `forward`
  template <class LX, class LY, class LDX>
  void backward(const DistMatrix<T, LX, Mesh>& x, const DistMatrix<T, LY, Mesh>& dy,
                GradientReducer<T, Mesh>& gradients, Kept& kept, DistMatrix<T, LDX, Mesh>* dx,
                const Pass& pass = {})
  {
    require_like_output(dy, "dY", x.rows());
    if (options_.bias && !bias_is_frozen_)
      mesh_.engine().column_sums(dy.valid(), column_sums().valid());
    backward_from_sums(x, dy, gradients, kept, dx, pass);
  }

  /// Returns the row in which a layer that computes dY writes the sums of dY's columns in the same
  /// pass.
  /// @throws ArgumentError for a layer without gradients
  [[nodiscard]] Bias& column_sums()
  {
    if (!weight_is_frozen_) detail::require_gradient(dw_);
    return db_;
  }
  /// Does what `backward` does, but reads the sums over this rank's rows of dY from column_sums().
  template <class LX, class LY, class LDX>
  void backward_from_sums(const DistMatrix<T, LX, Mesh>& x, const DistMatrix<T, LY, Mesh>& dy,
                          GradientReducer<T, Mesh>& gradients, Kept& kept,
                          DistMatrix<T, LDX, Mesh>* dx, const Pass& pass = {})
  {
    using Pending = typename PendingAxes<typename Bias::Layout, typename S::Output::RowAxes>::type;
    require_like_output(dy, "dY", x.rows());
    if (!weight_is_frozen_) detail::require_gradient(dw_);
    if (options_.bias && !bias_is_frozen_) gradients.sum(mesh_, Pending{}, db_.padded());
    auto& p = product(x, kept);
    if (!weight_is_frozen_)
      gradients.reduce(dw_.padded(),
                       dx ? p.backward_parts(x, w_, dy, *dx, dw_) : p.backward_parts(x, dy, dw_));
    else if (dx)
      p.backward_input(w_, dy, *dx);
    if (!this->pairs_) return;
    const MatrixView<T> to = dx ? dx->padded() : MatrixView<T>{};
    this->pairs_->backward(x.view(), dy.padded(), pass, gradients, kept.lora, dx ? &to : nullptr);
  }

  /// @throws ShapeError, MeshError unless the matrix fits an output of `rows` rows
  template <class L>
  void require_like_output(const DistMatrix<T, L, Mesh>& m, const char* what,
                           std::size_t rows) const
  {
    require<ShapeError>(m.shape() == Shape{rows, out_}, "got ", what, " of ", m.shape(),
                        " for a Y of ", Shape{rows, out_},
                        ", so their elements do not correspond; make it like Y");
    require<MeshError>(m.mesh() == mesh_, "got ", what, " of ", m.shape(),
                       " on a mesh that is not the layer's, so its blocks are on other ranks; make "
                       "it on the layer's mesh");
  }

  /// Appends the layer's parameters, with names that begin with `prefix`.
  void append_parameters(Parameters<T, Mesh>& list, const std::string& prefix)
  {
    list.push_back(freezable_parameter(prefix + "weight", w_, dw_, weight_is_frozen_));
    list.back().lora = this;
    if (stored_) list.back().stored = &stored_->value();
    if (this->pairs_) this->pairs_->append_parameters(list, prefix);
    if (!options_.bias) return;
    Parameter<T, Mesh> bias{prefix + "bias", b_.view(), db_.view()};
    // db stays, because the pass that computes dY with an activation writes it.
    bias.frozen = bias_is_frozen_;
    if (bias_is_frozen_) bias.gradient.shape = {}, bias.gradient.padded = {nullptr, {}};
    bias.freeze = [this] { bias_is_frozen_ = true; };
    list.push_back(bias);
  }

  [[nodiscard]] detail::LoraSite<T, Mesh> lora_site(std::size_t) override
  {
    const std::size_t cols = b_.block().padded().cols;
    return {detail::lora_layout<Mesh, typename S::Input, typename S::Output>(),
            options_.seed,
            1,
            "",
            options_.index,
            {in_, out_},
            w_.view(),
            stored_ ? stored_->stored().type : StoredWeights::scalar,
            {0, cols, 0, 1, cols},
            options_.gradients};
  }

 private:
  using Stored = StoredProduct<T, Mesh>;

  [[nodiscard]] Philox draw(Draw what) const { return stream(options_.seed, what, options_.index); }

  [[nodiscard]] MatrixView<const T> bias_row() const { return b_.valid(); }

  template <class LX, class LY>
  void multiply_stored(const DistMatrix<T, LX, Mesh>& x, DistMatrix<T, LY, Mesh>& y,
                       Kept& kept) const
  {
    detail::require_layout<LX, typename S::Input>();
    detail::require_layout<LY, typename S::Output>();
    require_like_output(y, "Y", x.rows());
    stored_->forward(x.view(), y.view(), kept.stored);
  }

  /// Returns the plan for X's rows, which it makes again when they change.
  template <class LX>
  Product& product(const DistMatrix<T, LX, Mesh>& x, Kept& kept) const
  {
    const ProductSize size{.m = x.rows(), .n = out_, .k = in_};
    const ProductQuanta quanta{
        .m = x.quanta().rows, .n = options_.out_quantum, .k = options_.in_quantum};
    if (!kept.product || kept.product->size() != size || kept.product->quanta() != quanta)
      kept.product.emplace(mesh_, size, options_.gathered, options_.method, quanta);
    return *kept.product;
  }

  Mesh mesh_;
  LinearOptions options_;
  std::size_t in_;
  std::size_t out_;
  std::shared_ptr<Stored> stored_;  // W, if it is stored in fewer bits; then w_ has no elements
  Weight w_;
  Weight dw_;
  Bias b_;  // without a bias, -0
  Bias db_;
  bool weight_is_frozen_ = false;
  bool bias_is_frozen_ = false;
  Kept kept_;  // for calls that pass no Kept
};

}  // namespace cubist::CUBIST_ABI
