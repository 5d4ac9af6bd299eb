// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/nn/transformer/pipelined_transformer.hpp"

#include "scheme_conformance.hpp"
#include "train_and_ask.hpp"
#include "transformer_reference.hpp"

namespace cubist::test::transformer_test
{

/// What a small model computed, and how far its logits for next tokens are from those for all
/// tokens.
template <NetworkScheme S>
std::pair<Answers, double> answers_on(const Place<S>& place)
{
  return on_root(place, [](const auto& mesh) {
    const std::size_t length = 5;
    std::vector<int> ids;
    for (std::size_t i = 0; i < 4 * length; ++i) ids.push_back(static_cast<int>(i * i % 13));
    Transformer<S, TestBackend, double> model{
        mesh, {.vocabulary = 13, .positions = 8, .width = 12, .layers = 2, .heads = 3}};
    const auto answers = train_and_ask(model, std::tie(ids, length));
    const auto next = gather(model.next_logits(ids, length));
    if (mesh.rank() != 0) return std::pair{answers, 0.0};
    const auto last = generate<double>(next.shape(0), next.shape(1), [&](auto b, auto j) {
      return answers.outputs((b + 1) * length - 1, j);
    });
    return std::pair{answers, difference(next, last)};
  });
}

TEST_CASE("one function trains and asks a transformer on every scheme, in stages and not")
{
  const Answers wanted = answers_on(one_rank).first;
  CHECK(wanted.losses[3] < wanted.losses[0]);
  for_each_scheme([&]<class S>() {
    if constexpr (is_typical<S> || !few_schemes_suffice)
    {
      constexpr bool is_solid = S::Axes::count == 3;
      const auto check = [&](const auto& place) {
        if (!fits(place)) return;
        CAPTURE(place.name());
        const auto [answers, off] = answers_on(place);
        check_answers(answers, wanted);
        CHECK(off < 1e-13);
      };
      check(Place<S>{is_solid ? 8 : 4, {}});
      check(Place<Pipeline<S>>{is_solid ? 2 : 8, {.stages = 2, .scheme = {}}});
    }
  });
}

/// Checks all models on each mesh that fits. Quick tests check GPT-2 and Llama on each mesh, but
/// labels, continuations and training only on the first mesh of typical schemes. They check the
/// other models on one rank, where these train, and on the first mesh of typical schemes, which
/// cuts what they compute. Processes then train GPT-2 and Llama only on Cube3D, as an optimizer's
/// step sends no messages, and other tests train networks on processes. Models with an adapter
/// train on the first mesh of every scheme, as each sums the gradients of thin matrices in another
/// way.
template <SchemeType S, class T = double>
void equals_references([[maybe_unused]] const std::vector<TestMesh<S>>& meshes)
{
  if constexpr (is_typical<S> || !few_schemes_suffice)
  {
    using B = TestBackend;
    constexpr bool is_cube = std::is_same_v<S, Cube3D>;
    auto models = reference_models();
    models.insert(models.end(), adapted_models().begin(), adapted_models().end());
    for (const auto& on : all_or_first(meshes, 1, quick && few_suffice<B>))
      for (const auto& model : models)
      {
        const bool is_adapted = !model.adapter.empty();
        const bool is_other = !is_adapted && model.folder != gpt2_tiny().folder &&
                              model.folder != llama_tiny().folder;
        const bool trains_others = std::is_same_v<S, Megatron1D> && on.ranks == 1;
        const bool is_first = is_typical<S> && &on == meshes.data();
        if (!fits<B>(on.ranks) || (quick && is_other && !is_first && !trains_others)) continue;
        const auto compared = [&] {
          if (!quick || (is_adapted && &on == meshes.data())) return Compared::all;
          if (is_adapted) return Compared::pass;
          if (is_other) return trains_others ? Compared::all : Compared::pass;
          if (!is_first) return Compared::pass;
          return sanitized || (few_suffice<B> && !is_cube) ? Compared::model : Compared::all;
        };
        INFO(S::name << " on " << S::Axes::to_string(S::extents(on.extents, on.ranks)) << " in "
                     << element_name<T>() << ", " << model.folder
                     << (is_adapted ? " with LoRA" : ""));
        require_clear(on_ranks<B>(on.ranks, [&](typename B::Communicator& world) {
          const Mesh<S, B> mesh{world, on.extents};
          return check_reference<S, B, T>(mesh, model, compared());
        }));
      }
  }
}

TEST_CASE("transformers on one axis are those of Hugging Face and PyTorch")
{
  equals_references<Megatron1D>({{3, {}}, {1, {}}, {2, {}}, {8, {}}});
  equals_references<Megatron1DSequence>({{3, {}}, {2, {}}, {4, {}}});
}

TEST_CASE("transformers on grids are those of Hugging Face and PyTorch")
{
  equals_references<Grid2D>({{6, {.x = 2, .y = 3}}, {4, {.x = 2, .y = 2}}, {4, {.x = 4, .y = 1}}});
  equals_references<Grid3D>({{6, {.x = 1, .y = 2, .z = 3}},
                             {6, {.x = 3, .y = 1, .z = 2}},
                             {8, {.x = 2, .y = 2, .z = 2}}});
  equals_references<Cube3D>({{8, {.q = 2}}, {1, {}}, {27, {.q = 3}}});
}

TEST_CASE("transformers on Summa2D are those of Hugging Face and PyTorch")
{
  equals_references<Summa2D>(
      {{6, {.rows = 2, .cols = 3}}, {4, {.q = 2}}, {4, {.rows = 4, .cols = 1}}});
  equals_references<Summa2DInput>(
      {{6, {.rows = 2, .cols = 3}}, {4, {.q = 2}}, {6, {.rows = 3, .cols = 2}}});
  equals_references<Summa2DWeight>(
      {{6, {.rows = 2, .cols = 3}}, {4, {.q = 2}}, {6, {.rows = 3, .cols = 2}}});
}

TEST_CASE("transformers on Summa25D are those of Hugging Face and PyTorch")
{
  equals_references<Summa25D>(
      {{8, {.q = 2, .d = 2}}, {3, {.q = 1, .d = 3}}, {4, {.q = 2, .d = 1}}});
  equals_references<Summa25DInput>(
      {{8, {.q = 2, .d = 2}}, {3, {.q = 1, .d = 3}}, {4, {.q = 2, .d = 1}}});
  equals_references<Summa25DWeight>(
      {{8, {.q = 2, .d = 2}}, {3, {.q = 1, .d = 3}}, {4, {.q = 2, .d = 1}}});
}

// Rounding to float depends on the layers, but not on how they are cut.
TEST_CASE("transformers in float are those of Hugging Face and PyTorch")
{
  if constexpr (!few_schemes_suffice) equals_references<Summa25D, float>({{8, {.q = 2, .d = 2}}});
}

}  // namespace cubist::test::transformer_test
