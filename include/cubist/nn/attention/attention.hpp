// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Multi-head attention, on any scheme: Y = softmax(scale Q K^T) V W_o + b_o, head by head and
// sequence by sequence, with Q, K, V = X W_q + b_q, ….
//
//   X, Y (M, d) S::Input    Q (M, H dh), K, V (M, G dh), O (M, H dh) S::Output
//
//   1. Q, K, V    one product of scheme S, which gathers X once (merged_linear.hpp)
//   2. norms      of each head of Q and of K, if the options ask for them (head_norm.hpp)
//   3. rotation   of Q and K by their positions, if a base is given (rotary.hpp)
//   4. O          each rank has whole sequences and whole heads, so nothing is sent
//                 (local_attention.hpp); where ranks share sequences, the keys and values go
//                 around in a ring (ring_attention.hpp)
//   5. Y          the product of scheme S::Next
//
// H query heads share G key-value heads: head h reads key-value head h / (H / G). Columns of Q are
// padded to whole groups of heads, and columns of K and V to whole heads, so that a rank has the
// key-value head of each of its query heads. Some ranks are idle in step 4 if S::Output cuts
// columns into more parts than there are key-value heads.
//
// In evaluation, keys and values may be kept (`use_cache`); X then contains only the new tokens.
// Ranks that share the sequences of a prompt also share its cache (shared_cache.hpp).
//
// Elements that one rank sends: what the two products, the ring, and the norms' gradients send.
// Source: Vaswani et al., "Attention Is All You Need", arXiv 1706.03762; Ainslie et al., "GQA",
// arXiv 2305.13245.

#include <array>
#include <cstddef>
#include <numeric>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "cubist/core/block.hpp"
#include "cubist/core/error.hpp"
#include "cubist/core/matrix_view.hpp"
#include "cubist/core/random_stream.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/engine/functions.hpp"
#include "cubist/gradients/parameter.hpp"
#include "cubist/nn/attention/attention_options.hpp"
#include "cubist/nn/attention/head_norm.hpp"
#include "cubist/nn/attention/key_value_cache.hpp"
#include "cubist/nn/attention/local_attention.hpp"
#include "cubist/nn/attention/ring_attention.hpp"
#include "cubist/nn/attention/rotary.hpp"
#include "cubist/nn/attention/shared_cache.hpp"
#include "cubist/nn/dense/linear.hpp"
#include "cubist/nn/dense/merged_linear.hpp"
#include "cubist/nn/layer.hpp"
#include "cubist/scheme/scheme.hpp"

namespace cubist::CUBIST_ABI
{

/// Multi-head attention with its linear layers. `forward` throws ShapeError if a sequence is
/// incomplete.
template <SchemeType S, class B, RealScalar T>
class Attention
{
  using A = Accumulator<T>;
  using Merged = MergedLinear<S, B, T>;
  using OutputLinear = Linear<typename S::Next, B, T>;
  using Engine = typename Merged::Mesh::Engine;
  using Buffer = typename Engine::template Buffer<A>;
  using Heads = typename Merged::Output;  // the type of O, and of Q, K and V together
  static_assert(std::is_same_v<typename OutputLinear::Output, typename Merged::Input>);

 public:
  using Value = T;
  using Mesh = typename Merged::Mesh;
  using Input = typename Merged::Input;
  using Output = Input;

  /// @param storage  how linear layers without gradients store their weights
  /// @throws ShapeError for heads that do not fit the width or one another, ArgumentError for
  /// options out of range
  Attention(const Mesh& mesh, std::size_t width, const AttentionOptions& options,
            const WeightStorage<S, B, T>& storage = {})
      : mesh_{mesh},
        options_{options.complete(width)},
        kv_quantum_{std::lcm(mesh.quantum(), options_.head_size * Merged::pieces(mesh))},
        merged_{mesh,
                width,
                {{"query", q_width(), q_quantum()},
                 {"key", kv_width(), kv_quantum_},
                 {"value", kv_width(), kv_quantum_}},
                options_.linear,
                storage},
        output_{mesh, q_width(), width, output_options(), storage.next()},
        attention_{mesh.engine()}
  {
    while (options_.head_norms && norms_.size() < 2)
      norms_.emplace_back(mesh, options_.head_size, options_.norm_epsilon,
                          options_.linear.gradients);
  }

