"""Llama 4 with a linear layer for each matrix of each expert, as axolotl's "Linearized" files have
it.

    with llama4_apart.experts_of("llama4-apart"):
        model = AutoModelForCausalLM.from_pretrained(folder)
"""
import contextlib

import torch
from torch import nn
from transformers.models.llama4 import modeling_llama4


class LinearExperts(nn.Module):
    """Rows in the order of the experts, as many for each → rows."""

    def __init__(self, config):
        super().__init__()
        self.experts, hidden, size = config.num_local_experts, config.hidden_size, config.intermediate_size
        self.gate_projs = self.matrices(hidden, size)
        self.up_projs = self.matrices(hidden, size)
        self.down_projs = self.matrices(size, hidden)

    def matrices(self, width: int, out: int) -> nn.ModuleList:
        return nn.ModuleList(nn.Linear(width, out, bias=False) for _ in range(self.experts))

    def forward(self, rows):
        layers = zip(self.gate_projs, self.up_projs, self.down_projs, strict=True)
        return torch.cat([down(nn.functional.silu(gate(x)) * up(x))
                          for x, (gate, up, down) in zip(rows.chunk(self.experts), layers, strict=True)])


class Block(modeling_llama4.Llama4TextMoe):
    def __init__(self, config):
        super().__init__(config)
        self.experts = LinearExperts(config)


@contextlib.contextmanager
def experts_of(variant: str):
    """Builds Llama 4 with LinearExperts inside the block, if the variant's file has them."""
    own = modeling_llama4.Llama4TextMoe
    if variant.startswith("llama4-apart"):
        modeling_llama4.Llama4TextMoe = Block
    try:
        yield
    finally:
        modeling_llama4.Llama4TextMoe = own
