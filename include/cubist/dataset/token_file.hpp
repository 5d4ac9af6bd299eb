// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Reads a text that is stored as token ids, each an unsigned 16- or 32-bit integer, little-endian.
// numpy's tofile() writes such files, nanoGPT and others prepare them, and llm.c writes them with a
// header. A plain text is a token file, too: its bytes are its tokens. The file is mapped, so it
// may be larger than the memory.
//
// A file of llm.c begins with a header of 256 int32, little-endian:
//
//   0: 20240520 (GPT-2's tokens) or 20240801 (Llama 3's)    1: the version, 1 or 7
//   2: the number of tokens    3 to 255: 0
//
// and continues with 16- or 32-bit tokens. In any other file tokens begin at its first byte, unless
// it begins like a file of a different format.
//
// Source: Karpathy, llm.c, dev/data/data_common.py.

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "cubist/core/error.hpp"
#include "cubist/dataset/mapped_file.hpp"
#include "cubist/io/other_formats.hpp"

namespace cubist::CUBIST_ABI
{

static_assert(std::endian::native == std::endian::little, "tokens are read without swapping bytes");

/// The integers of a token file: numpy's "u1", "<u2" or "<u4".
enum class TokenType : std::uint8_t
{
  uint8,   ///< 1 byte per token
  uint16,  ///< 2 bytes per token
  uint32   ///< 4 bytes per token
};

/// The size of a token in bytes.
[[nodiscard]] constexpr std::size_t bytes_of(TokenType type)
{
  return type == TokenType::uint8 ? 1 : type == TokenType::uint16 ? 2 : 4;
}

/// Where the tokens of a file are.
struct TokenHeader
{
  TokenType type = TokenType::uint16;  ///< the type of the integers
  std::size_t bytes = 0;               ///< the number of bytes before the first token
  std::uint64_t tokens = 0;            ///< the number of tokens after the header
};

namespace detail
{

/// A kind of file that llm.c writes.
struct LlmcFormat
{
  std::int32_t magic;
  std::int32_t version;
  TokenType type;
};
inline constexpr std::array<LlmcFormat, 2> llmc_formats{
    {{20240520, 1, TokenType::uint16}, {20240801, 7, TokenType::uint32}}};
inline constexpr std::size_t llmc_header_bytes = 1024;

/// Reads the header of a file of this format.
/// @throws DataError for a different version, for tokens of a type other than `requested`, and
/// unless the file has as many tokens as its header says
[[nodiscard]] inline TokenHeader read_llmc_header(const LlmcFormat& format,
                                                  std::span<const std::byte> file,
                                                  const std::string& path,
                                                  std::optional<TokenType> requested)
{
  require<DataError>(file.size() >= llmc_header_bytes, "got ", path, ", which begins with llm.c's ",
                     format.magic, ", but its ", file.size(), " bytes are fewer than the header's ",
                     llmc_header_bytes, ", so it is truncated; take a fresh copy of it");
  std::array<std::int32_t, 3> numbers;
  std::memcpy(numbers.data(), file.data(), sizeof(numbers));
  require<DataError>(
      numbers[1] == format.version, "got ", path, ", a token file of llm.c (", format.magic,
      ") of version ", numbers[1], ", but only version ", format.version,
      " can be read, so the place of its tokens is unknown; write it again with the llm.c of that "
      "version, or write the tokens alone");
  require<DataError>(
      !requested || *requested == format.type, "got ", path,
      ", whose header says that its tokens have ", 8 * bytes_of(format.type),
      " bits, but another TokenType was named, so they would be misread; leave the type to the "
      "header");
  const std::size_t size = bytes_of(format.type);
  const std::size_t rest = file.size() - llmc_header_bytes;
  const auto tokens = static_cast<std::uint32_t>(numbers[2]);
  require<DataError>(rest % size == 0 && rest / size == tokens, "got ", path,
                     ", whose header announces ", tokens, " tokens of ", size, " bytes, but ", rest,
                     " bytes follow it, so it is truncated or damaged; take a fresh copy of it");
  return {format.type, llmc_header_bytes, tokens};
}

/// @throws DataError for a file that begins like one of a different format
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
                     ", which is a Git LFS pointer, whose text would be read as tokens; fetch "
                     "the file that it stands for, with git lfs pull");
}

