// SPDX-License-Identifier: BSD-3-Clause

// Tests vector functions, activations, tests for NaN, and readers in a program compiled with flags
// like -ffast-math. The references are constants, and functions of long double in references.cpp,
// which is compiled without these flags. Here only its bits show that a number is NaN.

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "cubist/core/error.hpp"
#include "cubist/core/finite.hpp"
#include "cubist/core/float16.hpp"
#include "cubist/core/vector_math.hpp"
#include "cubist/engine/functions.hpp"
#include "cubist/engine/host/row_fold_loop.hpp"
#include "cubist/io/csv.hpp"
#include "cubist/nn/dense/activation.hpp"

#include "fast_math.hpp"
#include "references.hpp"

using namespace cubist;

namespace fast_math_functions
{
namespace
{

int failures = 0;

void check(bool holds, const char* type, const std::string& what)
{
  if (holds) return;
  ++failures;
  std::printf("failed: %s of %s\n", what.c_str(), type);
}

template <class T>
struct Bits;
template <>
struct Bits<float>
{
  using Type = std::uint32_t;
  static constexpr const char* name = "float";
  static constexpr Type infinity = 0x7f80'0000, nan = 0x7fc0'0000, sign = 0x8000'0000;
};
template <>
struct Bits<double>
{
  using Type = std::uint64_t;
  static constexpr const char* name = "double";
  static constexpr Type infinity = 0x7ff0'0000'0000'0000, nan = 0x7ff8'0000'0000'0000,
                        sign = 0x8000'0000'0000'0000;
};

/// Numbers with these bits, of which the compiler knows nothing.
template <class T>
T of(typename Bits<T>::Type bits)
{
  volatile auto hidden = bits;
  const auto copy = hidden;
  T x;
  std::memcpy(&x, &copy, sizeof x);
  return x;
}
template <class T>
typename Bits<T>::Type bits_of(const T& x)
{
  typename Bits<T>::Type bits;
  std::memcpy(&bits, &x, sizeof x);
  return bits;
}
template <class T>
bool nan_in(const T& x)
{
  return (bits_of(x) & ~Bits<T>::sign) > Bits<T>::infinity;
}

/// The largest relative error of outputs, in units in the last place of a number near 1. A loop
/// that is vectorised like those of a network computes a block of outputs.
template <class T, class F, class G>
void check_values(const char* what, double from, double to, double most, F f, G wanted)
{
  constexpr std::size_t count = 4096;
  std::vector<T> x(count), y(count);
  for (std::size_t i = 0; i < count; ++i)
    x[i] = static_cast<T>(from + (to - from) * static_cast<double>(i) / (count - 1));
  detail::for_elements(
      count, [f](T& out, const T& in) { out = f(in); }, y.data(), x.data());
  double worst = 0;
  for (std::size_t i = 0; i < count; ++i)
  {
    const long double w = wanted(static_cast<long double>(x[i]));
    const auto error = static_cast<double>(std::abs(static_cast<long double>(y[i]) - w) /
                                           (std::abs(w) + std::numeric_limits<T>::min()));
    worst = error > worst ? error : worst;
  }
  worst /= std::numeric_limits<T>::epsilon();
  check(worst < most, Bits<T>::name,
        std::string{what} + ", whose largest error is " + std::to_string(worst) + " units");
}

template <class T>
void check_accuracy()
{
  using namespace reference;
  const auto values = [](const char* what, double from, double to, double most, auto f,
                         Wide (*wanted)(Wide)) {
    check_values<T>(what, from, to, most, f, wanted);
  };
  const bool is_float = sizeof(T) == sizeof(float);
  const auto exponential = [](T x) { return detail::exp_of_negative(x); };
  const auto tail = [](T x) {
    const auto q = detail::normal_tail(x);
    return q.gaussian * q.ratio;
  };
  const auto root = [](T x) { return detail::square_root(x); };
  values("exp_of_negative", is_float ? -87 : -708, 0, 3, exponential, exp);
  values(
      "expm1_of_negative", -1, -1e-6, 3, [](T x) { return detail::expm1_of_negative(x); }, expm1);
  values("normal_tail", -4, 4, 8, tail, normal_tail);
  values("square_root", 1e-3, 4, 3, root, square_root);
  const double far = is_float ? 3e38 : 1e308;
  values("square_root of large numbers", far / 1e3, far, 3, root, square_root);
  values("sigmoid", -30, 30, 8, sigmoid, logistic);
  values("tanh", -15, 15, 8, cubist::tanh, hyperbolic_tangent);
  values("tanh near 0", 1e-7, 1e-4, 8, cubist::tanh, hyperbolic_tangent);
  values("silu", -30, 30, 8, silu, swish);
  values("gelu", -4, 12, 8, gelu, gaussian_unit);
  values("gelu_tanh", 0.5, 8, 8, gelu_tanh, gaussian_unit_by_tanh);
  const auto slope = [](auto f) { return [f](T x) { return f.derivative(x); }; };
  values("the slope of tanh", -12, 12, 8, slope(cubist::tanh), slope_of_tangent);
  values("the slope of sigmoid", -30, 30, 8, slope(sigmoid), slope_of_logistic);
}

/// Checks NaN and infinities in activations, on rows of 70 elements with one in the middle, so that
/// both the blocks of the loop and its remainder get one.
template <class T>
void check_specials()
{
  using B = Bits<T>;
  // Takes the bits of the last result from memory: with -ffast-math clang 19 assumes that a
  // function returns a finite number.
  typename B::Type last = 0;
  const auto each = [&last](auto f, T x) {
    std::vector<T> in(70, T(0.25)), out(70);
    in[40] = in[69] = x;
    detail::for_elements(
        in.size(), [f](T& y, const T& z) { y = f(z); }, out.data(), in.data());
    check(bits_of(out[40]) == bits_of(out[69]) || (nan_in(out[40]) && nan_in(out[69])), B::name,
          "equal results everywhere in a row");
    check(!nan_in(out[0]), B::name, "the results beside a NaN");
    std::memcpy(&last, &out[40], sizeof last);
    return out[40];
  };
  const auto with = [&](const char* name, auto f, double right, double left) {
    for (const auto sign : {typename B::Type{0}, B::sign})
    {
      check(nan_in(each(f, of<T>(B::nan | sign))), B::name, std::string{name} + " of NaN");
      check(nan_in(each([f](T x) { return f.derivative(x); }, of<T>(B::nan | sign))), B::name,
            std::string{"the slope of "} + name + " at NaN");
    }
    const T at_right = each(f, of<T>(B::infinity));
    const auto right_bits = last;
    const T at_left = each(f, of<T>(B::infinity | B::sign));
    check(right > 1 ? right_bits == B::infinity : at_right == static_cast<T>(right), B::name,
          std::string{name} + " of infinity");
    check((bits_of(at_left) & ~B::sign) == bits_of(static_cast<T>(left < 0 ? -left : left)),
          B::name, std::string{name} + " of -infinity");
  };
  with("relu", relu, 2, 0);
  with("sigmoid", sigmoid, 1, 0);
  with("tanh", cubist::tanh, 1, -1);
  with("silu", silu, 2, 0);
  with("gelu", gelu, 2, 0);
  with("gelu_tanh", gelu_tanh, 2, 0);
  const auto root = [](T x) { return detail::square_root(x); };
  check(nan_in(each(root, of<T>(B::nan))), B::name, "the root of NaN");
  each(root, of<T>(B::infinity));
  check(last == B::infinity, B::name, "the root of infinity");
  check(each([](T x) { return detail::exp_of_negative(x); }, of<T>(B::infinity | B::sign)) == 0,
        B::name, "exp of -infinity");

  // A maximum and a minimum are a NaN if a row has one, wherever it is.
  for (std::size_t at : {0U, 31U, 32U, 69U})
    for (const auto sign : {typename B::Type{0}, B::sign})
    {
      std::vector<T> row(70, T{1});
      row[at] = of<T>(B::nan | sign);
      T out[2];
      const MatrixView<const T> in{row.data(), {1, row.size()}};
      detail::fold_rows<T>(detail::best_target(), MatrixView<T>{out, {1, 1}},
                           of<T>(B::infinity | B::sign), detail::Larger{}, detail::Itself{}, in);
      detail::fold_rows<T>(detail::best_target(), MatrixView<T>{out + 1, {1, 1}},
                           of<T>(B::infinity), detail::Smaller{}, detail::Itself{}, in);
      check(nan_in(out[0]) && nan_in(out[1]), B::name, "the extremes of a row with a NaN");
    }
  check(detail::Larger{}(of<T>(B::infinity | B::sign), T{-3}) == -3, B::name, "a maximum");
  check(detail::Smaller{}(of<T>(B::infinity), T{-3}) == -3, B::name, "a minimum");

  check(is_nan(of<T>(B::nan)) && is_nan(of<T>(B::nan | B::sign)) && !is_nan(of<T>(B::infinity)) &&
            !is_nan(T{1}),
        B::name, "is_nan");
  check(!is_finite(of<T>(B::nan)) && !is_finite(of<T>(B::infinity | B::sign)) && is_finite(T{-2}),
        B::name, "is_finite");
  check(is_infinite(of<T>(B::infinity | B::sign)) && !is_infinite(of<T>(B::nan)), B::name,
        "is_infinite");
}

void check_half()
{
  // 1 + 2^-11 is halfway between two halves. The double above it must be rounded up, which would
  // not happen if it were first rounded to float.
  check(half{1 + 0x1p-11 + 0x1p-40}.bits() == 0x3c01 && half{1 + 0x1p-11}.bits() == 0x3c00 &&
            half{-1 - 0x1p-11 - 0x1p-40}.bits() == 0xbc01,
        "half", "rounding a double once");
  check(bfloat16{of<double>(Bits<double>::infinity)}.bits() == 0x7f80 &&
            is_nan(half{of<double>(Bits<double>::nan)}),
        "16 bits", "infinity and NaN");
}

bool is_refused(const std::string& text)
{
  try
  {
    static_cast<void>(parse_csv(text, "a.csv"));
    return false;
  }
  catch (const DataError&)
  {
    return true;
  }
}

void check_csv()
{
  for (const char* value : {"abc", "nan", "-nan", "inf", "-inf", "1.5x", "", "1e999"})
    check(is_refused(std::string{"1,2\n3,"} + value + "\n"), "CSV",
          std::string{"refusing "} + value);
  const CsvTable table = parse_csv("1.5,-2e3\n", "a.csv");
  check(table.values.size() == 2 && table.values[0] == 1.5 && table.values[1] == -2000, "CSV",
        "numbers");
}

}  // namespace

int check()
{
  check_accuracy<float>();
  check_accuracy<double>();
  check_specials<float>();
  check_specials<double>();
  check_half();
  check_csv();
  return failures;
}

}  // namespace fast_math_functions
