// SPDX-License-Identifier: BSD-3-Clause
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "cubist/dataset/token_header.hpp"

#include "catch.hpp"
#include "ranks.hpp"

namespace dataset_token_header_test
{

using namespace cubist;
using namespace cubist::test;

namespace
{

TokenHeader read(const std::string& file, std::optional<TokenType> type = {})
{
  return read_token_header(std::as_bytes(std::span{file}), "x.bin", type);
}
std::string error(const std::string& file, std::optional<TokenType> type = {})
{
  return message_of<DataError>([&] { (void)read(file, type); });
}

std::string four_bytes(std::uint32_t n)
{
  std::string bytes;
  for (int shift = 0; shift < 32; shift += 8) bytes += static_cast<char>(n >> shift & 0xffU);
  return bytes;
}
/// A header of llm.c's, and so many bytes after it.
std::string llmc(std::uint32_t magic, std::uint32_t version, std::uint32_t count, std::size_t bytes)
{
  std::string file = four_bytes(magic) + four_bytes(version) + four_bytes(count);
  file.resize(1024 + bytes);
  return file;
}

}  // namespace

TEST_CASE("a header of llm.c says where tokens begin, what they are, and how many")
{
  const TokenHeader gpt2 = read(llmc(20240520, 1, 3, 6));
  CHECK((gpt2.type == TokenType::uint16 && gpt2.bytes == 1024 && gpt2.tokens == 3));
  const TokenHeader llama3 = read(llmc(20240801, 7, 3, 12), TokenType::uint32);
  CHECK((llama3.type == TokenType::uint32 && llama3.bytes == 1024 && llama3.tokens == 3));
  CHECK(read(llmc(20240520, 1, 0, 0)).tokens == 0);
}

TEST_CASE("a file without a header is tokens from its first byte on")
{
  const TokenHeader plain = read("abcd");
  CHECK((plain.type == TokenType::uint16 && plain.bytes == 0 && plain.tokens == 2));
  CHECK(read("abcd", TokenType::uint8).tokens == 4);
  CHECK(read("abcd", TokenType::uint32).tokens == 1);
  CHECK(read("abc", TokenType::uint8).tokens == 3);
  CHECK(mentions(error("abc"), "whose 3 bytes", "TokenType"));
}

TEST_CASE("a header of llm.c that does not fit its file, or the type, is refused")
{
  CHECK(mentions(error(llmc(20240520, 1, 3, 4)), "announces 3 tokens of 2 bytes",
                 "but 4 bytes follow it", "fresh copy"));
  CHECK(mentions(error(llmc(20240520, 1, 3, 8)), "8 bytes follow it"));
  CHECK(mentions(error(llmc(20240801, 7, 1, 7)), "7 bytes follow it"));
  CHECK(mentions(error(llmc(20240520, 1, 3, 6).substr(0, 1023)), "whose 1023 bytes", "truncated"));
  CHECK(mentions(error(four_bytes(20240520)), "whose 4 bytes"));
  CHECK(mentions(error(llmc(20240520, 2, 3, 6)), "of version 2", "only version 1"));
  CHECK(mentions(error(llmc(20240801, 1, 3, 12)), "of version 1", "only version 7"));
  CHECK(mentions(error(llmc(20240520, 1, 4, 8), TokenType::uint32), "have 16 bits", "misread",
                 "leave the type"));
  CHECK(mentions(error(llmc(20240801, 7, 4, 16), TokenType::uint8), "have 32 bits"));
}

TEST_CASE("files of other formats are refused by their first bytes")
{
  CHECK(mentions(error("\x93NUMPY" + std::string(122, ' ')), "an .npy file", "tofile()"));
  CHECK(mentions(error("PK\x03\x04 archive "), "a zip archive", "tofile()"));
  CHECK(mentions(error(std::string("MMIDIDX\0\0\1", 10)), "Megatron", ".bin"));
  CHECK(mentions(error("version https://git-lfs.github.com/spec/v1\n", TokenType::uint8),
                 "pointer of Git LFS", "git lfs pull"));
  CHECK(mentions(error(four_bytes(20240522)), "multiple-choice test of llm.c"));
  CHECK(error("\x93NUM").empty());
}

}  // namespace dataset_token_header_test
