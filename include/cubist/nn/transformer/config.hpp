// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Reads and writes config.json, in which Hugging Face keeps the sizes and kinds of a transformer's
// parts. families.hpp has the keys of each family.

#include <filesystem>
#include <string>

#include "cubist/core/compiled.hpp"
#include "cubist/core/error.hpp"
#include "cubist/io/other_formats.hpp"
#include "cubist/model/families.hpp"
#include "cubist/model/transformer_config.hpp"
#include "cubist/nn/transformer/end_ids.hpp"

namespace cubist::CUBIST_ABI
{

/// Parses the configuration of a model from the text of its config.json; model/families.hpp has the
/// families that cubist computes.
/// @param file the name of the text's file, for messages
/// @throws DataError for a text that is no configuration; ArgumentError for a model that cubist
/// does not compute, and for a key that cubist does not know; ShapeError for sizes that no machine
/// holds
[[nodiscard]] TransformerConfig parse_config(const std::string& text, const std::string& file);

/// Reads the configuration of a model. A key that is null counts as missing. A
/// generation_config.json beside config.json says which tokens end a text.
/// @param path config.json, or its folder
/// @throws DataError for a file that is missing, and as parse_config()
[[nodiscard]] TransformerConfig read_config(std::filesystem::path path);

/// Returns the text of config.json for a model. A configuration that was read keeps all keys of its
/// file, and the values that have not changed. Any other becomes a configuration of the first
/// family that has its layers.
/// @param elements the type of the saved weights by its name in PyTorch, such as "bfloat16", which
/// replaces the one that the file had
/// @throws ArgumentError for a model that no family has
[[nodiscard]] std::string config_text(TransformerConfig c, const char* elements = nullptr);

}  // namespace cubist::CUBIST_ABI

#include CUBIST_BODY("cubist/nn/transformer/config_body.hpp")
