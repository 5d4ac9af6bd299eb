#!/usr/bin/env python3
"""Writes llama_long_tiny: a Llama of random weights, and what it computes of sequences of 1,024 tokens.

Everything is in float64, in plain PyTorch (1.13), by the functions of llama_in_double.py, which agree with
Hugging Face's. All steps of training have the same sequence, which keeps the file small.
"""
import json
import pathlib

import torch

from llama_in_double import reference, save

config = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu", "hidden_size": 16,
    "intermediate_size": 24, "max_position_embeddings": 1024, "num_attention_heads": 4, "num_hidden_layers": 2,
    "num_key_value_heads": 2, "rms_norm_eps": 1e-06, "rope_theta": 10000.0, "tie_word_embeddings": False,
    "torch_dtype": "float64", "vocab_size": 11,
}
length, steps = 1024, 20
torch.manual_seed(41)
torch.set_default_dtype(torch.float64)
width, inner, vocabulary = config["hidden_size"], config["intermediate_size"], config["vocab_size"]
keys = width * config["num_key_value_heads"] // config["num_attention_heads"]
shapes = {"model.embed_tokens.weight": (vocabulary, width), "lm_head.weight": (vocabulary, width)}
for i in range(config["num_hidden_layers"]):
    for name, shape in (("self_attn.q_proj", (width, width)), ("self_attn.k_proj", (keys, width)),
                        ("self_attn.v_proj", (keys, width)), ("self_attn.o_proj", (width, width)),
                        ("mlp.gate_proj", (inner, width)), ("mlp.up_proj", (inner, width)),
                        ("mlp.down_proj", (width, inner))):
        shapes[f"model.layers.{i}.{name}.weight"] = shape
weights = {name: 0.3 * torch.randn(shape) for name, shape in shapes.items()}
norms = ["model.norm.weight"] + [f"model.layers.{i}.{name}_layernorm.weight"
                                 for i in range(config["num_hidden_layers"]) for name in ("input", "post_attention")]
weights.update({name: 1 + 0.1 * torch.randn(width) for name in norms})
ids = torch.randint(vocabulary, (1, length))
made = reference(config, weights, {"ids": ids, "prompt": ids[0, :length - 8],
                                   "train.ids": ids.expand(steps, 1, length)}, length)

folder = pathlib.Path(__file__).parent / "llama_long_tiny"
folder.mkdir(exist_ok=True)
(folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
save(folder / "model.safetensors", weights)
made["train.ids"] = ids  # of each step
save(folder / "reference.safetensors", made)
