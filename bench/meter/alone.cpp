// SPDX-License-Identifier: BSD-3-Clause

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>
#include <vector>

#include <cubist/core/matrix_view.hpp>
#include <cubist/engine/host/engine.hpp>

#include "common/times.hpp"
#include "meter/alone.hpp"

namespace bench
{

namespace
{

/// Returns the median seconds of f(slot) while all slots run it at once. Where a slot is one
/// thread, these are seconds of processor time, so that other programs do not count.
template <class F>
double seconds_alone(int slots, bool one_thread, F f)
{
  constexpr double enough = 0.004;
  constexpr int rounds = 3;
  std::vector<double> all(static_cast<std::size_t>(slots));
  std::atomic<int> arrived{0};
  {
    std::vector<std::jthread> threads;
    for (int slot = 0; slot < slots; ++slot)
      threads.emplace_back([&, slot] {
        const auto now = [&] {
          if (one_thread) return processor_seconds();
          return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch())
              .count();
        };
        f(slot);
        const double first = now();
        f(slot);
        const double once = std::max(now() - first, 1e-9);
        const int calls = std::clamp(static_cast<int>(enough / once), 1, 10'000);
        ++arrived;
        while (arrived.load() < slots) std::this_thread::yield();
        std::vector<double> times;
        for (int round = 0; round < rounds; ++round)
        {
          const double begin = now();
          for (int i = 0; i < calls; ++i) f(slot);
          times.push_back((now() - begin) / calls);
        }
        all[static_cast<std::size_t>(slot)] = median(times);
      });
  }
  return median(all);
}

template <class T>
double seconds_of_product(const BlasCall& call, int slots, bool one_thread)
{
  using cubist::MatrixView;
  using cubist::Op;
  const auto& s = call.size;
  struct Operands
  {
    std::vector<T> a, b, c;
  };
  std::vector<Operands> of(static_cast<std::size_t>(slots));
  for (auto& o : of)
    o = {std::vector<T>(s.m * s.k, T{0.5}), std::vector<T>(s.k * s.n, T{0.25}),
         std::vector<T>(s.m * s.n)};
  const Op op_a = call.transposes_a ? Op::transpose : Op::none;
  const Op op_b = call.transposes_b ? Op::transpose : Op::none;
  const cubist::HostEngine engine;
  return seconds_alone(slots, one_thread, [&](int slot) {
    auto& [a, b, c] = of[static_cast<std::size_t>(slot)];
    const MatrixView<const T> left{a.data(), cubist::op_shape(op_a, {s.m, s.k})};
    const MatrixView<T> out{c.data(), {s.m, s.n}};
    if (call.is_syrk)
      engine.syrk(cubist::Triangle::lower, op_a, T{1}, left, T{}, out);
    else
      engine.gemm(op_a, op_b, T{1}, left,
                  MatrixView<const T>{b.data(), cubist::op_shape(op_b, {s.k, s.n})}, T{}, out);
  });
}

}  // namespace

double Alone::product(const BlasCall& call)
{
  const auto found = products_.find(call);
  if (found != products_.end()) return found->second;
  const bool one = threads_ == 1;
  const double time = call.scalar_bytes == sizeof(double)
                          ? seconds_of_product<double>(call, slots_, one)
                          : seconds_of_product<float>(call, slots_, one);
  return products_.emplace(call, time).first->second;
}

double Alone::copy(std::size_t bytes)
{
  const auto found = copies_.find(bytes);
  if (found != copies_.end()) return found->second;
  constexpr std::size_t least = std::size_t{1} << 26;  // more than caches hold
  constexpr std::size_t line = 64;
  const std::size_t half = std::max<std::size_t>(bytes / 2, 1);
  const std::size_t step = (half + line - 1) / line * line;
  const std::size_t all = std::max(least / step, std::size_t{2}) * step;
  from_.resize(static_cast<std::size_t>(slots_));
  to_.resize(static_cast<std::size_t>(slots_));
  for (auto* areas : {&from_, &to_})
    for (auto& area : *areas)
      if (area.size() < all) area.assign(all, 1);
  std::vector<std::size_t> next(static_cast<std::size_t>(slots_));
  const double time = seconds_alone(slots_, true, [&](int slot) {
    const auto i = static_cast<std::size_t>(slot);
    std::memcpy(to_[i].data() + next[i], from_[i].data() + next[i], half);
    next[i] = next[i] + 2 * step > all ? 0 : next[i] + step;
  });
  return copies_.emplace(bytes, time).first->second;
}

}  // namespace bench
