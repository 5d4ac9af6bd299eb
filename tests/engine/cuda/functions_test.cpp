// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/core/fingerprint.hpp"
#include "cubist/engine/cuda/functions.hpp"
#include "cubist/nn/initial_values.hpp"
#include "cubist/training/finite.hpp"

#include "catch.hpp"

namespace cubist::test::engine_cuda_functions_test
{

struct Difference
{
  template <class T>
  T operator()(T a, T b) const
  {
    return a - b;
  }
};

struct IndexedValue
{
  float operator()(std::size_t i, std::size_t j, float x) const
  {
    return 100.0F * static_cast<float>(i) + 10.0F * static_cast<float>(j) + x;
  }
};

struct AddOne
{
  void operator()(int& x) const { ++x; }
};

TEST_CASE("adapters of element functions for kernels")
{
  int n = 1;
  detail::IgnoreIndices<AddOne>{}(7, 8, n);
  CHECK(n == 2);
  float x = 1;
  detail::FillWith<float>{3}(x);
  CHECK(x == 3);
  detail::StoreResult<Difference>{}(x, 5.0F, 3.0F);
  CHECK(x == 2);
  detail::StoreIndexedResult<IndexedValue>{}(1, 2, x, 4.0F);
  CHECK(x == 124);
  CHECK(detail::StoreAndSum<Difference>{}(0, 0, x, 9.0F, 2.0F) == 7);
  CHECK(x == 7);
}

TEST_CASE("adapters compute 16-bit elements in float, and return the sum's terms unrounded")
{
  bfloat16 y{0.0F};
  detail::StoreIndexedResult<IndexedValue>{}(
      2, 5, y, bfloat16{7.0F});  // 257, which needs 9 bits of mantissa
  CHECK(static_cast<float>(y) == 256);
  const float term = detail::StoreAndSum<Difference>{}(0, 0, y, bfloat16{256.0F}, bfloat16{-1.0F});
  CHECK(term == 257);
  CHECK(static_cast<float>(y) == 256);
  float wide = 0;
  detail::FillWith<bfloat16>{bfloat16{1.5F}}(wide);
  CHECK(wide == 1.5F);
}

/// Arithmetic on complex elements, which asserts that they have cubist's type Complex.
template <class Element>
struct Arithmetic
{
  template <class T>
  static constexpr void require_complex()
  {
    static_assert(std::same_as<T, Complex<Real<Element>>>);
  }
  /// The function for map and for_each.
  template <class T>
  T operator()(const T& x, const T& y) const
  {
    require_complex<T>();
    return conj(x) * y / Real<Element>{4} - y;
  }
  template <class T>
  void operator()(T& x, T& y, const T& z) const
  {
    require_complex<T>();
    x += y * z;
    y -= z;
  }
  template <class T>
  T operator()(std::size_t i, std::size_t j, const T& x) const
  {
    require_complex<T>();
    return x * T{static_cast<Real<Element>>(i), static_cast<Real<Element>>(j)};
  }
};

TEMPLATE_TEST_CASE("functions compute complex elements with operators that are right on a device",
                   "", std::complex<float>, std::complex<double>)
{
  using T = TestType;
  const Arithmetic<T> f;
  const T x{1, 2};
  const T y{3, 5};
  T a = x;
  T b = y;
  detail::IgnoreIndices<detail::StoreResult<Arithmetic<T>>>{{f}}(7, 8, a, x, y);
  CHECK(a == T{0.25F, -5.25F});  // (13 - i) / 4 - (3 + 5i)
  a = x;
  detail::IgnoreIndices<Arithmetic<T>>{f}(7, 8, a, b, x);
  CHECK(a == T{-6, 13});
  CHECK(b == T{2, 3});
  detail::StoreIndexedResult<Arithmetic<T>>{f}(2, 3, a, x);
  CHECK(a == T{-4, 7});
  CHECK(detail::StoreAndSum<Arithmetic<T>>{f}(7, 8, a, x, y) == T{0.25F, -5.25F});
  CHECK(a == T{0.25F, -5.25F});
  CHECK(detail::OfValues<detail::Itself>{}(7, 8, y) + x == T{4, 7});
  Complex<Real<T>> filled;
  detail::FillWith<T>{y}(filled);
  CHECK(filled == y);
}

TEMPLATE_TEST_CASE("the library's functions of complex elements give the same on a device", "",
                   std::complex<float>, std::complex<double>)
{
  using T = TestType;
  const T factor{3, 1};
  const T x{1, 2};
  const T y{3, 5};
  const auto map = [](auto g, const auto&... in) {
    T out{};
    detail::IgnoreIndices<detail::StoreResult<decltype(g)>>{{g}}(7, 8, out, in...);
    return out;
  };
  CHECK(map(detail::AddScaled<T>{factor}, x, y) == x + factor * y);
  CHECK(map(detail::Scaled<T>{factor}, x) == factor * x);
  CHECK(map(detail::Same{}, x) == x);
  CHECK(map(detail::Sum{}, x, y) == x + y);
  T sum = x;
  detail::IgnoreIndices<detail::Add>{}(7, 8, sum, y);
  CHECK(sum == x + y);

  const auto folded = [](auto g, const T& element) {
    return g(2, 3, detail::device_value(element));
  };
  CHECK(folded(detail::Itself{}, x) == x);
  CHECK(folded(detail::Scaled<T>{factor}, x) == factor * x);
  const FingerprintTerm term{5, 7, 11};
  CHECK(folded(term, x) == term(2, 3, x));
  const detail::FaultCodeAt code{5, 7, 11, 13};
  const T infinite{1, std::numeric_limits<Real<T>>::infinity()};
  CHECK(folded(code, x) == detail::no_fault);
  CHECK(folded(code, infinite) == code(2, 3, infinite));
  CHECK(folded(code, infinite) != detail::no_fault);
  const detail::InitialValue<T> initial{stream(1, Draw::weight, 2), false, Real<T>{4}, 11};
  T drawn{};
  detail::StoreIndexedResult<detail::InitialValue<T>>{initial}(2, 3, drawn);
  CHECK(drawn == initial.random.template symmetric<T>(2 * 11 + 3, 4));
  CHECK(drawn != T{});
}

/// A function that uses the arithmetic of std::complex.
struct OfStdComplex
{
  std::complex<double> operator()(const std::complex<double>& x) const { return x + x; }
};

TEST_CASE("a function of std::complex is not callable on a device")
{
  STATIC_REQUIRE(std::invocable<OfStdComplex, std::complex<double>>);
  STATIC_REQUIRE_FALSE(std::invocable<OfStdComplex, detail::DeviceValue<std::complex<double>>>);
}

}  // namespace cubist::test::engine_cuda_functions_test
