// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// A multi-layer perceptron in stages (scheme/pipeline.hpp): the MLP of mlp.hpp with its layers on
// several meshes of scheme S, one after the other.
//
//   X (M, sizes[0]) S::Input    Y (M, sizes[L]): S::Input if L is even, S::Output if it is odd,
//   both replicated along the stages
//
//   MLP<Pipeline<S>, B, T> mlp{mesh, sizes, {.pipeline = {.micro_batches = 8}}};
//   const double loss = mlp.compute_gradients(x, labels);
//   optimizer.step(parameters);
//
// Each micro-batch has its own forward pass and dropout masks, like the batches of a
// GradientAccumulation. Micro-batches are consecutive rows of X, and the gradient is that of the
// mean loss over all rows.
//
// Elements that one rank sends: for each micro-batch, what the layers of its stage and the links to
// other stages (nn/pipeline/stage_links.hpp) send; on the first stage, what
// nn/pipeline/stage_rows.hpp sends for X; and one number for the loss.

#include <cstddef>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "cubist/core/scalar.hpp"
#include "cubist/mesh/stages.hpp"
#include "cubist/model/lora_options.hpp"
#include "cubist/model/pipeline_options.hpp"
#include "cubist/nn/dense/lora.hpp"
#include "cubist/nn/networks/mlp.hpp"
#include "cubist/nn/pipeline/staged_layers.hpp"
#include "cubist/scheme/pipeline.hpp"

namespace cubist::CUBIST_ABI
{

/// @tparam P Pipeline<S>, or DataParallel<Pipeline<S>>
template <PipelineScheme P, BackendWithItsHeader B, RealScalar T>
class MLP<P, B, T> : public detail::StagedHandle<P, B, T>
{
  using Base = detail::StagedHandle<P, B, T>;
  using Layers = detail::StagedLayers<P, B, T>;

 public:
  using typename Base::Mesh;

  /// Makes layers from sizes[0] to sizes[1] features, from there to sizes[2], and so on. Their
  /// parameters are layers.0.weight, layers.0.bias, layers.1.weight, …
  /// @throws ShapeError for fewer than two sizes or one of 0, ArgumentError for options out of
  /// range, or for more pieces than layers
  MLP(const Mesh& mesh, const std::vector<std::size_t>& sizes, const MlpOptions& options = {})
      : Base{make(mesh, sizes, options, nullptr)}
  {
  }
  /// Makes the same network with LoRA beside the layers that `lora` names (nn/networks/mlp.hpp).
  MLP(const Mesh& mesh, const std::vector<std::size_t>& sizes, const MlpOptions& options,
      const std::optional<LoraOptions>& lora)
      : Base{make(mesh, sizes, options, detail::lora_request<T, StageMesh<Mesh>>(lora).get())}
  {
  }

 private:
  [[nodiscard]] static std::unique_ptr<Layers> make(const Mesh& mesh,
                                                    const std::vector<std::size_t>& sizes,
                                                    const MlpOptions& options,
                                                    detail::LoraRequest<T, StageMesh<Mesh>>* lora)
  {
    auto widths = detail::mlp_widths(sizes);
    std::vector<double> costs;
    for (std::size_t i = 0; i + 1 < sizes.size(); ++i)
      costs.push_back(static_cast<double>(sizes[i]) * static_cast<double>(sizes[i + 1]));
    return std::make_unique<Layers>(
        mesh, options.seed, std::move(widths), costs, options.pipeline, options.recompute,
        options.frozen, lora, [&](const auto& of_stage, std::size_t i) {
          return detail::make_mlp_layer<typename P::StageScheme, B, T>(of_stage, sizes, options, i);
        });
  }
};

}  // namespace cubist::CUBIST_ABI
