// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The value of a loss, which the host reads only when a program asks for it. On a device, the sums
// that it is computed from, and their sums over ranks, stay in the engine's memory until then.

#include <array>
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <utility>

#include "cubist/core/matrix_view.hpp"
#include "cubist/engine/engine.hpp"
#include "cubist/engine/functions.hpp"
#include "cubist/engine/replay.hpp"
#include "cubist/matrix/staging.hpp"

namespace cubist::CUBIST_ABI
{

/// A number that converts to double. On a device, the conversion waits for the work that computes
/// the number, and sends nothing. After a step is replayed (training/step.hpp), it gives the new
/// value.
/// @pre the rank that computed it reads it, inside the launch
class LossValue
{
 public:
  LossValue() = default;
  /// Holds a value that is known.
  explicit LossValue(double value)
      : value_{value}
  {
  }
  /// Holds a value that is read later.
  /// @param read returns the value, and may wait
  explicit LossValue(std::function<double()> read)
      : read_{std::move(read)}
  {
  }

  operator double() const { return read_ ? read_() : value_; }

 private:
  double value_ = 0;
  std::function<double()> read_;
};

namespace detail
{

/// Sums n numbers over ranks; a loss is computed from the sums.
template <Engine E, std::size_t n>
class LossSums
{
 public:
  using Numbers = std::array<double, n>;

  explicit LossSums(const E& engine)
      : engine_{engine}
  {
    // Freeing the loss outside a captured step then leaves the step valid.
    if constexpr (on_device && Captures<E>)
      device_ = std::make_shared<Buffer>(Buffer::apart_from_captures(n));
    else if constexpr (on_device)
      device_ = std::make_shared<Buffer>(n);
  }

  /// Sets number k to the sum of f(i, j, in(i, j), …) over all i and j.
  template <class F, class... In>
  void fold(std::size_t k, F f, MatrixView<In>... in)
  {
    if constexpr (on_device)
      engine_.fold_to(number(k), 0.0, Sum{}, f, in...);
    else
      host_[k] = engine_.fold(0.0, Sum{}, f, in...);
  }
  /// Sets out(i, j) to the value, and number k to the sum of the terms, that f(i, j, in(i, j), …)
  /// returns (ValueAndTerm).
  template <class T, class F, class... In>
  void map_fold(std::size_t k, MatrixView<T> out, F f, MatrixView<In>... in)
  {
    if constexpr (on_device)
      engine_.map_fold_to(number(k), 0.0, Sum{}, out, f, in...);
    else
      host_[k] = engine_.map_fold(0.0, Sum{}, out, f, in...);
  }
  /// Sets number k to x.
  void set(std::size_t k, double x)
  {
    if constexpr (on_device)
      engine_.fill(number(k), x);
    else
      host_[k] = x;
  }
  /// Sums the numbers over ranks; every rank gets the sums.
  template <class Communicator>
  void all_reduce(Communicator& ranks)
  {
    if constexpr (on_device)
      ranks.all_reduce(std::span<double>{device_->data(), n});
    else
      with_staging_buffer(engine_, std::span<double>{host_},
                          [&](auto numbers) { ranks.all_reduce(numbers); });
  }
  /// Returns f(numbers). On a host, it is computed at once; on a device, when it is read.
  template <class F>
  [[nodiscard]] LossValue value(F f) const
  {
    if constexpr (on_device)
      return LossValue{[engine = engine_, sums = device_, f] {
        Numbers numbers{};
        const Shape row{1, n};
        engine.download(MatrixView<const double>{sums->data(), row},
                        MatrixView<double>{numbers.data(), row});
        return f(numbers);
      }};
    else
      return LossValue{f(host_)};
  }

 private:
  static constexpr bool on_device = FoldsInMemory<E>;
  using Buffer = typename E::template Buffer<double>;

  [[nodiscard]] MatrixView<double> number(std::size_t k) const
  {
    return {device_->data() + k, {1, 1}};
  }

  E engine_;
  Numbers host_{};
  std::shared_ptr<Buffer> device_;
};

}  // namespace detail

}  // namespace cubist::CUBIST_ABI
