// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The JSON of a safetensors header:
//
//   {"__metadata__": {"note": "text"}, "name": {"dtype": "F32", "shape": [2, 3], "data_offsets":
//   [0, 24]}}
//
// The parser accepts this structure only: no deeper nesting, no duplicate keys. It checks each
// token and converts each entry when it has read it, so its memory is bounded by a small multiple
// of the text.

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "cubist/core/error.hpp"
#include "cubist/io/element_type.hpp"
#include "cubist/io/quote.hpp"

namespace cubist::CUBIST_ABI
{

/// A tensor in a safetensors file: bytes [begin, end) of the data.
struct TensorInfo
{
  std::string name;
  ElementType type = ElementType::f32;  ///< of the elements
  std::vector<std::uint64_t> shape;
  std::uint64_t begin = 0;  ///< the first byte, counted from the end of the header
  std::uint64_t end = 0;    ///< the byte behind the last

  friend bool operator==(const TensorInfo&, const TensorInfo&) = default;
};

namespace detail
{

inline constexpr const char* metadata_key = "__metadata__";

/// A limit on memory: a dimension takes two bytes of text, but eight of memory.
inline constexpr std::size_t max_dimensions = 64;

/// Parses the JSON; parse_safetensors_header checks the values.
/// @throws DataError, naming `file`, for text that is no JSON or not of this structure
class SafetensorsJson
{
  using Json = nlohmann::json;
  using Event = Json::parse_event_t;

 public:
  std::map<std::string, std::string> metadata;
  std::vector<TensorInfo> tensors;  ///< in the order of the text

  SafetensorsJson(std::string_view json, const std::string& file) : file_{file}
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
                      " is no JSON, so it is damaged or truncated; take a fresh copy of it"};
    }
  }

 private:
  /// Checks a token. The file's object has depth 0, its entries 1, their fields 2, and lists 3.
  /// @returns whether the parser keeps the value; an entry is converted, and not kept
  bool accept(int depth, Event event, const Json& value)
  {
    const bool is_metadata = key_ == metadata_key;
    const char* entry =
        is_metadata ? "an object of texts" : "an object of dtype, shape and data_offsets";
    if (event == Event::key && depth == 1)
    {
      key_ = value;
      fields_.clear();
      expect(key_ != metadata_key || !std::exchange(has_metadata_, true), "a second " + quote(key_),
             "a tensor");
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
          "where the others are; save that tensor in another type, or without it");
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

  /// The elements of a field, if it is there.
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
    throw DataError{"got " + file_ + " whose header has " + got + place + " where " + wanted +
                    " belongs, so it is damaged or no safetensors file; take a fresh copy of it"};
  }

  const std::string& file_;
  std::string key_;               // of the current tensor, or metadata
  std::set<std::string> fields_;  // of the current entry
  std::size_t count_ = 0;         // of the elements of the current list
  bool has_metadata_ = false;
};

}  // namespace detail

}  // namespace cubist::CUBIST_ABI
