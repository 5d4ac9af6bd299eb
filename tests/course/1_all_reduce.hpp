// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Answers to exercise 1: one that is right, and some with mistakes that a reader may make.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "course.hpp"

namespace answers
{

/// A ring in two passes: each rank sums a part, and then the sums go around.
inline void all_reduce(course::World& world, std::span<std::int64_t> numbers)
{
  const int ranks = world.size();
  const int next = (world.rank() + 1) % ranks;
  const int previous = (world.rank() + ranks - 1) % ranks;
  const auto part_of = [&](int index) {
    const auto range = course::part(numbers.size(), ranks, (index + ranks) % ranks);
    return numbers.subspan(range.offset, range.size);
  };
  std::vector<std::int64_t> received;
  for (int step = 0; step < ranks - 1; ++step)
  {
    const auto mine = part_of(world.rank() - step - 1);
    received.resize(mine.size());
    auto request = world.async_send(part_of(world.rank() - step), next);
    world.receive(received, previous);
    request.wait();
    for (std::size_t i = 0; i < mine.size(); ++i) mine[i] += received[i];
  }
  for (int step = 0; step < ranks - 1; ++step)
  {
    auto request = world.async_send(part_of(world.rank() + 1 - step), next);
    world.receive(part_of(world.rank() - step), previous);
    request.wait();
  }
}

/// What the hint says: every number goes around the ring, and each rank sums.
inline void all_reduce_whole(course::World& world, std::span<std::int64_t> numbers)
{
  const int ranks = world.size();
  std::vector<std::int64_t> travels(numbers.begin(), numbers.end());
  std::vector<std::int64_t> received(numbers.size());
  for (int step = 0; step < ranks - 1; ++step)
  {
    auto request = world.async_send(travels, (world.rank() + 1) % ranks);
    world.receive(received, (world.rank() + ranks - 1) % ranks);
    request.wait();
    for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] += received[i];
    travels.swap(received);
  }
}

/// The ring ends a step too early.
inline void all_reduce_lacks_a_rank(course::World& world, std::span<std::int64_t> numbers)
{
  const int ranks = world.size();
  std::vector<std::int64_t> travels(numbers.begin(), numbers.end());
  std::vector<std::int64_t> received(numbers.size());
  for (int step = 0; step < ranks - 2; ++step)
  {
    auto request = world.async_send(travels, (world.rank() + 1) % ranks);
    world.receive(received, (world.rank() + ranks - 1) % ranks);
    request.wait();
    for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] += received[i];
    travels.swap(received);
  }
}

/// The sums travel on instead of the numbers, so some are counted several times.
inline void all_reduce_counts_twice(course::World& world, std::span<std::int64_t> numbers)
{
  const int ranks = world.size();
  std::vector<std::int64_t> received(numbers.size());
  for (int step = 0; step < ranks - 1; ++step)
  {
    auto request = world.async_send(numbers, (world.rank() + 1) % ranks);
    world.receive(received, (world.rank() + ranks - 1) % ranks);
    request.wait();
    for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] += received[i];
  }
}

/// All ranks send first, and each waits until its neighbour receives.
inline void all_reduce_all_send(course::World& world, std::span<std::int64_t> numbers)
{
  const int ranks = world.size();
  std::vector<std::int64_t> received(numbers.size());
  for (int step = 0; step < ranks - 1; ++step)
  {
    world.send(numbers, (world.rank() + 1) % ranks);
    world.receive(received, (world.rank() + ranks - 1) % ranks);
  }
}

/// Calls the library's all_reduce.
inline void all_reduce_of_the_library(course::World& world, std::span<std::int64_t> numbers)
{
  world.all_reduce(numbers);
}

}  // namespace answers
