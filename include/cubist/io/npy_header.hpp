// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The header of a .npy file: "\x93NUMPY", two bytes of version, the length of what follows in two
// bytes (version 1) or four (2 and 3), and the dictionary of npy_dictionary.hpp.
// Source: NumPy, numpy.lib.format.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "cubist/core/block.hpp"
#include "cubist/core/error.hpp"
#include "cubist/io/element_type.hpp"
#include "cubist/io/npy_dictionary.hpp"
#include "cubist/io/quote.hpp"

namespace cubist
{

/// Longer headers are refused; NumPy's own limit is 10000 bytes.
inline constexpr std::size_t npy_header_limit = 1 << 16;

namespace detail
{
inline constexpr std::string_view npy_magic = "\x93NUMPY";
}

/// @param start the file's first min(file_bytes, npy_header_limit) bytes, or more
/// @param file its name, for messages
/// @throws DataError unless the header is valid, has a type that cubist knows, and the elements
/// fill the rest of the file
[[nodiscard]] inline NpyHeader parse_npy_header(std::string_view start, std::uint64_t file_bytes,
                                                const std::string& file)
{
  const auto byte = [&](std::size_t i) {
    return static_cast<std::size_t>(static_cast<unsigned char>(start[i]));
  };
  require<DataError>(start.starts_with(detail::npy_magic) && start.size() >= 12, "got ", file,
                     " that begins with ", quote(start, 12),
                     ", so it is no .npy file; save the matrix with np.save");
  require<DataError>(
      byte(6) >= 1 && byte(6) <= 3 && byte(7) == 0, "got ", file, " of version ", byte(6), '.',
      byte(7), " of the format, and cubist reads 1.0, 2.0 and 3.0; save the matrix with np.save");
  const bool is_short = byte(6) == 1;
  const std::size_t begin = is_short ? 10 : 12;
  const std::size_t length =
      byte(8) | byte(9) << 8 | (is_short ? 0 : byte(10) << 16 | byte(11) << 24);
  const std::size_t data_offset = begin + length;
  require<DataError>(data_offset <= file_bytes, "got ", file, " of ", file_bytes,
                     " bytes, which its header of ", data_offset,
                     " bytes does not fit, so the file is truncated; take a fresh copy of it");
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
                     file_bytes - data_offset, " bytes of elements where its header asks for ",
                     *bytes, ", so the file is truncated or damaged; take a fresh copy of it");
  return header;
}

/// The file up to its elements: version 1.0, a multiple of 64 bytes, row-major.
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

}  // namespace cubist
