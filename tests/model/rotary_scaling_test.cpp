// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/model/rotary_scaling.hpp"

#include "ranks.hpp"

namespace cubist::test::rotary_scaling_test
{

using Type = RotaryScaling::Type;

/// The frequencies of all pairs in a head of 16 elements.
static std::vector<double> frequencies(const RotaryScaling& scaling)
{
  const cubist::detail::RotaryFrequency f{10000, 16, scaling};
  std::vector<double> all;
  for (std::size_t j = 0; j < 8; ++j) all.push_back(f(j));
  return all;
}

TEST_CASE("frequencies without scaling fall from 1 by a power of the base")
{
  const auto all = frequencies({});
  CHECK(all.front() == 1);
  for (std::size_t j = 1; j < 8; ++j)
    CHECK(std::abs(all[j] / all[j - 1] - std::pow(10, -0.5)) < 1e-15);
}

TEST_CASE("linear scaling divides every frequency by the factor")
{
  const auto plain = frequencies({});
  const auto scaled = frequencies({.type = Type::linear, .factor = 4});
  for (std::size_t j = 0; j < 8; ++j) CHECK(scaled[j] == plain[j] / 4);
}

TEST_CASE("Llama 3's scaling keeps short waves, divides long ones, and interpolates between")
{
  const auto plain = frequencies({});
  const RotaryScaling scaling{Type::llama3, 8, 1, 4, 128};
  const auto scaled = frequencies(scaling);
  std::vector<int> bands(3);
  for (std::size_t j = 0; j < 8; ++j)
  {
    const double waves = 128 * plain[j] / (2 * std::numbers::pi);  // in the sequences of training
    CAPTURE(j, waves);
    const std::size_t band = waves > 4 ? 0 : waves < 1 ? 2 : 1;
    ++bands[band];
    if (band == 0) CHECK(scaled[j] == plain[j]);
    if (band == 2) CHECK(scaled[j] == plain[j] / 8);
    if (band == 1)
    {
      const double share = (waves - 1) / 3;
      CHECK(std::abs(scaled[j] - (share + (1 - share) / 8) * plain[j]) < 1e-15 * plain[j]);
    }
  }
  CHECK((bands[0] > 0 && bands[1] > 0 && bands[2] > 0));
}

TEST_CASE("scalings that give no angles are refused")
{
  const auto refused = [](const RotaryScaling& s) {
    return message_of<ArgumentError>([&] { s.check(); });
  };
  CHECK(mentions(refused({.type = Type::linear, .factor = 0}), "scaled by 0", "positive"));
  CHECK(mentions(refused({.type = Type::llama3, .low_frequency = 4}), "no band to interpolate"));
  CHECK(mentions(refused({.type = Type::llama3, .factor = std::nan("")}), "scaled by nan"));
}

}  // namespace cubist::test::rotary_scaling_test
