// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The functions of safetensors_header.hpp that are in the compiled library.

#include <algorithm>
#include <array>
#include <bit>
#include <set>
#include <utility>

#include <nlohmann/json.hpp>

#include "cubist/io/safetensors_header.hpp"

namespace cubist::CUBIST_ABI
{

CUBIST_INLINE std::uint64_t safetensors_header_bytes(std::span<const std::byte, 8> first,
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
                     " with a header of ", length, " bytes, but safetensors headers have 2 to ",
                     safetensors_header_limit,
                     ", so it is damaged or another kind of file; give a safetensors file");
  require<DataError>(file_bytes >= 8 && length <= file_bytes - 8, "got ", file, " of ", file_bytes,
                     " bytes, but its header takes ", length,
                     ", so the file is truncated; take a fresh copy of it");
  return length;
}

namespace detail
{

inline constexpr const char* metadata_key = "__metadata__";

/// Limits memory: a dimension may take only two bytes of text, but it takes eight bytes of memory.
inline constexpr std::size_t max_dimensions = 64;

/// Parses the JSON; parse_safetensors_header checks the values.
/// @throws DataError, naming `file`, for text that is not JSON, or has another structure
class SafetensorsJson
{
  using Json = nlohmann::json;
  using Event = Json::parse_event_t;

 public:
  std::map<std::string, std::string> metadata;
  std::vector<TensorInfo> tensors;  ///< in the order of the text

  SafetensorsJson(std::string_view json, const std::string& file)
      : file_{file}
  {
    expect(json.starts_with('{'), "text that does not begin with {", "an object");
    // The parser stops at a zero byte.
    expect(json.find('\0') == json.npos, "a zero byte", "text");
    try
    {
      [[maybe_unused]] const Json rest =
          Json::parse(json, [this](int depth, Event event, Json& value) {
            return accept(depth, event, value);
          });
    }
    catch (const Json::exception& error)
    {
      const auto* parse_error = dynamic_cast<const Json::parse_error*>(&error);
      const auto where = parse_error ? " at byte " + std::to_string(parse_error->byte) : "";
      throw DataError{"got " + file + " with a header that" + where +
                      " is not JSON, so it is damaged or truncated; take a fresh copy of it"};
    }
  }

 private:
  /// Checks a token. The file's object has depth 0, its entries 1, their fields 2, and elements of
  /// lists 3.
  /// @returns whether the parser keeps the value; an entry is converted and not kept
  bool accept(int depth, Event event, const Json& value)
  {
    const bool is_metadata = key_ == metadata_key;
    const char* entry =
        is_metadata ? "an object of texts" : "an object of dtype, shape and data_offsets";
    if (event == Event::key && depth == 1)
    {
      key_ = value;
      fields_.clear();
      const bool is_new = entries_.insert(key_).second;
      expect(is_new || key_ != metadata_key, "a second " + quote(key_), "a tensor");
      require<DataError>(is_new, "got ", file_, " with two tensors named ", quote(key_),
                         ", so it is unclear which one is meant; give each its own name");
    }
    else if (event == Event::key)
    {
      const std::string name = value;
      expect(is_metadata || name == "dtype" || name == "shape" || name == "data_offsets",
             quote(name), entry);
      expect(fields_.insert(name).second,
             (is_metadata ? "a second note " : "a second ") + quote(name), "another");
    }
    else if (event == Event::object_start)
      expect(depth < 2, "an object", is_metadata ? "a text" : "a text or a list");
    else if (event == Event::array_start)
    {
      expect(depth == 2, "a list", depth == 1 ? entry : "a number");
      count_ = 0;
    }
    else if (event == Event::value && depth == 3)
      expect(++count_ <= max_dimensions, "more than 64 sizes", "fewer");
    else if (event == Event::value && depth == 1)
      expect(false, described(value), entry);
    if (event != Event::object_end || depth != 1) return true;
    is_metadata ? add_metadata(value) : add_tensor(value);
    return false;
  }

  void add_metadata(const Json& notes)
  {
    for (const auto& [name, text] : notes.items())
    {
      expect(text.is_string(), described(text), "a text");
      metadata.emplace(name, text);
    }
  }

