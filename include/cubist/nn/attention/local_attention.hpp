// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Computes attention on one rank: O = softmax(scale Q K^T) V for each sequence and head, and its
// gradients. Scores are computed block by block, so that memory grows with the length S of
// sequences, never with S^2.
//
//   Q, O (B queries, H dh)    K, V (B key_rows, G dh)    L (1, B H queries), in an engine's memory
//
//   forward, for each block of queries, over blocks of keys:
//     P = exp(scale Q K^T - m), m being the running maximum of each row
//     O = O exp(m_before - m) + P V;  l = l exp(m_before - m) + row sums of P
//   and then O = O / l, and L = m + log l, which backward reads.
//
//   backward: D = row sums of dO ∘ O, and for each pair of blocks
//     P = exp(scale Q K^T - L);  dV += P^T dO;  dS = scale P ∘ (dO V^T - D)
//     dQ += dS K;  dK += dS^T Q
//
// With dropout, P is masked and scaled where it multiplies V and dO.
//
// If the engine multiplies batches, a block covers all sequences and key-value heads; otherwise it
// covers one of each.
//
// Memory: forward uses one block of scores, and backward two, or three with dropout. Both also use
// 4 numbers for each row of a block. The caller owns L.
// Source: Milakov, Gimelshein, "Online normalizer calculation for softmax", arXiv 1805.02867; Dao
// et al., "FlashAttention", arXiv 2205.14135.

#include <algorithm>
#include <cstddef>
#include <limits>
#include <optional>

#include "cubist/core/instances.hpp"
#include "cubist/core/matrix_view.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/engine/batch.hpp"
#include "cubist/engine/engine.hpp"
#include "cubist/engine/functions.hpp"
#include "cubist/engine/operand.hpp"
#include "cubist/engine/repeated_work.hpp"
#include "cubist/engine/span.hpp"
#include "cubist/nn/attention/attention_functions.hpp"
#include "cubist/nn/attention/attention_shape.hpp"

namespace cubist::CUBIST_ABI
{

namespace detail
{

/// The workspace for one block of scores: matrices of scores, and vectors with one number for each
/// row of scores.
template <RealScalar T, Engine E>
class AttentionWorkspace
{
 public:
  /// Allocates memory for blocks of this shape, with `matrices` matrices of scores.
  void reserve(const E& engine, Shape shape, std::size_t matrices)
  {
    for (std::size_t m = 0; m < matrices; ++m) enlarge(scores_[m], shape.size());
    for (auto& each : rows_) enlarge(each, shape.rows);
    if (columns_.size() >= shape.cols) return;
    columns_ = Columns(shape.cols);
    engine.map_indexed(MatrixView<ColumnIndex>{columns_.data(), {1, shape.cols}}, ColumnOf{});
  }

  [[nodiscard]] MatrixView<T> scores(std::size_t matrix, Shape shape)
  {
    return {scores_[matrix].data(), shape};
  }
  [[nodiscard]] MatrixView<T> row(std::size_t number, std::size_t n)
  {
    return {rows_[number].data(), {1, n}};
  }
  /// The column number of each element, as a matrix of m's shape.
  [[nodiscard]] MatrixView<const ColumnIndex> columns(MatrixView<T> m) const
  {
    return {columns_.data(), m.rows(), m.cols(), 0};
  }

 private:
  using Buffer = typename E::template Buffer<T>;
  using Columns = typename E::template Buffer<ColumnIndex>;

  Buffer scores_[3]{Buffer(0), Buffer(0), Buffer(0)};
  Buffer rows_[4]{Buffer(0), Buffer(0), Buffer(0), Buffer(0)};
  Columns columns_ = Columns(0);
};

}  // namespace detail

/// @tparam T float or double
template <RealScalar T, class E>
class LocalAttention
{
  static_assert(Engine<E>);
  using In = MatrixView<const T>;
  using Out = MatrixView<T>;
  static constexpr bool batches = detail::MultipliesBatches<E, T>;

