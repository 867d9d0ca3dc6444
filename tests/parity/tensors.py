"""safetensors and vector arithmetic with the standard library only, so that CI can check goldens
without numpy.

    tensors = read_safetensors("model.safetensors")     # name -> Tensor(shape, values), F32, BF16 or F16 in, float out
    change_error(start, got, want)                      # relative Frobenius errors, as the tolerances are stated

Fast enough for models of a few hundred thousand parameters.
"""
import json
import math
import struct
from array import array
from dataclasses import dataclass
from pathlib import Path


@dataclass
class Tensor:
    shape: list[int]
    values: array  # of doubles ('d') when computed, of floats ('f') when read


def decode(dtype: str, raw: bytes) -> array:
    if dtype == "F32":
        return array("f", raw)
    if dtype == "F16":
        return array("f", struct.unpack(f"<{len(raw) // 2}e", raw))
    if dtype == "BF16":
        return array("f", b"".join(b"\0\0" + raw[i : i + 2] for i in range(0, len(raw), 2)))
    if dtype == "I64":
        return array("q", raw)
    raise ValueError(f"dtype {dtype} is not one that goldens use")


def read_safetensors(path) -> dict[str, Tensor]:
    data = Path(path).read_bytes()
    (size,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + size])
    header.pop("__metadata__", None)
    return {
        name: Tensor(entry["shape"], decode(entry["dtype"], data[8 + size :][slice(*entry["data_offsets"])]))
        for name, entry in header.items()
    }


def write_safetensors(path, tensors: dict[str, Tensor]) -> None:
    header, offset = {"__metadata__": {"format": "pt"}}, 0
    for name, tensor in sorted(tensors.items()):
        size = 4 * len(tensor.values)
        header[name] = {"dtype": "F32", "shape": tensor.shape, "data_offsets": [offset, offset + size]}
        offset += size
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    body = b"".join(array("f", tensors[name].values).tobytes() for name in sorted(tensors))
    Path(path).write_bytes(struct.pack("<Q", len(text)) + text + body)


def squared(values) -> float:
    return math.fsum(v * v for v in values)


def norm(values) -> float:
    return math.sqrt(squared(values))


def difference(a, b) -> array:
    return array("d", (x - y for x, y in zip(a, b, strict=True)))


@dataclass
class ChangeError:
    """Distance of a trained change from the oracle's, relative to the oracle's change (Frobenius
    norms).
    """

    together: float
    worst: float
    worst_name: str


def change_error(start: dict, got: dict, want: dict) -> ChangeError:
    """Returns the ChangeError of `got`.

    start, got and want are {name: sequence of numbers}, for the same names. Changes are got - start
    and want - start.
    """
    if set(got) != set(want):
        raise ValueError(f"tensors differ: missing {sorted(set(want) - set(got))}, extra {sorted(set(got) - set(want))}")
    error_sum = change_sum = worst = 0.0
    worst_name = ""
    for name in want:
        error = squared(difference(got[name], want[name]))
        change = squared(difference(want[name], start[name]))
        error_sum, change_sum = error_sum + error, change_sum + change
        relative = math.sqrt(error / change) if change > 0 else (math.inf if error > 0 else 0.0)
        if relative >= worst:
            worst, worst_name = relative, name
    return ChangeError(math.sqrt(error_sum / change_sum) if change_sum else 0.0, worst, worst_name)
