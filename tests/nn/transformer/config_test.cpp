// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/nn/transformer/config.hpp"
#include "cubist/nn/transformer/tensor_names.hpp"

#include "folder.hpp"
#include "ranks.hpp"

namespace cubist::test::config_test
{

const std::filesystem::path models{CUBIST_TRANSFORMER_DATA};

static TransformerConfig parse(const std::string& json)
{
  const Folder folder;
  std::ofstream{folder.path() / "config.json"} << json;
  return read_config(folder.path());
}

template <class E>
std::string error(const std::string& json)
{
  return message_of<E>([&] { (void)parse(json); });
}

TEST_CASE("configurations of Hugging Face are read")
{
  const auto gpt2 = read_config(models / "gpt2_tiny");
  CHECK(gpt2 == TransformerConfig{.vocabulary = 64,
                                  .positions = 32,
                                  .width = 48,
                                  .layers = 2,
                                  .heads = 4,
                                  .feed_forward = 192}
                    .completed());
  const auto llama = read_config(models / "llama_tiny" / "config.json");
  CHECK(llama == TransformerConfig{.vocabulary = 64,
                                   .positions = 32,
                                   .width = 48,
                                   .layers = 2,
                                   .heads = 4,
                                   .key_value_heads = 2,
                                   .feed_forward = 96,
                                   .learned_positions = false,
                                   .rotary_base = 10000,
                                   .kind = TransformerKind::llama,
                                   .epsilon = 1e-6,
                                   .bias = false,
                                   .tied = false}
                     .completed());
  // Files as on the hub: with keys that say nothing new, and null for a default.
  const auto small = parse(R"({"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"],
    "vocab_size": 50257, "n_positions": 1024, "n_ctx": 1024, "n_embd": 768, "n_layer": 12,
    "n_head": 12, "n_inner": null, "activation_function": "gelu_new", "resid_pdrop": 0.1})");
  CHECK(small.feed_forward == 3072);
  CHECK(small.tied);
}

TEST_CASE("configurations as transformers 4 and 5 write them are read")
{
  // Keys of transformers 4 and 5, as save_pretrained writes them, and of older files on the hub.
  const auto old_gpt2 = parse(R"({"_name_or_path": "gpt2", "_num_labels": 1,
    "activation_function": "gelu_pytorch_tanh", "architectures": ["GPT2LMHeadModel"],
    "attn_pdrop": 0.1, "bos_token_id": 50256, "embd_pdrop": 0.1, "eos_token_id": 50256,
    "id2label": {"0": "LABEL_0"}, "initializer_range": 0.02, "label2id": {"LABEL_0": 0},
    "layer_norm_epsilon": 1e-05, "model_type": "gpt2", "n_ctx": 1024, "n_embd": 768, "n_head": 12,
    "n_inner": null, "n_layer": 12, "n_positions": 1024, "n_special": 0,
    "output_past": true, "pad_token_id": null, "predict_special_tokens": true,
    "reorder_and_upcast_attn": false, "resid_pdrop": 0.1, "scale_attn_by_inverse_layer_idx": false,
    "scale_attn_weights": true, "summary_activation": null, "summary_first_dropout": 0.1,
    "summary_proj_to_labels": true, "summary_type": "cls_index", "summary_use_proj": true,
    "task_specific_params": {"text-generation": {"do_sample": true, "max_length": 50}},
    "torch_dtype": "float32", "transformers_version": "4.57.0", "use_cache": true,
    "vocab_size": 50257})");
  CHECK(old_gpt2.layers == 12);
  const std::string llama = R"({"architectures": ["LlamaForCausalLM"], "attention_bias": false,
    "attention_dropout": 0.0, "bos_token_id": 128000, "eos_token_id": [128001, 128008],
    "head_dim": 128, "hidden_act": "silu", "hidden_size": 4096, "initializer_range": 0.02,
    "intermediate_size": 14336, "max_position_embeddings": 8192, "mlp_bias": false,
    "model_type": "llama", "num_attention_heads": 32, "num_hidden_layers": 32,
    "num_key_value_heads": 8, "pad_token_id": null, "pretraining_tp": 1, "rms_norm_eps": 1e-05,
    "tie_word_embeddings": false, "use_cache": true, "vocab_size": 128256, )";
  const auto four = parse(llama + R"("rope_scaling": null, "rope_theta": 500000.0,
    "torch_dtype": "bfloat16", "transformers_version": "4.40.0.dev0"})");
  CHECK(four.rotary_base == 500000);
  CHECK(four.epsilon == 1e-5);
  const auto five = parse(llama + R"("dtype": "bfloat16", "transformers_version": "5.0.0",
    "rope_parameters": {"rope_theta": 500000.0, "rope_type": "default"}})");
  CHECK(five == four);
  // The type's old name, a default that is written out, and the base beside it.
  CHECK(parse(llama + R"("rope_scaling": {"type": "default", "partial_rotary_factor": 1.0},
    "rope_theta": 500000})") == four);
  CHECK(parse(llama + R"("rope_scaling": {"rope_type": "default"}})").rotary_base == 10000);
}

