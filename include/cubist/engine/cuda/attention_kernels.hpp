// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The kernels of attention in one pass (engine/attention.hpp), for 16-bit elements. Scores stay in
// registers, and never reach a device's memory.
//
//   forward      a block of threads takes a tile of one head's queries, and reads the keys tile by
//                tile: S = Q K^T, P = exp(scale S - m) with the running maximum m of each row,
//                O += P V. At the end it divides O by the sums of P's rows, and sets L = scale m +
//                log sum.
//   dQ           takes the same tiles: D = row sums of dO ∘ O, P = exp(scale S - L),
//                dS = scale P ∘ (dO V^T - D), dQ += dS K.
//   dK and dV    a block takes a tile of keys, and reads the queries of all heads that share them:
//                dV += P^T dO, dK += dS^T Q. It computes the scores again, so that one block makes
//                each sum, in an order that is the same on every run.
//
// A kernel is a template of a warp W, which multiplies small tiles. A device's warp (warp.hpp)
// holds a tile's elements in the registers of its threads; tests have a warp on the host. Each warp
// of a block has 16 rows of the block's tile.
//
//   Left                   16 x 16 elements of a left operand
//   Right                  16 x 16 elements of a right operand
//   Sums<n>                16 x n floats, zeros at first
//   Rows                   16 floats, one for each row of Sums
//
// Source: Dao, "FlashAttention-2", arXiv 2307.08691; without its atomic additions to dQ.

#include <cmath>
#include <cstddef>
#include <limits>

#include "cubist/core/block.hpp"
#include "cubist/core/host_device.hpp"
#include "cubist/core/matrix_view.hpp"
#include "cubist/engine/attention.hpp"
#include "cubist/engine/cuda/chunks.hpp"

namespace cubist::CUBIST_ABI::detail
{

/// A tile of a head's rows in the memory that a block shares.
template <class T, unsigned head_size>
struct HeadTile
{
  /// The distance between two rows: a warp reads 8 of them at once, from different banks.
  static constexpr unsigned ld = head_size + 8;

  [[nodiscard]] static constexpr unsigned elements(unsigned rows) { return rows * ld; }

  /// Lets the block's threads begin to copy `rows` rows. Row `valid` and all later ones become
  /// zeros.
  template <class W>
  CUBIST_HOST_DEVICE static void load(const W& warp, T* tile, unsigned rows, const T* from,
                                      std::size_t from_ld, std::size_t valid)
  {
    constexpr unsigned n = access_bytes / sizeof(T);
    constexpr unsigned parts = head_size / n;
    for (unsigned i = warp.thread(); i < rows * parts; i += warp.threads())
    {
      const unsigned row = i / parts, column = i % parts * n;
      const bool exists = row < valid;
      warp.copy(tile + row * ld + column, from + (exists ? row * from_ld + column : 0), exists);
    }
  }

  /// Loads a tile with 16 rows for each warp of the block; row `valid` and all later ones are
  /// zeros. Then calls f(k / 16, x) with the elements x of this warp's rows in columns k to k + 15,
  /// for each k.
  template <class W, class F>
  CUBIST_HOST_DEVICE static void for_own_rows(const W& warp, T* tile, const T* from,
                                              std::size_t from_ld, std::size_t valid, F f)
  {
    load(warp, tile, 16 * W::count, from, from_ld, valid);
    warp.end_copies();
    warp.template wait_for_copies<0>();
    warp.wait();
    CUBIST_UNROLL
    for (unsigned k = 0; k < head_size; k += 16)
      f(k / 16, warp.left(tile + 16 * warp.index() * ld + k, ld));
    warp.wait();
  }

  /// Adds A B^T to sums, for the 16 rows of A and the n rows of B in two tiles.
  template <class W, unsigned n>
  CUBIST_HOST_DEVICE static void multiply_rows(const W& warp, typename W::template Sums<n>& sums,
                                               const T* a, const T* b)
  {
    CUBIST_UNROLL
    for (unsigned k = 0; k < head_size; k += 16)
    {
      const auto left = warp.left(a + k, ld);
      CUBIST_UNROLL
      for (unsigned j = 0; j < n; j += 16)
        warp.multiply(sums, j, left, warp.right_of_rows(b + j * ld + k, ld));
    }
  }
  /// Adds P B to sums, for the n columns of P, which are rounded to T, and n rows of B in a tile.
  template <class W, unsigned n>
  CUBIST_HOST_DEVICE static void multiply_columns(const W& warp,
                                                  typename W::template Sums<head_size>& sums,
                                                  const typename W::template Sums<n>& p, const T* b)
  {
    CUBIST_UNROLL
    for (unsigned k = 0; k < n; k += 16)
    {
      const auto left = warp.left(p, k);
      CUBIST_UNROLL
      for (unsigned j = 0; j < head_size; j += 16)
        warp.multiply(sums, j, left, warp.right_of_columns(b + k * ld + j, ld));
    }
  }
};

/// The operands of attention, as its kernels take them.
template <class T>
struct AttentionOperands
{
  AttentionShape s;
  MatrixView<const T> q, k, v, o, d_o;
  float* l;
  float* d;

