// SPDX-License-Identifier: BSD-3-Clause
#include <stdexcept>

#include "cubist/core/function_ref.hpp"

#include "catch.hpp"

namespace cubist::test::core_function_ref_test
{

using cubist::detail::FunctionRef;

TEST_CASE("a reference calls its function with its state and the caller's arguments")
{
  int x = 1;
  int calls = 0;
  auto add = [&calls, state = 10](int& y) mutable {
    ++calls;
    y += 1;
    return state++;
  };
  const auto twice = [](FunctionRef<int(int&)> f, int& y) { return f(y) + f(y); };
  CHECK(twice(add, x) == 21);
  CHECK(x == 3);
  CHECK(calls == 2);
  CHECK(twice([](const int& y) { return y; }, x) == 6);
}

TEST_CASE("a reference takes results and arguments that can only be moved, and passes errors on")
{
  const auto dereference = [](std::unique_ptr<int> p) {
    if (p == nullptr) throw std::invalid_argument{"null"};
    return std::make_unique<int>(*p + 1);
  };
  const FunctionRef<std::unique_ptr<int>(std::unique_ptr<int>)> f{dereference};
  CHECK(*f(std::make_unique<int>(4)) == 5);
  CHECK_THROWS_AS(f(nullptr), std::invalid_argument);
}

}  // namespace cubist::test::core_function_ref_test
