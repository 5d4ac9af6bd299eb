// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/nn/attention/local_attention.hpp"

#include "batching_engine.hpp"
#include "nn.hpp"

namespace cubist::test::attention_kernel_test
{

// A block has all sequences and heads.
static_assert(detail::MultipliesBatches<BatchingEngine, double>);

using Matrix = Global<double>;

/// Sizes of attention, and how its matrices lie in memory.
struct Case
{
  const char* name;
  AttentionShape shape;
  double drop = 0;
  double size = 1;  // magnitude of the elements of Q and K
};

/// A shape from B, queries, keys, key_rows, heads, group, head size, and causal.
static AttentionShape shape(std::size_t b, std::size_t queries, std::size_t keys,
                            std::size_t key_rows, std::size_t heads, std::size_t group,
                            std::size_t size, bool causal)
{
  return {b,        queries, keys,
          key_rows, heads,   group,
          size,     causal,  1 / std::sqrt(static_cast<double>(size))};
}

struct Operands
{
  Matrix q, k, v, d_o;
};

struct Results
{
  Matrix o, dq, dk, dv;
};

template <class T, class E>
Results run(LocalAttention<T, E>& attention, const Case& c, const Operands& m)
{
  const auto& s = c.shape;
  auto q = converted<T>(m.q), k = converted<T>(m.k), v = converted<T>(m.v),
       d_o = converted<T>(m.d_o), o = q, dq = q, dk = k, dv = v;
  auto l = xt::xtensor<T, 2>::from_shape({1, s.sequences * s.heads * s.queries});
  const auto nan = std::numeric_limits<T>::quiet_NaN();
  for (auto* each : {&o, &dq, &l, &dk, &dv}) each->fill(nan);
  // Rows without a key keep their gradients.
  for (auto* each : {&dk, &dv})
    for (std::size_t i = 0; i < each->shape(0); ++i)
      if (i % s.key_rows >= s.keys) xt::view(*each, i, xt::all()) = T{};
  std::optional<AttentionDropout> dropout;
  if (c.drop > 0) dropout = AttentionDropout{Philox{3, 4}, c.drop, 5, 1, s.heads + 2};
  for (int again = 0; again < 2; ++again)  // the second time, the workspace was used before
    attention.forward(s, dropout, view(q), view(k), view(v), view(o), view(l));
  attention.backward(s, dropout, view(q), view(k), view(v), view(o), view(l), view(d_o), view(dq),
                     view(dk), view(dv));
  return {converted<double>(o), converted<double>(dq), converted<double>(dk),
          converted<double>(dv)};
}

template <class T, class E = HostEngine>
Results run(const Case& c, const Operands& m, const AttentionBlocks& blocks)
{
  LocalAttention<T, E> attention{{}, blocks};
  return run(attention, c, m);
}

TEST_CASE("attention is a mean of values, weighted by the exponentials of scores")
{
  // The first query only sees the first key; the scores of the second are 0 and ln 3.
  const Case two{"two tokens", shape(1, 2, 2, 2, 1, 1, 1, true)};
  const Matrix ones{{1}, {1}};
  const Operands m{{{0}, {std::log(3.0)}}, {{0}, {1}}, {{1}, {5}}, ones};
  CHECK(difference(run<double>(two, m, {}).o, Matrix{{1}, {4}}) < 1e-15);
}

const std::vector<Case> cases{
    {"causal", shape(2, 11, 11, 11, 3, 1, 4, true)},
    {"all keys", shape(2, 9, 9, 9, 2, 1, 5, false)},
    {"grouped heads", shape(1, 10, 10, 10, 6, 3, 2, true)},
    {"one token", shape(3, 1, 1, 1, 2, 2, 3, true)},
    {"queries after a cache of keys", shape(2, 3, 10, 16, 4, 2, 3, true)},
    {"other keys", shape(2, 7, 4, 5, 2, 1, 3, false)},
    {"dropout", shape(2, 10, 10, 10, 4, 2, 3, true), 0.3},
    {"large scores", shape(1, 12, 12, 12, 2, 1, 4, true), 0, 100},  // up to 1e4
};

/// The mask of one element of softmax(Q K^T), by its definition.
static double mask(const Case& c, std::size_t b, std::size_t h, std::size_t i, std::size_t j)
{
  const auto& s = c.shape;
  const std::size_t index = (((5 + b) * (s.heads + 2) + 1 + h) * s.keys + i) * s.keys + j;
  if (c.drop == 0) return 1;
  return Philox{3, 4}.uniform<double>(index) < c.drop ? 0 : 1 / (1 - c.drop);
}

static Operands operands(const Case& c)
{
  const auto& s = c.shape;
  const std::size_t kv = s.heads / s.group * s.head_size;
  return {uniform<double>(s.sequences * s.queries, s.heads * s.head_size, 1, c.size),
          uniform<double>(s.sequences * s.key_rows, kv, 2, c.size),
          uniform<double>(s.sequences * s.key_rows, kv, 3),
          uniform<double>(s.sequences * s.queries, s.heads * s.head_size, 4)};
}

/// Computes attention by its definition, with all scores of a head at once.
static Results serial(const Case& c, const Operands& m)
{
  const auto& s = c.shape;
  Results r{m.q, m.q, m.k, m.v};
  for (auto* each : {&r.o, &r.dq, &r.dk, &r.dv}) each->fill(0);
  const std::size_t d = s.head_size;
  for (std::size_t b = 0; b < s.sequences; ++b)
    for (std::size_t h = 0; h < s.heads; ++h)
      for (std::size_t i = 0; i < s.queries; ++i)
      {
        const std::size_t row = b * s.queries + i, at = h * d, kv = h / s.group * d;
        const std::size_t n = s.causal ? i + 1 + s.keys - s.queries : s.keys;
        std::vector<double> p(n), dp(n);
        double max = -std::numeric_limits<double>::infinity(), sum = 0, dot = 0;
        for (std::size_t j = 0; j < n; ++j)
        {
          for (std::size_t e = 0; e < d; ++e)
            p[j] += s.scale * m.q(row, at + e) * m.k(b * s.key_rows + j, kv + e);
          max = std::max(max, p[j]);
        }
        for (auto& x : p) sum += x = std::exp(x - max);
        for (std::size_t j = 0; j < n; ++j)
        {
          p[j] /= sum;
          const double keep = mask(c, b, h, i, j);
          for (std::size_t e = 0; e < d; ++e)
          {
            r.o(row, at + e) += keep * p[j] * m.v(b * s.key_rows + j, kv + e);
            r.dv(b * s.key_rows + j, kv + e) += keep * p[j] * m.d_o(row, at + e);
            dp[j] += keep * m.d_o(row, at + e) * m.v(b * s.key_rows + j, kv + e);
          }
          dot += p[j] * dp[j];
        }
        for (std::size_t j = 0; j < n; ++j)
        {
          const double slope = s.scale * p[j] * (dp[j] - dot);
          for (std::size_t e = 0; e < d; ++e)
          {
            r.dq(row, at + e) += slope * m.k(b * s.key_rows + j, kv + e);
            r.dk(b * s.key_rows + j, kv + e) += slope * m.q(row, at + e);
          }
        }
      }
  return r;
}

static void compare(const Results& got, const Results& wanted, double tolerance)
{
  CHECK(difference(got.o, wanted.o) < tolerance);
  CHECK(difference(got.dq, wanted.dq) < tolerance);
  CHECK(difference(got.dk, wanted.dk) < tolerance);
  CHECK(difference(got.dv, wanted.dv) < tolerance);
}

TEST_CASE("attention by blocks is attention as it is defined, and so are its gradients")
{
  for (const auto& c : cases)
  {
    const auto m = operands(c);
    const auto wanted = serial(c, m);
    for (const AttentionBlocks& blocks :
         {AttentionBlocks{}, AttentionBlocks{4, 3}, AttentionBlocks{3, 5}, AttentionBlocks{1, 1}})
    {
      CAPTURE(c.name, blocks.queries, blocks.keys);
      compare(run<double>(c, m, blocks), wanted, 1e-13 * c.size);
    }
    for (const AttentionBlocks& blocks : {AttentionBlocks{}, AttentionBlocks{4, 3}})
    {
      CAPTURE(c.name, blocks.queries, blocks.keys);
      compare(run<double, BatchingEngine>(c, m, blocks), wanted, 1e-13 * c.size);
    }
    CAPTURE(c.name);
    if (c.size == 1) compare(run<float>(c, m, {4, 3}), wanted, 2e-6);
  }
}

TEMPLATE_TEST_CASE("attention in a workspace that had other shapes is that in a new one", "",
                   HostEngine, BatchingEngine)
{
  for (const AttentionBlocks& blocks : {AttentionBlocks{}, AttentionBlocks{4, 3}})
  {
    LocalAttention<double, TestType> kept{{}, blocks};
    const auto check = [&](const Case& c) {
      CAPTURE(c.name);
      const auto m = operands(c);
      const auto got = run(kept, c, m);
      const auto wanted = run<double, TestType>(c, m, blocks);
      for (const auto matrix : {&Results::o, &Results::dq, &Results::dk, &Results::dv})
        CHECK(identical(got.*matrix, wanted.*matrix));
    };
    for (const auto& c : cases) check(c);
    // As many tokens with another cut, then fewer, then more.
    for (const auto& [sequences, tokens] :
         {std::pair{6U, 4U}, {3U, 8U}, {2U, 3U}, {5U, 17U}, {6U, 4U}})
      check({"cut", shape(sequences, tokens, tokens, tokens, 4, 2, 3, true), 0.3});
  }
}

/// An engine that counts the elements of its buffers.
struct CountingEngine : HostEngine
{
  static inline std::size_t elements = 0;

