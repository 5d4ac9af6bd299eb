// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <numeric>
#include <vector>

#include "cubist/nn/dense/activation.hpp"

#include "bend.hpp"
#include "catch.hpp"

namespace cubist::test::activation_test
{

TEMPLATE_TEST_CASE("activations have their known values", "", float, double)
{
  const struct
  {
    double x, sigmoid, tanh, silu, gelu, gelu_tanh;
  } known[] = {
      {-2.0, 0.11920292202211755, -0.9640275800758169, -0.23840584404423509, -0.045500263896358438,
       -0.045402305912224938},
      {-0.5, 0.37754066879814541, -0.46211715726000974, -0.1887703343990727, -0.15426876936299344,
       -0.15428599017485606},
      {1.0, 0.7310585786300049, 0.76159415595576485, 0.7310585786300049, 0.84134474606854293,
       0.84119199060827676},
      {3.0, 0.95257412682243336, 0.99505475368673046, 2.8577223804673002, 2.9959503059051098,
       2.9963626079182268},
      {0.0, 0.5, 0.0, 0.0, 0.0, 0.0},
  };
  const auto near = [](double wanted) {
    return Approx(wanted).epsilon(0).margin(4 * double{std::numeric_limits<TestType>::epsilon()});
  };
  for (const auto& k : known)
  {
    const auto x = static_cast<TestType>(k.x);
    CAPTURE(x);
    CHECK(identity(x) == x);
    CHECK(relu(x) == (x > 0 ? x : 0));
    CHECK(sigmoid(x) == near(k.sigmoid));
    CHECK(cubist::tanh(x) == near(k.tanh));
    CHECK(silu(x) == near(k.silu));
    CHECK(gelu(x) == near(k.gelu));
    CHECK(gelu_tanh(x) == near(k.gelu_tanh));
  }
}

template <class T>
T value(const Activation& f, T x)
{
  return std::visit([x](auto g) { return g(x); }, f);
}
template <class T>
T derivative(const Activation& f, T x)
{
  return std::visit([x](auto g) { return g.derivative(x); }, f);
}

using Wide = long double;
constexpr double infinity = std::numeric_limits<double>::infinity();

/// What an activation tends to on the left and on the right, and its slope just right of 0.
struct Limits
{
  double left, right, left_slope, right_slope, slope_at_zero;
};

/// An activation by its definition, and its derivative as a sum of two terms. Where the terms
/// cancel, a function can be exact relative to its terms, but not relative to their sum.
struct Definition
{
  const char* name;
  Activation f;
  Wide (*value)(Wide);
  std::pair<Wide, Wide> (*derivative)(Wide);
  Limits limits;
  bool is_exact = true;  // to a few units in the last place, however small it is
};

static Wide logistic(Wide x) { return 1 / (1 + std::exp(-x)); }
static Wide normal(Wide x) { return std::erfc(-x / std::numbers::sqrt2_v<Wide>) / 2; }
static Wide density(Wide x)
{
  return std::exp(-x * x / 2) * std::numbers::inv_sqrtpi_v<Wide> / std::numbers::sqrt2_v<Wide>;
}
constexpr Wide root_of_two_over_pi = std::numbers::sqrt2_v<Wide> * std::numbers::inv_sqrtpi_v<Wide>;
static Wide approximate_normal(Wide x)
{
  return (1 + std::tanh(root_of_two_over_pi * (x + 0.044715L * x * x * x))) / 2;
}
static Wide approximate_density(Wide x)
{
  const Wide p = approximate_normal(x);
  return 2 * p * (1 - p) * root_of_two_over_pi * (1 + 3 * 0.044715L * x * x);
}

/// Every activation: each test below checks all of them.
const std::vector<Definition> definitions{
    {"identity", identity, [](Wide x) { return x; },
     [](Wide) {
       return std::pair{Wide{1}, Wide{}};
     },
     Limits{-infinity, infinity, 1, 1, 1}},
    {"relu", relu, [](Wide x) { return std::max(x, Wide{}); },
     [](Wide x) {
       return std::pair{x > 0 ? Wide{1} : Wide{}, Wide{}};
     },
     Limits{0, infinity, 0, 1, 1}},
    {"sigmoid", sigmoid, logistic,
     [](Wide x) {
       return std::pair{logistic(x) * logistic(-x), Wide{}};
     },
     Limits{0, 1, 0, 0, 0.25}},
    {"tanh", cubist::tanh, [](Wide x) { return std::tanh(x); },
     [](Wide x) {
       return std::pair{1 / (std::cosh(x) * std::cosh(x)), Wide{}};
     },
     Limits{-1, 1, 0, 0, 1}},
    {"silu", silu, [](Wide x) { return x * logistic(x); },
     [](Wide x) {
       return std::pair{logistic(x), x * logistic(x) * logistic(-x)};
     },
     Limits{0, infinity, 0, 1, 0.5}},
    {"gelu", gelu, [](Wide x) { return x * normal(x); },
     [](Wide x) {
       return std::pair{normal(x), x * density(x)};
     },
     Limits{0, infinity, 0, 1, 0.5}},
    {"gelu_tanh", gelu_tanh, [](Wide x) { return x * approximate_normal(x); },
     [](Wide x) {
       return std::pair{approximate_normal(x), x * approximate_density(x)};
     },
     Limits{0, infinity, 0, 1, 0.5}, false},
};

TEST_CASE("every activation that engines map has one definition")
{
  std::vector<std::size_t> alternatives;
  for (const auto& d : definitions) alternatives.push_back(d.f.index());
  std::sort(alternatives.begin(), alternatives.end());
  // All but the last one, which calls a program's own function.
  std::vector<std::size_t> all(std::variant_size_v<cubist::detail::ChosenActivation> - 1);
  std::iota(all.begin(), all.end(), std::size_t{0});
  CHECK(alternatives == all);
}

/// The largest errors over [from, to], in units in the last place of a number near 1.
template <class T>
std::pair<double, double> worst_errors(const Definition& d, double from, double to)
{
  // Relative to `scale`; where that is 0, the result must be 0, too.
  const auto error = [](Wide got, Wide wanted, Wide scale) {
    if (scale == 0) return got == 0 ? 0 : infinity;
    return static_cast<double>(std::abs(got - wanted) / scale / std::numeric_limits<T>::epsilon());
  };
  double of_value = 0;
  double of_derivative = 0;
  const int steps = 100'003;
  for (int i = 0; i <= steps; ++i)
  {
    const T x = static_cast<T>(from + (to - from) * i / steps);
    const Wide wanted = d.value(x);
    const auto [a, b] = d.derivative(x);
    of_value = std::max(of_value, error(value(d.f, x), wanted, std::abs(wanted)));
    of_derivative =
        std::max(of_derivative, error(derivative(d.f, x), a + b, std::abs(a) + std::abs(b)));
  }
  return {of_value, of_derivative};
}

TEMPLATE_TEST_CASE("activations are exact to a few units in the last place", "", float, double)
{
  using T = TestType;
  constexpr bool is_float = std::same_as<T, float>;
  for (const auto& d : definitions)
  {
    if (!d.is_exact) continue;
    CAPTURE(d.name);
    const auto near = worst_errors<T>(d, -4, 12);
    CHECK(near.first < (is_float ? 5 : 6));
    CHECK(near.second < (is_float ? 5 : 6));
    // Down to where GELU is near the smallest normal number. There x Phi(x) by the C library's
    // functions is off by 99 and 857, as they round x^2.
    const auto far = worst_errors<T>(d, is_float ? -13.2 : -37.6, -4);
    CHECK(far.first < (is_float ? 6 : 14));
    CHECK(far.second < (is_float ? 7 : 20));
  }
}

TEMPLATE_TEST_CASE("GELU's approximation is exact to its terms", "", float, double)
{
  using T = TestType;
  double worst = 0;
  double worst_slope = 0;
  for (T x = -8; x < 8; x += T(0x1p-12))
  {
    const auto e = std::numeric_limits<T>::epsilon();
    worst = std::max(worst, static_cast<double>(std::abs(gelu_tanh(x) - x * approximate_normal(x)) /
                                                e / std::max(Wide{1}, std::abs(Wide{x}))));
    const Wide wanted = approximate_normal(x) + x * approximate_density(x);
    worst_slope =
        std::max(worst_slope, static_cast<double>(std::abs(gelu_tanh.derivative(x) - wanted) / e));
  }
  CHECK(worst < 4);
  CHECK(worst_slope < 4);
}

TEMPLATE_TEST_CASE("activations at zeros, infinities and NaN", "", float, double)
{
  using T = TestType;
  constexpr T endless = std::numeric_limits<T>::infinity();
  constexpr T nan = std::numeric_limits<T>::quiet_NaN();
  for (const auto& d : definitions)
  {
    const auto& f = d.f;
    const auto& limits = d.limits;
    CAPTURE(d.name);
    for (const T x : {nan, -nan})
    {
      CHECK(std::isnan(value(f, x)));
      const bool is_identity = std::holds_alternative<Identity>(f);  // its slope is 1 everywhere
      CHECK((is_identity || std::isnan(derivative(f, x))));
    }
    CHECK(value(f, endless) == static_cast<T>(limits.right));
    CHECK(value(f, -endless) == static_cast<T>(limits.left));
    CHECK(derivative(f, endless) == static_cast<T>(limits.right_slope));
    CHECK(derivative(f, -endless) == static_cast<T>(limits.left_slope));
    CHECK(derivative(f, -T{}) == derivative(f, T{}));
    const T at_zero = value(f, T{});
    if (at_zero == 0) CHECK(std::signbit(value(f, -T{})));
    const T tiny = std::numeric_limits<T>::min();
    CHECK(value(f, tiny) == at_zero + static_cast<T>(limits.slope_at_zero) * tiny);
  }
}

TEMPLATE_TEST_CASE("derivatives at 0", "", float, double)
{
  constexpr TestType zero{};
  CHECK(identity.derivative(zero) == 1);
  CHECK(relu.derivative(zero) == 0);
  CHECK(sigmoid.derivative(zero) == TestType{0.25});
  CHECK(cubist::tanh.derivative(zero) == 1);
  CHECK(silu.derivative(zero) == TestType{0.5});
  CHECK(gelu.derivative(zero) == TestType{0.5});
  CHECK(gelu_tanh.derivative(zero) == TestType{0.5});
}

TEMPLATE_TEST_CASE("derivatives agree with central differences", "", float, double)
{
  constexpr bool is_float = std::same_as<TestType, float>;
  constexpr TestType h = is_float ? TestType(0x1p-7) : TestType(0x1p-18);
  constexpr double tolerance = is_float ? 2e-4 : 1e-9;
  for (const auto& d : definitions)
    for (TestType x = TestType(-6.03125); x < 6;
         x += TestType(0.0625))  // never within h of relu's kink
    {
      CAPTURE(d.name, x);
      const double difference =
          (double{value(d.f, x + h)} - double{value(d.f, x - h)}) / (2 * double{h});
      CHECK(double{derivative(d.f, x)} == Approx(difference).epsilon(0).margin(tolerance));
    }
}

TEST_CASE("a program's own function can be an activation, for float and double")
{
  Activation f = Bend{0.1};
  CHECK(value(f, -3.0) == -3.0 * 0.1);
  CHECK(value(f, -3.0F) == 0.1F * -3.0F);
  CHECK(value(f, 2.0F) == 2);
  CHECK(derivative(f, -3.0) == 0.1);
  CHECK(derivative(f, -3.0F) == 0.1F);
  CHECK(derivative(f, 2.0) == 1);

  Activation other = std::move(f);
  CHECK(value(f, -1.0) == -0.1);  // as if copied
  f = Bend{0.5};
  CHECK(value(f, -1.0) == -0.5);
  CHECK(value(other, -1.0) == -0.1);
  CHECK(std::holds_alternative<Gelu>(Activation{gelu}));
}

struct WithoutDerivative
{
  float operator()(float x) const { return x; }
};
struct OfFloats : WithoutDerivative
{
  float derivative(float) const { return 1; }
};

TEST_CASE("an activation function returns the type of its argument")
{
  STATIC_REQUIRE(ActivationFunction<Bend>);
  STATIC_REQUIRE(ActivationFunction<Gelu>);
  STATIC_REQUIRE_FALSE(ActivationFunction<WithoutDerivative>);
  STATIC_REQUIRE_FALSE(ActivationFunction<OfFloats>);
  STATIC_REQUIRE_FALSE(ActivationFunction<const char*>);
}

TEMPLATE_TEST_CASE("large inputs make neither NaN nor infinity", "", float, double)
{
  std::vector<TestType> xs{1000, 1e4F, 1e10F, 1e20F, 1e38F};
  if (std::same_as<TestType, double>) xs.push_back(static_cast<TestType>(1e300));
  // What a limit stands for at x: itself, or a point of the line that the function approaches.
  const auto at = [](double limit, double slope, TestType x) {
    return std::isinf(limit) ? static_cast<TestType>(slope) * x : static_cast<TestType>(limit);
  };
  for (const auto& d : definitions)
    for (const TestType x : xs)
    {
      CAPTURE(d.name, x);
      CHECK(value(d.f, x) == at(d.limits.right, d.limits.right_slope, x));
      CHECK(derivative(d.f, x) == static_cast<TestType>(d.limits.right_slope));
      CHECK(std::abs(value(d.f, -x) - at(d.limits.left, d.limits.left_slope, -x)) <=
            std::numeric_limits<TestType>::min());
      CHECK(std::abs(derivative(d.f, -x) - static_cast<TestType>(d.limits.left_slope)) <=
            std::numeric_limits<TestType>::min());
    }
}

}  // namespace cubist::test::activation_test
