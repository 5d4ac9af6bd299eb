// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// A buffer without elements. Its addresses have no memory behind them, and its bytes count as
// memory that its rank uses.

#include <cstddef>
#include <memory>
#include <utility>

#include "cubist/core/error.hpp"
#include "cubist/simulation/address_space.hpp"
#include "cubist/simulation/rank.hpp"

namespace cubist::CUBIST_ABI
{

/// A buffer of this many elements, without memory for them.
template <class T>
class SimulatedBuffer
{
 public:
  SimulatedBuffer() = default;
  /// @throws ArgumentError outside a launch of Simulated
  explicit SimulatedBuffer(std::size_t n)
      : size_{n}
  {
    if (n == 0) return;
    const auto* rank = detail::SimulatedRank::current();
    require<ArgumentError>(rank != nullptr, "got a simulated buffer of ", n,
                           " elements outside a launch, where no rank has memory; create "
                           "matrices inside the body of launch<Simulated>");
    memory_ = rank->memory;
    data_ = static_cast<T*>(
        detail::SimulatedAddresses::get().take(n * sizeof(T), memory_->next_address));
    memory_->add(n * sizeof(T));
  }
  SimulatedBuffer(const SimulatedBuffer& other)
      : SimulatedBuffer{other.size_}
  {
  }
  SimulatedBuffer(SimulatedBuffer&& other) noexcept
      : memory_{std::move(other.memory_)},
        data_{std::exchange(other.data_, nullptr)},
        size_{std::exchange(other.size_, 0)}
  {
  }
  SimulatedBuffer& operator=(SimulatedBuffer other) noexcept
  {
    std::swap(memory_, other.memory_);
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~SimulatedBuffer()
  {
    if (memory_ != nullptr) memory_->remove(size_ * sizeof(T));
  }

  [[nodiscard]] T* data() { return data_; }
  [[nodiscard]] const T* data() const { return data_; }
  [[nodiscard]] std::size_t size() const { return size_; }

  /// Sets the number of elements.
  void resize(std::size_t n)
  {
    if (n != size_) *this = SimulatedBuffer{n};
  }

 private:
  std::shared_ptr<detail::SimulatedMemory> memory_;
  T* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace cubist::CUBIST_ABI
