// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/nn/transformer/pipelined_transformer.hpp"

#include "folder.hpp"
#include "stored.hpp"
#include "transformer_reference.hpp"

// Compares transformers whose weights are stored in fewer bits with transformers in double that
// have the stored values.

namespace cubist::test::stored_weights_test
{

constexpr StoredWeights all_types[] = {StoredWeights::q8, StoredWeights::bfloat16,
                                       StoredWeights::half};

struct Answer
{
  Global<double> logits;
  double loss = 0;
  std::vector<int> tokens;
};

template <class Model>
Answer answer_of(Model& model, const ReferenceModel& reference)
{
  const auto ids = reference.reference.ids("ids");
  const std::size_t length = reference.reference.shape("ids")[1];
  Answer a;
  a.logits = converted<double>(gather(model.predict(ids, length)));
  a.loss = model.evaluate(ids, length);
  a.tokens =
      generate(model, reference.reference.ids("prompt"), 1, {.tokens = 6, .ignore_end = true});
  return a;
}

/// Gives LoRA's matrices the same values in every model.
template <class T, class M>
void set_lora(const Parameters<T, M>& parameters)
{
  std::uint64_t seed = 0;
  for (const auto& p : parameters)
    if (is_of_lora(p.name))
      scatter(converted<T>(uniform<float>(p.value.shape.rows, p.value.shape.cols, ++seed, 0.1)),
              p.value);
}

/// Loads a model's weights from a file, which has no matrices of LoRA.
template <class Model>
void load(Model& model, const ReferenceModel& reference)
{
  auto of_file = model.parameters();
  set_lora(of_file);
  std::erase_if(of_file, [](const auto& p) { return is_of_lora(p.name); });
  load_weights(reference.folder, of_file, reference.config);
}

/// What a model in double computes with the stored values.
static Answer expected_of(const ReferenceModel& reference, StoredWeights type,
                          const std::optional<LoraOptions>& lora = {})
{
  return on_root(Place<Megatron1D>{1}, [&](const auto& mesh) {
    Transformer<Megatron1D, TestBackend, double> model{
        mesh, reference.config, {.inference = true}, lora};
    const auto parameters = model.parameters();
    load(model, reference);
    for (const auto& p : parameters)
    {
      const bool in_linear_layer = p.name.ends_with(".weight") && p.name.starts_with("layers.") &&
                                   p.name.find("norm") == std::string::npos && !is_of_lora(p.name);
      if (in_linear_layer) scatter(as_stored(gather(p.value), type), p.value);
    }
    return answer_of(model, reference);
  });
}

/// Compares what a model with stored weights computes on a mesh.
template <class S>
void check(const Place<S>& place, const ReferenceModel& reference, StoredWeights type,
           const Answer& expected, const std::optional<LoraOptions>& lora = {})
{
  if (!fits(place)) return;
  CAPTURE(place.name(), reference.folder, to_string(type));
  const Answer got = on_root(place, [&](const auto& mesh) {
    Transformer<S, TestBackend, float> model{
        mesh, reference.config, {.inference = true}, type, lora};
    load(model, reference);
    return answer_of(model, reference);
  });
  double largest = 0, worst = 0;
  REQUIRE(got.logits.shape() == expected.logits.shape());
  for (std::size_t i = 0; i < got.logits.size(); ++i)
  {
    largest = std::max(largest, std::abs(expected.logits.data()[i]));
    worst = std::max(worst, std::abs(got.logits.data()[i] - expected.logits.data()[i]));
  }
  CHECK(worst <= 1e-5 * largest);
  CHECK(std::abs(got.loss - expected.loss) <= 1e-5 * expected.loss);
  CHECK(got.tokens == expected.tokens);
}

TEST_CASE("a model with stored weights computes what its stored values say, in every family")
{
  if (on_processes<TestBackend>) return;  // each process would wait for the references
  for (const auto& reference : reference_models())
    for (const auto type : all_types)
    {
      const Answer expected = expected_of(reference, type);
      check(Place<Megatron1D>{2, {.p = 2}}, reference, type, expected);
    }
}

TEST_CASE("a model with stored weights is the same on every mesh, with idle ranks and in stages")
{
  for (const auto* reference : {&gpt2_tiny(), &llama_tiny()})
  {
    if (on_processes<TestBackend> && reference == &gpt2_tiny()) continue;
    const Answer expected = expected_of(*reference, StoredWeights::q8);
    // Some of these have more ranks than the models have heads of keys and values.
    for (const int p : {1, 3, 8})
      if (p == 8 || !on_processes<TestBackend>)
        check(Place<Megatron1D>{p, {.p = p}}, *reference, StoredWeights::q8, expected);
    check(two_two_two, *reference, StoredWeights::q8, expected);
    check(Place<Pipeline<Megatron1D>>{4, {.stages = 2, .scheme = {.p = 2}}}, *reference,
          StoredWeights::q8, expected);
  }
}

TEST_CASE("LoRA's matrices stand beside stored weights, and are not merged into them")
{
  const std::optional<LoraOptions> lora{LoraOptions{.rank = 2}};
  const Answer expected = expected_of(llama_tiny(), StoredWeights::q8, lora);
  check(Place<Megatron1D>{3, {.p = 3}}, llama_tiny(), StoredWeights::q8, expected, lora);
  const auto message = on_root(Place<Megatron1D>{1}, [&](const auto& mesh) {
    Transformer<Megatron1D, TestBackend, float> model{
        mesh, llama_tiny().config, {.inference = true}, StoredWeights::q8, lora};
    return message_of<ArgumentError>([&] { merge_lora(model); });
  });
  CHECK(mentions(message, "got merge_lora for weights that are stored as q8", "a second time"));
}

TEST_CASE("stored weights are neither trained nor saved, and refuse what is not a number")
{
  const Folder folder;  // all processes make it
  const auto messages = on_root(Place<Megatron1D>{1}, [&](const auto& mesh) {
    using Model = Transformer<Megatron1D, TestBackend, float>;
    const auto& config = llama_tiny().config;
    const auto trained = message_of<ArgumentError>([&] {
      Model{mesh, config, {}, StoredWeights::q8};
    });
    Model model{mesh, config, {.inference = true}, StoredWeights::q8};
    const auto parameters = model.parameters();
    const auto saved =
        message_of<ArgumentError>([&] { save_weights(folder.path(), parameters, config); });
    const auto kept = message_of<ArgumentError>([&] { (void)state_of(model); });

    Model whole{mesh, config, {.inference = true}};
    const auto values = whole.parameters();
    auto& damaged = *std::ranges::find(values, "layers.1.feed_forward.down.weight",
                                       [](const auto& p) { return p.name; });
    mesh.engine().fill(damaged.value.valid().block(3, 5, {1, 1}),
                       std::numeric_limits<float>::quiet_NaN());
    save_weights(folder.path(), values, config);
    const auto loaded =
        message_of<NumericError>([&] { load_weights(folder.path(), parameters, config); });
    return std::vector<std::string>{trained, saved, kept, loaded};
  });
  CHECK(mentions(messages[0], "got weights to be stored as q8 in a layer with gradients",
                 "`.inference = true`"));
  CHECK(mentions(messages[1], "got save_weights for a model whose",
                 "make a model that stores scalars"));
  CHECK(mentions(messages[2], "got a checkpoint for a model whose"));
  CHECK(mentions(messages[3], "got model.layers.1.mlp.down_proj.weight in ",
                 "input 3 and output 5 of a rank becomes nan"));
}

}  // namespace cubist::test::stored_weights_test
