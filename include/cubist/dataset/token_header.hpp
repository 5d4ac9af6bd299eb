// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Where the tokens of a file begin, and what integers they are. A file of llm.c begins with a
// header of 256 int32, little-endian:
//
//   0: 20240520 (GPT-2's tokens) or 20240801 (Llama 3's)    1: the version, 1 or 7
//   2: the number of tokens    3 to 255: 0
//
// and goes on with tokens of 16 or 32 bits. Any other file is tokens from its first byte on, unless
// it begins as a file of another format does.
//
// Source: Karpathy, llm.c, dev/data/data_common.py.

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "cubist/core/error.hpp"
#include "cubist/io/other_formats.hpp"

namespace cubist::CUBIST_ABI
{

/// The integers of a token file: numpy's "u1", "<u2" or "<u4".
enum class TokenType : std::uint8_t
{
  uint8,   ///< 1 byte a token
  uint16,  ///< 2 bytes a token
  uint32   ///< 4 bytes a token
};

/// The size of a token.
[[nodiscard]] constexpr std::size_t bytes_of(TokenType type)
{
  return type == TokenType::uint8 ? 1 : type == TokenType::uint16 ? 2 : 4;
}

/// Where the tokens of a file are.
struct TokenHeader
{
  TokenType type = TokenType::uint16;  ///< the integers
  std::size_t bytes = 0;               ///< before the first token
  std::uint64_t tokens = 0;            ///< after the header
};

namespace detail
{

/// A kind of file that llm.c writes.
struct LlmcFormat
{
  std::int32_t magic;
  std::int32_t version;
  TokenType type;
  const char* bits;
};
inline constexpr std::array<LlmcFormat, 2> llmc_formats{
    {{20240520, 1, TokenType::uint16, "16"}, {20240801, 7, TokenType::uint32, "32"}}};
inline constexpr std::size_t llmc_header_bytes = 1024;

/// The header of a file of this format.
/// @throws DataError for another version, for tokens of another type than `requested`, and unless
/// the file has as many tokens as its header says
[[nodiscard]] inline TokenHeader read_llmc_header(const LlmcFormat& format,
                                                  std::span<const std::byte> file,
                                                  const std::string& path,
                                                  std::optional<TokenType> requested)
{
  require<DataError>(file.size() >= llmc_header_bytes, "got ", path, ", which begins with llm.c's ",
                     format.magic, ", but whose ", file.size(),
                     " bytes are less than its header's ", llmc_header_bytes,
                     ", so it is truncated; take a fresh copy of it");
  std::array<std::int32_t, 3> numbers;
  std::memcpy(numbers.data(), file.data(), sizeof(numbers));
  require<DataError>(numbers[1] == format.version, "got ", path, ", a token file of llm.c (",
                     format.magic, ") of version ", numbers[1], ", of which only version ",
                     format.version,
                     " is known, so its tokens would be guessed; write it again by "
                     "the llm.c of that version, or write the tokens alone");
  require<DataError>(!requested || *requested == format.type, "got ", path,
                     ", whose header says that its tokens have ", format.bits,
                     " bits, but another TokenType was named, as which they would be misread; "
                     "leave the type to the header");
  const std::size_t size = bytes_of(format.type);
  const std::size_t rest = file.size() - llmc_header_bytes;
  const auto tokens = static_cast<std::uint32_t>(numbers[2]);
  require<DataError>(rest % size == 0 && rest / size == tokens, "got ", path,
                     ", whose header announces ", tokens, " tokens of ", size, " bytes, but ", rest,
                     " bytes follow it, so it is truncated or damaged; take a fresh copy of it");
  return {format.type, llmc_header_bytes, tokens};
}

/// @throws DataError for a file that begins as one of another format does
inline void require_no_other_format(std::string_view start, const std::string& path)
{
  require_no_zip(start, path, "tokens; write the tokens alone, with tofile()");
  require<DataError>(!start.starts_with("\x93NUMPY"), "got ", path,
                     ", which is an .npy file, whose header would be read as tokens; write the "
                     "tokens alone, with tofile()");
  require<DataError>(!start.starts_with("MMIDIDX"), "got ", path,
                     ", which is the index of a Megatron data set, whose numbers would be read as "
                     "tokens; give the .bin file beside it, with its TokenType");
  require<DataError>(!start.starts_with("version https://git-lfs"), "got ", path,
                     ", which is a pointer of Git LFS, whose text would be read as tokens; fetch "
                     "the file that it stands for, with git lfs pull");
}

}  // namespace detail

/// What a file's header says of its tokens; without a header, all bytes are tokens.
/// @param file all of its bytes
/// @param path of the file, for messages
/// @param requested by default what a header says, else uint16
/// @throws DataError for a file of another format, a header that does not fit the file or the type
/// that was requested, and a part of a token at the end
[[nodiscard]] inline TokenHeader read_token_header(std::span<const std::byte> file,
                                                   const std::string& path,
                                                   std::optional<TokenType> requested = {})
{
  const std::string_view start{reinterpret_cast<const char*>(file.data()),
                               file.size() < 32 ? file.size() : 32};
  std::int32_t magic = 0;
  if (file.size() >= sizeof(magic)) std::memcpy(&magic, file.data(), sizeof(magic));
  for (const auto& format : detail::llmc_formats)
    if (magic == format.magic) return detail::read_llmc_header(format, file, path, requested);
  require<DataError>(magic != 20240522, "got ", path,
                     ", which is a multiple-choice test of llm.c (20240522), whose header would be "
                     "read as tokens; give one of its token files");
  detail::require_no_other_format(start, path);

  const TokenType type = requested.value_or(TokenType::uint16);
  const std::size_t size = bytes_of(type);
  require<DataError>(file.size() % size == 0, "got ", path, ", whose ", file.size(),
                     " bytes are no whole number of tokens of ", size,
                     " bytes, so it is truncated or has another type; take a fresh copy of it, "
                     "or name its TokenType");
  return {type, 0, file.size() / size};
}

}  // namespace cubist::CUBIST_ABI
