// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// A sequence of layers, which is itself a layer. The compiler checks that each layer's Output is
// the Input of the next: after a layer of scheme S comes one of S::Next.
//
//   Sequential net{LayerNorm<S, B, T>{mesh, 64}, Dense<S, B, T>{mesh, 64, 256, {}, gelu},
//                  Dense<typename S::Next, B, T>{mesh, 256, 64, {.index = 1}}};
//
// Elements that one rank sends: what the layers send.

#include <cstddef>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

#include "cubist/gradients/parameter.hpp"
#include "cubist/matrix/state.hpp"
#include "cubist/nn/layer.hpp"

namespace cubist::CUBIST_ABI
{

namespace detail
{

/// Stops the compiler unless each layer's Output is the Input of the next.
template <class Last>
constexpr bool layers_chain()
{
  return true;
}
template <class First, class Second, class... Rest>
constexpr bool layers_chain()
{
  static_assert(std::is_same_v<typename First::Output, typename Second::Input>,
                "the output of layer First of this sequence is not the input of layer Second, "
                "which is next, so the blocks of a rank would not correspond; after a layer of "
                "scheme S put one of scheme S::Next, with the same backend and scalar");
  return layers_chain<Second, Rest...>();
}

}  // namespace detail

template <LayerType... L>
class Sequential
{
  static_assert(detail::layers_chain<L...>());
  static constexpr std::size_t last = sizeof...(L) - 1;
  template <std::size_t i>
  using Layer = std::tuple_element_t<i, std::tuple<L...>>;

 public:
  using Value = typename Layer<0>::Value;
  using Mesh = typename Layer<0>::Mesh;
  using Input = typename Layer<0>::Input;
  using Output = typename Layer<last>::Output;

  /// Chains layers: each reads the output of the one before.
  explicit(sizeof...(L) == 1) Sequential(L... layers)
      : layers_{std::move(layers)...}
  {
  }

  [[nodiscard]] std::tuple<L...>& layers() { return layers_; }

  /// What the layers keep, and each layer's input. It cannot be copied, since it refers to itself.
  class Kept
  {
   public:
    Kept() = default;
    Kept(Kept&&) = delete;

   private:
    friend Sequential;

    std::tuple<typename L::Kept...> layers_;
    std::tuple<const typename L::Input*...> inputs_ = {};
  };

  /// Returns Y, which is in the last layer's part of `kept`.
  const Output& forward(const Input& x, const Pass& pass, Kept& kept)
  {
    kept.inputs_ = {};
    return forward_from<0>(x, pass, kept);
  }

  /// Returns dX, which is in the first layer's part of `kept`, or null if it is not wanted.
  /// @pre X and the pass are those of the `forward` that filled `kept`
  /// @throws ArgumentError if `forward` has not run
  const Input* backward(const Input& x, const Output& dy, const BackwardPass<Value, Mesh>& pass,
                        Kept& kept, bool wants_dx)
  {
    detail::require_forward(std::get<last>(kept.inputs_) != nullptr);
    std::get<0>(kept.inputs_) = &x;
    return backward_from<last>(dy, pass, kept, wants_dx);
  }

  /// Appends the layers' parameters as 0.weight, 1.weight, …
  void append_parameters(Parameters<Value, Mesh>& list, const std::string& prefix)
  {
    std::size_t i = 0;
    std::apply(
        [&](auto&... layer) {
          (layer.append_parameters(list, prefix + std::to_string(i++) + "."), ...);
        },
        layers_);
  }

  /// Appends the values of the parameters by name, and whatever the layers' own `append_state`
  /// functions add.
  void append_state(State<Value, Mesh>& state, const std::string& prefix = "")
  {
    std::size_t i = 0;
    std::apply(
        [&](auto&... layer) {
          (detail::append_state_of(layer, state, prefix + std::to_string(i++) + "."), ...);
        },
        layers_);
  }

 private:
  template <std::size_t i>
  const Output& forward_from(const typename Layer<i>::Input& x, const Pass& pass, Kept& kept)
  {
    const auto& y = std::get<i>(layers_).forward(x, pass, std::get<i>(kept.layers_));
    std::get<i>(kept.inputs_) = &x;
    if constexpr (i == last)
      return y;
    else
      return forward_from<i + 1>(y, pass, kept);
  }
  template <std::size_t i>
  const Input* backward_from(const typename Layer<i>::Output& dy,
                             const BackwardPass<Value, Mesh>& pass, Kept& kept, bool wants_dx)
  {
    const auto* dx = std::get<i>(layers_).backward(*std::get<i>(kept.inputs_), dy, pass,
                                                   std::get<i>(kept.layers_), i > 0 || wants_dx);
    if constexpr (i == 0)
      return dx;
    else
      return backward_from<i - 1>(*dx, pass, kept, wants_dx);
  }

  std::tuple<L...> layers_;
};

template <class... L>
Sequential(L...) -> Sequential<L...>;

}  // namespace cubist::CUBIST_ABI