  /// Returns scale log2(e): P = exp(scale S - …) is computed as a power of 2.
  [[nodiscard]] CUBIST_HOST_DEVICE float scale_of_log2() const
  {
    return static_cast<float>(s.scale * 1.4426950408889634);
  }
  /// The number of keys that the query at index i of its sequence reads.
  [[nodiscard]] CUBIST_HOST_DEVICE std::size_t visible(std::size_t i) const
  {
    const std::size_t causal = i + s.keys - s.queries + 1;
    return s.causal && causal < s.keys ? causal : s.keys;
  }
  /// The index in L and D of the first query of a head.
  [[nodiscard]] CUBIST_HOST_DEVICE std::size_t first_row(std::size_t sequence,
                                                         std::size_t head) const
  {
    return (sequence * s.heads + head) * s.queries;
  }
  template <class V>
  [[nodiscard]] CUBIST_HOST_DEVICE V* query(const MatrixView<V>& m, const HeadColumns& columns,
                                            std::size_t sequence, std::size_t head,
                                            std::size_t i) const
  {
    return m.row(sequence * s.queries + i) + columns(head, s.head_size);
  }
  template <class V>
  [[nodiscard]] CUBIST_HOST_DEVICE V* key(const MatrixView<V>& m, const HeadColumns& columns,
                                          std::size_t sequence, std::size_t kv_head,
                                          std::size_t i) const
  {
    return m.row(sequence * s.key_rows + i) + columns(kv_head, s.head_size);
  }
};

/// Tiles of keys and values, which a block reads one after the other. The next pair is loaded while
/// one is read.
template <class T, unsigned head_size, unsigned keys>
struct KeyTiles
{
  using Tile = HeadTile<T, head_size>;
  static constexpr unsigned elements = Tile::elements(keys) * 4;

  const AttentionOperands<T>& on;
  std::size_t sequence;
  std::size_t kv_head;
  T* shared;

  [[nodiscard]] CUBIST_HOST_DEVICE T* k(std::size_t key) const
  {
    return shared + key / keys % 2 * Tile::elements(2 * keys);
  }
  [[nodiscard]] CUBIST_HOST_DEVICE T* v(std::size_t key) const
  {
    return k(key) + Tile::elements(keys);
  }
  template <class W>
  CUBIST_HOST_DEVICE void load(const W& warp, std::size_t key) const
  {
    const AttentionShape& s = on.s;
    Tile::load(warp, k(key), keys, on.key(on.k, s.k, sequence, kv_head, key), on.k.ld(),
               s.keys - key);
    Tile::load(warp, v(key), keys, on.key(on.v, s.v, sequence, kv_head, key), on.v.ld(),
               s.keys - key);
    warp.end_copies();
  }
  /// Waits for the tiles at `key`, and begins to load the next ones if they are before `end`.
  template <class W>
  CUBIST_HOST_DEVICE void wait(const W& warp, std::size_t key, std::size_t end) const
  {
    warp.wait();  // the tiles that are overwritten have been read
    if (key + keys < end)
    {
      load(warp, key + keys);
      warp.template wait_for_copies<1>();
    }
    else
      warp.template wait_for_copies<0>();
    warp.wait();
  }
};

/// The tile of queries that a block takes. Tiles that read most keys come first.
template <class T>
struct QueryTile
{
  std::size_t sequence;
  std::size_t head;
  std::size_t kv_head;
  std::size_t first;  // the index of the tile's first query

  CUBIST_HOST_DEVICE QueryTile(const AttentionOperands<T>& on, unsigned block, unsigned rows)
  {
    const AttentionShape& s = on.s;
    const std::size_t heads = s.sequences * s.heads;
    const std::size_t tiles = ceil_div(s.queries, std::size_t{rows});
    first = (tiles - 1 - block / heads) * rows;
    sequence = block % heads / s.heads;
    head = block % s.heads;
    kv_head = head / s.group;
  }
};

/// The number of blocks of a kernel that runs over tiles of queries.
[[nodiscard]] inline std::size_t query_tiles(const AttentionShape& s, unsigned rows)
{
  return s.sequences * s.heads * ceil_div(s.queries, std::size_t{rows});
}

/// Computes O and L.
template <class T, unsigned head_size>
struct AttentionForward
{
  static constexpr unsigned keys = 64;
  using Tile = HeadTile<T, head_size>;

