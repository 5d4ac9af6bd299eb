// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The measurements on GPUs that nvcc takes long to compile. Their sources are compiled once for
// each scalar (CUBIST_BENCH_SCALAR), and those of networks also for each scheme
// (CUBIST_BENCH_SCHEME). measurements.cpp selects one.

#include <optional>

#include <cubist/core/scalar.hpp>

#include "common/row.hpp"
#include "networks/mlp.hpp"
#include "networks/transformer.hpp"
#include "products/matmul.hpp"

namespace bench
{

using cubist::bfloat16;

template <class T>
[[nodiscard]] std::optional<Row> matmul_in(const MatmulTask& task);
template <class S, class T>
[[nodiscard]] std::optional<Row> mlp_in(const MlpTask& task);
template <class S, class T>
[[nodiscard]] std::optional<Row> transformer_in(const TransformerTask& task);

}  // namespace bench
