// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/backend/threads.hpp"
#include "cubist/nn/attention/ring_attention.hpp"

#include "attention_cases.hpp"

namespace cubist::test::ring_attention_test
{

const std::vector<AttentionCase> cases{
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

static const std::vector<Global<double>>& on_one_rank(const AttentionCase& c)
{
  static std::vector<AttentionResults> of_cases(cases.size());
  auto& known = of_cases[static_cast<std::size_t>(&c - cases.data())];
  if (known.all.empty())
    known = on_root<Threads>(one_rank,
                             [&](const auto& mesh) { return attention_results<double>(mesh, c); });
  return known.all;
}

template <class S>
void equals_one_rank(const Place<S>& place, std::size_t parts, std::size_t first = 0,
                     std::size_t last = few)
{
  if (!fits(place)) return;
  for (std::size_t i = first; i < last; ++i)
  {
    const AttentionCase& c = cases[i];
    CAPTURE(place.name(), c.name, parts);
    const auto& wanted = on_one_rank(c);
    const auto got = on_root(place, [&](const auto& mesh) {
                       return attention_results<double>(mesh, c, parts);
                     }).all;
    REQUIRE(got.size() == wanted.size());
    for (std::size_t r = 0; r < got.size(); ++r) CHECK(difference(got[r], wanted[r]) < 1e-13);
  }
}

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
  const auto heads = [](const AttentionCase& c, std::size_t parts, std::size_t heads_of_rank) {
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
  const AttentionCase& c = cases[in_turn];
  CHECK(ring_heads(cut_sequences(c.sequences, c.length, 2, {2, 1, 1}), 6, c.options.head_size) ==
        2);
  equals_one_rank(Place<Summa2DInput>{2, {.rows = 2, .cols = 1}}, 2, in_turn, in_turn + 1);
}

TEST_CASE("attention of ranks that share sequences equals attention on one rank in 16 bits, too")
{
  const auto& c = cases[0];
  const auto wanted = on_root<Threads>(one_rank, [&](const auto& mesh) {
                        return attention_results<float>(mesh, c);
                      }).all;
  const auto got = on_root<Threads>(cube, [&](const auto& mesh) {
                     return attention_results<bfloat16>(mesh, c, 4);
                   }).all;
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
  const auto check = [](const auto& place, const AttentionCase& c, std::size_t parts,
                        std::size_t rows, std::size_t columns) {
    CAPTURE(place.name(), c.name);
    using S = typename std::decay_t<decltype(place)>::Scheme;
    const auto extents = S::extents(place.extents, place.ranks);
    const auto cut = cut_sequences(
        c.sequences, c.length, parts,
        row_parts<typename S::Output, typename S::Axes>(extents, S::quantum(extents)));
    REQUIRE(cut.rows_of_part() == rows);
    for (const auto& rank : on_mesh<B>(
             place, [&](const auto& mesh) { return attention_results<double>(mesh, c, parts); }))
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