  AttentionOperands<T> on;
  MatrixView<T> o;

  /// The elements of T in a block's shared memory.
  [[nodiscard]] static constexpr unsigned shared_elements()
  {
    return KeyTiles<T, head_size, keys>::elements;
  }
  [[nodiscard]] std::size_t blocks(unsigned rows) const { return query_tiles(on.s, rows); }

  template <class W>
  CUBIST_HOST_DEVICE void run(const W& warp, T* shared) const
  {
    constexpr unsigned rows = 16 * W::count;
    static_assert(rows <= keys);
    const AttentionShape& s = on.s;
    const QueryTile<T> at{on, warp.block(), rows};
    const float scale = on.scale_of_log2();
    const std::size_t mine = at.first + 16 * warp.index();

    typename W::Left q[head_size / 16];
    Tile::for_own_rows(warp, shared, on.query(on.q, s.q, at.sequence, at.head, at.first), on.q.ld(),
                       s.queries - at.first, [&](unsigned k, const auto& left) { q[k] = left; });

    typename W::template Sums<head_size> sums;
    typename W::Rows max = warp.rows(-std::numeric_limits<float>::infinity());
    typename W::Rows sum = warp.rows(0.0F);
    const std::size_t last = at.first + rows < s.queries ? at.first + rows : s.queries;
    const std::size_t end = on.visible(last - 1);
    const KeyTiles<T, head_size, keys> tiles{on, at.sequence, at.kv_head, shared};
    tiles.load(warp, 0);
    for (std::size_t key = 0; key < end; key += keys)
    {
      tiles.wait(warp, key, end);
      const T* const k_tile = tiles.k(key);
      const T* const v_tile = tiles.v(key);
      typename W::template Sums<keys> p;
      CUBIST_UNROLL
      for (unsigned k = 0; k < head_size; k += 16) CUBIST_UNROLL
      for (unsigned j = 0; j < keys; j += 16)
        warp.multiply(p, j, q[k / 16], warp.right_of_rows(k_tile + j * Tile::ld + k, Tile::ld));
      if (key + keys > on.visible(mine))
        warp.for_each(p, [&](float& x, unsigned i, unsigned j, unsigned) {
          if (key + j >= on.visible(mine + i)) x = -std::numeric_limits<float>::infinity();
        });
      const typename W::Rows before = max;
      warp.raise(max, p);
      typename W::Rows factor;
      warp.for_each_row([&](unsigned, unsigned slot) {
        factor.x[slot] = exp2f((before.x[slot] - max.x[slot]) * scale);
        sum.x[slot] *= factor.x[slot];
      });
      warp.for_each(p, [&](float& x, unsigned, unsigned, unsigned slot) {
        x = exp2f(x * scale - max.x[slot] * scale);
        sum.x[slot] += x;
      });
      warp.for_each(sums,
                    [&](float& x, unsigned, unsigned, unsigned slot) { x *= factor.x[slot]; });
      Tile::template multiply_columns<W, keys>(warp, sums, p, v_tile);
    }
    warp.add_up(sum);
    warp.for_each(sums, [&](float& x, unsigned, unsigned, unsigned slot) { x /= sum.x[slot]; });
    if (mine >= s.queries) return;
    warp.store(sums, on.query(o, s.o, at.sequence, at.head, mine), o.ld(), s.queries - mine);
    float* const l = on.l + on.first_row(at.sequence, at.head) + mine;
    warp.for_each_row([&](unsigned i, unsigned slot) {
      if (mine + i < s.queries)
        l[i] = static_cast<float>(s.scale) * max.x[slot] + std::log(sum.x[slot]);
    });
  }
};

/// Computes dQ, and D, which the kernel of dK and dV reads.
template <class T, unsigned head_size>
struct AttentionQueryGradient
{
  static constexpr unsigned keys = 64;
  using Tile = HeadTile<T, head_size>;

  AttentionOperands<T> on;
  MatrixView<T> dq;

  [[nodiscard]] static constexpr unsigned shared_elements()
  {
    return KeyTiles<T, head_size, keys>::elements;
  }
  [[nodiscard]] std::size_t blocks(unsigned rows) const { return query_tiles(on.s, rows); }

