// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// How a linear layer takes LoRA's thin matrices (nn/dense/lora.hpp) beside its weights.
//
//   X (M, K) S::Input    W_i (K, N_i)    Y (M, N) S::Output
//   Y_i = X W_i + s (X A_i) B_i, in columns of Y
//
// A layer describes each of its weights in a LoraSite, and calls the virtual functions of
// LoraPairs. Only add_lora() in nn/dense/lora.hpp makes an object with these functions, so a
// program that does not ask for LoRA does not compile it. A layer without A and B sends nothing for
// them.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "cubist/algorithm/local_product.hpp"
#include "cubist/core/matrix_view.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/core/stored_weights.hpp"
#include "cubist/gradients/gradient_reducer.hpp"
#include "cubist/gradients/parameter.hpp"
#include "cubist/matrix/dist_matrix.hpp"
#include "cubist/matrix/layout.hpp"
#include "cubist/nn/layer.hpp"

namespace cubist::CUBIST_ABI
{

/// Where the columns of one Y_i are in this rank's block of Y.
struct MergedColumns
{
  std::size_t first = 0;   // the first column of its first piece
  std::size_t width = 0;   // the width of a piece
  std::size_t stride = 0;  // the distance from one piece to the next
  std::size_t pieces = 0;  // the pieces in this rank's block
  std::size_t valid = 0;   // the columns in all pieces that are not padding
};

template <Scalar T, class M>
class LayerWithLora;

namespace detail
{

/// Where LoRA's matrices are, and along which axes their products are moved. A set of axes is a
/// number whose bits are axes (Axes::bits).
template <class M>
struct LoraLayout
{
  /// The axes along which a thin product is gathered, scattered and reduced (ThinMove).
  struct Move
  {
    unsigned gathered, scattered, reduced;
  };

  unsigned x_rows, x_cols;               ///< the axes that cut X
  unsigned y_rows, y_cols;               ///< the axes that cut Y
  Move to_y;                             ///< for P = X A
  Move to_x;                             ///< for dP = dY B^T
  std::shared_ptr<const BlockMap<M>> a;  ///< A (in, r), rows cut as X's columns
  std::shared_ptr<const BlockMap<M>> b;  ///< B (r, out), columns cut as Y's
};

template <class M, class Move>
inline constexpr
    typename LoraLayout<M>::Move lora_move{bits_of<typename M::Axes>(typename Move::Gathered{}),
                                           bits_of<typename M::Axes>(typename Move::Scattered{}),
                                           bits_of<typename M::Axes>(typename Move::Reduced{})};

/// Returns the layout for a linear layer whose X and Y have these layouts.
template <class M, class X, class Y, class XRows = typename X::RowAxes,
          class XCols = typename X::ColAxes, class YRows = typename Y::RowAxes,
          class YCols = typename Y::ColAxes>
[[nodiscard]] LoraLayout<M> lora_layout()
{
  using A = typename M::Axes;
  return {bits_of<A>(XRows{}),
          bits_of<A>(XCols{}),
          bits_of<A>(YRows{}),
          bits_of<A>(YCols{}),
          lora_move<M, ThinMove<XRows, YRows, XCols>>,
          lora_move<M, ThinMove<YRows, XRows, YCols>>,
          LayoutBlocks<M>::template get<Transposed<RowVector<X>>>(),
          LayoutBlocks<M>::template get<RowVector<Y>>()};
}

/// A weight of a layer, as LoRA's matrices must know it.
template <class T, class M>
struct LoraSite
{
  LoraLayout<M> layout;
  std::uint64_t seed;     ///< the layer's
  std::size_t weights;    ///< the number of the layer's weights
  std::string name;       ///< what stands before ".weight", or empty
  std::size_t index;      ///< the weight's number in random streams
  Shape shape;            ///< (in, out)
  DistView<T, M> w;       ///< without elements if they are stored in fewer bits
  StoredWeights stored;   ///< how they are stored
  MergedColumns columns;  ///< of Y
  bool has_gradients;     ///< whether A and B are trained
};

/// The pairs of A and B of one layer (nn/dense/lora.hpp).
template <Scalar T, class M>
class LoraPairs
{
 public:
  using Site = LoraSite<T, M>;