 public:
  /// Blocks on a device are larger, because launching a kernel takes as long as many products.
  static constexpr AttentionBlocks default_blocks{.queries = batches ? 256U : 64U, .keys = 512};

  /// Computes on `engine`, in blocks of queries and keys.
  explicit LocalAttention(const E& engine, const AttentionBlocks& blocks = default_blocks)
      : engine_{engine},
        blocks_{blocks}
  {
  }

  /// Computes O and L.
  /// @param l  one row with a number for each sequence, head and query, in an order that this class
  /// chooses
  void forward(const AttentionShape& s, const std::optional<AttentionDropout>& dropout, In q, In k,
               In v, Out o, Out l)
  {
    const Span span{engine_, {"attention", "forward"}};
    const AttentionRun run = whole(s);
    for_each_block(s, run, dropout, 1, [&](const Block& b) {
      const Out max = workspace_.row(0, b.size());
      const Out sum = workspace_.row(1, b.size());
      engine_.fill(max, -std::numeric_limits<T>::infinity());
      engine_.fill(sum, T{});
      add_keys(s, run, b, q, k, v, o, max, sum, true);
      scale_rows<true>(s, b, o, sum);
      engine_.map(l.block(0, b.first_row, {1, b.size()}), detail::LogSumExp<T>{}, In{max}, In{sum});
    });
  }

  /// Adds to O the part that a run of keys contributes. O is not divided by the sums of rows yet;
  /// `finish` does that after the last run. Chunks of queries and keys are equally long, and begin
  /// at multiples of their length.
  /// @param max, sum  the maximum and the sum of each row, in the order of L; before the first run,
  /// O and the sums are 0, and the maxima -infinity
  /// @pre each query sees the first key, unless `causal` hides the whole run
  void add_run(const AttentionShape& s, const AttentionRun& run,
               const std::optional<AttentionDropout>& dropout, In q, In k, In v, Out o, Out max,
               Out sum)
  {
    const Span span{engine_, {"attention", "forward of a run"}};
    for_each_block(s, run, dropout, 1, [&](const Block& b) {
      const Shape rows{1, b.size()};
      add_keys(s, run, b, q, k, v, o, max.block(0, b.first_row, rows),
               sum.block(0, b.first_row, rows), false);
    });
  }
  /// Multiplies each row of O by its factor. The factors are in the order of L.
  void scale(const AttentionShape& s, Out o, Out factors)
  {
    for_each_block(s, whole(s), {}, 0, [&](const Block& b) {
      scale_rows<false>(s, b, o, factors.block(0, b.first_row, {1, b.size()}));
    });
  }
  /// Completes O after the last run, and computes L, which may be `max`.
  void finish(const AttentionShape& s, Out o, Out max, Out sum, Out l)
  {
    for_each_block(s, whole(s), {}, 0, [&](const Block& b) {
      const Shape rows{1, b.size()};
      const Out sum_i = sum.block(0, b.first_row, rows);
      scale_rows<true>(s, b, o, sum_i);
      engine_.map(l.block(0, b.first_row, rows), detail::LogSumExp<T>{},
                  In{max.block(0, b.first_row, rows)}, In{sum_i});
    });
  }

