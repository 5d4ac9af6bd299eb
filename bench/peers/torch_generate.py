#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Runs with PyTorch on the CPU what `cubist_bench generate` measures: a GPT continues a prompt by its most likely
tokens, with a cache of keys and values. Prints one line of JSON with the seconds of a token, without the prompt
and the first token. With --in-turns, prints one line when it is ready, and one for each line that it reads.

    bench/peers/torch_generate.py --layers 12 --width 768 --heads 12 --vocabulary 50257

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
    parser.add_argument("--sequences", type=int, default=1)
    parser.add_argument("--prompt", type=int, default=32)
    parser.add_argument("--tokens", type=int, default=32)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--width", type=int, default=768)
    parser.add_argument("--heads", type=int, default=12)
    parser.add_argument("--vocabulary", type=int, default=50257)
    parser.add_argument("--scalar", default="float", choices=["float", "double", "bfloat16", "half"])
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)),
                        help="by default all cores that this process may run on")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--warm-up", type=int, default=1)
    parser.add_argument("--in-turns", action="store_true")
    return parser.parse_args()


def gpt(torch, requested):
    nn, functional = torch.nn, torch.nn.functional
    width, heads, sequences = requested.width, requested.heads, requested.sequences
    length = requested.prompt + requested.tokens
    size = width // heads

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.attention_norm = nn.LayerNorm(width)
            self.query_key_value = nn.Linear(width, 3 * width)
            self.output = nn.Linear(width, width)
            self.feed_forward_norm = nn.LayerNorm(width)
            self.up = nn.Linear(width, 4 * width)
            self.down = nn.Linear(4 * width, width)
            self.keys = torch.zeros(sequences, heads, length, size)
            self.values = torch.zeros(sequences, heads, length, size)

        def attention(self, x, first):
            tokens = x.shape[1]
            end = first + tokens
            parts = self.query_key_value(x).split(width, 2)
            q, k, v = (p.view(sequences, tokens, heads, size).transpose(1, 2) for p in parts)
            self.keys[:, :, first:end] = k
            self.values[:, :, first:end] = v
            scores = q @ self.keys[:, :, :end].transpose(2, 3) * size ** -0.5
            if tokens > 1:
                scores = scores + torch.full((tokens, end), float("-inf")).triu(first + 1)
            y = torch.softmax(scores, -1) @ self.values[:, :, :end]
            return self.output(y.transpose(1, 2).reshape(sequences, tokens, width))

        def forward(self, x, first):
            x = x + self.attention(self.attention_norm(x), first)
            up = functional.gelu(self.up(self.feed_forward_norm(x)), approximate="tanh")
            return x + self.down(up)

    class Gpt(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = nn.Embedding(requested.vocabulary, width)
            self.positions = nn.Embedding(max(1024, length), width)
            self.blocks = nn.ModuleList(Block() for _ in range(requested.layers))
            self.norm = nn.LayerNorm(width)

        def forward(self, ids, first):
            """The most likely token of each sequence."""
            x = self.embedding(ids) + self.positions.weight[first:first + ids.shape[1]]
            for block in self.blocks:
                x = block(x, first)
            return (self.norm(x[:, -1]) @ self.embedding.weight.t()).argmax(-1, keepdim=True)

    return Gpt()


def main():
    requested = arguments()
    # The libraries under PyTorch read these when they load.
    for library in ("OMP", "OPENBLAS", "MKL", "BLIS"):
        os.environ[library + "_NUM_THREADS"] = str(requested.threads)
    try:
        import torch
    except ImportError as error:
        print(f"torch_generate: no PyTorch ({error}), so there is nothing to measure; install it "
              "(Debian: python3-torch), or name a Python that has it", file=sys.stderr)
        sys.exit(3)

    torch.set_num_threads(requested.threads)
    torch.set_default_dtype({"float": torch.float32, "double": torch.float64,
                             "bfloat16": torch.bfloat16, "half": torch.float16}[requested.scalar])
    torch.manual_seed(42)
    model = gpt(torch, requested).eval()
    prompt = torch.randint(0, requested.vocabulary, (requested.sequences, requested.prompt))

    def seconds():
        with torch.inference_mode():
            token = model(prompt, 0)
            token.tolist()
            start = time.perf_counter()
            for i in range(1, requested.tokens):
                token = model(token, requested.prompt + i - 1)
                token.tolist()
            return (time.perf_counter() - start) / (requested.tokens - 1)

    about = {"threads": torch.get_num_threads(), "device": "cpu", "version": str(torch.__version__)}
    if requested.in_turns:
        print(json.dumps(about), flush=True)
        for _ in sys.stdin:
            print(json.dumps({"seconds": seconds()}), flush=True)
        return
    times = [seconds() for _ in range(requested.warm_up + requested.repeats)][requested.warm_up:]
    print(json.dumps({"seconds": statistics.median(times), "min_seconds": min(times), **about}))


if __name__ == "__main__":
    main()
