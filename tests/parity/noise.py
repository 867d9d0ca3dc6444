"""How far transformers + peft is from itself on the tiny cases: the floor under every tolerance of README.md.

    python tests/parity/noise.py

Each case runs in fp32 with eager attention (the golden), in fp32 with LibTorch's fused attention, and in fp64.
"""
import tempfile
from pathlib import Path

import torch

import cases
import make_model_goldens as goldens
import oracle
from fixtures_path import variants


def run(case, root, batches, change):
    torch.manual_seed(0)
    model = change(goldens.build(case, root))
    start = goldens.state(model, case)
    record = oracle.train(model, batches, case.settings)
    return start, goldens.state(model, case), record


def in_fp64(model):
    return model.double()


def fused_attention(model):
    model.set_attn_implementation("sdpa")
    return model


def main() -> None:
    torch.set_num_threads(1)
    batches = goldens.batches_of(goldens.make_rows())
    print("| case | against | loss, relative | change together | change, worst tensor |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as temporary:
        root = Path(temporary)
        for name in variants.names():
            variants.write_variant(name, root / name)
        for case in cases.CASES:
            start, want, golden = run(case, root, batches, lambda model: model)
            for label, change in (("sdpa", fused_attention), ("fp64", in_fp64)):
                _, got, record = run(case, root, batches, change)
                loss = max(abs(a - b) / abs(b) for a, b in zip(record.losses, golden.losses))
                together, worst, name = oracle.relative_change_error(start, got, want)
                print(f"| {case.name} | {label} | {loss:.1e} | {together:.1e} | {worst:.1e} `{name}` |", flush=True)


if __name__ == "__main__":
    main()
