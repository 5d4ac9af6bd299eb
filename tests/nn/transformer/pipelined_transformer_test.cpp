// SPDX-License-Identifier: BSD-3-Clause
// Tests that transformers in stages compute what they compute on one rank.

#include "cubist/dataset/token_batches.hpp"
#include "cubist/io/checkpoints.hpp"
#include "cubist/nn/transformer/pipelined_transformer.hpp"
#include "cubist/training/clip_gradients.hpp"

#include "folder.hpp"
#include "small_transformer.hpp"
#include "transformer_reference.hpp"

namespace cubist::test::pipelined_transformer_test
{

/// The losses of training a smaller version of examples/train_text.cpp's model on a text. One rank
/// takes whole batches, and stages take their micro-batches.
template <class S>
std::vector<double> text_losses(int ranks, const typename S::Extents& extents,
                                const PipelineOptions& pipeline = {})
{
  const std::size_t steps = static_cast<std::size_t>(repeats(200, 20, 8));
  static const TokenFile text{
      std::filesystem::path{CUBIST_DIGITS_CSV}.replace_filename("moses.txt").string(),
      TokenType::uint8};
  const TokenBatches batches{text, {.sequences = 4, .length = 16, .seed = 42}};
  return on_ranks<TestBackend>(ranks, [&](typename TestBackend::Communicator& world) {
    const Mesh<S, TestBackend> mesh{world, extents};
    Transformer<S, TestBackend, double> model{
        mesh,
        {.vocabulary = 256, .positions = 16, .width = 16, .layers = 4, .heads = 4},
        {.seed = 42, .pipeline = pipeline}};
    const auto parameters = model.parameters();
    AdamW optimizer{parameters, {.learning_rate = 0.004}};
    std::vector<double> curve;
    for (std::size_t step = 0; step < steps; ++step)
    {
      curve.push_back(model.compute_gradients(batches.batch(step), batches.length()));
      clip_gradients(parameters, 1);
      checked_step(step, steps, optimizer, parameters);
    }
    return curve;
  })[0];
}

TEST_CASE("a transformer in stages learns a text as on one rank, over 200 steps, 20 in quick tests")
{
  if (!fits(8)) return;
  const auto wanted = text_losses<Summa2D>(1, {.q = 1});
  CHECK(wanted.back() < wanted.front() * (wanted.size() == 200 ? 0.7 : 1));
  const auto on = [&]<class S>(std::type_identity<S>, const typename S::Extents& extents,
                               const PipelineOptions& pipeline) {
    CAPTURE(S::name, pipeline.pieces);
    CHECK(deviation(text_losses<S>(8, extents, pipeline), wanted) < 1e-9);
  };
  on(std::type_identity<Pipeline<Summa2D>>{}, {2, {.q = 2}}, {.micro_batches = 4});
  using Data = DataParallel<Pipeline<Grid3D>>;
  on(std::type_identity<Data>{}, {2, {2, {1, 2, 1}}}, {.micro_batches = 2});
  on(std::type_identity<Data>{}, {2, {2, {1, 2, 1}}}, {.micro_batches = 2, .pieces = 2});
  on(std::type_identity<Pipeline<Megatron1D>>{}, {4, {2}}, {.micro_batches = 4});
}

/// A scheme in stages, and a mesh to run it on.
template <class S>
using Stages = Place<Pipeline<S>>;

/// Checks GPT-2, whose table is tied, and Llama, each with an adapter and without; in full tests
/// all models.
template <class S>
void equals_references(const Stages<S>& place, const PipelineOptions& pipeline, Compared compared)
{
  using B = TestBackend;
  if (!fits(place)) return;
  const auto some = all_or_first(reference_models(), 2, quick);
  std::vector<ReferenceModel> models{some.begin(), some.end()};
  models.insert(models.end(), adapted_models().begin(), adapted_models().end());
  for (const auto& model : models)
  {
    INFO(place.name() << ", " << model.folder << ' ' << model.adapter);
    require_clear(on_mesh(place, [&](const auto& mesh) {
      return check_reference<Pipeline<S>, B, double>(mesh, model, compared, {.pipeline = pipeline});
    }));
  }
}

TEST_CASE("transformers in stages are those of Hugging Face and PyTorch")
{
  // If a micro-batch has one sequence, ranks share it.
  equals_references(Stages<Summa2D>{8, {2, {.q = 2}}}, {.micro_batches = 4}, Compared::model);
  equals_references(Stages<Megatron1D>{2, {2, {1}}}, {.micro_batches = 2}, Compared::all);
}

constexpr std::size_t length = 5;
constexpr std::size_t sequences = 6;

static std::vector<int> batch(std::uint64_t step) { return small_batch(step, sequences * length); }

/// Labels of a batch. Sequences have unequal numbers of labels, and the third and fourth have none.
static std::vector<int> labels_of(std::span<const int> ids)
{
  std::vector<int> labels(ids.begin(), ids.end());
  for (std::size_t i = 0; i < labels.size(); ++i)
  {
    const std::size_t text = i / length, token = i % length;
    if (text == 2 || text == 3 || (text == 1 && token < 3) || (text == 4 && token < 2))
      labels[i] = -100;
  }
  return labels;
}

struct Run
{
  std::uint64_t began = 0;
  std::vector<double> losses, norms;
  double evaluated = 0;
};

/// Takes steps of a model, from a folder's newest checkpoint if there is one.
/// @param compute_gradients  (model, ids): returns the loss
template <class Model, class M, class F>
Run steps_of(Model& model, const M& mesh, std::uint64_t last, const std::filesystem::path& folder,
             F compute_gradients)
{
  const auto parameters = model.parameters();
  AdamW optimizer{parameters, {.learning_rate = 0.02}};
  Checkpoints checkpoints{mesh, folder};
  const auto state = state_of(model, optimizer);
  Run run;
  std::uint64_t step = folder.empty() ? 0 : checkpoints.load(state).value_or(0);
  for (run.began = step; step < last; ++step)
  {
    run.losses.push_back(compute_gradients(model, batch(step % 2)));
    run.norms.push_back(clip_gradients(parameters, 0.7));
    checked_step(optimizer, parameters);
  }
  if (!folder.empty()) checkpoints.save(step, state);
  run.evaluated = model.evaluate(batch(1), length);
  return run;
}

static TransformerOptions options(std::size_t recompute)
{
  return {.dropout = 0.2, .attention_dropout = 0.3, .seed = 5, .recompute = recompute};
}

static Run trained_on_one_rank(const TransformerConfig& config, std::size_t micro_batches,
                               std::uint64_t last, const std::filesystem::path& folder = {})
{
  return on_root(one_rank, [&](const auto& mesh) {
    Transformer<Summa2D, TestBackend, double> model{mesh, config, options(0)};
    GradientAccumulation accumulation{model.parameters(), micro_batches};
    return steps_of(model, mesh, last, folder, [&](auto& m, const std::vector<int>& ids) {
      // Micro-batches are as equal as possible, the first ones larger, and weighted by their
      // labels.
      const auto labels = labels_of(ids);
      const auto all = static_cast<double>(count_predicted(labels, length));
      double loss = 0;
      for (std::size_t i = 0, first = 0; i < micro_batches; ++i)
      {
        const std::size_t rest = micro_batches - i;
        const std::size_t size = (sequences - first + rest - 1) / rest;
        const auto mine = [&](const std::vector<int>& of) {
          return std::span{of}.subspan(first * length, size * length);
        };
        const double share = static_cast<double>(count_predicted(mine(labels), length)) / all;
        const double mean = m.compute_gradients(mine(ids), mine(labels), length,
                                                share * static_cast<double>(micro_batches));
        if (share > 0) loss += share * mean;
        first += size;
      }
      return loss;
    });
  });
}

template <class S>
Run trained(const Stages<S>& place, const TransformerConfig& config,
            const PipelineOptions& pipeline, std::uint64_t last, std::size_t recompute = 0,
            const std::filesystem::path& folder = {})
{
  return on_root(place, [&](const auto& mesh) {
    auto o = options(recompute);
    o.pipeline = pipeline;
    Transformer<Pipeline<S>, TestBackend, double> model{mesh, config, o};
    return steps_of(model, mesh, last, folder, [](auto& m, const std::vector<int>& ids) {
      return double{m.compute_gradients(ids, labels_of(ids), length)};
    });
  });
}

static void check_equal(const Run& run, const Run& wanted)
{
  CHECK(deviation(run.losses, wanted.losses) < 1e-11);
  CHECK(deviation(run.norms, wanted.norms) < 1e-11);
  CHECK(deviation({run.evaluated}, {wanted.evaluated}) < 1e-11);
}

TEST_CASE("a transformer in stages trains with dropout as on one rank, and in other cuts")
{
  for (const bool llama : {false, true})
  {
    const auto config = small_transformer(llama, 4);
    const Run wanted = trained_on_one_rank(config, 4, 5);
    CHECK(wanted.losses.back() < wanted.losses.front());
    const auto on = [&](const auto& place, const PipelineOptions& pipeline,
                        std::size_t recompute = 0) {
      if (!fits(place.ranks)) return;
      CAPTURE(place.name(), llama, pipeline.pieces, recompute);
      check_equal(trained(place, config, pipeline, 5, recompute), wanted);
    };
    on(Stages<Summa2D>{1, {1, {.q = 1}}}, {.micro_batches = 4});
    on(Stages<Summa2D>{8, {2, {.q = 2}}}, {.micro_batches = 4}, 1);
    on(Stages<Megatron1D>{8, {4, {2}}}, {.micro_batches = 4});
  }
}

TEST_CASE("a step of a tied transformer in stages does not depend on the steps before")
{
  if (!fits(2)) return;
  require_clear(on_ranks<TestBackend>(2, [](typename TestBackend::Communicator& world) {
    Findings found;
    using P = Pipeline<Summa2D>;
    const Mesh<P, TestBackend> mesh{world, {2, {.q = 1}}};
    const auto ids = batch(1);
    // As many micro-batches as stages, or as sequences.
    const auto gradients_after = [&](std::initializer_list<std::size_t> counts) {
      Transformer<P, TestBackend, double> model{mesh, small_transformer(false, 2), {.seed = 5}};
      for (const std::size_t n : counts)
        (void)model.compute_gradients(std::span{ids}.first(n * length), length);
      return gradients_of(model);
    };
    found.check(gradients_after({6, 1}) == gradients_after({1}), "one sequence after six");
    found.check(gradients_after({1, 6}) == gradients_after({6}), "six sequences after one");
    return found;
  }));
}

TEST_CASE("a transformer of bfloat16 in stages trains as one of doubles, to its precision")
{
  if (!fits(4)) return;
  const auto losses = []<class T>(T, int stages) {
    return on_ranks<TestBackend>(2 * stages, [&](TestBackend::Communicator& world) {
      using P = Pipeline<Megatron1D>;
      const Mesh<P, TestBackend> mesh{world, {.stages = stages, .scheme = {2}}};
      Transformer<P, TestBackend, T> model{
          mesh, small_transformer(false, 2), {.seed = 5, .pipeline = {.micro_batches = 3}}};
      const auto parameters = model.parameters();
      AdamW optimizer{parameters, {.learning_rate = 0.02}};
      std::vector<double> all;
      for (std::uint64_t step = 0; step < 6; ++step)
      {
        all.push_back(model.compute_gradients(batch(step % 2), length));
        checked_step(optimizer, parameters);
      }
      return all;
    })[0];
  };
  const auto wanted = losses(0.0, 1);
  CHECK(wanted.back() < 0.95 * wanted.front());
  CHECK(deviation(losses(bfloat16{}, 2), wanted) < 0.02);
}

TEST_CASE("a transformer in stages draws the text of one rank, with and without a cache")
{
  if (!fits(4)) return;
  const auto texts = []<class S>(std::type_identity<S>, int ranks,
                                 const typename S::Extents& extents) {
    return on_ranks<TestBackend>(ranks, [&](TestBackend::Communicator& world) {
      const Mesh<S, TestBackend> mesh{world, extents};
      Transformer<S, TestBackend, double> model{
          mesh, small_transformer(true, 3), {.seed = 5, .inference = true}};
      GenerateOptions options{.tokens = 6, .temperature = 1.5, .top_k = 7, .seed = 3};
      const std::vector prompts{1, 2, 3, 4, 5, 6};
      const auto with = generate(model, prompts, 3, options);
      options.cache = false;
      return std::vector<std::vector<int>>{with, generate(model, prompts, 3, options)};
    });
  };
  const auto wanted = texts(std::type_identity<Summa2D>{}, 1, {.q = 1})[0];
  REQUIRE(wanted[0].size() == 18);
  CHECK(wanted[1] == wanted[0]);
  CHECK(std::set<int>(wanted[0].begin(), wanted[0].end()).size() > 3);
  for (const auto& of_rank : texts(std::type_identity<Pipeline<Megatron1D>>{}, 4, {2, {2}}))
    CHECK(of_rank == wanted);
}

TEST_CASE("a transformer's training continues in another cut of stages")
{
  const auto config = small_transformer(false, 4);
  const Folder folder;
  const Run whole = trained_on_one_rank(config, 3, 6);
  const std::vector<double> rest{whole.losses.begin() + 3, whole.losses.end()};
  const auto continues = [&](const char* name, auto train) {
    once([&] { std::filesystem::copy(folder / "half", folder / name); });
    const Run run = train(folder / name);
    CAPTURE(name);
    CHECK(run.began == 3);
    CHECK(deviation(run.losses, rest) < 1e-11);
  };
  if (!fits(8)) return;
  (void)trained(Stages<Megatron1D>{8, {4, {2}}}, config, {.micro_batches = 3}, 3, 0,
                folder / "half");
  continues("one rank", [&](const auto& f) { return trained_on_one_rank(config, 3, 6, f); });
  continues("two stages", [&](const auto& f) {
    return trained(Stages<Summa2D>{8, {2, {.q = 2}}}, config,
                   {.micro_batches = 3, .layers = {1, 3}}, 6, 0, f);
  });
}

}  // namespace cubist::test::pipelined_transformer_test
