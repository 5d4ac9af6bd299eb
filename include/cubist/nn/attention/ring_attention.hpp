// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Attention for ranks that share sequences (matrix/sequence_cut.hpp). The keys and values of the c
// ranks that share a sequence, its members, go around in a ring.
//
//   Q, K, V: rows of this rank's chunks, in MergedLinear's output    O (m, H dh) Heads
//   a message: K, then V, (m, g dh) each, m being the rows of a rank, and g the heads of a round
//
// Heads do not depend on one another, so the G key-value heads of a rank go around in rounds of g
// heads. g is the smallest number that makes messages long (ring_heads in matrix/sequence_cut.hpp).
//
//   forward    in step t = 0, …, c - 1, member i has K and V of member i - t. While it adds their
//              part to O, it sends them to member i + 1, and receives the next ones.
//   backward   K and V go around in the same way. In step t > 0, member i adds its part of dK and
//              dV to the sum that comes from member i - 1, and sends the sum on to member i + 1.
//              After step c - 1, each sum arrives at the member that its keys belong to.
//
// The maxima and sums of the rows of scores are kept from step to step, so O is computed with the
// softmax over all keys (local_attention.hpp). If all keys of a chunk are hidden from a chunk of
// queries, no product is computed for this pair.
//
// Elements that one rank sends: forward (c-1) 2 m G dh, backward (c-1) 4 m G dh (ring_words in
// matrix/sequence_cut.hpp).
// Memory: 4 m g dh in forward, 10 m g dh in backward, which all layers of a mesh share.
// Source: Liu et al., "Ring Attention with Blockwise Transformers", arXiv 2310.01889.
#include <array>
#include <cstddef>
#include <limits>
#include <numeric>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "cubist/core/matrix_view.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/engine/functions.hpp"
#include "cubist/engine/span.hpp"
#include "cubist/matrix/layout.hpp"
#include "cubist/matrix/sequence_cut.hpp"
#include "cubist/mesh/mesh.hpp"
#include "cubist/nn/attention/local_attention.hpp"

namespace cubist::CUBIST_ABI
{

namespace detail
{

/// Tells which block of rows of a matrix of layout `L` this rank holds, and which rank of the
/// communicator along the axes that cut rows holds another block.
template <class L, class M>
struct RowNeighbours
{
  const M& mesh;

  /// The number of this rank's block.
  [[nodiscard]] std::size_t part() const
  {
    return [&]<class... R>(Rows<R...>) {
      return cut<typename M::Axes, R...>(mesh.extents(), mesh.coordinates()).index;
    }(typename L::RowAxes{});
  }
  [[nodiscard]] auto& communicator() const { return along_axes(mesh, typename L::RowAxes{}); }
  /// The rank in `communicator()` that holds block number `part`.
  [[nodiscard]] int rank(std::size_t part) const
  {
    return [&]<class... R>(Rows<R...>) {
      using A = typename M::Axes;
      constexpr std::size_t n = sizeof...(R);
      const std::array<std::size_t, n> axes{A::template index<R>()...};
      std::array<bool, A::count> cuts{};
      auto at = mesh.coordinates();
      for (std::size_t i = n; i-- > 0;)  // the last axis is the innermost
      {
        const auto extent = static_cast<std::size_t>(mesh.extents()[axes[i]]);
        at[axes[i]] = static_cast<int>(part % extent);
        part /= extent;
        cuts[axes[i]] = true;
      }
      int rank = 0;  // counts in the order of the mesh
      for (std::size_t i = 0; i < A::count; ++i)
        if (cuts[i]) rank = rank * mesh.extents()[i] + at[i];
      return rank;
    }(typename L::RowAxes{});
  }
};

}  // namespace detail

/// Computes attention of this rank's queries to the keys of all ranks that share its sequences.
/// @tparam T the scalar of Q, K and V  @tparam L the layout of O
template <RealScalar T, class L, class M>
class RingAttention
{
  using A = Accumulator<T>;
  using E = typename M::Engine;
  using In = MatrixView<const A>;
  using Out = MatrixView<A>;