  virtual ~LoraPairs() = default;
  /// Gives weight i a pair of A and B, unless it has one.
  /// @throws ArgumentError for another rank or scale than the other weights have, or if a pair is
  /// merged
  virtual void add(LayerWithLora<T, M>& layer, std::size_t i, const LoraOptions& options) = 0;
  /// Removes the pair of weight i, and with it those that share its A.
  /// @throws ArgumentError if a pair is merged
  virtual void remove(std::size_t i) = 0;
  /// The options of weight i's pair, or null if it has none.
  [[nodiscard]] virtual const LoraOptions* options(std::size_t i) const = 0;
  /// Whether a weight has a pair that is not merged.
  [[nodiscard]] virtual bool is_on() const = 0;
  /// Adds s A B to W.
  /// @param keeps  whether to keep the old W for `unmerge`
  /// @throws ArgumentError for a W that is stored in fewer bits
  virtual void merge(std::size_t i, const Site& site, bool keeps) = 0;
  /// Restores the bits that W had before `merge`.
  /// @throws ArgumentError if they were not kept
  virtual void unmerge(std::size_t i, const DistView<T, M>& w) = 0;

  /// Adds s (D X A) B to this rank's block of Y.
  virtual void forward(const DistView<const T, M>& x, const Pass& pass,
                       std::unique_ptr<AnyKept>& kept, MatrixView<T> y) const = 0;
  /// Computes the gradients of A and B, passes them to `gradients`, and adds D dP A^T to dX.
  /// @param dy  this rank's block of dY
  /// @param dx  this rank's block of dX, or null if it is not wanted
  /// @pre X, the pass and `kept` are those of a `forward`
  /// @throws ArgumentError for a layer without gradients, or whose pair is merged
  virtual void backward(const DistView<const T, M>& x, MatrixView<const T> dy, const Pass& pass,
                        GradientReducer<T, M>& gradients, std::unique_ptr<AnyKept>& kept,
                        const MatrixView<T>* dx) = 0;
  /// Appends A and B of each pair that is not merged. They are named `prefix`, the weight's name
  /// and a dot if it has a name, then lora_a or lora_b. An A that several weights share has all
  /// their names.
  virtual void append_parameters(Parameters<T, M>& list, const std::string& prefix) = 0;
};

}  // namespace detail

/// A layer of linear maps on one type of mesh, which add_lora() gives A and B.
template <Scalar T, class M>
class LayerWithLora : public LoraLayer
{
 public:
  using Pairs = detail::LoraPairs<T, M>;  ///< the pairs of A and B

  /// Describes weight i.
  [[nodiscard]] virtual typename Pairs::Site lora_site(std::size_t i) = 0;
  /// The pairs of A and B; null in a layer that never had one.
  [[nodiscard]] std::unique_ptr<Pairs>& lora_pairs() { return pairs_; }

  /// Removes the pair of weight i, and with it those that share its A.
  void remove_lora(std::size_t i) override
  {
    if (pairs_) pairs_->remove(i);
  }
  /// The options of weight i's pair, or null if it has none.
  [[nodiscard]] const LoraOptions* lora(std::size_t i) const override
  {
    return pairs_ ? pairs_->options(i) : nullptr;
  }
  /// Adds s A B to weight i.
  void merge_lora(std::size_t i, bool keeps_original) override
  {
    if (pairs_) pairs_->merge(i, lora_site(i), keeps_original);
  }
  /// Restores the bits that weight i had before it was merged.
  void unmerge_lora(std::size_t i) override
  {
    if (pairs_) pairs_->unmerge(i, lora_site(i).w);
  }

 protected:
  std::unique_ptr<Pairs> pairs_;  ///< null in a layer that never had one
};

}  // namespace cubist::CUBIST_ABI