TEST_CASE("a missing model_type follows from the class, or is asked for")
{
  const std::string sizes = R"("vocab_size": 8, "n_positions": 4, "n_embd": 4, "n_layer": 1,
    "n_head": 1, "activation_function": "gelu_new"})";
  const auto gpt2 = parse(R"({"model_type": "gpt2", )" + sizes);
  CHECK(parse(R"({"architectures": ["GPT2LMHeadModel"], )" + sizes) == gpt2);
  for (const char* other : {"", R"("architectures": ["OPTForCausalLM"], )"})
    CHECK(mentions(error<DataError>("{" + std::string{other} + sizes), "has no model_type",
                   "which layers", "add a \"model_type\", one of gpt2"));
  CHECK(mentions(error<ArgumentError>(R"({"model_type": 3, )" + sizes), "of type 3"));
}

TEST_CASE("keys that are unknown or ask for another model are named")
{
  const std::string gpt2 = R"({"model_type": "gpt2", "vocab_size": 8, "n_positions": 4,
    "n_embd": 4, "n_layer": 1, "n_head": 1, )";
  const std::string llama = R"({"model_type": "llama", "vocab_size": 8, "hidden_size": 8,
    "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8, )";
  const auto refuses = [](const std::string& json, const auto&... parts) {
    CAPTURE(json);
    CHECK(mentions(error<ArgumentError>(json + "}"), parts...));
  };
  for (const auto& start : {gpt2, llama})
    for (const char* key : {"quantization_config", "compression_config", "quantization"})
      refuses(start + "\"" + key + R"(": {"bits": 8})",
              "\"" + std::string{key} + "\" = {\"bits\":8}", "weights are quantized",
              "use the unquantized model");
  refuses(llama + R"("auto_map": {"AutoModel": "m.M"})", "\"auto_map\"", "its own code");
  refuses(llama + R"("sliding_window": 4096)", "\"sliding_window\" = 4096");
  refuses(llama + R"("layer_norm_epsilon": 1e-5)", "\"layer_norm_epsilon\"");
  refuses(gpt2 + R"("rope_theta": 10000)", "\"rope_theta\"");
  refuses(gpt2 + R"("scale_attn_weights": false)", "scale_attn_weights", "has true there");
  refuses(gpt2 + R"("scale_attn_weights": null)", "null for scale_attn_weights");
  refuses(gpt2 + R"("activation_function": "gelu_fast")", "\"gelu_fast\" for activation_function",
          "\"gelu_new\" or \"gelu_pytorch_tanh\"");
  refuses(gpt2 + R"("add_cross_attention": true)", "add_cross_attention");
  refuses(gpt2 + R"("pruned_heads": {"0": [1]})", "pruned_heads");
  for (const char* type : {"yarn", "dynamic", "longrope", "su"})
    for (const char* key : {"rope_scaling", "rope_parameters"})
      refuses(llama + "\"" + key + R"(": {"rope_type": ")" + type + R"(", "factor": 8.0})",
              "\"" + std::string{type} + "\" for " + key + ".rope_type",
              "\"linear\" or \"llama3\"");
  refuses(llama + R"("rope_scaling": {"type": "linear", "factor": 2.0, "low_freq_factor": 1.0})",
          "\"rope_scaling.low_freq_factor\"");
  refuses(llama + R"("rope_parameters": {"rope_theta": 1e4, "factor": 8.0})",
          "\"rope_parameters.factor\" = 8.0");
  refuses(llama + R"("rope_interleaved": true)", "true for rope_interleaved");
  CHECK(parse(llama + R"("sliding_window": null, "hidden_act": "swish"})").is_gated());
  CHECK(parse(llama + R"("quantization_config": null})").is_gated());
  CHECK(mentions(error<DataError>(llama + R"("rope_theta": 5e5, "rope_parameters":
                                  {"rope_theta": 1e4}})"),
                 "10000 for rope_parameters.rope_theta", "500000 for rope_theta", "unclear"));
}