  template <class W>
  CUBIST_HOST_DEVICE void run(const W& warp, T* shared) const
  {
    constexpr unsigned rows = 16 * W::count;
    static_assert(rows <= keys);
    const AttentionShape& s = on.s;
    const QueryTile<T> at{on, warp.block(), rows};
    const float scale = on.scale_of_log2();
    const std::size_t mine = at.first + 16 * warp.index();

    typename W::Left q[head_size / 16];
    typename W::Left d_o[head_size / 16];
    typename W::Rows d = warp.rows(0.0F);
    const auto load = [&](const MatrixView<const T>& m, const HeadColumns& columns, auto f) {
      Tile::for_own_rows(warp, shared, on.query(m, columns, at.sequence, at.head, at.first), m.ld(),
                         s.queries - at.first, f);
    };
    load(on.q, s.q, [&](unsigned k, const auto& left) { q[k] = left; });
    load(on.d_o, s.o, [&](unsigned k, const auto& left) { d_o[k] = left; });
    load(on.o, s.o, [&](unsigned k, const auto& left) { warp.add_products(d, d_o[k], left); });
    warp.add_up(d);

    typename W::Rows l = warp.rows(0.0F);
    const std::size_t first = on.first_row(at.sequence, at.head) + mine;
    warp.for_each_row([&](unsigned i, unsigned slot) {
      if (mine + i >= s.queries) return;
      l.x[slot] = on.l[first + i] * 1.4426950408889634F;
      on.d[first + i] = d.x[slot];
    });

    typename W::template Sums<head_size> sums;
    const std::size_t last = at.first + rows < s.queries ? at.first + rows : s.queries;
    const std::size_t end = on.visible(last - 1);
    const KeyTiles<T, head_size, keys> tiles{on, at.sequence, at.kv_head, shared};
    tiles.load(warp, 0);
    for (std::size_t key = 0; key < end; key += keys)
    {
      tiles.wait(warp, key, end);
      const T* const k_tile = tiles.k(key);
      const T* const v_tile = tiles.v(key);
      typename W::template Sums<keys> p, dp;
      CUBIST_UNROLL
      for (unsigned k = 0; k < head_size; k += 16) CUBIST_UNROLL
      for (unsigned j = 0; j < keys; j += 16)
      {
        const unsigned from = j * Tile::ld + k;
        warp.multiply(p, j, q[k / 16], warp.right_of_rows(k_tile + from, Tile::ld));
        warp.multiply(dp, j, d_o[k / 16], warp.right_of_rows(v_tile + from, Tile::ld));
      }
      const bool hides = key + keys > on.visible(mine);
      const float factor = static_cast<float>(s.scale);
      warp.for_each_pair(p, dp, [&](float& x, float& y, unsigned i, unsigned j, unsigned slot) {
        x = exp2f(x * scale - l.x[slot]);
        if (hides && key + j >= on.visible(mine + i)) x = 0;
        y = factor * x * (y - d.x[slot]);
      });
      Tile::template multiply_columns<W, keys>(warp, sums, dp, k_tile);
    }
    if (mine < s.queries)
      warp.store(sums, on.query(dq, s.q, at.sequence, at.head, mine), dq.ld(), s.queries - mine);
  }
};

/// Computes dK and dV.
template <class T, unsigned head_size>
struct AttentionKeyGradient
{
  static constexpr unsigned queries = head_size > 64 ? 32 : 64;
  static constexpr unsigned most_keys = 64;
  using Tile = HeadTile<T, head_size>;

  AttentionOperands<T> on;
  MatrixView<T> dk;
  MatrixView<T> dv;

  [[nodiscard]] static constexpr unsigned shared_elements()
  {
    // L and D of a tile are stored as floats behind the tiles.
    return Tile::elements(most_keys + 2 * queries) * 2 + 4 * queries * sizeof(float) / sizeof(T);
  }
  [[nodiscard]] std::size_t blocks(unsigned keys) const
  {
    const AttentionShape& s = on.s;
    return s.sequences * (s.heads / s.group) * ceil_div(s.keys, std::size_t{keys});
  }

