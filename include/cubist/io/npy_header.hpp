// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Reads and writes the header of a .npy file: "\x93NUMPY", two bytes of version, the length of the
// rest in two bytes (version 1) or four (2 and 3), and a dictionary, which is a Python literal
// padded with spaces and a newline:
//
//   {'descr': '<f8', 'fortran_order': False, 'shape': (3, 4), }
//
// Source: NumPy, numpy.lib.format.

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "cubist/core/block.hpp"
#include "cubist/core/error.hpp"
#include "cubist/io/element_type.hpp"
#include "cubist/io/other_formats.hpp"
#include "cubist/io/quote.hpp"

namespace cubist::CUBIST_ABI
{

/// The longest header that is read, in bytes; NumPy's own limit is 10000.
inline constexpr std::size_t npy_header_limit = 1 << 16;

struct NpyHeader
{
  ElementType type = ElementType::f64;  ///< the type of the elements
  bool fortran_order = false;           ///< column-major
  std::vector<std::uint64_t> shape;
  std::uint64_t data_offset = 0;  ///< the offset of the first element in the file
};

namespace detail
{

inline constexpr std::string_view npy_magic = "\x93NUMPY";

/// NumPy's names without the byte order, in the order of ElementType; "" for types that it lacks.
inline constexpr std::array<std::string_view, 20> npy_names{
    "b1", "u1", "i1", "",   "",   "",   "",   "",   "u2", "i2",
    "f2", "",   "u4", "i4", "f4", "u8", "i8", "f8", "c8", "c16"};

/// Parses the dictionary without evaluating Python expressions.
class NpyDictionary
{
 public:
  NpyDictionary(std::string_view text, const std::string& file)
      : rest_{text},
        file_{file}
  {
  }

  [[nodiscard]] NpyHeader parse()
  {
    NpyHeader header;
    bool has_type = false;
    bool has_order = false;
    bool has_shape = false;
    expect('{');
    while (!take('}'))
    {
      const std::string_view key = text();
      expect(':');
      if (key == "descr" && !std::exchange(has_type, true))
        header.type = type();
      else if (key == "fortran_order" && !std::exchange(has_order, true))
        header.fortran_order = boolean();
      else if (key == "shape" && !std::exchange(has_shape, true))
        header.shape = shape();
      else
        fail(quote(key), "each of descr, fortran_order and shape once");
      if (take(',')) continue;
      expect('}');
      break;
    }
    if (!has_type || !has_order || !has_shape) fail("too little", "descr, fortran_order and shape");
    skip(" \n");
    if (!rest_.empty()) fail(quote(rest_, 20), "nothing");
    return header;
  }

 private:
  void skip(std::string_view blanks)
  {
    rest_.remove_prefix(std::min(rest_.find_first_not_of(blanks), rest_.size()));
  }

  bool take(char c)
  {
    skip(" ");
    if (!rest_.starts_with(c)) return false;
    rest_.remove_prefix(1);
    return true;
  }

  void expect(char c)
  {
    if (!take(c)) fail(quote(rest_, 20), std::string{'\'', c, '\''});
  }

  std::string_view text()
  {
    skip(" ");
    const auto end = rest_.empty() ? rest_.npos : rest_.find(rest_[0], 1);
    if (end == rest_.npos || (rest_[0] != '\'' && rest_[0] != '"'))
      fail(quote(rest_, 20), "a text in quotes");
    const auto text = rest_.substr(1, end - 1);
    rest_.remove_prefix(end + 1);
    return text;
  }

  bool boolean()
  {
    skip(" ");
    for (const bool value : {false, true})
    {
      const std::string_view word = value ? "True" : "False";
      if (!rest_.starts_with(word)) continue;
      rest_.remove_prefix(word.size());
      return value;
    }
    fail(quote(rest_, 20), "True or False");
  }

  ElementType type()
  {
    skip(" ");
    require<DataError>(!rest_.starts_with('['), "got ", file_,
                       " with records of several fields, which are not numbers, so there is no "
                       "matrix in it; save one field, for example with np.save(path, x['field'])");
    const std::string_view name = text();
    require<DataError>(
        name.find('O') == name.npos, "got ", file_,
        " with Python objects, which can be read only by running code from the file; save numbers, "
        "for example np.asarray(x, '<f8')");
    const auto known =
        std::find(npy_names.begin(), npy_names.end(), name.substr(name.empty() ? 0 : 1));
    if (name.starts_with('>') && name.size() > 1 && known != npy_names.end())
      throw DataError{"got " + file_ + " with elements " + quote(name) +
                      ", whose bytes are in the wrong order for this machine; save "
                      "np.asarray(x, '<" +
                      std::string{*known} + "')"};
    const auto type = static_cast<ElementType>(known - npy_names.begin());
    if (name.size() > 1 && known != npy_names.end() &&
        (name[0] == '<' || (name[0] == '|' && bytes_of(type) == 1)))
      return type;
    throw DataError{"got " + file_ + " with elements " + quote(name) +
                    ", a type that cubist does not know; save np.asarray(x, '<f8')"};
  }

