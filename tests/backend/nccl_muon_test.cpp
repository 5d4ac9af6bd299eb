// SPDX-License-Identifier: BSD-3-Clause
// Muon and LoRA on the NCCL backend. On the mock of CUDA and NCCL, random delays reveal missing
// synchronization.

#include "cubist/backend/nccl.hpp"
#include "cubist/nn/optimizers/muon.hpp"
#include "cubist/nn/transformer/transformer.hpp"

#include "fake_engine.hpp"
#include "small_transformer.hpp"
#include "transformer_reference.hpp"

namespace cubist::test::backend_nccl_muon_test
{

/// Returns the losses of three steps in which Muon trains a transformer.
/// @param lora  whether it trains only LoRA's matrices
static std::vector<double> losses(int ranks, const Summa25D::Extents& extents, MuonWay way,
                                  bool lora)
{
  return on_ranks<FakeNccl>(ranks, [&](FakeNccl::Communicator& world) {
    const Mesh<Summa25D, FakeNccl> mesh{world, extents};
    std::optional<LoraOptions> options;
    if (lora) options = LoraOptions{.rank = 2};
    Transformer<Summa25D, FakeNccl, double> model{
        mesh, small_transformer(true), {.seed = 3}, options};
    const auto parameters = model.parameters();
    Muon optimizer{parameters, {.learning_rate = 0.05, .way = way}};
    std::vector<double> found;
    for (std::size_t step = 0; step < 3; ++step)
    {
      found.push_back(model.compute_gradients(small_batch(step, 32), 8));
      checked_step(optimizer, parameters);
    }
    found.push_back(model.evaluate(small_batch(3, 32), 8));
    return found;
  })[0];
}

TEST_CASE("Muon on NCCL trains a transformer, and LoRA's matrices, as one rank does")
{
  for (const bool lora : {true, false})
  {
    if (sanitized && !lora) break;
    const auto wanted = losses(1, {.q = 1, .d = 1}, MuonWay::home, lora);
    CHECK(wanted.front() != wanted.back());
    for (const auto way : {MuonWay::distributed, MuonWay::home, MuonWay::replicated})
    {
      if (quick && way != MuonWay::distributed) break;
      CAPTURE(lora, static_cast<int>(way));
      CHECK(deviation(losses(8, {.q = 2, .d = 2}, way, lora), wanted) < 1e-10);
    }
  }
}

}  // namespace cubist::test::backend_nccl_muon_test
