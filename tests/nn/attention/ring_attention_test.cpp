// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/backend/threads.hpp"
#include "cubist/nn/attention/attention.hpp"
#include "cubist/nn/attention/ring_attention.hpp"

#include "nn.hpp"
#include "passes.hpp"

namespace cubist::test::ring_attention_test
{

namespace
{

struct Case
{
  const char* name;
  std::size_t sequences, length, width;
  AttentionOptions options;
};

const std::vector<Case> cases{
    {"one sequence, grouped heads, rotated",
     1,
     13,
     24,
     {.heads = 6, .key_value_heads = 2, .rotary_base = 100, .linear = {.bias = false}}},
    {"all keys", 2, 9, 10, {.heads = 3, .key_value_heads = 1, .head_size = 4, .causal = false}},
    {"dropout", 3, 6, 12, {.heads = 4, .key_value_heads = 2, .dropout = 0.25}},
    {"fewer tokens than chunks", 1, 3, 8, {.heads = 2}},
    // If messages would be longer, only some of the heads go around at a time.
    {"a head at a time", 1, 48, 6, {.heads = 4, .head_size = 8192}},
    {"a head at a time, grouped, with dropout",
     1,
     48,
     6,
     {.heads = 4, .key_value_heads = 2, .head_size = 8192, .dropout = 0.25}},
    // Messages of two heads would be long enough, but on some meshes three heads are side by side.
    {"six heads", 1, 48, 2, {.heads = 6, .head_size = 2736}},
};
/// The number of first cases, which run on every mesh, and the end of those whose heads take turns.
constexpr std::size_t few = 4, in_turn = 6;

/// Y, dX and the gradients of all parameters.
struct Results
{
  std::vector<Global<double>> all;
  std::uint64_t forward = 0;  // elements of this rank's messages
  std::uint64_t backward = 0;
};

/// Runs a case on a mesh.
/// @param parts  how many ranks share each sequence; 1: none do
template <class T, class S, class B>
Results results(const Mesh<S, B>& mesh, const Case& c, std::size_t parts)
{
  using Layer = Attention<S, B, T>;
  Layer layer{mesh, c.width, c.options};
  const std::size_t tokens = c.sequences * c.length;
  Pass pass{.training_step = 3, .sequence = c.length};
  if (parts > 1)
    pass.cut = cut_sequences(
        c.sequences, c.length, parts,
        row_parts<typename S::Output, typename S::Axes>(mesh.extents(), mesh.quantum()));
  const auto& cut = pass.cut;
  const std::size_t rows = cut.is_cut() ? cut.rows() : tokens;
  const Quanta quanta{(cut.is_cut() ? 1 : c.length) * mesh.quantum(), mesh.quantum()};
  // Padding has values, which must not show in any result.
  const auto arranged = [&](std::uint64_t seed, T padding) {
    const auto m = uniform<T>(tokens, c.width, seed);
    return generate<T>(rows, c.width, [&](std::size_t i, std::size_t j) {
      if (!cut.is_cut()) return m(i, j);
      return cut.is_token(i) ? m(cut.token(i), j) : padding;
    });
  };
  const auto in_order = [&](const auto& m, bool of_rows) {
    return generate<double>(m.shape(0) == 0 ? 0
                            : of_rows       ? tokens
                                            : m.shape(0),
                            m.shape(1), [&](std::size_t i, std::size_t j) {
                              const std::size_t row =
                                  of_rows && cut.is_cut() ? cut.row(i / c.length, i % c.length) : i;
                              return static_cast<double>(static_cast<Accumulator<T>>(m(row, j)));
                            });
  };
  typename Layer::Input x{mesh, {rows, c.width}, quanta};
  auto dy = x;
  scatter(arranged(1, T(0.5F)), x);
  scatter(arranged(2, T(0.0F)), dy);
  Passes passes{layer};
  Results found;
  const auto messages = [&] {
    if constexpr (requires { mesh.world().traffic(); })
    {
      const auto sent = mesh.world().traffic()[CallKind::send].elements;
      mesh.world().traffic().reset();
      return std::uint64_t{sent};
    }
    else
      return std::uint64_t{0};
  };
  messages();
  const auto& y = passes.forward(x, pass);
  found.forward = messages();
  const auto* dx = passes.backward(x, dy, pass, true);
  found.backward = messages();
  found.all.push_back(in_order(gather(y), true));
  found.all.push_back(in_order(gather(*dx), true));
  for (const auto& p : parameters_of(layer))
    found.all.push_back(in_order(gather(p.gradient), false));
  return found;
}

const Results& on_one_rank(const Case& c)
{
  static std::vector<Results> of_cases(cases.size());
  auto& known = of_cases[static_cast<std::size_t>(&c - cases.data())];
  if (known.all.empty())
    known =
        on_root<Threads>(one_rank, [&](const auto& mesh) { return results<double>(mesh, c, 1); });
  return known;
}

template <class S>
void equals_one_rank(const Place<S>& place, std::size_t parts, std::size_t first = 0,
                     std::size_t last = few)
{
  if (!fits(place)) return;
  for (std::size_t i = first; i < last; ++i)
  {
    const Case& c = cases[i];
    CAPTURE(place.name(), c.name, parts);
    const auto& wanted = on_one_rank(c).all;
    const auto got =
        on_root(place, [&](const auto& mesh) { return results<double>(mesh, c, parts); }).all;
    REQUIRE(got.size() == wanted.size());
    for (std::size_t r = 0; r < got.size(); ++r) CHECK(difference(got[r], wanted[r]) < 1e-13);
  }
}

}  // namespace

TEST_CASE("attention of ranks that share sequences equals attention on one rank")
{
  equals_one_rank(Place<Summa2D>{2, {.rows = 2, .cols = 1}}, 2);
  equals_one_rank(Place<Summa2D>{6, {.rows = 3, .cols = 2}}, 3);
  equals_one_rank(Place<Summa2DWeight>{6, {.rows = 2, .cols = 3}}, 2);
  equals_one_rank(two_two_two, 4);
  equals_one_rank(two_two_two, 2);
  equals_one_rank(cube, 4);
  equals_one_rank(Place<Grid3D>{6, {.x = 2, .y = 1, .z = 3}}, 6);
  equals_one_rank(Place<Grid3D>{12, {.x = 2, .y = 3, .z = 2}}, 2);
  equals_one_rank(Place<DataParallel<Cube3D>>{16, {.data = 2, .scheme = {.q = 2}}}, 4);
}

TEST_CASE("a ring in which a part of the heads goes around at a time computes the same")
{
  const auto heads = [](const Case& c, std::size_t parts, std::size_t heads_of_rank) {
    const auto cut = cut_sequences(c.sequences, c.length, parts, {parts, 1, 1});
    return ring_heads(cut, heads_of_rank, c.options.head_size);
  };
  CHECK(heads(cases[few], 3, 4) == 1);
  CHECK(heads(cases[few], 4, 4) == 2);
  CHECK(heads(cases[few], 8, 4) == 4);
  CHECK(heads(cases[few + 1], 3, 2) == 1);
  CHECK(heads(cases[0], 2, 2) == 2);
  if (!sanitized) equals_one_rank(Place<Summa2D>{4, {.rows = 2, .cols = 2}}, 2, few, in_turn);
  equals_one_rank(Place<Summa2D>{3, {.rows = 3, .cols = 1}}, 3, few, in_turn);
}

TEST_CASE("heads that go around together lie in one piece of a rank's columns")
{
  const Case& c = cases[in_turn];
  CHECK(ring_heads(cut_sequences(c.sequences, c.length, 2, {2, 1, 1}), 6, c.options.head_size) ==
        2);
  equals_one_rank(Place<Summa2DInput>{2, {.rows = 2, .cols = 1}}, 2, in_turn, in_turn + 1);
}

TEST_CASE("attention of ranks that share sequences equals attention on one rank in 16 bits, too")
{
  const auto& c = cases[0];
  const auto wanted =
      on_root<Threads>(one_rank, [&](const auto& mesh) { return results<float>(mesh, c, 1); }).all;
  const auto got =
      on_root<Threads>(cube, [&](const auto& mesh) { return results<bfloat16>(mesh, c, 4); }).all;
  REQUIRE(got.size() == wanted.size());
  for (std::size_t i = 0; i < got.size(); ++i)
  {
    double largest = 0;
    for (const double v : wanted[i]) largest = std::max(largest, std::abs(v));
    CHECK(difference(got[i], wanted[i]) < 0.05 * largest);
  }
}

#if !CUBIST_SANITIZED  // counts of elements do not change under a sanitizer
TEST_CASE("a ring sends the keys and values of a rank's rows to every other member")
{
  using B = Counting<Threads>;
  const auto check = [](const auto& place, const Case& c, std::size_t parts, std::size_t rows,
                        std::size_t columns) {
    CAPTURE(place.name(), c.name);
    using S = typename std::decay_t<decltype(place)>::Scheme;
    const auto extents = S::extents(place.extents, place.ranks);
    const auto cut = cut_sequences(
        c.sequences, c.length, parts,
        row_parts<typename S::Output, typename S::Axes>(extents, S::quantum(extents)));
    REQUIRE(cut.rows_of_part() == rows);
    for (const auto& rank :
         on_mesh<B>(place, [&](const auto& mesh) { return results<double>(mesh, c, parts); }))
    {
      CHECK(rank.forward == (parts - 1) * 2 * rows * columns);
      CHECK(rank.backward == (parts - 1) * 4 * rows * columns);
      CHECK(rank.forward == ring_words(cut, columns, false));
      CHECK(rank.backward == ring_words(cut, columns, true));
    }
  };
  // 13 tokens in 2 c chunks; 2 key-value heads of 4 columns, of which each rank has one
  check(two_two_two, cases[0], 4, 4, 4);
  check(two_two_two, cases[0], 2, 8, 4);
  check(Place<Grid3D>{6, {.x = 2, .y = 1, .z = 3}}, cases[0], 6, 4, 8);
  // 3 sequences of 6 tokens, 2 key-value heads of 3 columns
  check(Place<Summa2D>{6, {.rows = 3, .cols = 2}}, cases[2], 3, 3 * 2, 3);
}
#endif

}  // namespace cubist::test::ring_attention_test