  [[nodiscard]] const AttentionOptions& options() const { return options_; }

  /// What `forward` leaves for `backward`.
  struct Kept
  {
    typename Merged::Kept merged;
    typename OutputLinear::Kept output;
    std::array<typename HeadNorm<S, B, T>::Kept, 2> norms;  ///< for queries and for keys
    RotaryTable<T, Engine> rotary;
    std::optional<Heads> o;
    std::optional<Heads> d_o;
    std::optional<Output> y;
    std::optional<Input> dx;
    Buffer l = Buffer(0);         // L, a number for each query and head: see LocalAttention
    Buffer d = Buffer(0);         // workspace with one number for each query and head
    bool is_fused = false;        // whether forward computed O in one pass
    Buffer wide_qkv = Buffer(0);  // float copies of 16-bit matrices
    Buffer wide_dqkv = Buffer(0);
    Buffer wide_o = Buffer(0);
    Buffer wide_do = Buffer(0);
  };

  /// Returns Y, which is in `kept`. With a cache, the tokens begin at pass.position, and read the
  /// keys and values of all tokens before them.
  const Output& forward(const Input& x, const Pass& pass, Kept& kept)
  {
    require_sequences(x, pass);
    Heads& merged = merged_.forward(x, kept.merged, pass);
    require_tokens(merged, pass);
    for (std::size_t part = 0; part < norms_.size(); ++part)
      norms_[part].forward(merged.valid(), heads_of(part), head_count(part), kept.norms[part]);
    rotate<false>(merged, pass, kept);
    Heads& o = fit(kept.o, mesh_, {x.rows(), q_width()}, {x.quanta().rows, q_quantum()});
    attend(merged, pass, o, kept);
    output_.forward(o, fit_like(kept.y, x), kept.output, pass);
    return *kept.y;
  }

  /// Returns dX, which is in `kept`, or null if it is not wanted.
  /// @pre X and the pass are those of the `forward` that filled `kept`, without a cache
  const Input* backward(const Input& x, const Output& dy, const BackwardPass<T, Mesh>& pass,
                        Kept& kept, bool wants_dx)
  {
    Heads& o = *kept.o;
    output_.backward(o, dy, pass.gradients, kept.output, &fit_like(kept.d_o, o), pass);
    const Heads& d_o = *kept.d_o;
    const Heads& merged = *kept.merged.y;
    Heads& d_merged = merged_.output_gradient(kept.merged);
    const auto shape = shape_of(pass, o);
    const auto l = per_query(kept.l, shape);
    if (pass.cut.is_cut())
    {
      const auto dqkv = wide_like(d_merged, kept.wide_dqkv);
      ring(pass, shape, o)
          .backward(merged.valid(), widen(merged, kept.wide_qkv),
                    widen(std::as_const(o), kept.wide_o), MatrixView<const A>{l},
                    widen(d_o, kept.wide_do), dqkv);
      narrow(dqkv, d_merged);
    }
    else if (!kept.is_fused || !fuse_gradients(shape, kept, l, d_merged))
    {
      const auto qkv = widen(merged, kept.wide_qkv);
      // The numbers in L are in a different order if forward computed them in one pass.
      if (kept.is_fused)
        detail::attend<A>(attention_, shape, {}, qkv, qkv, qkv, wide_like(o, kept.wide_o), l);
      const auto dqkv = wide_like(d_merged, kept.wide_dqkv);
      detail::attend_back<A>(attention_, shape, nullptr, dropout(pass, o), qkv, qkv, qkv,
                             widen(std::as_const(o), kept.wide_o), MatrixView<const A>{l},
                             widen(d_o, kept.wide_do), dqkv, dqkv, dqkv);
      narrow(dqkv, d_merged);
    }
    rotate<true>(d_merged, pass, kept);
    for (std::size_t part = 0; part < norms_.size(); ++part)
      norms_[part].backward(d_merged.valid(), heads_of(part), head_count(part), pass,
                            kept.norms[part]);
    Input* const dx = wants_dx ? &fit_like(kept.dx, x) : nullptr;
    merged_.backward(x, pass.gradients, kept.merged, dx, pass);
    return dx;
  }

