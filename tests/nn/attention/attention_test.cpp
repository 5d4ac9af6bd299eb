// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/engine/cuda/attention_kernels.hpp"
#include "cubist/trace/traced_engine.hpp"

#include "../../engine/cuda/host_warp.hpp"
#include "attention_cases.hpp"

namespace cubist::test::attention_test
{

const std::vector<AttentionCase> cases{
    {"heads of their own", 3, 5, 12, {.heads = 4}},
    {"shared keys and values, rotated",
     5,
     4,
     24,
     {.heads = 6, .key_value_heads = 2, .rotary_base = 100, .linear = {.bias = false}}},
    {"one key-value head, all keys",
     2,
     3,
     10,
     {.heads = 3, .key_value_heads = 1, .head_size = 4, .causal = false}},
    {"norms of wide heads, a part of which is rotated",
     3,
     4,
     12,
     {.heads = 6,
      .key_value_heads = 2,
      .head_size = 6,
      .rotary_base = 100,
      .rotary_size = 4,
      .rotary_scaling = {.type = RotaryScaling::Type::linear, .factor = 2},
      .head_norms = true,
      .output_bias = false}},
    {"dropout", 2, 6, 12, {.heads = 4, .key_value_heads = 2, .dropout = 0.25}},
};

TEST_CASE("attention to cached keys and values equals attention to all of them")
{
  for (const auto& c : cases)
  {
    if (!c.options.causal || c.options.dropout > 0) continue;
    CAPTURE(c.name);
    const auto [whole, stepwise] = on_root<Threads>(cube, [&](const auto& mesh) {
      Attention<Cube3D, Threads, double> layer{mesh, c.width, c.options};
      Passes passes{layer};
      const auto X = uniform<double>(c.sequences * c.length, c.width, 1);
      // Tokens [begin, end) of each sequence.
      const auto forward = [&](std::size_t begin, std::size_t end) {
        const std::size_t n = end - begin;
        typename Attention<Cube3D, Threads, double>::Input x{
            mesh, {c.sequences * n, c.width}, {n * mesh.quantum(), mesh.quantum()}};
        scatter(generate<double>(c.sequences * n, c.width,
                                 [&](std::size_t i, std::size_t j) {
                                   return X(i / n * c.length + begin + i % n, j);
                                 }),
                x);
        return gather(passes.forward(x, {.sequence = n, .position = begin}));
      };
      const auto all = forward(0, c.length);
      layer.use_cache(c.length);
      std::vector<Global<double>> parts{forward(0, 2)};
      for (std::size_t t = 2; t < c.length; ++t) parts.push_back(forward(t, t + 1));
      if (mesh.rank() != 0) return std::pair{all, all};
      return std::pair{
          all, generate<double>(all.shape(0), all.shape(1), [&](std::size_t i, std::size_t j) {
            const std::size_t b = i / c.length, t = i % c.length;
            return t < 2 ? parts[0](2 * b + t, j) : parts[t - 1](b, j);
          })};
    });
    CHECK(difference(stepwise, whole) < 1e-14);
  }
}

using Results = std::vector<Global<double>>;

template <class T, class S, class B>
Results results(const Mesh<S, B>& mesh, const AttentionCase& c)
{
  return attention_results<T>(mesh, c).all;
}

template <class S>
void equals_one_rank(const Place<S>& place, const AttentionCase& c, const Results& wanted)
{
  CAPTURE(place.name(), c.name);
  const auto got =
      on_root<Threads>(place, [&](const auto& mesh) { return results<double>(mesh, c); });
  REQUIRE(got.size() == wanted.size());
  for (std::size_t i = 0; i < got.size(); ++i) CHECK(difference(got[i], wanted[i]) < 1e-13);
}

TEST_CASE("attention is the same on every mesh, with uneven sequences and heads")
{
  for (const auto& c : cases)
  {
    const auto wanted =
        on_root<Threads>(one_rank, [&](const auto& mesh) { return results<double>(mesh, c); });
    equals_one_rank(Place<Summa2DInput>{6, {.rows = 2, .cols = 3}}, c, wanted);
    equals_one_rank(two_two_two, c, wanted);
    equals_one_rank(cube, c, wanted);
    equals_one_rank(Place<Grid2D>{6, {.x = 2, .y = 3}}, c, wanted);
    equals_one_rank(Place<Megatron1DSequence>{4, {.p = 4}}, c, wanted);  // idle ranks
  }
}

TEST_CASE("attention's gradients are the slopes of its output")
{
  // The derivative of the sum of dY ∘ Y, by differences in one element of X.
  const AttentionCase c = cases[1];
  const auto value = [&](double change) {
    return on_root<Threads>(one_rank, [&](const auto& mesh) {
      Attention<Summa2D, Threads, double> layer{mesh, c.width, c.options};
      const std::size_t rows = c.sequences * c.length;
      auto X = uniform<double>(rows, c.width, 1);
      X(6, 5) += change;
      const auto x = scatter<Summa2D::Input>(mesh, X);
      const auto y = gather(Passes{layer}.forward(x, {.sequence = c.length}));
      const auto dy = uniform<double>(rows, c.width, 2);
      double sum = 0;
      for (std::size_t i = 0; i < y.size(); ++i) sum += y.data()[i] * dy.data()[i];
      return sum;
    });
  };
  const auto all =
      on_root<Threads>(one_rank, [&](const auto& mesh) { return results<double>(mesh, c); });
  const double h = 1e-5;
  CHECK(std::abs((value(h) - value(-h)) / (2 * h) - all[1](6, 5)) < 1e-8);
}

TEST_CASE("attention in 16 bits is attention in float, rounded")
{
  const auto& c = cases[1];
  const auto wanted =
      on_root<Threads>(cube, [&](const auto& mesh) { return results<float>(mesh, c); });
  const auto got =
      on_root<Threads>(cube, [&](const auto& mesh) { return results<bfloat16>(mesh, c); });
  REQUIRE(got.size() == wanted.size());
  for (std::size_t i = 0; i < got.size(); ++i)
  {
    double largest = 0;
    for (const double v : wanted[i]) largest = std::max(largest, std::abs(v));
    CHECK(difference(got[i], wanted[i]) < 0.05 * largest);
  }
}

/// An engine with attention in one pass, by a device's kernels.
struct OnePassEngine : HostEngine
{
  static inline thread_local bool has_gradients = true;
  static inline thread_local int calls = 0;