/// Checks the first bytes of a file if the caller named no type.
/// @throws DataError for a text, and for 32-bit tokens. Their higher halves, which uint16 would
/// read as every second token, are 0, or at most that of the vocabulary's last token.
inline void require_likely_uint16(std::span<const std::byte> file, const std::string& path,
                                  std::size_t vocabulary)
{
  constexpr std::size_t least = 16;  // fewer bytes may look like anything
  const auto start = file.first(std::min<std::size_t>(file.size(), 4096));
  if (start.size() < least) return;
  const auto in_text = [](std::byte b) {
    return b >= std::byte{' '} ? b != std::byte{0x7f}
                               : b >= std::byte{'\t'} && b <= std::byte{'\r'};
  };
  require<DataError>(start.size() < 4 * least || !std::all_of(start.begin(), start.end(), in_text),
                     "got ", path,
                     ", which looks like a text, but no TokenType was named, so every two of its "
                     "bytes would be one token of 16 bits; name TokenType::uint8 if its bytes are "
                     "the tokens, or TokenType::uint16 if it is not a text");
  const std::size_t last_high = vocabulary > 0 ? (vocabulary - 1) >> 16U : 0;
  bool is_wide = file.size() % 4 == 0;
  bool all_zero = true;
  for (std::size_t i = 0; i + 4 <= start.size(); i += 4)
  {
    std::array<std::uint16_t, 2> halves;
    std::memcpy(halves.data(), start.data() + i, sizeof(halves));
    is_wide = is_wide && halves[1] <= last_high;
    all_zero = all_zero && halves[0] == 0;
  }
  require<DataError>(!is_wide || all_zero, "got ", path,
                     ", whose tokens look like numbers of 32 bits, but no TokenType was named, so "
                     "each would be read as two of 16 bits, of which the second is nearly always "
                     "0; name TokenType::uint32, or TokenType::uint16 if it has these tokens");
}

}  // namespace detail

/// Finds a file's tokens by its header. Without a header, all bytes are tokens.
/// @param file all bytes of the file
/// @param path the file's path, for messages
/// @param requested the type of the integers; by default what a header says, otherwise uint16
/// @param vocabulary the size of the vocabulary, 0 if it is unknown
/// @throws DataError for a file of a different format, for a header that does not fit the file or
/// the requested type, and for an incomplete token at the end
/// @throws DataError without header and type, for tokens that look like integers other than uint16
[[nodiscard]] inline TokenHeader read_token_header(std::span<const std::byte> file,
                                                   const std::string& path,
                                                   std::optional<TokenType> requested = {},
                                                   std::size_t vocabulary = 0)
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
                     " bytes are not a whole number of tokens of ", size,
                     " bytes, so it is truncated or has a different type; take a fresh copy of it, "
                     "or name its TokenType");
  if (!requested) detail::require_likely_uint16(file, path, vocabulary);
  return {type, 0, file.size() / size};
}

/// How a token file is read.
struct TokenFileOptions
{
  /// The type of the file's integers; by default what its header says, or uint16 without a header.
  std::optional<TokenType> type = {};
  /// The size of the vocabulary. Reading a token that is not below it is an error. 0 allows all
  /// tokens.
  std::size_t vocabulary = 0;
};

