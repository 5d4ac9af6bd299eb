// SPDX-License-Identifier: BSD-3-Clause
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "cubist/io/npy_dictionary.hpp"

#include "catch.hpp"

namespace io_npy_dictionary_test
{

using namespace cubist;
using Catch::Matchers::Contains;

namespace
{

using Sizes = std::vector<std::uint64_t>;

NpyHeader parse(const std::string& text)
{
  return cubist::detail::NpyDictionary{text, "x.npy"}.parse();
}

/// The message for a text that is refused; empty for one that is accepted.
std::string error(const std::string& text)
{
  try
  {
    (void)parse(text);
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

std::string error_of_type(const std::string& descr) { return error(dictionary(descr)); }
std::string error_of_shape(const std::string& shape)
{
  return error(dictionary("'<f8'", "False", shape));
}

}  // namespace

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
  CHECK_THAT(error_of_type("'>f8'"), Contains("wrong order") && Contains("np.asarray(x, '<f8')"));
  CHECK_THAT(error_of_type("'|O'"), Contains("Python objects"));
  CHECK_THAT(error_of_type("'O'"), Contains("Python objects"));
  CHECK_THAT(error_of_type("[('a', '<f8')]"), Contains("several fields"));
  for (const char* descr : {"'<f16'", "'|V2'", "'<U5'", "'|S3'", "'<M8[s]'", "'|f8'", "'f8'", "'<'",
                            "''", "'=f8'", "'<f8 '", "'<b2'"})
    CHECK_THAT(error_of_type(descr), Contains("no numbers that cubist knows"));
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
  for (const char* bad : {"(2 3)", "(,)", "(2,,3)", "[2, 3]", "(6)", "6", "(-2, -3)", "(2.0, 3)",
                          "(+2, 3)", "(2L, 3L)", "(0x2, 3)", "(2, 3", "((2, 3))", "(True, 6)",
                          "(18446744073709551616,)", "(2, 1+2)"})
    CHECK_THAT(error_of_shape(bad), Contains("belongs"));
}

TEST_CASE("the dictionary must have each of its three keys once, and nothing else")
{
  const std::string whole = dictionary("'<f8'");
  CHECK(error(whole).empty());
  for (std::size_t length = 0; length + 1 < whole.size(); ++length)
    CHECK(!error(whole.substr(0, length)).empty());
  const std::string open = whole.substr(0, whole.size() - 2);
  CHECK_THAT(error(open + "'shape': (2, 3)}"), Contains("\"shape\" where each of"));
  CHECK_THAT(error(open + "'descr': '<f8'}"), Contains("\"descr\" where each of"));
  CHECK_THAT(error(open + "'fortran_order': True}"), Contains("once"));
  CHECK_THAT(error(open + "'more': 1}"), Contains("\"more\""));
  CHECK_THAT(error("{'descr': '<f8', 'shape': (2, 3)}"), Contains("too little"));
  CHECK_THAT(error("{}"), Contains("too little"));
  CHECK_THAT(error(whole + "x"), Contains("\"x\" where nothing"));
  CHECK_THAT(error(whole + std::string(1, '\0')), Contains("\\x00"));
  CHECK_THAT(error(open + ", }"), Contains("a text in quotes"));
  for (const char* value : {"false", "0", "None", "Falsehood", "'False'"})
    CHECK(!error(dictionary("'<f8'", value)).empty());
  CHECK(error("{'" + std::string(10000, 'k') + "': 1}").size() < 300);
}

}  // namespace io_npy_dictionary_test
