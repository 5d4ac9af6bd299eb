# SPDX-License-Identifier: BSD-3-Clause
"""usage.py PROGRAM...: a network with the weights of PyTorch's layout, and labels of any integer, as docs/files.md loads them.

NumPy writes the files, and computes what the network must.
"""
import pathlib
import subprocess
import sys
import tempfile

try:
    import numpy as np
except ImportError:
    print(f"skipped: {sys.executable} has no numpy (Debian: python3-numpy)")
    sys.exit()

from safetensors_file import save_safetensors

random = np.random.default_rng(1)


def uniform(*shape):
    return random.uniform(-1, 1, shape).astype("<f4")


def main():
    # (out, in), the first one square, which its shape does not tell from (in, out).
    w = {"fc1.weight": uniform(6, 6), "fc1.bias": uniform(6), "fc2.weight": uniform(4, 6), "fc2.bias": uniform(4)}
    x = uniform(9, 6)
    labels = random.integers(0, 4, 9)
    z = np.maximum(x @ w["fc1.weight"].T + w["fc1.bias"], 0) @ w["fc2.weight"].T + w["fc2.bias"]
    loss = np.mean(np.log(np.exp(z).sum(axis=1)) - z[np.arange(9), labels])
    accuracy = np.mean(z.argmax(axis=1) == labels)
    types = ["|u1", "<i4", "<i8"]
    with tempfile.TemporaryDirectory() as folder:
        save_safetensors(pathlib.Path(folder) / "model.safetensors", w)
        np.save(pathlib.Path(folder) / "x.npy", x)
        for descr in types:
            np.save(pathlib.Path(folder) / "labels.npy", labels.astype(descr))
            program = [str(pathlib.Path(sys.argv[1]).absolute()), *sys.argv[2:]]
            text = subprocess.run(program, check=True, timeout=60, cwd=folder, stdout=subprocess.PIPE).stdout
            got = np.array([float(v) for v in text.split()])
            assert np.allclose(got, [loss, accuracy, *z.ravel()], atol=1e-5), (descr, got)

        np.savez(pathlib.Path(folder) / "labels.npz", labels)
        pathlib.Path(folder, "labels.npz").rename(pathlib.Path(folder, "labels.npy"))
        failed = subprocess.run(program, timeout=60, cwd=folder, stderr=subprocess.PIPE)
        assert failed.returncode == 1 and b"zip archive" in failed.stderr, failed.stderr
    print(f"the output of weights in (out, in), and labels in {', '.join(types)}, are NumPy's")


main()
