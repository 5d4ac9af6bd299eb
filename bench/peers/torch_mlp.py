#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Runs with PyTorch, on the CPU or a GPU, the step that `cubist_bench mlp` measures: forward and backward of an
MLP, with the gradients of its weights and biases, and of its input on request. Prints one line of JSON with
seconds. With --in-turns, prints one line when it is ready, and one for each line that it reads.

    bench/peers/torch_mlp.py --tokens 4096 --layers 1024,4096,1024 --scalar float

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
    parser.add_argument("--tokens", type=int, default=4096)
    parser.add_argument("--layers", default="1024,4096,1024", help="features of the input, between the layers, and of the output")
    parser.add_argument("--activation", default="gelu", choices=["gelu", "gelu_tanh", "relu", "silu", "identity"])
    parser.add_argument("--optimizer", default="none", choices=["none", "sgd", "adam"])
    parser.add_argument("--input-gradient", action="store_true", help="also compute the gradient of the input")
    parser.add_argument("--scalar", default="float", choices=["float", "double", "bfloat16", "half"])
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)),
                        help="by default all cores that this process may run on")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--warm-up", type=int, default=1)
    parser.add_argument("--in-turns", action="store_true")
    return parser.parse_args()


def network(torch, layers, activation):
    between = {"gelu": torch.nn.GELU, "gelu_tanh": lambda: torch.nn.GELU(approximate="tanh"),
               "relu": torch.nn.ReLU, "silu": torch.nn.SiLU, "identity": torch.nn.Identity}[activation]
    modules = []
    for inputs, outputs in zip(layers, layers[1:]):
        modules += [torch.nn.Linear(inputs, outputs), between()]
    return torch.nn.Sequential(*modules[:-1])


def main():
    requested = arguments()
    # The libraries under PyTorch read these when they load.
    for library in ("OMP", "OPENBLAS", "MKL", "BLIS"):
        os.environ[library + "_NUM_THREADS"] = str(requested.threads)
    try:
        import torch
    except ImportError as error:
        print(f"torch_mlp: no PyTorch ({error}), so there is nothing to measure; install it "
              "(Debian: python3-torch), or name a Python that has it", file=sys.stderr)
        sys.exit(3)

    on_gpu = requested.device == "cuda"
    if on_gpu and not torch.cuda.is_available():
        print(f"torch_mlp: PyTorch {torch.__version__} finds no GPU, so there is nothing to measure; install one "
              "that is built for CUDA, look at nvidia-smi, or leave --device out", file=sys.stderr)
        sys.exit(3)
    torch.set_num_threads(requested.threads)
    torch.set_default_dtype({"float": torch.float32, "double": torch.float64,
                             "bfloat16": torch.bfloat16, "half": torch.float16}[requested.scalar])
    torch.backends.cuda.matmul.allow_tf32 = False  # like cuBLAS and cubist
    torch.manual_seed(42)
    layers = [int(size) for size in requested.layers.split(",")]
    mlp = network(torch, layers, requested.activation).to(requested.device)
    x = torch.rand(requested.tokens, layers[0], device=requested.device,
                   requires_grad=requested.input_gradient)
    dy = torch.rand(requested.tokens, layers[-1], device=requested.device)
    optimizer = {"none": lambda: None,
                 "sgd": lambda: torch.optim.SGD(mlp.parameters(), lr=1e-3),
                 "adam": lambda: torch.optim.Adam(mlp.parameters(), lr=1e-3)}[requested.optimizer]()

    def step():
        # Without old gradients, new ones are stored rather than added.
        x.grad = None
        mlp.zero_grad(set_to_none=True)
        mlp(x).backward(dy)
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