  template <class T>
  struct Buffer : HostEngine::Buffer<T>
  {
    explicit Buffer(std::size_t n)
        : HostEngine::Buffer<T>(n)
    {
      elements += n;
    }
  };
};

TEST_CASE("attention needs no more memory for longer sequences")
{
  const auto workspace = [](std::size_t tokens) {
    CountingEngine::elements = 0;
    const Case c{"long", shape(1, tokens, tokens, tokens, 1, 1, 2, true), 0.1};
    (void)run<float, CountingEngine>(c, operands(c), AttentionBlocks{64, 128});
    return CountingEngine::elements;
  };
  const std::size_t few = workspace(128);
  CHECK(few > 64 * 128);
  CHECK(few < 4 * 64 * 128);
  CHECK(workspace(512) == few);
}

TEST_CASE("scores of 1e4 overflow in no number format")
{
  const auto& c = cases.back();
  const auto m = operands(c);
  const auto wanted = serial(c, m);
  const auto got = run<float>(c, m, {4, 3});
  CHECK(difference(got.o, wanted.o) < 0.01);
  CHECK(difference(got.dv, wanted.dv) < 0.01);
  // The gradients of Q and K have factors of 100.
  CHECK(difference(got.dq, wanted.dq) < 1);
  CHECK(difference(got.dk, wanted.dk) < 1);
}

TEST_CASE("a NaN in a query, key or value reaches the outputs that read it")
{
  const auto& c = cases.back();
  for (int which = 0; which < 3; ++which)
  {
    auto m = operands(c);
    (which == 0 ? m.q : which == 1 ? m.k : m.v)(0, 0) = std::nan("");
    CAPTURE(which);
    CHECK(std::isnan(run<float>(c, m, {4, 3}).o(0, 0)));
  }
}

TEMPLATE_TEST_CASE("heads may lie in pieces of columns, with other columns between", "", HostEngine,
                   BatchingEngine)
{
  Case c{"pieces", shape(2, 5, 5, 5, 4, 1, 3, true)};
  const auto m = operands(c);
  const auto wanted = serial(c, m);
  // Pieces of two heads each of Q, K and V.
  c.shape.q = {0, 6, 18};
  c.shape.k = {6, 6, 18};
  c.shape.v = {12, 6, 18};
  const auto merge = [](const Matrix& q, const Matrix& k, const Matrix& v) {
    return generate<double>(10, 36, [&](std::size_t i, std::size_t j) {
      const std::size_t column = j / 18 * 6 + j % 6;
      return (j % 18 < 6 ? q : j % 18 < 12 ? k : v)(i, column);
    });
  };
  // Two heads of O, with two columns before and one after.
  c.shape.o = {2, 6, 9};
  const auto spread = [](const Matrix& o) {
    return generate<double>(10, 18, [&](std::size_t i, std::size_t j) {
      return j % 9 < 2 || j % 9 > 7 ? -7 : o(i, j / 9 * 6 + j % 9 - 2);
    });
  };
  auto merged = merge(m.q, m.k, m.v), d_merged = merged;
  auto o = spread(m.q), d_o = spread(m.d_o), l = Matrix::from_shape({1, 40});
  LocalAttention<double, TestType> attention{{}, {2, 2}};
  attention.forward(c.shape, {}, view(merged), view(merged), view(merged), view(o), view(l));
  attention.backward(c.shape, {}, view(merged), view(merged), view(merged), view(o), view(l),
                     view(d_o), view(d_merged), view(d_merged), view(d_merged));
  CHECK(difference(o, spread(wanted.o)) < 1e-14);
  CHECK(difference(d_merged, merge(wanted.dq, wanted.dk, wanted.dv)) < 1e-14);
}

}  // namespace cubist::test::attention_kernel_test
