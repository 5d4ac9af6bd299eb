// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/plan/planner.hpp"
#include "cubist/plan/transformer_cost.hpp"
#include "cubist/plan/transformer_plan.hpp"

#include "ranks.hpp"

namespace cubist::test::plan_transformer_plan_test
{

const PlanOptions by_collectives{.method = Method::collectives};

/// GPT-2 with 2 blocks, on this many sequences of 256 tokens.
static TransformerStep short_gpt2(std::size_t sequences)
{
  auto model = transformer_model("gpt2");
  model.layers = 2;
  return {model, {sequences, 256}};
}

template <class S>
void sends_words(const typename S::Axes::Array& extents, const TransformerStep& step)
{
  CAPTURE(S::name);
  const int ranks = S::Axes::ranks(extents);
  const auto words = transformer_words<S>(extents, step.batch, step.model);
  const auto plan = plan_on<S>(extents, step, ranks, {}, by_collectives);
  CHECK(plan.words * ranks == Approx(double(words.forward + words.backward)));
  auto forward = by_collectives;
  forward.training = false;
  CHECK(plan_on<S>(extents, step, ranks, {}, forward).words * ranks ==
        Approx(double(words.forward)));
  // The plan's backward pass goes through the first block as through the others.
  auto lora = by_collectives;
  lora.lora = 8;
  const auto thin = transformer_words<S>(extents, step.batch, step.model, Gathered::kept, 0, 8);
  const TransformerParts<S> parts{extents, step.batch, step.model};
  CHECK(plan_on<S>(extents, step, ranks, {}, lora).words * ranks ==
        Approx(double(
            thin.forward + thin.backward + parts.norm_statistics().words +
            parts.cost(parts.products()[0], Gathered::kept).backward_input.words_of_all(ranks))));
}

TEST_CASE("An evaluation keeps the activations of one block, and a copy of the others' input")
{
  auto step = short_gpt2(4);
  const auto activations = [&](std::size_t blocks) {
    step.model.layers = blocks;
    return plan_on<Summa2D>({1, 1}, step, 1, {}, {.training = false}).memory_parts.activations;
  };
  const double stream = 4.0 * double(step.batch.tokens() * step.model.width);
  CHECK(activations(2) - activations(1) == Approx(stream));
  CHECK(activations(12) == activations(2));
}

TEST_CASE("A plan of a transformer sends the elements of its parts")
{
  for (const std::size_t sequences : {8U, 5U})
  {
    sends_words<Megatron1D>({4}, short_gpt2(sequences));
    sends_words<Megatron1DSequence>({4}, short_gpt2(sequences));
    sends_words<Summa25D>({2, 2, 2}, short_gpt2(sequences));
    sends_words<Cube3D>({2, 2, 2}, short_gpt2(sequences));
    sends_words<Grid2D>({2, 3}, short_gpt2(sequences));
  }
}

TEST_CASE("With LoRA a step has fewer products, and gradients and moments of A and B alone")
{
  const auto step = short_gpt2(4);
  auto options = by_collectives;
  const auto whole = plan_on<Megatron1D>({4}, step, 4, {}, options);
  options.lora = 8;
  const auto thin = plan_on<Megatron1D>({4}, step, 4, {}, options);
  const double d = 768;
  // Two blocks on a rank: all of A where X is whole, and a quarter where X is cut; B the other way.
  const double a = d + d / 4 + d + d, b = 3 * d / 4 + d + d + d;
  const double trained = 2 * 8 * (a + b) * sizeof(float);
  CHECK(thin.memory_parts.gradients == Approx(trained));
  CHECK(thin.memory_parts.optimizer == Approx(2 * trained));
  CHECK(thin.memory_parts.parameters == Approx(whole.memory_parts.parameters + trained));
  CHECK(thin.flops < 0.75 * whole.flops);
  CHECK(thin.seconds() < 0.75 * whole.seconds());
  // In two blocks: A of query, key and value, A of up, and the others.
  options.muon = true;
  const auto muon = plan_on<Megatron1D>({4}, step, 4, {}, options);
  CHECK(muon.flops > thin.flops);
  for (const char* kind : {" for 4 of 768 x 8", " for 6 of 8 x 768", " for 2 of 8 x 3072"})
    CHECK(mentions(muon.note, kind));
}

TEST_CASE("A plan knows the bytes of weights that are stored in fewer bits")
{
  const auto step = short_gpt2(4);
  auto forward = by_collectives;
  forward.training = false;
  for (const int ranks : {1, 4})
  {
    const auto parameters = [&](StoredWeights weights) {
      forward.weights = weights;
      return plan_on<Megatron1D>({ranks}, step, ranks, {}, forward).memory_parts.parameters;
    };
    const double all = parameters(StoredWeights::scalar);
    const double linear = 2 * 12.0 * 768 * 768 / ranks;  // elements in linear layers
    CHECK(all - parameters(StoredWeights::bfloat16) == Approx(2 * linear));
    CHECK(all - parameters(StoredWeights::q8) == Approx((4 - 34.0 / 32) * linear));
  }
}

TEST_CASE("On one rank a step takes six operations a weight and token, and those of attention")
{
  const auto step = short_gpt2(4);
  const auto& model = step.model;
  const auto plan = plan_on<Summa2D>({1, 1}, step, 1, {}, by_collectives);
  const double tokens = 1024;
  const double weights = 2 * 12.0 * 768 * 768 + 768.0 * 50'257;
  const double attention = 3.5 * 2 * (4 * tokens * 256 * 768 / 2);
  CHECK(plan.flops == Approx(6 * weights * tokens + attention));
  CHECK(plan.padding == Approx(0).margin(1e-12));
  CHECK(plan.words == 0);
  CHECK(plan.messages == 0);
  CHECK(plan.note.empty());
  CHECK(plan.seconds() == Approx(plan.time.products + plan.time.passes));
  const Machine machine;
  CHECK(plan.time.products > plan.flops / (16 * machine.rates_of(sizeof(float)).largest()));
  SECTION("forward alone costs less, and holds no gradients")
  {
    auto forward = by_collectives;
    forward.training = false;
    const auto without = plan_on<Summa2D>({1, 1}, step, 1, {}, forward);
    CHECK(without.memory < plan.memory);
    CHECK(without.flops == Approx(2 * weights * tokens + attention / 3.5));
    CHECK(without.seconds() < plan.seconds() / 2);
  }
  SECTION("AdamW holds four numbers a parameter, layers their outputs and gradients")
  {
    const double block = tokens * (18 * 768 + 12);
    const double ends = tokens * (2 * 768 + 50'257);
    const double merged = 2 * 2 * 768.0 * 3 * 768;  // of two blocks, W and dW
    CHECK(plan_on<Summa2D>({1, 1}, step, 1).memory ==
          Approx(4 * (4 * double(model.parameters()) + 2 * (2 * block + ends) + merged)));
  }
  SECTION("time and operations grow with the layers, but for the ends")
  {
    auto deeper = step;
    deeper.model.layers = 4;
    const auto four = plan_on<Summa2D>({1, 1}, deeper, 1, {}, by_collectives);
    deeper.model.layers = 6;
    const auto six = plan_on<Summa2D>({1, 1}, deeper, 1, {}, by_collectives);
    CHECK(six.seconds() - four.seconds() == Approx(four.seconds() - plan.seconds()));
    CHECK(six.memory - four.memory == Approx(four.memory - plan.memory));
  }
  SECTION("the logits' weights count once more where they are not the embedding's")
  {
    auto untied = step;
    untied.model.tied = false;
    const auto more = plan_on<Summa2D>({1, 1}, untied, 1, {}, by_collectives);
    CHECK(more.memory - plan.memory == Approx(4.0 * 4 * 768 * 50'257));
    CHECK(more.flops == Approx(plan.flops));
  }
}

TEST_CASE("Ranks without heads or sequences are idle in attention, which the reason says")
{
  auto step = short_gpt2(2);
  step.model.key_value_heads = 3;
  const auto one = plan_on<Megatron1D>({4}, step, 4);
  CHECK(one.note == "attention idle on 1 rank: key-value heads 3 in 4 parts");
  CHECK(one.padding > 0);
  PlanOptions whole;
  whole.context_parallel = 1;
  const auto both = plan_on<Summa2D>({4, 4}, step, 16, {}, whole);
  CHECK(both.note ==
        "attention idle on 10 ranks: key-value heads 3 in 4 parts, sequences 2 in 4 parts");
  CHECK(plan_on<Summa2D>({2, 2}, {step.model, {1, 256}}, 4, {}, whole).note ==
        "attention idle on 2 ranks: sequences 1 in 2 parts");
  // Ranks that share sequences all have work.
  CHECK(plan_on<Summa2D>({2, 2}, {step.model, {1, 256}}, 4).note.empty());
  whole.scheme = "Summa2D";
  const auto plans = plan(step, 16, {}, whole);
  bool said = false;
  for (const auto& p : plans)
    if (p.extents == std::vector{4, 4}) said = mentions(p.reason, "; attention idle on 10 ranks");
  CHECK(said);
}

TEST_CASE(
    "One sequence takes as long as several of as many tokens, but for the squares of its length")
{
  TransformerStep one{transformer_model("gpt2"), {1, 1024}};
  const auto several = plan_on<Cube3D>({2, 2, 2}, {one.model, {4, 256}}, 8, {}, by_collectives);
  const auto shared = plan_on<Cube3D>({2, 2, 2}, one, 8, {}, by_collectives);
  auto options = by_collectives;
  options.context_parallel = 1;
  const auto whole = plan_on<Cube3D>({2, 2, 2}, one, 8, {}, options);
  CHECK(shared.seconds() > several.seconds());
  CHECK(shared.seconds() < 1.5 * several.seconds());
  CHECK(whole.seconds() > 2.5 * shared.seconds());
  CHECK(whole.memory > 1.5 * shared.memory);
}

TEST_CASE("Ranks that share sequences have two messages of keys and values, in training five")
{
  const TransformerParts<Summa2D> parts{{2, 1}, {1, 256}, short_gpt2(1).model};
  for (const bool training : {false, true})
  {
    CAPTURE(training);
    const Machine machine;
    const PlanOptions options{.scalar_bytes = 4, .training = training};
    Plan plan = detail::empty_plan<Summa2D>({2, 1}, 2, machine, options);
    detail::TransformerPlanner<Summa2D>{parts, plan, machine, options}.add_ring_workspace();
    const double message = 2 * 128.0 * 768;  // K and V of a rank's 128 tokens
    CHECK(plan.memory_parts.workspace == 4 * (training ? 5 : 2) * message);
  }
}

TEST_CASE("A sharded optimizer waits for half of the last sums, and gathers parameters after them")
{
  const Time step{.total = 10, .sums = 4, .room = 100};
  CHECK(detail::with_exchange(step, 2, 1, false).total == 12);
  CHECK(detail::with_exchange(step, 2, 1, true).total == 10 + 1 + 2);
}

TEST_CASE("Ranks that read each other's blocks still send the sums of norms and biases")
{
  const auto step = short_gpt2(4);
  const auto direct = plan_on<Cube3D>({2, 2, 2}, step, 8);
  CHECK(direct.method == Method::direct);
  CHECK(direct.words > 0);
  CHECK(direct.words < 0.1 * plan_on<Cube3D>({2, 2, 2}, step, 8, {}, by_collectives).words);
  CHECK(direct.padding == Approx(0).margin(0.01));
}

TEST_CASE("The planner sorts the meshes for a transformer")
{
  const auto step = short_gpt2(8);
  const auto plans = plan(step, 8, {}, by_collectives);
  CHECK(plans.size() == plan(mlp_layers(64, {64, 64}), 8).size());
  for (std::size_t i = 1; i < plans.size(); ++i)
    CHECK(plans[i - 1].seconds() <= plans[i].seconds());
  CHECK(mentions(plans.front().reason, "the fastest of"));
  const auto extents = auto_mesh<Grid3D>(step, 8, {}, by_collectives);
  CHECK(Grid3D::Axes::ranks(extents) <= 8);
}

TEST_CASE("A step that is invalid is refused")
{
  auto step = short_gpt2(8);
  step.batch.sequences = 0;
  CHECK(mentions(message_of<ShapeError>([&] { (void)plan(step, 4); }), "got 0 sequences of 256",
                 "nothing to compute", "use positive numbers"));
  step.batch.sequences = 1;
  step.model.heads = 7;
  step.model.key_value_heads = step.model.head_size = 0;
  CHECK(mentions(message_of<ShapeError>([&] { (void)plan(step, 4); }), "7 heads"));
}

}  // namespace cubist::test::plan_transformer_plan_test