  /// Keeps, beginning with the next `forward`, the keys and values of up to `tokens` tokens of each
  /// sequence; 0 keeps none.
  void use_cache(std::size_t tokens)
  {
    cache_ = KeyValueCache<A, Engine>{tokens};
    shared_.end();
  }

  void append_parameters(Parameters<T, Mesh>& list, const std::string& prefix)
  {
    merged_.append_parameters(list, prefix);
    for (std::size_t part = 0; part < norms_.size(); ++part)
      norms_[part].append_parameters(list, prefix + (part == 0 ? "query_norm." : "key_norm."));
    output_.append_parameters(list, prefix + "output.");
  }

 private:
  [[nodiscard]] std::size_t group() const { return options_.heads / options_.key_value_heads; }
  [[nodiscard]] std::size_t q_width() const { return options_.heads * options_.head_size; }
  [[nodiscard]] std::size_t kv_width() const
  {
    return options_.key_value_heads * options_.head_size;
  }
  /// Pieces of Q have `group` times as many heads as pieces of K and V.
  [[nodiscard]] std::size_t q_quantum() const { return group() * kv_quantum_; }
  [[nodiscard]] LinearOptions output_options() const
  {
    auto o = options_.linear;
    o.index += 3;
    o.in_quantum = q_quantum();
    if (options_.output_weights) o.initial_weights = *options_.output_weights;
    if (options_.output_bias) o.bias = *options_.output_bias;
    return o;
  }

  [[nodiscard]] HeadColumns heads_of(std::size_t part) const
  {
    const auto c = merged_.columns(part);
    return {c.first, c.width, c.stride};
  }
  /// The number of this rank's heads in a part: 0 is Q, 1 is K, 2 is V.
  [[nodiscard]] std::size_t head_count(std::size_t part) const
  {
    return merged_.columns(part).valid / options_.head_size;
  }
  /// The sizes of attention on this rank. If ranks share sequences, `queries` counts only this
  /// rank's queries of each sequence.
  [[nodiscard]] AttentionShape shape_of(const Pass& pass, const Heads& o) const
  {
    const std::size_t tokens = pass.cut.is_cut() ? pass.cut.chunks * pass.cut.chunk : pass.sequence;
    return {.sequences = o.valid().rows() / tokens,
            .queries = tokens,
            .keys = tokens,
            .key_rows = tokens,
            .heads = o.valid().cols() / options_.head_size,
            .group = group(),
            .head_size = options_.head_size,
            .causal = options_.causal,
            .scale = options_.scale,
            .q = heads_of(0),
            .k = heads_of(1),
            .v = heads_of(2),
            .o = {}};
  }

  [[nodiscard]] std::optional<AttentionDropout> dropout(const Pass& pass, const Heads& o) const
  {
    if (!pass.training_step || options_.dropout == 0) return {};
    return AttentionDropout{
        stream(options_.linear.seed, Draw::attention, options_.linear.index, *pass.training_step),
        options_.dropout,
        pass.cut.is_cut() ? pass.cut.sequence(o.block().rows.offset)
                          : o.block().rows.offset / pass.sequence,
        o.block().cols.offset / options_.head_size, options_.heads};
  }

