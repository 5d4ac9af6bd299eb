// SPDX-License-Identifier: BSD-3-Clause
// Stages on the NCCL backend, whose messages travel in groups, with the fake of CUDA and NCCL:
// random delays reveal missing synchronization, and groups that do not correspond hang.

#include "cubist/backend/nccl.hpp"
#include "cubist/nn/transformer/pipelined_transformer.hpp"
#include "cubist/scheme/megatron1d.hpp"

#include "catch.hpp"
#include "fake_engine.hpp"
#include "sanitized.hpp"
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

TEST_CASE("several pieces of layers a stage are refused on NCCL")
{
  using P = Pipeline<Megatron1D>;
  const auto messages = on_ranks<FakeNccl>(1, [](FakeNccl::Communicator& world) {
    const AxisMesh<P::Axes, FakeNccl> mesh{world, {1, 1}, 1};
    return message_of<ArgumentError>([&] { detail::StageLinks links{mesh, 2, 0}; });
  });
  CHECK(mentions(messages[0], "2 pieces", "NCCL", "use 1 piece"));
}

}  // namespace cubist::test::backend_nccl_pipeline_test
