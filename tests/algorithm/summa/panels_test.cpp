// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/algorithm/summa/panels.hpp"
#include "cubist/engine/host/engine.hpp"

#include "ranks.hpp"

namespace cubist::test::algorithm_summa_panels_test
{

using cubist::detail::PanelCut;

TEST_CASE("A cut into panels covers every owner's part once, all owners in turn")
{
  for (const auto& c : {PanelCut{1, 1, 10, 3}, PanelCut{2, 2, 7, 7}, PanelCut{2, 4, 5, 2},
                        PanelCut{3, 6, 4, 4}, PanelCut{2, 6, 1, 256}, PanelCut{4, 4, 600, 256}})
  {
    CAPTURE(c.owners, c.blocks, c.block, c.depth);
    std::vector<std::vector<int>> taken(c.owners, std::vector<int>(c.blocks / c.owners * c.block));
    for (std::size_t t = 0; t < c.count(); ++t)
    {
      REQUIRE(c.size(t) > 0);
      REQUIRE(c.size(t) <= c.depth);
      auto& part = taken[static_cast<std::size_t>(c.owner(t))];
      for (std::size_t i = 0; i < c.size(t); ++i) ++part[c.offset(t) + i];
      if (t + c.blocks / c.owners < c.count() && c.owners > 1)
        CHECK(c.owner(t) != c.owner(t + c.blocks / c.owners));
    }
    for (const auto& part : taken)
      CHECK(std::all_of(part.begin(), part.end(), [](int n) { return n == 1; }));
  }
}

TEST_CASE("A cut of no indices has one empty panel of each block, so that calls still match")
{
  const PanelCut c{2, 4, 0, 0};
  CHECK(c.count() == 4);
  for (std::size_t t = 0; t < 4; ++t) CHECK(c.size(t) == 0);
}

using World = TestBackend::Communicator;
using Buffers = cubist::detail::PanelBuffers<double, HostEngine>;
using Broadcast = cubist::detail::BroadcastPanels<double, World, HostEngine>;
using Reduce = cubist::detail::ReducePanels<double, World, HostEngine>;

TEST_CASE("Panels have at least one buffer, and at most as many as can be in flight")
{
  CHECK(Buffers({2, 3}, Buffers::most).count() == Buffers::most);
  for (const std::size_t count : {std::size_t{0}, Buffers::most + 1})
    CHECK(mentions(message_of<ArgumentError>([&] {
                     const Buffers refused({2, 3}, count);
                   }),
                   "use a number in that range"));
}

constexpr Shape panel{3, 2};
constexpr int ranks = 3;
constexpr std::size_t panels = 9;

/// Each rank has three panels; ranks take turns.
constexpr PanelCut cut{ranks, ranks, 6, 2};

static int owner(std::size_t t) { return static_cast<int>(t) % ranks; }

static double element(int rank, std::size_t t, std::size_t i, std::size_t j)
{
  return 1000.0 * rank + 100.0 * static_cast<double>(t) + static_cast<double>(10 * i + j);
}

/// The panels of one rank, side by side (rows far apart) or one below the other.
struct Mine
{
  explicit Mine(bool side_by_side, bool transposed)
      : strided{side_by_side},
        stored_transposed{transposed},
        data(3 * panel.size()),
        all{data.data(), shape()}
  {
  }

  [[nodiscard]] Shape shape() const { return strided ? Shape{3, 6} : Shape{6, 3}; }
  template <class T = double>
  [[nodiscard]] cubist::detail::Panels<T> panels() const
  {
    // Panels of a matrix's columns are the same blocks in memory as panels of its transpose's rows.
    if (stored_transposed)
      return {{all, Op::transpose}, strided ? Dimension::rows : Dimension::cols, cut};
    return {Operand<T>{all}, strided ? Dimension::cols : Dimension::rows, cut};
  }