  std::vector<std::uint64_t> shape()
  {
    std::vector<std::uint64_t> sizes;
    expect('(');
    while (!take(')'))
    {
      skip(" ");
      std::uint64_t size = 0;
      const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), size);
      if (error != std::errc{}) fail(quote(rest_, 20), "a size of 64 bits");
      rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
      if (rest_.starts_with('L')) rest_.remove_prefix(1);  // a long of Python 2
      sizes.push_back(size);
      if (take(',')) continue;
      expect(')');
      if (sizes.size() == 1) fail("a size in brackets", "a tuple, as (3,),");
      break;
    }
    return sizes;
  }

  [[noreturn]] void fail(const std::string& got, const std::string& wanted) const
  {
    throw DataError{
        "got " + file_ + " whose header has " + got + " where " + wanted +
        " belongs, so it is damaged or not a .npy file; save the matrix again with np.save"};
  }

  std::string_view rest_;
  const std::string& file_;
};

}  // namespace detail

/// Parses the header of a file.
/// @param start the file's first min(file_bytes, npy_header_limit) bytes, or more
/// @param file the file's name, for messages
/// @throws DataError unless the header is valid, has a type that cubist knows, and the elements
/// fill the rest of the file
[[nodiscard]] inline NpyHeader parse_npy_header(std::string_view start, std::uint64_t file_bytes,
                                                const std::string& file)
{
  const auto byte = [&](std::size_t i) {
    return static_cast<std::size_t>(static_cast<unsigned char>(start[i]));
  };
  require_no_zip(start, file, "one array; save each with np.save");
  require_no_lfs_pointer(start, file);
  require<DataError>(start.starts_with(detail::npy_magic) && start.size() >= 12, "got ", file,
                     " that begins with ", quote(start, 12),
                     ", so it is not a .npy file; save the matrix with np.save");
  require<DataError>(
      byte(6) >= 1 && byte(6) <= 3 && byte(7) == 0, "got ", file, " of version ", byte(6), '.',
      byte(7), " of the format, but cubist reads 1.0, 2.0 and 3.0; save the matrix with np.save");
  const bool is_short = byte(6) == 1;
  const std::size_t begin = is_short ? 10 : 12;
  const std::size_t length =
      byte(8) | byte(9) << 8 | (is_short ? 0 : byte(10) << 16 | byte(11) << 24);
  const std::size_t data_offset = begin + length;
  require<DataError>(data_offset <= file_bytes, "got ", file, " of ", file_bytes,
                     " bytes, but its header takes ", data_offset,
                     ", so the file is truncated; take a fresh copy of it");
  require<DataError>(
      data_offset <= npy_header_limit && data_offset <= start.size(), "got ", file,
      " with a header of ", data_offset,
      " bytes, more than any matrix needs, so it is damaged or holds something else; "
      "save the matrix with np.save");

  NpyHeader header = detail::NpyDictionary{start.substr(begin, length), file}.parse();
  header.data_offset = data_offset;
  const auto bytes = bytes_of(header.type, header.shape);
  require<DataError>(bytes.has_value(), "got ", file,
                     " with more bytes than 64 bits can count, which no file has, so its header is "
                     "damaged; take a fresh copy of it");
  require<DataError>(file_bytes - data_offset == *bytes, "got ", file, " with ",
                     file_bytes - data_offset, " bytes of elements, but its header asks for ",
                     *bytes, ", so the file is truncated or damaged; take a fresh copy of it");
  return header;
}

/// Returns the start of a file, up to its elements: version 1.0, row-major, padded to a multiple of
/// 64 bytes.
/// @throws ArgumentError for a type that NumPy does not have
[[nodiscard]] inline std::string format_npy_header(ElementType type, Shape shape)
{
  const std::string name{detail::npy_names.at(static_cast<std::size_t>(type))};
  require<ArgumentError>(!name.empty(), "got elements of ", to_string(type),
                         ", for which .npy files have no name, so NumPy could not read them; save "
                         "safetensors, or a matrix of float");
  std::string header{detail::npy_magic};
  header += {'\1', '\0', '\0', '\0'};
  header += std::string{"{'descr': '"} + (bytes_of(type) == 1 ? '|' : '<') + name +
            "', 'fortran_order': False, 'shape': (" + std::to_string(shape.rows) + ", " +
            std::to_string(shape.cols) + "), }";
  header.resize((header.size() + 64) / 64 * 64, ' ');
  header.back() = '\n';
  header[8] = static_cast<char>(header.size() - 10);
  return header;
}

}  // namespace cubist::CUBIST_ABI
