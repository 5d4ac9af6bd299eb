// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/backend/threads.hpp"
#include "cubist/nn/attention/shared_cache.hpp"

#include "attention_cases.hpp"

namespace cubist::test::shared_cache_test
{

TEST_CASE("a cache takes the next tokens of its sequences, and no others")
{
  if (!fits(cube)) return;
  const auto messages = on_root(cube, [](const auto& mesh) {
    const auto message = [&](std::size_t parts, std::size_t sequences, std::size_t tokens,
                             std::size_t position) {
      using Layer = Attention<Cube3D, TestBackend, double>;
      Layer layer{mesh, 8, {.heads = 2}};
      layer.use_cache(8);
      Pass pass{.training_step = {}, .sequence = 5};
      std::size_t rows = 5;
      Quanta quanta{5 * mesh.quantum(), mesh.quantum()};
      if (parts > 1)
      {
        pass.cut =
            cut_sequences(1, 5, parts, row_parts<Cube3D::Output, Cube3D::Axes>(mesh.extents(), 2));
        rows = pass.cut.rows();
        quanta.rows = mesh.quantum();
      }
      Passes passes{layer};
      passes.forward(typename Layer::Input{mesh, {rows, 8}, quanta}, pass);
      quanta.rows = tokens * mesh.quantum();
      const typename Layer::Input next{mesh, {sequences * tokens, 8}, quanta};
      return message_of<ArgumentError>([&] {
        passes.forward(next, {.training_step = {}, .sequence = tokens, .position = position});
      });
    };
    std::vector<std::vector<std::string>> all;
    for (const std::size_t parts : {4U, 1U})
      all.push_back({message(parts, 1, 3, 5), message(parts, 1, 4, 5), message(parts, 1, 1, 6),
                     message(parts, 2, 1, 5)});
    return all;
  });
  for (const auto& of : messages)
  {
    CAPTURE(of);
    CHECK(of[0].empty());
    CHECK(mentions(of[1], "8 tokens"));
    CHECK(mentions(of[2], "got", "tokens at position 6 of 1 sequences"));
    CHECK(mentions(of[3], "got", "tokens at position 5 of 2 sequences"));
  }
  CHECK(mentions(messages[0][2], "holds 5 of 8 tokens for 1 sequences, so they are not the next"));
}

const std::vector<AttentionCase> cases{
    {"one sequence, grouped heads, rotated",
     1,
     13,
     24,
     {.heads = 6, .key_value_heads = 2, .rotary_base = 100, .linear = {.bias = false}}},
    {"more sequences than some ranks share", 3, 6, 12, {.heads = 4, .key_value_heads = 4}},
    {"a prompt of one token, which most ranks lack", 2, 1, 8, {.heads = 2}},
};
constexpr std::size_t steps = 5;

/// The outputs of tokens after a prompt, with one matrix for each token of the sequences.
struct Outputs
{
  std::vector<Global<double>> all;
  std::uint64_t elements = 0;  // elements that this rank sent for them
};

/// Reads a prompt, and computes the tokens after it.
/// @param parts  how many ranks share each sequence of the prompt; 1: none do. If there are several
/// numbers, a prompt is read with each, and the tokens follow the last prompt.
/// @param tokens the tokens of each sequence, in each call after the prompt
template <class S, class B>
Outputs outputs(const Mesh<S, B>& mesh, const AttentionCase& c,
                const std::vector<std::size_t>& parts,
                const std::vector<std::size_t>& tokens = {1, 1, 1, 1, 1})
{
  using Layer = Attention<S, B, double>;
  Layer layer{mesh, c.width, c.options};
  layer.use_cache(c.length + steps);
  Passes passes{layer};
  const auto prompt = uniform<double>(c.sequences * c.length, c.width, 1);
  for (const std::size_t n : parts)
  {
    const Pass pass = pass_of(mesh, c, n, {});
    // Padding has values, which must not show in any result.
    const auto x = arranged<typename Layer::Input>(mesh, pass, prompt, 0.5);
    passes.forward(x, pass);
  }
  Outputs found;
  std::vector<Global<double>> following;
  for (std::size_t t = 0; t < steps; ++t)
    following.push_back(uniform<double>(c.sequences, c.width, 2 + t));
  for (const std::size_t n : tokens)
  {
    const std::size_t t = found.all.size();
    const Quanta quanta{n * mesh.quantum(), mesh.quantum()};
    typename Layer::Input next{mesh, {n * c.sequences, c.width}, quanta};
    scatter(generate<double>(
                n * c.sequences, c.width,
                [&](std::size_t i, std::size_t j) { return following[t + i % n](i / n, j); }),
            next);
    if constexpr (requires { mesh.world().traffic(); }) mesh.world().traffic().reset();
    const auto& y =
        passes.forward(next, {.training_step = {}, .sequence = n, .position = c.length + t});
    if constexpr (requires { mesh.world().traffic(); })
      found.elements += mesh.world().traffic().total().elements;
    const auto all = gather(y);
    for (std::size_t i = 0; i < n; ++i)
      found.all.push_back(
          generate<double>(all.shape(0) / n, all.shape(1),
                           [&](std::size_t b, std::size_t j) { return all(b * n + i, j); }));
  }
  return found;
}

template <class S>
void equals_one_rank(const Place<S>& place, const std::vector<std::size_t>& parts)
{
  if (!fits(place)) return;
  for (const AttentionCase& c : cases)
  {
    CAPTURE(place.name(), c.name, parts);
    const auto wanted =
        on_root<Threads>(one_rank, [&](const auto& mesh) { return outputs(mesh, c, {1}).all; });
    const auto got = on_root(place, [&](const auto& mesh) {
      return outputs(mesh, c, parts, {1, 3, 1}).all;
    });
    REQUIRE(got.size() == wanted.size());
    for (std::size_t i = 0; i < got.size(); ++i) CHECK(difference(got[i], wanted[i]) < 1e-14);
  }
}

TEST_CASE("a cache that ranks share gives what one rank's gives")
{
  equals_one_rank(Place<Summa2D>{2, {.rows = 2, .cols = 1}}, {2});
  equals_one_rank(Place<Summa2D>{6, {.rows = 3, .cols = 2}}, {3});
  equals_one_rank(two_two_two, {4});
  equals_one_rank(two_two_two, {2});
  equals_one_rank(cube, {4});
  equals_one_rank(Place<Grid3D>{6, {.x = 2, .y = 1, .z = 3}}, {6});
  equals_one_rank(Place<DataParallel<Summa2D>>{8, {.data = 2, .scheme = {.q = 2}}}, {2});
}

TEST_CASE("a prompt of whole sequences replaces a prompt that ranks share, and the reverse")
{
  equals_one_rank(two_two_two, {2, 1});
  equals_one_rank(two_two_two, {1, 4});
  equals_one_rank(two_two_two, {4, 2});
}

TEST_CASE("a cache that ranks share sends the rows of a token, and the parts of its softmax")
{
  using B = Counting<Threads>;
  // Without a shared cache, only the layer's products send, and with it they send as much.
  const auto sent = [](const auto& place, const AttentionCase& c, std::size_t parts) {
    std::uint64_t all = 0;
    for (const auto& rank :
         on_mesh<B>(place, [&](const auto& mesh) { return outputs(mesh, c, {parts}); }))
      all += rank.elements;
    return all;
  };
  const auto check = [&](const auto& place, const AttentionCase& c, std::size_t parts,
                         std::size_t heads, std::size_t key_value_heads) {
    CAPTURE(place.name(), c.name, parts);
    using S = typename std::decay_t<decltype(place)>::Scheme;
    const auto extents = S::extents(place.extents, place.ranks);
    const std::size_t quantum = S::quantum(extents);
    const auto cut =
        cut_sequences(c.sequences, c.length, parts,
                      row_parts<typename S::Output, typename S::Axes>(extents, quantum));
    const std::size_t p = cut.groups * cut.parts;
    const std::size_t lines = static_cast<std::size_t>(place.ranks) / p;
    const std::size_t rows = ceil_div(c.sequences, quantum) * quantum;  // of all p ranks
    const std::size_t head_size = c.width / c.options.heads;
    const std::size_t gathered = rows * (heads + 2 * key_value_heads) * head_size;
    const std::size_t reduced = cut.groups * cut.together * heads * (1 + head_size + 1);
    CHECK(sent(place, c, parts) - sent(place, c, 1) ==
          steps * lines * (p - 1) * (gathered + 2 * reduced));
  };
  check(Place<Summa2D>{2, {.rows = 2, .cols = 1}}, cases[0], 2, 6, 2);
  check(two_two_two, cases[0], 4, 3, 1);
  check(two_two_two, cases[0], 2, 3, 1);
  check(cube, cases[1], 4, 2, 2);
  check(Place<Grid3D>{6, {.x = 2, .y = 1, .z = 3}}, cases[1], 6, 4, 4);
}

}  // namespace cubist::test::shared_cache_test
