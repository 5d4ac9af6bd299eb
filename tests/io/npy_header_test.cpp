// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/io/npy_header.hpp"

#include "catch.hpp"
#include "message.hpp"

namespace cubist::test::io_npy_header_test
{

using Catch::Matchers::ContainsSubstring;

using Sizes = std::vector<std::uint64_t>;

/// The start of a file with this version and dictionary.
static std::string file(const std::string& dictionary, char major = 1)
{
  const auto length = dictionary.size();
  std::string text = "\x93NUMPY";
  text += {major, '\0', static_cast<char>(length), static_cast<char>(length >> 8)};
  if (major > 1) text += {static_cast<char>(length >> 16), static_cast<char>(length >> 24)};
  return text + dictionary;
}

static NpyHeader parse(const std::string& start, std::uint64_t data_bytes)
{
  return parse_npy_header(start, start.size() + data_bytes, "x.npy");
}

/// The dictionary of a matrix of 2 x 3 elements.
static std::string dictionary(const std::string& descr, const std::string& order = "False",
                              const std::string& shape = "(2, 3)")
{
  return "{'descr': " + descr + ", 'fortran_order': " + order + ", 'shape': " + shape + ", }\n";
}

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

/// The error message for a file; empty if the file is accepted.
static std::string error(const std::string& start, std::uint64_t data_bytes = 48)
{
  return message_of<DataError>([&] { (void)parse(start, data_bytes); });
}

TEST_CASE("the size of the file must match its header")
{
  const std::string whole = file(dictionary("'<f8'"));
  CHECK_THAT(error(whole, 47),
             ContainsSubstring("47 bytes of elements, but its header asks for 48"));
  CHECK_THAT(error(whole, 49), ContainsSubstring("49 bytes"));
  CHECK_THAT(error(whole, 0), ContainsSubstring("truncated"));
  for (std::size_t length = 0; length < whole.size(); ++length)
    CHECK(!error(whole.substr(0, length), 0).empty());
  CHECK_THAT(error(""), ContainsSubstring("not a .npy file"));
  CHECK_THAT(error("1,2,3\n"), ContainsSubstring("begins with \"1,2,3"));
  CHECK_THAT(error(file(dictionary("'<f8'"), '\4')), ContainsSubstring("version 4.0"));
  CHECK_THAT(error(file(dictionary("'<f8'"), '\0')), ContainsSubstring("version 0.0"));
  std::string minor = whole;
  minor[7] = 1;
  CHECK_THAT(error(minor), ContainsSubstring("version 1.1"));
}

static std::string error_of_shape(const std::string& shape)
{
  return error(file(dictionary("'<f8'", "False", shape)));
}

TEST_CASE("a shape whose size overflows is refused")
{
  CHECK_THAT(error_of_shape("(2305843009213693952,)"), ContainsSubstring("64 bits"));
  CHECK_THAT(error_of_shape("(4294967296, 4294967296)"), ContainsSubstring("64 bits"));
  CHECK_THAT(error_of_shape("(0, 4294967296, 4294967296)"), ContainsSubstring("64 bits"));
  CHECK_THAT(error_of_shape("(18446744073709551615, 2)"), ContainsSubstring("64 bits"));
}

TEST_CASE("a header beyond the limit is refused")
{
  const std::string text = dictionary("'<f8'");
  const auto padded = [&](std::size_t size) {
    return file(text + std::string(size - text.size() - 12, ' '), 2);
  };
  CHECK(error(padded(npy_header_limit)).empty());
  CHECK_THAT(error(padded(npy_header_limit + 1)), ContainsSubstring("more than any matrix needs"));
  std::string corrupt = padded(1000);
  corrupt[10] = corrupt[11] = '\xFF';
  CHECK_THAT(error(corrupt), ContainsSubstring("truncated"));
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
    if (type == ElementType::bf16 || std::string{to_string(type)}.starts_with("F8"))
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

}  // namespace cubist::test::io_npy_header_test

namespace cubist::test::io_npy_dictionary_test
{

using Catch::Matchers::ContainsSubstring;

using Sizes = std::vector<std::uint64_t>;

static NpyHeader parse(const std::string& text)
{
  return cubist::detail::NpyDictionary{text, "x.npy"}.parse();
}

/// The error message for a text; empty if the text is accepted.
static std::string error(const std::string& text)
{
  return message_of<DataError>([&] { (void)parse(text); });
}

/// The dictionary of a matrix of 2 x 3 elements.
static std::string dictionary(const std::string& descr, const std::string& order = "False",
                              const std::string& shape = "(2, 3)")
{
  return "{'descr': " + descr + ", 'fortran_order': " + order + ", 'shape': " + shape + ", }\n";
}

static std::string error_of_type(const std::string& descr) { return error(dictionary(descr)); }
static std::string error_of_shape(const std::string& shape)
{
  return error(dictionary("'<f8'", "False", shape));
}

TEST_CASE("keys may be in any order, with either quote, with or without a last comma")
{
  for (const char* text :
       {"{'shape': (2, 3), 'fortran_order': False, 'descr': '<f8'}",
        "{\"fortran_order\":False,\"descr\":\"<f8\",\"shape\":(2,3,)}",
        "{ 'descr' : '<f8' , 'shape' : ( 2 , 3 , ) , 'fortran_order' : False , } \n \n"})
    CHECK(parse(text).shape == Sizes{2, 3});
}

TEST_CASE("the types that cubist knows have NumPy's names")
{
  const auto type = [](const std::string& descr) { return parse(dictionary(descr)).type; };
  CHECK(type("'|b1'") == ElementType::boolean);
  CHECK(type("'|u1'") == ElementType::u8);
  CHECK(type("'|i1'") == ElementType::i8);
  CHECK(type("'<i1'") == ElementType::i8);
  CHECK(type("'<u2'") == ElementType::u16);
  CHECK(type("'<i2'") == ElementType::i16);
  CHECK(type("'<f2'") == ElementType::f16);
  CHECK(type("'<u4'") == ElementType::u32);
  CHECK(type("'<i4'") == ElementType::i32);
  CHECK(type("'<f4'") == ElementType::f32);
  CHECK(type("'<u8'") == ElementType::u64);
  CHECK(type("'<i8'") == ElementType::i64);
  CHECK(type("'<c8'") == ElementType::c64);
  CHECK(type("'<c16'") == ElementType::c128);
}

TEST_CASE("other types are refused, with advice on how to save the matrix")
{
  CHECK_THAT(error_of_type("'>f8'"),
             ContainsSubstring("wrong order") && ContainsSubstring("np.asarray(x, '<f8')"));
  CHECK_THAT(error_of_type("'>i4'"),
             ContainsSubstring("wrong order") && ContainsSubstring("np.asarray(x, '<i4')"));
  CHECK_THAT(error_of_type("'|O'"), ContainsSubstring("Python objects"));
  CHECK_THAT(error_of_type("'O'"), ContainsSubstring("Python objects"));
  CHECK_THAT(error_of_type("[('a', '<f8')]"), ContainsSubstring("several fields"));
  for (const char* descr : {"'<f16'", "'|V2'", "'<U5'", "'|S3'", "'<M8[s]'", "'|f8'", "'f8'", "'<'",
                            "''", "'=f8'", "'<f8 '", "'<b2'", "'>'", "'>f16'"})
    CHECK_THAT(error_of_type(descr), ContainsSubstring("a type that cubist does not know"));
  for (const char* descr : {"<f8", "8", "('<f8', 2)", "", "None", "b'<f8'", "'<f8"})
    CHECK(!error_of_type(descr).empty());
}

TEST_CASE("shapes may have any number of sizes")
{
  const auto shape = [](const std::string& tuple) {
    return parse(dictionary("'<f8'", "False", tuple)).shape;
  };
  CHECK(shape("()") == Sizes{});
  CHECK(shape("( )") == Sizes{});
  CHECK(shape("(3,)") == Sizes{3});
  CHECK(shape("(0, 5)") == Sizes{0, 5});
  CHECK(shape("(2, 3, 4, 5)") == Sizes{2, 3, 4, 5});
  // NumPy on Python 2 writes sizes like this.
  CHECK(shape("(2L, 3L)") == Sizes{2, 3});
  CHECK(shape("(7L,)") == Sizes{7});
  for (const char* bad : {"(2 3)", "(,)", "(2,,3)", "[2, 3]", "(6)", "6", "(-2, -3)", "(2.0, 3)",
                          "(+2, 3)", "(2LL, 3)", "(L, 3)", "(2l, 3)", "(0x2, 3)", "(2, 3",
                          "((2, 3))", "(True, 6)", "(18446744073709551616,)", "(2, 1+2)"})
    CHECK_THAT(error_of_shape(bad), ContainsSubstring("belongs"));
}

TEST_CASE("the dictionary must have each of its three keys once, and nothing else")
{
  const std::string whole = dictionary("'<f8'");
  CHECK(error(whole).empty());
  for (std::size_t length = 0; length + 1 < whole.size(); ++length)
    CHECK(!error(whole.substr(0, length)).empty());
  const std::string open = whole.substr(0, whole.size() - 2);
  CHECK_THAT(error(open + "'shape': (2, 3)}"), ContainsSubstring("\"shape\" where each of"));
  CHECK_THAT(error(open + "'descr': '<f8'}"), ContainsSubstring("\"descr\" where each of"));
  CHECK_THAT(error(open + "'fortran_order': True}"), ContainsSubstring("once"));
  CHECK_THAT(error(open + "'more': 1}"), ContainsSubstring("\"more\""));
  CHECK_THAT(error("{'descr': '<f8', 'shape': (2, 3)}"), ContainsSubstring("too little"));
  CHECK_THAT(error("{}"), ContainsSubstring("too little"));
  CHECK_THAT(error(whole + "x"), ContainsSubstring("\"x\" where nothing"));
  CHECK_THAT(error(whole + std::string(1, '\0')), ContainsSubstring("\\x00"));
  CHECK_THAT(error(open + ", }"), ContainsSubstring("a text in quotes"));
  for (const char* value : {"false", "0", "None", "Falsehood", "'False'"})
    CHECK(!error(dictionary("'<f8'", value)).empty());
  CHECK(error("{'" + std::string(10000, 'k') + "': 1}").size() < 300);
}

}  // namespace cubist::test::io_npy_dictionary_test
