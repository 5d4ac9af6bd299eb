#!/usr/bin/env python3
"""Writes llama_tiny/reference_double.safetensors: what llama_tiny computes in float64 throughout.

Hugging Face's LlamaForCausalLM computes its norms, its rotary angles and its softmax in float32 whatever
the type of its weights, so reference.safetensors is right to 1e-6 only. This is the same model with all of
it in float64, in plain PyTorch (1.13), with the same tensors (README.md). The script checks its logits and
losses against Hugging Face's to 2e-6.
"""
import json
import pathlib
import struct

import torch

types = {"F64": torch.float64, "I64": torch.int64}


def load(path):
    data = path.read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + size])
    header.pop("__metadata__", None)

    def tensor(entry):
        begin, end = entry["data_offsets"]
        flat = torch.frombuffer(bytearray(data[8 + size + begin:8 + size + end]), dtype=types[entry["dtype"]])
        return flat.reshape(entry["shape"])

    return {name: tensor(entry) for name, entry in header.items()}


def save(path, tensors):
    names = {torch.float64: "F64", torch.int64: "I64"}
    header, body = {}, b""
    for name in sorted(tensors):
        t = tensors[name].detach().contiguous()
        raw = t.numpy().tobytes()
        header[name] = {"dtype": names[t.dtype], "shape": list(t.shape), "data_offsets": [len(body), len(body) + len(raw)]}
        body += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + body)


def logits(config, w, ids):
    heads, kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
    width, epsilon, base = config["hidden_size"], config["rms_norm_eps"], config["rope_theta"]
    size = width // heads
    batch, length = ids.shape
    x = w["model.embed_tokens.weight"][ids]
    causal = torch.full((length, length), float("-inf"), dtype=torch.float64).triu(1)

    def norm(x, weight):
        return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + epsilon) * weight

    def rotate(x):
        half = size // 2
        angle = torch.outer(torch.arange(x.shape[-2], dtype=torch.float64),
                            base ** (-torch.arange(half, dtype=torch.float64) * 2 / size))
        cos, sin = angle.cos(), angle.sin()
        a, b = x[..., :half], x[..., half:]
        return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)

    def split(y, count):
        return y.view(batch, length, count, size).transpose(1, 2)

    for i in range(config["num_hidden_layers"]):
        layer = f"model.layers.{i}."
        linear = lambda y, name: y @ w[layer + name + ".weight"].t()
        h = norm(x, w[layer + "input_layernorm.weight"])
        q = rotate(split(linear(h, "self_attn.q_proj"), heads))
        k = rotate(split(linear(h, "self_attn.k_proj"), kv_heads)).repeat_interleave(heads // kv_heads, 1)
        v = split(linear(h, "self_attn.v_proj"), kv_heads).repeat_interleave(heads // kv_heads, 1)
        scores = torch.softmax(q @ k.transpose(-2, -1) / size**0.5 + causal, -1)
        x = x + linear((scores @ v).transpose(1, 2).reshape(batch, length, width), "self_attn.o_proj")
        h = norm(x, w[layer + "post_attention_layernorm.weight"])
        gated = torch.nn.functional.silu(linear(h, "mlp.gate_proj")) * linear(h, "mlp.up_proj")
        x = x + linear(gated, "mlp.down_proj")
    return norm(x, w["model.norm.weight"]) @ w["lm_head.weight"].t()


def loss_of(y, ids):
    return torch.nn.functional.cross_entropy(y[:, :-1].reshape(-1, y.shape[-1]), ids[:, 1:].reshape(-1))


def reference(config, weights, given, text_length):
    """All tensors of a reference, from the weights and the tensors "ids", "prompt" and "train.ids"."""
    w = {name: t.clone().requires_grad_() for name, t in weights.items()}
    made = dict(given)
    y = logits(config, w, given["ids"])
    loss = loss_of(y, given["ids"])
    loss.backward()
    made["logits"], made["loss"] = y, loss.reshape(1)
    made.update({"grad." + name: t.grad.clone() for name, t in w.items()})

    text = given["prompt"].clone()
    while len(text) < text_length:
        text = torch.cat([text, logits(config, w, text[None])[0, -1].argmax().reshape(1)])
    made["greedy"] = text

    optimizer = torch.optim.AdamW(w.values(), lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01)
    losses = []
    for ids in given["train.ids"]:
        optimizer.zero_grad()
        step = loss_of(logits(config, w, ids), ids)
        step.backward()
        optimizer.step()
        losses.append(step.detach())
    made["train.loss"] = torch.stack(losses)
    made.update({"final." + name: t for name, t in w.items()})
    return made


def main():
    folder = pathlib.Path(__file__).parent / "llama_tiny"
    config = json.loads((folder / "config.json").read_text())
    theirs = load(folder / "reference.safetensors")
    ours = reference(config, load(folder / "model.safetensors"),
                     {name: theirs[name] for name in ("ids", "prompt", "train.ids")}, len(theirs["greedy"]))
    assert torch.equal(ours["greedy"], theirs["greedy"])
    for name in ("logits", "loss", "train.loss"):
        assert (ours[name] - theirs[name]).abs().max() < 2e-6 * theirs[name].abs().max(), name
    print("largest differences from Hugging Face:",
          {name: float((ours[name] - theirs[name]).abs().max()) for name in ("logits", "loss", "train.loss")})
    save(folder / "reference_double.safetensors", ours)


if __name__ == "__main__":
    main()
