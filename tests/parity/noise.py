"""Measures how far transformers + peft is from itself on the tiny cases: the floor under every
tolerance of README.md.

    python tests/parity/noise.py
    python tests/parity/noise.py --smollm2 lora|full     # after make_smollm2_goldens.py, whose cache it reads

Each tiny case runs in fp32 with eager attention (the golden), in fp32 with LibTorch's fused
attention, and in fp64. SmolLM2 runs again with one thread and fused attention, against the cached
run.
"""
import argparse
import json
import tempfile
from pathlib import Path

import torch
from safetensors.torch import load_file

import cases
import make_model_goldens as goldens
import make_smollm2_goldens as real
import oracle
import smollm2
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


def largest_relative(got, want) -> float:
    return max(abs(a - b) / abs(b) for a, b in zip(got, want))


def smollm2_noise(name: str) -> None:
    torch.set_num_threads(1)
    model = real.start_model(name, smollm2.CACHE)
    model.set_attn_implementation("sdpa")
    start = real.trained_state(model, smollm2.RUNS[name]["lora"])
    rows = oracle.read_rows(smollm2.ROWS)
    record = oracle.train(model, smollm2.batches(rows), smollm2.RUNS[name]["settings"])
    got = real.trained_state(model, smollm2.RUNS[name]["lora"])
    want = load_file(smollm2.CACHE / name / "final.safetensors")
    golden = json.loads((real.GOLDENS / "smollm2.json").read_text())[name]
    loss = largest_relative(record.losses, golden["losses"])
    norm = largest_relative(record.grad_norms, golden["grad_norms"])
    together, worst, tensor = oracle.relative_change_error(start, got, want)
    print(f"SmolLM2 {name}: loss {loss:.1e}, grad norm {norm:.1e}, change {together:.1e}, worst {worst:.1e} {tensor}")


def tiny_noise() -> None:
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
                loss = largest_relative(record.losses, golden.losses)
                together, worst, name = oracle.relative_change_error(start, got, want)
                print(f"| {case.name} | {label} | {loss:.1e} | {together:.1e} | {worst:.1e} `{name}` |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--smollm2", choices=list(smollm2.RUNS))
    args = parser.parse_args()
    smollm2_noise(args.smollm2) if args.smollm2 else tiny_noise()


if __name__ == "__main__":
    main()
