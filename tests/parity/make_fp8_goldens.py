#!/usr/bin/env python3
"""Writes goldens/fp8.safetensors and fp8.json: loss and adapter's gradients of
tests/fixtures/wide_model.py on a base in fp8.

    python3 tests/parity/make_fp8_goldens.py        # wants torch, transformers, peft

Names with "base." are on the base itself. The files also hold the gate's figures, which are of the
model without its adapter.

The numbers are by transformers and peft, with frozen layers that multiply numbers that went through
torch.float8_e4m3fn: weights and rows of x with a scale a row, and for d x rows of d y multiplied by
the weights' scales. Products are fp64, so that the scheme is compared.
"""
import json
import sys
import tempfile
from array import array
from pathlib import Path

import torch
from peft import PeftModel
from transformers import AutoModelForCausalLM

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "fixtures"))
import oracle  # noqa: E402
from tensors import Tensor, write_safetensors  # noqa: E402
from wide_model import write_wide, write_wide_adapter  # noqa: E402

ROWS = HERE / "goldens" / "tiny-batches.jsonl"
LARGEST = 448.0


def through_fp8(x):
    """Returns the numbers of the codes, and the scale of each row; x is fp32."""
    largest = x.abs().amax(-1, keepdim=True)
    codes = (x * (LARGEST / largest)).clamp(-LARGEST, LARGEST).nan_to_num().to(torch.float8_e4m3fn)
    return codes.double(), torch.where(largest > 0, largest / LARGEST, torch.ones_like(largest))


class Fp8Product(torch.autograd.Function):
    @staticmethod
    def forward(context, x, codes, scales):
        context.save_for_backward(codes, scales)
        rows, row_scales = through_fp8(x.float())
        return (rows @ codes.t() * row_scales.double() * scales.double().t()).to(x.dtype)

    @staticmethod
    def backward(context, gradient):
        codes, scales = context.saved_tensors
        rows, row_scales = through_fp8(gradient.float() * scales.t())
        return (rows @ codes * row_scales.double()).to(gradient.dtype), None, None


class Fp8Linear(torch.nn.Module):
    def __init__(self, linear):
        super().__init__()
        self.codes, self.scales = through_fp8(linear.weight.detach().float())

    def forward(self, x):
        return Fp8Product.apply(x, self.codes, self.scales)


def golden(root, in_fp8):
    model = AutoModelForCausalLM.from_pretrained(write_wide(root / "wide"), dtype=torch.float32)
    model = PeftModel.from_pretrained(model, write_wide_adapter(root / "wide-adapter"), is_trainable=True)
    for module in [m for m in model.modules() if hasattr(m, "base_layer")] if in_fp8 else []:
        module.base_layer = Fp8Linear(module.base_layer)
    batch = oracle.pad(oracle.read_rows(ROWS)[:8])
    loss = oracle.mean_loss(model, batch)
    loss.backward()
    gradients = {name.replace(".default", ""): p.grad for name, p in model.named_parameters() if p.grad is not None}
    with torch.no_grad(), model.disable_adapter():
        labels = oracle.targets(model, batch)
        alone = oracle.token_losses(oracle.outputs(model, batch).logits, labels)[labels != -100].double()
    return loss.item(), gradients, alone


def main():
    with tempfile.TemporaryDirectory() as root:
        loss, gradients, fp8_losses = golden(Path(root), True)
        plain, others, losses = golden(Path(root), False)
    norm = lambda tensors: sum(t.double().square().sum() for t in tensors).sqrt().item()  # noqa: E731
    differs = norm([gradients[n] - others[n] for n in gradients]) / norm(others.values())
    tensors = gradients | {"base." + name: g for name, g in others.items()}
    write_safetensors(HERE / "goldens" / "fp8.safetensors", {n: Tensor(list(g.shape), array("f", g.flatten().tolist())) for n, g in tensors.items()})
    mean, more = losses.mean(), fp8_losses - losses
    gate = {"loss": mean.item(), "fp8_loss": fp8_losses.mean().item(), "difference": (more.mean().abs() / mean).item(),
            "standard_error": (more.std(correction=0) / len(more) ** 0.5 / mean).item(), "supervised_tokens": len(more)}
    said = {"loss": loss, "loss of the base itself": plain, "gradients differ from the base's by": differs, "gate": gate}
    (HERE / "goldens" / "fp8.json").write_text(json.dumps(said, indent=1) + "\n")
    print(f"loss {loss:.6f}, of the base itself {plain:.6f}; gradients differ by {differs:.4f}")


if __name__ == "__main__":
    main()
