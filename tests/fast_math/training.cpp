// SPDX-License-Identifier: BSD-3-Clause

// Tests a loss, the monitor for NaN, and the loss scale in a program compiled with -ffast-math.

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <vector>

#include "cubist/backend/threads.hpp"
#include "cubist/nn/dense/linear.hpp"
#include "cubist/nn/losses/loss.hpp"
#include "cubist/scheme/summa2d.hpp"
#include "cubist/training/clip_gradients.hpp"
#include "cubist/training/loss_scale.hpp"
#include "cubist/training/numerics_monitor.hpp"

#include "fast_math.hpp"
#include "references.hpp"

using namespace cubist;

namespace fast_math_training
{
namespace
{

int failures = 0;

void check(bool holds, const char* what)
{
  if (holds) return;
  ++failures;
  std::printf("failed: %s\n", what);
}

/// A number with these bits, of which the compiler knows nothing.
double of(std::uint64_t bits)
{
  volatile std::uint64_t hidden = bits;
  const std::uint64_t copy = hidden;
  double x;
  std::memcpy(&x, &copy, sizeof x);
  return x;
}
constexpr std::uint64_t infinity_bits = 0x7ff0'0000'0000'0000, nan_bits = 0x7ff8'0000'0000'0000;

}  // namespace

int check()
{
  launch<Threads>({.ranks = 1}, [](auto& world) {
    const Mesh<Summa2D, Threads> mesh{world};
    constexpr std::size_t rows = 5, classes = 40;
    Linear<Summa2D, Threads, double> layer{mesh, 3, classes, {.bias = false}};
    typename Linear<Summa2D, Threads, double>::Output y{mesh, {rows, classes}};
    auto dy = y;
    const auto logit = [](std::size_t i, std::size_t j) {
      return static_cast<double>((i * 7919 + j * 104729) % 997) / 50 - 10;
    };
    const auto block = y.valid();
    long double wanted = 0;
    for (std::size_t i = 0; i < rows; ++i)
    {
      long double sum = 0;
      for (std::size_t j = 0; j < classes; ++j)
      {
        block(i, j) = logit(i, j);
        sum += reference::exp(logit(i, j));
      }
      wanted += (reference::log(sum) - logit(i, 3 * i)) / rows;
    }
    const std::vector<int> labels{0, 3, 6, 9, 12};
    const double loss = softmax_cross_entropy(y, labels, dy);
    check(std::abs(loss - wanted) < 1e-12 * wanted, "the loss");

    Parameters<double, typename decltype(layer)::Mesh> parameters;
    layer.append_parameters(parameters, "");
    const NumericsMonitor monitor{{.finite_every = 1}};
    const auto throws = [&](double of_loss) {
      try
      {
        monitor.check(1, of_loss, parameters);
        return false;
      }
      catch (const NumericError&)
      {
        return true;
      }
    };
    check(!throws(loss), "the monitor of finite numbers");
    check(throws(of(nan_bits)) && throws(of(infinity_bits)), "the monitor of a loss");
    for (const std::uint64_t bad : {nan_bits, infinity_bits})
    {
      const auto gradient = parameters[0].gradient.valid();
      gradient(2, 7) = of(bad);
      check(throws(loss), "the monitor of a gradient");
      LossScale scale;
      check(!scale.update(gradient_norm(parameters)) && scale.skipped() == 1, "the loss scale");
      check(!is_finite(clip_gradients(parameters, 1.0)) && !is_finite(gradient(2, 7)), "clipping");
      gradient(2, 7) = 0;
    }
  });
  return failures;
}

}  // namespace fast_math_training
