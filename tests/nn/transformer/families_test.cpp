// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <cstddef>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "cubist/nn/transformer/config.hpp"
#include "cubist/nn/transformer/families.hpp"
#include "cubist/plan/model.hpp"

#include "catch.hpp"
#include "ranks.hpp"

namespace cubist::test::families_test
{

namespace
{

/// The config.json of a model by the keys with which it was published.
struct Published
{
  const char* name;
  const char* keys;
  const char* refusal;         ///< what the error names; null for a model that is read
  std::size_t parameters = 0;  ///< as published
};

const std::vector<Published> published{
    {"gpt2",
     R"("activation_function": "gelu_new", "architectures": ["GPT2LMHeadModel"], "attn_pdrop": 0.1,
     "bos_token_id": 50256, "embd_pdrop": 0.1, "eos_token_id": 50256, "initializer_range": 0.02,
     "layer_norm_epsilon": 1e-05, "model_type": "gpt2", "n_ctx": 1024, "n_embd": 768, "n_head": 12,
     "n_layer": 12, "n_positions": 1024, "resid_pdrop": 0.1, "summary_activation": null,
     "summary_first_dropout": 0.1, "summary_proj_to_labels": true, "summary_type": "cls_index",
     "summary_use_proj": true, "task_specific_params": {"text-generation": {"do_sample": true,
     "max_length": 50}}, "vocab_size": 50257)",
     nullptr, 124'439'808},
    {"gpt2-medium",
     R"("activation_function": "gelu_new", "architectures": ["GPT2LMHeadModel"], "attn_pdrop": 0.1,
     "bos_token_id": 50256, "embd_pdrop": 0.1, "eos_token_id": 50256, "initializer_range": 0.02,
     "layer_norm_epsilon": 1e-05, "model_type": "gpt2", "n_ctx": 1024, "n_embd": 1024, "n_head": 16,
     "n_layer": 24, "n_positions": 1024, "n_special": 0, "predict_special_tokens": true,
     "resid_pdrop": 0.1, "summary_activation": null, "summary_first_dropout": 0.1,
     "summary_proj_to_labels": true, "summary_type": "cls_index", "summary_use_proj": true,
     "task_specific_params": {"text-generation": {"do_sample": true, "max_length": 50}},
     "vocab_size": 50257)",
     nullptr, 354'823'168},
    {"gpt2-xl",
     R"("activation_function": "gelu_new", "architectures": ["GPT2LMHeadModel"], "attn_pdrop": 0.1,
     "bos_token_id": 50256, "embd_pdrop": 0.1, "eos_token_id": 50256, "initializer_range": 0.02,
     "layer_norm_epsilon": 1e-05, "model_type": "gpt2", "n_ctx": 1024, "n_embd": 1600, "n_head": 25,
     "n_layer": 48, "n_positions": 1024, "output_past": true, "resid_pdrop": 0.1,
     "summary_activation": null, "summary_first_dropout": 0.1, "summary_proj_to_labels": true,
     "summary_type": "cls_index", "summary_use_proj": true, "vocab_size": 50257)",
     nullptr, 1'557'611'200},
    {"distilgpt2",
     R"("_num_labels": 1, "activation_function": "gelu_new", "architectures": ["GPT2LMHeadModel"],
     "attn_pdrop": 0.1, "bos_token_id": 50256, "embd_pdrop": 0.1, "eos_token_id": 50256,
     "id2label": {"0": "LABEL_0"}, "initializer_range": 0.02, "label2id": {"LABEL_0": 0},
     "layer_norm_epsilon": 1e-05, "model_type": "gpt2", "n_ctx": 1024, "n_embd": 768, "n_head": 12,
     "n_layer": 6, "n_positions": 1024, "resid_pdrop": 0.1, "summary_activation": null,
     "summary_first_dropout": 0.1, "summary_proj_to_labels": true, "summary_type": "cls_index",
     "summary_use_proj": true, "vocab_size": 50257)",
     nullptr, 81'912'576},
    {"Llama-2-7b-hf",
     R"("_name_or_path": "meta-llama/Llama-2-7b-hf", "architectures": ["LlamaForCausalLM"],
     "bos_token_id": 1, "eos_token_id": 2, "hidden_act": "silu", "hidden_size": 4096,
     "initializer_range": 0.02, "intermediate_size": 11008, "max_position_embeddings": 4096,
     "model_type": "llama", "num_attention_heads": 32, "num_hidden_layers": 32,
     "num_key_value_heads": 32, "pretraining_tp": 1, "rms_norm_eps": 1e-05, "rope_scaling": null,
     "tie_word_embeddings": false, "torch_dtype": "float16", "transformers_version": "4.31.0.dev0",
     "use_cache": true, "vocab_size": 32000)",
     nullptr, 6'738'415'616},
    {"TinyLlama-1.1B",
     R"("architectures": ["LlamaForCausalLM"], "bos_token_id": 1, "eos_token_id": 2,
     "hidden_act": "silu", "hidden_size": 2048, "initializer_range": 0.02,
     "intermediate_size": 5632, "max_position_embeddings": 2048, "model_type": "llama",
     "num_attention_heads": 32, "num_hidden_layers": 22, "num_key_value_heads": 4,
     "rms_norm_eps": 1e-05, "rope_scaling": null, "tie_word_embeddings": false,
     "torch_dtype": "float32", "transformers_version": "4.31.0.dev0", "use_cache": true,
     "vocab_size": 32000)",
     nullptr, 1'100'048'384},
    {"SmolLM2-135M",
     R"("architectures": ["LlamaForCausalLM"], "attention_bias": false, "attention_dropout": 0.0,
     "bos_token_id": 0, "eos_token_id": 0, "hidden_act": "silu", "hidden_size": 576,
     "initializer_range": 0.041666666666666664, "intermediate_size": 1536, "is_llama_config": true,
     "max_position_embeddings": 8192, "model_type": "llama", "num_attention_heads": 9,
     "num_hidden_layers": 30, "num_key_value_heads": 3, "pretraining_tp": 1, "rms_norm_eps": 1e-05,
     "rope_interleaved": false, "rope_scaling": null, "rope_theta": 100000,
     "tie_word_embeddings": true, "torch_dtype": "bfloat16", "transformers_version": "4.40.1",
     "use_cache": true, "vocab_size": 49152)",
     nullptr, 134'515'008},
    {"Meta-Llama-3-8B",
     R"("architectures": ["LlamaForCausalLM"], "attention_bias": false, "attention_dropout": 0.0,
     "bos_token_id": 128000, "eos_token_id": 128001, "hidden_act": "silu", "hidden_size": 4096,
     "initializer_range": 0.02, "intermediate_size": 14336, "max_position_embeddings": 8192,
     "model_type": "llama", "num_attention_heads": 32, "num_hidden_layers": 32,
     "num_key_value_heads": 8, "pretraining_tp": 1, "rms_norm_eps": 1e-05, "rope_scaling": null,
     "rope_theta": 500000.0, "tie_word_embeddings": false, "torch_dtype": "bfloat16",
     "transformers_version": "4.40.0.dev0", "use_cache": true, "vocab_size": 128256)",
     nullptr, 8'030'261'248},
    {"Llama-3.1-8B",
     R"("architectures": ["LlamaForCausalLM"], "attention_bias": false, "attention_dropout": 0.0,
     "bos_token_id": 128000, "eos_token_id": 128001, "hidden_act": "silu", "hidden_size": 4096,
     "initializer_range": 0.02, "intermediate_size": 14336, "max_position_embeddings": 131072,
     "mlp_bias": false, "model_type": "llama", "num_attention_heads": 32, "num_hidden_layers": 32,
     "num_key_value_heads": 8, "pretraining_tp": 1, "rms_norm_eps": 1e-05, "rope_scaling":
     {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
     "original_max_position_embeddings": 8192, "rope_type": "llama3"}, "rope_theta": 500000.0,
     "tie_word_embeddings": false, "torch_dtype": "bfloat16",
     "transformers_version": "4.43.0.dev0", "use_cache": true, "vocab_size": 128256)",
     nullptr, 8'030'261'248},
    {"Llama-3.2-1B",
     R"("architectures": ["LlamaForCausalLM"], "attention_bias": false, "attention_dropout": 0.0,
     "bos_token_id": 128000, "eos_token_id": 128001, "head_dim": 64, "hidden_act": "silu",
     "hidden_size": 2048, "initializer_range": 0.02, "intermediate_size": 8192,
     "max_position_embeddings": 131072, "mlp_bias": false, "model_type": "llama",
     "num_attention_heads": 32, "num_hidden_layers": 16, "num_key_value_heads": 8,
     "pretraining_tp": 1, "rms_norm_eps": 1e-05, "rope_scaling": {"factor": 32.0,
     "high_freq_factor": 4.0, "low_freq_factor": 1.0, "original_max_position_embeddings": 8192,
     "rope_type": "llama3"}, "rope_theta": 500000.0, "tie_word_embeddings": true,
     "torch_dtype": "bfloat16", "transformers_version": "4.45.0.dev0", "use_cache": true,
     "vocab_size": 128256)",
     nullptr, 1'235'814'400},
    {"Llama-3.2-3B",
     R"("architectures": ["LlamaForCausalLM"], "attention_bias": false, "attention_dropout": 0.0,
     "bos_token_id": 128000, "eos_token_id": 128001, "head_dim": 128, "hidden_act": "silu",
     "hidden_size": 3072, "initializer_range": 0.02, "intermediate_size": 8192,
     "max_position_embeddings": 131072, "mlp_bias": false, "model_type": "llama",
     "num_attention_heads": 24, "num_hidden_layers": 28, "num_key_value_heads": 8,
     "pretraining_tp": 1, "rms_norm_eps": 1e-05, "rope_scaling": {"factor": 32.0,
     "high_freq_factor": 4.0, "low_freq_factor": 1.0, "original_max_position_embeddings": 8192,
     "rope_type": "llama3"}, "rope_theta": 500000.0, "tie_word_embeddings": true,
     "torch_dtype": "bfloat16", "transformers_version": "4.45.0.dev0", "use_cache": true,
     "vocab_size": 128256)",
     nullptr, 3'212'749'824},
    {"Mistral-7B-v0.1",
     R"("architectures": ["MistralForCausalLM"], "bos_token_id": 1, "eos_token_id": 2,
     "hidden_act": "silu", "hidden_size": 4096, "initializer_range": 0.02,
     "intermediate_size": 14336, "max_position_embeddings": 32768, "model_type": "mistral",
     "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 8,
     "rms_norm_eps": 1e-05, "rope_theta": 10000.0, "sliding_window": 4096,
     "tie_word_embeddings": false, "torch_dtype": "bfloat16",
     "transformers_version": "4.34.0.dev0", "use_cache": true, "vocab_size": 32000)",
     nullptr, 7'241'732'096},
    {"Mistral-7B-v0.3",
     R"("architectures": ["MistralForCausalLM"], "attention_dropout": 0.0, "bos_token_id": 1,
     "eos_token_id": 2, "hidden_act": "silu", "hidden_size": 4096, "initializer_range": 0.02,
     "intermediate_size": 14336, "max_position_embeddings": 32768, "model_type": "mistral",
     "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 8,
     "rms_norm_eps": 1e-05, "rope_theta": 1000000.0, "sliding_window": null,
     "tie_word_embeddings": false, "torch_dtype": "bfloat16", "transformers_version": "4.42.0.dev0",
     "use_cache": true, "vocab_size": 32768)",
     nullptr, 7'248'023'552},
    {"Qwen2-7B",
     R"("architectures": ["Qwen2ForCausalLM"], "attention_dropout": 0.0, "bos_token_id": 151643,
     "eos_token_id": 151643, "hidden_act": "silu", "hidden_size": 3584, "initializer_range": 0.02,
     "intermediate_size": 18944, "max_position_embeddings": 131072, "max_window_layers": 28,
     "model_type": "qwen2", "num_attention_heads": 28, "num_hidden_layers": 28,
     "num_key_value_heads": 4, "rms_norm_eps": 1e-06, "rope_theta": 1000000.0,
     "sliding_window": 131072, "tie_word_embeddings": false, "torch_dtype": "bfloat16",
     "transformers_version": "4.37.2", "use_cache": true, "use_sliding_window": false,
     "vocab_size": 152064)",
     nullptr, 7'615'616'512},
    {"Qwen2.5-0.5B",
     R"("architectures": ["Qwen2ForCausalLM"], "attention_dropout": 0.0, "bos_token_id": 151643,
     "eos_token_id": 151643, "hidden_act": "silu", "hidden_size": 896, "initializer_range": 0.02,
     "intermediate_size": 4864, "max_position_embeddings": 32768, "max_window_layers": 24,
     "model_type": "qwen2", "num_attention_heads": 14, "num_hidden_layers": 24,
     "num_key_value_heads": 2, "rms_norm_eps": 1e-06, "rope_theta": 1000000.0,
     "sliding_window": 32768, "tie_word_embeddings": true, "torch_dtype": "bfloat16",
     "transformers_version": "4.40.1", "use_cache": true, "use_mrope": false,
     "use_sliding_window": false, "vocab_size": 151936)",
     nullptr, 494'032'768},
    {"Qwen3-0.6B",
     R"("architectures": ["Qwen3ForCausalLM"], "attention_bias": false, "attention_dropout": 0.0,
     "bos_token_id": 151643, "eos_token_id": 151645, "head_dim": 128, "hidden_act": "silu",
     "hidden_size": 1024, "initializer_range": 0.02, "intermediate_size": 3072,
     "max_position_embeddings": 40960, "max_window_layers": 28, "model_type": "qwen3",
     "num_attention_heads": 16, "num_hidden_layers": 28, "num_key_value_heads": 8,
     "rms_norm_eps": 1e-06, "rope_scaling": null, "rope_theta": 1000000, "sliding_window": null,
     "tie_word_embeddings": true, "torch_dtype": "bfloat16", "transformers_version": "4.51.0",
     "use_cache": true, "use_sliding_window": false, "vocab_size": 151936)",
     nullptr, 596'049'920},
    {"Qwen3-8B with the keys of transformers 5",
     R"("architectures": ["Qwen3ForCausalLM"], "attention_bias": false, "attention_dropout": 0.0,
     "bos_token_id": 151643, "dtype": "bfloat16", "eos_token_id": 151645, "head_dim": 128,
     "hidden_act": "silu", "hidden_size": 4096, "initializer_range": 0.02,
     "intermediate_size": 12288,      "max_position_embeddings": 40960, "max_window_layers": 36, "model_type": "qwen3",
     "num_attention_heads": 32, "num_hidden_layers": 36, "num_key_value_heads": 8,
     "rms_norm_eps": 1e-06, "rope_parameters": {"rope_theta": 1000000, "rope_type": "default"},
     "sliding_window": null, "tie_word_embeddings": false, "transformers_version": "5.0.0",
     "use_cache": true, "use_sliding_window": false, "vocab_size": 151936)",
     nullptr, 8'190'735'360},
    {"Yarn-Llama-2-7b",
     R"("architectures": ["LlamaForCausalLM"], "bos_token_id": 1, "eos_token_id": 2,
     "hidden_act": "silu", "hidden_size": 4096, "initializer_range": 0.02,
     "intermediate_size": 11008, "max_position_embeddings": 65536, "model_type": "llama",
     "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 32,
     "pretraining_tp": 1, "rms_norm_eps": 1e-05, "rope_scaling": {"factor": 16.0,
     "original_max_position_embeddings": 4096, "type": "yarn", "finetuned": true},
     "tie_word_embeddings": false, "torch_dtype": "bfloat16", "transformers_version": "4.31.0",
     "use_cache": true, "vocab_size": 32000)",
     "\"yarn\" for rope_scaling.type"},
    {"Meta-Llama-3.1-8B in 4 bits",
     R"("architectures": ["LlamaForCausalLM"], "hidden_act": "silu", "hidden_size": 4096,
     "intermediate_size": 14336, "max_position_embeddings": 131072, "model_type": "llama",
     "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 8,
     "quantization_config": {"load_in_4bit": true, "quant_method": "bitsandbytes"},
     "rms_norm_eps": 1e-05, "rope_theta": 500000.0, "torch_dtype": "bfloat16",
     "vocab_size": 128256)",
     "\"quantization_config\""},
    {"gemma-2b",
     R"("architectures": ["GemmaForCausalLM"], "attention_bias": false, "attention_dropout": 0.0,
     "bos_token_id": 2, "eos_token_id": 1, "head_dim": 256, "hidden_act": "gelu",
     "hidden_size": 2048, "initializer_range": 0.02, "intermediate_size": 16384,
     "max_position_embeddings": 8192, "model_type": "gemma", "num_attention_heads": 8,
     "num_hidden_layers": 18, "num_key_value_heads": 1, "pad_token_id": 0, "rms_norm_eps": 1e-06,
     "rope_scaling": null, "rope_theta": 10000.0, "torch_dtype": "bfloat16",
     "transformers_version": "4.38.0.dev0", "use_cache": true, "vocab_size": 256000)",
     "type \"gemma\", which multiplies embeddings"},
    {"gemma-2-9b",
     R"("architectures": ["Gemma2ForCausalLM"], "attn_logit_softcapping": 50.0,
     "final_logit_softcapping": 30.0, "head_dim": 256, "hidden_size": 3584, "model_type": "gemma2",
     "num_attention_heads": 16, "num_hidden_layers": 42, "num_key_value_heads": 8,
     "query_pre_attn_scalar": 256, "sliding_window": 4096, "vocab_size": 256000)",
     "type \"gemma2\", which limits scores and logits"},
    {"Phi-3-mini-4k-instruct",
     R"("architectures": ["Phi3ForCausalLM"], "attention_dropout": 0.0, "auto_map": {"AutoConfig":
     "configuration_phi3.Phi3Config"}, "bos_token_id": 1, "embd_pdrop": 0.0, "eos_token_id": 32000,
     "hidden_act": "silu", "hidden_size": 3072, "initializer_range": 0.02,
     "intermediate_size": 8192, "max_position_embeddings": 4096, "model_type": "phi3",
     "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 32,
     "original_max_position_embeddings": 4096, "pad_token_id": 32000, "resid_pdrop": 0.0,
     "rms_norm_eps": 1e-05, "rope_scaling": null, "rope_theta": 10000.0, "sliding_window": 2047,
     "tie_word_embeddings": false, "torch_dtype": "bfloat16", "transformers_version": "4.40.2",
     "use_cache": true, "attention_bias": false, "vocab_size": 32064)",
     "type \"phi3\", whose files merge"},
    {"falcon-7b",
     R"("alibi": false, "apply_residual_connection_post_layernorm": false,
     "architectures": ["FalconForCausalLM"], "attention_dropout": 0.0, "bias": false,
     "bos_token_id": 11, "eos_token_id": 11, "hidden_dropout": 0.0, "hidden_size": 4544,
     "initializer_range": 0.02, "layer_norm_epsilon": 1e-05, "model_type": "falcon",
     "multi_query": true, "new_decoder_architecture": false, "num_attention_heads": 71,
     "num_hidden_layers": 32, "parallel_attn": true, "torch_dtype": "bfloat16", "use_cache": true,
     "vocab_size": 65024)",
     "type \"falcon\", whose attention and feed-forward network run side by side"},
    {"gpt-neox-20b",
     R"("architectures": ["GPTNeoXForCausalLM"], "attention_probs_dropout_prob": 0,
     "bos_token_id": 0, "eos_token_id": 0, "hidden_act": "gelu_fast", "hidden_dropout_prob": 0,
     "hidden_size": 6144, "initializer_range": 0.02, "intermediate_size": 24576,
     "layer_norm_eps": 1e-05, "max_position_embeddings": 2048, "model_type": "gpt_neox",
     "num_attention_heads": 64, "num_hidden_layers": 44, "rotary_emb_base": 10000,
     "rotary_pct": 0.25, "tie_word_embeddings": false, "torch_dtype": "float16", "use_cache": true,
     "vocab_size": 50432)",
     "type \"gpt_neox\", whose attention"},
    {"Mixtral-8x7B-v0.1",
     R"("architectures": ["MixtralForCausalLM"], "attention_dropout": 0.0, "bos_token_id": 1,
     "eos_token_id": 2, "hidden_act": "silu", "hidden_size": 4096, "initializer_range": 0.02,
     "intermediate_size": 14336, "max_position_embeddings": 32768, "model_type": "mixtral",
     "num_attention_heads": 32, "num_experts_per_tok": 2, "num_hidden_layers": 32,
     "num_key_value_heads": 8, "num_local_experts": 8, "output_router_logits": false,
     "rms_norm_eps": 1e-05, "rope_theta": 1000000.0, "router_aux_loss_coef": 0.02,
     "sliding_window": null, "tie_word_embeddings": false, "torch_dtype": "bfloat16",
     "use_cache": true, "vocab_size": 32000)",
     "type \"mixtral\", which sends each token to some of several experts"},
    {"opt-125m",
     R"("activation_function": "relu", "architectures": ["OPTForCausalLM"],
     "do_layer_norm_before": true, "ffn_dim": 3072, "hidden_size": 768,
     "max_position_embeddings": 2048, "model_type": "opt", "num_attention_heads": 12,
     "num_hidden_layers": 12, "vocab_size": 50272, "word_embed_proj_dim": 768)",
     "type \"opt\", whose learned positions begin at 2"},
    {"bloom-560m",
     R"("architectures": ["BloomForCausalLM"], "hidden_size": 1024, "model_type": "bloom",
     "n_head": 16, "n_layer": 24, "vocab_size": 250880)",
     "type \"bloom\", whose scores have ALiBi's slopes"},
};

}  // namespace

