// SPDX-License-Identifier: BSD-3-Clause
#include <vector>

#include "cubist/core/vector_math.hpp"
#include "cubist/engine/host/element_loop.hpp"

#include "catch.hpp"

namespace cubist::test::engine_host_element_loop_test
{

using detail::Target;

const std::vector<Target> targets{Target::as_compiled, Target::avx2, Target::avx512};

TEST_CASE("every element is visited once, and none beyond")
{
  for (const Target target : targets)
    for (const std::size_t n : {0U, 1U, 2U, 31U, 32U, 33U, 64U, 100U})
    {
      if (!detail::supports(target)) continue;
      CAPTURE(static_cast<int>(target), n);
      std::vector<int> counts(n + 40);
      std::vector<double> sums(n + 40, 1);
      const std::vector<float> in(n + 40, 2);
      detail::for_elements(
          target, n,
          [](int& count, double& sum, const float& x) {
            ++count;
            sum += static_cast<double>(x);
          },
          counts.data(), sums.data(), in.data());
      for (std::size_t i = 0; i < counts.size(); ++i)
      {
        CHECK(counts[i] == (i < n ? 1 : 0));
        CHECK(sums[i] == (i < n ? 3 : 1));
      }
    }
}

/// Uses products and sums that a compiler may contract, a quotient, bits, and a comparison.
struct Elaborate
{
  template <class T>
  void operator()(T& out, const T& x) const
  {
    const auto tail = detail::normal_tail(x);
    out = detail::pick(x < T{}, T{}, x) - tail.a * tail.ratio * tail.gaussian;
  }
};

template <class T>
std::vector<T> numbers(std::size_t n)
{
  std::vector<T> x(n);
  for (std::size_t i = 0; i < n; ++i) x[i] = static_cast<T>(5 * std::sin(static_cast<double>(i)));
  return x;
}

TEMPLATE_TEST_CASE("an element's bits depend neither on its place nor on its neighbours", "", float,
                   double)
{
  using T = TestType;
  constexpr std::size_t n = 3 * detail::block_length + 7;
  const auto x = numbers<T>(n);
  for (const Target target : targets)
  {
    if (!detail::supports(target)) continue;
    CAPTURE(static_cast<int>(target));
    std::vector<T> whole(n);
    detail::for_elements(target, n, Elaborate{}, whole.data(), x.data());
    for (std::size_t i = 0; i < n; ++i)
      for (const std::size_t length : {std::size_t{1}, std::size_t{5}, detail::block_length, n})
      {
        if (i + length > n) continue;
        std::vector<T> part(length);
        detail::for_elements(target, length, Elaborate{}, part.data(), x.data() + i);
        REQUIRE(part == std::vector<T>(whole.begin() + static_cast<std::ptrdiff_t>(i),
                                       whole.begin() + static_cast<std::ptrdiff_t>(i + length)));
      }
  }
}

TEMPLATE_TEST_CASE("targets differ only by contraction", "", float, double)
{
  using T = TestType;
  const auto x = numbers<T>(1000);
  std::vector<T> plain(x.size());
  detail::for_elements(Target::as_compiled, x.size(), Elaborate{}, plain.data(), x.data());
  std::vector<std::vector<T>> contracted;
  for (const Target target : {Target::avx2, Target::avx512})
  {
    if (!detail::supports(target)) continue;
    auto& y = contracted.emplace_back(x.size());
    detail::for_elements(target, x.size(), Elaborate{}, y.data(), x.data());
    for (std::size_t i = 0; i < x.size(); ++i)
      REQUIRE(y[i] == Approx(plain[i]).epsilon(10 * double{std::numeric_limits<T>::epsilon()}));
  }
  if (contracted.size() == 2) CHECK(contracted[0] == contracted[1]);
}

TEST_CASE("a loop may be in place, and of complex numbers")
{
  using C = std::complex<double>;
  for (const std::size_t n : {5U, 32U, 70U})
  {
    std::vector<C> x(n);
    for (std::size_t i = 0; i < n; ++i) x[i] = {static_cast<double>(i), 1};
    detail::for_elements(
        detail::best_target(), n,
        [](C& out, const C& in) {
          out = in * C{0, 2};
        },
        x.data(), static_cast<const C*>(x.data()));
    for (std::size_t i = 0; i < n; ++i) CHECK(x[i] == C{-2, 2 * static_cast<double>(i)});
  }
}

TEST_CASE("the padding of the last block consists of valid elements")
{
  const std::vector<int> x(5, 3);
  std::vector<int> y(5);
  detail::for_elements(
      detail::best_target(), 5, [](int& out, const int& in) { out = 12 / in; }, y.data(), x.data());
  CHECK(y == std::vector<int>(5, 4));
}

}  // namespace cubist::test::engine_host_element_loop_test
