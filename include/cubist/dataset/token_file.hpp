// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// A text as the numbers of its tokens in a file without a header, one after the other, each an
// unsigned integer of 16 or 32 bits, little-endian: what numpy's tofile() writes, and what nanoGPT
// and others prepare; or a text itself, whose bytes are its tokens. The file is mapped, so it may
// be larger than the memory.

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "cubist/core/error.hpp"
#include "cubist/dataset/mapped_file.hpp"

namespace cubist::CUBIST_ABI
{

static_assert(std::endian::native == std::endian::little, "tokens are read without swapping bytes");

/// The integers of a token file: numpy's "u1", "<u2" or "<u4".
enum class TokenType : std::uint8_t
{
  uint8,   ///< 1 byte a token
  uint16,  ///< 2 bytes a token
  uint32   ///< 4 bytes a token
};

/// Copies share the mapping. Threads may read it at the same time.
class TokenFile
{
 public:
  /// @throws DataError for a file that cannot be read, is empty, an .npy file, or has a part of a
  /// token at its end
  explicit TokenFile(const std::filesystem::path& path, TokenType type = TokenType::uint16)
      : file_{path}, type_{type}
  {
    const auto bytes = file_.bytes();
    require<DataError>(!bytes.empty(), "got ", file_.path(),
                       ", which is empty, so there is no text to learn from; write tokens to it");
    constexpr std::string_view npy = "\x93NUMPY";
    const bool is_npy =
        bytes.size() >= npy.size() && std::memcmp(bytes.data(), npy.data(), npy.size()) == 0;
    require<DataError>(!is_npy, "got ", file_.path(),
                       ", which is an .npy file, whose header would be read as tokens; write the "
                       "tokens alone, with tofile()");
    require<DataError>(bytes.size() % token_bytes() == 0, "got ", file_.path(), ", whose ",
                       bytes.size(), " bytes are no whole number of tokens of ", token_bytes(),
                       " bytes, so it is truncated or has another type; take a fresh copy of it, "
                       "or name its TokenType");
    size_ = bytes.size() / token_bytes();
  }

  /// Tokens [first, first + count), as a file of their own: those to learn from, or held out.
  /// @throws ShapeError unless the file has them
  [[nodiscard]] TokenFile part(std::uint64_t first, std::uint64_t count) const
  {
    require_tokens(first, count);
    TokenFile some{*this};
    some.first_ += first;
    some.size_ = count;
    return some;
  }

  /// Where the file is.
  [[nodiscard]] const std::string& path() const { return file_.path(); }
  /// The number of tokens.
  [[nodiscard]] std::uint64_t size() const { return size_; }

  /// Sets `out` to tokens [first, first + out.size()).
  /// @throws ShapeError unless the file has them, DataError for one that no int can represent
  void copy(std::uint64_t first, std::span<int> out) const
  {
    require_tokens(first, out.size());
    if (type_ == TokenType::uint8)
      copy_as<std::uint8_t>(first, out);
    else if (type_ == TokenType::uint16)
      copy_as<std::uint16_t>(first, out);
    else
      copy_as<std::uint32_t>(first, out);
  }

  /// Token `i`.
  /// @throws as copy()
  [[nodiscard]] int operator[](std::uint64_t i) const
  {
    int token = 0;
    copy(i, {&token, 1});
    return token;
  }

 private:
  [[nodiscard]] std::size_t token_bytes() const
  {
    return type_ == TokenType::uint8 ? 1 : type_ == TokenType::uint16 ? 2 : 4;
  }
  void require_tokens(std::uint64_t first, std::uint64_t count) const
  {
    require<ShapeError>(first <= size_ && count <= size_ - first, "got tokens ", first, " and the ",
                        count, " from there of ", path(), ", which has ", size_,
                        ", so some would be missing; read fewer");
  }

  template <class Token>
  void copy_as(std::uint64_t first, std::span<int> out) const
  {
    const std::byte* from = file_.bytes().data() + (first_ + first) * sizeof(Token);
    for (int& id : out)
    {
      Token token;
      std::memcpy(&token, from, sizeof(Token));
      from += sizeof(Token);
      if (!std::in_range<int>(token)) refuse(token);
      id = static_cast<int>(token);
    }
  }
  [[noreturn]] void refuse(std::uint32_t token) const
  {
    throw DataError{detail::join({"got ", path(), ", which has the token ", token,
                                  ", which no vocabulary has; write tokens below 2^31, or name its "
                                  "TokenType"})};
  }

  MappedFile file_;
  TokenType type_;
  std::uint64_t first_ = 0;
  std::uint64_t size_ = 0;
};

}  // namespace cubist::CUBIST_ABI
