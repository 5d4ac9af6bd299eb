// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Reads and writes the header of a safetensors file: the length of the JSON in 8 bytes, and the
// JSON with the position of every tensor. The tensors follow, row-major and little-endian, without
// gaps.
//
//   {"__metadata__": {"note": "text"}, "name": {"dtype": "F32", "shape": [2, 3], "data_offsets":
//   [0, 24]}}
//
// The parser accepts only this structure: no deeper nesting, no duplicate keys. It checks each
// token and converts each entry when it has read it, so its memory is bounded by a small multiple
// of the text.
//
// Source: huggingface/safetensors, README, "Format".

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cubist/core/compiled.hpp"
#include "cubist/core/error.hpp"
#include "cubist/io/element_type.hpp"
#include "cubist/io/other_formats.hpp"
#include "cubist/io/quote.hpp"

namespace cubist::CUBIST_ABI
{

/// A tensor in a safetensors file: bytes [begin, end) of the data.
struct TensorInfo
{
  std::string name;
  ElementType type = ElementType::f32;  ///< the type of the elements
  std::vector<std::uint64_t> shape;
  std::uint64_t begin = 0;  ///< the first byte, counted from the end of the header
  std::uint64_t end = 0;    ///< the byte after the last

  friend bool operator==(const TensorInfo&, const TensorInfo&) = default;
};

/// The format's limit for the JSON, in bytes.
inline constexpr std::uint64_t safetensors_header_limit = 100'000'000;

struct SafetensorsHeader
{
  std::map<std::string, std::string> metadata;  ///< text by name
  std::vector<TensorInfo> tensors;              ///< in the order of their bytes

  /// The size of all tensors in bytes.
  [[nodiscard]] std::uint64_t bytes() const { return tensors.empty() ? 0 : tensors.back().end; }
  /// The tensor of this name, or null.
  [[nodiscard]] const TensorInfo* find(std::string_view name) const
  {
    for (const TensorInfo& t : tensors)
      if (t.name == name) return &t;
    return nullptr;
  }
};

/// Reads the length of the JSON from the file's first 8 bytes.
/// @throws DataError unless a header of this length fits in the file and the limit
[[nodiscard]] std::uint64_t safetensors_header_bytes(std::span<const std::byte, 8> first,
                                                     std::uint64_t file_bytes,
                                                     const std::string& file);

/// Parses a header.
/// @param json the header's text
/// @param data_bytes the size of the file after the header
/// @param file the file's name, for messages
/// @throws DataError unless the header is valid and fits the data
[[nodiscard]] SafetensorsHeader
parse_safetensors_header(std::string_view json, std::uint64_t data_bytes, const std::string& file);

/// Returns the start of a file, up to its tensors: the length, the JSON, and spaces up to a
/// multiple of 8 bytes.
/// @pre names differ, and the tensors are in the order of their bytes, without gaps
/// @throws ArgumentError for a name that is not UTF-8 or that the format reserves, and for a header
/// that is too long
[[nodiscard]] std::string format_safetensors_header(const SafetensorsHeader& header);

}  // namespace cubist::CUBIST_ABI

#include CUBIST_BODY("cubist/io/safetensors_header_body.hpp")
