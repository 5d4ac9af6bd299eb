// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Predicts steps that others have measured and published, and shows the planner's first choice for
// the same model, GPUs and sequences beside them. Nothing is fitted: the machines' figures are
// measured on one GPU, or published (docs/papers.md).
//
// The prediction is for the program that they ran, and is put together from a plan's parts:
//
//   compute      products and passes of one GPU, which has all layers and its sequences
//   parameters   are sharded (FSDP). In forward each block is gathered while the one before
//                computes, and the longer of the two counts. In backward it is gathered again while
//                nothing computes (Composer's default, BACKWARD_POST), and its gradients are
//                reduced and scattered while the next block computes
//   gradients    of all parameters on each GPU are concatenated (4 bytes an element), cast to float
//                if they are summed in float (6), and divided before the sum (8; 4 in 16 bits)
//   loss         is in float, because autocast casts the logits. It reads and writes 14 bytes for
//                each logit in forward and 22 in backward; a plan counts 8
//   step         runs once for all micro-batches: clipping, and AdamW in ten passes over float
//
// Source: MosaicML, llm-foundry, scripts/train/benchmarking/README.md, tables "H100 80GB BF16" and
// "A100 40GB with 1600 Gbps node-node interconnect", with models of the MPT family on sequences of
// 2048 tokens. Sizes, optimizer and clipping are from scripts/train/yamls/pretrain. The optimizer
// is composer/optim/decoupled_weight_decay.py. Gradients are as in PyTorch 2.0's
// torch/distributed/fsdp/_runtime_utils.py and algorithms/_comm_hooks/default_hooks.py.

#include <string>
#include <vector>

namespace bench
{

/// The names of all published models.
[[nodiscard]] std::vector<std::string> published_model_names();

/// Predicts the published steps of some models, and prints them.
/// @param models  the models to predict
/// @param most_gpus  leaves out rows with more GPUs
/// @param json  file for the rows; empty: none
/// @throws cubist::ArgumentError if there is no such row
void run_published(const std::vector<std::string>& models, int most_gpus, const std::string& json);

}  // namespace bench
