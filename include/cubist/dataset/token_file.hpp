// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// A text as the numbers of its tokens, one after the other, each an unsigned integer of 16 or 32
// bits, little-endian: what numpy's tofile() writes, what nanoGPT and others prepare, and, behind a
// header, what llm.c writes (token_header.hpp); or a text itself, whose bytes are its tokens. The
// file is mapped, so it may be larger than the memory.

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "cubist/core/error.hpp"
#include "cubist/dataset/mapped_file.hpp"
#include "cubist/dataset/token_header.hpp"

namespace cubist::CUBIST_ABI
{

static_assert(std::endian::native == std::endian::little, "tokens are read without swapping bytes");

/// How a token file is read.
struct TokenFileOptions
{
  /// The integers of the file; by default those that its header says, or uint16 without a header.
  std::optional<TokenType> type = {};
  /// The size of the vocabulary: a token that is not below it is an error when it is read. 0 allows
  /// all tokens.
  std::size_t vocabulary = 0;
};

/// Copies share the mapping. Threads may read it at the same time.
class TokenFile
{
 public:
  /// @throws DataError for a file that cannot be read, is empty, is of another format (.npy, zip,
  /// an index of Megatron's), has a header that does not fit it, or a part of a token at its end
  explicit TokenFile(const std::filesystem::path& path, const TokenFileOptions& options = {})
      : file_{path}, vocabulary_{options.vocabulary}
  {
    require<DataError>(!file_.bytes().empty(), "got ", file_.path(),
                       ", which is empty, so there is no text to learn from; write tokens to it");
    header_ = read_token_header(file_.bytes(), file_.path(), options.type);
    size_ = header_.tokens;
  }
  /// Opens a file whose tokens have this type.
  TokenFile(const std::filesystem::path& path, TokenType type)
      : TokenFile{path, TokenFileOptions{.type = type}}
  {
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
  /// The integers of the file.
  [[nodiscard]] TokenType type() const { return header_.type; }
  /// The number of tokens.
  [[nodiscard]] std::uint64_t size() const { return size_; }

  /// Sets `out` to tokens [first, first + out.size()).
  /// @throws ShapeError unless the file has them; DataError for one that the vocabulary does not
  /// have, or that no int can represent: it names the file, the token's place and its number
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

  /// Token `i`.
  /// @throws as copy()
  [[nodiscard]] int operator[](std::uint64_t i) const
  {
    int token = 0;
    copy(i, {&token, 1});
    return token;
  }

 private:
  void require_tokens(std::uint64_t first, std::uint64_t count) const
  {
    require<ShapeError>(first <= size_ && count <= size_ - first, "got tokens ", first, " and the ",
                        count, " from there of ", path(), ", which has ", size_,
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
