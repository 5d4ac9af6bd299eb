// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The order in which a rank multiplies the pieces of C = A B if it receives pieces of A and B one
// by one from other ranks, and sends them pieces of C.
//
// A tile is a product of one piece of A and one of B, for one piece of C. First come the tiles
// whose operands are this rank's own, because they need not wait. Next come the tiles for other
// ranks' pieces of C, piece by piece, starting with the next rank's, so that these are in flight
// while the rest is multiplied. The tiles for this rank's piece of C come last. Tiles of one kind
// are in the order in which their operands arrive: one piece after the other, those from other
// nodes later.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <tuple>
#include <vector>

#include "cubist/algorithm/local_product.hpp"
#include "cubist/core/block.hpp"

namespace cubist::CUBIST_ABI::detail
{

/// The indices from `begin` up to, but not including, `end`.
struct Interval
{
  std::size_t begin = 0;
  std::size_t end = 0;

  [[nodiscard]] std::size_t size() const { return end - begin; }
};

/// A product of sub-blocks: C(rows, cols) += A(rows, inner) B(inner, cols).
struct Tile
{
  Interval rows;
  Interval cols;
  Interval inner;
  std::size_t a = 0;  // the pieces of A and B that it reads, and the one of C that it adds to
  std::size_t b = 0;
  std::size_t c = 0;
  bool first = true;  // the first tile that writes to its block of C
  bool last = true;   // the last tile that writes to its piece of C
};

/// The equal pieces of a matrix: their number, which one is this rank's own, and the dimension that
/// they cut.
struct Pieces
{
  std::size_t count = 1;
  std::size_t own = 0;
  Dimension cut = Dimension::none;
  bool is_remote = false;  // whether they come from other nodes

  /// The number of pieces into which its rows, or its columns, are cut.
  [[nodiscard]] std::size_t of(Dimension d) const { return cut == d ? count : 1; }
  /// The pieces of the transpose.
  [[nodiscard]] Pieces t() const
  {
    if (cut == Dimension::none) return *this;
    return {count, own, cut == Dimension::rows ? Dimension::cols : Dimension::rows, is_remote};
  }
};

/// The indices that are both in piece i of one cut of an extent and in piece j of another.
struct Overlap
{
  Interval part;
  std::size_t i;
  std::size_t j;
};

/// @pre `n` is a multiple of p and of q
[[nodiscard]] inline std::vector<Overlap> overlaps(std::size_t n, std::size_t p, std::size_t q)
{
  std::vector<Overlap> all;
  for (std::size_t i = 0, j = 0, begin = 0; i < p && j < q;)
  {
    const std::size_t end_i = n / p * (i + 1);
    const std::size_t end_j = n / q * (j + 1);
    const std::size_t end = std::min(end_i, end_j);
    all.push_back({{begin, end}, i, j});
    begin = end;
    if (end == end_i) ++i;
    if (end == end_j) ++j;
  }
  return all;
}

/// The tiles of C = A B, whose pieces may cut any of the three extents, in the order in which they
/// are multiplied.
class Tiles
{
 public:
  Tiles() = default;
  /// @param s the padded sizes, which make all pieces of an extent equal  @param valid the sizes
  /// without padding
  Tiles(ProductSize s, ProductSize valid, Pieces a, Pieces b, Pieces c)
  {
    constexpr auto rows = Dimension::rows;
    constexpr auto cols = Dimension::cols;
    m_ = clipped_overlaps(s.m, valid.m, a.of(rows), c.of(rows));
    n_ = clipped_overlaps(s.n, valid.n, b.of(cols), c.of(cols));
    k_ = clipped_overlaps(s.k, valid.k, a.of(cols), b.of(rows));
    order_.reserve(m_.size() * n_.size() * k_.size());
    for (std::size_t m = 0; m < m_.size(); ++m)
      for (std::size_t n = 0; n < n_.size(); ++n)
        for (std::size_t k = 0; k < k_.size(); ++k)
          order_.push_back({static_cast<std::uint16_t>(m), static_cast<std::uint16_t>(n),
                            static_cast<std::uint16_t>(k)});
    sort(a, b, c);
    mark_ends(c.count);
  }

  [[nodiscard]] std::size_t size() const { return order_.size(); }
  [[nodiscard]] Tile operator[](std::size_t i) const
  {
    const Place& p = order_[i];
    const Overlap& m = m_[p.m];
    const Overlap& n = n_[p.n];
    const Overlap& k = k_[p.k];
    return {m.part, n.part, k.part, m.i + k.i, k.j + n.i, m.j + n.j, p.first, p.last};
  }

 private:
  /// The overlaps of a tile. Plans keep many tiles, so these are small.
  struct Place
  {
    std::uint16_t m;
    std::uint16_t n;
    std::uint16_t k;
    bool first = false;
    bool last = false;
  };

  [[nodiscard]] static std::vector<Overlap> clipped_overlaps(std::size_t padded, std::size_t valid,
                                                             std::size_t p, std::size_t q)
  {
    auto all = overlaps(padded, p, q);
    for (Overlap& o : all) o.part = {std::min(o.part.begin, valid), std::min(o.part.end, valid)};
    return all;
  }

  void sort(Pieces a, Pieces b, Pieces c)
  {
    // A rank already has its own piece; the others arrive in the order of the ranks.
    const auto arrival = [](std::size_t piece, const Pieces& all) {
      return piece == all.own ? 0 : piece + 1;
    };
    const auto step_of = [&](const Place& p) {
      const std::size_t from_a = arrival(m_[p.m].i + k_[p.k].i, a);
      const std::size_t from_b = arrival(k_[p.k].j + n_[p.n].i, b);
      // Each rank sends to the next one first, so that no rank receives from all at once.
      const std::size_t piece = (m_[p.m].j + n_[p.n].j + c.count - c.own) % c.count;
      const bool stays = piece == 0;
      // Tiles that wait for nothing come first, then tiles for other ranks, which wait for the sum,
      // then tiles for this rank.
      const bool waits = from_a + from_b > 0;
      const std::size_t kind = (waits ? 2U : 0U) + (stays ? 1U : 0U);
      const std::size_t later = a.is_remote == b.is_remote ? std::max(from_a, from_b)
                                : a.is_remote              ? from_a
                                                           : from_b;
      return std::tuple{kind, piece, later, from_a + from_b};
    };
    std::stable_sort(order_.begin(), order_.end(),
                     [&](const Place& x, const Place& y) { return step_of(x) < step_of(y); });
  }

  /// Marks the first tile of each block of C, and the last one of each piece.
  void mark_ends(std::size_t pieces)
  {
    std::vector<bool> written(m_.size() * n_.size());
    for (Place& p : order_)
    {
      // Blocks beyond the valid part are empty, and all begin at the same element.
      const auto first_of = [](const std::vector<Overlap>& all, std::size_t i) {
        while (i > 0 && all[i - 1].part.begin == all[i].part.begin) --i;
        return i;
      };
      const std::size_t block = first_of(m_, p.m) * n_.size() + first_of(n_, p.n);
      p.first = !written[block];
      written[block] = true;
    }
    std::vector<bool> ended(pieces);
    for (std::size_t i = order_.size(); i-- > 0;)
    {
      const std::size_t piece = m_[order_[i].m].j + n_[order_[i].n].j;
      order_[i].last = !ended[piece];
      ended[piece] = true;
    }
  }

  std::vector<Overlap> m_;
  std::vector<Overlap> n_;
  std::vector<Overlap> k_;
  std::vector<Place> order_;
};

}  // namespace cubist::CUBIST_ABI::detail
