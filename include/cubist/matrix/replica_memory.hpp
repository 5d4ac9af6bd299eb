// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Memory that ranks of a communicator share, such as those with replicas of a block. The first rank
// allocates it, and the others access it in place (comm/window.hpp).
//
//   auto memory = memory_of_ranks<float, Engine>(ranks, size);   // std::shared_ptr<float>
//
// The memory outlives every rank's pointer, in whatever order ranks drop theirs, and without a call
// of the communicator, because it holds a count of the pointers. If the first rank drops its
// pointer before the others do, the memory waits in a list until the count is 0.
//
// Elements sent: none; memory is read, not sent.

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <span>
#include <utility>

#include "cubist/comm/window.hpp"
#include "cubist/core/scalar.hpp"

namespace cubist::CUBIST_ABI
{

namespace detail
{

/// Memory that the first rank has dropped while others may still use it.
class DroppedMemory
{
 public:
  static DroppedMemory& of_process()
  {
    static auto& all = *new DroppedMemory;  // outlives what ranks drop last
    return all;
  }

  /// Keeps memory until its count of users is 0.
  void add(std::shared_ptr<void> memory, std::int64_t& users)
  {
    const std::lock_guard lock{mutex_};
    waiting_.emplace_back(std::move(memory), &users);
  }
  void free_unused()
  {
    const std::lock_guard lock{mutex_};
    waiting_.remove_if([](const auto& w) {
      return std::atomic_ref{*w.second}.load(std::memory_order_acquire) == 0;
    });
  }

 private:
  std::mutex mutex_;
  std::list<std::pair<std::shared_ptr<void>, std::int64_t*>> waiting_;
};

/// The memory that the first rank allocates.
template <class T, class E>
struct OwnedMemory
{
  // Windows expose memory in place if it has at least a page.
  static constexpr std::size_t page = 4096;

  explicit OwnedMemory(std::size_t size)
      : elements(std::max(size, page / sizeof(T)))
  {
  }

  typename E::template Buffer<T> elements;
  typename E::template Buffer<std::int64_t> numbers =
      typename E::template Buffer<std::int64_t>(page / sizeof(std::int64_t));
  // numbers[0]: the number of pointers;  numbers[1]: whether windows are in place
};

}  // namespace detail

/// Returns `size` zeros that all of these ranks access, or null on all of them if they cannot.
/// Collective. A rank must not access an element that another rank writes, unless a barrier lies
/// between.
/// @pre ranks.exposes()
template <Scalar T, class E, ExposesMemory C>
[[nodiscard]] std::shared_ptr<T> memory_of_ranks(C& ranks, std::size_t size)
{
  using Owned = detail::OwnedMemory<T, E>;
  detail::DroppedMemory::of_process().free_unused();
  const bool first = ranks.rank() == 0;
  auto owned = first ? std::make_shared<Owned>(size) : nullptr;
  if (first) owned->numbers[0] = ranks.size();

  std::span<std::int64_t> numbers;
  std::span<T> elements;
  if (first) numbers = owned->numbers, elements = owned->elements;
  auto numbers_window = ranks.open(numbers, Owned::page / sizeof(std::int64_t));
  auto elements_window = ranks.open(elements, std::max(size, Owned::page / sizeof(T)));
  std::int64_t* const users = numbers_window[0].data();
  T* const begin = elements_window[0].data();
  std::atomic_ref in_place{users[1]};
  if (first) in_place.store(users == numbers.data() && begin == elements.data() ? 1 : 0);
  ranks.barrier();
  const bool is_shared = in_place.load() == 1;
  numbers_window.close(), elements_window.close();
  numbers_window.wait(), elements_window.wait();
  if (!is_shared) return nullptr;

  return {begin, [owned, users](T*) mutable {
            const bool is_last = std::atomic_ref{*users}.fetch_sub(1) == 1;
            auto& dropped = detail::DroppedMemory::of_process();
            if (owned && !is_last) dropped.add(std::move(owned), *users);
            dropped.free_unused();
          }};
}

}  // namespace cubist::CUBIST_ABI
