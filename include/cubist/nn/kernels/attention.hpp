// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Attention on one rank: O = softmax(scale Q K^T) V for each sequence and head, and its gradients.
// Scores are computed block by block, so that memory grows with the length of sequences S, never
// with S^2.
//
//   Q, O (B queries, H dh)    K, V (B key_rows, G dh)    L (B H, queries), in an engine's memory
//
//   forward, for each block of queries, over blocks of keys:
//     P = exp(scale Q K^T - m), m being the running maximum of each row
//     O = O exp(m_before - m) + P V;  l = l exp(m_before - m) + row sums of P
//   and then O / l, and L = m + log l, which backward reads.
//
//   backward: D = row sums of dO ∘ O, and for each pair of blocks
//     P = exp(scale Q K^T - L);  dV += P^T dO;  dS = scale P ∘ (dO V^T - D)
//     dQ += dS K;  dK += dS^T Q
//
// With dropout, P is masked and scaled where it multiplies V and dO.
//
// Where the engine multiplies batches, a block has all sequences and heads; else one of each.
//
// Memory: two blocks of scores, and 3 numbers a row of them; L and D are the caller's, 1 number a
// query and head.
// Source: Milakov, Gimelshein, "Online normalizer calculation for softmax", arXiv 1805.02867; Dao
// et al., "FlashAttention", arXiv 2205.14135.

#include <algorithm>
#include <cstddef>
#include <limits>
#include <optional>

#include "cubist/core/matrix_view.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/engine/batch.hpp"
#include "cubist/engine/engine.hpp"
#include "cubist/engine/functions.hpp"
#include "cubist/engine/operand.hpp"
#include "cubist/nn/kernels/attention_functions.hpp"
#include "cubist/nn/kernels/attention_shape.hpp"

namespace cubist
{

/// @tparam T float or double
template <RealScalar T, Engine E>
class LocalAttention
{
  using In = MatrixView<const T>;
  using Out = MatrixView<T>;
  using Buffer = typename E::template Buffer<T>;
  using Indices = typename E::template Buffer<detail::ColumnIndex>;

 public:
  explicit LocalAttention(const E& engine, const AttentionBlocks& blocks = {})
      : engine_{engine}, blocks_{blocks}
  {
  }

  /// O, and L of shape (sequences heads, queries)
  void forward(const AttentionShape& s, const std::optional<AttentionDropout>& dropout, In q, In k,
               In v, Out o, Out l)
  {
    for_each_block(s, dropout, [&](const Block& b) {
      const Out max = row(max_, b.size());
      const Out sum = row(sum_, b.size());
      const Out factor = row(factor_, b.size());
      const Out of_block = row(of_block_, b.size());
      engine_.fill(max, -std::numeric_limits<T>::infinity());
      engine_.fill(sum, T{});
      const auto o_i = b.queries(s, s.o, o);
      for (std::size_t key = 0; key < b.keys; key += blocks_.keys)
      {
        const std::size_t n = std::min(blocks_.keys, b.keys - key);
        const Out scores = block(scores_, b.size(), n);
        multiply_scores(s, b, q, k, key, scores);
        engine_.row_fold(column(of_block), -std::numeric_limits<T>::infinity(), detail::Larger{},
                         detail::Itself{}, In{scores});
        engine_.for_each(detail::RaiseMaximum<T>{}, max, factor, In{of_block});
        engine_.map_rows(scores, detail::ShiftedExp<T>{max.data()}, In{scores});
        engine_.row_fold(column(of_block), T{}, detail::Sum{}, detail::Itself{}, In{scores});
        engine_.for_each(detail::AddScaledSum<T>{}, sum, In{factor}, In{of_block});
        if (b.drop) engine_.map_rows(scores, keep(b, key), In{scores}, columns(scores));
        if (key > 0)
          b.for_each_unit([&](std::size_t u) {
            const Out o_u = o_i(u);
            engine_.map_rows(o_u, detail::ScaleRow<T, false>{factor.data() + u * b.rows}, In{o_u});
          });
        const auto v_j = b.keys_of(s, s.v, v, key, n);
        multiply(
            b, T{1}, [&](std::size_t u) { return Operand<const T>{b.unit(scores, u)}; }, v_j,
            key > 0 ? T{1} : T{}, o_i);
      }
      b.for_each_unit([&](std::size_t u) {
        const Out o_u = o_i(u);
        engine_.map_rows(o_u, detail::ScaleRow<T, true>{sum.data() + u * b.rows}, In{o_u});
        engine_.map(b.per_query(s, l, u), detail::LogSumExp<T>{}, In{b.row_of(max, u)},
                    In{b.row_of(sum, u)});
      });
    });
  }

