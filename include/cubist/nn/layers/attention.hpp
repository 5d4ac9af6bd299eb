// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Multi-head attention, on any scheme: Y = softmax(scale Q K^T) V W_o + b_o, head by head and
// sequence by sequence, with Q, K, V = X W_q + b_q, ….
//
//   X, Y (M, d) S::Input    Q (M, H dh), K, V (M, G dh), O (M, H dh) S::Output
//
//   1. Q, K, V    one product of scheme S, which gathers X once (merged_linear.hpp)
//   2. rotation   of Q and K by their positions, if a base is given (kernels/rotary.hpp)
//   3. O          whole sequences and whole heads are on a rank, so nothing is sent
//                 (kernels/attention.hpp)
//   4. Y          the product of scheme S::Next
//
// H query heads share G key-value heads: head h reads key-value head h / (H / G). Columns of Q are
// padded to whole groups of heads and those of K and V to whole heads, so that a rank has the
// key-value head of each of its query heads. Ranks are idle in step 3 where the parts of
// S::Output's columns are more than the key-value heads.
//
// In evaluation keys and values may be kept (`use_cache`): X then has the tokens that follow.
//
// Words: those of the two products.
// Source: Vaswani et al., "Attention Is All You Need", arXiv 1706.03762; Ainslie et al., "GQA",
// arXiv 2305.13245.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "cubist/core/error.hpp"
#include "cubist/core/matrix_view.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/engine/functions.hpp"
#include "cubist/nn/kernels/attention.hpp"
#include "cubist/nn/kernels/rotary.hpp"
#include "cubist/nn/layer.hpp"
#include "cubist/nn/layers/attention_options.hpp"
#include "cubist/nn/layers/key_value_cache.hpp"
#include "cubist/nn/layers/merged_linear.hpp"
#include "cubist/nn/linear.hpp"
#include "cubist/nn/parameter.hpp"
#include "cubist/nn/random.hpp"
#include "cubist/scheme/scheme.hpp"

namespace cubist::CUBIST_ABI
{

/// @throws from `forward`: ShapeError for rows that are no whole sequences
template <SchemeType S, class B, RealScalar T>
class Attention
{
  using A = Accumulator<T>;
  using Merged = MergedLinear<S, B, T>;
  using OutputLinear = Linear<typename S::Next, B, T>;
  using Engine = typename Merged::Mesh::Engine;
  using Buffer = typename Engine::template Buffer<A>;
  using Heads = typename Merged::Output;  // O, and like Q, K and V
  static_assert(std::is_same_v<typename OutputLinear::Output, typename Merged::Input>);

 public:
  using Value = T;
  using Mesh = typename Merged::Mesh;
  using Input = typename Merged::Input;
  using Output = Input;

  /// @throws ShapeError for heads that do not fit the width or one another, ArgumentError for
  /// options out of range
  Attention(const Mesh& mesh, std::size_t width, const AttentionOptions& options)
      : mesh_{mesh}, options_{options.complete(width)},
        kv_quantum_{std::lcm(mesh.quantum(), options_.head_size * Merged::pieces(mesh))},
        merged_{mesh,
                width,
                {{"query", q_width(), q_quantum()},
                 {"key", kv_width(), kv_quantum_},
                 {"value", kv_width(), kv_quantum_}},
                options_.linear},
        output_{mesh, q_width(), width, output_options()}, attention_{mesh.engine()}
  {
  }

  [[nodiscard]] const AttentionOptions& options() const { return options_; }