  template <class W>
  CUBIST_HOST_DEVICE void run(const W& warp, T* shared) const
  {
    constexpr unsigned keys = 16 * W::count;
    static_assert(keys <= most_keys);
    const AttentionShape& s = on.s;
    const float scale = on.scale_of_log2();
    T* const k_tile = shared;
    T* const v_tile = k_tile + Tile::elements(most_keys);
    T* const query_tiles = v_tile + Tile::elements(most_keys);
    float* const row_tiles = reinterpret_cast<float*>(query_tiles + Tile::elements(4 * queries));

    const std::size_t kv_heads = s.heads / s.group;
    const std::size_t kv_head = warp.block() % kv_heads;
    const std::size_t sequence = warp.block() / kv_heads % s.sequences;
    const std::size_t first = warp.block() / (kv_heads * s.sequences) * keys;
    const std::size_t mine = first + 16 * warp.index();
    const T* const my_k = k_tile + 16 * warp.index() * Tile::ld;
    const T* const my_v = v_tile + 16 * warp.index() * Tile::ld;
    Tile::load(warp, k_tile, keys, on.key(on.k, s.k, sequence, kv_head, first), on.k.ld(),
               s.keys - first);
    Tile::load(warp, v_tile, keys, on.key(on.v, s.v, sequence, kv_head, first), on.v.ld(),
               s.keys - first);

    typename W::template Sums<head_size> dk_sums, dv_sums;
    const std::size_t offset = s.keys - s.queries;
    // The first query that reads the block's first key, in whole tiles.
    const std::size_t begin = s.causal && first > offset ? (first - offset) / queries * queries : 0;
    // The block reads the tiles of queries of one head after the other, and loads the next tile
    // while it reads one.
    const std::size_t tiles = ceil_div(s.queries, std::size_t{queries}) - begin / queries;
    const std::size_t all = s.queries > begin ? s.group * tiles : 0;
    const auto head_of = [&](std::size_t n) { return kv_head * s.group + n / tiles; };
    const auto query_of = [&](std::size_t n) { return begin + n % tiles * queries; };
    const auto load = [&](std::size_t n) {
      const std::size_t head = head_of(n), query = query_of(n);
      T* const q_tile = query_tiles + n % 2 * Tile::elements(2 * queries);
      float* const l_tile = row_tiles + n % 2 * 2 * queries;
      Tile::load(warp, q_tile, queries, on.query(on.q, s.q, sequence, head, query), on.q.ld(),
                 s.queries - query);
      Tile::load(warp, q_tile + Tile::elements(queries), queries,
                 on.query(on.d_o, s.o, sequence, head, query), on.d_o.ld(), s.queries - query);
      warp.end_copies();
      const std::size_t row = on.first_row(sequence, head) + query;
      for (unsigned i = warp.thread(); i < queries; i += warp.threads())
      {
        const bool valid = query + i < s.queries;
        l_tile[i] = valid ? on.l[row + i] * 1.4426950408889634F : 0.0F;
        l_tile[queries + i] = valid ? on.d[row + i] : 0.0F;
      }
    };
    if (all > 0) load(0);
    for (std::size_t n = 0; n < all; ++n)
    {
      warp.wait();  // the tiles that are overwritten have been read
      if (n + 1 < all)
      {
        load(n + 1);
        warp.template wait_for_copies<1>();
      }
      else
        warp.template wait_for_copies<0>();
      warp.wait();
      const std::size_t query = query_of(n);
      const T* const q_tile = query_tiles + n % 2 * Tile::elements(2 * queries);
      const T* const do_tile = q_tile + Tile::elements(queries);
      const float* const l_tile = row_tiles + n % 2 * 2 * queries;
      const float* const d_tile = l_tile + queries;
      typename W::template Sums<queries> p, dp;  // transposed: a row for each key
      Tile::template multiply_rows<W, queries>(warp, p, my_k, q_tile);
      Tile::template multiply_rows<W, queries>(warp, dp, my_v, do_tile);
      const bool hides = query + queries > s.queries || mine + 16 > on.visible(query);
      const float factor = static_cast<float>(s.scale);
      warp.for_each_pair(p, dp, [&](float& x, float& y, unsigned i, unsigned j, unsigned) {
        x = exp2f(x * scale - l_tile[j]);
        if (hides && (query + j >= s.queries || mine + i >= on.visible(query + j))) x = 0;
        y = factor * x * (y - d_tile[j]);
      });
      Tile::template multiply_columns<W, queries>(warp, dv_sums, p, do_tile);
      Tile::template multiply_columns<W, queries>(warp, dk_sums, dp, q_tile);
    }
    if (mine >= s.keys) return;
    warp.store(dk_sums, on.key(dk, s.k, sequence, kv_head, mine), dk.ld(), s.keys - mine);
    warp.store(dv_sums, on.key(dv, s.v, sequence, kv_head, mine), dv.ld(), s.keys - mine);
  }
};

}  // namespace cubist::CUBIST_ABI::detail
