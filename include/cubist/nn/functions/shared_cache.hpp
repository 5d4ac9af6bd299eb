// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The cache of keys and values of sequences that ranks share (dist/sequence_cut.hpp), and the
// attention of the tokens that follow to it. Each of the c members keeps the tokens of its chunks
// of the prompt, and every c-th of the tokens that follow.
//
//   Q, K, V of n new tokens a sequence: B n rows, cut as rows of layout L    O (B n, H dh)
//   keys, values of this rank: (together capacity, G dh), `capacity` rows a sequence
//
//   1. the rows of Q, K and V go to all ranks along the axes that cut rows
//   2. for each new token, the member whose turn it is keeps K and V of its sequences; then each
//      member computes O_i, the maxima m_i and the sums l_i of its sequences' scores over the keys
//      that it has
//   3. m = max m_i;  O = sum of exp(m_i - m) O_i;  l likewise;  O / l
//
// Words a token and a rank, for p parts of rows with r rows each, h heads of a rank, and B' >= B
// sequences with those that pad the last rank's share: those of an all-gather of r (h + 2 G) dh, of
// an all-reduce of B' h and of one of B' h (dh + 1).
// Source: the merge of parts: Milakov, Gimelshein, "Online normalizer calculation for softmax",
// arXiv 1805.02867.

#include <cstddef>
#include <limits>
#include <span>

#include "cubist/comm/call.hpp"
#include "cubist/core/error.hpp"
#include "cubist/core/matrix_view.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/dist/sequence_cut.hpp"
#include "cubist/engine/functions.hpp"
#include "cubist/nn/functions/attention.hpp"
#include "cubist/nn/functions/ring_attention.hpp"

namespace cubist::CUBIST_ABI
{

/// @tparam A the scalar of attention  @tparam L the layout of O
template <RealScalar A, class L, class M>
class SharedKeyValueCache
{
  using E = typename M::Engine;
  using In = MatrixView<const A>;
  using Out = MatrixView<A>;

 public:
  /// Whether the cache has the keys of a prompt.
  [[nodiscard]] bool is_begun() const { return cut_.is_cut(); }
  /// Empties the cache.
  void end() { *this = {}; }

  /// Keeps the keys and values of a prompt, with room for this many tokens in each sequence.
  /// @param shape  of the columns of Q, K and V on this rank
  void begin(const M& mesh, const SequenceCut& cut, const AttentionShape& shape, std::size_t tokens,
             In qkv)
  {
    cut_ = cut;
    length_ = cut.length;
    tokens_ = tokens;
    member_ = detail::RowNeighbours<L, M>{mesh}.part() % cut.parts;
    kept_ = 0;
    for (std::size_t i = 0; i < cut.chunks; ++i) kept_ += cut.keys(cut.chunk_number(member_, i));
    const std::size_t more = tokens > length_ ? tokens - length_ : 0;
    capacity_ = kept_ + ceil_div(more, cut.parts);
    all_ = {cut.together * capacity_, shape.heads / shape.group * shape.head_size};
    if (keys_.size() != all_.size())
    {
      keys_ = Buffer(all_.size());
      values_ = Buffer(all_.size());
    }
    for (std::size_t b = 0; b < cut.together; ++b)
      for (std::size_t i = 0, at = 0; i < cut.chunks; ++i)
      {
        const std::size_t n = cut.keys(cut.chunk_number(member_, i));
        keep(mesh.engine(), shape, b * capacity_ + at, qkv, (b * cut.chunks + i) * cut.chunk, n);
        at += n;
      }
  }

