// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The JSON of a safetensors header:
//
//   {"__metadata__": {"note": "text"}, "name": {"dtype": "F32", "shape": [2, 3], "data_offsets":
//   [0, 24]}}
//
// Read token by token, and only what belongs there: nothing nests deeper than this, no duplicate
// key hides another, and nothing grows beyond a small multiple of the text.

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

/// A tensor in a safetensors file: its bytes are [begin, end) of the data.
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

/// More than any library's; each takes two bytes of the text and eight of memory.
inline constexpr std::size_t most_dimensions = 64;

/// What the text says; whether that can be is not asked here.
/// @throws DataError, naming `file`, for what is no JSON or not of this form
class SafetensorsJson
{
 public:
  std::map<std::string, std::string> metadata;
  std::vector<TensorInfo> tensors;  ///< in the order of the text

  SafetensorsJson(std::string_view json, const std::string& file) : file_{file}
  {
    expect(json.starts_with('{'), "text that does not begin with {", "an object");
    // To the parser a zero byte is the end of the text, whatever follows.
    expect(json.find('\0') == json.npos, "a zero byte", "text");
    nlohmann::json::sax_parse(json, this);
  }

  // What the parser calls, token by token; it sees to brackets, and to keys before values.

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
      note_ = std::move(name);
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
      const auto [note, is_new] = metadata.try_emplace(std::move(note_), std::move(text));
      expect(is_new, "a second note " + quote(note->first), "another");
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
      expect(count_ < most_dimensions, "more than 64 sizes", "fewer");
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
  /// Inside what the parser is, or the value of which key comes next.
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

  /// What belongs where the parser is.
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
  std::string key_;   // of the entry that is read
  std::string note_;  // of the metadata
  std::size_t count_ = 0;
  bool has_metadata_ = false;
  bool has_type_ = false;
  bool has_shape_ = false;
  bool has_offsets_ = false;
};

}  // namespace detail

}  // namespace cubist
