#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Runs with PyTorch on a GPU the step that `cubist_bench_gpu step` measures: forward and squared error of an MLP, backward
without the gradient of the input, and fused Adam, with float masters of 16-bit weights. Prints one line of JSON with the
seconds from an idle GPU to an idle GPU. With --in-turns, prints one line when it is ready, and one for each line that it
reads.

    bench/peers/torch_step.py --tokens 16 --layers 256,1024,256 --mode graph

Exits with 3 if there is no PyTorch for a GPU.
"""

import argparse
import json
import statistics
import sys
import time

from torch_mlp import network


def arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, default=16)
    parser.add_argument("--layers", default="256,1024,256", help="features of the input, between the layers, and of the output")
    parser.add_argument("--activation", default="gelu_tanh", choices=["gelu", "gelu_tanh", "relu", "silu", "identity"])
    parser.add_argument("--scalar", default="float", choices=["float", "double", "bfloat16", "half"])
    parser.add_argument("--mode", default="eager", choices=["eager", "graph", "compile"])
    parser.add_argument("--device", default="cuda", choices=["cpu", "cuda"], help="cpu: eager, to try the script")
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--warm-up", type=int, default=3)
    parser.add_argument("--in-turns", action="store_true")
    return parser.parse_args()


def make_step(torch, requested):
    """Returns a function that takes a step."""
    on_gpu = requested.device == "cuda"
    layers = [int(size) for size in requested.layers.split(",")]
    mlp = network(torch, layers, requested.activation).to(requested.device)
    x = torch.rand(requested.tokens, layers[0], device=requested.device)
    target = torch.rand(requested.tokens, layers[-1], device=requested.device)
    weights = list(mlp.parameters())
    has_masters = weights[0].element_size() == 2
    masters = [w.detach().float() for w in weights] if has_masters else weights
    optimizer = torch.optim.Adam(masters, lr=1e-3, fused=on_gpu, capturable=on_gpu)

    def loss():
        return torch.nn.functional.mse_loss(mlp(x), target)

    if requested.mode == "compile":
        loss = torch.compile(loss)

    def step():
        for w in weights:
            w.grad = None
        loss().backward()
        if has_masters:
            for master, w in zip(masters, weights):
                master.grad = w.grad.float()
        optimizer.step()
        if has_masters:
            with torch.no_grad():
                torch._foreach_copy_(weights, masters)

    if requested.mode != "graph" or not on_gpu:
        return step
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph.replay


def main():
    requested = arguments()
    try:
        import torch
    except ImportError as error:
        print(f"torch_step: no PyTorch ({error}), so there is nothing to measure; install it, or name a Python that has it",
              file=sys.stderr)
        sys.exit(3)
    on_gpu = requested.device == "cuda"
    if on_gpu and not torch.cuda.is_available():
        print(f"torch_step: PyTorch {torch.__version__} finds no GPU, so there is nothing to measure; install one "
              "that is built for CUDA, or look at nvidia-smi", file=sys.stderr)
        sys.exit(3)
    torch.set_default_dtype({"float": torch.float32, "double": torch.float64,
                             "bfloat16": torch.bfloat16, "half": torch.float16}[requested.scalar])
    torch.backends.cuda.matmul.allow_tf32 = False  # like cuBLAS and cubist
    torch.manual_seed(42)
    step = make_step(torch, requested)

    def finish():
        if on_gpu:
            torch.cuda.synchronize()

    def seconds():
        finish()
        start = time.perf_counter()
        step()
        finish()
        return time.perf_counter() - start

    for _ in range(requested.warm_up):
        seconds()
    about = {"threads": torch.get_num_threads(), "device": requested.device, "version": str(torch.__version__)}
    if requested.in_turns:
        print(json.dumps(about), flush=True)
        for _ in sys.stdin:
            print(json.dumps({"seconds": seconds()}), flush=True)
        return
    times = [seconds() for _ in range(requested.repeats)]
    print(json.dumps({"seconds": statistics.median(times), "min_seconds": min(times), **about}))


if __name__ == "__main__":
    main()
