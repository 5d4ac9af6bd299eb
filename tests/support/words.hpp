// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The elements that the schemes' products send, by the published formulas and as counted.
//
// The formulas are averages over the ranks, for ring collectives and pipelined broadcasts.
// Multiplied by the number of ranks, they are whole numbers. Sizes are padded to the mesh's
// quantum.

#include <cstddef>
#include <cstdint>
#include <ostream>
#include <vector>

#include "cubist/algorithm/summa/summa.hpp"
#include "cubist/core/block.hpp"
#include "cubist/matmul/dist_matmul.hpp"
#include "cubist/scheme/mesh.hpp"
#include "cubist/scheme/scheme.hpp"
#include "cubist/testing/counting.hpp"

#include "backend.hpp"
#include "ranks.hpp"
#include "scheme_conformance.hpp"

namespace cubist::test
{

/// The number of elements that all ranks send in total in each of these calls.
struct Words
{
  std::uint64_t forward = 0;
  std::uint64_t grad_input = 0;
  std::uint64_t grad_weight = 0;
  std::uint64_t backward = 0;
  std::uint64_t backward_weight = 0;  // backward without dX

  friend bool operator==(const Words&, const Words&) = default;
  friend std::ostream& operator<<(std::ostream& out, const Words& w)
  {
    return out << "forward " << w.forward << ", grad_input " << w.grad_input << ", grad_weight "
               << w.grad_weight << ", backward " << w.backward << ", without dX "
               << w.backward_weight;
  }
};

/// The numbers of elements of X, W and Y, with padding.
struct Operands
{
  std::uint64_t mk;
  std::uint64_t kn;
  std::uint64_t mn;

  Operands(ProductSize s, std::size_t quantum)
      : mk{pad(s.m, quantum) * pad(s.k, quantum)},
        kn{pad(s.k, quantum) * pad(s.n, quantum)},
        mn{pad(s.m, quantum) * pad(s.n, quantum)}
  {
  }
};

/// Elements sent by Summa2D on r x c ranks: F = (c-1)/rc MK + (r-1)/rc KN, which for r = c = q is
/// Optimus's (q-1)/q^2 (MK + KN); B = 2 F.
[[nodiscard]] inline Words summa2d_words(std::uint64_t r, std::uint64_t c, const Operands& o)
{
  const std::uint64_t p = r * c;
  const std::uint64_t f = p * ((c - 1) * o.mk + (r - 1) * o.kn) / (r * c);
  return {f, f, f, 2 * f, f};
}

/// Elements sent by Summa2D with a stationary input or weight, where the other two matrices travel.
[[nodiscard]] inline Words summa2d_words(Stationary stays, std::uint64_t r, std::uint64_t c,
                                         const Operands& o)
{
  const std::uint64_t p = stays == Stationary::input ? o.mn : o.mk;
  const std::uint64_t q = stays == Stationary::weight ? o.mn : o.kn;
  const std::uint64_t f = (c - 1) * p + (r - 1) * q;
  return {f, f, f, 2 * f, f};
}

/// Elements sent by Summa25D on d x q x q ranks: F = (q-1)/q^2 (MK/d + KN);
/// B = 2 F + 2(d-1)/(d q^2) KN, where the last term is the sum of dW along depth.
[[nodiscard]] inline Words summa25d_words(std::uint64_t q, std::uint64_t d, const Operands& o)
{
  const std::uint64_t p = q * q * d;
  const std::uint64_t f = p * (q - 1) * (o.mk + d * o.kn) / (q * q * d);
  const std::uint64_t sum = p * 2 * (d - 1) * o.kn / (d * q * q);
  return {f, f, f + sum, 2 * f + sum, f + sum};
}

/// Elements sent by Summa25D with a stationary input or weight.
[[nodiscard]] inline Words summa25d_words(Stationary stays, std::uint64_t q, std::uint64_t d,
                                          const Operands& o)
{
  const std::uint64_t f = (q - 1) * (stays == Stationary::input ? o.mn + d * o.kn : o.mk + o.mn);
  const std::uint64_t sum = 2 * (d - 1) * o.kn;
  return {f, f, f + sum, 2 * f + sum, f + sum};
}

/// Elements sent on three axes by gather, multiply, scatter: F = [(y-1) MK + (z-1) KN + (x-1) MN] /
/// xyz. B = F if gathered operands are kept, else F + [(y-1) MK + (z-1) KN] / xyz. Without dX it is
/// F, less (y-1) MK / xyz if they are kept. The cube has x = y = z.
[[nodiscard]] inline Words grid3d_words(std::uint64_t x, std::uint64_t y, std::uint64_t z,
                                        const Operands& o, Gathered policy)
{
  const std::uint64_t p = x * y * z;
  const std::uint64_t operands = p * ((y - 1) * o.mk + (z - 1) * o.kn) / (x * y * z);
  const std::uint64_t f = operands + p * (x - 1) * o.mn / (x * y * z);
  const std::uint64_t input = p * (y - 1) * o.mk / (x * y * z);
  if (policy == Gathered::kept) return {f, f, f, f, f - input};
  return {f, f, f, f + operands, f};
}

/// Counts the elements that the ranks of a mesh send.
template <SchemeType S, class B = Counting<TestBackend>>
[[nodiscard]] Words counted_words(const TestMesh<S>& on, ProductSize size,
                                  Gathered policy = Gathered::again)
{
  const auto ranks = on_ranks<B>(on.ranks, [&](typename B::Communicator& world) {
    const Mesh<S, B> mesh{world, on.extents};
    using Product = DistMatMul<S, B, float>;
    Product plan{mesh, size, policy};
    const typename Product::Input x{mesh, {size.m, size.k}};
    const typename Product::Weight w{mesh, {size.k, size.n}};
    typename Product::Output y{mesh, {size.m, size.n}};
    auto dx = x;
    auto dw = w;
    const auto sent = [&](auto call) {
      world.traffic().reset();
      call();
      return world.traffic().total().elements;
    };
    Words words;
    words.forward = sent([&] { plan.forward(x, w, y); });
    words.backward = sent([&] { plan.backward(x, w, y, dx, dw); });
    words.backward_weight = sent([&] { plan.backward(x, y, dw); });
    words.grad_input = sent([&] { plan.grad_input(y, w, dx); });
    words.grad_weight = sent([&] { plan.grad_weight(x, y, dw); });
    return words;
  });
  Words sum;
  for (const auto& w : ranks)
  {
    sum.forward += w.forward;
    sum.grad_input += w.grad_input;
    sum.grad_weight += w.grad_weight;
    sum.backward += w.backward;
    sum.backward_weight += w.backward_weight;
  }
  return sum;
}

}  // namespace cubist::test
