// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// A parameter of a network, for optimizers and for users: `gather` collects its value or gradient
// on rank 0, `scatter` sets it from there. The shape of a weight is (in, out), and not (out, in) as
// in PyTorch.

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cubist/core/block.hpp"
#include "cubist/core/error.hpp"
#include "cubist/core/instances.hpp"
#include "cubist/core/matrix_view.hpp"
#include "cubist/core/stored_weights.hpp"
#include "cubist/engine/stored_weight.hpp"
#include "cubist/gradients/gradient_buckets.hpp"
#include "cubist/matrix/dist_matrix.hpp"

namespace cubist::CUBIST_ABI
{

struct LoraOptions;  // model/lora_options.hpp

/// A layer whose weights may have thin matrices A and B beside them, which add_lora() makes
/// (nn/dense/lora.hpp). A layer of several weights numbers them from 0.
class LoraLayer
{
 public:
  virtual ~LoraLayer() = default;
  /// Removes A and B.
  virtual void remove_lora(std::size_t weight) = 0;
  /// Returns the options of a weight's A and B, or null if it has none.
  [[nodiscard]] virtual const LoraOptions* lora(std::size_t weight) const = 0;
  /// Adds s A B to W. From then on, A and B are not parameters.
  virtual void merge_lora(std::size_t weight, bool keeps_original) = 0;
  /// Restores W and the parameters A and B.
  /// @throws ArgumentError if the original W was not kept
  virtual void unmerge_lora(std::size_t weight) = 0;

 protected:
  LoraLayer() = default;
  /// Copied with the layer.
  LoraLayer(const LoraLayer&) = default;
  /// Assigned with the layer.
  LoraLayer& operator=(const LoraLayer&) = default;
};

/// References to the value and gradient of a parameter, valid as long as the network exists.
template <class T, class M>
struct Parameter
{
  std::string name;         // "layers.0.weight"
  DistView<T, M> value;     ///< refers to the value
  DistView<T, M> gradient;  ///< refers to the gradient
  /// Where the gradients of the parameter's network go; null for a layer that is in no network.
  std::shared_ptr<Gradients<T, M>> gradients = {};
  /// Whether AdamW decays the value unless its options say otherwise. It does not decay the biases
  /// and norms of a transformer.
  bool decays = true;
  /// Whether the parameter is frozen. If so, `backward` computes no gradient, the gradient has no
  /// elements, and optimizers do not change the value.
  bool frozen = false;
  /// Freezes the parameter for good, which invalidates lists of parameters that were made before.
  /// Null for a layer that always computes the gradient.
  std::function<void()> freeze = {};
  /// The layer of a weight that may have LoRA's matrices beside it; null for other parameters.
  LoraLayer* lora = nullptr;
  std::size_t lora_weight = 0;  ///< the number of the weight in that layer
  /// The value, if it is not stored as elements of T; `value` then has none. Otherwise null.
  const StoredValue<T>* stored = nullptr;

  /// The shape of the value.
  [[nodiscard]] Shape shape() const { return stored ? stored->shape : value.shape; }
  /// The size of the value in bytes.
  [[nodiscard]] double bytes() const
  {
    return stored_bytes(stored ? stored->type : StoredWeights::scalar, shape(), sizeof(T));
  }
};

namespace detail
{

/// Checks that a parameter's value is stored as elements.
/// @throws ArgumentError for a parameter whose value has no elements of T
template <class P>
void require_elements(const P& parameter, const char* call)
{
  require<ArgumentError>(
      !parameter.stored, "got ", call, " for a model whose ", parameter.name,
      " is stored in fewer bits, so its values are lost; make a model that stores "
      "scalars");
}

/// Checks that a layer has memory for its gradient.
/// @throws ArgumentError for a layer that was made without gradients
template <class Gradient>
void require_gradient(const Gradient& gradient)
{
  require<ArgumentError>(gradient.has_elements(),
                         "got backward for a layer that was made without gradients, so there is no "
                         "memory for them; make the model without `.inference = true`");
}

}  // namespace detail

/// The parameters of a network, as optimizers take them.
template <class T, class M>
using Parameters = std::vector<Parameter<T, M>>;

/// Makes a parameter that can be frozen, for a layer's `append_parameters`. Once it is frozen, the
/// layer leaves out the gradient, and the gradient's memory is freed.
/// @param frozen the layer's flag, which `freeze` sets
template <class Matrix>
[[nodiscard]] auto freezable_parameter(std::string name, Matrix& value, Matrix& gradient,
                                       bool& frozen)
{
  using P = Parameter<typename Matrix::Value, typename Matrix::Mesh>;
  P p{std::move(name), value.view(), gradient.view()};
  p.frozen = frozen;
  p.freeze = [&gradient, &frozen] {
    if (!std::exchange(frozen, true))
      gradient = Matrix{gradient.mesh(), Shape{}, gradient.quanta()};
  };
  return p;
}

/// The instances of the compiled library (cubist/core/instances.hpp).
#define CUBIST_GRADIENTS_INSTANCES(prefix, M, T)                                                   \
  CUBIST_INSTANCE(prefix, detail::make_gradients<T, M>)
CUBIST_FOR_MESH_SCALARS(CUBIST_GRADIENTS_INSTANCES)

}  // namespace cubist::CUBIST_ABI