 public:
  /// @param local  computes the parts that need no messages
  RingAttention(const M& mesh, const SequenceCut& cut, const AttentionShape& shape,
                const std::optional<AttentionDropout>& dropout, LocalAttention<A, E>& local)
      : mesh_{mesh},
        neighbours_{mesh},
        cut_{cut},
        whole_{shape},
        dropout_{dropout},
        local_{local},
        part_{neighbours_.part()},
        member_{part_ % cut.parts},
        together_{heads_together()},
        message_{2 * cut.rows_of_part(), together_ * shape.head_size}
  {
    // Ranks without heads send nothing, but take part when the communicator is made.
    static_cast<void>(neighbours_.communicator());
  }

  /// Computes O and L.
  /// @param qkv, wide  Q, K and V in the scalar of messages, and in that of sums
  /// @param l, sums  one number for each query and head
  void forward(MatrixView<const T> qkv, In wide, Out o, Out l, Out sums)
  {
    if (whole_.heads == 0) return;
    const E& engine = mesh_.engine();
    engine.fill(o, A{});
    engine.fill(l, -std::numeric_limits<A>::infinity());
    engine.fill(sums, A{});
    const Span span{engine, {"RingAttention", "forward"}};
    for_each_round([&] { forward_of_round(qkv, wide, o, l, sums); });
  }

  /// Computes dQ, dK and dV in the columns of `shape`, and sets the other columns to 0.
  /// @pre `forward` computed O and L
  void backward(MatrixView<const T> qkv, In wide, In o, In l, In d_o, Out dqkv)
  {
    mesh_.engine().fill(dqkv, A{});
    if (whole_.heads == 0) return;
    const Span span{mesh_.engine(), {"RingAttention", "backward"}};
    for_each_round([&] { backward_of_round(qkv, wide, o, l, d_o, dqkv); });
  }

 private:
  template <class V>
  using Matrix = detail::BorrowedMatrix<V, M>;
  using Request = decltype(std::declval<typename M::Communicator&>().async_barrier());

  void forward_of_round(MatrixView<const T> qkv, In wide, Out o, Out l, Out sums)
  {
    const E& engine = mesh_.engine();
    Keys keys{*this, qkv};
    for (std::size_t t = 0; t < cut_.parts; ++t)
    {
      const Span span{engine, {"keys of member", owner_of_keys(t)}};
      if (t + 1 < cut_.parts) keys.pass_on(*this);
      if (t == 0)
        add_keys(t, wide, wide, wide, o, l, sums);
      else
      {
        const In k = keys.wide(engine);
        add_keys(t, wide, keys_of(k), values_of(k), o, l, sums);
      }
      wait();
      keys.take_next();
    }
    const Span span{engine, {"sums of rows"}};
    for (std::size_t i = 0; i < cut_.chunks; ++i)
    {
      const Out l_i = numbers_of(l, i);
      detail::finish_runs<A>(local_, shape(0, cut_.chunk), rows_of(o, i), l_i, numbers_of(sums, i),
                             l_i);
    }
  }

  void backward_of_round(MatrixView<const T> qkv, In wide, In o, In l, In d_o, Out dqkv)
  {
    const E& engine = mesh_.engine();
    Keys keys{*this, qkv};
    Matrix<A> odd{mesh_, message_}, even{mesh_, message_}, received{mesh_, message_};
    for (std::size_t t = 0; t < cut_.parts; ++t)
    {
      const Span span{engine, {"keys of member", owner_of_keys(t)}};
      if (t > 1) receive(received.view());
      if (t + 1 < cut_.parts) keys.pass_on(*this);
      const Out sums = t % 2 == 0 ? even.view() : odd.view();
      if (t == 0)  // this rank's own part is already where it belongs
        add_gradients(t, wide, wide, wide, o, l, d_o, dqkv, dqkv, dqkv);
      else
      {
        engine.fill(sums, A{});
        const In k = keys.wide(engine);
        add_gradients(t, wide, keys_of(k), values_of(k), o, l, d_o, dqkv, keys_of(sums),
                      values_of(sums));
      }
      wait();
      if (t > 1) engine.for_each(detail::Add{}, sums, In{received.view()});
      if (t > 0) send(In{sums});
      keys.take_next();
    }
    receive(received.view());
    wait();
    const auto add = [&](Out from, const HeadColumns& to) {
      for_each_head([&](std::size_t h, Shape head) {
        engine.for_each(detail::Add{}, dqkv.block(0, to(h, head.cols), head),
                        In{from.block(0, h * head.cols, head)});
      });
    };
    add(keys_of(received.view()), round_.k);
    add(values_of(received.view()), round_.v);
  }

