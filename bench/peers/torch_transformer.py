#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Runs with PyTorch, on the CPU or a GPU, the step that `cubist_bench transformer` measures: forward, loss, backward
and AdamW of a GPT. Attention is PyTorch's fused one where it has one. On a GPU torch.compile compiles the model,
and the optimizer is fused. Prints one line of JSON with seconds. With --in-turns, prints one line when it is
ready, and one for each line that it reads.

    bench/peers/torch_transformer.py --sequences 8 --length 256 --layers 4 --width 512 --heads 8

Exits with 3 if there is no PyTorch (Debian: python3-torch).
"""

import argparse
import json
import os
import statistics
import sys
import time


def arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sequences", type=int, default=8)
    parser.add_argument("--length", type=int, default=256)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--heads", type=int, default=8)
    parser.add_argument("--vocabulary", type=int, default=256)
    parser.add_argument("--optimizer", default="adamw", choices=["none", "adamw"])
    parser.add_argument("--scalar", default="float", choices=["float", "double", "bfloat16", "half"])
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)),
                        help="by default all cores that this process may run on")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--warm-up", type=int, default=1)
    parser.add_argument("--in-turns", action="store_true")
    return parser.parse_args()


def gpt(torch, requested):
    nn, functional = torch.nn, torch.nn.functional
    width, heads, length = requested.width, requested.heads, requested.length
    fused = hasattr(functional, "scaled_dot_product_attention")

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.attention_norm = nn.LayerNorm(width)
            self.query_key_value = nn.Linear(width, 3 * width)
            self.output = nn.Linear(width, width)
            self.feed_forward_norm = nn.LayerNorm(width)
            self.up = nn.Linear(width, 4 * width)
            self.down = nn.Linear(4 * width, width)
            if not fused:
                future = torch.full((length, length), float("-inf")).triu(1)
                self.register_buffer("future", future)

        def attention(self, x):
            sequences = x.shape[0]
            parts = self.query_key_value(x).split(width, 2)
            q, k, v = (p.view(sequences, length, heads, -1).transpose(1, 2) for p in parts)
            if fused:
                y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            else:
                q, k, v = (p.reshape(sequences * heads, length, -1) for p in (q, k, v))
                scores = torch.baddbmm(self.future, q, k.transpose(1, 2), alpha=(width // heads) ** -0.5)
                y = torch.bmm(torch.softmax(scores, -1), v).view(sequences, heads, length, -1)
            return self.output(y.transpose(1, 2).reshape(sequences, length, width))

        def forward(self, x):
            x = x + self.attention(self.attention_norm(x))
            up = functional.gelu(self.up(self.feed_forward_norm(x)), approximate="tanh")
            return x + self.down(up)

    class Gpt(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = nn.Embedding(requested.vocabulary, width)
            self.positions = nn.Embedding(length, width)
            self.blocks = nn.ModuleList(Block() for _ in range(requested.layers))
            self.norm = nn.LayerNorm(width)

        def forward(self, ids):
            x = self.embedding(ids) + self.positions.weight
            for block in self.blocks:
                x = block(x)
            logits = self.norm(x) @ self.embedding.weight.t()
            return functional.cross_entropy(logits[:, :-1].reshape(-1, requested.vocabulary).float(),
                                            ids[:, 1:].reshape(-1))

    return Gpt()


def main():
    requested = arguments()
    # The libraries under PyTorch read these when they load.
    for library in ("OMP", "OPENBLAS", "MKL", "BLIS"):
        os.environ[library + "_NUM_THREADS"] = str(requested.threads)
    try:
        import torch
    except ImportError as error:
        print(f"torch_transformer: no PyTorch ({error}), so there is nothing to measure; install it "
              "(Debian: python3-torch), or name a Python that has it", file=sys.stderr)
        sys.exit(3)

    on_gpu = requested.device == "cuda"
    if on_gpu and not torch.cuda.is_available():
        print(f"torch_transformer: PyTorch {torch.__version__} finds no GPU, so there is nothing to measure; "
              "install one that is built for CUDA, look at nvidia-smi, or leave --device out", file=sys.stderr)
        sys.exit(3)
    torch.set_num_threads(requested.threads)
    torch.set_default_dtype({"float": torch.float32, "double": torch.float64,
                             "bfloat16": torch.bfloat16, "half": torch.float16}[requested.scalar])
    torch.backends.cuda.matmul.allow_tf32 = False  # like cuBLAS and cubist
    torch.manual_seed(42)
    model = gpt(torch, requested).to(requested.device)
    ids = torch.randint(0, requested.vocabulary, (requested.sequences, requested.length), device=requested.device)
    optimizer = None
    if requested.optimizer == "adamw":
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, **({"fused": True} if on_gpu else {}))
    loss_of = torch.compile(model) if on_gpu and hasattr(torch, "compile") else model

    def step():
        # Without old gradients, new ones are stored rather than added.
        model.zero_grad(set_to_none=True)
        loss_of(ids).backward()
        if optimizer:
            optimizer.step()

    def finish():
        if on_gpu:
            torch.cuda.synchronize()

    def seconds():
        finish()
        start = time.perf_counter()
        step()
        finish()
        return time.perf_counter() - start

    about = {"threads": torch.get_num_threads(), "device": requested.device, "version": str(torch.__version__)}
    if requested.in_turns:
        print(json.dumps(about), flush=True)
        for _ in sys.stdin:
            print(json.dumps({"seconds": seconds()}), flush=True)
        return
    times = [seconds() for _ in range(requested.warm_up + requested.repeats)][requested.warm_up:]
    print(json.dumps({"seconds": statistics.median(times), "min_seconds": min(times), **about}))


if __name__ == "__main__":
    main()