  /// Computes dQ, dK and dV.
  /// @param run  a run of keys, whose parts are added to dQ, dK and dV; null for all keys
  /// @pre `forward` or `finish` computed O and L with the same shape and masks
  void backward(const AttentionShape& s, const std::optional<AttentionDropout>& dropout, In q, In k,
                In v, In o, In l, In d_o, Out dq, Out dk, Out dv, const AttentionRun* run = nullptr)
  {
    const Span span{engine_, {"attention", "backward"}};
    const bool adds = run != nullptr;
    const AttentionRun keys = adds ? *run : whole(s);
    for_each_block(s, keys, dropout, 2, [&](const Block& b) {
      const auto q_i = b.queries(s, s.q, q);
      const auto do_i = b.queries(s, s.o, d_o);
      const In l_i = l.block(0, b.first_row, {1, b.size()});
      const Out d_i = workspace_.row(0, b.size());
      fold_products(s, b, d_o, o, d_i);
      // The first block of queries reads all keys.
      const T before = b.is_first && !adds ? T{} : T{1};
      for (std::size_t key = 0; key < b.keys; key += blocks_.keys)
      {
        const std::size_t n = std::min(blocks_.keys, b.keys - key);
        const Out p = workspace_.scores(0, {b.size(), n});
        const Out slopes = workspace_.scores(1, {b.size(), n});
        Out kept = p;
        multiply_scores(s, b, q, k, key, p);
        engine_.map_rows(p, detail::ShiftedExp<T>{l_i.data()}, In{p});
        multiply(b, T{1}, do_i, transposed(b.keys_of(s, s.v, v, key, n)), T{}, b.scores(slopes));
        const detail::ScoreSlope<T> slope{d_i.data(), static_cast<T>(s.scale)};
        if (b.drop)
        {
          kept = workspace_.scores(2, {b.size(), n});
          engine_.map_rows(kept, keep(keys, b, key), columns(kept));
          engine_.map_rows(slopes, slope, In{p}, In{slopes}, In{kept});
          engine_.for_each(detail::MultiplyBy{}, kept, In{p});
        }
        else
          engine_.map_rows(slopes, slope, In{p}, In{slopes});
        multiply(b, T{1}, transposed(b.scores(In{kept})), do_i, before,
                 b.keys_of(s, s.v, dv, key, n));
        multiply(b, T{1}, b.scores(In{slopes}), b.keys_of(s, s.k, k, key, n),
                 key > 0 || adds ? T{1} : T{}, b.queries(s, s.q, dq));
        multiply(b, T{1}, transposed(b.scores(In{slopes})), q_i, before,
                 b.keys_of(s, s.k, dk, key, n));
      }
    });
  }

 private:
  using Block = detail::QueryBlock;

  /// Returns the run of all queries and keys.
  [[nodiscard]] static AttentionRun whole(const AttentionShape& s)
  {
    return {s.keys > s.queries ? s.keys - s.queries : 0, 0, s.keys};
  }

  /// Computes O = O exp(m_before - m) + P V for the block's queries and all its keys, and the
  /// maxima and sums of its rows.
  /// @param is_first  whether O has no value yet
  void add_keys(const AttentionShape& s, const AttentionRun& run, const Block& b, In q, In k, In v,
                Out o, Out max, Out sum, bool is_first)
  {
    const Out factor = workspace_.row(2, b.size());
    const Out of_block = workspace_.row(3, b.size());
    for (std::size_t key = 0; key < b.keys; key += blocks_.keys)
    {
      const std::size_t n = std::min(blocks_.keys, b.keys - key);
      const bool adds = key > 0 || !is_first;
      const Out scores = workspace_.scores(0, {b.size(), n});
      multiply_scores(s, b, q, k, key, scores);
      engine_.row_fold(column(of_block), -std::numeric_limits<T>::infinity(), detail::Larger{},
                       detail::Itself{}, In{scores});
      engine_.for_each(detail::RaiseMaximum<T>{}, max, factor, In{of_block});
      engine_.map_rows(scores, detail::ShiftedExp<T>{max.data()}, In{scores});
      engine_.row_fold(column(of_block), T{}, detail::Sum{}, detail::Itself{}, In{scores});
      engine_.for_each(detail::AddScaledSum<T>{}, sum, In{factor}, In{of_block});
      if (b.drop) engine_.map_rows(scores, keep(run, b, key), In{scores}, columns(scores));
      if (adds) scale_rows<false>(s, b, o, factor);
      multiply(b, T{1}, b.scores(In{scores}), b.keys_of(s, s.v, v, key, n), adds ? T{1} : T{},
               b.queries(s, s.o, o));
    }
  }