  /// The keys and values that this rank reads, and the memory for the next ones.
  class Keys
  {
   public:
    Keys(const RingAttention& ring, MatrixView<const T> qkv)
        : mine_{ring.mesh_, ring.message_},
          next_{ring.mesh_, ring.message_}
    {
      if constexpr (!std::is_same_v<T, A>) wide_.emplace(ring.mesh_, ring.message_);
      const auto copy = [&](const HeadColumns& from, MatrixView<T> to) {
        ring.for_each_head([&](std::size_t h, Shape head) {
          ring.mesh_.engine().copy(qkv.block(0, from(h, head.cols), head),
                                   to.block(0, h * head.cols, head));
        });
      };
      copy(ring.round_.k, ring.keys_of(mine_.view()));
      copy(ring.round_.v, ring.values_of(mine_.view()));
    }
    /// Starts to send the keys and values to the next member, and to receive the next ones.
    void pass_on(RingAttention& ring)
    {
      ring.receive(next_.view());
      ring.send(MatrixView<const T>{mine_.view()});
    }
    void take_next() { swap(mine_, next_); }
    /// Returns the keys and values in the scalar of sums.
    [[nodiscard]] In wide(const E& engine)
    {
      if constexpr (std::is_same_v<T, A>)
        return mine_.view();
      else
      {
        engine.map(wide_->view(), detail::Same{}, MatrixView<const T>{mine_.view()});
        return wide_->view();
      }
    }

   private:
    Matrix<T> mine_;
    Matrix<T> next_;
    std::optional<Matrix<A>> wide_ = {};
  };

  /// Adds to O the part that the keys of step t contribute.
  void add_keys(std::size_t t, In q, In k, In v, Out o, Out l, Out sums)
  {
    for_each_run(t, [&](std::size_t i, std::size_t j, const AttentionShape& s,
                        const AttentionRun& run) {
      detail::attend_run<A>(local_, s, run, dropout_of_round_, rows_of(q, i), rows_of(k, j),
                            rows_of(v, j), rows_of(o, i), numbers_of(l, i), numbers_of(sums, i));
    });
  }
  /// Adds to the gradients the part that the keys of step t contribute.
  void add_gradients(std::size_t t, In q, In k, In v, In o, In l, In d_o, Out dq, Out dk, Out dv)
  {
    for_each_run(
        t, [&](std::size_t i, std::size_t j, const AttentionShape& s, const AttentionRun& run) {
          detail::attend_back<A>(local_, s, &run, dropout_of_round_, rows_of(q, i), rows_of(k, j),
                                 rows_of(v, j), rows_of(o, i), numbers_of(l, i), rows_of(d_o, i),
                                 rows_of(dq, i), rows_of(dk, j), rows_of(dv, j));
        });
  }

  /// The member whose keys this rank has in step t.
  [[nodiscard]] std::size_t owner_of_keys(std::size_t t) const
  {
    return (member_ + cut_.parts - t) % cut_.parts;
  }

  /// Calls f(i, j, shape, run) for each chunk i of this rank's queries, and each chunk j of the
  /// keys of step t that it sees.
  template <class F>
  void for_each_run(std::size_t t, F f) const
  {
    const std::size_t owner = owner_of_keys(t);
    for (std::size_t i = 0; i < cut_.chunks; ++i)
      for (std::size_t j = 0; j < cut_.chunks; ++j)
      {
        const std::size_t query = cut_.chunk_number(member_, i);
        const std::size_t key = cut_.chunk_number(owner, j);
        const std::size_t keys = cut_.keys(key);
        if (keys == 0 || (round_.causal && key > query)) continue;
        f(i, j, shape(t, keys), AttentionRun{query * cut_.chunk, key * cut_.chunk, cut_.length});
      }
  }
  /// The sizes of attention from one chunk of queries to `keys` keys of a chunk in step t.
  [[nodiscard]] AttentionShape shape(std::size_t t, std::size_t keys) const
  {
    AttentionShape s = round_;
    s.sequences = cut_.together;
    s.queries = cut_.chunk;
    s.keys = keys;
    s.query_rows = s.key_rows = cut_.chunks * cut_.chunk;
    if (t > 0) s.k = s.v = {};  // heads are side by side in a message
    return s;
  }

