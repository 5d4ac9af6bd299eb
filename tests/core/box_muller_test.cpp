// SPDX-License-Identifier: BSD-3-Clause
#include <vector>

#include "cubist/core/box_muller.hpp"
#include "cubist/core/philox.hpp"
#include "cubist/engine/host/element_loop.hpp"

#include "catch.hpp"

namespace cubist::test::core_box_muller_test
{

constexpr std::uint64_t end = std::uint64_t{1} << 53;

/// Both ends, the borders of quadrants, and numbers in between.
static std::vector<std::uint64_t> samples()
{
  std::vector<std::uint64_t> all;
  for (std::uint64_t eighth = 0; eighth <= 8; ++eighth)
    for (std::uint64_t d = 0; d < 3; ++d)
    {
      all.push_back(std::min(eighth * (end / 8) + d, end - 1));
      if (eighth > 0) all.push_back(eighth * (end / 8) - 1 - d);
    }
  for (std::uint64_t i = 0; i < 2000; ++i)
    all.push_back(static_cast<std::uint64_t>(Philox{1, 2}.uniform<double>(i) * 0x1p53));
  for (int shift = 0; shift < 53; ++shift) all.push_back(end - (std::uint64_t{1} << shift));
  return all;
}

TEST_CASE("box_muller is its formula, to the last places")
{
  const long double pi = std::acos(-1.0L);
  double worst = 0;
  for (const std::uint64_t k : samples())
    for (const std::uint64_t l : {k, (k * 7919) % end, std::uint64_t{end / 8 + 1}})
    {
      const auto u = static_cast<long double>(k) * 0x1p-53L;
      const auto v = static_cast<long double>(l) * 0x1p-53L;
      const long double r = std::sqrt(-2 * std::log1p(-u));
      const auto got = detail::box_muller(k, l);
      const auto error = [&](double z, long double wanted) {
        return r == 0 ? std::abs(z) : static_cast<double>(std::abs(z - wanted) / r);
      };
      worst = std::max(worst, error(got.x, r * std::cos(2 * pi * v)));
      worst = std::max(worst, error(got.y, r * std::sin(2 * pi * v)));
    }
  CHECK(worst < 4 * 0x1p-53);
}

TEST_CASE("box_muller at the ends")
{
  CHECK(detail::box_muller(0, 12345).x == 0);
  CHECK(detail::box_muller(0, 12345).y == 0);
  const double most = std::sqrt(2 * 53 * std::log(2.0));
  CHECK(most < 8.58);
  CHECK(detail::box_muller(end - 1, 0).x == Approx(most).epsilon(1e-15));
  CHECK(detail::box_muller(end - 1, 0).y == 0);
  CHECK(detail::box_muller(end - 1, end / 4).x == 0);
  CHECK(detail::box_muller(end - 1, end / 4).y == Approx(most).epsilon(1e-15));
  CHECK(detail::box_muller(end - 1, end / 2).x == Approx(-most).epsilon(1e-15));
  CHECK(detail::box_muller(end - 1, end / 4 * 3).y == Approx(-most).epsilon(1e-15));
}

/// Writes the bits of the normal number at `index` to `out`.
struct NormalBits
{
  void operator()(std::uint64_t& out, const std::uint64_t& index) const
  {
    out = std::bit_cast<std::uint64_t>(Philox{42, 7}.normal<double>(index, 1));
  }
};

// If a compiler could contract a product and a sum, the loops with FMA would give other bits.
TEST_CASE("normal numbers have the same bits on every processor")
{
  constexpr std::size_t n = 20'000;
  std::vector<std::uint64_t> index(n);
  for (std::size_t i = 0; i < n; ++i) index[i] = i;
  using detail::Target;
  for (const Target target : {Target::as_compiled, Target::avx2, Target::avx512})
  {
    if (!detail::supports(target)) continue;
    CAPTURE(static_cast<int>(target));
    std::vector<std::uint64_t> bits(n);
    detail::for_elements(target, n, NormalBits{}, bits.data(), index.data());
    std::uint64_t hash = 0;
    for (const std::uint64_t b : bits) hash = (hash ^ b) * 0x100000001b3;
    CHECK(hash == 0x35a9'2e26'b116'afd7);
  }
}

}  // namespace cubist::test::core_box_muller_test
