// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/plan/muon_plan.hpp"
#include "cubist/plan/pipeline_plan.hpp"
#include "cubist/scheme/data_parallel.hpp"
#include "cubist/scheme/summa25d.hpp"

#include "catch.hpp"

namespace cubist::test::muon_plan_test
{

const PlanOptions adamw{.method = Method::collectives};
static PlanOptions muon(MuonWay way = MuonWay::automatic)
{
  PlanOptions options = adamw;
  options.muon = true;
  options.muon_way = way;
  return options;
}

const TransformerStep gpt2{
    .model = {.vocabulary = 50257, .positions = 1024, .width = 768, .layers = 12, .heads = 12},
    .batch = {8, 1024}};

TEST_CASE("the work of Muon is that of its matrices")
{
  // Two square matrices on 2 x 2 ranks, each at home on one of them, at the same time.
  detail::MuonMatrices matrices;
  matrices.add<Summa2D::Weight, Summa2D::Axes>({2, 2}, 2, {64, 64}, 2);
  const auto work = matrices.work(MuonWay::home, 5, {}, 4);
  CHECK(work.ways == "home for 2 of 64 x 64");
  CHECK(work.words == 2.0 * (2 * 3 * 32 * 32) / 4);
  CHECK(work.flops == 2.0 / 4 * 5 * 2 * 2 * 64 * 64 * 64);
  const auto once = matrices.work(MuonWay::replicated, 5, {}, 4);
  CHECK(once.products == 2 * work.products);
}

TEST_CASE("a plan with Muon takes longer than one with AdamW, by its work, and says why")
{
  const auto layers = mlp_layers(4096, {1024, 4096, 1024});
  const auto with = plan_on<Summa2D>({2, 2}, layers, 4, {}, muon());
  const auto without = plan_on<Summa2D>({2, 2}, layers, 4, {}, adamw);
  CHECK(with.seconds() > without.seconds());
  CHECK(with.words > without.words);
  CHECK(with.memory > without.memory);
  CHECK(with.note.find("Muon takes ") == 0);
  CHECK(with.note.find(" for 1 of 1024 x 4096, ") != std::string::npos);
  CHECK(without.note.empty());
  const auto forward = [&](PlanOptions options) {
    options.training = false;
    return plan_on<Summa2D>({2, 2}, layers, 4, {}, options);
  };
  CHECK(forward(muon()).seconds() == forward(adamw).seconds());
}

TEST_CASE("a transformer's blocks are dealt out, in stages to the ranks of each stage")
{
  const auto whole = plan_on<Summa25D>({2, 2, 2}, gpt2, 8, {}, muon(MuonWay::home));
  CHECK(whole.note.find("home for 48 of 768 x 768, ") != std::string::npos);
  CHECK(whole.note.find("home for 12 of 768 x 3072") != std::string::npos);
  const auto staged =
      plan_on<Pipeline<DataParallel<Summa2D>>>({2, 1, 2, 2}, gpt2, 8, {}, muon(MuonWay::home));
  CHECK(staged.note.find("home for 24 of 768 x 768") != std::string::npos);
}

}  // namespace cubist::test::muon_plan_test
