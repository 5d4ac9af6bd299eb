// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// A network of the caller's layers in stages (scheme/pipeline.hpp). Each stage makes only its own
// layers, so the network takes functions that make layers rather than layers:
//
//   using Net = PipelinedLayers<Pipeline<S>, B, T>;
//   Net net{mesh, 16, {
//       Net::layer(16, [](const auto& on) {
//         return Sequential{LayerNorm<S, B, T>{on, 16}, Dense<S, B, T>{on, 16, 64, {}, gelu},
//                           Dense<typename S::Next, B, T>{on, 64, 16, {.index = 1}}};
//       }),
//       Net::layer(4, [](const auto& on) { return Dense<S, B, T>{on, 16, 4, {.index = 2}}; })}};
//   loss = net.compute_gradients(x, labels);
//
//   X (M, K) S::Input    between layers: S::Input or S::Next::Input    Y (M, N): the last layer's
//
// The functions are called with the mesh of a stage. A layer after one whose Output is S::Output
// has the Input S::Next::Input, as in a Sequential.
//
// Elements that one rank sends: for each micro-batch, what the layers of its stage and
// nn/pipeline/staged_layers.hpp send.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "cubist/core/error.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/gradients/parameter.hpp"
#include "cubist/mesh/stages.hpp"
#include "cubist/model/pipeline_options.hpp"
#include "cubist/nn/networks/any_layer.hpp"
#include "cubist/nn/networks/network_matrix.hpp"
#include "cubist/nn/pipeline/staged_layers.hpp"
#include "cubist/scheme/pipeline.hpp"

namespace cubist::CUBIST_ABI
{

/// Options of PipelinedLayers.
struct PipelinedLayersOptions
{
  std::uint64_t seed = 0;  ///< the seed that checkpoints compare; layers have their own
  /// The number of layers in a segment, whose activations `backward` recomputes; 0 keeps all.
  std::size_t recompute = 0;
  std::vector<std::string> frozen = {};  ///< patterns of frozen parameters, such as "0.*"
  PipelineOptions pipeline = {};         ///< the cut into stages and micro-batches
};

/// @tparam P Pipeline<S>, or DataParallel<Pipeline<S>>
template <PipelineScheme P, class B, RealScalar T>
class PipelinedLayers : public detail::StagedHandle<P, B, T>
{
  using Base = detail::StagedHandle<P, B, T>;
  using Network = detail::StagedLayers<P, B, T>;
  using S = typename P::StageScheme;
  using OfStage = NetworkMatrix<S, B, T>;
  using AnyLayer = detail::AnyLayer<OfStage, T>;

 public:
  using typename Base::Mesh;
  /// The mesh of a stage, on which layers are made.
  using Stage = StageMesh<Mesh>;

  /// A layer, and how it is made on the mesh of its stage.
  struct Layer
  {
    std::size_t outputs;                                             ///< columns of its output
    bool takes_even;                                                 ///< X is cut like S::Input
    bool gives_even;                                                 ///< Y is cut like S::Input
    std::function<std::unique_ptr<AnyLayer>(const Stage&)> make_on;  ///< makes the layer
  };

  /// @param outputs the columns of the layer's output
  /// @param make makes the layer on the mesh of a stage
  template <class Make>
  [[nodiscard]] static Layer layer(std::size_t outputs, Make make)
  {
    using L = std::invoke_result_t<Make&, const Stage&>;
    constexpr bool takes_even = std::is_same_v<typename L::Input, typename OfStage::Even>;
    constexpr bool gives_even = std::is_same_v<typename L::Output, typename OfStage::Even>;
    static_assert(takes_even || std::is_same_v<typename L::Input, typename OfStage::Odd>,
                  "the input of this layer is not a matrix of the stages, so their blocks would "
                  "not correspond; make the layer with the scheme S of the stages, or S::Next, and "
                  "their backend and scalar");
    static_assert(gives_even || std::is_same_v<typename L::Output, typename OfStage::Odd>,
                  "the output of this layer is not a matrix of the stages, so their blocks would "
                  "not correspond; make the layer with the scheme S of the stages, or S::Next, and "
                  "their backend and scalar");
    return {outputs, takes_even, gives_even, [make](const Stage& mesh) mutable {
              return std::unique_ptr<AnyLayer>{
                  std::make_unique<detail::LayerOf<OfStage, L>>(make(mesh))};
            }};
  }

  /// Makes the layers in this order; their parameters are 0.weight, 1.weight, …, as in a
  /// Sequential. Every rank of the mesh constructs the network.
  /// @param inputs the columns of X
  /// @throws ShapeError if there are no layers, or one's input is not cut like the output before
  /// it; ArgumentError for options out of range, or for more pieces than layers
  PipelinedLayers(const Mesh& mesh, std::size_t inputs, const std::vector<Layer>& layers,
                  const PipelinedLayersOptions& options = {})
      : Base{make(mesh, inputs, layers, options)}
  {
  }

 private:
  [[nodiscard]] static std::unique_ptr<Network> make(const Mesh& mesh, std::size_t inputs,
                                                     const std::vector<Layer>& layers,
                                                     const PipelinedLayersOptions& options)
  {
    auto widths = widths_of(inputs, layers);
    return std::make_unique<Network>(
        mesh, options.seed, std::move(widths), costs_of(mesh, layers), options.pipeline,
        options.recompute, options.frozen, nullptr,
        [&](const Stage& of_stage, std::size_t i) { return layers[i].make_on(of_stage); });
  }
  [[nodiscard]] static detail::LayerWidths widths_of(std::size_t inputs,
                                                     const std::vector<Layer>& layers)
  {
    // X is cut like S::Input; if S::Next is S, so is every other matrix.
    constexpr bool is_one = std::is_same_v<typename OfStage::Even, typename OfStage::Odd>;
    detail::LayerWidths all{{inputs}, {true}, ""};
    for (std::size_t i = 0; i < layers.size(); ++i)
    {
      require<ShapeError>(
          is_one || layers[i].takes_even == all.is_even.back(), "got layer ", i,
          " whose input is not cut like the output of the layer before it, so the blocks of a rank "
          "would not correspond; after a layer of scheme S use one of S::Next, as in a Sequential");
      all.sizes.push_back(layers[i].outputs);
      all.is_even.push_back(layers[i].gives_even);
    }
    return all;
  }
  /// Returns the numbers of parameters of the layers, which stand in for the costs of their
  /// products.
  [[nodiscard]] static std::vector<double> costs_of(const Mesh& mesh,
                                                    const std::vector<Layer>& layers)
  {
    require<ShapeError>(!layers.empty(),
                        "got no layers, so the network would compute nothing; give at least one "
                        "layer for each stage");
    const Stage elsewhere = make_other_stage_mesh(mesh);
    std::vector<double> costs;
    for (const Layer& layer : layers)
    {
      Parameters<T, Stage> list;
      layer.make_on(elsewhere)->append_parameters(list, "");
      double elements = 1;
      for (const auto& p : list) elements += static_cast<double>(p.value.shape.size());
      costs.push_back(elements);
    }
    return costs;
  }
};

}  // namespace cubist::CUBIST_ABI