TEST_CASE("a key that is null counts as one that is missing")
{
  const auto reads = [](const std::string& sizes, const std::vector<std::string>& keys) {
    const auto wanted = parse(sizes + "}");
    std::string all = sizes;
    for (const auto& key : keys)
    {
      CAPTURE(key);
      CHECK(parse(sizes + ", \"" + key + "\": null}") == wanted);
      all += ", \"" + key + "\": null";
    }
    // A save writes out what transformers would read differently from null, and keeps other nulls.
    const auto config = parse(all + "}");
    const auto saved = nlohmann::json::parse(config_text(config));
    CHECK(parse(saved.dump()) == wanted);
    for (const char* key : {"tie_word_embeddings", "rms_norm_eps", "hidden_act",
                            "layer_norm_epsilon", "activation_function", "attention_bias"})
      CHECK((!saved.contains(key) || !saved[key].is_null()));
    for (const char* key : {"n_inner", "head_dim", "rope_scaling"})
      CHECK((!saved.contains(key) || saved[key].is_null()));
  };
  reads(R"({"model_type": "gpt2", "vocab_size": 8, "n_positions": 4, "n_embd": 4, "n_layer": 1,
    "n_head": 1)",
        {"architectures", "tie_word_embeddings", "add_cross_attention", "pruned_heads", "n_inner",
         "layer_norm_epsilon", "activation_function", "scale_attn_by_inverse_layer_idx"});
  for (const char* type : {"llama", "mistral", "qwen2", "qwen3"})
  {
    std::vector<std::string> keys{"tie_word_embeddings",
                                  "max_position_embeddings",
                                  "head_dim",
                                  "rms_norm_eps",
                                  "rope_theta",
                                  "rope_scaling",
                                  "rope_parameters",
                                  "partial_rotary_factor",
                                  "hidden_act"};
    if (type[0] == 'q')
      keys.insert(keys.end(), {"use_sliding_window", "max_window_layers", "layer_types"});
    if (type == std::string{"llama"} || type == std::string{"qwen3"})
      keys.push_back("attention_bias");
    reads(R"({"model_type": ")" + std::string{type} + R"(", "vocab_size": 8, "hidden_size": 8,
      "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 2,
      "intermediate_size": 8)",
          keys);
  }
  const std::string sizes = R"("vocab_size": 8, "hidden_size": 8, "num_hidden_layers": 1,
    "num_attention_heads": 2, "intermediate_size": 8)";
  CHECK(parse(R"({"model_type": null, "architectures": ["LlamaForCausalLM"], )" + sizes + "}") ==
        parse(R"({"model_type": "llama", )" + sizes + "}"));
  // Within rotary scaling, too.
  const auto scaled = [&](const std::string& scaling) {
    return R"({"model_type": "llama", )" + sizes + R"(, "rope_scaling": {)" + scaling + "}}";
  };
  CHECK(parse(scaled(R"("rope_type": null, "type": "linear", "factor": 2, "rope_theta": null)")) ==
        parse(scaled(R"("rope_type": "linear", "factor": 2)")));
  CHECK(parse(scaled(R"("rope_type": null, "factor": null)")) == parse(scaled("")));
  CHECK(mentions(error<DataError>(scaled(R"("type": "linear", "factor": null)")),
                 "has no rope_scaling.factor"));
}

