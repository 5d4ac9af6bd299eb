// SPDX-License-Identifier: BSD-3-Clause
// Marks exercise 4. Before the gradient is summed, each layer of ranks holds its own power of 1000,
// so the sum tells how many times it counts each layer.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "mark.hpp"
#include "summa_blocks.hpp"

namespace course
{

namespace summa25d
{

using Forward = void (*)(const Mesh25D&, cubist::ProductSize, ConstBlock, ConstBlock, Block);
using SumGradient = void (*)(const Mesh25D&, std::span<double>);
using Formula = Sent25D (*)(cubist::ProductSize, int, int);

constexpr std::int64_t layer_base = 1000;

/// Sums a gradient whose elements differ, times a number of each layer. Returns what is wrong with
/// the sum.
inline std::string gradient_fault(const Mesh25D& mesh, const Indices& mine, SumGradient answer)
{
  std::int64_t layer = 1;
  std::int64_t all = 0;
  for (int d = mesh.extent<cubist::Depth>(); d-- > 0;) all = all * layer_base + 1;
  for (int d = 0; d < mesh.coordinate<cubist::Depth>(); ++d) layer *= layer_base;
  std::vector<std::int64_t> factors;
  for (std::size_t i = 0; i < mine.w_k.size; ++i)
    for (std::size_t j = 0; j < mine.n.size; ++j)
      factors.push_back(static_cast<std::int64_t>(
          (3 * (mine.w_k.offset + i) + 5 * (mine.n.offset + j)) % 17 + 1));
  std::vector<double> dw;
  for (const auto f : factors) dw.push_back(static_cast<double>(f * layer));
  answer(mesh, dw);
  for (std::size_t i = 0; i < dw.size(); ++i)
  {
    const auto got = static_cast<std::int64_t>(dw[i]);
    if (got == factors[i] * all) continue;
    const auto times = got % factors[i] == 0
                           ? digits(got / factors[i], layer_base,
                                    static_cast<std::size_t>(mesh.extent<cubist::Depth>()))
                           : std::vector<std::int64_t>{};
    if (times.empty())
      return text_of("dw[", i, "] is ", got, " instead of ", factors[i] * all,
                     "; sum over the ranks that differ only in the layer");
    return text_of("dw[", i, "] counts ", wrong_terms(times, "layer"),
                   ", but must count each layer once; sum over the ranks that differ only in "
                   "the layer, on every rank");
  }
  return {};
}

inline void run(int q, int d, cubist::ProductSize size, Forward forward, SumGradient sum_gradient,
                Formula formula)
{
  const auto indices_of = [&](const Mesh25D& mesh) {
    const int layer = mesh.coordinate<cubist::Depth>();
    const int i = mesh.coordinate<cubist::Row>();
    const int j = mesh.coordinate<cubist::Col>();
    const cubist::Range rows = part(size.m, d, layer);
    cubist::Range m = part(rows.size, q, i);
    m.offset += rows.offset;
    return Indices{
        .m = m, .n = part(size.n, q, j), .x_k = part(size.k, q, j), .w_k = part(size.k, q, i)};
  };
  const auto then = [&](const Mesh25D& mesh, const Indices& mine) {
    return gradient_fault(mesh, mine, sum_gradient);
  };
  Sent25D sent;
  for (const auto values : {Values::columns_of_x, Values::rows_of_w, Values::all})
    if (size.k <= most_counted || values == Values::all)
      sent = multiply<Mesh25D>({d, q, q}, values, size, indices_of, forward, then);
  const auto others = static_cast<std::uint64_t>(q - 1);
  const auto layers = static_cast<std::uint64_t>(d);
  const std::uint64_t least = others * (size.m * size.k + layers * size.k * size.n);
  const std::uint64_t least_gradient = 2 * (layers - 1) * size.k * size.n;
  const auto place = text_of("on ", d, d == 1 ? " layer" : " layers", " of ", q, " x ", q,
                             " ranks with M = ", size.m, ", K = ", size.k, ", N = ", size.n);
  need(sent.forward <= least, place, ", forward sends ", sent.forward,
       " elements, but the panels of SUMMA in all layers have ", least,
       "; send nothing between layers, because each holds all of W");
  need(sent.gradient <= least_gradient, place, ", sum_gradient sends ", sent.gradient,
       " elements, but an all_reduce over the layers sends ", least_gradient,
       "; sum over the layers alone, by one all_reduce");
  const Sent25D got = formula(size, q, d);
  need(got.forward == sent.forward, place, ", the formula gives ", got.forward,
       " elements for forward, but ", sent.forward,
       " were sent; each of the d layers sends a d-th of the panels of X, and all panels of W");
  need(got.gradient == sent.gradient, place, ", the formula gives ", got.gradient,
       " elements for the gradient, but ", sent.gradient,
       " were sent; q q groups of d ranks each sum K N / (q q) elements");
  std::cout << "  right " << place << ": " << sent.forward << " elements in forward, "
            << sent.gradient << " for the gradient" << std::endl;
}

}  // namespace summa25d

int check_summa25d(int argc, char** argv, summa25d::Forward forward,
                   summa25d::SumGradient sum_gradient, summa25d::Formula formula)
{
  constexpr auto hint =
      "mesh.along<cubist::Col>() connects the ranks of this layer's row only, so the loop of "
      "exercise 2 is right as it stands. The gradient is one all_reduce along cubist::Depth. The "
      "formula of exercise 3 with r = c = q holds for each layer, with M / d rows of X and all of "
      "W; sum it over d layers.";
  return mark("Exercise 4: SUMMA in 2.5D", hint, [&] {
    const auto check = [&](int q, int d, cubist::ProductSize size) {
      summa25d::run(q, d, size, forward, sum_gradient, formula);
    };
    check(1, 1, {.m = 2, .n = 3, .k = 2});
    check(2, 1, {.m = 5, .n = 3, .k = 7});
    check(2, 2, {.m = 8, .n = 4, .k = 4});
    check(2, 3, {.m = 11, .n = 5, .k = 7});
    check(1, 3, {.m = 7, .n = 2, .k = 3});
    trace_to(argc, argv);
    check(2, 2, {.m = 700, .n = 250, .k = 300});
  });
}

}  // namespace course