TEST_CASE("published configurations are read, or refused for what cubist lacks")
{
  for (const Published& model : published)
  {
    CAPTURE(model.name);
    const std::string text = "{" + std::string{model.keys} + "}";
    if (model.refusal != nullptr)
    {
      CHECK(mentions(message_of<ArgumentError>([&] { (void)parse_config(text, "config.json"); }),
                     "config.json has ", model.refusal));
      continue;
    }
    const auto config = parse_config(text, "config.json");
    CHECK(transformer_model(config, model.name).parameters() == model.parameters);
    // A save keeps every key and every value.
    CHECK(nlohmann::json::parse(config_text(config)) == nlohmann::json::parse(text));
    // Without the file the configuration is one of the same layers.
    auto without = config;
    without.source = {};
    CHECK(parse_config(config_text(without), "again") == config);
  }
}

TEST_CASE("what published configurations say of rotation, heads and windows is read")
{
  const auto read = [](std::string_view name) {
    const auto found = std::find_if(published.begin(), published.end(),
                                    [&](const Published& p) { return name == p.name; });
    return parse_config("{" + std::string{found->keys} + "}", "config.json");
  };
  using Type = RotaryScaling::Type;
  CHECK(read("Llama-3.2-1B").rotary_scaling == RotaryScaling{Type::llama3, 32, 1, 4, 8192});
  CHECK(read("Llama-2-7b-hf").rotary_base == 10000);
  CHECK(read("Mistral-7B-v0.1").window == 4096);
  CHECK(read("Mistral-7B-v0.3").window == 0);
  CHECK(read("Qwen2-7B").window == 0);
  CHECK(read("Qwen2-7B").query_key_value_bias);
  CHECK(read("Qwen3-0.6B").head_norms);
  CHECK(read("Qwen3-0.6B").head_size == 128);
}

TEST_CASE("the rows of the table of families name types, classes and models once")
{
  std::set<std::string> names;
  std::size_t count = 0;
  for (const auto& family : cubist::detail::model_families)
  {
    CAPTURE(family.type);
    count += 2 + family.published.size();
    names.insert({family.type, family.architecture});
    for (const auto& model : family.published) names.insert(std::string{"model "} + model.name);
    CHECK(cubist::detail::find_family(family.type) == &family);
    CHECK(cubist::detail::reason_against(family.type) == "which cubist does not know");
  }
  for (const auto& other : cubist::detail::other_families)
  {
    names.insert(other.type);
    ++count;
    CHECK(cubist::detail::find_family(other.type) == nullptr);
    CHECK(cubist::detail::reason_against(other.type) == other.reason);
  }
  CHECK(names.size() == count);
}

}  // namespace cubist::test::families_test
