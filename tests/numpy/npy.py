# SPDX-License-Identifier: BSD-3-Clause
"""npy.py PROGRAM: PROGRAM (npy.cpp) and NumPy interpret .npy files alike."""

import os
import subprocess
import sys
import tempfile

try:
    import numpy as np
except ImportError:
    print(f"skipped: {sys.executable} has no numpy (Debian: python3-numpy)")
    sys.exit()

program = sys.argv[1]
TYPES = {
    "|b1": "BOOL", "|u1": "U8", "|i1": "I8", "<u2": "U16", "<i2": "I16", "<f2": "F16", "<u4": "U32", "<i4": "I32",
    "<f4": "F32", "<u8": "U64", "<i8": "I64", "<f8": "F64", "<c8": "C64", "<c16": "C128",
}


def run(*words):
    return subprocess.run([program, *words], check=True, stdout=subprocess.PIPE).stdout


def numbers(array):
    """The elements in the order of the file; a complex number is two."""
    flat = array.ravel(order="K")
    if array.dtype.kind == "c":
        flat = flat.astype("c16").view("f8")
    return [float(x) for x in flat]


def make(descr, shape, order):
    values = np.arange(np.prod(shape, dtype=int)) / 3 + 1
    if "c" in descr:
        values = values - 2j * values
    return np.asarray(values.reshape(shape), dtype=descr, order=order)


def check_reading(folder):
    paths, arrays = [], []
    for descr in TYPES:
        for shape in [(), (3,), (2, 3), (1, 5), (0, 5), (2, 3, 4)]:
            for order, version in [("C", None), ("F", None), ("C", (2, 0)), ("F", (3, 0))]:
                paths.append(os.path.join(folder, f"{len(paths)}.npy"))
                arrays.append(make(descr, shape, order))
                with open(paths[-1], "wb") as file:
                    np.lib.format.write_array(file, arrays[-1], version)
    lines = run("read", *paths).decode().splitlines()
    assert len(lines) == len(paths)
    for line, path, array in zip(lines, paths, arrays):
        name, fortran, offset, *rest = line.split()
        assert name == TYPES[array.dtype.str], line
        assert bool(int(fortran)) == (array.flags.f_contiguous and not array.flags.c_contiguous), line
        assert int(offset) == os.path.getsize(path) - array.nbytes, line
        assert rest[0] == "(" + "".join(f"{n}," for n in array.shape) + ")", line
        if array.dtype.kind in "fc":
            assert [float(x) for x in rest[1:]] == numbers(array), line
    return len(paths)


def check_refusing(folder):
    refused = [
        (np.ones((2, 2), ">f8"), "wrong order"),
        (np.array([[{}]], dtype=object), "Python objects"),
        (np.zeros((2, 2), [("a", "<f4"), ("b", "<i4")]), "several fields"),
        (np.array([["text"]]), "does not know"),
        (np.zeros((2, 2), "<M8[s]"), "does not know"),
        (np.zeros((2, 2), np.longdouble), "does not know"),
    ]
    for array, reason in refused:
        path = os.path.join(folder, "refused.npy")
        np.save(path, array)
        line = run("read", path).decode()
        assert line.startswith("refused: ") and reason in line, line
    return len(refused)


def check_writing(folder):
    path = os.path.join(folder, "written.npy")
    shapes = [(3, 4), (1, 1), (0, 7), (1000, 1)]
    for descr, name in TYPES.items():
        for shape in shapes:
            array = make(descr, shape, "C")
            with open(path, "wb") as file:
                file.write(run("header", name, *map(str, shape)) + array.tobytes())
            read = np.load(path, allow_pickle=False)
            assert read.dtype == array.dtype and read.shape == shape and np.array_equal(read, array), (descr, shape)
    return len(TYPES) * len(shapes)


with tempfile.TemporaryDirectory() as folder:
    print(f"{check_reading(folder)} files of NumPy {np.__version__} read, {check_refusing(folder)} refused, "
          f"{check_writing(folder)} written for it")
