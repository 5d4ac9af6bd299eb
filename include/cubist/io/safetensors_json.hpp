// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The JSON of a safetensors header:
//
//   {"__metadata__": {"note": "text"}, "name": {"dtype": "F32", "shape": [2, 3], "data_offsets":
//   [0, 24]}}
//
// The parser accepts this structure only, token by token: no deeper nesting, no duplicate keys. Its
// memory is bounded by a small multiple of the text.

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "cubist/core/error.hpp"
#include "cubist/io/element_type.hpp"
#include "cubist/io/quote.hpp"

namespace cubist
{

/// A tensor in a safetensors file: bytes [begin, end) of the data.
struct TensorInfo
{
  std::string name;
  ElementType type = ElementType::f32;
  std::vector<std::uint64_t> shape;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;

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
 public:
  std::map<std::string, std::string> metadata;
  std::vector<TensorInfo> tensors;  ///< in the order of the text

  SafetensorsJson(std::string_view json, const std::string& file) : file_{file}
  {
    expect(json.starts_with('{'), "text that does not begin with {", "an object");
    // The parser stops at a zero byte.
    expect(json.find('\0') == json.npos, "a zero byte", "text");
    nlohmann::json::sax_parse(json, this);
  }

  // Callbacks of the parser, one for each token; it checks brackets, and that values have keys.

  bool start_object(std::size_t)
  {
    if (at_ == At::file)
      at_ = At::tensors;
    else if (at_ != At::entry)
      unexpected("an object");
    else if (key_ == metadata_key)
    {
      expect(!has_metadata_, "a second " + quote(key_), "a tensor");
      has_metadata_ = true;
      at_ = At::metadata;
    }
    else
    {
      tensors.emplace_back().name = key_;
      has_type_ = has_shape_ = has_offsets_ = false;
      at_ = At::tensor;
    }
    return true;
  }

  bool key(std::string& name)
  {
    if (at_ == At::tensors)
    {
      key_ = std::move(name);
      at_ = At::entry;
    }
    else if (at_ == At::metadata)
      metadata_key_ = std::move(name);
    else if (name == "dtype")
      begin_field(At::type, has_type_, name);
    else if (name == "shape")
      begin_field(At::shape, has_shape_, name);
    else if (name == "data_offsets")
      begin_field(At::offsets, has_offsets_, name);
    else
      unexpected(quote(name));
    return true;
  }

  bool string(std::string& text)
  {
    if (at_ == At::metadata)
    {
      const auto [entry, is_new] = metadata.try_emplace(std::move(metadata_key_), std::move(text));
      expect(is_new, "a second note " + quote(entry->first), "another");
    }
    else if (at_ == At::type)
    {
      const auto type = element_type_named(text);
      expect(type.has_value(), "the dtype " + quote(text), "one that cubist knows");
      tensors.back().type = *type;
      at_ = At::tensor;
    }
    else
      unexpected("the text " + quote(text));
    return true;
  }

  bool start_array(std::size_t)
  {
    if (in_list_ || (at_ != At::shape && at_ != At::offsets)) unexpected("a list");
    in_list_ = true;
    count_ = 0;
    return true;
  }

  bool number_unsigned(std::uint64_t number)
  {
    if (in_list_ && at_ == At::shape)
    {
      expect(count_ < max_dimensions, "more than 64 sizes", "fewer");
      tensors.back().shape.push_back(number);
    }
    else if (in_list_ && count_ < 2)
      (count_ == 0 ? tensors.back().begin : tensors.back().end) = number;
    else
      unexpected("the number " + std::to_string(number));
    ++count_;
    return true;
  }

  bool end_array()
  {
    expect(at_ != At::offsets || count_ == 2, "fewer than two offsets", expected());
    in_list_ = false;
    at_ = At::tensor;
    return true;
  }

  bool end_object()
  {
    expect(at_ != At::tensor || (has_type_ && has_shape_ && has_offsets_), "too little",
           "dtype, shape and data_offsets");
    at_ = At::tensors;
    return true;
  }

  bool null() { return unexpected("null"); }
  bool boolean(bool) { return unexpected("a truth value"); }
  bool number_integer(std::int64_t) { return unexpected("a negative number"); }
  bool number_float(double, const std::string& text) { return unexpected(quote(text)); }
  bool binary(nlohmann::json::binary_t&) { return unexpected("binary data"); }

  bool parse_error(std::size_t byte, const std::string&, const nlohmann::json::exception&)
  {
    throw DataError{"got " + file_ + " with a header that at byte " + std::to_string(byte) +
                    " is no JSON, so it is damaged or truncated; take a fresh copy of it"};
  }

 private:
  /// The object or list that the parser is in, or the key whose value is next.
  enum class At
  {
    file,
    tensors,
    entry,
    metadata,
    tensor,
    type,
    shape,
    offsets
  };

  void begin_field(At field, bool& has, const std::string& name)
  {
    expect(!has, "a second " + quote(name), "another field");
    has = true;
    at_ = field;
  }

  /// A description of the tokens that may follow.
  [[nodiscard]] const char* expected() const
  {
    switch (at_)
    {
    case At::entry:
    case At::tensor:
      return key_ == metadata_key ? "an object of texts"
                                  : "an object of dtype, shape and data_offsets";
    case At::metadata:
      return "a text";
    case At::type:
      return "a type's name";
    case At::shape:
      return "a list of whole numbers";
    case At::offsets:
      return "a list of two whole numbers";
    default:
      return "an object";
    }
  }

  bool unexpected(const std::string& got)
  {
    expect(false, got, expected());
    return false;
  }

  void expect(bool holds, std::string_view got, const char* wanted) const
  {
    if (holds) return;
    const std::string place = at_ == At::file ? "" : " at " + quote(key_);
    require<DataError>(
        false, "got ", file_, " whose header has ", got, place, " where ", wanted,
        " belongs, so it is damaged or no safetensors file; take a fresh copy of it");
  }

  const std::string& file_;
  At at_ = At::file;
  bool in_list_ = false;
  std::string key_;           // of the current tensor, or metadata
  std::string metadata_key_;  // of the current entry of the metadata
  std::size_t count_ = 0;
  bool has_metadata_ = false;
  bool has_type_ = false;
  bool has_shape_ = false;
  bool has_offsets_ = false;
};

}  // namespace detail

}  // namespace cubist