TEST_CASE("rotary positions are read from the keys of transformers 4 and 5")
{
  const std::string llama = R"({"model_type": "llama", "vocab_size": 8, "hidden_size": 8,
    "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8, )";
  using Type = RotaryScaling::Type;
  const auto four =
      parse(llama + R"("rope_theta": 5e5, "partial_rotary_factor": 0.5, "rope_scaling":
    {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.5, "high_freq_factor": 3.0,
     "original_max_position_embeddings": 4096}})");
  CHECK(four.rotary_scaling == RotaryScaling{Type::llama3, 8, 1.5, 3, 4096});
  CHECK(four.rotary_base == 5e5);
  CHECK(four.rotary_fraction == 0.5);
  CHECK(four.rotated_size(6) == 3);
  const auto five = parse(llama + R"("rope_parameters": {"rope_type": "llama3", "factor": 8.0,
    "low_freq_factor": 1.5, "high_freq_factor": 3.0, "original_max_position_embeddings": 4096,
    "rope_theta": 5e5, "partial_rotary_factor": 0.5}})");
  CHECK(five == four);
  const auto linear = parse(llama + R"("rope_scaling": {"type": "linear", "factor": 2.5}})");
  CHECK(linear.rotary_scaling == RotaryScaling{.type = Type::linear, .factor = 2.5});
  // Configurations are written and read again, with the file's keys or without.
  for (auto config : {four, five, linear})
  {
    CHECK(parse(config_text(config)) == config);
    config.rotary_scaling.factor = 4;
    config.rotary_fraction = 0.25;
    CHECK(parse(config_text(config)) == config);
    config.source = {};
    CHECK(parse(config_text(config)) == config);
    config.rotary_scaling = {};
    CHECK(parse(config_text(config)) == config);
  }
  CHECK(
      mentions(error<DataError>(llama + R"("rope_scaling": {"rope_type": "llama3", "factor": 8}})"),
               "no rope_scaling.low_freq_factor"));
  CHECK(mentions(error<DataError>(llama + R"("rope_scaling": {"rope_type": "linear"}})"),
                 "no rope_scaling.factor"));
  CHECK(mentions(error<DataError>(llama + R"("rope_scaling": {"rope_type": "linear", "factor": 2},
    "rope_parameters": {"rope_type": "linear", "factor": 3}})"),
                 "scale rotary angles differently"));
  CHECK(mentions(error<DataError>(llama + R"("rope_scaling": {"rope_type": "default",
    "type": "linear", "factor": 2}})"),
                 "\"default\" for rope_scaling.rope_type and \"linear\" for rope_scaling.type",
                 "unclear", "remove the wrong one"));
  CHECK(parse(llama + R"("rope_scaling": {"rope_type": "linear", "type": "linear",
    "factor": 2.5}})") == linear);
  CHECK(mentions(error<DataError>(llama + R"("partial_rotary_factor": 1.5})"),
                 "1.5 for partial_rotary_factor"));
  CHECK(mentions(error<ArgumentError>(llama + R"("rope_scaling": {"rope_type": "llama3",
    "factor": 8.0, "low_freq_factor": 4.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 4096}})"),
                 "no band to interpolate"));
}

