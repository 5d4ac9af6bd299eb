// SPDX-License-Identifier: BSD-3-Clause
// Tests what stages send, and how much they keep.

#include "cubist/nn/pipeline/pipelined_mlp.hpp"
#include "cubist/nn/transformer/pipelined_transformer.hpp"

#include "counted_memory.hpp"
#include "nn.hpp"

namespace cubist::test::pipeline_stack_test
{

using P = Pipeline<Summa2D>;

const std::vector<std::size_t> sizes{5, 7, 6, 9, 4};

/// Three stages, cut so that activations with 7 and with 9 columns are sent.
const PipelineOptions three_stages{.micro_batches = 4, .layers = {1, 2, 1}};

/// Takes one step with `rows` samples.
template <class B>
void step(MLP<P, B, double>& mlp, const typename MLP<P, B, double>::Input& x)
{
  (void)mlp.compute_gradients(x, classes(x.rows(), sizes.back()));
}

TEST_CASE("a stage sends activations to the next one, and gradients to the one before")
{
  using B = Counting<Threads>;
  for (const std::size_t rows : {16U, 14U, 5U})
  {
    const auto sent = on_ranks<B>(3, [&](B::Communicator& world) {
      const Mesh<P, B> mesh{world, {.stages = 3}};
      MLP<P, B, double> mlp{mesh, sizes, {.pipeline = three_stages}};
      const auto x = scatter<P::Input>(mesh, uniform<double>(rows, sizes.front(), 1));
      world.traffic().reset();
      step(mlp, x);
      return std::pair{world.traffic()[CallKind::send], world.traffic().total().elements};
    });
    CAPTURE(rows);
    constexpr std::uint64_t messages = 4;
    CHECK(sent[0].first == Sent{messages, rows * 7});
    CHECK(sent[1].first == Sent{2 * messages, rows * (7 + 9)});
    CHECK(sent[2].first == Sent{messages, rows * 9});
    // The loss also goes from the last stage to the first, and from there to the second.
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
    return world.traffic()[CallKind::send].elements;
  });
  CHECK(sent == std::vector<std::uint64_t>{16 * 7, 16 * 9, 16 * 9});
}

TEST_CASE("a stage that waits for one which has returned names it")
{
  const auto messages = on_ranks<Threads>(2, [](Threads::Communicator& world) {
    const Mesh<P, Threads> mesh{world, {.stages = 2}};
    MLP<P, Threads, double> mlp{mesh, sizes};
    const auto x = scatter<P::Input>(mesh, uniform<double>(4, sizes.front(), 1));
    step(mlp, x);
    if (world.rank() == 1) return std::string{};
    return message_of<DeadlockError>([&] { step(mlp, x); });
  });
  CHECK(mentions(messages[0], "rank 0", "1", "returned",
                 "in the backward pass of micro-batch 0 on stage 0 of 2, whose gradient comes from "
                 "stage 1"));
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
        step(mlp, x);
        if (world.rank() == 1) throw DataError{"got no data, so there is no step; give some"};
        step(mlp, x);
      });
      of_peer = message;  // only rank 0's message
    });
  });
  CHECK(mentions(first, "rank 1", "got no data"));
  CHECK(mentions(of_peer, "rank 1", "on stage 0 of 2"));
}

TEST_CASE(
    "ranks of a stage whose labels end at different lengths get the error of labels that differ")
{
  using B = CountedThreads;
  const auto messages = on_ranks<B>(4, [](B::Communicator& world) {
    const Mesh<P, B> mesh{world, {.stages = 2, .scheme = {.rows = 2, .cols = 1}}};
    Transformer<P, B, double> model{
        mesh, {.vocabulary = 7, .positions = 4, .width = 4, .layers = 2, .heads = 1}};
    const std::vector ids{1, 2, 3, 4, 5, 6, 0, 1};
    auto labels = ids;
    if (world.rank() == 3) labels[3] = labels[7] = -100;
    return message_of<Error>(
        [&] { static_cast<void>(double{model.compute_gradients(ids, labels, 4)}); });
  });
  for (const int of_last_stage : {2, 3})
    CHECK(mentions(messages[static_cast<std::size_t>(of_last_stage)],
                   "got labels that differ between ranks"));
  for (const int of_first_stage : {0, 1})
    CHECK(mentions(messages[static_cast<std::size_t>(of_first_stage)], "returned"));
}

TEST_CASE("a stage keeps activations of no more micro-batches than there are stages after it")
{
  using B = CountedThreads;
  constexpr std::size_t stages = 3;
  // What a step with m micro-batches of equal size allocates on each stage; a second step allocates
  // nothing.
  const auto check = [&](auto allocated) {
    std::vector<std::vector<std::size_t>> all{{}};  // for 0, 1, … micro-batches
    for (const std::size_t m : {1U, 2U, 3U, 4U, 12U})
    {
      all.resize(m + 1);
      for (const auto& [first, second] : allocated(m))
      {
        all[m].push_back(first);
        CHECK(second == 0);
      }
    }
    for (std::size_t s = 0; s < stages; ++s)
    {
      CAPTURE(s);
      // X of one more micro-batch arrives early.
      const std::size_t most = stages - s + 1;
      for (std::size_t m = 2; m <= stages - s; ++m) CHECK(all[m][s] > all[m - 1][s]);
      for (const std::size_t m : {3U, 4U, 12U})
        if (m > most) CHECK(all[m][s] == all[most][s]);
    }
  };
  const auto measured = [](auto compute) {
    const std::size_t before = counted_bytes.now;
    compute();
    const std::size_t first = counted_bytes.now;
    compute();
    return std::pair{first - before, counted_bytes.now - first};
  };
  check([&](std::size_t m) {
    return on_ranks<B>(stages, [&](B::Communicator& world) {
      const Mesh<P, B> mesh{world, {.stages = stages}};
      MLP<P, B, double> mlp{
          mesh, sizes, {.pipeline = {.micro_batches = m, .layers = three_stages.layers}}};
      const auto x = scatter<P::Input>(mesh, uniform<double>(4 * m, sizes.front(), 1));
      return measured([&] { step(mlp, x); });
    });
  });
  check([&](std::size_t m) {
    return on_ranks<B>(stages, [&](B::Communicator& world) {
      const Mesh<P, B> mesh{world, {.stages = stages}};
      const TransformerConfig config{
          .vocabulary = 7, .positions = 4, .width = 6, .layers = 3, .heads = 2};
      Transformer<P, B, double> model{mesh, config, {.pipeline = {.micro_batches = m}}};
      const std::vector<int> ids(2 * m * 4, 3);
      return measured([&] { model.compute_gradients(ids, 4); });
    });
  });
}

}  // namespace cubist::test::pipeline_stack_test
