// SPDX-License-Identifier: BSD-3-Clause
#include <cstdio>
#include <random>

#include "cubist/io/csv.hpp"

#include "catch.hpp"
#include "message.hpp"

namespace cubist::test::io_csv_test
{

using Catch::Matchers::ContainsSubstring;

using Values = std::vector<double>;

/// The error message for a text; empty if the text is accepted.
static std::string error(const std::string& text, const CsvOptions& options = {})
{
  return message_of<DataError>([&] { (void)parse_csv(text, "x.csv", options); });
}

TEST_CASE("a table of numbers is read line by line")
{
  const auto table = parse_csv("1,-2.5,3e2\n0, 4 ,.5\r\n", "x.csv");
  CHECK(table.rows == 2);
  CHECK(table.cols == 3);
  CHECK(table.values == Values{1, -2.5, 300, 0, 4, 0.5});
  CHECK(parse_csv("7\n", "x.csv").values == Values{7});
  const auto none = parse_csv("", "x.csv");
  CHECK((none.rows == 0 && none.cols == 0 && none.values.empty()));
}

TEST_CASE("every double is read exactly")
{
  using Limits = std::numeric_limits<double>;
  const auto table =
      parse_csv("0.1,1.7976931348623157e308,5e-324,-0,2.2250738585072014E-308\n", "x");
  CHECK(table.values == Values{0.1, Limits::max(), Limits::denorm_min(), 0, Limits::min()});
  CHECK(std::signbit(table.values[3]));
}

TEST_CASE("the separator and the header are options")
{
  CHECK(parse_csv("1;2\n", "x", {.separator = ';'}).values == Values{1, 2});
  CHECK(parse_csv("1 2\n", "x", {.separator = ' '}).values == Values{1, 2});
  CHECK(parse_csv("1\t2\n", "x", {.separator = '\t'}).values == Values{1, 2});
  const auto table = parse_csv("a,b,c\n1,2\n", "x", {.header = true});
  CHECK(table.rows == 1);
  CHECK(table.values == Values{1, 2});
  CHECK(parse_csv("a,b\n", "x", {.header = true}).rows == 0);
  CHECK_THAT(error("a,b\n1,2\n"), ContainsSubstring("line 1, value 1, is \"a\""));
  const auto later = error("a,b\n1,x\n", {.header = true});
  CHECK_THAT(later, ContainsSubstring("line 2, value 2, is \"x\""));
  CHECK_THAT(later, ContainsSubstring("; write one, such as -1.5e3, or leave the line out; number "
                                      "the classes from 0 if it names one"));
  const auto missing = error("a,b\n1,nan\n", {.header = true});
  CHECK_THAT(missing, !ContainsSubstring("classes"));
}

TEST_CASE("a value that is not a finite number is refused, with its line and place")
{
  CHECK_THAT(error("1,2\n3,four\n"),
             ContainsSubstring("x.csv, whose line 2, value 2, is \"four\""));
  for (const char* bad : {"nan",
                          "-inf",
                          "infinity",
                          "NaN(1)",
                          "1e400",
                          "-1e999",
                          "1e99999999999999999999",
                          "0.001e400",
                          "+",
                          "+-1",
                          "++1",
                          "0x1",
                          "1.5.2",
                          "1,",
                          ",1",
                          "1 2",
                          "1d3",
                          "1\xEF\xBB\xBF",
                          "\"1\"",
                          "--1",
                          "1\r\r"})
  {
    CAPTURE(bad);
    CHECK_THAT(error(std::string{bad} + '\n'), ContainsSubstring("not a finite number"));
  }
  CHECK_THAT(error(std::string("1\0\n", 3)), ContainsSubstring("1\\x00"));
  CHECK_THAT(error("1\n\n2\n"), ContainsSubstring("line 2, value 1, is \"\""));
  CHECK(error(std::string(1'000'000, 'x') + '\n').size() < 200);
}

TEST_CASE("lines with different numbers of values are refused")
{
  CHECK_THAT(error("1,2,3\n4,5\n"),
             ContainsSubstring("line 2 has 2 values, but the lines before it have 3"));
  CHECK_THAT(error("1\n4,5\n"),
             ContainsSubstring("line 2 has 2 values, but the lines before it have 1"));
}

TEST_CASE("a byte-order mark, a blank end and a last line without a newline are read")
{
  const std::string mark = "\xEF\xBB\xBF";
  const Values wanted{1, 2, 3, 4};
  for (const std::string end : {"", "\n", "\r\n", "\n\n", "\r\n\r\n", "\n  \n \n", "\n "})
  {
    CAPTURE(end);
    CHECK(parse_csv("1,2\n3,4" + end, "x").values == wanted);
    CHECK(parse_csv(mark + "1,2\r\n3,4" + end, "x").values == wanted);
    CHECK(parse_csv(mark + "a,b\n1,2\n3,4" + end, "x", {.header = true}).values == wanted);
    CHECK(parse_csv("1 2\n3 4" + end, "x", {.separator = ' '}).values == wanted);
    CHECK(parse_csv("a,b" + end, "x", {.header = true}).rows == 0);
    CHECK(parse_csv(mark + end, "x").rows == 0);
  }
  CHECK_THAT(error(mark + "1,x\n"), ContainsSubstring("line 1, value 2, is \"x\""));
  CHECK_THAT(error("1,2\n3"), ContainsSubstring("line 2 has 1 values"));
  for (const std::string& unicode : {std::string("\xFF\xFE"), std::string("\xFE\xFF")})
    CHECK_THAT(error(unicode + std::string("1\0\n\0", 4)), ContainsSubstring("UTF-16"));
}

TEST_CASE("a sign is read, and a number too small for a double is the nearest, which is 0")
{
  using Limits = std::numeric_limits<double>;
  // The last two are the neighbours of half the smallest denormal, 2.4703282292062327e-324.
  const auto table = parse_csv("+1.5,+.5e+1,1e-400,-1e-400,1e-99999999999999999999,-0.0001e-320,"
                               "123456e-400,3e-324,2.4703282292062328e-324,2.4703282292062327e-324",
                               "x");
  CHECK(table.values ==
        Values{1.5, 5, 0, 0, 0, 0, 0, Limits::denorm_min(), Limits::denorm_min(), 0});
  CHECK((!std::signbit(table.values[2]) && std::signbit(table.values[3])));
}

TEST_CASE("the advice to skip a header is given where no value of the first line is a number")
{
  for (const char* header : {"a,b", "x,2nd", "\"a\",\"b\"", "label,,x", "name,information"})
  {
    CAPTURE(header);
    CHECK_THAT(
        error(header + std::string{"\n1,2\n"}),
        ContainsSubstring("; write one, such as -1.5e3, or skip a header with .header = true"));
  }
  for (const char* row : {"1,x", "x,1", "1,", "nan,nan", "x,inf", "1e999,x", "\"1\",\"2\"", "x,+1",
                          "1;2", "1 2", "1\t2", ",", "3rd,4th"})
  {
    CAPTURE(row);
    const auto message = error(row + std::string{"\n1,2\n"});
    CHECK_THAT(message, ContainsSubstring("not a finite number"));
    CHECK_THAT(message, !ContainsSubstring(".header"));
  }
  CHECK_THAT(error("1;2\n"), ContainsSubstring("or name the separator of the values"));
  CHECK_THAT(error("1,2\na,b\n"), ContainsSubstring("or leave the line out"));
}

TEST_CASE("a long file is read, and a missing one is an error")
{
  const std::string path = "csv_test_" + std::to_string(std::random_device{}()) + ".csv";
  std::string text;
  for (int i = 0; i < 50000; ++i) text += std::to_string(i) + ",1\n";
  std::ofstream{path} << text;
  const auto table = read_csv(path);
  std::remove(path.c_str());
  CHECK(table.rows == 50000);
  CHECK(table.values[2 * 49999] == 49999);
  CHECK_THROWS_WITH(read_csv(path), ContainsSubstring("cannot read " + path));
  CHECK_THROWS_AS(read_csv("/"), DataError);
  CHECK(read_csv("/dev/null").rows == 0);
}

}  // namespace cubist::test::io_csv_test
