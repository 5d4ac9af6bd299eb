// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Compares a transformer on a mesh with what other programs computed with the same weights
// (tests/data/transformers, and tests/data/lora for models with an adapter): logits, loss,
// gradients, a training run, a continuation, and merged weights.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cubist/nn/merge_lora.hpp"
#include "cubist/nn/optimizers/optimizer.hpp"
#include "cubist/nn/transformer/adapter.hpp"
#include "cubist/nn/transformer/generate.hpp"
#include "cubist/nn/transformer/tensor_names.hpp"
#include "cubist/nn/transformer/transformer.hpp"
#include "cubist/nn/transformer/weights.hpp"

#include "checked_step.hpp"
#include "nn.hpp"
#include "ranks.hpp"
#include "reference.hpp"
#include "transformer_labels.hpp"

namespace cubist::test
{

/// A model of tests/data/transformers.
struct ReferenceModel
{
  explicit ReferenceModel(const std::string& model)
      : folder{std::string{CUBIST_TRANSFORMER_DATA} + "/" + model},
        config{read_config(folder)},
        reference{reference_of(folder)}
  {
  }
  /// A model with its adapter in tests/data/lora.
  ReferenceModel(const std::string& model, const std::string& lora)
      : folder{std::string{CUBIST_TRANSFORMER_DATA} + "/" + model},
        adapter{std::string{CUBIST_TRANSFORMER_DATA} + "/../lora/" + lora},
        config{read_config(folder)},
        reference{reference_of(adapter)}
  {
  }

  /// Hugging Face's Llama computes partly in float, so that model has another reference.
  static std::string reference_of(const std::string& folder)
  {
    const auto in_double = folder + "/reference_double.safetensors";
    return std::filesystem::exists(in_double) ? in_double : folder + "/reference.safetensors";
  }