  /// dQ, dK and dV
  /// @param d  workspace like L  @pre O and L are those of forward, with the same masks
  void backward(const AttentionShape& s, const std::optional<AttentionDropout>& dropout, In q, In k,
                In v, In o, In l, In d_o, Out d, Out dq, Out dk, Out dv)
  {
    for (std::size_t b = 0; b < s.sequences; ++b)
      for (std::size_t g = 0; g < s.heads / s.group; ++g)
      {
        const Shape shape{s.keys, s.head_size};
        engine_.fill(dk.block(b * s.key_rows, s.k(g, s.head_size), shape), T{});
        engine_.fill(dv.block(b * s.key_rows, s.v(g, s.head_size), shape), T{});
      }
    for_each_block(s, dropout, [&](const Block& b) {
      const auto q_i = b.queries(s, s.q, q);
      const auto do_i = b.queries(s, s.o, d_o);
      const auto dq_i = b.queries(s, s.q, dq);
      const auto o_i = b.queries(s, s.o, o);
      const Out d_rows = row(sum_, b.size());
      const Out l_rows = row(max_, b.size());
      b.for_each_unit([&](std::size_t u) {
        const Out d_u = b.per_query(s, d, u);
        engine_.row_fold(column(d_u), T{}, detail::Sum{}, detail::Multiply{}, do_i(u), o_i(u));
        engine_.copy(In{d_u}, b.row_of(d_rows, u));
        engine_.copy(b.per_query(s, l, u), b.row_of(l_rows, u));
      });
      for (std::size_t key = 0; key < b.keys; key += blocks_.keys)
      {
        const std::size_t n = std::min(blocks_.keys, b.keys - key);
        const auto k_j = b.keys_of(s, s.k, k, key, n);
        const auto v_j = b.keys_of(s, s.v, v, key, n);
        const Out p = block(scores_, b.size(), n);
        const Out dp = block(slopes_, b.size(), n);
        const auto of = [&](Out m) {
          return [&b, m](std::size_t u) { return Operand<const T>{b.unit(m, u)}; };
        };
        multiply_scores(s, b, q, k, key, p);
        engine_.map_rows(p, detail::ShiftedExp<T>{l_rows.data()}, In{p});
        multiply(
            b, T{1}, do_i, [&](std::size_t u) { return Operand<const T>{v_j(u)}.t(); }, T{},
            [&](std::size_t u) { return b.unit(dp, u); });
        const detail::ScoreSlope<T> slope{d_rows.data(), static_cast<T>(s.scale)};
        Out masked = p;
        if (b.drop)
        {
          masked = block(masked_, b.size(), n);
          engine_.map_rows(masked, keep(b, key), columns(masked));
          engine_.map_rows(dp, slope, In{p}, In{dp}, In{masked});
          engine_.for_each(detail::MultiplyBy{}, masked, In{p});
        }
        else
          engine_.map_rows(dp, slope, In{p}, In{dp});
        multiply(
            b, T{1}, [&](std::size_t u) { return of(masked)(u).t(); }, do_i, T{1},
            b.keys_of(s, s.v, dv, key, n));
        multiply(b, T{1}, of(dp), k_j, key > 0 ? T{1} : T{}, dq_i);
        multiply(
            b, T{1}, [&](std::size_t u) { return of(dp)(u).t(); }, q_i, T{1},
            b.keys_of(s, s.k, dk, key, n));
      }
    });
  }

 private:
  using Block = detail::QueryBlock;

  /// f(block) for all blocks of queries.
  template <class F>
  void for_each_block(const AttentionShape& s, const std::optional<AttentionDropout>& dropout, F f)
  {
    const std::size_t kv_heads = s.heads / s.group;
    const std::size_t all = s.sequences * kv_heads;
    const std::size_t together = detail::MultipliesBatches<E, T> ? all : 1;
    const bool drops = dropout && dropout->probability > 0;
    allocate(s, together, drops);
    for (std::size_t unit = 0; unit < all; unit += together)
      for (std::size_t member = 0; member < s.group; ++member)
        for (std::size_t query = 0; query < s.queries; query += blocks_.queries)
        {
          const std::size_t rows = std::min(blocks_.queries, s.queries - query);
          const std::size_t end = query + rows + s.keys - s.queries;
          f(Block{unit, together, kv_heads, s.group, member, query, rows, s.causal ? end : s.keys,
                  s.keys, drops ? &*dropout : nullptr});
        }
  }

