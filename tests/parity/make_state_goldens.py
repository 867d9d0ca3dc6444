"""Fifty updates of bitsandbytes' 8-bit AdamW, for tests/kernels/state_test.cpp.

    python tests/parity/make_state_goldens.py    # needs bitsandbytes==0.50.2 and torch

bitsandbytes' optimizer code and maps run on a CPU. Its CPU path rounds a value to one of 65,536
steps before it looks for the nearest entry, which loses second moments below 2e-5 of a block's
largest. Its CUDA kernels do not, and people train with those. So the quantisation is replaced by
its own definition, the nearest entry.
"""
import pathlib

import bitsandbytes.backends.cpu.ops as cpu
import bitsandbytes.functional as F
import torch
from safetensors.torch import save_file

OUTPUT = pathlib.Path(__file__).resolve().parents[1] / "kernels" / "goldens" / "adamw_8bit.safetensors"
COUNT, STEPS, BLOCK = 1000, 50, 256


def nearest(values, code, absmax_out, codes_out, blocksize):
    for block, part in enumerate(values.split(blocksize)):
        absmax = part.abs().max()
        unit = (part / absmax).clamp(-1, 1)
        codes_out[block * blocksize : block * blocksize + len(part)] = (unit[:, None] - code).abs().argmin(1).to(torch.uint8)
        absmax_out[block] = absmax


torch.manual_seed(3)
cpu._quant_blockwise_fp32_direct = nearest
weight = torch.randn(COUNT)
size = torch.logspace(-4, 0, COUNT)[torch.randperm(COUNT)]  # gradients of very different size share a block
grads = (torch.randn(STEPS, COUNT) * size).half()
maps = F.create_dynamic_map(signed=True), F.create_dynamic_map(signed=False)
blocks = -(-COUNT // BLOCK)
codes = torch.zeros(COUNT, dtype=torch.uint8), torch.zeros(COUNT, dtype=torch.uint8)
absmax = torch.zeros(blocks), torch.zeros(blocks)
out = {"weight.0": weight.clone(), "grads": grads, "map.signed": maps[0], "map.unsigned": maps[1]}
for step in range(1, STEPS + 1):
    cpu._optimizer_update_8bit_blockwise_cpu(
        "adam", grads[step - 1].float(), weight, *codes, 0.9, 0.999, 0, 0, 1e-8, step, 1e-2, *maps, *absmax, 0.1, 1.0)
    if step in (1, 10, 50):
        out[f"weight.{step}"] = weight.clone()
        for name, code, largest in zip(("mean", "square"), codes, absmax):
            out[f"{name}.{step}"], out[f"{name}_absmax.{step}"] = code.clone(), largest.clone()
save_file(out, str(OUTPUT))
print(OUTPUT, OUTPUT.stat().st_size, "bytes")