  template <ShortReal T>
  using In = MatrixView<const T>;
  template <ShortReal T>
  bool fused_attention(const AttentionShape& s, In<T> q, In<T> k, In<T> v, MatrixView<T> o,
                       MatrixView<float> l) const
  {
    ++calls;
    run_on_host<T>(
        cubist::detail::AttentionForward<T, 64>{{s, q, k, v, {}, {}, l.data(), nullptr}, o});
    return true;
  }
  template <ShortReal T>
  bool fused_attention_gradients(const AttentionShape& s, In<T> q, In<T> k, In<T> v, In<T> o,
                                 MatrixView<float> l, In<T> d_o, MatrixView<T> dq, MatrixView<T> dk,
                                 MatrixView<T> dv, MatrixView<float> d) const
  {
    if (!has_gradients) return false;
    ++calls;
    const cubist::detail::AttentionOperands<T> on{s, q, k, v, o, d_o, l.data(), d.data()};
    run_on_host<T>(cubist::detail::AttentionQueryGradient<T, 64>{on, dq});
    run_on_host<T>(cubist::detail::AttentionKeyGradient<T, 64>{on, dk, dv});
    return true;
  }
};

struct OnePass
{
  using Communicator = Threads::Communicator;
  using Engine = OnePassEngine;
};

TEST_CASE("attention in one pass equals attention by blocks, even if only forward has one pass")
{
  const AttentionCase c{
      "heads of 64", 2, 20, 128, {.heads = 4, .key_value_heads = 2, .head_size = 64}};
  const auto wanted =
      on_root<Threads>(one_rank, [&](const auto& mesh) { return results<bfloat16>(mesh, c); });
  for (const bool has_gradients : {true, false})
  {
    CAPTURE(has_gradients);
    int calls = 0;
    const auto got = on_ranks<Threads>(1, [&](auto& world) {
      const Mesh<Summa2D, OnePass> mesh{world, {}};
      OnePassEngine::has_gradients = has_gradients;
      OnePassEngine::calls = 0;
      auto all = results<bfloat16>(mesh, c);
      calls = OnePassEngine::calls;
      return all;
    })[0];
    CHECK(calls == (has_gradients ? 2 : 1));
    REQUIRE(got.size() == wanted.size());
    for (std::size_t i = 0; i < got.size(); ++i)
    {
      double largest = 0.1;  // the gradient of the keys' bias is nothing but rounding
      for (const double v : wanted[i]) largest = std::max(largest, std::abs(v));
      CHECK(difference(got[i], wanted[i]) < 0.02 * largest);
    }
  }
}

static_assert(cubist::detail::FusesAttention<OnePassEngine, bfloat16>);
static_assert(cubist::detail::FusesAttention<TracedEngine<OnePassEngine>, bfloat16>);
static_assert(!cubist::detail::FusesAttention<HostEngine, bfloat16>);

TEST_CASE("attention refuses rows that are not whole sequences, and heads that do not fit")
{
  require_clear(on_mesh<Threads>(Place<Summa2D>{4, {.q = 2}}, [](const auto& mesh) {
    Findings found;
    Attention<Summa2D, Threads, double> layer{mesh, 8, {.heads = 2}};
    Passes passes{layer};
    const auto x = scatter<Summa2D::Input>(mesh, uniform<double>(10, 8, 1));
    const auto no_sequences = message_of<ShapeError>([&] { passes.forward(x, {.sequence = 3}); });
    found.check(mentions(no_sequences, "got 10 rows", "whole sequences"), no_sequences);
    const auto cut = message_of<ShapeError>([&] { passes.forward(x, {.sequence = 10}); });
    found.check(mentions(cut, "5 rows on a rank", "(Quanta)"), cut);
    layer.use_cache(4);
    const auto full =
        message_of<ArgumentError>([&] { passes.forward(x, {.sequence = 1, .position = 4}); });
    found.check(mentions(full, "position 5", "cache of 4"), full);
    const auto refused = [&](const AttentionOptions& options) {
      return message_of<ShapeError>([&] { static_cast<void>(options.complete(8)); });
    };
    found.check(mentions(refused({.heads = 3}), "got 3 heads for a width of 8"), "width");
    found.check(mentions(refused({.heads = 4, .key_value_heads = 3}), "3 key-value heads"), "kv");
    found.check(mentions(refused({.heads = 8, .rotary_base = 10}), "rotate in pairs"), "pairs");
    found.check(mentions(refused({.heads = 4, .rotary_base = 10, .rotary_size = 8}),
                         "8 rotated elements of a head that has"),
                "rotated elements");
    return found;
  }));
}

}  // namespace cubist::test::attention_test