  void add_tensor(const Json& fields)
  {
    TensorInfo tensor;
    tensor.name = key_;
    if (const auto field = fields.find("dtype"); field != fields.end())
    {
      expect(field->is_string(), described(*field), "a type's name");
      const auto& name = field->get_ref<const std::string&>();
      const auto type = element_type_named(name);
      require<DataError>(
          type.has_value(), "got ", file_, " with the tensor ", quote(key_), " of the dtype ",
          quote(name),
          ", whose elements have a size that cubist does not know, so it cannot tell "
          "where the others are; save that tensor in another type, or leave it out");
      tensor.type = *type;
    }
    tensor.shape = numbers(fields, "shape", "a list of whole numbers");
    const char* two = "a list of two whole numbers";
    const auto offsets = numbers(fields, "data_offsets", two);
    expect(offsets.size() >= 2 || !fields.contains("data_offsets"), "fewer than two offsets", two);
    if (offsets.size() > 2) expect(false, "the number " + std::to_string(offsets.back()), two);
    expect(fields.size() == 3, "too little", "dtype, shape and data_offsets");
    tensor.begin = offsets[0];
    tensor.end = offsets[1];
    tensors.push_back(std::move(tensor));
  }

  /// The numbers in a field's list; empty if the field is missing.
  [[nodiscard]] std::vector<std::uint64_t> numbers(const Json& fields, const char* name,
                                                   const char* wanted) const
  {
    std::vector<std::uint64_t> all;
    const auto field = fields.find(name);
    if (field == fields.end()) return all;
    expect(field->is_array(), described(*field), wanted);
    for (const Json& number : *field)
    {
      expect(number.is_number_unsigned(), described(number), wanted);
      all.push_back(number);
    }
    return all;
  }

  [[nodiscard]] static std::string described(const Json& value)
  {
    if (value.is_array()) return "a list";
    if (value.is_string()) return "the text " + quote(value.get_ref<const std::string&>());
    if (value.is_number_unsigned()) return "the number " + value.dump();
    return value.is_number_integer() ? "a negative number" : quote(value.dump());
  }

  void expect(bool holds, const std::string& got, const char* wanted) const
  {
    if (holds) return;
    const std::string place = key_.empty() ? "" : " at " + quote(key_);
    throw DataError{
        "got " + file_ + " whose header has " + got + place + " where " + wanted +
        " belongs, so it is damaged or not a safetensors file; take a fresh copy of it"};
  }

  const std::string& file_;
  std::set<std::string> entries_;  // the keys of all entries so far
  std::string key_;                // the name of the current tensor, or of the metadata
  std::set<std::string> fields_;   // the fields of the current entry
  std::size_t count_ = 0;          // the number of elements in the current list
};

/// @throws DataError unless the tensors cover the data without gaps or overlaps
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
                       file, " with the tensor ", quote(tensor.name), " in bytes ", tensor.begin,
                       " to ", tensor.end, ", but its shape and type need ", *bytes,
                       ", so its header is damaged; take a fresh copy of it");
    require<DataError>(tensor.begin == covered, "got ", file, " with the tensor ",
                       quote(tensor.name), " at byte ", tensor.begin,
                       ", but the tensors before it end at ", covered,
                       ", so bytes would be read twice or never; save the file again");
    covered = tensor.end;
  }
  require<DataError>(covered <= data_bytes, "got ", file, " with ", data_bytes,
                     " bytes of data, but its tensors take ", covered,
                     ", so the file is truncated; take a fresh copy of it");
  require<DataError>(
      covered == data_bytes, "got ", file, " with ", data_bytes - covered,
      " bytes after its last tensor, so it is damaged or has other contents; save the file again");
}

}  // namespace detail

CUBIST_INLINE SafetensorsHeader parse_safetensors_header(std::string_view json,
                                                         std::uint64_t data_bytes,
                                                         const std::string& file)
{
  detail::SafetensorsJson parsed{json, file};
  SafetensorsHeader header{std::move(parsed.metadata), std::move(parsed.tensors)};
  const auto is_before = [](const TensorInfo& x, const TensorInfo& y) {
    return std::pair{x.begin, x.end} < std::pair{y.begin, y.end};
  };
  std::stable_sort(header.tensors.begin(), header.tensors.end(), is_before);
  detail::check_offsets(header, data_bytes, file);
  return header;
}

CUBIST_INLINE std::string format_safetensors_header(const SafetensorsHeader& header)
try
{
  const auto text = [](const std::string& s) { return nlohmann::json(s).dump(); };
  std::string json = "{";
  if (!header.metadata.empty())
    json += text(detail::metadata_key) + ':' + nlohmann::json(header.metadata).dump();
  for (const auto& tensor : header.tensors)
  {
    require<ArgumentError>(
        tensor.name != detail::metadata_key, "got a tensor named ", tensor.name,
        ", which the format reserves for metadata, so it could not be loaded; use another name");
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
  throw ArgumentError{
      "got a tensor's name or metadata that is not UTF-8, which safetensors cannot store; use "
      "UTF-8"};
}

}  // namespace cubist::CUBIST_ABI
