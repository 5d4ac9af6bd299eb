// SPDX-License-Identifier: BSD-3-Clause
#include <memory>
#include <vector>

#include "cubist/simulation/fiber.hpp"

#include "catch.hpp"

namespace cubist::test::simulation_fiber_test
{

using cubist::detail::Fiber;

TEST_CASE("a fiber continues where it switched to another")
{
  Fiber thread;
  std::vector<int> order;
  std::unique_ptr<Fiber> a;
  std::unique_ptr<Fiber> b;
  a = std::make_unique<Fiber>([&] {
    for (int i = 0; i < 3; ++i)
    {
      order.push_back(i);
      a->switch_to(*b);
    }
    a->leave(thread);
  });
  b = std::make_unique<Fiber>([&] {
    for (int i = 10;; ++i)
    {
      order.push_back(i);
      b->switch_to(*a);
    }
  });
  thread.switch_to(*a);
  CHECK(order == std::vector{0, 10, 1, 11, 2, 12});
}

TEST_CASE("each fiber handles its own exceptions")
{
  Fiber thread;
  std::vector<std::unique_ptr<Fiber>> fibers(2);
  std::vector<std::string> caught(2);
  for (std::size_t i = 0; i < 2; ++i)
    fibers[i] = std::make_unique<Fiber>([&, i] {
      try
      {
        throw std::runtime_error{std::to_string(i)};
      }
      catch (const std::exception& e)
      {
        // The other fiber throws and catches while this one handles its exception.
        fibers[i]->switch_to(i == 0 ? *fibers[1] : thread);
        try
        {
          throw;
        }
        catch (const std::exception& again)
        {
          caught[i] = std::string{e.what()} + again.what();
        }
      }
      fibers[i]->leave(thread);
    });
  thread.switch_to(*fibers[0]);  // both have thrown, and wait
  thread.switch_to(*fibers[0]);
  thread.switch_to(*fibers[1]);
  CHECK(caught == std::vector<std::string>{"00", "11"});
}

TEST_CASE("there may be many fibers, with deep stacks")
{
  Fiber thread;
  struct Recursion
  {
    static int sum(int depth) { return depth == 0 ? 0 : depth + sum(depth - 1); }
  };
  std::vector<std::unique_ptr<Fiber>> fibers(1000);
  int sum = 0;
  for (auto& fiber : fibers)
    fiber = std::make_unique<Fiber>([&] {
      sum += Recursion::sum(1000);
      fiber->leave(thread);
    });
  for (auto& fiber : fibers) thread.switch_to(*fiber);
  CHECK(sum == 1000 * 500'500);
}

}  // namespace cubist::test::simulation_fiber_test