  bool strided;
  bool stored_transposed;
  std::vector<double> data;
  MatrixView<double> all;
};

template <class V, class F>
bool all_are(V view, F f)
{
  for (std::size_t i = 0; i < view.rows(); ++i)
    for (std::size_t j = 0; j < view.cols(); ++j)
      if (view(i, j) != f(i, j)) return false;
  return view.size() == panel.size();
}

TEST_CASE("Panels are broadcast by their owners, some ahead of the one in use")
{
  if (!fits(ranks)) return;
  const std::size_t buffered = GENERATE(2U, 4U, 20U);
  const bool stored_transposed = GENERATE(false, true);
  for (const bool strided : {false, true})
    require_clear(on_ranks<TestBackend>(ranks, [&](World& world) {
      const HostEngine engine;
      Buffers buffers{panel, buffered};
      const Mine mine{strided, stored_transposed};
      for (std::size_t t = 0; t < panels; ++t)
        if (owner(t) == world.rank())
          engine.map_indexed(mine.panels().panel(t).stored(), [&, t](std::size_t i, std::size_t j) {
            return element(world.rank(), t, i, j);
          });
      Findings found;
      for (int repeat = 0; repeat < 3; ++repeat)
      {
        const auto source = mine.panels<const double>();
        Broadcast broadcast{world, engine, buffers, source};
        if (repeat == 1) broadcast.start();
        for (std::size_t t = 0; t < panels; ++t)
        {
          const auto here = broadcast.broadcast(t).stored();
          found.check(all_are(here, [&](auto i, auto j) { return element(owner(t), t, i, j); }),
                      "panel ", t, " of rank ", owner(t), " on rank ", world.rank());
          found.check((here.data() == source.panel(t).stored().data()) ==
                          (owner(t) == world.rank()),
                      "only the owner reads panel ", t, " in place");
        }
        broadcast.finish();
      }
      return found;
    }));
}

TEST_CASE("Panels are summed to their owners, plus beta times what was there")
{
  if (!fits(ranks)) return;
  const std::size_t buffered = GENERATE(2U, 4U);
  const bool stored_transposed = GENERATE(false, true);
  for (const bool strided : {false, true})
    for (const double beta : {0.0, 1.0, -2.0})
      require_clear(on_ranks<TestBackend>(ranks, [&](World& world) {
        const HostEngine engine;
        Buffers parts{panel, buffered};
        Buffers sums{panel, buffered};
        const Mine mine{strided, stored_transposed};
        const double before = beta == 0 ? std::numeric_limits<double>::quiet_NaN() : 5;
        engine.fill(mine.all, before);

        const auto target = mine.panels();
        Reduce reduce{world, engine, parts, sums, beta, target};
        for (std::size_t t = 0; t < panels; ++t)
        {
          engine.map_indexed(reduce.part(t).stored(), [&](std::size_t i, std::size_t j) {
            return element(world.rank(), t, i, j);
          });
          reduce.reduce(t);
        }
        reduce.finish();

        Findings found;
        for (std::size_t t = 0; t < panels; ++t)
        {
          const auto sum = [&](std::size_t i, std::size_t j) {
            double s = beta == 0 ? 0 : beta * before;
            for (int r = 0; r < ranks; ++r) s += element(r, t, i, j);
            return s;
          };
          if (owner(t) == world.rank())
            found.check(all_are(target.panel(t).stored(), sum), "panel ", t, " on its owner, beta ",
                        beta);
        }
        return found;
      }));
}

TEST_CASE("sums of panels are bit-identical for any number of buffers, beginning after the owner")
{
  if (!fits(ranks)) return;
  // Magnitudes differ so much that every order of summation rounds differently.
  const auto rough = [](int rank, std::size_t t, std::size_t i, std::size_t j) {
    const auto element = 7 * t + 3 * i + j;
    const auto exponent = static_cast<int>((element + static_cast<std::size_t>(rank) * 5) % 23);
    return ((static_cast<std::size_t>(rank) + element) % 2 == 0 ? 1.0 : -1.0) *
           std::ldexp(1 / 3.0, 2 * exponent);
  };
  for (const std::size_t buffered : {1U, 2U, 20U})
    for (const bool strided : {false, true})
      require_clear(on_ranks<TestBackend>(ranks, [&](World& world) {
        const HostEngine engine;
        Buffers parts{panel, buffered};
        Buffers sums{panel, buffered};
        const Mine mine{strided, false};
        const auto target = mine.panels();
        Reduce reduce{world, engine, parts, sums, 0.0, target};
        for (std::size_t t = 0; t < panels; ++t)
        {
          engine.map_indexed(reduce.part(t).stored(), [&, t](std::size_t i, std::size_t j) {
            return rough(world.rank(), t, i, j);
          });
          reduce.reduce(t);
        }
        reduce.finish();
        Findings found;
        for (std::size_t t = 0; t < panels; ++t)
          if (owner(t) == world.rank())
            found.check(all_are(target.panel(t).stored(),
                                [&](std::size_t i, std::size_t j) {
                                  double s = rough((owner(t) + 1) % ranks, t, i, j);
                                  for (int r = 2; r <= ranks; ++r)
                                    s += rough((owner(t) + r) % ranks, t, i, j);
                                  return s;
                                }),
                        "panel ", t, " in ", buffered, " buffers");
        return found;
      }));
}

}  // namespace cubist::test::algorithm_summa_panels_test