  /// Calls f(block) for all blocks of queries. For each query head, the last block, which reads all
  /// keys, comes first. Each caller's F has its own type, and its time depends only on the block's
  /// sizes.
  template <class F>
  void for_each_block(const AttentionShape& s, const AttentionRun& run,
                      const std::optional<AttentionDropout>& dropout, std::size_t matrices, F f)
  {
    if (s.queries == 0) return;
    const std::size_t kv_heads = s.heads / s.group;
    const std::size_t all = s.sequences * kv_heads;
    const std::size_t together = batches ? all : 1;
    const AttentionDropout* drop = dropout && dropout->probability > 0 ? &*dropout : nullptr;
    const std::size_t most = std::min(blocks_.queries, s.queries);
    workspace_.reserve(engine_, {together * most, std::min(blocks_.keys, s.keys)},
                       drop && matrices > 1 ? matrices + 1 : matrices);
    const std::size_t offset = s.causal ? run.first_query - run.first_key : 0;
    const std::size_t last = (s.queries - 1) / most * most;
    const RepeatedWork work{code_of<F>(),
                            {s.sequences, s.heads, s.group, s.queries, s.keys, s.head_size,
                             std::size_t{s.causal}, offset, std::size_t{drop != nullptr},
                             blocks_.queries, blocks_.keys}};
    detail::repeat(engine_, work, [&] {
      for (std::size_t unit = 0; unit < all; unit += together)
        for (std::size_t member = 0; member < s.group; ++member)
          for (std::size_t query = last + most; query > 0;)
          {
            query -= most;
            const std::size_t rows = std::min(most, s.queries - query);
            f(Block{{rows, unit, kv_heads, s.group, member, query},
                    together,
                    (unit * s.group + together * member) * s.queries + together * query,
                    s.causal ? std::min(query + rows + offset, s.keys) : s.keys,
                    offset,
                    member == 0 && query == last,
                    drop});
          }
    });
  }

  /// Computes scores = scale Q K^T, and sets those of keys after the query to -infinity.
  void multiply_scores(const AttentionShape& s, const Block& b, In q, In k, std::size_t key,
                       Out scores)
  {
    multiply(b, static_cast<T>(s.scale), b.queries(s, s.q, q),
             transposed(b.keys_of(s, s.k, k, key, scores.cols())), T{}, b.scores(scores));
    const std::size_t position = b.at.first_query + b.offset;
    if (!s.causal || key + scores.cols() <= position + 1) return;
    const std::size_t first = std::max(key, position + 1);
    const Out behind = scores.block(0, first - key, {b.size(), key + scores.cols() - first});
    engine_.map_rows(behind, detail::MaskKeys<T>{b.at, b.offset, first}, In{behind},
                     columns(behind));
  }

  /// Multiplies the block's rows of O by `factors`, or divides them by these.
  template <bool divides>
  void scale_rows(const AttentionShape& s, const Block& b, Out o, Out factors)
  {
    if constexpr (batches)
    {
      const Out rows{o.row(b.at.first_query), s.sequences, (b.at.rows - 1) * o.ld() + o.cols(),
                     s.query_stride() * o.ld()};
      engine_.map_indexed(
          rows, detail::ScaleHeads<T, divides>{factors.data(), b.at, s.o, s.head_size, o.ld()},
          In{rows});
    }
    else
    {
      const Out rows = b.queries(s, s.o, o)(0);
      engine_.map_rows(rows, detail::ScaleRow<T, divides>{factors.data()}, In{rows});
    }
  }

  /// Computes the row sums of A ∘ B for the block's rows.
  void fold_products(const AttentionShape& s, const Block& b, In a_all, In b_all, Out sums)
  {
    if constexpr (batches)
      engine_.row_fold(
          column(sums), T{}, detail::Sum{},
          detail::ProductsOfHeads<T>{a_all, b_all, b.at, s.o, s.head_size, s.query_stride()},
          In{a_all.data(), b.size(), s.head_size, 0});
    else
      engine_.row_fold(column(sums), T{}, detail::Sum{}, detail::Multiply{},
                       b.queries(s, s.o, a_all)(0), b.queries(s, s.o, b_all)(0));
  }

