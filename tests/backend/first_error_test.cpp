// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/backend/first_error.hpp"

#include "ranks.hpp"

namespace cubist::test::backend_first_error_test
{

using cubist::detail::FirstError;

TEST_CASE("without an error there is no message, and nothing is thrown")
{
  const FirstError first;
  CHECK_FALSE(first);
  CHECK(first.message().empty());
  CHECK_NOTHROW(first.rethrow());
}

TEST_CASE("what a body throws is recorded before other ranks are told of it")
{
  FirstError first;
  std::string told;
  bool follows = true;
  const auto failed = [&](const std::string& what, bool is_consequence) {
    CHECK(first);
    told = FirstError::for_peers(2, what);
    follows = is_consequence;
  };
  first.run(
      2, [] {}, failed);
  CHECK_FALSE(first);
  first.run(
      2, [] { throw PeerFailed{"rank 1 failed"}; }, failed);
  CHECK(follows);
  first.run(
      2, [] { throw ShapeError{"too long"}; }, failed);
  CHECK_FALSE(follows);
  CHECK(told ==
        "rank 2 failed (too long), so calls of other ranks cannot complete; correct that rank's "
        "error");
  CHECK(first.message() == "rank 2: too long");
  first.run(
      2, [] { throw 42; }, failed);
  CHECK(told.find("rank 2 failed (an unknown exception)") == 0);
  CHECK_FALSE(follows);
}

template <class E>
std::exception_ptr error(const E& e)
{
  return std::make_exception_ptr(e);
}

TEST_CASE("an error is rethrown with its type, and with the rank that threw it")
{
  FirstError first;
  first.record(3, error(ShapeError{"too long"}), false);
  CHECK(first);
  CHECK(first.message() == "rank 3: too long");
  CHECK(message_of<ShapeError>([&] { first.rethrow(); }) == "rank 3: too long");
  CHECK(message_of<ShapeError>([&] { first.rethrow(); }) == "rank 3: too long");
  try
  {
    first.rethrow();
  }
  catch (const Error& e)
  {
    CHECK(e.rank() == 3);
  }
}

TEST_CASE("of several errors the first is reported")
{
  FirstError first;
  first.record(3, error(ShapeError{"too long"}), false);
  first.record(0, error(DataError{"too late"}), false);
  first.record(1, error(PeerFailed{"rank 3 failed"}), true);
  CHECK(first.message() == "rank 3: too long");
}

TEST_CASE("an error that is a consequence of another rank's is replaced by the root cause")
{
  FirstError first;
  first.record(1, error(PeerFailed{"rank 3 failed"}), true);
  CHECK(first.message() == "rank 1: rank 3 failed");
  first.record(2, error(PeerFailed{"rank 3 failed, too"}), true);
  CHECK(first.message() == "rank 1: rank 3 failed");
  first.record(3, error(ShapeError{"too long"}), false);
  CHECK(first.message() == "rank 3: too long");
  first.record(4, error(ShapeError{"too short"}), false);
  CHECK(first.message() == "rank 3: too long");
}

TEST_CASE("an error of another library is nested in one that names its rank")
{
  FirstError first;
  first.record(2, error(std::out_of_range{"element 7"}), false);
  CHECK(first.message() == "rank 2: element 7");
  std::string inner;
  try
  {
    first.rethrow();
  }
  catch (const RankFailed& failed)
  {
    CHECK(failed.rank() == 2);
    inner = message_of<std::out_of_range>([&] { std::rethrow_if_nested(failed); });
  }
  CHECK(inner == "element 7");
}

TEST_CASE("an object that is not an exception is reported, too")
{
  FirstError first;
  first.record(2, error(7), false);
  CHECK(mentions(first.message(), "rank 2: ", "not a std::exception", "throw a cubist::Error"));
  CHECK_THROWS_AS(first.rethrow(), RankFailed);
}

}  // namespace cubist::test::backend_first_error_test
