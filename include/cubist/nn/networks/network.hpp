// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The common base of MLP and Transformer: parameters and the reducer of their gradients, the mode
// and the step of dropout masks, the state for checkpoints, and memory for evaluation.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "cubist/core/error.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/gradients/parameter.hpp"
#include "cubist/matrix/state.hpp"
#include "cubist/nn/layer.hpp"
#include "cubist/nn/training_step.hpp"

namespace cubist::CUBIST_ABI::detail
{

/// What the `forward` of a network leaves for `backward`.
class NetworkKept
{
 public:
  virtual ~NetworkKept() = default;
  /// Whether a `forward` has succeeded and no `backward` has followed it.
  [[nodiscard]] virtual bool awaits_backward() const = 0;
};

/// The base class of networks. Handles forward its public calls, and say what they do
/// (network_handle.hpp). A program that links to the compiled library compiles none of the virtual
/// functions.
/// @tparam M the mesh
template <RealScalar T, class M>
class Network
{
 public:
  using Value = T;
  using Mesh = M;

  virtual ~Network() = default;
  // Handles move instead (network_handle.hpp), so members may refer to one another.
  Network(Network&&) = delete;

  [[nodiscard]] const Mesh& mesh() const { return mesh_; }

  [[nodiscard]] virtual Parameters<T, Mesh> parameters()
  {
    Parameters<T, Mesh> list;
    append_parameters(list);
    for (auto& p : list) p.gradients = gradients_;
    return list;
  }
  virtual void append_parameters(Parameters<T, Mesh>& list) = 0;

  [[nodiscard]] Gradients<T, Mesh>& gradients() { return *gradients_; }

  virtual void append_state(State<T, Mesh>& state, const std::string& prefix = "")
  {
    for (const auto& p : parameters())
    {
      require_elements(p, "a checkpoint");
      state.matrices.push_back({prefix + p.name, p.value});
    }
    state.numbers.push_back({prefix + "seed", &seed_, true});
    state.numbers.push_back({prefix + "forwards", &steps_});
  }

  void train()
  {
    require_training("train");
    training_ = true;
  }
  void eval() { training_ = false; }
  [[nodiscard]] bool training() const { return training_; }

 protected:
  Network(const Mesh& mesh, std::uint64_t seed, bool is_inference = false)
      : mesh_{mesh},
        is_inference_{is_inference},
        gradients_{make_gradients<T>(mesh)},
        seed_{seed}
  {
  }

  /// @throws ArgumentError for a network that was made for inference
  void require_training(const char* call) const
  {
    require<ArgumentError>(!is_inference_, "got ", call,
                           " for a model that was made for inference, which has no memory for "
                           "gradients; make it without `.inference = true`");
  }

  /// Returns the pass of the next `forward`; in training mode, it has its own masks.
  [[nodiscard]] Pass next_pass(std::size_t sequence = 1)
  {
    Pass pass{.sequence = sequence};
    if (training_) pass.training_step = next_step(mesh_.engine(), steps_);
    return pass;
  }

  /// Begins a backward pass and returns the reducer for its gradients; the network calls `finish`
  /// at its end.
  [[nodiscard]] GradientReducer<T, Mesh>& begin_gradients()
  {
    auto& reducer = gradients_->reducer();
    reducer.begin();
    return reducer;
  }

  Mesh mesh_;
  bool is_inference_;

 private:
  std::shared_ptr<Gradients<T, Mesh>> gradients_;
  bool training_ = !is_inference_;
  std::uint64_t seed_;
  std::uint64_t steps_ = 0;  // the number of forward passes in training mode
};

/// The memory of a network's passes: one Kept for the last `forward`, and another for evaluations
/// while it waits for `backward`.
template <class Kept>
class KeptOfNetwork
{
 public:
  [[nodiscard]] Kept& of_forward() { return forward_; }
  [[nodiscard]] Kept& for_evaluation()
  {
    if (!forward_.awaits_backward()) return forward_;
    return evaluation_ ? *evaluation_ : evaluation_.emplace();
  }

 private:
  Kept forward_;
  std::optional<Kept> evaluation_;
};

}  // namespace cubist::CUBIST_ABI::detail
