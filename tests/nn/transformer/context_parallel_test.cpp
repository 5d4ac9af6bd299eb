// SPDX-License-Identifier: BSD-3-Clause
#include "llama_like.hpp"
#include "scheme_conformance.hpp"
#include "transformer_reference.hpp"

// Tests transformers whose ranks share sequences.

namespace cubist::test::context_parallel_test
{

/// Checks a reference's four sequences of 24 tokens, each shared by this many ranks.
template <SchemeType S>
void equals_reference(const TestMesh<S>& on, std::size_t ranks, const ReferenceModel& model,
                      Compared compared)
{
  using B = TestBackend;
  if (!fits<B>(on.ranks)) return;
  INFO(S::name << " on " << S::Axes::to_string(S::extents(on.extents, on.ranks)) << ", " << ranks
               << " ranks a sequence, " << model.folder);
  require_clear(on_ranks<B>(on.ranks, [&](typename B::Communicator& world) {
    const Mesh<S, B> mesh{world, on.extents};
    return check_reference<S, B, double>(mesh, model, compared, {.context_parallel = ranks});
  }));
}

template <SchemeType S>
void equals_references(const TestMesh<S>& on, std::size_t ranks, Compared compared)
{
  if (quick && few_suffice<TestBackend> && compared == Compared::all) compared = Compared::model;
  for (const auto* model : {&gpt2_tiny(), &llama_tiny(), &adapted_models()[1]})
    equals_reference(on, ranks, *model, compared);
}

TEST_CASE("transformers whose ranks share sequences are those of Hugging Face and PyTorch")
{
  equals_references<Summa25D>({8, {.q = 2, .d = 2}}, 4, Compared::all);
  equals_references<Summa2D>({4, {.rows = 4, .cols = 1}}, 4, Compared::model);
  equals_references<Summa25D>({8, {.q = 2, .d = 2}}, 2, quick ? Compared::pass : Compared::model);
  equals_references<Cube3D>({8, {.q = 2}}, 4, quick ? Compared::pass : Compared::all);
  if constexpr (!quick)
  {
    equals_references<Summa2D>({6, {.rows = 2, .cols = 3}}, 2, Compared::model);
    equals_references<Summa2DInput>({6, {.rows = 3, .cols = 2}}, 3, Compared::model);
    equals_references<Summa2DWeight>({8, {.rows = 4, .cols = 2}}, 4, Compared::model);
    equals_references<Summa25DInput>({8, {.q = 2, .d = 2}}, 2, Compared::model);
    equals_references<Summa25DWeight>({8, {.q = 2, .d = 2}}, 4, Compared::model);
    equals_references<Grid3D>({6, {.x = 3, .y = 1, .z = 2}}, 6, Compared::model);
    equals_references<Grid3D>({8, {.x = 2, .y = 2, .z = 2}}, 2, Compared::model);
    equals_references<DataParallel<Summa2D>>({8, {.data = 2, .scheme = {.q = 2}}}, 2,
                                             Compared::model);
  }
}

/// Checks one sequence of 1,024 tokens on `ranks` ranks.
template <SchemeType S>
void equals_long_reference(const TestMesh<S>& on, std::size_t ranks)
{
  static const ReferenceModel llama_long_tiny{"llama_long_tiny"};
  // Steps of training and generation take half a minute without optimization.
  equals_reference(on, ranks, llama_long_tiny, quick ? Compared::pass : Compared::long_sequence);
}

TEST_CASE("a sequence of 1024 tokens on grids is that of PyTorch")
{
  equals_long_reference<Cube3D>({8, {.q = 2}}, 4);
  if constexpr (!quick)
  {
    equals_long_reference<Cube3D>({8, {.q = 2}}, 2);
    equals_long_reference<Grid3D>({4, {.x = 2, .y = 2, .z = 1}}, 2);
    equals_long_reference<Grid3D>({6, {.x = 1, .y = 2, .z = 3}}, 3);
    equals_long_reference<Grid3D>({8, {.x = 2, .y = 2, .z = 2}}, 4);
    equals_long_reference<Grid3D>({8, {.x = 4, .y = 1, .z = 2}}, 8);
    equals_long_reference<DataParallel<Summa2D>>({8, {.data = 2, .scheme = {.q = 2}}}, 2);
  }
}

TEMPLATE_TEST_CASE("a sequence of 1024 tokens on Summa2D is that of PyTorch", "", Summa2D,
                   Summa2DInput, Summa2DWeight)
{
  if constexpr (!quick)
  {
    equals_long_reference<TestType>({4, {.rows = 2, .cols = 2}}, 2);
    equals_long_reference<TestType>({6, {.rows = 3, .cols = 2}}, 3);
    equals_long_reference<TestType>({4, {.rows = 4, .cols = 1}}, 4);
    equals_long_reference<TestType>({8, {.rows = 8, .cols = 1}}, 8);
  }
}

TEMPLATE_TEST_CASE("a sequence of 1024 tokens on Summa25D is that of PyTorch", "", Summa25D,
                   Summa25DInput, Summa25DWeight)
{
  if constexpr (!quick)
  {
    equals_long_reference<TestType>({8, {.q = 2, .d = 2}}, 2);
    equals_long_reference<TestType>({3, {.q = 1, .d = 3}}, 3);
    equals_long_reference<TestType>({8, {.q = 2, .d = 2}}, 4);
    equals_long_reference<TestType>({8, {.q = 1, .d = 8}}, 8);
  }
}

TEST_CASE(
    "norms of heads and scaled frequencies are those of references, where ranks share sequences")
{
  constexpr auto compared = quick ? Compared::pass : Compared::model;
  for (const auto& model : reference_models())
    if (&model != &gpt2_tiny() && &model != &llama_tiny())
      equals_reference<Cube3D>({8, {.q = 2}}, 4, model, compared);
}

static TransformerConfig config_of(bool llama)
{
  TransformerConfig c{
      .vocabulary = 13, .positions = 21, .width = 12, .layers = 4, .heads = 3, .feed_forward = 20};
  if (llama)
  {
    c = llama_like(c);
  }
  return c;
}

/// The losses of some training steps with dropout and one sequence each, and the loss without
/// dropout.
template <class S>
std::vector<double> losses(const Place<S>& place, bool llama, const TransformerOptions& options,
                           std::size_t steps)
{
  return on_root(place, [&](const auto& mesh) {
    auto with_dropout = options;
    with_dropout.dropout = 0.2;
    with_dropout.attention_dropout = 0.3;
    with_dropout.seed = 5;
    Transformer<S, TestBackend, double> model{mesh, config_of(llama), with_dropout};
    const auto parameters = model.parameters();
    // Training amplifies rounding. With a rate of 0.01, moving the first weights by one unit in the
    // last place moves the end of a run on one rank by 1.5e-8 for Llama, and by 7e-12 for GPT-2.
    AdamW optimizer{parameters, {.learning_rate = llama ? 0.002 : 0.01}};
    const std::size_t length = 21;
    std::vector<int> ids(length);
    std::vector<double> all;
    for (std::size_t step = 0; step < steps; ++step)
    {
      for (std::size_t i = 0; i < length; ++i)
        ids[i] = static_cast<int>((i * i + step % 3 * i + 3 * step) % 13);
      all.push_back(model.compute_gradients(ids, length));
      checked_step(step, steps, optimizer, parameters);
    }
    all.push_back(model.evaluate(ids, length));
    return all;
  });
}

template <class S>
void trains_as_one_rank(const Place<S>& place)
{
  if (!fits(place)) return;
  constexpr std::size_t steps = quick ? 10 : 200;
  for (const bool llama : {false, true})
  {
    CAPTURE(place.name(), llama);
    const auto wanted = losses(single_rank, llama, {}, steps);
    const auto got = losses(place, llama, {.recompute = 2, .context_parallel = 0}, steps);
    CHECK(deviation(got, wanted) < (llama ? 1e-12 : 1e-9));
  }
}

TEST_CASE("one sequence on many ranks trains as on one, with dropout and recomputation")
{
  trains_as_one_rank(two_two_two);
  trains_as_one_rank(cube);
  if constexpr (!quick) trains_as_one_rank(Place<Grid3D>{6, {.x = 2, .y = 1, .z = 3}});
}

TEST_CASE(
    "gradients for a loss of one's own are those of the same loss, where ranks share sequences")
{
  if (!fits(cube)) return;
  const auto [wanted, got, loss, own_loss] = on_root(cube, [](const auto& mesh) {
    Transformer<Cube3D, TestBackend, double> model{mesh, config_of(false), {.context_parallel = 4}};
    model.eval();
    std::vector<int> ids(3 * 7);
    for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int>(i * i % 13);
    const auto gradients = [&] {
      std::vector<Global<double>> all;
      for (const auto& p : model.parameters()) all.push_back(gather(p.gradient));
      return all;
    };
    const double first = model.compute_gradients(ids, 7);
    const auto all = gradients();
    const auto& y = model.forward(ids, 7);
    auto dy = zeros_like(y);
    const double second = next_token_loss(y, ids, 7, dy);
    model.backward(dy);
    return std::tuple{all, gradients(), first, second};
  });
  CHECK(std::abs(loss - own_loss) < 1e-14);
  REQUIRE(got.size() == wanted.size());
  for (std::size_t i = 0; i < got.size(); ++i) CHECK(difference(got[i], wanted[i]) < 1e-14);
}

TEST_CASE("gradients of what is trained are those without frozen parameters, where ranks share "
          "sequences")
{
  if (!fits(cube)) return;
  require_clear(on_mesh(cube, [](const auto& mesh) {
    Findings found;
    using Model = Transformer<Cube3D, TestBackend, double>;
    std::vector<int> ids(3 * 7);
    for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int>(i * i % 13);
    auto config = config_of(false);
    config.tied = false;
    const TransformerOptions options{.dropout = 0.1, .seed = 5, .context_parallel = 4};
    Model whole{mesh, config, options};
    const double loss = whole.compute_gradients(ids, 7);
    const std::vector<std::string> first{"embedding.*", "positions.*", "layers.0.*"};
    const std::vector<std::string> all{"embedding.*", "positions.*", "layers.*"};
    for (const auto& frozen : {first, all})
      for (const bool own_loss : {false, true})
      {
        auto with_frozen = options;
        with_frozen.frozen = frozen;
        Model model{mesh, config, with_frozen};
        double got = 0;
        if (own_loss)
        {
          const auto& y = model.forward(ids, 7);
          auto dy = zeros_like(y);
          got = next_token_loss(y, ids, 7, dy);
          model.backward(dy);
        }
        else
          got = model.compute_gradients(ids, 7);
        found.check(std::abs(got - loss) <= 1e-14, "the loss is ", got, ", not ", loss);
        const auto parameters = model.parameters();
        const auto wanted = whole.parameters();
        for (std::size_t p = 0; p < wanted.size(); ++p)
        {
          if (parameters[p].frozen) continue;
          const auto a = gather(parameters[p].gradient), b = gather(wanted[p].gradient);
          if (mesh.rank() == 0)
            found.check(difference(a, b) <= 1e-14, parameters[p].name, " is off by ",
                        difference(a, b));
        }
      }
    return found;
  }));
}

TEST_CASE(
    "a model for inference whose ranks share sequences computes what one in training computes")
{
  if (!fits(cube)) return;
  const auto computed = [](const TransformerOptions& options) {
    return on_root(cube, [&](const auto& mesh) {
      Transformer<Cube3D, TestBackend, double> model{mesh, config_of(true), options};
      std::vector<int> ids(3 * 7);
      for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int>(i * i % 13);
      auto labels = ids;
      labels[3] = labels[10] = labels[20] = ignored_label;
      const auto logits = gather(model.forward(ids, 7));
      const std::vector<std::vector<int>> prompts{{1, 2, 3, 4, 5}, {6}, {7, 8}};
      return std::tuple{logits, Global<double>{{model.evaluate(ids, 7)}},
                        Global<double>{{model.evaluate(ids, labels, 7)}},
                        generate(model, prompts, {.tokens = 4}),
                        generate(model, prompts, {.tokens = 4, .cache = false})};
    });
  };
  const auto inference = computed({.seed = 3, .inference = true, .context_parallel = 4});
  CHECK(inference == computed({.seed = 3, .context_parallel = 4}));
  const auto whole = computed({.seed = 3});
  CHECK(difference(std::get<0>(inference), std::get<0>(whole)) < 1e-14);
  CHECK(difference(std::get<1>(inference), std::get<1>(whole)) < 1e-14);
  CHECK(difference(std::get<2>(inference), std::get<2>(whole)) < 1e-14);
  CHECK(std::get<3>(inference) == std::get<3>(whole));
  CHECK(std::get<4>(inference) == std::get<3>(whole));
}

#ifndef CUBIST_TEST_MPI  // the backend does not change which tokens are read together
TEST_CASE("prompts of any lengths are continued as each of them alone, where ranks share a cache")
{
  if (!fits(cube)) return;
  using Prompts = std::vector<std::vector<int>>;
  struct Call
  {
    Prompts prompts;
    GenerateOptions options;
  };
  // First a prompt that gets its tokens before another one has been read, then random lengths.
  std::vector<Call> calls{{{{1, 2}, {1, 2, 3, 4, 5}}, {.tokens = 1}}};
  const Philox random{7, 12345};
  std::uint64_t index = 0;
  const auto draw = [&](int from, int to) {
    return from + static_cast<int>(random.uniform<double>(index++) * (to - from + 1));
  };
  for (int i = 0; i < 5; ++i)
  {
    auto& [prompts, options] = calls.emplace_back();
    prompts.resize(static_cast<std::size_t>(draw(2, 4)));
    for (auto& prompt : prompts)
      for (int n = draw(1, 16); n > 0; --n) prompt.push_back(draw(0, 12));
    options = {.tokens = static_cast<std::size_t>(draw(1, 4)),
               .temperature = 1.5 * draw(0, 1),
               .seed = 3,
               .end_ids = {draw(0, 12), draw(0, 12)}};
  }
  const auto texts = [&](const auto& place, std::size_t ranks, bool alone) {
    return on_root(place, [&](const auto& mesh) {
      using S = typename std::decay_t<decltype(mesh)>::Scheme;
      Transformer<S, TestBackend, double> model{
          mesh, config_of(false), {.seed = 3, .inference = true, .context_parallel = ranks}};
      std::vector<Prompts> all;
      for (auto [prompts, options] : calls)
      {
        if (!alone) all.push_back(generate(model, prompts, options));
        if (!alone) continue;
        options.cache = false;
        all.emplace_back();
        for (; options.first_sequence < prompts.size(); ++options.first_sequence)
          all.back().push_back(
              generate(model, Prompts{prompts[options.first_sequence]}, options)[0]);
      }
      return all;
    });
  };
  const auto wanted = texts(single_rank, 1, true);
  CHECK(texts(cube, 4, false) == wanted);
  CHECK(texts(two_two_two, 2, false) == wanted);
}
#endif

TEST_CASE("a model refuses a number of ranks a sequence that its mesh does not have")
{
  if (!fits(cube)) return;
  require_clear(on_mesh(cube, [](const auto& mesh) {
    Findings found;
    Transformer<Cube3D, TestBackend, double> model{mesh, config_of(false), {.context_parallel = 3}};
    const auto message = message_of<ArgumentError>([&] {
      model.forward(std::vector{1, 2, 3, 4}, 4);
    });
    found.check(mentions(message, "got 3 ranks that share a sequence", "4 parts"), message);
    return found;
  }));
}

}  // namespace cubist::test::context_parallel_test