  /// Computes C = alpha A B + beta C for each unit.
  template <class A, class Bs, class C>
  void multiply(const Block& b, T alpha, A a, Bs bs, T beta, C c)
  {
    if constexpr (batches)
    {
      batch_.clear();
      for (std::size_t u = 0; u < b.units; ++u) batch_.add(a(u), bs(u), c(u));
      batch_.multiply(engine_, alpha, beta);
    }
    else
      cubist::multiply(engine_, alpha, Operand<const T>{a(0)}, Operand<const T>{bs(0)}, beta,
                       Operand<T>{c(0)});
  }

  /// Returns a function of u that returns the transpose of m(u).
  template <class M>
  [[nodiscard]] static auto transposed(M m)
  {
    return [m](std::size_t u) { return Operand<const T>{m(u)}.t(); };
  }

  [[nodiscard]] static detail::KeepKeys<T> keep(const AttentionRun& run, const Block& b,
                                                std::size_t key)
  {
    return {*b.drop,
            static_cast<T>(1 / (1 - b.drop->probability)),
            b.at,
            run.first_query,
            run.first_key + key,
            run.length};
  }
  [[nodiscard]] auto columns(Out m) const { return workspace_.columns(m); }
  [[nodiscard]] static Out column(Out row) { return {row.data(), row.cols(), 1, 1}; }

  E engine_;
  AttentionBlocks blocks_;
  detail::AttentionWorkspace<T, E> workspace_;
  detail::ProductBatch<T> batch_;
};

namespace detail
{

// Layers call LocalAttention through these functions. They are not inline, so that the compiled
// library can contain them. They have no constraints, so that it can name engines whose headers a
// program does not include.

template <RealScalar T, class E>
void attend(LocalAttention<T, E>& attention, const AttentionShape& s,
            const std::optional<AttentionDropout>& dropout, MatrixView<const T> q,
            MatrixView<const T> k, MatrixView<const T> v, MatrixView<T> o, MatrixView<T> l)
{
  attention.forward(s, dropout, q, k, v, o, l);
}
template <RealScalar T, class E>
void attend_run(LocalAttention<T, E>& attention, const AttentionShape& s, const AttentionRun& run,
                const std::optional<AttentionDropout>& dropout, MatrixView<const T> q,
                MatrixView<const T> k, MatrixView<const T> v, MatrixView<T> o, MatrixView<T> max,
                MatrixView<T> sum)
{
  attention.add_run(s, run, dropout, q, k, v, o, max, sum);
}
template <RealScalar T, class E>
void finish_runs(LocalAttention<T, E>& attention, const AttentionShape& s, MatrixView<T> o,
                 MatrixView<T> max, MatrixView<T> sum, MatrixView<T> l)
{
  attention.finish(s, o, max, sum, l);
}
/// @param run  a run of keys, whose parts are added to the gradients; null for all keys
template <RealScalar T, class E>
void attend_back(LocalAttention<T, E>& attention, const AttentionShape& s, const AttentionRun* run,
                 const std::optional<AttentionDropout>& dropout, MatrixView<const T> q,
                 MatrixView<const T> k, MatrixView<const T> v, MatrixView<const T> o,
                 MatrixView<const T> l, MatrixView<const T> d_o, MatrixView<T> dq, MatrixView<T> dk,
                 MatrixView<T> dv)
{
  attention.backward(s, dropout, q, k, v, o, l, d_o, dq, dk, dv, run);
}

}  // namespace detail

/// Lists the instances in the compiled library (cubist/core/instances.hpp).
#define CUBIST_ATTENTION_INSTANCES(prefix, B, T)                                                   \
  CUBIST_INSTANCE(prefix, detail::attend<T, detail::Named<B>::Engine>)                             \
  CUBIST_INSTANCE(prefix, detail::attend_run<T, detail::Named<B>::Engine>)                         \
  CUBIST_INSTANCE(prefix, detail::finish_runs<T, detail::Named<B>::Engine>)                        \
  CUBIST_INSTANCE(prefix, detail::attend_back<T, detail::Named<B>::Engine>)
CUBIST_FOR_BACKENDS(CUBIST_ATTENTION_INSTANCES)

}  // namespace cubist::CUBIST_ABI