/// A token file. Copies share the mapping, and threads may read it at the same time.
class TokenFile
{
 public:
  /// Opens a file.
  /// @throws DataError for a file that cannot be read, is empty, is of a different format (.npy,
  /// zip, an index of Megatron's), has a header that does not fit it, or ends with an incomplete
  /// token
  /// @throws DataError if no type is named, for a file that looks like tokens other than uint16
  explicit TokenFile(const std::filesystem::path& path, const TokenFileOptions& options = {})
      : file_{path},
        vocabulary_{options.vocabulary}
  {
    require<DataError>(!file_.bytes().empty(), "got ", file_.path(),
                       ", which is empty, so there is no text to learn from; write tokens to it");
    header_ = read_token_header(file_.bytes(), file_.path(), options.type, vocabulary_);
    size_ = header_.tokens;
  }
  /// Opens a file whose tokens have this type.
  TokenFile(const std::filesystem::path& path, TokenType type)
      : TokenFile{path, TokenFileOptions{.type = type}}
  {
  }

  /// Returns tokens [first, first + count) as another TokenFile, for example to train on or to hold
  /// out.
  /// @throws ShapeError unless the file has these tokens
  [[nodiscard]] TokenFile part(std::uint64_t first, std::uint64_t count) const
  {
    require_tokens(first, count);
    TokenFile some{*this};
    some.first_ += first;
    some.size_ = count;
    return some;
  }

  /// The path of the file.
  [[nodiscard]] const std::string& path() const { return file_.path(); }
  /// The type of the file's integers.
  [[nodiscard]] TokenType type() const { return header_.type; }
  /// The number of tokens.
  [[nodiscard]] std::uint64_t size() const { return size_; }

  /// Sets `out` to tokens [first, first + out.size()).
  /// @throws ShapeError unless the file has these tokens; DataError for a token that the vocabulary
  /// does not have, or that no int can represent: it names the file, the token's place and its
  /// number
  void copy(std::uint64_t first, std::span<int> out) const
  {
    require_tokens(first, out.size());
    if (header_.type == TokenType::uint8)
      copy_as<std::uint8_t>(first, out);
    else if (header_.type == TokenType::uint16)
      copy_as<std::uint16_t>(first, out);
    else
      copy_as<std::uint32_t>(first, out);
  }

  /// Reads token `i`.
  /// @throws what copy() throws
  [[nodiscard]] int operator[](std::uint64_t i) const
  {
    int token = 0;
    copy(i, {&token, 1});
    return token;
  }

 private:
  void require_tokens(std::uint64_t first, std::uint64_t count) const
  {
    require<ShapeError>(first <= size_ && count <= size_ - first, "got ", count,
                        " tokens starting at token ", first, ", but ", path(), " has only ", size_,
                        ", so some would be missing; read fewer");
  }

  template <class Token>
  void copy_as(std::uint64_t first, std::span<int> out) const
  {
    const std::byte* from = file_.bytes().data() + header_.bytes + (first_ + first) * sizeof(Token);
    for (std::size_t i = 0; i < out.size(); ++i)
    {
      Token token;
      std::memcpy(&token, from, sizeof(Token));
      from += sizeof(Token);
      if (!std::in_range<int>(token) || (vocabulary_ > 0 && token >= vocabulary_))
        refuse(token, first_ + first + i);
      out[i] = static_cast<int>(token);
    }
  }
  [[noreturn]] void refuse(std::uint32_t token, std::uint64_t number) const
  {
    const std::uint64_t byte = header_.bytes + number * bytes_of(header_.type);
    const std::string vocabulary =
        vocabulary_ > 0 ? "the vocabulary of " + std::to_string(vocabulary_) : "a vocabulary";
    throw DataError{
        detail::join({"got ", path(), ", whose token ", number, " (from 0, at byte ", byte, ") is ",
                      token, ", which ", vocabulary,
                      " cannot have; check which tokenizer wrote the file, and name its TokenType "
                      "if it is another one"})};
  }

  MappedFile file_;
  std::size_t vocabulary_;
  TokenHeader header_;
  std::uint64_t first_ = 0;
  std::uint64_t size_ = 0;
};

}  // namespace cubist::CUBIST_ABI
