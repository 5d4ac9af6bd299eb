// SPDX-License-Identifier: BSD-3-Clause
// Marks exercise 3: what cubist's product sends on Summa2D is counted by its communicators.

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

#include <cubist/matmul/dist_matmul.hpp>
#include <cubist/scheme/summa2d.hpp>

#include "mark.hpp"

namespace course
{

namespace count
{

using SentByAll = std::uint64_t (*)(World&);
using Formula = std::uint64_t (*)(cubist::ProductSize, int, int);

/// What the ranks have sent in a product, as counted and according to an answer.
struct Counts
{
  std::vector<std::uint64_t> sent;     // by each rank
  std::vector<std::uint64_t> answers;  // on each rank, about all

  [[nodiscard]] std::uint64_t all() const
  {
    return std::accumulate(sent.begin(), sent.end(), std::uint64_t{0});
  }
};

inline Counts run(const Mesh2D::Array& extents, cubist::ProductSize size, SentByAll answer)
{
  using Scheme = cubist::Summa2D;
  const auto ranks = static_cast<std::size_t>(Mesh2D::Axes::ranks(extents));
  Counts counts{std::vector<std::uint64_t>(ranks), std::vector<std::uint64_t>(ranks)};
  cubist::launch<Backend>(on(static_cast<int>(ranks)), [&](World& world) {
    const Mesh2D mesh{world, extents, Scheme::quantum(extents)};
    const cubist::DistMatrix<double, Scheme::Input, Mesh2D> x{mesh, {size.m, size.k}};
    const cubist::DistMatrix<double, Scheme::Weight, Mesh2D> w{mesh, {size.k, size.n}};
    cubist::DistMatMul<Scheme, Backend, double> product{mesh, size};
    world.barrier();
    world.traffic().reset();
    static_cast<void>(product.forward(x, w));
    const auto rank = static_cast<std::size_t>(world.rank());
    counts.sent[rank] = world.traffic().total().elements;
    world.barrier();
    counts.answers[rank] = answer(world);
  });
  return counts;
}

inline void judge(const Mesh2D::Array& extents, cubist::ProductSize size, const Counts& counts,
                  Formula formula)
{
  const int r = extents[0];
  const int c = extents[1];
  const std::uint64_t all = counts.all();
  const auto place =
      text_of("on ", r, " x ", c, " ranks with M = ", size.m, ", K = ", size.k, ", N = ", size.n);
  for (std::size_t rank = 0; rank < counts.sent.size(); ++rank)
  {
    const std::uint64_t got = counts.answers[rank];
    need(got == all || got != counts.sent[rank], place, ", sent_by_all on rank ", rank, " returns ",
         got, ", which is what this rank has sent, but all together have sent ", all,
         "; sum what the ranks have sent over all of them");
    need(got <= all, place, ", sent_by_all on rank ", rank, " returns ", got,
         ", but the ranks have sent ", all,
         "; read what a rank has sent before the call that sums it, which sends elements, too");
    need(got == all, place, ", sent_by_all on rank ", rank, " returns ", got,
         ", but the ranks have sent ", all,
         "; sum what all of them have sent, and do so on every "
         "rank");
  }
  const std::uint64_t got = formula(size, r, c);
  if (got != all)
  {
    const auto without = [&](std::size_t q) {
      const std::uint64_t m = cubist::pad(size.m, q), n = cubist::pad(size.n, q),
                          k = cubist::pad(size.k, q);
      return static_cast<std::uint64_t>(c - 1) * m * k + static_cast<std::uint64_t>(r - 1) * k * n;
    };
    need(got != without(1), place, ", the formula gives ", got, ", but ", all,
         " elements were sent; it leaves out the padding of M, K and N");
    need(formula(size, c, r) != all, place, ", the formula gives ", got, ", but ", all,
         " elements were sent, which it gives for ", c, " x ", r,
         " ranks; panels of X go along a row of ranks, which has c of them");
    need(false, place, ", the formula gives ", got, ", but ", all,
         " elements were sent; each element of X goes to the c - 1 other ranks of a row, and each "
         "of W to the r - 1 others of a column");
  }
  std::cout << "  right " << place << ": " << all << " elements, which is "
            << all / counts.sent.size() << " a rank" << std::endl;
}

}  // namespace count

int check_count(int argc, char** argv, count::SentByAll sent_by_all, count::Formula formula)
{
  constexpr auto hint =
      "copy world.traffic().total().elements to a variable, sum that by world.all_reduce, and "
      "return it. In the formula every element of X is sent c - 1 times, and every element of W "
      "r - 1 times, where X and W have their padded sizes.";
  return mark("Exercise 3: count what SUMMA sends", hint, [&] {
    const auto check = [&](const Mesh2D::Array& extents, cubist::ProductSize size) {
      count::judge(extents, size, count::run(extents, size, sent_by_all), formula);
    };
    check({1, 1}, {.m = 4, .n = 5, .k = 6});
    check({2, 2}, {.m = 4, .n = 6, .k = 8});
    check({2, 3}, {.m = 12, .n = 18, .k = 24});
    check({4, 2}, {.m = 16, .n = 4, .k = 8});
    check({2, 3}, {.m = 5, .n = 8, .k = 7});
    trace_to(argc, argv);
    check({2, 2}, {.m = 351, .n = 450, .k = 401});
  });
}

}  // namespace course
