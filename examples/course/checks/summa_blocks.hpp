// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Matrices of whole numbers, cut over ranks, for the products of exercises 2 and 4. Three products
// are computed. In the first, column k of X is 100^k and W is 1, so an element of Y tells how many
// times the answer has used column k. The second does so for the rows of W. In the third all
// numbers differ.

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <cubist/core/block.hpp>
#include <cubist/engine/span.hpp>

#include "mark.hpp"

namespace course
{

enum class Values
{
  columns_of_x,
  rows_of_w,
  all
};

constexpr std::int64_t index_base = 100;
/// With more indices, the sum of their powers would not be exact in double.
constexpr std::size_t most_counted = 8;

inline double power(std::size_t k)
{
  return std::pow(static_cast<double>(index_base), static_cast<double>(k));
}

inline double x_value(Values values, std::size_t i, std::size_t k)
{
  if (values != Values::all) return values == Values::columns_of_x ? power(k) : 1;
  return static_cast<double>((3 * i + 5 * k) % 11) - 4;
}
inline double w_value(Values values, std::size_t k, std::size_t j)
{
  if (values != Values::all) return values == Values::rows_of_w ? power(k) : 1;
  return static_cast<double>((2 * k + 7 * j) % 13) - 5;
}

/// A block of a matrix in memory that holds NaN around it and between its rows. This exposes an
/// answer that reads or writes outside its block.
class GuardedBlock
{
 public:
  template <class F>
  GuardedBlock(cubist::Range rows, cubist::Range cols, F value)
      : shape_{rows.size, cols.size},
        ld_{cols.size + gap},
        data_((rows.size + 2 * gap) * ld_ + 2 * gap, std::numeric_limits<double>::quiet_NaN())
  {
    for (std::size_t i = 0; i < rows.size; ++i)
      for (std::size_t j = 0; j < cols.size; ++j)
        view()(i, j) = value(rows.offset + i, cols.offset + j);
  }

  [[nodiscard]] Block view()
  {
    return {data_.data() + gap * ld_ + gap, shape_.rows, shape_.cols, ld_};
  }
  /// Whether the memory around the block is unchanged.
  [[nodiscard]] bool is_intact() const
  {
    std::size_t numbers = 0;
    for (const double x : data_) numbers += std::isnan(x) ? 0 : 1;
    return numbers <= shape_.size();
  }

 private:
  static constexpr std::size_t gap = 12;
  cubist::Shape shape_;
  std::size_t ld_;
  std::vector<double> data_;
};

/// The indices of a rank's blocks.
struct Indices
{
  cubist::Range m;    // rows of x and y
  cubist::Range n;    // columns of w and y
  cubist::Range x_k;  // columns of x
  cubist::Range w_k;  // rows of w
};

/// Describes the mistake in this rank's block of Y; empty if there is none. Only some elements of a
/// large product are checked.
inline std::string fault(Values values, cubist::ProductSize size, const Indices& mine, Block y)
{
  const std::size_t step = size.k > most_counted ? 37 : 1;
  for (std::size_t i = 0; i < y.rows(); i += step)
    for (std::size_t j = 0; j < y.cols(); j += step)
    {
      const std::size_t row = mine.m.offset + i;
      const std::size_t col = mine.n.offset + j;
      double sum = 0;
      for (std::size_t k = 0; k < size.k; ++k)
        sum += x_value(values, row, k) * w_value(values, k, col);
      const double got = y(i, j);
      if (got == sum) continue;
      const auto element = text_of("Y(", row, ", ", col, ") ");
      if (std::isnan(got))
        return element +
               "has a number from outside a block, so a panel is longer than the part "
               "that its owner holds, or begins at the wrong index; let each panel end where "
               "the first of the two blocks ends";
      const bool counts = values != Values::all && got >= 0 && got < 9e15;
      const auto times = counts ? digits(static_cast<std::int64_t>(got), index_base, size.k)
                                : std::vector<std::int64_t>{};
      if (!times.empty())
        return element + "has used " +
               (values == Values::columns_of_x ? wrong_terms(times, "column", " of X")
                                               : wrong_terms(times, "row", " of W")) +
               ", but needs each once; check which rank owns the panel, where in its block the panel "
               "begins, and that panels of X go along the row, mesh.along<cubist::Col>()";
      return element +
             text_of("is ", got, " instead of ", sum,
                     "; check that panels of X go along the row of ranks, and those of W along the "
                     "column");
    }
  return {};
}

/// Multiplies on ranks, and returns how many elements all ranks together sent in the product and,
/// after it, in `then`.
/// @param indices_of(mesh) returns the indices of this rank's blocks
template <class Mesh, class IndicesOf, class Product, class Then>
Sent25D multiply(const typename Mesh::Array& extents, Values values, cubist::ProductSize size,
                 IndicesOf indices_of, Product product, Then then)
{
  const auto ranks = static_cast<std::size_t>(Mesh::Axes::ranks(extents));
  std::vector<std::string> faults(ranks);
  std::vector<Sent25D> sent(ranks);
  cubist::launch<Backend>(on(Mesh::Axes::ranks(extents)), [&](World& world) {
    const Mesh mesh{world, extents, 1};
    const Indices mine = indices_of(mesh);
    GuardedBlock x{mine.m, mine.x_k, [&](auto i, auto k) { return x_value(values, i, k); }};
    GuardedBlock w{mine.w_k, mine.n, [&](auto k, auto j) { return w_value(values, k, j); }};
    GuardedBlock y{mine.m, mine.n, [](auto, auto) { return 0.0; }};
    world.barrier();
    world.traffic().reset();
    {
      const cubist::Span span{mesh.engine(), {"your product", size.m, size.n, size.k}};
      product(mesh, size, x.view(), w.view(), y.view());
    }
    const auto forward = world.traffic().total().elements;
    auto text = fault(values, size, mine, y.view());
    if (text.empty() && !y.is_intact())
      text = "an element beside its block of Y has been written; check the shape of the product";
    world.traffic().reset();
    const auto text_of_then = then(mesh, mine);
    if (text.empty()) text = text_of_then;
    const auto rank = static_cast<std::size_t>(world.rank());
    sent[rank] = {forward, world.traffic().total().elements};
    if (!text.empty())
      faults[rank] = text_of("on rank ", rank, " of ", Mesh::Axes::to_string(extents), ", ", text);
  });
  for (const auto& text : faults) need(text.empty(), text);
  Sent25D all;
  for (const auto& of_rank : sent)
  {
    all.forward += of_rank.forward;
    all.gradient += of_rank.gradient;
  }
  return all;
}

}  // namespace course
