# SPDX-License-Identifier: BSD-3-Clause
"""The safetensors format, so that tests need only NumPy."""
import json

import numpy as np

NAMES = {"F16": "<f2", "F32": "<f4", "F64": "<f8"}


def save_safetensors(path, tensors):
    header, data = {}, b""
    for name, x in tensors.items():
        raw = x.tobytes()
        kind = next(k for k, v in NAMES.items() if np.dtype(v) == x.dtype)
        header[name] = {"dtype": kind, "shape": list(x.shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)


def load_safetensors(path):
    raw = path.read_bytes()
    length = int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8 : 8 + length])
    metadata = header.pop("__metadata__", {})
    data = raw[8 + length :]
    return metadata, {
        name: np.frombuffer(data[slice(*t["data_offsets"])], NAMES[t["dtype"]]).reshape(t["shape"])
        for name, t in header.items()
    }
