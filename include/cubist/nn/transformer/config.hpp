// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Reads and writes config.json, in which Hugging Face describes a transformer's layers and their
// sizes. families.hpp lists the keys of each family.

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

/// Parses the configuration of a model from the text of its config.json; model/families.hpp lists
/// the families that cubist computes.
/// @param file the name of the text's file, for messages
/// @throws DataError if the text is not a configuration; ArgumentError for a model that cubist does
/// not compute, and for a key that cubist does not know; ShapeError for sizes that no machine holds
[[nodiscard]] TransformerConfig parse_config(const std::string& text, const std::string& file);

/// Reads the configuration of a model. A key that is null counts as missing. A
/// generation_config.json beside config.json says which tokens end a text.
/// @param path config.json, or its folder
/// @throws DataError for a file that is missing, and as parse_config()
[[nodiscard]] TransformerConfig read_config(std::filesystem::path path);

/// Returns the text of config.json for a model. A configuration that was read from a file keeps all
/// keys of that file, and the values that have not changed. Any other is written for the first
/// family that has its layers.
/// @param elements PyTorch's name for the type of the saved weights, such as "bfloat16"; it
/// replaces the one in the file
/// @throws ArgumentError for a model that belongs to no family
[[nodiscard]] std::string config_text(TransformerConfig c, const char* elements = nullptr);

}  // namespace cubist::CUBIST_ABI

#include CUBIST_BODY("cubist/nn/transformer/config_body.hpp")