  /// The rows of `m`, starting at the first row of chunk i.
  template <class V>
  [[nodiscard]] MatrixView<V> rows_of(MatrixView<V> m, std::size_t i) const
  {
    return m.block(i * cut_.chunk, 0, {m.rows() - i * cut_.chunk, m.cols()});
  }
  template <class V>
  [[nodiscard]] MatrixView<V> keys_of(MatrixView<V> message) const
  {
    return message.block(0, 0, {cut_.rows_of_part(), message.cols()});
  }
  template <class V>
  [[nodiscard]] MatrixView<V> values_of(MatrixView<V> message) const
  {
    return message.block(cut_.rows_of_part(), 0, {cut_.rows_of_part(), message.cols()});
  }
  /// The part of `all` that belongs to the queries of chunk i and the heads of the round.
  template <class V>
  [[nodiscard]] MatrixView<V> numbers_of(MatrixView<V> all, std::size_t i) const
  {
    const std::size_t n = cut_.together * round_.heads * cut_.chunk;
    return all.block(0, (round_number_ * cut_.chunks + i) * n, {1, n});
  }

  /// The number of key-value heads in a round: all of them, or some that are in one piece of
  /// columns.
  [[nodiscard]] std::size_t heads_together() const
  {
    const std::size_t heads = whole_.heads / whole_.group;
    const std::size_t in_piece = whole_.k.width == 0 ? heads : whole_.k.width / whole_.head_size;
    const std::size_t most = std::gcd(heads, in_piece);
    const std::size_t together = ring_heads(cut_, most, whole_.head_size);
    return together < most ? together : heads;
  }
  /// The columns of `heads` heads that are in one piece, starting at head `first`.
  [[nodiscard]] HeadColumns columns_of(const HeadColumns& all, std::size_t first,
                                       std::size_t heads) const
  {
    return {all(first, whole_.head_size), heads * whole_.head_size,
            std::numeric_limits<std::size_t>::max()};
  }
  template <class F>
  void for_each_round(F f)
  {
    const std::size_t heads = together_ * whole_.group;
    for (round_number_ = 0; round_number_ * heads < whole_.heads; ++round_number_)
    {
      round_ = whole_;
      dropout_of_round_ = dropout_;
      if (heads < whole_.heads)
      {
        const std::size_t first = round_number_ * heads;
        round_.heads = heads;
        round_.q = columns_of(whole_.q, first, heads);
        round_.o = columns_of(whole_.o, first, heads);
        round_.k = columns_of(whole_.k, round_number_ * together_, together_);
        round_.v = columns_of(whole_.v, round_number_ * together_, together_);
        if (dropout_of_round_) dropout_of_round_->first_head += first;
      }
      f();
    }
  }

  /// Calls f(h, shape) for each key-value head h of the round, with the shape of a head.
  template <class F>
  void for_each_head(F f) const
  {
    for (std::size_t h = 0; h < together_; ++h) f(h, Shape{cut_.rows_of_part(), whole_.head_size});
  }

  [[nodiscard]] int rank_of_member(std::size_t member) const
  {
    return neighbours_.rank(part_ - member_ + member % cut_.parts);
  }
  template <class V>
  void receive(MatrixView<V> message)
  {
    requests_.push_back(neighbours_.communicator().async_receive(
        message.elements(), rank_of_member(member_ + cut_.parts - 1)));
  }
  template <class V>
  void send(MatrixView<const V> message)
  {
    requests_.push_back(
        neighbours_.communicator().async_send(message.elements(), rank_of_member(member_ + 1)));
  }
  void wait()
  {
    for (auto& request : requests_) request.wait();
    requests_.clear();
  }

  const M& mesh_;
  detail::RowNeighbours<L, M> neighbours_;
  SequenceCut cut_;
  AttentionShape whole_;  // the sizes of all rows and heads of this rank
  std::optional<AttentionDropout> dropout_;
  LocalAttention<A, E>& local_;
  std::size_t part_;
  std::size_t member_;
  std::size_t together_;  // the number of key-value heads in a round
  Shape message_;
  std::size_t round_number_ = 0;
  AttentionShape round_ = {};  // the sizes for the heads of a round
  std::optional<AttentionDropout> dropout_of_round_ = {};
  std::vector<Request> requests_;
};

}  // namespace cubist::CUBIST_ABI
