// SPDX-License-Identifier: BSD-3-Clause
#include <cstddef>
#include <limits>
#include <vector>

#include "cubist/backend/threads.hpp"
#include "cubist/engine/host_engine.hpp"
#include "cubist/scheme/panels.hpp"

#include "catch.hpp"
#include "ranks.hpp"

using namespace cubist;
using namespace cubist::test;

namespace
{

using World = Threads::Communicator;
using Buffers = cubist::detail::PanelBuffers<double, HostEngine>;
using Broadcast = cubist::detail::BroadcastPanels<double, World, HostEngine>;
using Reduce = cubist::detail::ReducePanels<double, World, HostEngine>;

constexpr Shape panel{3, 2};
constexpr int ranks = 3;
constexpr std::size_t panels = 7;

int owner(std::size_t t) { return static_cast<int>(t) % ranks; }

double element(int rank, std::size_t t, std::size_t i, std::size_t j)
{
  return 1000.0 * rank + 100.0 * static_cast<double>(t) + static_cast<double>(10 * i + j);
}

/// The panels of one rank, side by side (rows far apart) or one below the other.
struct Mine
{
  explicit Mine(bool side_by_side) : strided{side_by_side}, data(panels * panel.size()) {}

  [[nodiscard]] MatrixView<double> operator[](std::size_t t)
  {
    const MatrixView<double> all{data.data(), strided ? Shape{panel.rows, panels * panel.cols}
                                                      : Shape{panels * panel.rows, panel.cols}};
    return strided ? all.block(0, t * panel.cols, panel) : all.block(t * panel.rows, 0, panel);
  }

  bool strided;
  std::vector<double> data;
};

template <class V, class F>
bool all_are(V view, F f)
{
  for (std::size_t i = 0; i < view.rows(); ++i)
    for (std::size_t j = 0; j < view.cols(); ++j)
      if (view(i, j) != f(i, j)) return false;
  return view.shape() == panel;
}

}  // namespace

TEST_CASE("Broadcast panels come from their owners, one ahead of the other")
{
  for (const bool strided : {false, true})
    require_clear(on_ranks<Threads>(ranks, [&](World& world) {
      const HostEngine engine;
      Buffers buffers{panel};
      Mine mine{strided};
      for (std::size_t t = 0; t < panels; ++t)
        engine.map_indexed(mine[t], [&, t](std::size_t i, std::size_t j) {
          return element(world.rank(), t, i, j);
        });
      Findings found;
      for (int repeat = 0; repeat < 3; ++repeat)
      {
        Broadcast broadcast{world, engine, buffers};
        broadcast.start(0, owner(0), mine[0]);
        for (std::size_t t = 0; t < panels; ++t)
        {
          if (t + 1 < panels) broadcast.start(t + 1, owner(t + 1), mine[t + 1]);
          const auto here = broadcast[t];
          found.check(all_are(here, [&](auto i, auto j) { return element(owner(t), t, i, j); }),
                      "panel ", t, " of rank ", owner(t), " on rank ", world.rank());
          found.check((here.data() == mine[t].data()) == (owner(t) == world.rank()),
                      "the owner, and nobody else, reads panel ", t, " where it lies");
        }
        broadcast.finish();
      }
      return found;
    }));
}

TEST_CASE("Reduced panels are summed to their owners, plus beta times what was there")
{
  for (const bool strided : {false, true})
    for (const double beta : {0.0, 1.0, -2.0})
      require_clear(on_ranks<Threads>(ranks, [&](World& world) {
        const HostEngine engine;
        Buffers parts{panel};
        Buffers sums{panel};
        Mine mine{strided};
        const double before = beta == 0 ? std::numeric_limits<double>::quiet_NaN() : 5;
        for (std::size_t t = 0; t < panels; ++t) engine.fill(mine[t], before);

        Reduce reduce{world, engine, parts, sums, beta};
        for (std::size_t t = 0; t < panels; ++t)
        {
          engine.map_indexed(reduce[t], [&](std::size_t i, std::size_t j) {
            return element(world.rank(), t, i, j);
          });
          reduce.start(t, owner(t), mine[t]);
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
            found.check(all_are(mine[t], sum), "panel ", t, " on its owner, beta ", beta);
          else if (beta != 0)
            found.check(all_are(mine[t], [&](auto, auto) { return before; }), "panel ", t,
                        " changed on rank ", world.rank());
        }
        return found;
      }));
}
