// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Merges LoRA's matrices into the weights that they belong to, W += s A B, so that a network
// computes the same without them, and takes them out again.
//
// Elements that one rank sends: each A (in, r) and each B (r, out) is summed over the c ranks that
// cut it, which sends 2 (c-1)/c of its elements.

#include <cstddef>
#include <cstdint>

#include "cubist/core/error.hpp"
#include "cubist/gradients/parameter.hpp"

namespace cubist::CUBIST_ABI
{

/// Whether merging keeps a copy of each weight, which `unmerge_lora` needs.
enum class KeepWeights : std::uint8_t
{
  no,  ///< keeps none, so `unmerge_lora` is an error
  yes  ///< keeps all; this takes as much memory as the weights
};

namespace detail
{

/// Calls f(layer, weight) for each weight of a network that has LoRA's matrices.
/// @throws ArgumentError if no weight has them
template <class Net, class F>
void for_each_lora(Net& net, F f)
{
  bool any = false;
  for (const auto& p : net.parameters())
    if (p.lora != nullptr && p.lora->lora(p.lora_weight) != nullptr)
    {
      any = true;
      f(*p.lora, p.lora_weight);
    }
  require<ArgumentError>(any, "got a network without LoRA matrices, so there is nothing to merge "
                              "or unmerge; make it with LoraOptions, or call load_adapter");
}

}  // namespace detail

/// Adds s A B to each weight of the network that has A and B. After that, A and B are no longer
/// parameters, so save_weights() writes the whole model. Parameters listed before the call are no
/// longer valid. Every rank of the mesh calls it.
/// @throws ArgumentError for a network without LoRA
template <class Net>
void merge_lora(Net& net, KeepWeights keep = KeepWeights::no)
{
  detail::for_each_lora(net, [&](LoraLayer& layer, std::size_t weight) {
    layer.merge_lora(weight, keep == KeepWeights::yes);
  });
}

/// Restores each W to the bits that it had before `merge_lora`, and lists A and B among the
/// parameters again.
/// @throws ArgumentError for a network without LoRA, or if `merge_lora` kept no weights
template <class Net>
void unmerge_lora(Net& net)
{
  detail::for_each_lora(net,
                        [](LoraLayer& layer, std::size_t weight) { layer.unmerge_lora(weight); });
}

}  // namespace cubist::CUBIST_ABI