  void require_sequences(const Input& x, const Pass& pass) const
  {
    if (pass.cut.is_cut())
      require<ShapeError>(x.rows() == pass.cut.rows(), "got ", x.rows(), " rows for a cut of ",
                          pass.cut.rows(),
                          ", so rows and tokens do not correspond; give X the rows of the cut");
    else
      require<ShapeError>(pass.sequence > 0 && x.rows() % pass.sequence == 0, "got ", x.rows(),
                          " rows for sequences of ", pass.sequence,
                          " tokens, so a sequence is incomplete; give whole sequences");
  }
  /// @throws ShapeError unless this rank's rows are those of the cut, or whole sequences
  void require_tokens(const Heads& merged, const Pass& pass) const
  {
    const Block& block = merged.block();
    if (pass.cut.is_cut())
      require<ShapeError>(
          block.rows.valid == pass.cut.rows_of_part(), "got ", block.rows.valid,
          " rows on a rank for a cut of ", pass.cut.rows_of_part(),
          ", so a chunk would be on several ranks; pad rows to multiples of the mesh's quantum");
    else
      require<ShapeError>(block.rows.size % pass.sequence == 0, "got a matrix with ",
                          block.rows.size, " rows on a rank for sequences of ", pass.sequence,
                          " tokens, so attention would need tokens of other ranks; pad its rows "
                          "to multiples of the sequence times the mesh's quantum (Quanta)");
  }

  /// Computes O, and L in `kept`, in one pass if the engine can. Otherwise it computes them block
  /// by block, from the keys and values of this rank, of a ring, or of a cache.
  void attend(const Heads& merged, const Pass& pass, Heads& o, Kept& kept)
  {
    const auto shape = shape_of(pass, o);
    const auto l = per_query(kept.l, shape);
    const auto drop = dropout(pass, o);
    const bool caches = cache_.capacity() > 0;
    const bool in_ring = pass.cut.is_cut();
    if (!in_ring && pass.position == 0 && shared_.is_begun()) shared_.end();
    const bool in_one_pass = !in_ring && !shared_.is_begun() && !caches && !drop;
    kept.is_fused = in_one_pass && fuse(shape, merged, o, l);
    if (kept.is_fused) return;
    const std::size_t sequences = o.rows() / pass.sequence;
    const auto qkv = widen(merged, kept.wide_qkv);
    const auto out = wide_like(o, kept.wide_o);
    if (in_ring)
    {
      ring(pass, shape, o).forward(merged.valid(), qkv, out, l, per_query(kept.d, shape));
      if (caches) shared_.begin(mesh_, pass.cut, shape, cache_.capacity(), qkv);
    }
    else if (shared_.is_begun())
      shared_.attend(mesh_, shape, pass.position, sequences, merged.block().padded().rows, qkv,
                     attention_, out);
    else if (caches)
    {
      cache_.append(mesh_.engine(), shape, pass.position, sequences, qkv);
      detail::attend<A>(attention_, cache_.shape(shape, pass.position), {}, qkv, cache_.keys(),
                        cache_.values(), out, l);
    }
    else
      detail::attend<A>(attention_, shape, drop, qkv, qkv, qkv, out, l);
    narrow(out, o);
  }
  [[nodiscard]] auto ring(const Pass& pass, const AttentionShape& shape, const Heads& o)
  {
    return RingAttention<T, typename Heads::Layout, Mesh>{mesh_, pass.cut, shape, dropout(pass, o),
                                                          attention_};
  }

