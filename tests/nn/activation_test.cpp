// SPDX-License-Identifier: BSD-3-Clause
#include <cmath>
#include <concepts>
#include <limits>
#include <variant>
#include <vector>

#include "cubist/nn/activation.hpp"

#include "catch.hpp"

using namespace cubist;

namespace
{

const std::vector<Activation> activations{identity, relu, sigmoid,  cubist::tanh,
                                          silu,     gelu, gelu_tanh};

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

}  // namespace

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
  for (std::size_t f = 0; f < activations.size(); ++f)
    for (TestType x = TestType(-6.03125); x < 6;
         x += TestType(0.0625))  // never within h of relu's kink
    {
      CAPTURE(f, x);
      const double difference =
          (double{value(activations[f], x + h)} - double{value(activations[f], x - h)}) /
          (2 * double{h});
      CHECK(double{derivative(activations[f], x)} ==
            Approx(difference).epsilon(0).margin(tolerance));
    }
}

TEMPLATE_TEST_CASE("large inputs make neither NaN nor infinity", "", float, double)
{
  // The limits of value and derivative far to the left and far to the right, by their order.
  struct Limits
  {
    bool linear;  // x on the right, else `right`
    double left, right, slope;
  };
  const std::vector<Limits> limits{{true, 0, 0, 1},   {true, 0, 0, 1}, {false, 0, 1, 0},
                                   {false, -1, 1, 0}, {true, 0, 0, 1}, {true, 0, 0, 1},
                                   {true, 0, 0, 1}};
  std::vector<TestType> xs{1000, 1e4F, 1e10F, 1e20F, 1e38F};
  if (std::same_as<TestType, double>) xs.push_back(static_cast<TestType>(1e300));
  for (std::size_t f = 0; f < activations.size(); ++f)
    for (const TestType x : xs)
    {
      CAPTURE(f, x);
      CHECK(value(activations[f], x) ==
            (limits[f].linear ? x : static_cast<TestType>(limits[f].right)));
      CHECK(derivative(activations[f], x) == static_cast<TestType>(limits[f].slope));
      const bool is_identity = f == 0;
      CHECK(std::abs(value(activations[f], -x) -
                     (is_identity ? -x : static_cast<TestType>(limits[f].left))) <=
            std::numeric_limits<TestType>::min());
      CHECK(std::abs(derivative(activations[f], -x) - TestType(is_identity ? 1 : 0)) <=
            std::numeric_limits<TestType>::min());
    }
}
