// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Compares results of a GPU with those of the host, and prints those that differ.

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstddef>
#include <cstdio>
#include <limits>
#include <string>
#include <type_traits>

#include "cubist/core/scalar.hpp"

namespace cubist::test
{

class Comparison
{
 public:
  void check(bool holds, const std::string& what)
  {
    ++checks_;
    if (holds) return;
    ++failures_;
    std::printf("FAILED: %s\n", what.c_str());
  }

  /// @param units the tolerance, in units in the last place of the largest expected element
  template <class A>
  void near(const A& got, const A& expected, double units, const std::string& what)
  {
    double scale = 0;
    double error = 0;
    bool finite = got.size() == expected.size();
    for (std::size_t i = 0; finite && i < got.size(); ++i)
    {
      scale = std::max<double>(scale, std::abs(expected.data()[i]));
      const double difference = std::abs(got.data()[i] - expected.data()[i]);
      error = std::max(error, difference);
      finite = !std::isnan(difference);
    }
    using T = Real<std::remove_cv_t<std::remove_pointer_t<decltype(expected.data())>>>;
    const double allowed = units * std::numeric_limits<T>::epsilon() * std::max(scale, 1e-30);
    check(finite && error <= allowed,
          what + ": off by " + std::to_string(error) + " at a scale of " + std::to_string(scale));
  }
  template <class A>
  void equal(const A& got, const A& expected, const std::string& what)
  {
    check(std::equal(got.begin(), got.end(), expected.begin(), expected.end()), what);
  }

  [[nodiscard]] int report() const
  {
    std::printf("%d checks, %d failed\n", checks_, failures_);
    return failures_ == 0 ? 0 : 1;
  }

 private:
  int checks_ = 0;
  int failures_ = 0;
};

}  // namespace cubist::test