  /// Y, which the layer owns, and overwrites in the next `forward`. With a cache, the tokens are at
  /// pass.position and after, and read the keys and values of all before them.
  const Output& forward(const Input& x, const Pass& pass)
  {
    require<ShapeError>(pass.sequence > 0 && x.rows() % pass.sequence == 0, "got ", x.rows(),
                        " rows for sequences of ", pass.sequence,
                        " tokens, which they do not make; give whole sequences");
    merged_.forward(x);
    Heads& merged = merged_.output();
    require<ShapeError>(merged.block().rows.size % pass.sequence == 0, "got a matrix with ",
                        merged.block().rows.size, " rows on a rank for sequences of ",
                        pass.sequence,
                        " tokens, so that attention would need tokens of other ranks; pad its rows "
                        "to multiples of the sequence times the mesh's quantum (Quanta)");
    rotate<false>(merged, pass);
    Heads& o = detail::fit(o_, mesh_, {x.rows(), q_width()}, {x.quanta().rows, q_quantum()});
    const auto shape = shape_of(pass);
    const Shape per_query{1, shape.sequences * shape.heads * shape.queries};
    const MatrixView<A> l{enlarge(l_, per_query.size()), per_query};
    is_fused_ = cache_.capacity() == 0 && !dropout(pass) && fuse(shape, merged, o, l);
    if (!is_fused_)
    {
      const auto qkv = widen(std::as_const(merged), wide_qkv_);
      const auto out = wide_like(o, wide_o_);
      if (cache_.capacity() == 0)
        attention_.forward(shape, dropout(pass), qkv, qkv, qkv, out, l);
      else
      {
        cache_.append(mesh_.engine(), shape, pass.position, qkv);
        attention_.forward(cache_.shape(shape, pass.position), {}, qkv, cache_.keys(),
                           cache_.values(), out, l);
      }
      narrow(out, o);
    }
    output_.forward(o, detail::fit_like(y_, x));
    return *y_;
  }

  /// @pre X and the pass are those of the last `forward`, which had no cache
  const Input* backward(const Input& x, const Output& dy, const Pass& pass, bool wants_dx)
  {
    const Heads& o = *o_;
    output_.start_backward(o, dy, detail::fit_like(do_, o));
    Heads& d_merged = merged_.output_gradient();
    const auto shape = shape_of(pass);
    const Shape per_query{1, shape.sequences * shape.heads * shape.queries};
    const MatrixView<A> l{l_.data(), per_query};
    if (!is_fused_ || !fuse_gradients(shape, o, l, d_merged))
    {
      const auto qkv = widen(std::as_const(merged_.output()), wide_qkv_);
      // L of a forward in one pass has another order.
      if (is_fused_) attention_.forward(shape, {}, qkv, qkv, qkv, wide_like(*o_, wide_o_), l);
      const auto dqkv = wide_like(d_merged, wide_dqkv_);
      attention_.backward(shape, dropout(pass), qkv, qkv, qkv, widen(o, wide_o_),
                          MatrixView<const A>{l}, widen(std::as_const(*do_), wide_do_), dqkv, dqkv,
                          dqkv);
      narrow(dqkv, d_merged);
    }
    rotate<true>(d_merged, pass);
    Input* const dx = wants_dx ? &detail::fit_like(dx_, x) : nullptr;
    merged_.backward(x, dx);
    return dx;
  }
  void finish_backward()
  {
    output_.finish_backward();
    merged_.finish_backward();
  }

  /// Keeps the keys and values of up to `tokens` tokens a sequence from the next `forward` on; 0
  /// keeps none.
  void use_cache(std::size_t tokens) { cache_ = KeyValueCache<A, Engine>{tokens}; }

  void append_parameters(Parameters<T, Mesh>& list, const std::string& prefix)
  {
    merged_.append_parameters(list, prefix);
    output_.append_parameters(list, prefix + "output.");
  }

  /// But for the cache.
  void swap_activations(Attention& other)
  {
    merged_.swap_activations(other.merged_);
    output_.swap_workspace(other.output_);
    const auto swap = [&](auto... member) { (std::swap(this->*member, other.*member), ...); };
    swap(&Attention::rotary_, &Attention::o_, &Attention::do_, &Attention::y_, &Attention::dx_,
         &Attention::l_, &Attention::d_, &Attention::is_fused_, &Attention::wide_qkv_,
         &Attention::wide_dqkv_, &Attention::wide_o_, &Attention::wide_do_);
  }

 private:
  [[nodiscard]] std::size_t group() const { return options_.heads / options_.key_value_heads; }
  [[nodiscard]] std::size_t q_width() const { return options_.heads * options_.head_size; }
  [[nodiscard]] std::size_t kv_width() const
  {
    return options_.key_value_heads * options_.head_size;
  }
  /// Pieces of Q have `group` times the heads of those of K and V.
  [[nodiscard]] std::size_t q_quantum() const { return group() * kv_quantum_; }
  [[nodiscard]] LinearOptions output_options() const
  {
    auto o = options_.linear;
    o.index += 3;
    o.in_quantum = q_quantum();
    if (options_.output_weights) o.initial_weights = *options_.output_weights;
    return o;
  }

