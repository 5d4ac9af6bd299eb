// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Answers to exercise 4: one that is right, and some that are wrong.

#include <cstdint>
#include <span>
#include <vector>

#include "2_summa.hpp"
#include "course.hpp"

namespace answers
{

inline void forward(const course::Mesh25D& mesh, cubist::ProductSize size, course::ConstBlock x,
                    course::ConstBlock w, course::Block y)
{
  summa_loop<RightOwner>(mesh, size, x, w, y);
}

inline void sum_gradient(const course::Mesh25D& mesh, std::span<double> dw)
{
  mesh.along<cubist::Depth>().all_reduce(dw);
}

inline course::Sent25D formula25d(cubist::ProductSize size, int q, int d)
{
  const auto others = static_cast<std::uint64_t>(q - 1);
  const auto layers = static_cast<std::uint64_t>(d);
  return {.forward = others * (size.m * size.k + layers * size.k * size.n),
          .gradient = 2 * (layers - 1) * size.k * size.n};
}

/// A panel of X is taken from the wrong rank.
inline void forward_wrong_owner(const course::Mesh25D& mesh, cubist::ProductSize size,
                                course::ConstBlock x, course::ConstBlock w, course::Block y)
{
  summa_loop<CyclicOwner>(mesh, size, x, w, y);
}

/// Each layer keeps its sum.
inline void sum_of_one_layer(const course::Mesh25D&, std::span<double>) {}

/// The sum is on the first layer alone.
inline void sum_on_one_layer(const course::Mesh25D& mesh, std::span<double> dw)
{
  auto& layers = mesh.along<cubist::Depth>();
  const std::vector<double> mine(dw.begin(), dw.end());
  layers.reduce(mine, dw, 0);
}

/// As if one layer had all of W.
inline course::Sent25D formula_of_one_w(cubist::ProductSize size, int q, int d)
{
  auto sent = formula25d(size, q, d);
  sent.forward = static_cast<std::uint64_t>(q - 1) * (size.m * size.k + size.k * size.n);
  return sent;
}

}  // namespace answers
