// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Caches the keys and values of sequences that ranks share (matrix/sequence_cut.hpp), and computes
// attention from new tokens to them. Each of the c members that share a sequence keeps the tokens
// of its chunks of the prompt, and every c-th of the tokens after the prompt.
//
//   Q, K, V of n new tokens per sequence: B n rows, cut as rows of layout L    O (B n, H dh)
//   keys, values of this rank: (together capacity, G dh), `capacity` rows per sequence
//
//   1. the rows of Q, K and V go to all ranks along the axes that cut rows
//   2. for each new token, the member whose turn it is keeps K and V of its sequences; then each
//      member computes O_i, the maxima m_i and the sums l_i of its sequences' scores over the keys
//      that it holds
//   3. m = max m_i;  O = sum of exp(m_i - m) O_i;  l likewise;  O / l
//
// Elements that one rank sends for a token: what an all-gather of r (h + 2 G) dh elements, an
// all-reduce of B' h, and one of B' h (dh + 1) send. Here r is the number of rows in each of the p
// parts of rows, h the number of heads on a rank, and B' >= B counts the sequences that pad the
// last rank's share, too.
// Source, for merging the parts: Milakov, Gimelshein, "Online normalizer calculation for softmax",
// arXiv 1805.02867.

#include <cstddef>
#include <limits>
#include <span>