  [[nodiscard]] HeadColumns heads_of(std::size_t part) const
  {
    const auto c = merged_.columns(part);
    return {c.first, c.width, c.stride};
  }
  [[nodiscard]] AttentionShape shape_of(const Pass& pass) const
  {
    const std::size_t rows = o_->valid().rows();
    return {.sequences = rows / pass.sequence,
            .queries = pass.sequence,
            .keys = pass.sequence,
            .key_rows = pass.sequence,
            .heads = o_->valid().cols() / options_.head_size,
            .group = group(),
            .head_size = options_.head_size,
            .causal = options_.causal,
            .scale = options_.scale,
            .q = heads_of(0),
            .k = heads_of(1),
            .v = heads_of(2),
            .o = {}};
  }

  [[nodiscard]] std::optional<AttentionDropout> dropout(const Pass& pass) const
  {
    if (!pass.training_step || options_.dropout == 0) return {};
    return AttentionDropout{
        stream(options_.linear.seed, Draw::attention, options_.linear.index, *pass.training_step),
        options_.dropout, o_->block().rows.offset / pass.sequence,
        o_->block().cols.offset / options_.head_size, options_.heads};
  }

  /// O and L in one pass, where the engine has one (engine/attention.hpp)
  /// @returns false, and computes nothing, if it has none for these sizes
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
  /// dQ, dK and dV in one pass each
  /// @pre `fuse` has computed O and L
  /// @returns false, and computes nothing, if the engine has none for these sizes
  [[nodiscard]] bool fuse_gradients(const AttentionShape& shape, const Heads& o, MatrixView<A> l,
                                    Heads& d_merged)
  {
    if constexpr (detail::FusesAttention<Engine, T>)
    {
      const MatrixView<const T> qkv = std::as_const(merged_.output()).valid();
      const MatrixView<const T> d_o = std::as_const(*do_).valid();
      const auto dqkv = d_merged.valid();
      const MatrixView<A> d{enlarge(d_, l.size()), l.shape()};
      return mesh_.engine().fused_attention_gradients(shape, qkv, qkv, qkv, o.valid(), l, d_o, dqkv,
                                                      dqkv, dqkv, d);
    }
    else
      return false;
  }

  /// Rotates Q and K, or their gradients back.
  template <bool back>
  void rotate(Heads& merged, const Pass& pass)
  {
    if (options_.rotary_base == 0) return;
    const auto& engine = mesh_.engine();
    rotary_.prepare(engine, merged.valid().rows(), pass.sequence, pass.position, options_.head_size,
                    options_.rotary_base);
    for (const std::size_t part : {std::size_t{0}, std::size_t{1}})
      rotary_.template rotate<back>(engine, merged.valid(), heads_of(part),
                                    merged_.columns(part).valid / options_.head_size);
  }

  static A* enlarge(Buffer& buffer, std::size_t size)
  {
    if (buffer.size() < size) buffer = Buffer(size);
    return buffer.data();
  }
  /// The valid part in the type that attention computes in: itself, or a copy in `buffer`.
  [[nodiscard]] MatrixView<const A> widen(const Heads& m, Buffer& buffer) const
  {
    if constexpr (std::is_same_v<T, A>)
      return m.valid();
    else
    {
      const MatrixView<A> wide{enlarge(buffer, m.valid().size()), m.valid().shape()};
      mesh_.engine().map(wide, detail::Same{}, m.valid());
      return wide;
    }
  }
  /// Where attention writes m's valid part, which `narrow` then copies to m.
  [[nodiscard]] MatrixView<A> wide_like(Heads& m, Buffer& buffer) const
  {
    if constexpr (std::is_same_v<T, A>)
      return m.valid();
    else
    {
      const MatrixView<A> wide{enlarge(buffer, m.valid().size()), m.valid().shape()};
      mesh_.engine().fill(wide, A{});  // between heads it stays so
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
  OutputLinear output_;
  LocalAttention<A, Engine> attention_;
  RotaryTable<T, Engine> rotary_;
  std::optional<Heads> o_;
  std::optional<Heads> do_;
  std::optional<Output> y_;
  std::optional<Input> dx_;
  Buffer l_ = Buffer(0);   // a number for each query and head: see LocalAttention
  Buffer d_ = Buffer(0);   // the same
  bool is_fused_ = false;  // whether the last forward computed O in one pass
  KeyValueCache<A, Engine> cache_;
  Buffer wide_qkv_ = Buffer(0);  // of 16-bit matrices
  Buffer wide_dqkv_ = Buffer(0);
  Buffer wide_o_ = Buffer(0);
  Buffer wide_do_ = Buffer(0);
};

}  // namespace cubist::CUBIST_ABI
