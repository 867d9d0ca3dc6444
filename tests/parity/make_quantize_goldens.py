"""Blocks quantised by bitsandbytes on a CPU, for tests/engine/quantize_test.cpp.

    python tests/parity/make_quantize_goldens.py    # needs bitsandbytes==0.50.2 and torch

Writes tests/engine/goldens/quantize.safetensors: for every case its values [rows, columns], and per
format the codes, absmax and dequantised values; a nested case also has the scales of absmax and its
mean.
"""
import pathlib

import bitsandbytes.functional as F
import torch
from safetensors.torch import save_file

OUTPUT = pathlib.Path(__file__).resolve().parents[1] / "engine" / "goldens" / "quantize.safetensors"
BLOCK = 64


def tail_on_limits():
    """Returns a short block for whose values dividing by absmax and multiplying by its inverse
    choose different codes.
    """
    nf4 = F.get_4bit_type("nf4", "cpu")
    limits = (nf4[1:] + nf4[:-1]) / 2
    while True:
        absmax = torch.rand(1) + 0.1
        x = limits * absmax
        if ((x / absmax > limits) != (x * (1 / absmax) > limits)).sum() >= 3:
            return torch.cat([absmax, x]).reshape(1, -1)


def values():
    """Returns named fp32 matrices: ordinary weights, and error-prone blocks."""
    torch.manual_seed(5)
    cases = {"normal": torch.randn(48, 64) * 0.02}
    cases["many_blocks"] = torch.randn(130, 128) * torch.rand(130, 1)  # 260 absmax: a second scale
    cases["odd_tail"] = torch.randn(3, 43)  # 129 values: two blocks and one value
    cases["short"] = torch.randn(1, 7)
    cases["tail_of_zeros"] = torch.cat([torch.randn(1, 64), torch.zeros(1, 13)], 1)
    cases["tail_on_limits"] = tail_on_limits()
    cases["heavy_tails"] = torch.randn(16, 64) / torch.rand(16, 64).clamp(min=1e-3)
    hard = torch.zeros(12, 64)
    hard[1] = 0.5  # one value
    hard[2, 17] = 1e4  # one outlier among zeros
    hard[3] = torch.randn(64) * 1e-3
    hard[3, 5] = -1e3  # one negative outlier
    hard[4] = torch.randn(64) * 1e-41  # denormal
    hard[5] = torch.randn(64) * 1e-38  # around the smallest normal number
    hard[6] = torch.randn(64) * 3e37  # large
    hard[7] = torch.linspace(-1, 1, 64)
    hard[8] = torch.linspace(-1, 1, 64).flip(0) * 1e-20
    nf4 = F.get_4bit_type("nf4", "cpu")
    hard[9, :16], hard[9, 16:31] = nf4, (nf4[1:] + nf4[:-1]) / 2  # exactly on the entries and between them
    fp4 = F.get_4bit_type("fp4", "cpu").sort().values
    hard[10, :16], hard[10, 16:31] = fp4, (fp4[1:] + fp4[:-1]) / 2
    hard[11, ::2] = -0.0
    hard[11, 1] = 1.0
    cases["hard"] = hard
    return cases


def four_bits(name, x, kind, nested):
    codes, state = F.quantize_4bit(x, blocksize=BLOCK, quant_type=kind, compress_statistics=nested)
    # The kernel's rows must hold whole blocks, so values are dequantised flat, block by block, by
    # the formula.
    absmax = state.absmax
    if nested:
        absmax = F.dequantize_blockwise(state.absmax, state.state2) + state.offset
    code = F.get_4bit_type(kind, "cpu")
    flat = codes.flatten().int()
    indices = torch.stack([flat >> 4, flat & 15], 1).flatten()[: x.numel()]
    formula = (code[indices] * absmax.repeat_interleave(BLOCK)[: x.numel()]).reshape(x.shape)
    if x.shape[1] % BLOCK == 0:
        for dtype in (torch.float32, torch.bfloat16, torch.float16):
            state.dtype = dtype
            assert torch.equal(F.dequantize_4bit(codes, state), formula.to(dtype)), (name, kind, dtype)
    prefix = f"{name}.{kind}{'.nested' if nested else ''}"
    out = {f"{prefix}.codes": codes.flatten(), f"{prefix}.absmax": state.absmax, f"{prefix}.values": formula}
    if nested:
        out[f"{prefix}.scale"] = state.state2.absmax
        out[f"{prefix}.mean"] = state.offset.reshape(1)
    return out


def eight_bits(name, x):
    codes, state = F.quantize_blockwise(x, blocksize=BLOCK)
    return {f"{name}.int8.codes": codes.flatten(), f"{name}.int8.absmax": state.absmax,
            f"{name}.int8.values": F.dequantize_blockwise(codes, state)}


def main():
    torch.set_num_threads(1)
    goldens = {}
    for name, x in values().items():
        goldens[f"{name}.input"] = x
        for kind in ("nf4", "fp4"):
            for nested in (False, True):
                goldens.update(four_bits(name, x, kind, nested))
        goldens.update(eight_bits(name, x))
    for name in [n for n in goldens if n.startswith("many_blocks") and n.endswith("values")]:
        # The codes and scales of the large case are enough; its values would be most of the file.
        goldens[name] = goldens[name][:4].contiguous()
    goldens["book.nf4"] = F.get_4bit_type("nf4", "cpu")
    goldens["book.fp4"] = F.get_4bit_type("fp4", "cpu")
    goldens["book.int8"] = F.create_dynamic_map()
    OUTPUT.parent.mkdir(exist_ok=True)
    save_file({k: v.contiguous() for k, v in goldens.items()}, OUTPUT)
    print(OUTPUT, OUTPUT.stat().st_size)


if __name__ == "__main__":
    main()
