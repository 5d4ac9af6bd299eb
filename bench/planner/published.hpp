// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Steps that others have measured and published, beside the planner's prediction of the same mesh,
// and its first choice. Nothing is fitted: the machines' figures are measured on one GPU, or from
// data sheets (docs/papers.md).
//
// Source: MosaicML, llm-foundry, scripts/train/benchmarking/README.md, tables "H100 80GB BF16" and
// "A100 40GB with 1600 Gbps node-node interconnect": models of the MPT family in sequences of 2048,
// with all parameters sharded (FSDP). Their sizes are those of scripts/train/yamls/mpt.

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
