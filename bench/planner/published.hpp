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

namespace bench
{

/// @param json a file for the rows; empty: none
void run_published(const std::string& json);

}  // namespace bench