  /// O of the next tokens of each sequence.
  /// @param sequences  B
  /// @param block_rows  rows of a rank's block of the B n rows, with padding
  /// @throws ArgumentError for tokens that are not the next ones, for more than there is room for,
  /// and for other sequences than those of the prompt
  /// @pre the rows of qkv and of O are those of this rank's sequences
  void attend(const M& mesh, const AttentionShape& shape, std::size_t position,
              std::size_t sequences, std::size_t block_rows, In qkv, LocalAttention<A, E>& local,
              Out o)
  {
    const std::size_t tokens = shape.queries;
    require<ArgumentError>(
        sequences == cut_.sequences && position == length_ && position + tokens <= tokens_, "got ",
        tokens, " tokens at position ", position, " of ", sequences,
        " sequences for a cache that ranks share, which has ", length_, " of ", tokens_,
        " tokens of ", cut_.sequences,
        ", so they are not the next ones; give the tokens that follow, with a cache that is large "
        "enough, or make a model with `.context_parallel = 1`");
    length_ += tokens;
    const detail::RowNeighbours<L, M> neighbours{mesh};
    auto& ranks = neighbours.communicator();
    if (shape.heads == 0) return;  // none of these ranks has heads
    const E& engine = mesh.engine();
    const std::size_t group = neighbours.part() / cut_.parts;
    const std::size_t first = group * cut_.together;

    Matrix mine{mesh, {block_rows, qkv.cols()}};
    Matrix all{mesh, {cut_.groups * cut_.parts * block_rows, qkv.cols()}};
    engine.copy(qkv, mine.view().block(0, 0, qkv.shape()));
    ranks.all_gather(std::span<const A>{mine.view().elements()}, all.view().elements());
    Matrix rows{mesh, {cut_.together, qkv.cols()}};
    engine.fill(rows.view(), A{});

    AttentionShape s = shape_of_part(shape);
    const std::size_t numbers = cut_.together * s.heads;
    const Shape outputs{cut_.together, s.heads * s.head_size};
    // A row for each token and group; a rank fills the rows of its group, and the sums fill the
    // others.
    Matrix maxima{mesh, {tokens * cut_.groups, numbers}}, own{mesh, {tokens, numbers}};
    Matrix factors{mesh, {1, numbers}};
    Matrix sums{mesh, {tokens * cut_.groups, outputs.size() + numbers}};
    const auto max_of = [&](std::size_t row) { return maxima.view().block(row, 0, {1, numbers}); };
    const auto own_of = [&](std::size_t t) { return own.view().block(t, 0, {1, numbers}); };
    const auto o_of = [&](std::size_t row) { return Out{sums.view().row(row), outputs}; };
    const auto l_of = [&](std::size_t row) {
      return sums.view().block(row, outputs.size(), {1, numbers});
    };
    engine.fill(maxima.view(), -std::numeric_limits<A>::infinity());
    engine.fill(sums.view(), A{});
    for (std::size_t t = 0; t < tokens; ++t)
    {
      for (std::size_t b = 0; b < cut_.together && first + b < sequences; ++b)
      {
        const std::size_t row = (first + b) * tokens + t;
        const auto from = static_cast<std::size_t>(neighbours.rank(row / block_rows));
        engine.copy(In{all.view()}.block(from * block_rows + row % block_rows, 0, {1, qkv.cols()}),
                    rows.view().block(b, 0, {1, qkv.cols()}));
      }
      if ((position + t) % cut_.parts == member_)
      {
        for (std::size_t b = 0; b < cut_.together; ++b)
          keep(engine, shape, b * capacity_ + kept_, rows.view(), b, 1);
        ++kept_;
      }
      s.keys = kept_;
      const std::size_t row = t * cut_.groups + group;
      if (kept_ > 0)
        local.add_run(s, {}, {}, rows.view(), {keys_.data(), all_}, {values_.data(), all_},
                      o_of(row), max_of(row), l_of(row));
      engine.copy(In{max_of(row)}, own_of(t));
    }
    ranks.all_reduce(maxima.view().elements(), ReduceOp::max);
    for (std::size_t t = 0; t < tokens; ++t)
    {
      const std::size_t row = t * cut_.groups + group;
      engine.for_each(detail::RaiseMaximum<A>{}, own_of(t), factors.view(), In{max_of(row)});
      local.scale(s, o_of(row), factors.view());
      engine.for_each(detail::MultiplyBy{}, l_of(row), In{factors.view()});
    }
    ranks.all_reduce(sums.view().elements());

    const std::size_t first_here = neighbours.part() * block_rows / tokens;
    for (std::size_t t = 0; t < tokens; ++t)
    {
      std::size_t finished = cut_.groups;  // the last group
      for (std::size_t r = 0; r < o.rows() / tokens; ++r)
      {
        const std::size_t b = first_here + r, g = b / cut_.together;
        const std::size_t row = t * cut_.groups + g;
        if (g != finished) local.finish(s, o_of(row), max_of(row), l_of(row), max_of(row));
        finished = g;
        engine.copy(In{o_of(row)}.block(b % cut_.together, 0, {1, outputs.cols}),
                    o.block(r * tokens + t, 0, {1, outputs.cols}));
      }
    }
  }

 private:
  using Buffer = typename E::template Buffer<A>;
  using Matrix = detail::BorrowedMatrix<A, M>;

  /// Copies the keys and values of n rows of qkv, from `row` on.
  void keep(const E& engine, const AttentionShape& s, std::size_t to, In qkv, std::size_t row,
            std::size_t n)
  {
    if (n == 0) return;
    const Shape head{n, s.head_size};
    const auto copy = [&](const HeadColumns& columns, Buffer& cached) {
      for (std::size_t h = 0; h < s.heads / s.group; ++h)
        engine.copy(qkv.block(row, columns(h, s.head_size), head),
                    Out{cached.data(), all_}.block(to, h * s.head_size, head));
    };
    copy(s.k, keys_);
    copy(s.v, values_);
  }

  /// The sizes of attention of a new token to the keys of this rank.
  [[nodiscard]] AttentionShape shape_of_part(AttentionShape s) const
  {
    s.sequences = cut_.together;
    s.queries = 1;
    s.key_rows = capacity_;
    s.causal = false;
    s.k = s.v = {};
    return s;
  }

  SequenceCut cut_;
  std::size_t member_ = 0;
  std::size_t tokens_ = 0;    // tokens of a sequence that fit
  std::size_t length_ = 0;    // tokens of a sequence that all members have together
  std::size_t kept_ = 0;      // tokens of a sequence that this rank keeps
  std::size_t capacity_ = 0;  // tokens of a sequence that fit on this rank
  Shape all_;
  Buffer keys_ = Buffer(0);
  Buffer values_ = Buffer(0);
};

}  // namespace cubist::CUBIST_ABI