  std::string folder;
  std::string adapter = {};
  TransformerConfig config;
  Reference reference;
};

/// All reference models, with GPT-2 and Llama first.
inline const std::vector<ReferenceModel>& reference_models()
{
  static const std::vector<ReferenceModel> models = [] {
    std::vector<ReferenceModel> all;
    for (const char* name : {"gpt2_tiny", "llama_tiny", "gpt2_gelu_tiny", "llama31_tiny",
                             "llama_bias_tiny", "mistral_tiny", "qwen2_tiny", "qwen3_tiny"})
      all.emplace_back(name);
    return all;
  }();
  return models;
}
/// The models of GPT-2 and Llama with an adapter.
inline const std::vector<ReferenceModel>& adapted_models()
{
  static const std::vector<ReferenceModel> models{{"gpt2_gelu_tiny", "gpt2_gelu_tiny"},
                                                  {"llama31_tiny", "llama31_tiny"}};
  return models;
}
inline const ReferenceModel& gpt2_tiny() { return reference_models()[0]; }
inline const ReferenceModel& llama_tiny() { return reference_models()[1]; }

/// How far a model may be from a reference, relative to the largest element.
struct Tolerances
{
  double once;     // results of one pass
  double losses;   // losses of twenty steps
  double weights;  // weights after these
};
/// The tolerances of a scalar. Where gradients are small, Adam's steps amplify their rounding:
/// PyTorch's own weights in float are then off by 7e-5.
template <class T>
inline constexpr Tolerances tolerances{1e-5, 1e-5, 2e-4};
template <>
inline constexpr Tolerances tolerances<double>{1e-12, 1e-10, 1e-10};

/// Checks that the parameters' values or gradients, which rank 0 gathered, agree with the tensors
/// `prefix` + name to `tolerance` times the largest element.
template <class T, class M>
void check_parameters(const ReferenceModel& model, const Parameters<T, M>& parameters,
                      const std::string& prefix, bool gradients, double tolerance, Findings& found)
{
  for (const auto& p : parameters)
  {
    if (p.frozen) continue;
    // The gradient of a key's bias is 0 except for rounding, including that of rotations, and Adam
    // scales that to whole steps.
    if (!gradients && !std::is_same_v<T, double> && p.name.ends_with("attention.key.bias"))
      continue;
    const auto got = gather(gradients ? p.gradient : p.value);
    if (p.value.mesh.rank() != 0) continue;
    const auto place = tensor_place(model.config, p.name);
    const auto wanted = model.reference.matrix(prefix + place.name);
    double largest = 0;
    double worst = 0;
    for (const double v : wanted) largest = std::max(largest, std::abs(v));
    for (std::size_t i = 0; i < got.shape(0); ++i)
      for (std::size_t j = 0; j < got.shape(1); ++j)
      {
        const std::size_t column = place.part * got.shape(1) + j;
        const double w = place.transposed ? wanted(column, i) : wanted(i, column);
        worst = std::max(worst, std::abs(static_cast<double>(got(i, j)) - w));
      }
    found.check(worst <= tolerance * largest, prefix, p.name, " is off by ", worst, " of ",
                largest);
  }
}

/// What is compared with a reference.
enum class Compared
{
  pass,          // logits, loss and gradients
  model,         // also loss and gradients of labels beside the ids, and continuations with a
                 // cache, including those of prompts of unequal lengths
  all,           // also the continuation without a cache, and 20 steps of training
  long_sequence  // all but prompts of unequal lengths, which take a step for each token
};

/// Merges an adapter into the weights, and takes it out again.
template <class T, class Model>
void check_merging(const ReferenceModel& model, Model& transformer, std::span<const int> ids,
                   std::size_t length, Findings& found)
{
  const double before = transformer.evaluate(ids, length);
  merge_lora(transformer, KeepWeights::yes);
  const double merged = transformer.evaluate(ids, length);
  found.check(std::abs(merged - before) <= tolerances<T>.once * before, "the loss is ", merged,
              " with merged weights, and ", before, " without");
  Parameters<T, typename Model::Mesh> weights;
  for (auto& p : transformer.parameters())
  {
    found.check(!is_of_lora(p.name), p.name, " is a parameter still");
    p.frozen = false;
    if (p.lora != nullptr && p.lora->lora(p.lora_weight) != nullptr &&
        model.reference.has("merged." + tensor_place(model.config, p.name).name))
      weights.push_back(p);
  }
  found.check(!weights.empty(), "no weight is merged");
  check_parameters(model, weights, "merged.", false, tolerances<T>.once, found);
  unmerge_lora(transformer);
  found.check(transformer.evaluate(ids, length) == before, "the loss after unmerging");
}

/// Checks continuations of the reference's prompt, and of other prompts.
template <class Model>
void check_continuations(const ReferenceModel& model, Model& transformer,
                         const std::vector<int>& ids, Compared compared, Findings& found)
{
  const auto prompt = model.reference.ids("prompt");
  const auto whole = model.reference.ids("greedy");
  const auto check_continuation = [&](bool cache) {
    auto text = prompt;
    // The references go on after tokens that end a text.
    const auto more =
        generate(transformer, prompt, 1,
                 {.tokens = whole.size() - prompt.size(), .cache = cache, .ignore_end = true});
    text.insert(text.end(), more.begin(), more.end());
    found.check(text == whole, "the continuation ", cache ? "with" : "without", " a cache");
  };
  check_continuation(true);
  std::vector<std::vector<int>> prompts{
      prompt, {prompt[0]}, {ids.begin(), ids.begin() + 8}, {prompt[1], prompt[2]}};
  if (compared == Compared::long_sequence) prompts.resize(1);
  const GenerateOptions few{.tokens = 4, .ignore_end = true};
  const auto texts = generate(transformer, prompts, few);
  for (std::size_t b = 0; b < prompts.size(); ++b)
    found.check(texts[b] == generate(transformer, prompts[b], 1, few), "prompt ", b,
                " of unequal ones is continued as it is alone");
  if (compared != Compared::model) check_continuation(false);
}

/// Checks a model on one mesh.
template <class S, class B, class T>
Findings check_reference(const Mesh<S, B>& mesh, const ReferenceModel& model,
                         Compared compared = Compared::all, const TransformerOptions& options = {})
{
  Findings found;
  const auto& reference = model.reference;
  const auto near = [&](const char* what, double got, double wanted, double tolerance) {
    found.check(std::abs(got - wanted) <= tolerance * std::abs(wanted), what, " is ", got,
                " where ", wanted, " is wanted");
  };
  std::optional<LoraOptions> lora;
  if (!model.adapter.empty()) lora = read_lora_options(model.adapter, model.config);
  Transformer<S, B, T> transformer{mesh, model.config, options, lora};
  const auto parameters = transformer.parameters();
  load_weights(model.folder, parameters, model.config);
  if (!model.adapter.empty()) load_adapter(model.adapter, transformer);

  const auto ids = reference.ids("ids");
  const std::size_t length = reference.shape("ids")[1];
  near("the loss", transformer.compute_gradients(ids, length), reference.matrix("loss")(0, 0),
       tolerances<T>.once);
  check_parameters(model, parameters, "grad.", true, tolerances<T>.once, found);
  near("the loss without gradients", transformer.evaluate(ids, length),
       reference.matrix("loss")(0, 0), tolerances<T>.once);
  const auto logits = gather(transformer.predict(ids, length));
  if (mesh.rank() == 0)
  {
    const auto wanted = reference.matrix("logits");
    double largest = 0, worst = 0;
    for (std::size_t i = 0; i < logits.size(); ++i)
    {
      largest = std::max(largest, std::abs(wanted.data()[i]));
      worst = std::max(worst, std::abs(static_cast<double>(logits.data()[i]) - wanted.data()[i]));
    }
    found.check(logits.size() == wanted.size() && worst <= tolerances<T>.once * largest,
                "the logits are off by ", worst, " of ", largest);
  }

  if (!model.adapter.empty()) check_merging<T>(model, transformer, ids, length, found);
  if (compared == Compared::pass) return found;

  check_labels(transformer, ids, length, tolerances<T>.once, found);
  if (reference.has("prompt")) check_continuations(model, transformer, ids, compared, found);
  if (compared == Compared::model) return found;

  AdamW<T, typename Transformer<S, B, T>::Mesh> optimizer{
      parameters, {.learning_rate = 1e-3, .weight_decay = 0.01, .decay_biases_and_norms = true}};
  const auto batches = reference.ids("train.ids");
  const auto losses = reference.matrix("train.loss");
  const auto shape = reference.shape("train.ids");
  const std::size_t count = shape.size() == 3 ? shape[0] : 1;  // else all steps have the same batch
  const std::size_t size = batches.size() / count;
  for (std::size_t step = 0; step < losses.size(); ++step)
  {
    const std::span<const int> batch{batches.data() + step % count * size, size};
    near("a training loss", transformer.compute_gradients(batch, length), losses.data()[step],
         tolerances<T>.losses);
    checked_step(step, losses.size(), optimizer, parameters);
  }
  check_parameters(model, parameters, "final.", false, tolerances<T>.weights, found);
  return found;
}

}  // namespace cubist::test
