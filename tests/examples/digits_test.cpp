// SPDX-License-Identifier: BSD-3-Clause

#include <cstdio>
#include <fstream>
#include <set>
#include <sstream>
#include <string>

#include <cubist/core/error.hpp>

#include "../../examples/digits.hpp"
#include "catch.hpp"

namespace examples_digits_test
{

namespace
{

/// A file that is gone at the end of the scope.
class File
{
 public:
  explicit File(const std::string& content) { std::ofstream{path_} << content; }
  ~File() { std::remove(path_.c_str()); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_ = "digits_test_" + std::to_string(std::random_device{}()) + ".csv";
};

std::string digit(int pixel, int label)
{
  std::string line;
  for (int i = 0; i < 64; ++i) line += std::to_string(pixel) + ",";
  return line + std::to_string(label) + "\n";
}

std::string digits_file(int count)
{
  std::string all;
  for (int i = 0; i < count; ++i) all += digit(i % 17, i % 10);
  return all;
}

std::string error_of(const std::string& content)
{
  const File file{content};
  try
  {
    digits::read(file.path());
  }
  catch (const cubist::DataError& e)
  {
    return e.what();
  }
  return "no error";
}

}  // namespace

TEST_CASE("a file of digits is read line by line")
{
  const File file{digits_file(40)};
  const auto images = digits::read(file.path());
  REQUIRE(images.size() == 40);
  CHECK(images[23].label == 3);
  CHECK(images[23].pixels[0] == 6);
  CHECK(images[23].pixels[63] == 6);
}

TEST_CASE("the example's own digits are whole")
{
  const auto images = digits::read(CUBIST_DIGITS_CSV);
  CHECK(images.size() == 1797);
  CHECK(images.front().label == 0);
  CHECK(images.front().pixels[2] == 5);
}

TEST_CASE("a file of digits that is missing, truncated or something else is an error")
{
  using Catch::Matchers::Contains;
  CHECK_THROWS_AS(digits::read("/nowhere/digits.csv"), cubist::DataError);
  CHECK_THROWS_WITH(digits::read("/nowhere/digits.csv"), Contains("--data"));
  const std::string whole = digits_file(40);
  CHECK_THAT(error_of(whole.substr(0, whole.size() - 1)), Contains("truncated"));
  CHECK_THAT(error_of(whole.substr(0, whole.size() - 30)), Contains("line 40"));
  CHECK_THAT(error_of(""), Contains("too few"));
  CHECK_THAT(error_of(digit(17, 0)), Contains("0 to 16"));
  CHECK_THAT(error_of(digit(-1, 0)), Contains("0 to 16"));
  CHECK_THAT(error_of(digit(3, 10)), Contains("0 to 9"));
  CHECK_THAT(error_of("1,2,3\n"), Contains("fewer than 65"));
  CHECK_THAT(error_of("0," + digit(3, 1)), Contains("more than 65"));
  CHECK_THAT(error_of("a picture of a digit\n"), Contains("value 1"));
}

TEST_CASE("the split keeps every image once and is normalised by its training part")
{
  const auto images = digits::read(CUBIST_DIGITS_CSV);
  const auto split = digits::split(images, 42);
  CHECK(split.held_out.size() == images.size() / 5);
  CHECK(split.held_out.size() + split.training.size() == images.size());
  std::multiset<int> before;
  std::multiset<int> after;
  for (const auto& i : images) before.insert(i.label);
  for (const auto& i : split.training) after.insert(i.label);
  for (const auto& i : split.held_out) after.insert(i.label);
  CHECK(before == after);

  double sum = 0;
  double squares = 0;
  for (const auto& i : split.training)
    for (const double p : i.pixels)
    {
      sum += p;
      squares += p * p;
    }
  const auto n = static_cast<double>(split.training.size() * digits::pixel_count);
  CHECK(std::abs(sum / n) < 1e-10);
  CHECK(std::abs(squares / n - 1) < 1e-10);
}

TEST_CASE("every epoch shuffles anew, and the same on every run")
{
  const auto a = digits::shuffled(100, 1, 1);
  CHECK(a == digits::shuffled(100, 1, 1));
  CHECK(a != digits::shuffled(100, 1, 2));
  CHECK(a != digits::shuffled(100, 2, 1));
  CHECK(std::set<std::size_t>(a.begin(), a.end()).size() == 100);
}

}  // namespace examples_digits_test
