# SPDX-License-Identifier: BSD-3-Clause
"""files.py PROGRAM: files of NumPy and of a safetensors writer survive a load and a save by cubist on a mesh.

A foreign weight is loaded as it is and, from its transpose, as PyTorch stores it.
"""
import pathlib
import subprocess
import sys
import tempfile

try:
    import numpy as np
except ImportError:
    print("skipped: this python3 has no NumPy")
    sys.exit(0)

from safetensors_file import load_safetensors, save_safetensors


def fingerprint(x):
    """The fingerprint of core/fingerprint.hpp."""
    with np.errstate(over="ignore"):
        bits = np.ascontiguousarray(x).view(f"<u{x.itemsize}").ravel().astype(np.uint64)
        v = bits + (np.arange(x.size, dtype=np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        v = (v ^ (v >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        v = (v ^ (v >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return f"{int((v ^ (v >> np.uint64(31))).sum(dtype=np.uint64)):016x}"


def main():
    program = sys.argv[1]
    random = np.random.default_rng(1)
    with tempfile.TemporaryDirectory() as folder:
        source, saved = pathlib.Path(folder) / "source", pathlib.Path(folder) / "saved"
        source.mkdir()
        saved.mkdir()
        arrays = {
            "square": random.standard_normal((16, 16)),
            "uneven": random.standard_normal((13, 7)),
            "columns": np.asfortranarray(random.standard_normal((5, 9))),
            "float": random.standard_normal((6, 6)).astype("<f4"),
            "half": random.standard_normal((4, 9)).astype("<f2"),
            "row": random.standard_normal(10),
            "empty": np.zeros((0, 3)),
        }
        for name, x in arrays.items():
            np.save(source / f"{name}.npy", x)
        weights = {"weight": random.standard_normal((37, 11)).astype("<f4"), "bias": random.standard_normal(11).astype("<f2")}
        save_safetensors(source / "weights.safetensors", weights)
        save_safetensors(source / "torch.safetensors", {"weight": weights["weight"].T, "bias": weights["bias"]})

        subprocess.run([program, source, saved], check=True, timeout=60)

        for name, x in arrays.items():
            y = np.load(saved / f"{name}.npy")
            assert y.dtype == np.float64 and np.array_equal(y, np.atleast_2d(x).astype(np.float64)), name
        assert (saved / "torch.safetensors").read_bytes() == (saved / "weights.safetensors").read_bytes()
        metadata, loaded = load_safetensors(saved / "weights.safetensors")
        assert metadata.pop("step") == "7"
        for name, x in weights.items():
            y = loaded[name]
            assert y.dtype == np.float32 and np.array_equal(y, np.atleast_2d(x).astype(np.float32)), name
            assert metadata[f"fingerprint.{name}"] == fingerprint(y), name
    print(f"{len(arrays)} arrays and {len(weights)} tensors are the same")


main()
