// SPDX-License-Identifier: BSD-3-Clause
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "cubist/io/safetensors_header.hpp"

#include "catch.hpp"

namespace io_safetensors_header_test
{

using namespace cubist;
using Catch::Matchers::ContainsSubstring;

namespace
{

std::string tensor(const std::string& name, const std::string& dtype, const std::string& shape,
                   const std::string& offsets)
{
  return '"' + name + R"(":{"dtype":")" + dtype + R"(","shape":[)" + shape +
         R"(],"data_offsets":[)" + offsets + "]}";
}

/// The message for a header that is refused; empty for one that is accepted.
std::string error(const std::string& tensors, std::uint64_t data_bytes)
{
  try
  {
    (void)parse_safetensors_header('{' + tensors + '}', data_bytes, "x.safetensors");
  }
  catch (const DataError& e)
  {
    return e.what();
  }
  return "";
}

std::uint64_t length(std::uint64_t value, std::uint64_t file_bytes)
{
  std::array<std::byte, 8> first{};
  for (auto& byte : first)
  {
    byte = static_cast<std::byte>(value % 256);
    value /= 256;
  }
  return safetensors_header_bytes(first, file_bytes, "x.safetensors");
}

}  // namespace

TEST_CASE("the length of a header must fit the file and the limit")
{
  CHECK(length(2, 10) == 2);
  CHECK(length(0x0102, 1000) == 0x0102);
  CHECK(length(100'000'000, 100'000'008) == 100'000'000);
  CHECK_THROWS_WITH(length(2, 9), ContainsSubstring("truncated"));
  CHECK_THROWS_WITH(length(2, 7), ContainsSubstring("truncated"));
  CHECK_THROWS_WITH(length(2, 0), ContainsSubstring("truncated"));
  CHECK_THROWS_WITH(length(1, 100), ContainsSubstring("x.safetensors with a header of 1 bytes"));
  CHECK_THROWS_AS(length(0, 100), DataError);
  CHECK_THROWS_WITH(length(100'000'001, 200'000'000), ContainsSubstring("100000001"));
  for (const std::uint64_t most :
       {~std::uint64_t{0}, ~std::uint64_t{0} - 7, std::uint64_t{1} << 63})
    CHECK_THROWS_AS(length(most, ~std::uint64_t{0}), DataError);
}

TEST_CASE("tensors are sorted by their bytes, and found by name")
{
  const auto header = parse_safetensors_header(
      '{' + tensor("b", "F64", "1", "6,14") + ',' + tensor("a", "U8", "2,3", "0,6") + ',' +
          tensor("none", "F32", "5,0", "6,6") + ',' + tensor("c", "C128", "", "14,30") + "}  ",
      30, "x");
  REQUIRE(header.tensors.size() == 4);
  CHECK(header.tensors[0] == TensorInfo{"a", ElementType::u8, {2, 3}, 0, 6});
  CHECK(header.tensors[1].name == "none");
  CHECK(header.tensors[2].name == "b");
  CHECK(header.tensors[3].name == "c");
  REQUIRE(header.find("b") != nullptr);
  CHECK(header.find("b")->begin == 6);
  CHECK(header.find("B") == nullptr);
  CHECK(parse_safetensors_header("{}", 0, "x").tensors.empty());
}

TEST_CASE("tensors must cover the data without gaps and overlaps")
{
  const std::string a = tensor("a", "F16", "2", "0,4") + ',';
  CHECK(error(a + tensor("b", "F16", "2", "4,8"), 8).empty());
  CHECK_THAT(error(a + tensor("b", "F16", "2", "6,10"), 10), ContainsSubstring("\"b\" at byte 6"));
  CHECK_THAT(error(a + tensor("b", "F16", "2", "2,6"), 6), ContainsSubstring("\"b\" at byte 2"));
  CHECK_THAT(error(a + tensor("b", "F16", "2", "0,4"), 4), ContainsSubstring("\"b\" at byte 0"));
  CHECK_THAT(error(a + tensor("b", "F16", "0", "2,2"), 4), ContainsSubstring("\"b\" at byte 2"));
  CHECK_THAT(error(tensor("a", "F16", "2", "1,5"), 5), ContainsSubstring("\"a\" at byte 1"));
  CHECK_THAT(error(a + tensor("b", "F16", "2", "4,8"), 7), ContainsSubstring("truncated"));
  CHECK_THAT(error(a + tensor("b", "F16", "2", "4,8"), 9), ContainsSubstring("1 bytes after"));
  CHECK_THAT(error("", 1), ContainsSubstring("1 bytes after"));
  CHECK_THAT(error(a + tensor("a", "F16", "2", "4,8"), 8),
             ContainsSubstring("two tensors of the name"));
}

TEST_CASE("the bytes of a tensor must match its shape and type")
{
  CHECK_THAT(error(tensor("a", "F16", "2", "0,5"), 5), ContainsSubstring("ask for 4"));
  CHECK_THAT(error(tensor("a", "F16", "2,0", "0,4"), 4), ContainsSubstring("ask for 0"));
  CHECK_THAT(error(tensor("a", "F32", "", "0,2"), 2), ContainsSubstring("ask for 4"));
  CHECK_THAT(error(tensor("a", "F16", "2", "4,0"), 4), ContainsSubstring("bytes 4 to 0"));
  CHECK_THAT(error(tensor("a", "F16", "2", "18446744073709551612,0"), 4),
             ContainsSubstring("ask for 4"));
  CHECK_THAT(error(tensor("a", "F32", "4611686018427387904", "0,0"), 0),
             ContainsSubstring("64 bits"));
  CHECK_THAT(error(tensor("a", "U8", "4294967296,4294967296", "0,0"), 0),
             ContainsSubstring("64 bits"));
  CHECK_THAT(error(tensor("a", "U8", "0,4294967296,4294967296", "0,0"), 0),
             ContainsSubstring("64 bits"));
}

TEST_CASE("a written header is parsed as the same")
{
  SafetensorsHeader header;
  header.metadata = {{"format", "cubist"}, {"quote\"", "\xC3\xA9\n\\"}};
  header.tensors = {{"layers.0.weight", ElementType::f32, {2, 3}, 0, 24},
                    {"\xC3\xA9\"\n", ElementType::bf16, {}, 24, 26},
                    {"empty", ElementType::c128, {0, 7}, 26, 26}};
  for (; !header.tensors.empty(); header.tensors.pop_back(), header.metadata.clear())
  {
    const std::string text = format_safetensors_header(header);
    CHECK(text.size() % 8 == 0);
    const std::uint64_t data_bytes = header.tensors.back().end;
    const auto first = std::as_bytes(std::span{text}).first<8>();
    CHECK(safetensors_header_bytes(first, text.size() + data_bytes, "x") == text.size() - 8);
    const auto read = parse_safetensors_header(text.substr(8), data_bytes, "x");
    CHECK(read.metadata == header.metadata);
    CHECK(read.tensors == header.tensors);
  }
  CHECK(format_safetensors_header({}) == std::string("\x08\0\0\0\0\0\0\0{}      ", 16));
}

TEST_CASE("the text of a header is that of safetensors")
{
  CHECK(format_safetensors_header({{{"k", "v"}}, {{"a", ElementType::i32, {2, 2}, 0, 16}}})
            .substr(8) ==
        R"({"__metadata__":{"k":"v"},"a":{"dtype":"I32","shape":[2,2],"data_offsets":[0,16]}} )"
        "     ");
}

TEST_CASE("names that safetensors cannot store are refused")
{
  const auto write = [](const std::string& name) {
    return format_safetensors_header({{}, {{name, ElementType::u8, {}, 0, 1}}});
  };
  CHECK_THROWS_WITH(write("__metadata__"), ContainsSubstring("use another name"));
  CHECK_THROWS_AS(write("\xFF"), ArgumentError);
  CHECK_THROWS_AS(format_safetensors_header({{{"note", "\xFF"}}, {}}), ArgumentError);
}

}  // namespace io_safetensors_header_test
