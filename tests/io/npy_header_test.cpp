// SPDX-License-Identifier: BSD-3-Clause
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "cubist/io/npy_header.hpp"

#include "catch.hpp"

namespace io_npy_header_test
{

using namespace cubist;
using Catch::Matchers::Contains;

namespace
{

using Sizes = std::vector<std::uint64_t>;

/// The start of a file of this version with this dictionary.
std::string file(const std::string& dictionary, char major = 1)
{
  const auto length = dictionary.size();
  std::string text = "\x93NUMPY";
  text += {major, '\0', static_cast<char>(length), static_cast<char>(length >> 8)};
  if (major > 1) text += {static_cast<char>(length >> 16), static_cast<char>(length >> 24)};
  return text + dictionary;
}

NpyHeader parse(const std::string& start, std::uint64_t data_bytes)
{
  return parse_npy_header(start, start.size() + data_bytes, "x.npy");
}

/// The message for a file that is refused; empty for one that is accepted.
std::string error(const std::string& start, std::uint64_t data_bytes = 48)
{
  try
  {
    (void)parse(start, data_bytes);
  }
  catch (const DataError& e)
  {
    return e.what();
  }
  return "";
}

/// The dictionary of a matrix of 2 x 3 elements.
std::string dictionary(const std::string& descr, const std::string& order = "False",
                       const std::string& shape = "(2, 3)")
{
  return "{'descr': " + descr + ", 'fortran_order': " + order + ", 'shape': " + shape + ", }\n";
}

std::string error_of_shape(const std::string& shape)
{
  return error(file(dictionary("'<f8'", "False", shape)));
}

}  // namespace

TEST_CASE("headers of NumPy are parsed")
{
  for (const char major : {'\1', '\2', '\3'})
  {
    const std::string start = file(dictionary("'<f8'") + "       \n", major);
    const auto header = parse(start, 48);
    CHECK(header.type == ElementType::f64);
    CHECK(!header.fortran_order);
    CHECK(header.shape == Sizes{2, 3});
    CHECK(header.data_offset == start.size());
    CHECK(parse_npy_header(start + "elements", start.size() + 48, "x").data_offset == start.size());
  }
  CHECK(parse(file(dictionary("'<f8'", "True")), 48).fortran_order);
}

TEST_CASE("the size of the file must match its header")
{
  const std::string whole = file(dictionary("'<f8'"));
  CHECK_THAT(error(whole, 47), Contains("47 bytes of elements where its header asks for 48"));
  CHECK_THAT(error(whole, 49), Contains("49 bytes"));
  CHECK_THAT(error(whole, 0), Contains("truncated"));
  for (std::size_t length = 0; length < whole.size(); ++length)
    CHECK(!error(whole.substr(0, length), 0).empty());
  CHECK_THAT(error(""), Contains("no .npy file"));
  CHECK_THAT(error("PK\x03\x04 of a .npz file"), Contains("begins with \"PK"));
  CHECK_THAT(error(file(dictionary("'<f8'"), '\4')), Contains("version 4.0"));
  CHECK_THAT(error(file(dictionary("'<f8'"), '\0')), Contains("version 0.0"));
  std::string minor = whole;
  minor[7] = 1;
  CHECK_THAT(error(minor), Contains("version 1.1"));
}

TEST_CASE("a shape whose size overflows is refused")
{
  CHECK_THAT(error_of_shape("(2305843009213693952,)"), Contains("64 bits"));
  CHECK_THAT(error_of_shape("(4294967296, 4294967296)"), Contains("64 bits"));
  CHECK_THAT(error_of_shape("(0, 4294967296, 4294967296)"), Contains("64 bits"));
  CHECK_THAT(error_of_shape("(18446744073709551615, 2)"), Contains("64 bits"));
}

TEST_CASE("a header beyond the limit is refused")
{
  const std::string text = dictionary("'<f8'");
  const auto padded = [&](std::size_t size) {
    return file(text + std::string(size - text.size() - 12, ' '), 2);
  };
  CHECK(error(padded(npy_header_limit)).empty());
  CHECK_THAT(error(padded(npy_header_limit + 1)), Contains("more than any matrix needs"));
  std::string corrupt = padded(1000);
  corrupt[10] = corrupt[11] = '\xFF';
  CHECK_THAT(error(corrupt), Contains("truncated"));
  CHECK_THROWS_AS(parse_npy_header(corrupt, ~std::uint64_t{0}, "x"), DataError);
}

TEST_CASE("a written header is NumPy's own, and is parsed as the same")
{
  CHECK(format_npy_header(ElementType::f64, {3, 4}) ==
        std::string("\x93NUMPY\x01\x00\x76\x00", 10) +
            "{'descr': '<f8', 'fortran_order': False, 'shape': (3, 4), }" + std::string(58, ' ') +
            '\n');
  for (int i = 0; i <= static_cast<int>(ElementType::c128); ++i)
  {
    const auto type = static_cast<ElementType>(i);
    if (type == ElementType::bf16 || type == ElementType::f8_e4m3 || type == ElementType::f8_e5m2)
    {
      CHECK_THROWS_AS(format_npy_header(type, {1, 1}), ArgumentError);
      continue;
    }
    for (const Shape shape : {Shape{0, 7}, Shape{1, 1}, Shape{123456789, 1000}})
    {
      const std::string text = format_npy_header(type, shape);
      CHECK(text.size() % 64 == 0);
      const auto header = parse(text, shape.size() * bytes_of(type));
      CHECK(header.type == type);
      CHECK(!header.fortran_order);
      CHECK(header.shape == Sizes{shape.rows, shape.cols});
      CHECK(header.data_offset == text.size());
    }
  }
  CHECK(format_npy_header(ElementType::f64, {~std::size_t{0}, ~std::size_t{0}}).size() == 128);
}

}  // namespace io_npy_header_test