#include "cubist/comm/call.hpp"
#include "cubist/core/error.hpp"
#include "cubist/core/matrix_view.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/matrix/sequence_cut.hpp"
#include "cubist/nn/attention/key_value_cache.hpp"
#include "cubist/nn/attention/local_attention.hpp"
#include "cubist/nn/attention/ring_attention.hpp"

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
  /// Whether the cache contains the keys of a prompt.
  [[nodiscard]] bool is_begun() const { return cut_.is_cut(); }
  /// Empties the cache.
  void end() { *this = {}; }

  /// Keeps the keys and values of a prompt, with room for `tokens` tokens in each sequence.
  /// @param shape gives the columns of Q, K and V on this rank
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
    rows_.fit(cut.together * capacity_, shape);
    for (std::size_t b = 0; b < cut.together; ++b)
      for (std::size_t i = 0, at = 0; i < cut.chunks; ++i)
      {
        const std::size_t n = cut.keys(cut.chunk_number(member_, i));
        rows_.copy(mesh.engine(), shape, b * capacity_ + at, qkv, (b * cut.chunks + i) * cut.chunk,
                   n);
        at += n;
      }
  }

  /// Computes O for the next tokens of each sequence.
  /// @param sequences  B
  /// @param block_rows the number of rows in a rank's block of the B n rows, with padding
  /// @throws ArgumentError if the tokens are not the next ones, if they do not fit, or if the
  /// prompt had more or fewer sequences
  /// @pre the rows of qkv and of O are those of this rank's sequences
  void attend(const M& mesh, const AttentionShape& shape, std::size_t position,
              std::size_t sequences, std::size_t block_rows, In qkv, LocalAttention<A, E>& local,
              Out o)
  {
    const std::size_t tokens = shape.queries;
    require_next(tokens, position, sequences);
    length_ += tokens;
    const detail::RowNeighbours<L, M> neighbours{mesh};
    auto& ranks = neighbours.communicator();
    if (shape.heads == 0) return;  // none of these ranks has heads
    const E& engine = mesh.engine();
    const std::size_t group = neighbours.part() / cut_.parts;
    const std::size_t first = group * cut_.together;

    // 1. gather the rows of all ranks
    Matrix mine{mesh, {block_rows, qkv.cols()}};
    Matrix all{mesh, {cut_.groups * cut_.parts * block_rows, qkv.cols()}};
    engine.copy(qkv, mine.view().block(0, 0, qkv.shape()));
    ranks.all_gather(std::span<const A>{mine.view().elements()}, all.view().elements());
    const auto row_of = [&](std::size_t row) {
      const auto from = static_cast<std::size_t>(neighbours.rank(row / block_rows));
      return In{all.view()}.block(from * block_rows + row % block_rows, 0, {1, qkv.cols()});
    };

    // 2. compute the part of O that this rank's keys contribute
    AttentionShape s = shape_of_part(shape);
    Parts parts{mesh, s, tokens, cut_.groups};
    Matrix rows{mesh, {cut_.together, qkv.cols()}};
    engine.fill(rows.view(), A{});
    for (std::size_t t = 0; t < tokens; ++t)
    {
      for (std::size_t b = 0; b < cut_.together && first + b < sequences; ++b)
        engine.copy(row_of((first + b) * tokens + t), rows.view().block(b, 0, {1, qkv.cols()}));
      if ((position + t) % cut_.parts == member_) keep(engine, shape, rows.view());
      s.keys = kept_;
      const auto part = parts.at(t, group);
      if (kept_ > 0)
        local.add_run(s, {}, {}, rows.view(), rows_.keys(), rows_.values(), part.o, part.max,
                      part.sum);
    }

    // 3. sum the parts of all ranks
    parts.add_up(engine, ranks, local, s, group);
    parts.write(engine, local, s, neighbours.part() * block_rows / tokens, o);
  }

 private:
  using Matrix = detail::BorrowedMatrix<A, M>;

  /// The parts of O that the ranks compute, with a row for each token and group of ranks. A rank
  /// fills the rows of its group, and `add_up` fills the others.
  class Parts
  {
   public:
    /// O of one token and group, and the maxima and sums of its rows of scores.
    struct Part
    {
      Out o;
      Out max;  ///< the maximum of each row of scores
      Out sum;  ///< the sum of exp(score - maximum) of each row
    };

    Parts(const M& mesh, const AttentionShape& s, std::size_t tokens, std::size_t groups)
        : tokens_{tokens},
          groups_{groups},
          numbers_{1, s.sequences * s.heads},
          outputs_{s.sequences, s.heads * s.head_size},
          maxima_{mesh, {tokens * groups, numbers_.cols}},
          sums_{mesh, {tokens * groups, outputs_.size() + numbers_.cols}},
          own_{mesh, {tokens, numbers_.cols}},
          factors_{mesh, numbers_}
    {
      mesh.engine().fill(maxima_.view(), -std::numeric_limits<A>::infinity());
      mesh.engine().fill(sums_.view(), A{});
    }

    [[nodiscard]] Part at(std::size_t token, std::size_t group)
    {
      const std::size_t row = token * groups_ + group;
      return {{sums_.view().row(row), outputs_},
              maxima_.view().block(row, 0, numbers_),
              sums_.view().block(row, outputs_.size(), numbers_)};
    }
    /// Gives every rank the maxima and sums over all ranks, and the sum of O for these maxima.
    template <class C>
    void add_up(const E& engine, C& ranks, LocalAttention<A, E>& local, const AttentionShape& s,
                std::size_t group)
    {
      const auto own = [&](std::size_t t) { return own_.view().block(t, 0, numbers_); };
      for (std::size_t t = 0; t < tokens_; ++t) engine.copy(In{at(t, group).max}, own(t));
      ranks.all_reduce(maxima_.view().elements(), ReduceOp::max);
      for (std::size_t t = 0; t < tokens_; ++t)
      {
        const Part part = at(t, group);
        engine.for_each(detail::RaiseMaximum<A>{}, own(t), factors_.view(), In{part.max});
        local.scale(s, part.o, factors_.view());
        engine.for_each(detail::MultiplyBy{}, part.sum, In{factors_.view()});
      }
      ranks.all_reduce(sums_.view().elements());
    }

    /// Writes the rows of O, sequence by sequence, starting at sequence `first`.
    void write(const E& engine, LocalAttention<A, E>& local, const AttentionShape& s,
               std::size_t first, Out o)
    {
      const Shape row{1, outputs_.cols};
      for (std::size_t t = 0; t < tokens_; ++t)
      {
        std::size_t finished = groups_;  // the last group that was finished
        for (std::size_t r = 0; r < o.rows() / tokens_; ++r)
        {
          const std::size_t group = (first + r) / s.sequences;
          const Part part = at(t, group);
          if (group != finished) local.finish(s, part.o, part.max, part.sum, part.max);
          finished = group;
          engine.copy(In{part.o}.block((first + r) % s.sequences, 0, row),
                      o.block(r * tokens_ + t, 0, row));
        }
      }
    }

   private:
    std::size_t tokens_;
    std::size_t groups_;
    Shape numbers_;  // a number for each sequence and head
    Shape outputs_;
    Matrix maxima_;
    Matrix sums_;  // O, and the sums of rows
    Matrix own_;   // this rank's maxima
    Matrix factors_;
  };

  void require_next(std::size_t tokens, std::size_t position, std::size_t sequences) const
  {
    require<ArgumentError>(
        sequences == cut_.sequences && position == length_ && position + tokens <= tokens_, "got ",
        tokens, " tokens at position ", position, " of ", sequences,
        " sequences, but the cache that ranks share holds ", length_, " of ", tokens_,
        " tokens for ", cut_.sequences,
        " sequences, so they are not the next ones, or do not fit; give the tokens that follow to "
        "a cache that is large enough, or make a model with `.context_parallel = 1`");
  }

  /// Keeps the keys and values of one token of each sequence.
  void keep(const E& engine, const AttentionShape& shape, In rows)
  {
    for (std::size_t b = 0; b < cut_.together; ++b)
      rows_.copy(engine, shape, b * capacity_ + kept_, rows, b, 1);
    ++kept_;
  }

  /// The sizes of attention from one new token to this rank's keys.
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
  std::size_t tokens_ = 0;    // how many tokens of a sequence fit
  std::size_t length_ = 0;    // how many tokens of a sequence all members hold together
  std::size_t kept_ = 0;      // how many tokens of a sequence this rank keeps
  std::size_t capacity_ = 0;  // how many tokens of a sequence fit on this rank
  detail::KeyValueRows<A, E> rows_;
};

}  // namespace cubist::CUBIST_ABI
