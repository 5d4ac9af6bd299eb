// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/io/checkpoints.hpp"
#include "cubist/nn/optimizers/optimizer.hpp"
#include "cubist/nn/transformer/generate.hpp"
#include "cubist/nn/transformer/transformer.hpp"

#include "checked_step.hpp"
#include "folder.hpp"
#include "nn.hpp"
#include "small_transformer.hpp"

// Tests transformers in training: dropout, checkpoints, ranks without work, and calls out of order.

namespace cubist::test::transformer_training_test
{

constexpr std::size_t length = 5;

static std::vector<int> batch(std::uint64_t step) { return small_batch(step, 3 * length); }

struct Trained
{
  std::uint64_t began = 0;
  std::vector<double> losses = {};
  double evaluated = 0;
};

/// Trains from a folder's newest checkpoint up to step `last`, and saves a checkpoint at the end.
template <class S, class T = double>
Trained train(const Place<S>& place, bool llama, std::uint64_t last,
              const std::filesystem::path& folder = {})
{
  return on_root(place, [&](const auto& mesh) {
    Transformer<S, TestBackend, T> model{
        mesh, small_transformer(llama), {.dropout = 0.2, .attention_dropout = 0.3, .seed = 5}};
    const auto parameters = model.parameters();
    AdamW optimizer{parameters, {.learning_rate = 0.02}};
    Checkpoints checkpoints{mesh, folder};
    const auto state = state_of(model, optimizer);
    std::uint64_t step = folder.empty() ? 0 : checkpoints.load(state).value_or(0);
    Trained result{.began = step};
    while (step < last)
    {
      result.losses.push_back(model.compute_gradients(batch(step % 2), length));
      checked_step(optimizer, parameters);
      ++step;
    }
    if (!folder.empty()) checkpoints.save(step, state);
    result.evaluated = model.evaluate(batch(1), length);
    return result;
  });
}

TEST_CASE("a transformer in bfloat16 learns")
{
  for (const bool llama : {false, true})
  {
    const auto wanted = train(one_rank, llama, 6);
    const auto got = train<Summa2D, bfloat16>(one_rank, llama, 6);
    CHECK(deviation(got.losses, wanted.losses) < 0.03);
    if (fits(two_by_two))
      CHECK(deviation(train<Summa2D, bfloat16>(two_by_two, llama, 6).losses, got.losses) < 0.03);
  }
}

/// How some tokens are cut into sequences.
struct Cut
{
  std::size_t sequences;
  std::size_t tokens;  // of each sequence
};

/// What a model computes for batches with each of these cuts: gradients of all parameters and
/// losses, in consecutive calls, then losses without gradients, then texts. The first batch is that
/// of training step `first`.
template <class T, class S>
std::vector<std::vector<Global<double>>>
results_of_cuts(const Place<S>& place, bool llama, std::size_t recompute,
                const std::vector<Cut>& cuts, std::uint64_t first)
{
  return on_root(place, [&](const auto& mesh) {
    Transformer<S, TestBackend, T> model{
        mesh,
        small_transformer(llama),
        {.dropout = 0.2, .attention_dropout = 0.3, .seed = 5, .recompute = recompute}};
    for (const auto& number : state_of(model).numbers)
      if (number.name == "forwards") *number.value = first;
    const auto parameters = model.parameters();
    std::vector<std::vector<Global<double>>> found(cuts.size());
    const auto for_each_cut = [&](auto f) {
      for (std::size_t k = 0; k < cuts.size(); ++k)
      {
        std::vector<int> ids(cuts[k].sequences * cuts[k].tokens);
        for (std::size_t i = 0; i < ids.size(); ++i)
          ids[i] = static_cast<int>((i * i + 3 * i) % 13);
        f(cuts[k], ids, found[k]);
      }
    };
    for_each_cut([&](const Cut& cut, const std::vector<int>& ids, auto& all) {
      all.push_back({{model.compute_gradients(ids, cut.tokens)}});
      check_replicas(parameters);
      for (const auto& p : parameters)
      {
        const auto gradient = gather(p.gradient);
        all.push_back(
            generate<double>(gradient.shape(0), gradient.shape(1),
                             [&](std::size_t i, std::size_t j) { return double{gradient(i, j)}; }));
      }
    });
    for_each_cut([&](const Cut& cut, const std::vector<int>& ids, auto& all) {
      all.push_back({{model.evaluate(ids, cut.tokens)}});
    });
    for_each_cut([&](const Cut& cut, const std::vector<int>& ids, auto& all) {
      const auto prompts = std::span{ids}.first(cut.sequences * (cut.tokens - 2));
      for (const int token : cubist::generate(model, prompts, cut.sequences, {.tokens = 2}))
        all.push_back({{static_cast<double>(token)}});
    });
    return found;
  });
}

/// Checks that a model that computes one cut after the other gives the bits of new models.
template <class T = double, class S>
void forgets_former_cuts(const Place<S>& place, bool llama, std::size_t recompute = 0)
{
  if (!fits(place)) return;
  // As many tokens with another cut, then fewer, then more, then as many as at first.
  const std::vector<Cut> cuts{{6, 4}, {3, 8}, {2, 3}, {7, 5}, {4, 6}};
  CAPTURE(place.name(), llama, recompute);
  const auto kept = results_of_cuts<T>(place, llama, recompute, cuts, 0);
  for (std::size_t k = 0; k < kept.size(); ++k)
  {
    CAPTURE(cuts[k].sequences, cuts[k].tokens);
    const auto fresh = results_of_cuts<T>(place, llama, recompute, {cuts[k]}, k);
    REQUIRE(fresh[0].size() == kept[k].size());
    for (std::size_t i = 0; i < fresh[0].size(); ++i)
    {
      CAPTURE(i);
      CHECK(identical(kept[k][i], fresh[0][i]));
    }
  }
}

TEST_CASE("a transformer's results do not depend on the shapes of the calls before")
{
  // Learned positions, then rotary ones.
  forgets_former_cuts(two_two_two, false);
  forgets_former_cuts(Place<Megatron1DSequence>{2, {}}, true);
  if constexpr (few_suffice<TestBackend>) return;
  forgets_former_cuts(two_two_two, true);
  forgets_former_cuts(Place<Megatron1DSequence>{2, {}}, false, 1);
  forgets_former_cuts<bfloat16>(two_by_two, true);
}

TEST_CASE("a transformer trains with the same dropout on every mesh")
{
  for (const bool llama : {false, true})
  {
    const auto wanted = train(one_rank, llama, 6);
    CHECK(wanted.losses.back() < wanted.losses.front());
    const auto on = [&](const auto& place) {
      if (!fits(place)) return;
      CAPTURE(place.name(), llama);
      const auto got = train(place, llama, 6);
      CHECK(deviation(got.losses, wanted.losses) < 1e-11);
      CHECK(deviation({got.evaluated}, {wanted.evaluated}) < 1e-11);
    };
    on(Place<Summa2D>{6, {.rows = 2, .cols = 3}});
    on(two_two_two);
    on(cube);
    on(Place<Megatron1DSequence>{2, {}});
    on(Place<DataParallel<Summa2D>>{8, {2, {.q = 2}}});
  }
}

TEST_CASE("a transformer's training continues from a checkpoint, on any mesh")
{
  for (const bool llama : {false, true})
  {
    const Folder folder;
    const auto whole = train(one_rank, llama, 6, folder / "whole");
    (void)train(one_rank, llama, 3, folder / "half");
    const auto rest = std::vector(whole.losses.begin() + 3, whole.losses.end());
    const auto on = [&](const auto& place) {
      if (!fits(place)) return;
      CAPTURE(place.name(), llama);
      once([&] { std::filesystem::copy(folder / "half", folder / place.name()); });
      const auto got = train(place, llama, 6, folder / place.name());
      CHECK(got.began == 3);
      CHECK(deviation(got.losses, rest) < 1e-11);
    };
    on(one_rank);
    on(two_two_two);
    on(cube);
    on(Place<Megatron1DSequence>{2, {}});
  }
}

TEST_CASE("ranks that a mesh leaves idle may have a transformer, too")
{
  if (!fits(3)) return;
  const auto losses = on_ranks<TestBackend>(3, [](TestBackend::Communicator& world) {
    const Mesh<Summa2D, TestBackend> mesh{world, {1, 2}, IdleRanks::allowed};
    Transformer<Summa2D, TestBackend, double> model{mesh, small_transformer(false)};
    const auto parameters = model.parameters();
    AdamW optimizer{parameters};
    double loss = 0;
    for (std::uint64_t step = 0; mesh.active() && step < 3; ++step)
    {
      loss = model.compute_gradients(batch(step), length);
      checked_step(optimizer, parameters);
    }
    return std::pair{mesh.active(), loss};
  });
  CHECK(losses[0].second == losses[1].second);
  CHECK_FALSE(losses[2].first);
}

TEST_CASE("calls of a transformer that are out of order, or of other tokens, are refused")
{
  const auto messages = on_root(one_rank, [](const auto& mesh) {
    Transformer<Summa2D, TestBackend, double> model{mesh, small_transformer(false)};
    std::vector<std::string> all;
    const auto y = model.evaluate(batch(0), length);
    (void)y;
    typename decltype(model)::Output d{mesh, {15, 13}};
    all.push_back(message_of<ArgumentError>([&] { model.backward(d); }));
    all.push_back(message_of<ShapeError>([&] { (void)model.forward(batch(0), 4); }));
    all.push_back(message_of<ArgumentError>([&] { (void)model.forward(std::vector(9, 1), 9); }));
    all.push_back(message_of<ArgumentError>([&] { (void)model.forward(std::vector(2, -1), 2); }));
    all.push_back(message_of<ArgumentError>([&] { model.backward(d); }));
    all.push_back(message_of<ShapeError>([&] { (void)model.compute_gradients({}, 4); }));
    (void)model.forward(batch(0), length);
    all.push_back(message_of<ShapeError>([&] { model.backward({mesh, {3, 13}}); }));
    (void)model.forward(batch(0), length);
    (void)message_of<ShapeError>([&] { (void)model.forward(batch(1), 4); });
    all.push_back(message_of<ArgumentError>([&] { model.backward(d); }));
    return all;
  });
  CHECK(mentions(messages[0], "before any forward"));
  CHECK(mentions(messages[1], "15 tokens in sequences of 4"));
  CHECK(mentions(messages[2], "9 tokens", "8 positions"));
  CHECK(mentions(messages[3], "id -1", "0 to 12"));
  CHECK(mentions(messages[4], "after one that failed"));
  CHECK(mentions(messages[5], "0 tokens"));
  CHECK(mentions(messages[6], "(3, 13)"));
  CHECK(mentions(messages[7], "after one that failed"));
}

TEST_CASE("a transformer's evaluations and forward passes do not disturb one another")
{
  const auto [found, wanted] = on_root(one_rank, [](const auto& mesh) {
    std::vector<std::vector<double>> both[2];
    for (const bool disturbed : {true, false})
    {
      using Model = Transformer<Summa2D, TestBackend, double>;
      Model model{mesh, small_transformer(false), {.dropout = 0.1, .attention_dropout = 0.1}};
      const auto parameters = model.parameters();
      typename Model::Kept first, second;
      auto& all = both[disturbed ? 0 : 1];
      const auto gradients = [&](std::uint64_t i, typename Model::Kept& kept) {
        typename Model::Output d{mesh, {15, 13}, {length, 1}};
        scatter(uniform<double>(15, 13, i), d);
        model.backward(d, kept);
        for (const auto& p : parameters)
        {
          const auto whole = gather(p.gradient);
          all.emplace_back(whole.begin(), whole.end());
        }
      };
      (void)model.forward(batch(0), length, first);
      if (!disturbed) gradients(0, first);
      (void)model.forward(batch(1), length, second);
      if (disturbed) gradients(0, first);
      gradients(1, second);
      typename Model::Output d{mesh, {15, 13}, {length, 1}};
      scatter(uniform<double>(15, 13, 5), d);
      (void)model.forward(batch(2), length);
      if (disturbed)
      {
        (void)model.evaluate(batch(3), length);
        (void)model.predict(batch(3), length);
        (void)model.next_logits(batch(4), length);
      }
      model.backward(d);
      for (const auto& p : parameters)
      {
        const auto whole = gather(p.gradient);
        all.emplace_back(whole.begin(), whole.end());
      }
    }
    return std::pair{both[0], both[1]};
  });
  CHECK(found == wanted);
  CHECK(!found.empty());
}

TEST_CASE("a transformer of sizes that do not fit is refused")
{
  const auto messages = on_root(one_rank, [](const auto& mesh) {
    std::vector<std::string> all;
    const auto refuse = [&](auto change) {
      auto config = small_transformer(false);
      change(config);
      all.push_back(message_of<Error>([&] {
        Transformer<Summa2D, TestBackend, double> m{mesh, config};
      }));
    };
    refuse([](auto& c) { c.layers = 0; });
    refuse([](auto& c) { c.heads = 5; });
    refuse([](auto& c) { c.key_value_heads = 2; });
    return all;
  });
  CHECK(mentions(messages[0], "0 layers"));
  CHECK(mentions(messages[1], "5"));
  CHECK(mentions(messages[2], "3", "2"));
}

}  // namespace cubist::test::transformer_training_test