TEST_CASE("biases, activations and windows are read as each family has them")
{
  const std::string sizes = R"("vocab_size": 8, "hidden_size": 8, "num_hidden_layers": 2,
    "num_attention_heads": 2, "num_key_value_heads": 1, "intermediate_size": 8)";
  const auto of = [&](const std::string& type, const std::string& more) {
    return parse(R"({"model_type": ")" + type + "\", " + sizes + more + "}");
  };
  const auto some = of("llama", R"(, "attention_bias": true, "mlp_bias": null)");
  CHECK((some.bias.query_key_value && some.bias.attention_output));
  CHECK(!some.bias.feed_forward);
  const auto all = of("llama", R"(, "attention_bias": true, "mlp_bias": true)");
  CHECK(all.bias == true);
  const auto qwen2 = of("qwen2", "");
  CHECK((qwen2.bias.query_key_value && !qwen2.bias.attention_output && !qwen2.head_norms));
  const auto qwen3 = of("qwen3", "");
  CHECK((qwen3.head_norms && !qwen3.bias.query_key_value && qwen3.head_size == 128));
  const auto biased = of("qwen3", R"(, "attention_bias": true)");
  CHECK((biased.bias.query_key_value && biased.bias.attention_output));
  CHECK(!biased.bias.feed_forward);
  CHECK(of("mistral", "").window == 4096);
  CHECK(of("mistral", R"(, "sliding_window": null)").window == 0);
  CHECK(of("mistral", R"(, "sliding_window": 16)").window == 16);
  const auto window = [&](const std::string& more) {
    return of("qwen2", R"(, "sliding_window": 16, "use_sliding_window": true)" + more).window;
  };
  CHECK(of("qwen2", R"(, "sliding_window": 16, "use_sliding_window": false)").window == 0);
  CHECK(window("") == 0);  // windows begin in layer 28
  CHECK(of("qwen2", R"(, "use_sliding_window": true, "sliding_window": null,
    "max_window_layers": 0)")
            .window == 0);
  CHECK(window(R"(, "max_window_layers": 2)") == 0);
  CHECK(window(R"(, "max_window_layers": 1)") == 16);
  CHECK(window(R"(, "layer_types": ["full_attention", "full_attention"])") == 0);
  CHECK(window(R"(, "layer_types": ["full_attention", "sliding_attention"])") == 16);
  // Layers with a window where none is given.
  for (const char* type : {"qwen2", "qwen3"})
    for (const char* more : {R"("use_sliding_window": false, "sliding_window": 16)",
                             R"("sliding_window": 16)", R"("use_sliding_window": null)"})
      CHECK(mentions(
          message_of<DataError>([&] {
            (void)of(type, R"(, "layer_types": ["full_attention", "sliding_attention"], )" +
                               std::string{more});
          }),
          "\"sliding_attention\" among layer_types", "use_sliding_window is not true", "unclear"));
  CHECK(mentions(message_of<DataError>([&] {
                   (void)of("qwen3", R"(, "layer_types": ["full_attention", "sliding_attention"],
                     "use_sliding_window": true, "sliding_window": null)");
                 }),
                 "null for sliding_window"));
  for (const auto& config :
       {some, all, qwen2, qwen3, of("mistral", ""), of("mistral", R"(, "sliding_window": 16)"),
        of("qwen2",
           R"(, "sliding_window": 16, "use_sliding_window": true, "max_window_layers": 0)")})
  {
    auto without = config;
    without.source = {};
    CHECK(parse(config_text(config)) == config);
    CHECK(parse(config_text(without)) == config);
    if (config.bias.attention_output) continue;  // no family has both these biases and a window
    without.window = 32;
    CHECK(parse(config_text(without)) == without);
  }
  const std::string gpt2 = R"({"model_type": "gpt2", "vocab_size": 8, "n_positions": 4,
    "n_embd": 4, "n_layer": 1, "n_head": 1, "activation_function": )";
  using Activation = FeedForwardActivation;
  CHECK(parse(gpt2 + "\"gelu_new\"}").activation == Activation::approximate_gelu);
  CHECK(parse(gpt2 + "\"gelu_pytorch_tanh\"}").activation == Activation::approximate_gelu);
  CHECK(parse(gpt2 + "\"gelu\"}").activation == Activation::exact_gelu);
  CHECK(parse(gpt2 + "\"relu\"}").activation == Activation::rectified);
  CHECK(parse(gpt2 + "\"silu\"}").activation == Activation::sigmoid_weighted);
  const auto scaled = parse(gpt2 + R"("relu", "scale_attn_by_inverse_layer_idx": true})");
  CHECK(scaled.scale_by_layer);
  auto without = scaled;
  without.source = {};
  CHECK(parse(config_text(without)) == scaled);
}

