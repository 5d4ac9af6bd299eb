// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/backend/threads.hpp"
#include "cubist/comm/decorator.hpp"

#include "ranks.hpp"

namespace cubist::test::comm_decorator_test
{

using Log = std::vector<std::string>;

/// Records its calls, before and after each begins, and its windows.
template <Communicator C, bool forwards_windows = true>
class Noting : public CommunicatorDecorator<Noting<C, forwards_windows>, C, forwards_windows>
{
 public:
  using CommunicatorDecorator<Noting, C, forwards_windows>::CommunicatorDecorator;

  [[nodiscard]] Log& log() const { return *log_; }

  template <Element T, class Begin>
  [[nodiscard]] auto on_call(const Call<T>& call, Begin begin)
  {
    log_->push_back("before " + std::string{to_string(call.kind)});
    auto request = begin(call);
    log_->push_back("after " + std::string{to_string(call.kind)});
    return request;
  }
  template <Element T, class Open>
  [[nodiscard]] auto on_window(const Call<T>& call, Open open)
  {
    log_->push_back("window of " + std::to_string(call.count));
    return open(call);
  }

 private:
  std::shared_ptr<Log> log_ = std::make_shared<Log>();
};

/// Adds nothing.
template <Communicator C>
class Plain : public CommunicatorDecorator<Plain<C>, C>
{
 public:
  using CommunicatorDecorator<Plain, C>::CommunicatorDecorator;
};

/// A communicator that sums in another order.
class Unordered : public Plain<ThreadsCommunicator>
{
 public:
  using Plain::Plain;
  [[nodiscard]] Unordered split(int, int) { return *this; }
};

}  // namespace cubist::test::comm_decorator_test

namespace cubist
{
template <>
inline constexpr bool sums_in_order<test::comm_decorator_test::Unordered> = false;
}  // namespace cubist

namespace cubist::test::comm_decorator_test
{

TEST_CASE("a decorator's hooks run around calls and windows, even in communicators that it splits")
{
  const auto logs = on_ranks<Threads>(2, [](ThreadsCommunicator& inner) {
    Noting<ThreadsCommunicator> world{inner};
    world.barrier();
    auto half = world.split(world.rank(), 0);
    half.barrier();
    const std::array mine{1, 2, 3};
    auto window = world.expose(mine);
    window.close();
    window.wait();
    return std::pair{world.log(), half.size()};
  });
  for (const auto& [log, size] : logs)
  {
    CHECK(log ==
          Log{"before barrier", "after barrier", "before barrier", "after barrier", "window of 3"});
    CHECK(size == 1);
  }
}

TEST_CASE("a decorator without hooks only passes on, and peers may write to what it exposes")
{
  const auto read = on_ranks<Threads>(2, [](ThreadsCommunicator& inner) {
    Plain<ThreadsCommunicator> world{inner};
    std::vector<int> mine(2);
    auto window = world.expose_writable(std::span{mine});
    window[1 - world.rank()][1] = world.rank() + 1;
    window.close();
    window.wait();
    world.all_reduce(mine);
    return mine;
  });
  CHECK(read == std::vector{std::vector{0, 3}, std::vector{0, 3}});
}

TEST_CASE(
    "a decorator exposes memory and adds in the order of what it decorates, unless it hides it")
{
  STATIC_REQUIRE(ExposesMemory<Noting<ThreadsCommunicator>>);
  STATIC_REQUIRE(ExposesMemory<Plain<Noting<ThreadsCommunicator>>>);
  STATIC_REQUIRE(Communicator<Noting<ThreadsCommunicator, false>>);
  STATIC_REQUIRE_FALSE(ExposesMemory<Noting<ThreadsCommunicator, false>>);
  STATIC_REQUIRE(SpreadsOverCores<Plain<ThreadsCommunicator>>);
  STATIC_REQUIRE(sums_in_order<Plain<ThreadsCommunicator>>);
  STATIC_REQUIRE(independent_messages<Plain<ThreadsCommunicator>>);
  STATIC_REQUIRE_FALSE(sums_in_order<Unordered>);
  STATIC_REQUIRE_FALSE(sums_in_order<Plain<Plain<Unordered>>>);
}

}  // namespace cubist::test::comm_decorator_test
