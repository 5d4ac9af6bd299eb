// SPDX-License-Identifier: BSD-3-Clause
// The deprecated names of all layers: each stands for the new one.
#include <array>
#include <cstddef>
#include <limits>
#include <type_traits>

#include "cubist/backend/counting.hpp"
#include "cubist/backend/faulty.hpp"
#include "cubist/dist/dist_batch.hpp"
#include "cubist/dist/sum_partial.hpp"
#include "cubist/mesh/batch_mesh.hpp"
#include "cubist/nn/activation.hpp"
#include "cubist/nn/activations.hpp"
#include "cubist/nn/dense.hpp"
#include "cubist/nn/dropout.hpp"
#include "cubist/nn/kernels/softmax.hpp"
#include "cubist/nn/linear.hpp"
#include "cubist/nn/loss.hpp"
#include "cubist/nn/mlp.hpp"
#include "cubist/nn/optimizer.hpp"
#include "cubist/nn/random.hpp"
#include "cubist/nn/transformer/next_token_loss.hpp"
#include "cubist/scheme/summa2d.hpp"
#include "cubist/training/numerics_monitor.hpp"

#include "catch.hpp"
#include "nn.hpp"

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

namespace cubist::test::deprecated_names_test
{

static_assert(std::is_same_v<Watch, NumericsMonitor>);
static_assert(std::is_same_v<WatchOptions, NumericsMonitorOptions>);
static_assert(
    std::is_same_v<Activations<Summa2D, Threads, float>, NetworkMatrix<Summa2D, Threads, float>>);
static_assert(Method::fastest == Method::automatic && Method::owner_computes == Method::direct);

TEST_CASE("deprecated functions do what the new ones do")
{
  require_clear(on_ranks<Threads>(4, [](Threads::Communicator& world) {
    Findings found;
    const std::array<int, 1> mine{world.rank()};
    auto window = world.lend(mine);
    for (int r = 0; r < 4; ++r) found.check(window[r][0] == r, "the block of rank ", r);
    window.close();
    window.wait();

    const Mesh<Summa2D, Threads> mesh{world, {.rows = 2, .cols = 2}};
    using M = AxisMesh<Summa2D::Axes, Threads>;
    DistMatrix<double, Layout<Rows<Row>, Cols<>, Partial<Col>>, M> parts{mesh, {4, 4}};
    DistMatrix<double, Layout<Rows<Row>, Cols<>>, M> sum{mesh, {4, 4}};
    parts.generate([](std::size_t, std::size_t) { return 1.5; });
    complete(parts, sum);
    found.check(sum.valid()(1, 3) == 3, "the sum of two parts is ", sum.valid()(1, 3));

    using Groups = AxisBatchMesh<Summa2D::Axes, Threads>;
    const Groups groups = BatchMesh<Summa2D, Threads>{world, 2, {.rows = 1, .cols = 2}};
    const DistBatch<double, Summa2D::Input, Groups> batch{groups, 5, {2, 2}};
    found.check(batch.of_group(1).offset == 3 && batch.of_group(1).size == 2, "another range");

    const NumericsMonitor monitor{{.finite_every = 1}};
    const Parameters<double, M> none;
    bool refused = false;
    try
    {
      monitor.look(1, std::numeric_limits<double>::quiet_NaN(), none);
    }
    catch (const NumericError&)
    {
      refused = true;
    }
    found.check(refused, "a loss of NaN is accepted");
    return found;
  }));
}

}  // namespace cubist::test::deprecated_names_test

#pragma GCC diagnostic pop
