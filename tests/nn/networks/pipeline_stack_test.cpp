// SPDX-License-Identifier: BSD-3-Clause
// What stages send, and how much they keep.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "cubist/backend/threads.hpp"
#include "cubist/core/error.hpp"
#include "cubist/nn/networks/pipelined_mlp.hpp"
#include "cubist/testing/counting.hpp"

#include "catch.hpp"
#include "counted_memory.hpp"
#include "nn.hpp"

namespace cubist::test::pipeline_stack_test
{

namespace
{

using P = Pipeline<Summa2D>;

const std::vector<std::size_t> sizes{5, 7, 6, 9, 4};

/// The layers of each stage, so that activations of 7 and of 9 columns are sent.
const PipelineOptions three_stages{.micro_batches = 4, .layers = {1, 2, 1}};

/// One step of `rows` samples.
template <class B>
void step(MLP<P, B, double>& mlp, const typename MLP<P, B, double>::Input& x)
{
  (void)mlp.compute_gradients(x, classes(x.rows(), sizes.back()));
}

}  // namespace

TEST_CASE("a stage sends activations to the next one, and gradients to the one before")
{
  using B = Counting<Threads>;
  for (const std::size_t rows : {16U, 14U, 3U})
  {
    const auto sent = on_ranks<B>(3, [&](B::Communicator& world) {
      const Mesh<P, B> mesh{world, {.stages = 3}};
      MLP<P, B, double> mlp{mesh, sizes, {.pipeline = three_stages}};
      const auto x = scatter<P::Input>(mesh, uniform<double>(rows, sizes.front(), 1));
      world.traffic().reset();
      step(mlp, x);
      return std::pair{world.traffic()[Collective::send], world.traffic().total().elements};
    });
    CAPTURE(rows);
    const std::uint64_t messages = std::min<std::uint64_t>(rows, 4);
    CHECK(sent[0].first == Sent{messages, rows * 7});
    CHECK(sent[1].first == Sent{2 * messages, rows * (7 + 9)});
    CHECK(sent[2].first == Sent{messages, rows * 9});
    // And the loss: from the last stage, to the first, to the second.
    CHECK(sent[0].second == rows * 7 + 1);
    CHECK(sent[1].second == rows * (7 + 9));
    CHECK(sent[2].second == rows * 9 + 1);
  }
}

TEST_CASE("a frozen stage at the front has no backward, and gets no gradient")
{
  using B = Counting<Threads>;
  const auto sent = on_ranks<B>(3, [&](B::Communicator& world) {
    const Mesh<P, B> mesh{world, {.stages = 3}};
    MLP<P, B, double> mlp{mesh, sizes, {.frozen = {"layers.0.*"}, .pipeline = three_stages}};
    const auto x = scatter<P::Input>(mesh, uniform<double>(16, sizes.front(), 1));
    world.traffic().reset();
    step(mlp, x);
    return world.traffic()[Collective::send].elements;
  });
  CHECK(sent == std::vector<std::uint64_t>{16 * 7, 16 * 9, 16 * 9});
}

TEST_CASE("a stage that waits for one which has returned names it")
{
  const auto messages = on_ranks<Threads>(2, [](Threads::Communicator& world) {
    const Mesh<P, Threads> mesh{world, {.stages = 2}};
    MLP<P, Threads, double> mlp{mesh, sizes};
    const auto x = scatter<P::Input>(mesh, uniform<double>(4, sizes.front(), 1));
    if (world.rank() == 1) return std::string{};
    return message_of<DeadlockError>([&] { step(mlp, x); });
  });
  CHECK(mentions(messages[0], "rank 0", "1", "returned"));
}

TEST_CASE("a stage that waits for one which has failed names it")
{
  std::string of_peer;
  const std::string first = message_of<Error>([&] {
    launch<Threads>({.ranks = 2}, [&](Threads::Communicator& world) {
      const Mesh<P, Threads> mesh{world, {.stages = 2}};
      MLP<P, Threads, double> mlp{mesh, sizes};
      const std::string message = message_of<PeerFailed>([&] {
        const auto x = scatter<P::Input>(mesh, uniform<double>(4, sizes.front(), 1));
        if (world.rank() == 1) throw DataError{"got no data, so there is no step; give some"};
        step(mlp, x);
      });
      of_peer = message;  // of rank 0 alone
    });
  });
  CHECK(mentions(first, "rank 1", "got no data"));
  CHECK(mentions(of_peer, "rank 1"));
}

TEST_CASE("memory does not grow with the number of micro-batches")
{
  using B = CountedThreads;
  // What the first step allocates, and what later ones do, on each stage.
  const auto allocated = [](std::size_t micro_batches) {
    return on_ranks<B>(3, [&](B::Communicator& world) {
      const Mesh<P, B> mesh{world, {.stages = 3}};
      auto pipeline = three_stages;
      pipeline.micro_batches = micro_batches;
      MLP<P, B, double> mlp{mesh, sizes, {.pipeline = pipeline}};
      const auto x = scatter<P::Input>(mesh, uniform<double>(4 * micro_batches, sizes.front(), 1));
      const std::size_t before = counted_bytes.now;
      step(mlp, x);
      const std::size_t first = counted_bytes.now;
      step(mlp, x);
      return std::pair{first - before, counted_bytes.now - first};
    });
  };
  const auto few = allocated(3);
  const auto many = allocated(12);
  for (std::size_t s = 0; s < 3; ++s)
  {
    CAPTURE(s);
    CHECK(few[s].first > 0);
    CHECK(many[s].first == few[s].first);
    CHECK(many[s].second == 0);
  }
}

}  // namespace cubist::test::pipeline_stack_test
