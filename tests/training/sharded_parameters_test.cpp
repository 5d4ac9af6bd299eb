// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/scheme/data_parallel.hpp"
#include "cubist/training/sharded_parameters.hpp"

#include "faults.hpp"
#include "nn.hpp"
#include "watchdog.hpp"

namespace cubist::test::sharded_parameters_test
{

using S = DataParallel<Summa2D>;
using B = Faulty<TestBackend>;
using M = Mesh<S, B>;

TEST_CASE("each replica of a parameter has a part of the sum of their gradients")
{
  const Place<S> two_ranks{2, {.data = 2, .scheme = {.q = 1}}};
  require_clear(on_mesh<B>(two_ranks, [](const M& mesh) {
    const auto gradients = std::make_shared<Gradients<double, M>>(mesh);
    DistMatrix<double, S::Weight, M> w{mesh, {4, 1}};
    auto dw = w;
    const Parameters<double, M> parameters{{"weight", w.view(), dw.view(), gradients}};
    detail::ShardedParameters<double, M> sharded{parameters};
    sharded.begin();
    dw.generate([&](std::size_t, std::size_t) { return mesh.rank() + 1.0; });
    sharded.sum(mesh, Axes<Data>{}, dw.padded());
    sharded.finish();
    Findings found;
    const auto sums = sharded.parts()[0].gradient.valid();
    found.check(sums.rows() == 2, "a part of ", sums.rows(), " rows");
    for (std::size_t i = 0; i < sums.rows(); ++i)
      found.check(sums(i, 0) == 3, "row ", i, " of the part is ", sums(i, 0));
    return found;
  }));
}

const Place<S> three_ranks{3, {.data = 3, .scheme = {.q = 1}}};

/// The axes along which a layer sums its bias's gradient.
using BiasReplicas = PendingAxes<RowVector<S::Output>, S::Output::RowAxes>::type;

/// A rank's gradient in a backward pass: an integer, so that sums are exact.
static double gradient(int backward, int rank, std::size_t i, std::size_t j)
{
  return static_cast<double>(backward * 1000 + (rank + 1) * 100) + static_cast<double>(10 * i + j);
}

TEST_CASE(
    "of several backward passes the last one counts, however late a rank is, and after an error")
{
  using namespace std::chrono_literals;
  const Watchdog watchdog;
  if (!fits(three_ranks)) return;
  constexpr int backwards = 3;
  // A rank that starts a sum late leaves the others' sums pending when the next backward pass
  // begins.
  for (const auto collective : {CallKind::reduce_scatter, CallKind::barrier})
    for (const std::size_t bytes : {0U, 65'536U})
    {
      CAPTURE(bytes, to_string(collective));
      const With late{
          {{.kind = Fault::Kind::delay, .rank = 1, .collective = collective, .delay = 20ms}}};
      require_clear(on_mesh<B>(three_ranks, [&](const M& mesh) {
        Findings found;
        const auto gradients = std::make_shared<Gradients<double, M>>(mesh);
        gradients->buckets().set({.bytes = bytes});
        DistMatrix<double, S::Weight, M> w{mesh, {7, 5}};
        DistMatrix<double, RowVector<S::Output>, M> b{mesh, {1, 5}};
        auto dw = w;
        auto db = b;
        detail::ShardedParameters<double, M> sharded{
            {{"weight", w.view(), dw.view(), gradients}, {"bias", b.view(), db.view(), gradients}}};
        for (int n = 0; n < backwards; ++n)
        {
          const auto mine = [n, rank = mesh.rank()](std::size_t i, std::size_t j) {
            return gradient(n, rank, i, j);
          };
          sharded.begin();
          dw.generate(mine);
          sharded.sum(mesh, Axes<Data>{}, dw.padded());
          db.generate(mine);
          sharded.sum(mesh, BiasReplicas{}, db.padded());
          if (n != 1) sharded.finish();  // an error interrupts the second one
        }
        for (const auto& part : sharded.parts())
        {
          const Block block = part.gradient.block(mesh.rank());
          const auto sums = part.gradient.valid();
          for (std::size_t i = 0; i < sums.rows(); ++i)
            for (std::size_t j = 0; j < sums.cols(); ++j)
            {
              double wanted = 0;
              for (int rank = 0; rank < 3; ++rank)
                wanted +=
                    gradient(backwards - 1, rank, block.rows.offset + i, block.cols.offset + j);
              found.check(sums(i, j) == wanted, part.name, " at ", i, ", ", j, ": ", sums(i, j),
                          ", not ", wanted);
            }
        }
        return found;
      }));
    }
}

}  // namespace cubist::test::sharded_parameters_test
