// SPDX-License-Identifier: BSD-3-Clause
#include <set>

#include "cubist/engine/host/engine.hpp"
#include "cubist/matrix/check_replicas.hpp"
#include "cubist/nn/embedding/embedding.hpp"
#include "cubist/scheme/data_parallel.hpp"
#include "cubist/scheme/grid2d.hpp"
#include "cubist/scheme/megatron1d.hpp"

#include "nn.hpp"
#include "passes.hpp"

namespace cubist
{

/// An engine that multiplies faster if rows begin at multiples of 16 bytes.
struct AligningEngine : HostEngine
{
};
template <>
inline constexpr std::size_t row_alignment<AligningEngine> = 16;

}  // namespace cubist

namespace cubist::test::embedding_test
{

struct Results
{
  Global<double> h, gradient, accumulated;
};

TEST_CASE("an embedding copies the rows of its tokens, and adds up their gradients")
{
  const auto got = on_root<Threads>(one_rank, [](const auto& mesh) {
    Embedding<Summa2D, Threads, double> layer{mesh, 3, 2};
    scatter(Global<double>{{1, 2}, {3, 4}, {5, 6}}, layer.table());
    const std::vector<int> ids{2, 0, 2};
    Passes passes{layer};
    auto dh = passes.forward(ids, {});
    Results r;
    r.h = gather(dh);
    scatter(Global<double>{{1, 1}, {10, 10}, {100, 200}}, dh);
    layer.backward(ids, dh, {{}, passes.sums}, passes.kept);
    r.gradient = gather(layer.table_gradient());
    return r;
  });
  CHECK(identical(got.h, Global<double>{{5, 6}, {1, 2}, {5, 6}}));
  CHECK(identical(got.gradient, Global<double>{{10, 10}, {0, 0}, {101, 201}}));
}

struct Case
{
  std::size_t sequences, length, vocabulary, features;
};

// With the last one, replicas that look up different rows add terms of the gradient.
const std::vector<Case> cases{{5, 3, 11, 7}, {4, 6, 40, 12}, {1, 1, 2, 1}, {4, 6, 5, 12}};

static std::vector<int> ids_of(const Case& c, std::uint64_t seed)
{
  std::vector<int> ids(c.sequences * c.length);
  const Philox random{seed, 9};
  for (std::size_t i = 0; i < ids.size(); ++i)
    ids[i] = static_cast<int>(random.uniform<double>(i) * static_cast<double>(c.vocabulary));
  return ids;
}

template <class S, class B>
Results results(const Mesh<S, B>& mesh, const Case& c, const std::vector<int>& ids)
{
  Embedding<S, B, double> layer{mesh, c.vocabulary, c.features};
  scatter(integers<double>(c.vocabulary, c.features, 1), layer.table());
  const Pass pass{.sequence = c.length};
  Results r;
  Passes<Embedding<S, B, double>> passes{layer};
  auto& [_, kept, sums] = passes;
  layer.forward(ids_of(c, 99), pass, kept);  // other ids, which leave their lists
  auto& h = layer.forward(ids, pass, kept);
  r.h = gather(h);
  auto dh = h;
  scatter(integers<double>(ids.size(), c.features, 2), dh);
  layer.backward(ids, dh, {pass, sums}, kept);
  r.gradient = gather(layer.table_gradient());
  layer.backward(ids, dh, {pass, sums}, kept, true);
  r.accumulated = gather(layer.table_gradient());
  return r;
}

template <class S>
void equals_serial(const Place<S>& place)
{
  for (const auto& c : cases)
  {
    CAPTURE(place.name(), c.sequences, c.length, c.vocabulary, c.features);
    const auto ids = ids_of(c, 7);
    const auto got =
        on_root<Threads>(place, [&](const auto& mesh) { return results(mesh, c, ids); });
    const auto e = integers<double>(c.vocabulary, c.features, 1);
    const auto dh = integers<double>(ids.size(), c.features, 2);
    auto h = dh, de = e;
    de.fill(0);
    for (std::size_t i = 0; i < ids.size(); ++i)
      for (std::size_t j = 0; j < c.features; ++j)
      {
        h(i, j) = e(static_cast<std::size_t>(ids[i]), j);
        de(static_cast<std::size_t>(ids[i]), j) += dh(i, j);
      }
    CHECK(difference(got.h, h) == 0);
    CHECK(difference(got.gradient, de) == 0);
    for (auto& x : de) x *= 2;
    CHECK(difference(got.accumulated, de) == 0);
  }
}

TEST_CASE("an embedding copies rows of its table, and sums their gradients, on every mesh")
{
  equals_serial(one_rank);
  equals_serial(Place<Summa2D>{6, {.rows = 2, .cols = 3}});
  equals_serial(Place<Summa2DInput>{6, {.rows = 2, .cols = 3}});
  equals_serial(two_two_two);
  equals_serial(cube);
  equals_serial(Place<Grid2D>{4, {.x = 2, .y = 2}});
  equals_serial(Place<Megatron1D>{3, {.p = 3}});
  equals_serial(Place<Megatron1DSequence>{4, {.p = 4}});
}

/// Whether the replicas of a table's gradient are equal, bit by bit, if ids occur several times in
/// a rank's rows and sums depend on the order, even when gradients are added to what is there.
template <class T, class S>
void has_equal_replicas(const Place<S>& place)
{
  CAPTURE(place.name(), element_name<T>());
  const Case c{4, 6, 8, 8};
  const auto ids = ids_of(c, 7);
  require_clear(on_mesh<Threads>(place, [&](const auto& mesh) {
    Embedding<S, Threads, T> layer{mesh, c.vocabulary, c.features};
    using M = typename Embedding<S, Threads, T>::Mesh;
    Passes<Embedding<S, Threads, T>> passes{layer};
    const Pass pass{.sequence = c.length};
    auto dh = passes.forward(ids, pass);
    scatter(uniform<T>(ids.size(), c.features, 2), dh);
    Findings found;
    for (const bool accumulate : {false, true})
    {
      layer.backward(ids, dh, {pass, passes.sums}, passes.kept, accumulate);
      const std::vector<NamedMatrix<const T, M>> gradient{
          {"gradient", std::as_const(layer.table_gradient()).view()}};
      const auto message = message_of<ReplicaError>([&] { check_replicas(gradient); });
      found.check(message.empty(), message);
    }
    return found;
  }));
}

TEST_CASE("replicas of an embedding's gradient are equal where ids occur more than once")
{
  const auto check = [](const auto& place) {
    has_equal_replicas<double>(place);
    has_equal_replicas<bfloat16>(place);
  };
  check(Place<Summa25D>{2, {.q = 1, .d = 2}});
  check(Place<Summa25D>{3, {.q = 1, .d = 3}});
  check(two_two_two);
  check(Place<DataParallel<Megatron1D>>{8, {2, {4}}});
}

/// Whether an embedding that computed other shapes before gives the bits of a new one.
template <class S>
void forgets_former_shapes(const Place<S>& place)
{
  CAPTURE(place.name());
  // As many tokens with another cut, then fewer, then more, then those of the first call again.
  const std::vector<Case> shapes{{6, 4, 11, 7}, {3, 8, 11, 7}, {2, 3, 11, 7},
                                 {9, 8, 11, 7}, {4, 6, 11, 7}, {6, 4, 11, 7}};
  const auto found = on_root<Threads>(place, [&](const auto& mesh) {
    Embedding<S, Threads, double> old{mesh, 11, 7, {.seed = 2}};
    Passes of_old{old};
    std::vector<Global<double>> all;
    for (const auto& c : shapes)
    {
      const Mesh<S, Threads> other{mesh.world(), place.extents};
      Embedding<S, Threads, double> fresh{other, 11, 7, {.seed = 2}};
      const auto ids = ids_of(c, c.length);
      Passes of_fresh{fresh};
      const Pass pass{.sequence = c.length};
      for (auto* passes : {&of_old, &of_fresh})
      {
        auto dh = passes->forward(ids, pass);
        all.push_back(gather(dh));
        scatter(uniform<double>(ids.size(), 7, 2), dh);
        passes->layer.backward(ids, dh, {pass, passes->sums}, passes->kept);
        all.push_back(gather(passes->layer.table_gradient()));
      }
    }
    return all;
  });
  REQUIRE(found.size() == 4 * shapes.size());
  for (std::size_t i = 0; i < found.size(); i += 4)
  {
    CAPTURE(i / 4);
    CHECK(identical(found[i], found[i + 2]));
    CHECK(identical(found[i + 1], found[i + 3]));
  }
}

TEST_CASE("an embedding's results do not depend on the shapes of the calls before")
{
  forgets_former_shapes(Place<Summa2D>{6, {.rows = 2, .cols = 3}});
  forgets_former_shapes(two_two_two);
  forgets_former_shapes(Place<Megatron1DSequence>{4, {.p = 4}});
}

/// The elements that all ranks send in forward and in backward, as counted and by the definition.
template <class S>
std::pair<std::vector<std::uint64_t>, std::vector<std::uint64_t>> words(const Place<S>& place,
                                                                        const Case& c)
{
  using B = Counting<Threads>;
  using Both = std::vector<std::uint64_t>;
  const auto ids = ids_of(c, 7);
  const auto ranks = on_mesh<B>(place, [&](const Mesh<S, B>& mesh) {
    Embedding<S, B, float> layer{mesh, c.vocabulary, c.features};
    auto& traffic = mesh.world().traffic();
    traffic.reset();
    Passes passes{layer};
    const Pass pass{.sequence = c.length};
    auto& h = passes.forward(ids, pass);
    const std::uint64_t forward = traffic.total().elements;
    layer.backward(ids, h, {pass, passes.sums}, passes.kept);
    const std::uint64_t backward = traffic.total().elements - forward;
    const auto* replicas = layer.replicas(passes.kept);
    // This rank receives from each block that it does not hold, once. If replicas along the first
    // axis have terms of the gradient, they exchange none of its rows.
    const auto received = [&](const auto& mine, const auto& theirs, bool mine_is_h) {
      std::uint64_t all = 0;
      std::set<std::pair<std::size_t, std::size_t>> seen;
      const Block m = mine.block(mesh.rank());
      const Block own = theirs.block(mesh.rank());
      for (int r = 0; r < mesh.size(); ++r)
      {
        if (replicas && !mine_is_h && mesh.coordinates(r)[0] != mesh.coordinates()[0]) continue;
        const Block t = theirs.block(r);
        if (t == own || t.valid().size() == 0 || m.valid().size() == 0) continue;
        if (!seen.insert({t.rows.offset, t.cols.offset}).second) continue;
        const std::size_t begin = std::max(m.cols.offset, t.cols.offset);
        const std::size_t end =
            std::min(m.cols.offset + m.cols.valid, t.cols.offset + t.cols.valid);
        if (begin >= end) continue;
        const Range rows = mine_is_h ? m.rows : t.rows, vocab = mine_is_h ? t.rows : m.rows;
        std::set<int> distinct;
        for (std::size_t i = rows.offset; i < rows.offset + rows.valid; ++i)
          if (static_cast<std::size_t>(ids[i]) >= vocab.offset &&
              static_cast<std::size_t>(ids[i]) < vocab.offset + vocab.valid)
            distinct.insert(ids[i]);
        all += distinct.size() * (end - begin);
      }
      return all;
    };
    const auto e = layer.table().view();
    const auto view = h.view();
    const std::size_t n = replicas ? static_cast<std::size_t>(replicas->size()) : 1;
    return Both{forward,
                backward,
                received(view, e, true),
                received(e, view, false),
                2 * (n - 1) * e.padded.size(),
                n};
  });
  Both sent(2), wanted(2);
  std::uint64_t all_reduced = 0;  // by n ranks each
  for (const auto& r : ranks)
  {
    sent[0] += r[0], sent[1] += r[1];
    wanted[0] += r[2], wanted[1] += r[3];
    all_reduced += r[4];
  }
  wanted[1] += all_reduced / ranks[0][5];
  return {sent, wanted};
}

#if !CUBIST_SANITIZED  // counts of elements do not change under a sanitizer
TEST_CASE("an embedding sends each distinct token of a block once")
{
  const auto check = [](const auto& place, const Case& c = cases[1]) {
    const auto [sent, wanted] = words(place, c);
    CAPTURE(place.name(), c.vocabulary);
    CHECK(sent == wanted);
    return sent;
  };
  CHECK(check(Place<Summa2D>{6, {.rows = 2, .cols = 3}})[0] > 0);
  check(two_two_two);
  // An all_reduce of blocks of 3 x 6 elements, and sums of rows inside each layer of ranks.
  CHECK(check(two_two_two, cases[3])[1] > 2 * 4 * 3 * 6);
  check(cube);
  // Every rank has all of dH, so nothing is sent.
  CHECK(check(Place<Megatron1D>{3, {.p = 3}})[1] == 0);
}
#endif

TEST_CASE("a vocabulary is padded so that rows of logits are aligned, where an engine asks for it")
{
  struct Aligning
  {
    using Communicator = Threads::Communicator;
    using Engine = AligningEngine;
  };
  const auto rows = [](auto value, auto backend) {
    return on_ranks<Threads>(1, [&](auto& world) {
      using B = decltype(backend);
      const Mesh<Summa2D, B> mesh{world, {}};
      Embedding<Summa2D, B, decltype(value)> layer{mesh, 13, 4};
      return layer.table().padded().rows();
    })[0];
  };
  CHECK(rows(1.0F, Aligning{}) == 16);
  CHECK(rows(1.0, Aligning{}) == 14);
  CHECK(rows(1.0F, Threads{}) == 13);
}

TEST_CASE("an embedding refuses a token that its vocabulary does not have")
{
  require_clear(on_mesh<Threads>(one_rank, [](const auto& mesh) {
    Embedding<Summa2D, Threads, double> layer{mesh, 4, 3};
    Findings found;
    for (const int id : {4, -1})
    {
      const std::vector<int> ids{0, id};
      const auto message = message_of<ArgumentError>([&] { Passes{layer}.forward(ids, {}); });
      found.check(mentions(message, "for token 1", "vocabulary has 4 tokens", "use 0 to 3"),
                  message);
    }
    return found;
  }));
}

}  // namespace cubist::test::embedding_test
