// SPDX-License-Identifier: BSD-3-Clause
// Transformers on the NCCL backend. They run on the mock of CUDA and NCCL, whose random delays
// reveal missing synchronization. In quick tests only one of the two trains.

#include "cubist/backend/nccl.hpp"

#include "fake_engine.hpp"
#include "transformer_reference.hpp"

namespace cubist::test::backend_nccl_transformer_test
{

TEST_CASE("transformers on NCCL are those of Hugging Face and PyTorch")
{
  for (const auto* model : {&gpt2_tiny(), &llama_tiny()})
  {
    if (sanitized && model == &llama_tiny()) break;
    CAPTURE(model->folder);
    require_clear(on_ranks<FakeNccl>(8, [&](FakeNccl::Communicator& world) {
      const Mesh<Summa25D, FakeNccl> mesh{world, {.q = 2, .d = 2}};
      return check_reference<Summa25D, FakeNccl, double>(
          mesh, *model, quick && model == &gpt2_tiny() ? Compared::pass : Compared::all);
    }));
  }
}

TEST_CASE("transformers on NCCL whose ranks share sequences are those of Hugging Face and PyTorch")
{
  if (sanitized) return;
  require_clear(on_ranks<FakeNccl>(8, [&](FakeNccl::Communicator& world) {
    const Mesh<Summa25D, FakeNccl> mesh{world, {.q = 2, .d = 2}};
    return check_reference<Summa25D, FakeNccl, double>(mesh, llama_tiny(), Compared::model,
                                                       {.context_parallel = 4});
  }));
}

}  // namespace cubist::test::backend_nccl_transformer_test
