"""Writes goldens/blocks.safetensors and blocks-expected.safetensors: matrices in blocks, and their
values by transformers.

    python tests/parity/make_block_goldens.py     # needs torch, safetensors, transformers

The blocks are as gpt-oss (mxfp4) and DeepSeek-V3 (fp8) store them.
"""
from pathlib import Path

import torch
from safetensors.torch import save_file
from transformers.integrations.finegrained_fp8 import Fp8Dequantize
from transformers.integrations.mxfp4 import convert_moe_packed_tensors

GOLDENS = Path(__file__).resolve().parent / "goldens"
EXPERTS, OUT, BLOCKS = 3, 10, 2  # with 32 inputs a block
SQUARE, ROWS, COLUMNS = 16, 48, 32


def main() -> None:
    generator = torch.Generator().manual_seed(9)
    blocks = torch.randint(0, 256, (EXPERTS, OUT, BLOCKS, 16), generator=generator, dtype=torch.uint8)
    scales = torch.randint(110, 140, (EXPERTS, OUT, BLOCKS), generator=generator, dtype=torch.uint8)
    matrix = (100 * torch.randn(ROWS, COLUMNS, generator=generator)).to(torch.float8_e4m3fn)
    inverse = torch.rand(ROWS // SQUARE, COLUMNS // SQUARE, generator=generator) + 0.01
    plain = torch.randn(5, generator=generator)
    stored = {"experts.gate_up_proj_blocks": blocks, "experts.gate_up_proj_scales": scales, "q.weight": matrix,
              "q.weight_scale_inv": inverse, "norm.weight": plain}
    expected = {"experts.gate_up_proj": convert_moe_packed_tensors(blocks, scales, dtype=torch.float32),
                "q.weight": Fp8Dequantize(None)._dequantize_one(matrix, inverse, torch.float32), "norm.weight": plain}
    save_file(stored, GOLDENS / "blocks.safetensors")
    save_file({name: tensor.contiguous() for name, tensor in expected.items()}, GOLDENS / "blocks-expected.safetensors")


if __name__ == "__main__":
    main()
