// SPDX-License-Identifier: BSD-3-Clause
// Exercise 4: SUMMA in 2.5D, and what it sends (docs/course.md). Mark it with: scripts/course 4

#include <cstdint>
#include <span>

#include "course.hpp"

/// Adds X W to Y on d layers of q x q ranks. Rows of X and Y are cut over the layers of ranks first
/// and then, within a layer, over its rows of ranks. Every layer holds all of W, cut over its q x q
/// ranks. Everything else is as in exercise 2.
void forward(const course::Mesh25D& mesh, cubist::ProductSize size, course::ConstBlock x,
             course::ConstBlock w, course::Block y)
{
  // Your code here: the loop of exercise 2.
  static_cast<void>(mesh);
  static_cast<void>(size);
  static_cast<void>(x);
  static_cast<void>(w);
  static_cast<void>(y);
}

/// The gradient of W is a sum over all rows of X. Each layer of ranks has summed over its rows
/// alone: `dw` is this rank's block of its layer's sum. Make it the sum over all layers, on every
/// rank.
void sum_gradient(const course::Mesh25D& mesh, std::span<double> dw)
{
  // Your code here.
  static_cast<void>(mesh);
  static_cast<void>(dw);
}

/// Returns how many elements all ranks send in total in `forward`, and in `sum_gradient`. Nothing
/// is padded here. On p ranks an all_reduce of n elements sends 2 (p - 1) n in all.
course::Sent25D formula(cubist::ProductSize size, int q, int d)
{
  // Your code here.
  static_cast<void>(size);
  static_cast<void>(q);
  static_cast<void>(d);
  return {.forward = 0, .gradient = 0};
}

int main(int argc, char** argv)
{
  return course::check_summa25d(argc, argv, forward, sum_gradient, formula);
}
