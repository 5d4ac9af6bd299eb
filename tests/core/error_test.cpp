// SPDX-License-Identifier: BSD-3-Clause
#include <exception>
#include <locale>
#include <type_traits>

#include "cubist/core/error.hpp"

#include "catch.hpp"

namespace cubist::test::core_error_test
{

TEST_CASE("every error is a cubist::Error and a std::runtime_error")
{
  STATIC_REQUIRE(std::is_base_of_v<std::runtime_error, Error>);
  STATIC_REQUIRE(std::is_base_of_v<Error, MeshError>);
  STATIC_REQUIRE(std::is_base_of_v<Error, ShapeError>);
  STATIC_REQUIRE(std::is_base_of_v<Error, ArgumentError>);
  STATIC_REQUIRE(std::is_base_of_v<Error, DataError>);
  STATIC_REQUIRE(std::is_base_of_v<Error, ReplicaError>);
  STATIC_REQUIRE(std::is_base_of_v<Error, NumericError>);
  STATIC_REQUIRE(std::is_base_of_v<Error, RankFailed>);
  STATIC_REQUIRE(std::is_base_of_v<CommunicationError, PeerFailed>);
  STATIC_REQUIRE(std::is_base_of_v<CommunicationError, CollectiveMismatch>);
  STATIC_REQUIRE(std::is_base_of_v<CommunicationError, DeadlockError>);
  STATIC_REQUIRE_FALSE(std::is_base_of_v<CommunicationError, RankFailed>);
}

TEST_CASE("an error has a rank after set_rank")
{
  ShapeError e{"got 3 rows; give 4"};
  CHECK_FALSE(e.rank().has_value());
  CHECK(std::string{e.what()} == "got 3 rows; give 4");

  e.set_rank(7);
  CHECK(e.rank() == 7);
  CHECK(std::string{e.what()} == "rank 7: got 3 rows; give 4");

  SECTION("the last rank is kept")
  {
    e.set_rank(0);
    CHECK(e.rank() == 0);
    CHECK(std::string{e.what()} == "rank 0: got 3 rows; give 4");
  }
  SECTION("a message that begins with the rank is not changed")
  {
    for (const std::string text : {"rank 7 called barrier", "rank 7: no file"})
    {
      ShapeError named{text};
      named.set_rank(7);
      CHECK(named.what() == text);
      CHECK(named.rank() == 7);
    }
    ShapeError other{"rank 77 failed"};
    other.set_rank(7);
    CHECK(std::string{other.what()} == "rank 7: rank 77 failed");
  }
  SECTION("a copy has it, too")
  {
    const Error copy = e;
    CHECK(copy.rank() == 7);
    CHECK(std::string{copy.what()} == "rank 7: got 3 rows; give 4");
  }
  SECTION("what() works through std::exception")
  {
    const std::exception& base = e;
    CHECK(std::string{base.what()} == "rank 7: got 3 rows; give 4");
  }
}

TEST_CASE("require throws the requested type with the parts as its message")
{
  CHECK_NOTHROW(require<MeshError>(true, "never seen"));
  CHECK_THROWS_AS(require<MeshError>(false, "x"), MeshError);
  CHECK_THROWS_AS(require<DataError>(false, "x"), DataError);
  CHECK_THROWS_WITH(
      require<MeshError>(false, "got ", 6, " ranks, not ", std::string{"a cube"}, '!'),
      "got 6 ranks, not a cube!");
}

TEST_CASE("numbers in messages have no separators, whatever the program's locale")
{
  struct Separators : std::numpunct<char>
  {
    char do_thousands_sep() const override { return ','; }
    char do_decimal_point() const override { return ';'; }
    std::string do_grouping() const override { return "\3"; }
  };
  const std::locale before = std::locale::global(std::locale{std::locale{}, new Separators});
  std::string message;
  try
  {
    require<ShapeError>(false, "got ", 1234567, " rows and ", 2.5);
  }
  catch (const ShapeError& e)
  {
    message = e.what();
  }
  std::locale::global(before);
  CHECK(message == "got 1234567 rows and 2.5");
}

}  // namespace cubist::test::core_error_test