  void allocate(const AttentionShape& s, std::size_t units, bool drops)
  {
    const std::size_t rows = units * std::min(blocks_.queries, s.queries);
    const std::size_t size = rows * std::min(blocks_.keys, s.keys);
    const auto enlarge = [](Buffer& buffer, std::size_t n) {
      if (buffer.size() < n) buffer = Buffer(n);
    };
    enlarge(scores_, size);
    enlarge(slopes_, size);
    if (drops) enlarge(masked_, size);
    for (auto* each : {&max_, &sum_, &factor_, &of_block_}) enlarge(*each, rows);
    const std::size_t columns = std::min(blocks_.keys, s.keys);
    if (columns_.size() >= columns) return;
    columns_ = Indices(columns);
    engine_.map_indexed(MatrixView<detail::ColumnIndex>{columns_.data(), {1, columns}},
                        detail::ColumnOf{});
  }

  /// scores = scale Q K^T, and -infinity for keys behind the query
  void multiply_scores(const AttentionShape& s, const Block& b, In q, In k, std::size_t key,
                       Out scores)
  {
    const auto k_j = b.keys_of(s, s.k, k, key, scores.cols());
    multiply(
        b, static_cast<T>(s.scale), b.queries(s, s.q, q),
        [&](std::size_t u) { return Operand<const T>{k_j(u)}.t(); }, T{},
        [&](std::size_t u) { return b.unit(scores, u); });
    const std::size_t position = b.query + s.keys - s.queries;  // of the first query
    if (!s.causal || key + scores.cols() <= position + 1) return;
    const std::size_t first = std::max(key, position + 1);
    const Out behind = scores.block(0, first - key, {b.size(), key + scores.cols() - first});
    engine_.map_rows(behind, detail::MaskKeys<T>{b.rows, first, position}, In{behind},
                     columns(behind));
  }

  /// C = alpha A B + beta C for each unit
  template <class A, class Bs, class C>
  void multiply(const Block& b, T alpha, A a, Bs bs, T beta, C c)
  {
    if constexpr (detail::MultipliesBatches<E, T>)
    {
      batch_.clear();
      b.for_each_unit([&](std::size_t u) { batch_.add(a(u), bs(u), c(u)); });
      batch_.multiply(engine_, alpha, beta);
    }
    else
      b.for_each_unit([&](std::size_t u) {
        cubist::multiply(engine_, alpha, Operand<const T>{a(u)}, Operand<const T>{bs(u)}, beta,
                         Operand<T>{c(u)});
      });
  }

  [[nodiscard]] detail::KeepKeys<T> keep(const Block& b, std::size_t key) const
  {
    return {*b.drop,    static_cast<T>(1 / (1 - b.drop->probability)),
            b.rows,     b.first_unit,
            b.kv_heads, b.group,
            b.member,   b.query,
            key,        b.length};
  }

  /// The number of each column, as a matrix like m.
  [[nodiscard]] MatrixView<const detail::ColumnIndex> columns(Out m) const
  {
    return {columns_.data(), m.rows(), m.cols(), 0};
  }

  [[nodiscard]] static Out row(Buffer& buffer, std::size_t n) { return {buffer.data(), {1, n}}; }
  [[nodiscard]] static Out column(Out row) { return {row.data(), row.cols(), 1, 1}; }
  [[nodiscard]] static Out block(Buffer& buffer, std::size_t rows, std::size_t cols)
  {
    return {buffer.data(), {rows, cols}};
  }

  E engine_;
  AttentionBlocks blocks_;
  Buffer scores_ = Buffer(0);
  Buffer slopes_ = Buffer(0);
  Buffer masked_ = Buffer(0);
  Buffer max_ = Buffer(0);
  Buffer sum_ = Buffer(0);
  Buffer factor_ = Buffer(0);
  Buffer of_block_ = Buffer(0);
  Indices columns_ = Indices(0);
  detail::ProductBatch<T> batch_;
};

}  // namespace cubist