  /// Computes O and L in one pass, if the engine can for these sizes (engine/attention.hpp).
  /// @returns false, and computes nothing, if it cannot
  [[nodiscard]] bool fuse(const AttentionShape& shape, const Heads& merged, Heads& o,
                          MatrixView<A> l) const
  {
    if constexpr (detail::FusesAttention<Engine, T>)
    {
      const MatrixView<const T> qkv = merged.valid();
      return mesh_.engine().fused_attention(shape, qkv, qkv, qkv, o.valid(), l);
    }
    else
      return false;
  }
  /// Computes dQ, dK and dV in one pass each, if the engine can for these sizes.
  /// @pre `fuse` has computed O and L
  /// @returns false, and computes nothing, if it cannot
  [[nodiscard]] bool fuse_gradients(const AttentionShape& shape, Kept& kept, MatrixView<A> l,
                                    Heads& d_merged) const
  {
    if constexpr (detail::FusesAttention<Engine, T>)
    {
      const MatrixView<const T> qkv = std::as_const(*kept.merged.y).valid();
      const MatrixView<const T> o = std::as_const(*kept.o).valid();
      const MatrixView<const T> d_o = std::as_const(*kept.d_o).valid();
      const auto dqkv = d_merged.valid();
      const MatrixView<A> d{detail::enlarge(kept.d, l.size()), l.shape()};
      return mesh_.engine().fused_attention_gradients(shape, qkv, qkv, qkv, o, l, d_o, dqkv, dqkv,
                                                      dqkv, d);
    }
    else
      return false;
  }

  /// Rotates Q and K, or rotates their gradients back.
  template <bool back>
  void rotate(Heads& merged, const Pass& pass, Kept& kept) const
  {
    if (options_.rotary_base == 0) return;
    const auto& engine = mesh_.engine();
    kept.rotary.prepare(engine, merged.valid().rows(), pass.sequence, pass.position,
                        options_.head_size,
                        {options_.rotary_base, options_.rotary_size, options_.rotary_scaling},
                        pass.cut, merged.block().rows.offset);
    for (const std::size_t part : {std::size_t{0}, std::size_t{1}})
      kept.rotary.template rotate<back>(engine, merged.valid(), heads_of(part), head_count(part));
  }

  /// Returns a buffer as one row with a number for each query and head.
  static MatrixView<A> per_query(Buffer& buffer, const AttentionShape& shape)
  {
    const Shape numbers{1, shape.sequences * shape.heads * shape.queries};
    return {detail::enlarge(buffer, numbers.size()), numbers};
  }
  /// Returns m's valid part in the scalar that attention computes in: itself, or a copy in
  /// `buffer`.
  [[nodiscard]] MatrixView<const A> widen(const Heads& m, Buffer& buffer) const
  {
    if constexpr (std::is_same_v<T, A>)
      return m.valid();
    else
    {
      const MatrixView<A> wide{detail::enlarge(buffer, m.valid().size()), m.valid().shape()};
      mesh_.engine().map(wide, detail::Same{}, m.valid());
      return wide;
    }
  }
  /// Returns the memory where attention writes m's valid part; `narrow` then copies it to m.
  [[nodiscard]] MatrixView<A> wide_like(Heads& m, Buffer& buffer) const
  {
    if constexpr (std::is_same_v<T, A>)
      return m.valid();
    else
    {
      const MatrixView<A> wide{detail::enlarge(buffer, m.valid().size()), m.valid().shape()};
      mesh_.engine().fill(wide, A{});  // padding between heads stays 0
      return wide;
    }
  }
  void narrow(MatrixView<const A> wide, Heads& m) const
  {
    if constexpr (!std::is_same_v<T, A>) mesh_.engine().map(m.valid(), detail::Same{}, wide);
  }

  Mesh mesh_;
  AttentionOptions options_;
  std::size_t kv_quantum_;
  Merged merged_;
  std::vector<HeadNorm<S, B, T>> norms_;  // of queries and of keys, if the options ask for them
  OutputLinear output_;
  LocalAttention<A, Engine> attention_;
  KeyValueCache<A, Engine> cache_;
  SharedKeyValueCache<A, typename Heads::Layout, Mesh> shared_;
};

}  // namespace cubist::CUBIST_ABI
