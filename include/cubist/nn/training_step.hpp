// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The number of a training step, which selects its random numbers. The step may be captured and
// replayed (engine/replay.hpp).

#include <cstdint>
#include <memory>
#include <utility>

#include "cubist/core/error.hpp"
#include "cubist/core/host_device.hpp"
#include "cubist/core/philox.hpp"
#include "cubist/core/random_stream.hpp"
#include "cubist/engine/replay.hpp"

namespace cubist::CUBIST_ABI
{

/// The number of the step that random numbers are drawn for. In a captured step, the number is in
/// the engine's memory, where each replay changes it.
class TrainingStep
{
 public:
  /// A step whose number the host knows.
  TrainingStep(std::uint64_t number)
      : number_{number}
  {
  }
  /// A captured step, whose number is in the engine's memory.
  TrainingStep(std::shared_ptr<const std::uint64_t> in_memory)
      : in_memory_{std::move(in_memory)}
  {
  }

  /// Moves on to the next step.
  /// @pre the host knows the number
  TrainingStep& operator++()
  {
    ++number_;
    return *this;
  }
  /// Returns the number.
  /// @throws CaptureError for a captured step
  operator std::uint64_t() const
  {
    require<CaptureError>(
        in_memory_ == nullptr,
        "got a step to capture in which attention or a layer draws random numbers on the host, so "
        "they would be the same in every replay; train without this dropout, or run the step "
        "without capturing");
    return number_;
  }
  /// Where the number is in the engine's memory; null unless the step is captured.
  [[nodiscard]] const std::uint64_t* in_memory() const { return in_memory_.get(); }

 private:
  std::uint64_t number_ = 0;
  std::shared_ptr<const std::uint64_t> in_memory_;
};

namespace detail
{

/// Increments `count`, and returns that step. If the step is captured, each replay increments
/// `count` again.
/// @pre `count` keeps its address
template <class E>
[[nodiscard]] TrainingStep next_step(const E& engine, std::uint64_t& count)
{
  if constexpr (Captures<E>)
    if (engine.is_capturing())
    {
      const auto number = std::make_shared<ReplayedValue<E, std::uint64_t>>();
      engine.before_replay([engine, number, &count] { number->set(engine, ++count); });
      return std::shared_ptr<const std::uint64_t>{number, number->data()};
    }
  return ++count;
}

/// The random numbers of a step that may be captured.
struct StepRandom
{
  std::uint64_t seed;
  std::uint64_t stream;  // the random stream of step 0
  std::uint64_t number;
  const std::uint64_t* in_memory;

  CUBIST_HOST_DEVICE operator Philox() const
  {
    return {seed, stream | (in_memory == nullptr ? number : *in_memory)};
  }
};

}  // namespace detail

}  // namespace cubist::CUBIST_ABI
