"""Runs llama.cpp's own quantiser over the tensors of a GGUF, to compare forge's blocks with.

    found = compare(library, own, exact, folder / "theirs.gguf")     # forge's file, the f32 GGUF that it was made of
    found.equal, found.tensors, found.good

Needs gguf, numpy and a library that exports ggml_quantize_chunk.
"""
import ctypes
from dataclasses import dataclass
from pathlib import Path

import gguf
import numpy as np

from llama_library import LlamaCpp

MOST = 1.02  # times llama.cpp's mean square error


def tensors(path: Path) -> dict:
    return {tensor.name: tensor for tensor in gguf.GGUFReader(path).tensors}


def requantise(library: LlamaCpp, own: Path, exact: dict, target: Path) -> None:
    """Writes forge's file with every block made by llama.cpp's quantiser, in forge's choice of
    types.
    """
    chunk = library.c.ggml_quantize_chunk
    chunk.restype, chunk.argtypes = ctypes.c_size_t, [ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64,
                                                      ctypes.c_int64, ctypes.c_void_p]
    target.write_bytes(own.read_bytes())
    with target.open("r+b") as file:
        for name, tensor in tensors(own).items():
            kind = tensor.tensor_type
            if kind.name in ("F32", "F16", "BF16"):
                continue
            source = np.ascontiguousarray(exact[name].data, dtype=np.float32)
            made = np.zeros(tensor.n_bytes, dtype=np.uint8)
            columns = int(tensor.shape[0])
            assert chunk(int(kind), source.ctypes.data, made.ctypes.data, 0, source.size // columns, columns, None) == tensor.n_bytes
            file.seek(tensor.data_offset)
            file.write(made.tobytes())


def values(tensor) -> np.ndarray:
    return gguf.dequantize(tensor.data, tensor.tensor_type).astype(np.float64).reshape(-1)


def squared_error(quantised: dict, exact: dict) -> float:
    """Returns the squared error over all weights, relative to their own squares."""
    errors = sum(float(((values(quantised[name]) - values(exact[name])) ** 2).sum()) for name in exact)
    return errors / sum(float((values(tensor) ** 2).sum()) for tensor in exact.values())


@dataclass
class Comparison:
    equal: int  # tensors that are equal byte for byte
    tensors: int
    error: float  # relative to the weights' squares
    their_error: float

    @property
    def good(self) -> bool:
        return self.equal == self.tensors or self.error <= MOST * self.their_error


def compare(library: LlamaCpp, own: Path, exact: dict, theirs: Path) -> Comparison:
    """Compares the quantisers; leaves llama.cpp's file at `theirs`."""
    requantise(library, own, exact, theirs)
    a, b = tensors(own), tensors(theirs)
    return Comparison(sum(np.array_equal(a[name].data, b[name].data) for name in exact), len(exact), squared_error(a, exact), squared_error(b, exact))
