// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Steps that others have measured and published, beside their prediction and the planner's first
// choice for the same model, GPUs and sequences. Nothing is fitted: the machines' figures are
// measured on one GPU, or published (docs/papers.md).
//
// The prediction is for their program, by the parts of a plan:
//
//   compute      products and passes of one GPU that has all layers and its sequences
//   parameters   are sharded (FSDP): in forward each block is gathered while the one before
//                computes, and takes the longer of both. In backward it is gathered again, beside
//                which nothing computes (Composer's default, BACKWARD_POST), and its gradients are
//                reduced and scattered while the next one computes
//   gradients    are concatenated (4 bytes of an element), cast to float if they are summed in
//   float
//                (6), and divided before the sum (8; 4 in 16 bits), of all parameters on each GPU
//   loss         in float: autocast casts the logits. Read and written are 14 bytes of a logit in
//                forward and 22 in backward; a plan counts 8
//   step         once for all micro-batches: clipping, and AdamW in ten passes over float
//
// Source: MosaicML, llm-foundry, scripts/train/benchmarking/README.md, tables "H100 80GB BF16" and
// "A100 40GB with 1600 Gbps node-node interconnect": models of the MPT family in sequences of 2048.
// Their sizes, optimizer and clipping are those of scripts/train/yamls/pretrain; the optimizer is
// that of composer/optim/decoupled_weight_decay.py; gradients are those of PyTorch 2.0's
// torch/distributed/fsdp/_runtime_utils.py and algorithms/_comm_hooks/default_hooks.py.

#include <string>
#include <vector>

namespace bench
{

/// The names of the models of all rows.
[[nodiscard]] std::vector<std::string> published_model_names();

/// @param models  whose rows are predicted
/// @param most_gpus  of a row
/// @param json  a file for the rows; empty: none
/// @throws cubist::ArgumentError if there is no such row
void run_published(const std::vector<std::string>& models, int most_gpus, const std::string& json);

}  // namespace bench
