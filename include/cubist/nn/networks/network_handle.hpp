// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The calls that MLP and Transformer share on every scheme, in stages or not. A handle owns its
// network and moves in its place, so the network itself need not be movable.

#include <memory>
#include <string>
#include <utility>

#include "cubist/gradients/parameter.hpp"
#include "cubist/matrix/state.hpp"
#include "cubist/nn/networks/network.hpp"

namespace cubist::CUBIST_ABI::detail
{

/// @tparam N the interface of the network: a class derived from Network (network.hpp)
template <class N>
class NetworkHandle
{
 public:
  using Value = typename N::Value;
  using Mesh = typename N::Mesh;

  [[nodiscard]] const Mesh& mesh() const { return network_->mesh(); }

  /// Returns the parameters, with their names and gradients.
  [[nodiscard]] Parameters<Value, Mesh> parameters() { return network_->parameters(); }
  /// Appends the parameters, but does not connect them to gradients().
  void append_parameters(Parameters<Value, Mesh>& list) { network_->append_parameters(list); }
  /// Returns what decides where the gradients go; `gradients().buckets().set({.bytes = …})` changes
  /// the size of buckets.
  [[nodiscard]] Gradients<Value, Mesh>& gradients() { return network_->gradients(); }
  /// Appends the parameters' values by name, and the seed and step of the next dropout masks.
  void append_state(State<Value, Mesh>& state, const std::string& prefix = "")
  {
    network_->append_state(state, prefix);
  }

  /// Switches to training mode, in which dropout applies. A new network is in this mode, unless it
  /// was made for inference.
  /// @throws ArgumentError for a network that was made for inference
  void train() { network_->train(); }
  /// Switches dropout off.
  void eval() { network_->eval(); }
  /// Whether dropout is applied.
  [[nodiscard]] bool training() const { return network_->training(); }

  /// What `forward` leaves for `backward`, if the network has both.
  class Kept
  {
   public:
    /// Whether a `forward` has succeeded and no `backward` has followed it.
    [[nodiscard]] bool awaits_backward() const { return kept_ && kept_->awaits_backward(); }

   private:
    friend NetworkHandle;

    std::unique_ptr<NetworkKept> kept_;
  };

 protected:
  explicit NetworkHandle(std::unique_ptr<N> network)
      : network_{std::move(network)}
  {
  }

  [[nodiscard]] N& network() const { return *network_; }
  /// Returns the network's part of `kept`, which the first call makes.
  [[nodiscard]] NetworkKept* of(Kept& kept) const
  {
    if (!kept.kept_) kept.kept_ = network_->make_kept();
    return kept.kept_.get();
  }

 private:
  std::unique_ptr<N> network_;
};

}  // namespace cubist::CUBIST_ABI::detail