TEST_CASE("sizes that are not whole numbers of a possible model are named")
{
  const auto with = [](const std::string& name, const std::string& value) {
    nlohmann::json json{{"model_type", "llama"},    {"vocab_size", 8},
                        {"hidden_size", 8},         {"num_hidden_layers", 1},
                        {"num_attention_heads", 2}, {"intermediate_size", 8}};
    json[name] = nlohmann::json::parse(value);
    return error<DataError>(json.dump());
  };
  for (const char* name :
       {"vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads",
        "intermediate_size", "num_key_value_heads", "head_dim", "max_position_embeddings"})
    for (const char* value :
         {"1.5", "-1", "0", "1e12", "1e300", "18446744073709551616", "\"8\"", "true", "[8]"})
    {
      CAPTURE(name, value);
      CHECK(
          mentions(with(name, value), " for " + std::string{name} + ", but a whole number from 1"));
    }
  CHECK(mentions(with("num_hidden_layers", "1000000"), "1000000", "from 1 to 100000"));
  CHECK(mentions(with("hidden_size", "null"), "no hidden_size"));
  for (const char* value : {"0", "-1e-5", "\"1e-5\""})
    CHECK(mentions(with("rms_norm_eps", value), "for rms_norm_eps, but a number above 0"));
  CHECK(mentions(with("tie_word_embeddings", "1"), "1 for tie_word_embeddings", "true or false"));
  CHECK(mentions(with("rope_parameters", "1e4"), "for rope_parameters, but an object"));
  CHECK(mentions(with("rope_theta", "{}"), "{} for rope_theta"));
  CHECK(mentions(error<ShapeError>(R"({"model_type": "gpt2", "vocab_size": 2000000000,
    "n_positions": 4, "n_embd": 2000000000, "n_layer": 1, "n_head": 1})"),
                 "parameters, which no machine can hold"));
}

