#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Runs by PyTorch's formula on the CPU, in float, the step that `cubist_bench muon` measures: Nesterov momentum, five
steps of Newton-Schulz for each matrix, and the update. For each line that it reads, takes a step and prints its seconds.

    echo | bench/peers/torch_muon.py --layers 1024,1024,1024

Exits with 3 if there is no PyTorch (Debian: python3-torch).
"""

import argparse
import json
import os
import sys
import time


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", default="1024,1024", help="features of the input, between the layers, and of the output")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--in-turns", action="store_true", help="ignored: it always takes turns")
    requested, _ = parser.parse_known_args()
    for library in ("OMP", "OPENBLAS", "MKL", "BLIS"):
        os.environ[library + "_NUM_THREADS"] = str(requested.threads)
    try:
        import torch
    except ImportError as error:
        print(f"torch_muon: no PyTorch ({error}), so there is nothing to measure; install it "
              "(Debian: python3-torch), or name a Python that has it", file=sys.stderr)
        sys.exit(3)
    torch.set_num_threads(requested.threads)
    sizes = [int(size) for size in requested.layers.split(",")]
    shapes = [(outputs, inputs) for inputs, outputs in zip(sizes, sizes[1:])]
    weights, gradients, momenta = ([torch.rand(shape) for shape in shapes] for _ in range(3))

    def orthogonalized(g):
        x = g.T if g.size(0) > g.size(1) else g
        x = x / x.norm().clamp(min=1e-7)
        for _ in range(5):
            a = x @ x.T
            b = torch.addmm(a, a, a, beta=-4.7750, alpha=2.0315)
            x = torch.addmm(x, b, x, beta=3.4445)
        return x.T if g.size(0) > g.size(1) else x

    def step():
        for w, g, m in zip(weights, gradients, momenta):
            m.lerp_(g, 0.05)
            update = orthogonalized(g.lerp(m, 0.95))
            w.mul_(1 - 1e-4).add_(update, alpha=-1e-3 * max(1, w.size(0) / w.size(1)) ** 0.5)

    print(json.dumps({"threads": torch.get_num_threads(), "version": str(torch.__version__)}), flush=True)
    with torch.no_grad():
        for _ in sys.stdin:
            start = time.perf_counter()
            step()
            print(json.dumps({"seconds": time.perf_counter() - start}), flush=True)


if __name__ == "__main__":
    main()
