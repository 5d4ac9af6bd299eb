// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/backend/threads.hpp"
#include "cubist/nn/networks/mlp.hpp"
#include "cubist/nn/transformer/transformer.hpp"
#include "cubist/training/clip_gradients.hpp"
#include "cubist/training/sharded_optimizer.hpp"

#include "checked_step.hpp"
#include "llama_like.hpp"
#include "nn.hpp"

// Tests networks some of whose parameters are frozen.

namespace cubist::test::transformer_frozen_test
{

static TransformerConfig config_of(bool llama)
{
  const TransformerConfig c{
      .vocabulary = 14, .positions = 8, .width = 12, .layers = 3, .heads = 2, .feed_forward = 20};
  return llama ? llama_like(c) : c;
}

using Names = std::vector<std::string>;

static bool is_frozen(const Names& frozen, const std::string& name)
{
  return std::any_of(frozen.begin(), frozen.end(),
                     [&](const std::string& pattern) { return matches_name(pattern, name); });
}

static std::vector<int> batch(int step)
{
  std::vector<int> ids;
  for (int i = 0; i < 4 * 5; ++i) ids.push_back((i * i + 3 * step * i + step) % 14);
  return ids;
}

template <class T, class M>
std::vector<T> local(const DistView<T, M>& view)
{
  const auto elements = view.padded.elements();
  return {elements.begin(), elements.end()};
}

/// Checks that trained parameters have the gradients of a network in which nothing is frozen, and
/// that frozen ones have no gradients and no state, and stay as they are.
template <class S>
void trains_the_rest(const Place<S>& place, bool llama, const Names& frozen, std::size_t recompute)
{
  if (!fits(place)) return;
  INFO(place.name() << (llama ? ", Llama, " : ", GPT-2, ") << frozen.front() << ", " << recompute);
  require_clear(on_mesh(place, [&](const auto& mesh) {
    Findings found;
    using Model = Transformer<S, TestBackend, double>;
    using M = typename Model::Mesh;
    const TransformerOptions options{.dropout = 0.1,
                                     .seed = 5,
                                     .method = llama ? Method::collectives : Method::automatic,
                                     .recompute = recompute};
    auto with_frozen = options;
    with_frozen.frozen = frozen;
    Model whole{mesh, config_of(llama), options};
    Model model{mesh, config_of(llama), with_frozen};
    const auto parameters = model.parameters();
    const auto all = whole.parameters();
    const double loss = whole.compute_gradients(batch(0), 5);
    found.check(model.compute_gradients(batch(0), 5) == loss, "the loss");
    std::vector<std::vector<double>> before;
    for (std::size_t i = 0; i < all.size(); ++i)
    {
      const auto& p = parameters[i];
      before.push_back(local(p.value));
      const bool wanted = is_frozen(frozen, p.name);
      found.check(p.name == all[i].name && p.frozen == wanted, p.name, " is frozen or not");
      if (wanted)
      {
        found.check(p.gradient.padded.size() == 0 && p.gradient.shape.size() == 0, p.name,
                    " has a gradient");
        continue;
      }
      const auto got = local(p.gradient), expected = local(all[i].gradient);
      double largest = 1e-3, worst = 0;
      for (std::size_t k = 0; k < got.size(); ++k)
      {
        largest = std::max(largest, std::abs(expected[k]));
        worst = std::max(worst, std::abs(got[k] - expected[k]));
      }
      found.check(got.size() == expected.size() && worst <= 1e-13 * largest, "the gradient of ",
                  p.name, " is off by ", worst, " of ", largest);
    }
    AdamW<double, M> optimizer{parameters, {.learning_rate = 0.01, .weight_decay = 0.1}};
    for (const auto& m : state_of(optimizer).matrices)
      found.check(!is_frozen(frozen, m.name.substr(m.name.find('.', 5) + 1)), m.name, " is kept");
    for (int step = 0; step < 2; ++step)
    {
      (void)model.compute_gradients(batch(step), 5);
      found.check(std::isfinite(clip_gradients(parameters, 1.0)), "the norm");
      check_finite(0, parameters, 1);
      checked_step(optimizer, parameters);
    }
    for (std::size_t i = 0; i < all.size(); ++i)
    {
      const bool is_same = local(parameters[i].value) == before[i];
      // A rank may have only padding.
      const bool is_empty = parameters[i].value.valid().size() == 0;
      found.check(is_empty || is_same == parameters[i].frozen, parameters[i].name,
                  is_same ? " stays" : " changes");
    }
    return found;
  }));
}

/// Leaves out names that Llama lacks, as it has no biases and no positions.
static Names of_llama(Names names)
{
  std::erase(names, "positions.*");
  std::erase(names, "*.bias");
  return names;
}

TEST_CASE("a transformer trains what is not frozen, and the rest has no gradient and no state")
{
  bool llama = false;
  for (const Names& names :
       std::vector<Names>{{"embedding.*", "positions.*", "layers.0.*", "layers.1.*"},
                          {"layers.1.*", "*.bias"},
                          {"layers.2.attention.query.weight", "*.feed_forward.*", "*norm*"},
                          {"embedding.*"}})
  {
    trains_the_rest(two_two_two, llama, llama ? of_llama(names) : names, llama ? 2 : 0);
    llama = !llama;
    if (few_suffice<TestBackend>) continue;
    trains_the_rest(one_rank, llama, llama ? of_llama(names) : names, 2);
    if (llama)
      trains_the_rest(cube, llama, of_llama(names), 0);
    else
      trains_the_rest(Place<Megatron1D>{2, {}}, llama, names, 1);
  }
}

TEST_CASE("sharded and with micro-batches, what is not frozen is trained with the same bits")
{
  const Place<DataParallel<Summa2D>> place{4, {2, {.rows = 1, .cols = 2}}};
  if (!fits(place)) return;
  require_clear(on_mesh(place, [](const auto& mesh) {
    Findings found;
    using Model = Transformer<DataParallel<Summa2D>, TestBackend, double>;
    using M = typename Model::Mesh;
    for (const bool with_lora : {false, true})
    {
      TransformerOptions options{.seed = 5};
      std::optional<LoraOptions> lora;
      if (with_lora)
        lora = LoraOptions{.rank = 3, .dropout = 0.2};
      else
        options.frozen = {"embedding.*", "layers.0.*", "*.bias"};
      Model one{mesh, config_of(false), options, lora},
          other{mesh, config_of(false), options, lora};
      AdamW<double, M> optimizer{one.parameters()};
      Sharded<AdamW<double, M>> sharded{other.parameters(), {}, 2};
      const GradientAccumulation accumulation{one.parameters(), 2};
      for (int step = 0; step < 4; ++step)
      {
        (void)one.compute_gradients(batch(step), 5);
        (void)other.compute_gradients(batch(step), 5);
        if (step % 2 == 0) continue;
        checked_step(optimizer, one.parameters());
        checked_sharded_step(sharded, other.parameters());
      }
      const auto a = one.parameters(), b = other.parameters();
      for (std::size_t i = 0; i < a.size(); ++i)
        found.check(local(a[i].value) == local(b[i].value), a[i].name);
      found.check(state_of(optimizer).matrices.size() == state_of(sharded).matrices.size(),
                  "state");
    }
    return found;
  }));
}

TEST_CASE("LoRA has the same gradients where activations are computed again")
{
  if (!fits(two_two_two)) return;
  require_clear(on_mesh(two_two_two, [](const auto& mesh) {
    Findings found;
    using Model = Transformer<Summa25D, TestBackend, double>;
    const auto gradients = [&](bool llama, std::size_t recompute) {
      Model model{mesh,
                  config_of(llama),
                  {.dropout = 0.1, .seed = 5, .recompute = recompute},
                  LoraOptions{.rank = 3, .dropout = 0.2}};
      const auto parameters = model.parameters();
      for (const auto& p : parameters)  // else dA is 0
        if (p.name.ends_with("lora_b"))
          scatter(uniform<double>(p.value.shape.rows, p.value.shape.cols, 1, 0.1), p.value);
      (void)model.compute_gradients(batch(0), 5);
      std::vector<std::vector<double>> all;
      for (const auto& p : parameters) all.push_back(local(p.gradient));
      return all;
    };
    for (const bool llama : {false, true})
    {
      const auto wanted = gradients(llama, 0);
      found.check(gradients(llama, 1) == wanted, "segments of one block give other bits");
      found.check(gradients(llama, 2) == wanted, "segments of two blocks give other bits");
    }
    return found;
  }));
}

#if !defined CUBIST_TEST_MPI && !CUBIST_SANITIZED  // counts are equal there
TEST_CASE("nothing is sent for parameters that are frozen")
{
  using S = DataParallel<Summa2D>;
  using B = Counting<Threads>;
  // The elements that both ranks send in total; each has half of the sequences.
  struct Sent
  {
    std::uint64_t step, evaluation;
    std::map<std::string, std::uint64_t> sizes;
  };
  const auto sent = [](const Names& frozen) {
    const auto all = on_ranks<B>(2, [&](auto& world) {
      const Mesh<S, B> mesh{world, {2, {.q = 1}}};
      auto config = config_of(false);
      config.tied = false;
      Transformer<S, B, double> model{mesh, config, {.frozen = frozen}};
      Sent s;
      world.traffic().reset();
      (void)model.compute_gradients(batch(0), 5);
      s.step = world.traffic().total().elements;
      world.traffic().reset();
      (void)model.evaluate(batch(0), 5);
      s.evaluation = world.traffic().total().elements;
      for (const auto& p : model.parameters()) s.sizes[p.name] = p.value.shape.size();
      return s;
    });
    return Sent{all[0].step + all[1].step, all[0].evaluation + all[1].evaluation, all[0].sizes};
  };
  const auto none = sent({});
  const auto everything = sent({"*"});
  CHECK(everything.step == everything.evaluation);
  // A sum over two ranks sends each element twice.
  const auto sums = [&](const std::string& pattern) {
    std::uint64_t all = 0;
    for (const auto& [name, size] : none.sizes)
      if (matches_name(pattern, name)) all += 2 * size;
    return all;
  };
  for (const char* pattern : {"layers.0.*", "layers.*", "*.bias", "*norm.weight", "logits.weight",
                              "layers.1.attention.key.weight"})
  {
    CAPTURE(pattern);
    CHECK(sums(pattern) > 0);
    CHECK(none.step - sent({pattern}).step == sums(pattern));
  }
}

TEST_CASE("a frozen weight that a product has gathered is not gathered again")
{
  const auto sent = [](const Names& frozen) {
    std::uint64_t all = 0;
    for (const std::uint64_t words : on_ranks<Counting<Threads>>(8, [&](auto& world) {
           const Mesh<Cube3D, Counting<Threads>> mesh{world, {.q = 2}};
           Transformer<Cube3D, Counting<Threads>, double> model{
               mesh, config_of(true), {.frozen = frozen}};
           world.traffic().reset();
           (void)model.compute_gradients(batch(0), 5);
           return world.traffic().total().elements;
         }))
      all += words;
    return all;
  };
  // Backward saves the sums of the down-projections' gradients over two ranks.
  constexpr std::uint64_t weights = 3 * 20 * 12;
  CHECK(sent({}) - sent({"*.feed_forward.down.weight"}) == weights);
}
#endif

TEST_CASE("an MLP trains what is not frozen")
{
  if (!fits(two_two_two)) return;
  require_clear(on_mesh(two_two_two, [](const auto& mesh) {
    Findings found;
    using Net = MLP<Summa25D, TestBackend, double>;
    const std::vector<std::size_t> sizes{6, 8, 7, 5};
    Net whole{mesh, sizes, {.seed = 3}};
    Net net{mesh, sizes, {.seed = 3, .frozen = {"layers.0.*", "layers.1.weight"}}};
    const auto x = scatter<Summa25D::Input>(mesh, uniform<double>(8, 6, 1));
    const auto gradients = [&](Net& n, bool with_input) {
      auto dy = n.forward(x);
      if (with_input)
        (void)n.backward_with_input(dy);
      else
        n.backward(dy);
      std::map<std::string, std::vector<double>> all;
      for (const auto& p : n.parameters()) all[p.name] = local(p.gradient);
      return all;
    };
    const auto wanted = gradients(whole, false);
    for (const bool with_input : {false, true})
      for (const auto& [name, got] : gradients(net, with_input))
      {
        const bool is_frozen = name.starts_with("layers.0.") || name == "layers.1.weight";
        found.check(is_frozen ? got.empty() : got == wanted.at(name), name);
      }
    Sgd<double, typename Net::Mesh> optimizer{net.parameters()};
    found.check(state_of(optimizer).matrices.size() == 3, "state");
    const auto before = local(net.parameters()[0].value);
    checked_step(optimizer, net.parameters());
    found.check(local(net.parameters()[0].value) == before, "the first weight");
    return found;
  }));
}

TEST_CASE("a name that matches no parameter cannot be frozen")
{
  const auto messages = on_root(one_rank, [](const auto& mesh) {
    return std::vector{
        message_of<ArgumentError>([&] {
          const Transformer<Summa2D, TestBackend, double> model{
              mesh, config_of(true), {.frozen = {"layers.*", "positions.*"}}};
        }),
        message_of<ArgumentError>([&] {
          const MLP<Summa2D, TestBackend, double> mlp{mesh, {2, 3}, {.frozen = {"layers.1.*"}}};
        }),
        message_of<ArgumentError>([&] {
          const LoraOptions lora{.layers = {"query", "gate"}};
          const Transformer<Summa2D, TestBackend, double> model{mesh, config_of(false), {}, lora};
        }),
        message_of<ArgumentError>([&] {
          const MLP<Summa2D, TestBackend, double> mlp{mesh, {2, 3}, {}, LoraOptions{.rank = 0}};
        })};
  });
  CHECK(mentions(messages[0], "got \"positions.*\"", "no parameter", "names of parameters()"));
  CHECK(mentions(messages[1], "got \"layers.1.*\""));
  CHECK(mentions(messages[2], "got \"gate\" among the layers for LoRA", "no linear layer"));
  CHECK(mentions(messages[3], "got a rank of 0 for LoRA"));
}

}  // namespace cubist::test::transformer_frozen_test
