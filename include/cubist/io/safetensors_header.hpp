// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The header of a safetensors file: the length of the JSON in 8 bytes, and JSON with the position
// of every tensor. The tensors follow, row-major and little-endian, without gaps. Source:
// huggingface/safetensors, README, "Format".

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "cubist/core/error.hpp"
#include "cubist/io/element_type.hpp"
#include "cubist/io/git_lfs.hpp"
#include "cubist/io/quote.hpp"
#include "cubist/io/safetensors_json.hpp"
#include "cubist/io/zip.hpp"

namespace cubist::CUBIST_ABI
{

/// The format's limit of the JSON, in bytes.
inline constexpr std::uint64_t safetensors_header_limit = 100'000'000;

struct SafetensorsHeader
{
  std::map<std::string, std::string> metadata;  ///< text by name
  std::vector<TensorInfo> tensors;              ///< in the order of their bytes

  /// The tensor of this name, or null.
  [[nodiscard]] const TensorInfo* find(std::string_view name) const
  {
    const auto found = std::find_if(tensors.begin(), tensors.end(),
                                    [&](const TensorInfo& tensor) { return tensor.name == name; });
    return found == tensors.end() ? nullptr : &*found;
  }
};

/// The length of the JSON, from the file's first 8 bytes.
/// @throws DataError unless such a header fits in the file and the limit
[[nodiscard]] inline std::uint64_t safetensors_header_bytes(std::span<const std::byte, 8> first,
                                                            std::uint64_t file_bytes,
                                                            const std::string& file)
{
  std::array<std::byte, 8> bytes;
  std::copy(first.begin(), first.end(), bytes.begin());
  const auto chars = std::bit_cast<std::array<char, 8>>(bytes);
  require_no_zip({chars.data(), chars.size()}, file,
                 "a safetensors file; save the tensors with safetensors.torch.save_file");
  require_no_lfs_pointer({chars.data(), chars.size()}, file);
  const auto length = std::bit_cast<std::uint64_t>(bytes);
  require<DataError>(length >= 2 && length <= safetensors_header_limit, "got ", file,
                     " with a header of ", length, " bytes where safetensors have 2 to ",
                     safetensors_header_limit,
                     ", so it is damaged or something else; give a safetensors file");
  require<DataError>(file_bytes >= 8 && length <= file_bytes - 8, "got ", file, " of ", file_bytes,
                     " bytes, which its header of ", length,
                     " bytes does not fit, so the file is truncated; take a fresh copy of it");
  return length;
}

namespace detail
{

inline void check_names(const SafetensorsHeader& header, const std::string& file)
{
  std::vector<std::string_view> names;
  names.reserve(header.tensors.size());
  for (const auto& tensor : header.tensors) names.push_back(tensor.name);
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice == names.end()) return;
  throw DataError{"got " + file + " with two tensors of the name " + quote(*twice) +
                  ", so it is unclear which one is meant; give each a name of its own"};
}

/// @throws DataError unless the tensors cover the data without gaps and overlaps
inline void check_offsets(const SafetensorsHeader& header, std::uint64_t data_bytes,
                          const std::string& file)
{
  std::uint64_t covered = 0;
  for (const auto& tensor : header.tensors)
  {
    const auto bytes = bytes_of(tensor.type, tensor.shape);
    require<DataError>(bytes.has_value(), "got ", file, " with the tensor ", quote(tensor.name),
                       " of more bytes than 64 bits can count, which no file has, so its header "
                       "is damaged; take a fresh copy of it");
    require<DataError>(tensor.begin <= tensor.end && tensor.end - tensor.begin == *bytes, "got ",
                       file, " with the tensor ", quote(tensor.name), " in the bytes ",
                       tensor.begin, " to ", tensor.end, " where its shape and type ask for ",
                       *bytes, ", so its header is damaged; take a fresh copy of it");
    require<DataError>(tensor.begin == covered, "got ", file, " with the tensor ",
                       quote(tensor.name), " at byte ", tensor.begin,
                       " where the ones before it end at ", covered,
                       ", so bytes would be read twice or never; save the file anew");
    covered = tensor.end;
  }
  require<DataError>(covered <= data_bytes, "got ", file, " with ", data_bytes,
                     " bytes of data where its tensors have ", covered,
                     ", so the file is truncated; take a fresh copy of it");
  require<DataError>(
      covered == data_bytes, "got ", file, " with ", data_bytes - covered,
      " bytes after its last tensor, so it is damaged or has other contents; save the "
      "file anew");
}

}  // namespace detail

/// @param json the header's text
/// @param data_bytes the size of the file after the header
/// @param file its name, for messages
/// @throws DataError unless the header is valid and fits the data
[[nodiscard]] inline SafetensorsHeader
parse_safetensors_header(std::string_view json, std::uint64_t data_bytes, const std::string& file)
{
  detail::SafetensorsJson parsed{json, file};
  SafetensorsHeader header{std::move(parsed.metadata), std::move(parsed.tensors)};
  detail::check_names(header, file);
  std::stable_sort(header.tensors.begin(), header.tensors.end(), [](const auto& a, const auto& b) {
    return std::pair{a.begin, a.end} < std::pair{b.begin, b.end};
  });
  detail::check_offsets(header, data_bytes, file);
  return header;
}

/// The file up to its tensors: length, JSON, and spaces up to a multiple of 8 bytes.
/// @pre names differ, and the tensors are in the order of their bytes, without gaps
/// @throws ArgumentError for a name that is no UTF-8 or reserved by the format, or too long a
/// header
[[nodiscard]] inline std::string format_safetensors_header(const SafetensorsHeader& header)
try
{
  const auto text = [](const std::string& s) { return nlohmann::json(s).dump(); };
  std::string json = "{";
  if (!header.metadata.empty())
    json += text(detail::metadata_key) + ':' + nlohmann::json(header.metadata).dump();
  for (const auto& tensor : header.tensors)
  {
    require<ArgumentError>(
        tensor.name != detail::metadata_key, "got a tensor of the name ", tensor.name,
        ", which safetensors reserve for metadata, so it could not be loaded; use "
        "another name");
    if (json.size() > 1) json += ',';
    json += text(tensor.name) + ":{\"dtype\":\"" + to_string(tensor.type) +
            "\",\"shape\":" + nlohmann::json(tensor.shape).dump() + ",\"data_offsets\":[" +
            std::to_string(tensor.begin) + ',' + std::to_string(tensor.end) + "]}";
  }
  json += '}';
  json.resize((json.size() + 7) / 8 * 8, ' ');
  require<ArgumentError>(json.size() <= safetensors_header_limit, "got ", header.tensors.size(),
                         " tensors, whose names and shapes take ", json.size(),
                         " bytes, more than ", safetensors_header_limit,
                         ", so readers would refuse the file; save them in several files");
  const auto length = std::bit_cast<std::array<char, 8>>(std::uint64_t{json.size()});
  return std::string(length.begin(), length.end()) + json;
}
catch (const nlohmann::json::exception&)
{
  throw ArgumentError{"got a tensor's name or metadata that are no UTF-8, which safetensors cannot "
                      "store; use another text"};
}

}  // namespace cubist::CUBIST_ABI
