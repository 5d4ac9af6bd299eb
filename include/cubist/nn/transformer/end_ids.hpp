// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The ids that end a text, in config.json or generation_config.json: "eos_token_id" is a number, a
// list of numbers, or null. As in transformers, the ids in generation_config.json take precedence;
// those in config.json count only if it has none.
//
// Source: Hugging Face transformers, PretrainedConfig and GenerationConfig.

#include <string>
#include <vector>

#include "cubist/core/compiled.hpp"
#include "cubist/core/error.hpp"

namespace cubist::CUBIST_ABI::detail
{

inline constexpr const char* end_ids_key = "eos_token_id";
inline constexpr const char* generation_config_name = "generation_config.json";

/// Returns the text of a generation_config.json with these ids and the other keys of `source`.
[[nodiscard]] std::string generation_config_text(const std::string& source,
                                                 const std::vector<int>& ids);

}  // namespace cubist::CUBIST_ABI::detail

#include CUBIST_BODY("cubist/nn/transformer/end_ids_body.hpp")
