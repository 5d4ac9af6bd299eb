// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/dataset/token_file.hpp"

#include "folder.hpp"
#include "ranks.hpp"

namespace cubist::test::dataset_token_file_test
{

/// The error message for a file with these bytes.
static std::string error(const std::string& bytes, TokenType type = TokenType::uint16)
{
  const Folder folder;
  write_contents(folder / "x.bin", bytes);
  return message_of<DataError>([&] { TokenFile(folder / "x.bin", type); });
}

static std::string four_bytes(std::uint32_t n)
{
  std::string bytes;
  for (int shift = 0; shift < 32; shift += 8) bytes += static_cast<char>(n >> shift & 0xffU);
  return bytes;
}

/// A file with llm.c's header and these tokens.
static std::string llmc_file(std::uint32_t magic, std::uint32_t version, std::uint32_t count,
                             const std::string& tokens)
{
  std::string bytes = four_bytes(magic) + four_bytes(version) + four_bytes(count);
  bytes.resize(1024);
  return bytes + tokens;
}

static TokenHeader read_header(const std::string& file, std::optional<TokenType> type = {})
{
  return read_token_header(std::as_bytes(std::span{file}), "x.bin", type);
}
static std::string header_error(const std::string& file, std::optional<TokenType> type = {})
{
  return message_of<DataError>([&] { (void)read_header(file, type); });
}

/// A file with llm.c's header and this many bytes after it.
static std::string llmc(std::uint32_t magic, std::uint32_t version, std::uint32_t count,
                        std::size_t bytes)
{
  return llmc_file(magic, version, count, std::string(bytes, '\0'));
}

TEST_CASE("tokens of 16 and 32 bits are read, little-endian")
{
  const Folder folder;
  const auto path = folder / "x.bin";
  write_contents(path, std::string("\1\0\xff\xff\0\2\3\0", 8));

  const TokenFile narrow{path};
  CHECK(narrow.path() == path.string());
  CHECK(narrow.size() == 4);
  CHECK((narrow[0] == 1 && narrow[1] == 65535 && narrow[2] == 512 && narrow[3] == 3));
  std::vector<int> two(2);
  narrow.copy(1, two);
  CHECK(two == std::vector<int>{65535, 512});

  write_contents(path, std::string("\1\0\2\0\xff\xff\xff\x7f", 8));
  const TokenFile wide{path, TokenType::uint32};
  CHECK(wide.size() == 2);
  CHECK((wide[0] == 0x20001 && wide[1] == std::numeric_limits<int>::max()));
}

TEST_CASE("the bytes of a text are tokens, and a part of a file can be read like a file")
{
  const Folder folder;
  write_contents(folder / "x.txt", "ab\xff"
                                   "d");
  const TokenFile text{folder / "x.txt", TokenType::uint8};
  CHECK(text.size() == 4);
  CHECK((text[0] == 'a' && text[2] == 255 && text[3] == 'd'));

  write_contents(folder / "x.bin", std::string("\1\0\2\0\3\0\4\0", 8));
  const TokenFile part = TokenFile{folder / "x.bin"}.part(1, 3).part(1, 2);
  CHECK(part.size() == 2);
  CHECK((part[0] == 3 && part[1] == 4));
  CHECK_THROWS_AS(part[2], ShapeError);
  CHECK_THROWS_AS(part.part(1, 2), ShapeError);
  CHECK(part.part(2, 0).size() == 0);
}

TEST_CASE("tokens beyond the end of a file are refused")
{
  const Folder folder;
  write_contents(folder / "x.bin", "abcd");
  const TokenFile file{folder / "x.bin"};
  std::vector<int> out(2);
  CHECK_NOTHROW(file.copy(0, out));
  CHECK_NOTHROW(file.copy(2, {}));
  CHECK(mentions(message_of<ShapeError>([&] { file.copy(1, out); }),
                 "got 2 tokens starting at token 1", "x.bin has only 2", "read fewer"));
  CHECK_THROWS_AS(file[2], ShapeError);
  CHECK_THROWS_AS(file[std::numeric_limits<std::uint64_t>::max()], ShapeError);
  CHECK_THROWS_AS(file.copy(3, {}), ShapeError);
}

TEST_CASE("a file that holds no tokens is refused when it is opened")
{
  CHECK(mentions(error(""), "x.bin, which is empty", "no text to learn from", "write tokens"));
  CHECK(mentions(error("abc"), "whose 3 bytes are not a whole number of tokens of 2 bytes",
                 "truncated", "TokenType"));
  CHECK(mentions(error("abcdef", TokenType::uint32), "whose 6 bytes", "tokens of 4 bytes"));
  CHECK(mentions(error("\x93NUMPY" + std::string(122, ' ')), "which is an .npy file", "tofile()"));
  CHECK(error("\x93NUM").empty());
  const Folder folder;
  CHECK(
      mentions(message_of<DataError>([&] { TokenFile{folder / "none"}; }), "cannot open", "none"));
}

TEST_CASE("a token that no int can represent is refused when it is read")
{
  const Folder folder;
  write_contents(folder / "x.bin", std::string("\1\0\0\0\0\0\0\x80", 8));
  const TokenFile file{folder / "x.bin", TokenType::uint32};
  CHECK(file[0] == 1);
  CHECK(mentions(message_of<DataError>([&] { (void)file[1]; }),
                 "x.bin, whose token 1 (from 0, at byte 4) is 2147483648",
                 "a vocabulary cannot have", "TokenType"));
}

TEST_CASE("a token that the vocabulary does not have is refused with its place in the file")
{
  const Folder folder;
  write_contents(folder / "x.bin", std::string("\1\0\11\0\12\0\3\0", 8));
  const TokenFile file{folder / "x.bin", {.vocabulary = 10}};
  CHECK(file[1] == 9);
  std::vector<int> two(2);
  for (const auto& message : {message_of<DataError>([&] { file.copy(1, two); }),
                              message_of<DataError>([&] { file.part(2, 2).copy(0, two); })})
    CHECK(mentions(message, "x.bin, whose token 2 (from 0, at byte 4) is 10",
                   "the vocabulary of 10 cannot have", "TokenType"));
  write_contents(folder / "x.bin", llmc_file(20240801, 7, 2, std::string("\1\0\0\0\12\0\0\0", 8)));
  CHECK(mentions(
      message_of<DataError>([&] { (void)TokenFile(folder / "x.bin", {.vocabulary = 10})[1]; }),
      "token 1 (from 0, at byte 1028) is 10"));
}

TEST_CASE("the tokens of llm.c's files are read after their header")
{
  const Folder folder;
  const std::string tokens("\1\0\0\0\2\0\xff\xff", 8);
  write_contents(folder / "gpt2.bin", llmc_file(20240520, 1, 4, tokens));
  const TokenFile gpt2{folder / "gpt2.bin"};
  CHECK(gpt2.type() == TokenType::uint16);
  REQUIRE(gpt2.size() == 4);
  CHECK((gpt2[0] == 1 && gpt2[1] == 0 && gpt2[2] == 2 && gpt2[3] == 65535));
  CHECK((gpt2.part(2, 2)[0] == 2 && gpt2.part(2, 2)[1] == 65535));
  CHECK_THROWS_AS(gpt2[4], ShapeError);

  write_contents(folder / "llama3.bin",
                 llmc_file(20240801, 7, 2, std::string("\0\xf4\1\0\3\0\0\0", 8)));
  const TokenFile llama3{folder / "llama3.bin"};
  CHECK(llama3.type() == TokenType::uint32);
  REQUIRE(llama3.size() == 2);
  CHECK((llama3[0] == 128000 && llama3[1] == 3));
  CHECK(TokenFile(folder / "llama3.bin", TokenType::uint32).size() == 2);
}

TEST_CASE("a header of llm.c says where tokens begin, what they are, and how many")
{
  const TokenHeader gpt2 = read_header(llmc(20240520, 1, 3, 6));
  CHECK((gpt2.type == TokenType::uint16 && gpt2.bytes == 1024 && gpt2.tokens == 3));
  const TokenHeader llama3 = read_header(llmc(20240801, 7, 3, 12), TokenType::uint32);
  CHECK((llama3.type == TokenType::uint32 && llama3.bytes == 1024 && llama3.tokens == 3));
  CHECK(read_header(llmc(20240520, 1, 0, 0)).tokens == 0);
}

TEST_CASE("in a file without a header, tokens begin at its first byte")
{
  const TokenHeader plain = read_header("abcd");
  CHECK((plain.type == TokenType::uint16 && plain.bytes == 0 && plain.tokens == 2));
  CHECK(read_header("abcd", TokenType::uint8).tokens == 4);
  CHECK(read_header("abcd", TokenType::uint32).tokens == 1);
  CHECK(read_header("abc", TokenType::uint8).tokens == 3);
  CHECK(mentions(header_error("abc"), "whose 3 bytes", "TokenType"));
}

TEST_CASE("tokens of 32 bits, and texts, are refused where no type is named")
{
  const auto file_of = [](std::uint32_t first, std::uint32_t size, std::uint32_t least = 0) {
    std::string bytes;
    for (std::uint32_t i = 0; i < size; ++i) bytes += four_bytes(first + 7 * i % 1000 + least);
    return bytes;
  };
  const auto error = [](const std::string& file, std::size_t vocabulary) {
    return message_of<DataError>(
        [&] { (void)read_token_header(std::as_bytes(std::span{file}), "x.bin", {}, vocabulary); });
  };
  for (const std::size_t vocabulary : {0U, 50257U, 151936U})
    for (const std::uint32_t size : {4U, 5000U})
      CHECK(mentions(error(file_of(40000, size), vocabulary), "x.bin, whose tokens look like",
                     "32 bits", "name TokenType::uint32"));
  const std::string wide = file_of(65000, 5000);  // below and above 2^16
  CHECK(mentions(error(wide, 151936), "name TokenType::uint32"));
  CHECK(error(wide, 65536).empty());  // it has tokens that only uint16 may read
  CHECK(read_header(wide, TokenType::uint16).tokens == 10000);
  CHECK(error(file_of(40000, 3), 50257).empty());
  CHECK(error(std::string(64, '\0'), 50257).empty());                 // a text of zeros
  CHECK(error(file_of(0x70005, 5000), 151936).empty());               // too large for uint32
  CHECK(error(file_of(40000, 8) + std::string(2, '\0'), 0).empty());  // no whole numbers of 4 bytes
  CHECK(error(file_of(40000, 8) + file_of(0x10000, 8), 0).empty());

  const std::string text = "It was the best of times,\r\n\tit was the worst of times \xe2\x80\xa6 ";
  CHECK(mentions(error(text + text, 50257), "x.bin, which looks like a text", "TokenType::uint8"));
  CHECK(error(text.substr(0, 40), 50257).empty());
  CHECK(error(text + std::string("\1\0", 2) + text, 50257).empty());
  CHECK(read_header(text, TokenType::uint8).tokens == text.size());

  // A file is checked against its vocabulary.
  const Folder folder;
  write_contents(folder / "y.bin", wide);
  CHECK(
      mentions(message_of<DataError>([&] { TokenFile(folder / "y.bin", {.vocabulary = 151936}); }),
               "y.bin, whose tokens look like"));
  CHECK(TokenFile(folder / "y.bin").size() == 10000);
}

TEST_CASE("a header of llm.c that does not fit its file, or the type, is refused")
{
  CHECK(mentions(header_error(llmc(20240520, 1, 3, 4)), "announces 3 tokens of 2 bytes",
                 "but 4 bytes follow it", "fresh copy"));
  CHECK(mentions(header_error(llmc(20240520, 1, 3, 8)), "8 bytes follow it"));
  CHECK(mentions(header_error(llmc(20240801, 7, 1, 7)), "7 bytes follow it"));
  CHECK(mentions(header_error(llmc(20240520, 1, 3, 6).substr(0, 1023)), "its 1023 bytes",
                 "truncated"));
  CHECK(mentions(header_error(four_bytes(20240520)), "its 4 bytes"));
  CHECK(mentions(header_error(llmc(20240520, 2, 3, 6)), "of version 2", "only version 1"));
  CHECK(mentions(header_error(llmc(20240801, 1, 3, 12)), "of version 1", "only version 7"));
  CHECK(mentions(header_error(llmc(20240520, 1, 4, 8), TokenType::uint32), "have 16 bits",
                 "misread", "leave the type"));
  CHECK(mentions(header_error(llmc(20240801, 7, 4, 16), TokenType::uint8), "have 32 bits"));
}

TEST_CASE("files of other formats are refused by their first bytes")
{
  CHECK(mentions(header_error("\x93NUMPY" + std::string(122, ' ')), "an .npy file", "tofile()"));
  CHECK(mentions(header_error("PK\x03\x04 archive "), "a zip archive", "tofile()"));
  CHECK(mentions(header_error(std::string("MMIDIDX\0\0\1", 10)), "Megatron", ".bin"));
  CHECK(mentions(header_error("version https://git-lfs.github.com/spec/v1\n", TokenType::uint8),
                 "Git LFS pointer", "git lfs pull"));
  CHECK(mentions(header_error(four_bytes(20240522)), "multiple-choice test of llm.c"));
  CHECK(header_error("\x93NUM").empty());
}

}  // namespace cubist::test::dataset_token_file_test