TEST_CASE("something else in the place of a configuration is refused with the reason")
{
  CHECK(mentions(error<DataError>("version https://git-lfs.github.com/spec/v1\noid sha256:12\n"),
                 "Git LFS pointer", "git lfs pull"));
  CHECK(mentions(error<DataError>(std::string(500'000, '[') + std::string(500'000, ']')),
                 "nested more than 64 deep"));
  std::string deep = R"({"model_type": "gpt2", "task_specific_params": )";
  for (int i = 0; i < 500'000; ++i) deep += R"({"a":)";
  CHECK(mentions(error<DataError>(deep + "1" + std::string(500'001, '}')), "nested more than"));
  CHECK(mentions(error<DataError>(R"({"model_type": "gpt2", "n_layer": 1, "n_layer": 2})"),
                 "two values for \"n_layer\""));
}

TEST_CASE("a configuration that was written is read as it was")
{
  std::size_t count = 0;
  for (const auto& model : std::filesystem::directory_iterator{models})
  {
    if (!model.is_directory()) continue;
    ++count;
    CAPTURE(model.path().filename());
    const auto config = read_config(model.path());
    const Folder folder;
    once([&] { std::ofstream{folder / "config.json"} << config_text(config); });
    CHECK(read_config(folder.path()) == config);
  }
  CHECK(count > 8);
  // A configuration that was read keeps everything in the file, even what cubist does not use.
  const std::string text = R"({"model_type": "llama", "vocab_size": 8, "hidden_size": 8,
    "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8, "eos_token_id": [2, 3],
    "head_dim": null, "num_key_value_heads": null, "hidden_act": "swish", "rms_norm_eps": 1e-05,
    "architectures": ["LlamaForCausalLM"], "torch_dtype": "bfloat16", "pretraining_tp": 1,
    "rope_parameters": {"rope_theta": 500000.0, "rope_type": "default"}})";
  const auto source = nlohmann::json::parse(text);
  auto kept = parse(text);
  CHECK(nlohmann::json::parse(config_text(kept)) == source);
  kept.positions = 16;
  kept.rotary_base = 20000;
  kept.head_size = 2;
  auto changed = source;
  changed["max_position_embeddings"] = 16;
  changed["rope_parameters"]["rope_theta"] = 20000;
  changed["head_dim"] = 2;
  changed["torch_dtype"] = "float64";
  CHECK(nlohmann::json::parse(config_text(kept, "float64")) == changed);
  CHECK(parse(config_text(kept)) == kept);
  kept.kind = TransformerKind::gpt;
  kept.head_size = 0;
  kept.learned_positions = true;
  kept.bias = true;
  CHECK(!nlohmann::json::parse(config_text(kept)).contains("pretraining_tp"));
  auto mixed = read_config(models / "gpt2_tiny");
  mixed.kind = TransformerKind::llama;
  CHECK(mentions(message_of<ArgumentError>([&] { (void)config_text(mixed); }),
                 "none of gpt2, llama"));
}

TEST_CASE("a size that follows from the width is written if the family's default differs")
{
  // Without head_dim, transformers gives Qwen3's heads 128 elements.
  const std::string qwen3 = R"({"model_type": "qwen3", "vocab_size": 8, "hidden_size": 12,
    "num_hidden_layers": 1, "num_attention_heads": 3, "num_key_value_heads": 1, "rope_theta": 1e6,
    "intermediate_size": 8)";
  for (const char* head : {"}", R"(, "head_dim": 8})", R"(, "head_dim": null})"})
    for (const bool from_file : {true, false})
    {
      CAPTURE(head, from_file);
      auto config = parse(qwen3 + head);
      config.head_size = 0;
      if (!from_file) config.source = {};
      const auto json = nlohmann::json::parse(config_text(config));
      CHECK(json["model_type"] == "qwen3");
      CHECK(json["head_dim"] == 4);
      CHECK(json["rope_theta"] == 1e6);
      CHECK(parse(json.dump()).head_size == 4);
    }
}

TEST_CASE("a window that is set anew keeps the other keys of the file")
{
  const std::string sizes = R"("vocab_size": 8, "hidden_size": 8, "num_hidden_layers": 2,
    "num_attention_heads": 2, "num_key_value_heads": 1, "intermediate_size": 8, "bos_token_id": 1,
    "initializer_range": 0.5, "torch_dtype": "float32", "architectures": ["Renamed"])";
  const auto with_window = [&](const std::string& keys, std::size_t window) {
    const std::string text = "{" + sizes + ", " + keys + "}";
    auto config = parse(text);
    config.window = window;
    auto json = nlohmann::json::parse(config_text(config));
    CHECK(parse(json.dump()) == config);
    const auto source = nlohmann::json::parse(text);
    for (const auto& [name, value] : source.items())
    {
      CAPTURE(name);
      if (name.find("window") == name.npos && name != "layer_types") CHECK(json[name] == value);
    }
    return json;
  };
  const std::string mistral = R"("model_type": "mistral", "sliding_window": 16)";
  CHECK(with_window(mistral, 4)["sliding_window"] == 4);
  CHECK(with_window(mistral, 0)["sliding_window"].is_null());
  CHECK(with_window(R"("model_type": "mistral", "sliding_window": null)", 4)["sliding_window"] ==
        4);
  for (const char* type : {"qwen2", "qwen3"})
    for (const char* more :
         {R"(, "use_sliding_window": false, "max_window_layers": 28, "sliding_window": 16)",
          R"(, "use_sliding_window": true, "max_window_layers": 1, "sliding_window": 16,
             "layer_types": ["full_attention", "sliding_attention"])",
          R"(, "layer_types": ["full_attention", "full_attention"])"})
      for (const std::size_t window : {4U, 0U})
      {
        CAPTURE(type, more, window);
        const auto json =
            with_window(R"("model_type": ")" + std::string{type} + "\"" + more, window);
        if (window > 0) CHECK(json["sliding_window"] == window);
      }
}

