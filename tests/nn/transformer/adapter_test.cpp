// SPDX-License-Identifier: BSD-3-Clause
#include <nlohmann/json.hpp>

#include "cubist/backend/threads.hpp"
#include "cubist/nn/merge_lora.hpp"
#include "cubist/nn/transformer/adapter.hpp"
#include "cubist/nn/transformer/transformer.hpp"
#include "cubist/nn/transformer/weights.hpp"

#include "folder.hpp"
#include "reference.hpp"

// transformer_test.cpp tests what models with adapters compute, on all schemes.

namespace cubist::test::adapter_test
{

using Path = std::filesystem::path;
using Json = nlohmann::json;
template <class S>
using Model = Transformer<S, Threads, double>;

const std::string models = CUBIST_TRANSFORMER_DATA;
const std::string adapters = models + "/../lora";

/// A transformer for inference with the weights of a model.
template <class M>
Model<Summa2D> model_on(const M& mesh, const std::string& name)
{
  const auto config = read_config(models + "/" + name);
  Model<Summa2D> model{mesh, config, {.inference = true}};
  load_weights(models + "/" + name, model.parameters(), config);
  return model;
}

const std::vector<int> ids{3, 1, 4, 1, 5, 9, 2, 6, 5, 3};

template <class Net>
Global<double> logits_of(Net& model)
{
  return gather(model.predict(ids, 5));
}

TEST_CASE("an adapter that is loaded and saved has the tensors and the options of PEFT's files")
{
  const Folder folder;
  for (const std::string name : {"gpt2_gelu_tiny", "llama31_tiny"})
    for (const auto& place : {one_rank, two_by_two})
    {
      CAPTURE(name, place.name());
      const Path saved = folder / (name + std::to_string(place.ranks));
      (void)on_root<Threads>(place, [&](const auto& mesh) {
        auto model = model_on(mesh, name);
        load_adapter(Path{adapters} / name, model);
        save_adapter(saved, model, name);
        return 0;
      });
      const Reference got{(saved / "adapter_model.safetensors").string()};
      const Reference wanted{adapters + "/" + name + "/adapter_model.safetensors"};
      CHECK(got.names() == wanted.names());
      for (const auto& tensor : wanted.names())
      {
        REQUIRE(got.has(tensor));
        CHECK(got.shape(tensor) == wanted.shape(tensor));
        CHECK(got.bytes(tensor) == wanted.bytes(tensor));
      }
      auto ours = Json::parse(contents(saved / "adapter_config.json"));
      auto theirs = Json::parse(contents(Path{adapters} / name / "adapter_config.json"));
      for (auto* json : {&ours, &theirs})
      {
        auto& targets = (*json)["target_modules"];
        targets = targets.get<std::set<std::string>>();
        json->erase("inference_mode");
      }
      CHECK(ours == theirs);
    }
}

TEST_CASE("layers that the ends of names do not tell apart are saved by their whole names")
{
  const Folder folder;
  const auto options = on_root<Threads>(one_rank, [&](const auto& mesh) {
    const auto config = read_config(models + "/llama31_tiny");
    Model<Summa2D> model{
        mesh, config, {}, LoraOptions{.rank = 2, .layers = {"layers.1.*.query", "up"}}};
    save_adapter(folder / "some", model);
    return read_lora_options(folder / "some", config);
  });
  CHECK(options.rank == 2);
  CHECK(options.layers == std::vector<std::string>{"layers.0.feed_forward.up",
                                                   "layers.1.attention.query",
                                                   "layers.1.feed_forward.up"});
  CHECK(Json::parse(contents(folder / "some" / "adapter_config.json"))["target_modules"] ==
        Json{"model.layers.0.mlp.up_proj", "model.layers.1.mlp.up_proj",
             "model.layers.1.self_attn.q_proj"});
}

TEST_CASE("one model computes with several adapters in turn, and with merged weights")
{
  const Folder folder;
  const Path peft = Path{adapters} / "llama31_tiny";
  const auto [plain, first, second, again, merged, file] =
      on_root<Threads>(two_by_two, [&](const auto& mesh) {
        auto model = model_on(mesh, "llama31_tiny");
        const auto plain_logits = logits_of(model);
        const auto config = model.config();
        // LoRA of another rank beside other layers, with a B that is not zero.
        Model<Summa2D> other{mesh, config, {}, LoraOptions{.rank = 3, .layers = {"key", "gate"}}};
        for (const auto& p : other.parameters())
          if (is_of_lora(p.name))
            scatter(uniform<double>(p.value.shape.rows, p.value.shape.cols, 5), p.value);
        save_adapter(folder / "other", other);

        load_adapter(peft, model);
        const auto first_logits = logits_of(model);
        load_adapter(folder / "other", model);
        const auto second_logits = logits_of(model);
        load_adapter(peft, model);
        const auto again_logits = logits_of(model);
        merge_lora(model);
        save_weights(folder / "merged", model.parameters(), config);
        const auto merged_logits = logits_of(model);
        Model<Summa2D> from_file{mesh, config, {.inference = true}};
        load_weights(folder / "merged", from_file.parameters(), config);
        return std::tuple{plain_logits, first_logits,  second_logits,
                          again_logits, merged_logits, logits_of(from_file)};
      });
  CHECK(difference(first, plain) > 1e-3);
  CHECK(difference(second, plain) > 1e-3);
  CHECK(difference(second, first) > 1e-3);
  CHECK(identical(again, first));
  CHECK(difference(merged, first) < 1e-12);
  CHECK(identical(file, merged));
}

TEST_CASE("an adapter computes beside weights in fewer bits, but cannot be merged into them")
{
  const auto logits_of_stored = [](StoredWeights weights, bool adapted) {
    return on_root<Threads>(two_by_two, [&](const auto& mesh) {
      const auto config = read_config(models + "/llama31_tiny");
      Model<Summa2D> model{mesh, config, {.inference = true}, weights};
      load_weights(models + "/llama31_tiny", model.parameters(), config);
      if (adapted) load_adapter(Path{adapters} / "llama31_tiny", model);
      const auto logits = logits_of(model);
      const auto message =
          adapted ? message_of<ArgumentError>([&] { merge_lora(model); }) : std::string{};
      return std::pair{logits, message};
    });
  };
  const auto wanted = logits_of_stored(StoredWeights::scalar, true);
  CHECK(wanted.second.empty());
  for (const auto weights : {StoredWeights::bfloat16, StoredWeights::q8})
  {
    CAPTURE(to_string(weights));
    const auto plain = logits_of_stored(weights, false);
    const auto [logits, message] = logits_of_stored(weights, true);
    CHECK(difference(logits, wanted.first) < difference(logits, plain.first) / 4);
    CHECK(mentions(message, "got merge_lora for weights that are stored as", to_string(weights)));
  }
}

/// The error message for loading an adapter that `change` has changed.
static std::string refusal(const std::string& model, const std::string& adapter,
                           const std::function<void(Json&)>& change)
{
  const Folder folder;
  for (const char* file : {"adapter_config.json", "adapter_model.safetensors"})
    std::filesystem::copy_file(Path{adapters} / adapter / file, folder / file);
  auto json = Json::parse(contents(folder / "adapter_config.json"));
  change(json);
  std::filesystem::permissions(folder / "adapter_config.json", std::filesystem::perms::owner_all);
  std::ofstream{folder / "adapter_config.json"} << json;
  return on_root<Threads>(one_rank, [&](const auto& mesh) {
    auto net = model_on(mesh, model);
    const auto before = logits_of(net);
    const auto message = message_of<Error>([&] { load_adapter(folder / ".", net); });
    return identical(before, logits_of(net)) ? message : "the transformer has changed";
  });
}

TEST_CASE("an adapter that is not this model's, or asks for more than LoRA, is refused by name")
{
  const std::vector<std::pair<const char*, Json>> refused{
      {"use_dora", true},
      {"rank_pattern", {{"q_proj", 2}}},
      {"alpha_pattern", {{"x", 1}}},
      {"modules_to_save", Json::array({"lm_head"})},
      {"bias", "all"},
      {"layers_to_transform", Json::array({0})},
      {"init_lora_weights", "pissa"},
      {"peft_type", "IA3"},
      {"of_tomorrow", 1},
      {"target_modules", ".*proj"},
      {"r", 0},
      {"lora_dropout", 1.5},
      {"lora_alpha", "eight"}};
  for (const auto& [key, value] : refused)
  {
    CAPTURE(key);
    CHECK(mentions(refusal("llama31_tiny", "llama31_tiny",
                           [&, k = key, v = value](Json& json) { json[k] = v; }),
                   "adapter_config.json has ", '"' + std::string{key} + '"'));
  }
  CHECK(mentions(refusal("llama31_tiny", "llama31_tiny",
                         [](Json& json) { json["target_modules"].push_back("lm_head"); }),
                 "\"lm_head\" among its \"target_modules\""));
  // One half of an adapter is missing, or there is one too many.
  CHECK(mentions(refusal("llama31_tiny", "llama31_tiny",
                         [](Json& json) { json["target_modules"].push_back("o_proj"); }),
                 "has no tensor ", "o_proj.lora_A.weight", "half of it is missing"));
  CHECK(mentions(refusal("llama31_tiny", "llama31_tiny",
                         [](Json& json) {
                           json["target_modules"] = {"q_proj", "v_proj"};
                         }),
                 "down_proj.lora_A.weight", "names no layer"));
  // An adapter of another width, of another rank, or for another family.
  CHECK(mentions(refusal("qwen3_tiny", "llama31_tiny", [](Json&) {}), "but this model needs",
                 "a model of another size"));
  CHECK(mentions(refusal("llama31_tiny", "llama31_tiny", [](Json& json) { json["r"] = 5; }),
                 "lora_A.weight of (4, 48), but this model needs (5, 48)"));
  CHECK(mentions(refusal("llama31_tiny", "gpt2_gelu_tiny", [](Json&) {}), "\"c_attn\" among"));
}

TEST_CASE("A and B have no place among the weights of a model, nor merged ones in an adapter")
{
  const Folder folder;
  const auto messages = on_root<Threads>(one_rank, [&](const auto& mesh) {
    auto model = model_on(mesh, "llama31_tiny");
    const auto config = model.config();
    const auto save = [&] { save_adapter(folder / "none", model); };
    std::vector<std::string> all{message_of<ArgumentError>(save)};
    load_adapter(Path{adapters} / "llama31_tiny", model);
    all.push_back(message_of<ArgumentError>(
        [&] { save_weights(folder / "none", model.parameters(), config); }));
    merge_lora(model);
    all.push_back(message_of<ArgumentError>(save));
    all.push_back(
        message_of<ArgumentError>([&] { load_adapter(Path{adapters} / "llama31_tiny", model); }));
    all.push_back(message_of<ArgumentError>([&] { unmerge_lora(model); }));
    return all;
  });
  CHECK(mentions(messages[0], "without LoRA matrices"));
  CHECK(mentions(messages[1], "lora_a among the weights to save", "call merge_lora first"));
  CHECK(mentions(messages[2], "or with merged ones"));
  CHECK(mentions(messages[3], "got add for LoRA's A and B while they are part of the weight"));
  CHECK(mentions(messages[4], "merged without its original"));
  CHECK_FALSE(std::filesystem::exists(folder / "none"));
}

}  // namespace cubist::test::adapter_test
