// SPDX-License-Identifier: BSD-3-Clause
// Marks exercise 2.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "mark.hpp"
#include "summa_blocks.hpp"

namespace course
{

namespace summa
{

using Summa = void (*)(const Mesh2D&, cubist::ProductSize, ConstBlock, ConstBlock, Block);

inline void run(const Mesh2D::Array& extents, cubist::ProductSize size, Summa answer)
{
  const int r = extents[0];
  const int c = extents[1];
  const auto indices_of = [&](const Mesh2D& mesh) {
    const int i = mesh.coordinate<cubist::Row>();
    const int j = mesh.coordinate<cubist::Col>();
    return Indices{.m = part(size.m, r, i),
                   .n = part(size.n, c, j),
                   .x_k = part(size.k, c, j),
                   .w_k = part(size.k, r, i)};
  };
  const auto nothing = [](const Mesh2D&, const Indices&) { return std::string{}; };
  const bool can_count = size.k <= most_counted;
  Sent25D sent;
  for (const auto values : {Values::columns_of_x, Values::rows_of_w, Values::all})
    if (can_count || values == Values::all)
      sent = multiply<Mesh2D>(extents, values, size, indices_of, answer, nothing);
  const auto columns = static_cast<std::uint64_t>(c - 1);
  const auto rows = static_cast<std::uint64_t>(r - 1);
  const std::uint64_t least = columns * size.m * size.k + rows * size.k * size.n;
  const auto place =
      text_of(r, " x ", c, " ranks with M = ", size.m, ", K = ", size.k, ", N = ", size.n);
  need(sent.forward <= least, "on ", place, " the ranks send ", sent.forward,
       " elements, but the panels of SUMMA have ", least,
       "; broadcast each part of a panel once, and nothing else");
  std::cout << "  right on " << place << std::endl;
}

}  // namespace summa

int check_summa(int argc, char** argv, summa::Summa answer)
{
  constexpr auto hint =
      "a part of K on c ranks has cubist::ceil_div(K, c) indices, so column k of X is on rank "
      "k / ceil_div(K, c) of the row; W's rows are cut likewise over the ranks of the column. A "
      "panel begins at k, and ends where the first of the two parts ends. Its owner copies it to a "
      "buffer, all broadcast the buffers, and add_product multiplies them.";
  return mark("Exercise 2: SUMMA from its loop", hint, [&] {
    summa::run({1, 1}, {.m = 2, .n = 3, .k = 2}, answer);
    summa::run({2, 2}, {.m = 4, .n = 4, .k = 4}, answer);
    summa::run({2, 3}, {.m = 5, .n = 7, .k = 7}, answer);
    summa::run({3, 2}, {.m = 7, .n = 3, .k = 8}, answer);
    summa::run({1, 4}, {.m = 3, .n = 6, .k = 2}, answer);
    trace_to(argc, argv);
    summa::run({2, 2}, {.m = 350, .n = 450, .k = 400}, answer);
  });
}

}  // namespace course
