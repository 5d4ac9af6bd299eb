// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/io/quote.hpp"

#include "catch.hpp"

namespace cubist::test::io_quote_test
{

using cubist::quote;

TEST_CASE("a quote is short and printable")
{
  CHECK(quote("") == "\"\"");
  CHECK(quote("layers.0.weight") == "\"layers.0.weight\"");
  CHECK(quote(std::string("a\0b\n\x7F\x80\xFF", 7)) == R"("a\x00b\x0a\x7f\x80\xff")");
  CHECK(quote("12345", 5) == "\"12345\"");
  CHECK(quote("123456", 5) == "\"12345...\"");
  CHECK(quote(std::string(50'000'000, 'x')).size() == 45);
}

}  // namespace cubist::test::io_quote_test