TEST_CASE("a model without a file has the tensors of the family that is written for it")
{
  for (const auto& family : cubist::detail::model_families)
  {
    CAPTURE(family.type);
    auto config = family.defaults();
    config.vocabulary = 8, config.width = 12, config.layers = 1, config.heads = 2;
    config.positions = 16;
    const auto written = parse_config(config_text(config), "config.json");
    CHECK(&cubist::detail::tensor_names(config) == &cubist::detail::tensor_names(written));
    CHECK(cubist::detail::find_family(written.source.family)->names == family.names);
  }
}

TEST_CASE("configurations of other models, or none, are refused")
{
  CHECK(mentions(error<ArgumentError>(R"({"model_type": "opt"})"), "type \"opt\"",
                 "positions begin at 2", "use a model of type " + cubist::detail::family_names()));
  const std::string llama = R"({"model_type": "llama", "vocab_size": 8, "hidden_size": 8,
    "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8)";
  CHECK(parse(llama + "}").key_value_heads == 2);
  CHECK(mentions(error<ArgumentError>(llama + R"(, "hidden_act": "gelu"})"), "\"gelu\"",
                 "hidden_act", "\"silu\""));
  CHECK(mentions(error<ArgumentError>(llama + R"(, "rope_scaling": {"factor": 8}})"),
                 "rope_scaling"));
  CHECK(mentions(error<DataError>(R"({"model_type": "gpt2"})"), "no vocab_size"));
  CHECK(mentions(error<DataError>("[]"), "not a JSON object"));
  CHECK(mentions(error<DataError>("{"), "not JSON at byte 2"));
  CHECK(mentions(message_of<DataError>([] { (void)read_config("none"); }), "cannot read none"));
  CHECK(mentions(message_of<ShapeError>([] { TransformerConfig{}.check(); }), "0 tokens"));
}

TEST_CASE("a configuration is completed with the sizes that were left out")
{
  const TransformerConfig sizes{
      .vocabulary = 9, .positions = 8, .width = 12, .layers = 1, .heads = 3};
  const auto complete = sizes.completed();
  CHECK((complete.key_value_heads == 3 && complete.head_size == 4 && complete.feed_forward == 48));
  CHECK(complete.completed() == complete);
  CHECK(sizes.parameters() == complete.parameters());
  auto given = sizes;
  given.key_value_heads = 1, given.head_size = 5, given.feed_forward = 7;
  CHECK(given.completed() == given);
  given.heads = 4, given.key_value_heads = 3;
  CHECK(mentions(message_of<ShapeError>([&] { given.check(); }), "4 heads for 3"));
  auto uneven = sizes;
  uneven.heads = 5;
  CHECK(mentions(message_of<ShapeError>([&] { uneven.check(); }), "5 heads for a width of 12",
                 "head_size"));
}

}  // namespace cubist::test::config_test
