// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// A layer whose type is known only at run time. Networks store lists of such layers.
//
//   A: the matrices between the layers of the network, of one layout or, in an MLP, of one of two

#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "cubist/gradients/parameter.hpp"
#include "cubist/nn/layer.hpp"

namespace cubist::CUBIST_ABI::detail
{

/// A layer whose input and output are matrices of type A.
template <class A, class T>
class AnyLayer
{
 public:
  using Value = T;
  using Mesh = typename A::Mesh;

  virtual ~AnyLayer() = default;
  [[nodiscard]] virtual std::unique_ptr<AnyKept> make_kept() const = 0;
  /// Whether `kept` is from a layer of this type.
  [[nodiscard]] virtual bool fits(const AnyKept& kept) const = 0;
  /// @pre fits(kept)
  virtual const A& forward(const A& x, const Pass& pass, AnyKept& kept) = 0;
  /// Returns dX, or null if it is not wanted.
  virtual const A* backward(const A& x, const A& dy, const BackwardPass<T, Mesh>& pass,
                            AnyKept& kept, bool wants_dx) = 0;
  virtual void append_parameters(Parameters<T, Mesh>& list, const std::string& prefix) = 0;
  /// Makes the layer keep the keys and values of `tokens` tokens, if it has attention.
  virtual void use_cache(std::size_t tokens) = 0;
};

/// Copies the elements of `from` into `kept`, a matrix of the same layout, and returns it.
template <class A>
const A& copy_to(std::optional<A>& kept, const A& from)
{
  const auto source = from.view();
  if (!kept || kept->shape() != source.shape || kept->view().quanta != source.quanta)
    return kept.emplace(from);
  from.mesh().engine().copy(source.padded, kept->view().padded);
  return *kept;
}

/// @tparam L the layer, whose Input and Output are A, or matrices of layouts that A may have
template <class A, LayerType L>
class LayerOf final : public AnyLayer<A, typename L::Value>
{
  using T = typename L::Value;
  using Mesh = typename A::Mesh;
  using X = typename L::Input;
  using Y = typename L::Output;

  struct Kept final : AnyKept
  {
    typename L::Kept of_layer;
    std::optional<A> y, dx;  // references, if A is not the layer's type
  };

 public:
  explicit LayerOf(L layer)
      : layer_{std::move(layer)}
  {
  }

  [[nodiscard]] std::unique_ptr<AnyKept> make_kept() const override
  {
    return std::make_unique<Kept>();
  }
  [[nodiscard]] bool fits(const AnyKept& kept) const override
  {
    return dynamic_cast<const Kept*>(&kept) != nullptr;
  }

  const A& forward(const A& x, const Pass& pass, AnyKept& any) override
  {
    auto& kept = static_cast<Kept&>(any);
    return of_network(layer_.forward(of_layer<X>(x), pass, kept.of_layer), kept.y);
  }

  const A* backward(const A& x, const A& dy, const BackwardPass<T, Mesh>& pass, AnyKept& any,
                    bool wants_dx) override
  {
    auto& kept = static_cast<Kept&>(any);
    const X* const dx =
        layer_.backward(of_layer<X>(x), of_layer<Y>(dy), pass, kept.of_layer, wants_dx);
    return dx ? &of_network(*dx, kept.dx) : nullptr;
  }

  void append_parameters(Parameters<T, Mesh>& list, const std::string& prefix) override
  {
    layer_.append_parameters(list, prefix);
  }

  void use_cache([[maybe_unused]] std::size_t tokens) override
  {
    if constexpr (requires { layer_.use_cache(tokens); }) layer_.use_cache(tokens);
  }

 private:
  template <class Matrix>
  [[nodiscard]] static const Matrix& of_layer(const A& matrix)
  {
    if constexpr (std::is_same_v<A, Matrix>)
      return matrix;
    else
      return matrix.template as<typename Matrix::Layout>();
  }
  template <class Matrix>
  [[nodiscard]] static const A& of_network(const Matrix& matrix, std::optional<A>& reference)
  {
    if constexpr (std::is_same_v<A, Matrix>)
      return matrix;
    else
      return reference.emplace(&matrix);
  }

  L layer_;
};

}  // namespace cubist::CUBIST_ABI::detail
