"""Writes tests/io/goldens/{all_types,metadata,empty}.safetensors with the Python package
safetensors.

    python tests/parity/make_safetensors_goldens.py     # needs the package safetensors

forge's writer must write the same bytes.
"""
import os

import numpy as np
from safetensors import TensorSpec, serialize_file

FOLDER = os.path.join(os.path.dirname(__file__), "..", "io", "goldens")
SIZES = {"float64": 8, "float32": 4, "float16": 2, "bfloat16": 2, "int64": 8, "int32": 4, "int16": 2, "int8": 1,
         "uint8": 1, "bool": 1, "float8_e4m3fn": 1, "float8_e5m2": 1}
rng = np.random.default_rng(7)
alive = []  # keeps arrays alive: a TensorSpec holds a bare address


def tensor(dtype, shape):
    count = int(np.prod(shape, dtype=np.int64))
    data = rng.integers(0, 2 if dtype == "bool" else 256, size=count * SIZES[dtype], dtype=np.uint8)
    alive.append(data)
    return TensorSpec(dtype=dtype, shape=shape, data_ptr=data.ctypes.data, data_len=data.nbytes)


def save(name, tensors, metadata=None):
    serialize_file(tensors, os.path.join(FOLDER, name), metadata)


all_types = {}
for i, dtype in enumerate(SIZES):
    all_types[f"z.{dtype}"] = tensor(dtype, [2, i + 1])
    all_types[f"a.{dtype}"] = tensor(dtype, [3])
all_types["scalar"] = tensor("float32", [])
all_types["nothing"] = tensor("float16", [0, 5])
all_types['quote " backslash \\ tab \t bell \x07 delete \x7f'] = tensor("float32", [1])
all_types["snow ☃ 😀"] = tensor("float32", [1])
save("all_types.safetensors", all_types)
save("metadata.safetensors", {"w": tensor("float32", [2, 2])}, {"format": "pt"})
save("empty.safetensors", {})
