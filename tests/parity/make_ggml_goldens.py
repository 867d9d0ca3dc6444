"""Writes tests/io/goldens/quantise.safetensors: float32 values, and ggml's bytes for them in each
block type.

    python tests/parity/make_ggml_goldens.py LIBRARY    # libggml-base.so of any recent llama.cpp, or what holds it

`values` is [rows, 512]; each type has a tensor [rows, bytes of a row]. Rows: normal weights,
weights with outliers, positive ones, constants, zeros, one value alone, tiny and huge ones.
"""
import ctypes
import sys
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

TYPES = {"q4_0": 2, "q5_0": 6, "q5_1": 7, "q8_0": 8, "q4_k": 12, "q5_k": 13, "q6_k": 14}
COLUMNS = 512


def rows() -> np.ndarray:
    random = np.random.default_rng(7)
    normal = random.normal(0, 0.02, (24, COLUMNS))
    outliers = random.normal(0, 0.02, (8, COLUMNS)) * np.where(random.random((8, COLUMNS)) < 0.01, 40, 1)
    positive = np.abs(random.normal(1, 0.3, (4, COLUMNS)))
    heavy = random.standard_t(2, (4, COLUMNS))
    constant = np.full((1, COLUMNS), 0.7)
    zero = np.zeros((1, COLUMNS))
    alone = np.zeros((1, COLUMNS))
    alone[0, 5] = -3
    tiny, huge = random.normal(0, 1e-6, (2, COLUMNS)), random.normal(0, 1e3, (2, COLUMNS))
    return np.concatenate([normal, outliers, positive, heavy, constant, zero, alone, tiny, huge]).astype(np.float32)


def main() -> None:
    ggml = ctypes.CDLL(sys.argv[1])
    ggml.ggml_row_size.restype = ggml.ggml_quantize_chunk.restype = ctypes.c_size_t
    ggml.ggml_row_size.argtypes = [ctypes.c_int, ctypes.c_int64]
    ggml.ggml_quantize_chunk.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p] + [ctypes.c_int64] * 3 + [ctypes.c_void_p]
    values = rows()
    tensors = {"values": values}
    for name, number in TYPES.items():
        out = np.zeros((len(values), ggml.ggml_row_size(number, COLUMNS)), np.uint8)
        written = ggml.ggml_quantize_chunk(number, values.ctypes.data, out.ctypes.data, 0, len(values), COLUMNS, None)
        assert written == out.nbytes, name
        tensors[name] = out
    save_file(tensors, Path(__file__).resolve().parents[1] / "io" / "goldens" / "quantise.safetensors")


main()
