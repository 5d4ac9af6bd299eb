// SPDX-License-Identifier: BSD-3-Clause
// Stages on the NCCL backend, whose messages travel in groups. On the mock of CUDA and NCCL, random
// delays reveal missing synchronization, and groups that do not correspond hang.

#include "cubist/backend/nccl.hpp"
#include "cubist/nn/transformer/pipelined_transformer.hpp"
#include "cubist/training/clip_gradients.hpp"

#include "fake_engine.hpp"
#include "transformer_reference.hpp"
#include "watchdog.hpp"

namespace cubist::test::backend_nccl_pipeline_test
{

TEST_CASE("transformers in stages on NCCL are those of Hugging Face and PyTorch")
{
  const Watchdog watchdog;
  using P = Pipeline<Megatron1D>;
  require_clear(on_ranks<FakeNccl>(4, [&](FakeNccl::Communicator& world) {
    const Mesh<P, FakeNccl> mesh{world, {.stages = 2, .scheme = {2}}};
    return check_reference<P, FakeNccl, double>(mesh, gpt2_tiny(), Compared::model,
                                                {.pipeline = {.micro_batches = 4}});
  }));
}

TEST_CASE("stages of several pieces on NCCL train as one rank does")
{
  const Watchdog watchdog;
  using P = Pipeline<Megatron1D>;
  constexpr std::size_t sequences = 12, length = 4;
  // The losses and the gradients' norms of some steps.
  const auto train = [](int stages, int ranks, const PipelineOptions& pipeline) {
    return on_ranks<FakeNccl>(stages * ranks, [&](FakeNccl::Communicator& world) {
      const Mesh<P, FakeNccl> mesh{world, {.stages = stages, .scheme = {ranks}}};
      const TransformerConfig config{
          .vocabulary = 11, .positions = length, .width = 8, .layers = 6, .heads = 2};
      Transformer<P, FakeNccl, double> model{mesh, config, {.seed = 3, .pipeline = pipeline}};
      const auto parameters = model.parameters();
      AdamW optimizer{parameters, {.learning_rate = 0.02}};
      std::vector<double> found;
      for (std::size_t step = 0; step < 2; ++step)
      {
        std::vector<int> ids;
        for (std::size_t i = 0; i < sequences * length; ++i)
          ids.push_back(static_cast<int>((i * i + step * i + 3 * step) % 11));
        found.push_back(model.compute_gradients(ids, length));
        found.push_back(gradient_norm(parameters));
        checked_step(optimizer, parameters);
      }
      found.push_back(model.evaluate(std::vector<int>(sequences * length, 5), length));
      return found;
    })[0];
  };
  const auto wanted = train(1, 1, {.micro_batches = 1});
  // As many micro-batches as stages, and more.
  for (const std::size_t m : {2U, 4U, 6U})
    CHECK(deviation(train(2, 1, {.micro_batches = m, .pieces = 2}), wanted) < 1e-12);
  CHECK(deviation(train(2, 2, {.micro_batches = 6, .pieces = 3}), wanted) < 1e-12);
  CHECK(deviation(train(3, 1, {.micro_batches = 3, .pieces = 2}), wanted) < 1e-12);
  CHECK(deviation(train(3, 1, {.micro_batches = 6, .pieces = 2}), wanted) < 1e-12);
}

}  // namespace cubist::test::backend_nccl_pipeline_test
