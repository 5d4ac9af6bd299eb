// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/matrix/global.hpp"

#include "archive.hpp"
#include "ranks.hpp"

namespace cubist::test::support_archive_test
{

enum class Colour : std::uint8_t
{
  red,
  green
};

template <class T>
bool comes_back(const T& value)
{
  Unpacker unpack{packed(value)};
  return unpack.take<T>() == value && unpack.at_end();
}

TEST_CASE("values are unpacked as they were packed")
{
  CHECK(comes_back(true));
  CHECK(comes_back(-7));
  CHECK(comes_back(0x1.23456789ABCDEp-7));
  CHECK(comes_back(cubist::half{0.333F}));
  CHECK(comes_back(Colour::green));
  CHECK(comes_back(std::complex<float>{1, -2}));
  CHECK(comes_back(std::string{"two\0words", 9}));
  CHECK(comes_back(std::string{}));
  CHECK(comes_back(std::vector<std::vector<std::string>>{{"a", "bc"}, {}, {""}}));
  CHECK(comes_back(std::optional<int>{}));
  CHECK(comes_back(std::optional<std::vector<int>>{{1, 2}}));
  CHECK(comes_back(std::array<std::string, 2>{"a", "b"}));
  CHECK(comes_back(std::tuple<int, std::string, double>{1, "two", 3}));
  CHECK(comes_back(std::tuple<>{}));
}

struct One
{
  std::vector<int> only;
  friend bool operator==(const One&, const One&) = default;
};

struct Several
{
  bool flag = false;
  double number = 0;
  std::string name;
  One nested;
  std::array<int, 3> fixed{};
  std::pair<Colour, std::optional<std::string>> pair;
  friend bool operator==(const Several&, const Several&) = default;
};

struct Ten
{
  int a, b, c, d, e, f, g, h, i, j;
  friend bool operator==(const Ten&, const Ten&) = default;
};

TEST_CASE("structs are packed member by member")
{
  CHECK(comes_back(One{{1, 2, 3}}));
  CHECK(comes_back(Several{true, 1.5, "name", {{4}}, {1, 2, 3}, {Colour::green, "some"}}));
  CHECK(comes_back(Ten{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}));
  CHECK(comes_back(std::vector<Several>(3)));
  STATIC_REQUIRE(archive::member_count<One>() == 1);
  STATIC_REQUIRE(archive::member_count<Several>() == 6);
  STATIC_REQUIRE(archive::member_count<Ten>() == 10);
}

TEST_CASE("tensors keep their shape")
{
  const xt::xtensor<double, 2> matrix{{1, 2, 3}, {4, 5, 6}};
  CHECK(comes_back(matrix));
  const auto empty = xt::xtensor<float, 2>::from_shape({0, 5});
  CHECK(unpacked<xt::xtensor<float, 2>>(packed(empty)).shape() == empty.shape());
}

TEST_CASE("findings keep their count and their messages")
{
  Findings found;
  found.check(true, "all is well");
  found.check(false, "element ", 3, " is wrong");
  const auto back = unpacked<Findings>(packed(found));
  CHECK(back.checks() == 2);
  CHECK(back.wrong() == std::vector<std::string>{"element 3 is wrong"});
}

TEST_CASE("unpacking more than was packed is an error")
{
  CHECK_THROWS_AS(unpacked<double>(packed(1.0F)), std::out_of_range);
  CHECK_THROWS_AS(unpacked<std::string>(packed(std::size_t{1})), std::out_of_range);
}

}  // namespace cubist::test::support_archive_test
