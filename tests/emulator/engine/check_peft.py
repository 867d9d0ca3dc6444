#!/usr/bin/env python3
"""Checks that PEFT loads what the emulated CUDA engine trained, and computes what forge does. Needs
torch, transformers and peft.

    python tests/emulator/engine/check_emulated.py build/bin/forge build/bin/forge-engine-emulated --keep FOLDER
    python tests/emulator/engine/check_peft.py build/bin/forge FOLDER
"""
import sys
import warnings
from pathlib import Path

import torch
from peft import PeftModel
from transformers import AutoModelForCausalLM

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent / "parity"))
import forge_run  # noqa: E402
import oracle  # noqa: E402
from check_emulated import CASES, ROWS  # noqa: E402

LIMIT = 1e-6  # fp32 sums in other orders


def losses(examples) -> list[float]:
    return [example["loss"] for example in examples]


def main(forge: str, root: Path) -> int:
    rows, failed = oracle.read_rows(ROWS)[:8], 0
    data = root / "eight-rows.jsonl"
    data.write_text("".join(line + "\n" for line in ROWS.read_text().splitlines()[:8]))
    for case, (variant, _, settings) in CASES.items():
        folder = root / "emulated" / case.replace(" ", "-") / "adapter"
        if not folder.exists() or "model" in settings:  # PEFT quantises with a library to which forge is not bit-equal on a CPU
            continue
        base = AutoModelForCausalLM.from_pretrained(root / variant, dtype=torch.float32, attn_implementation="eager").eval()
        before = losses(oracle.example_losses(base, rows))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model = PeftModel.from_pretrained(base, folder).eval()
        said = [str(w.message) for w in caught if "key" in str(w.message).lower()]
        got = losses(oracle.example_losses(model, rows))
        want = losses(forge_run.per_example(forge, root / variant, folder, data, root / "examples.jsonl"))
        error, moved = forge_run.relative_error(got, want), forge_run.relative_error(got, before)
        ok = error <= LIMIT and moved > 1000 * LIMIT and not said
        failed += not ok
        print("ok  " if ok else "FAIL", f"{case}: PEFT's losses differ by {error:.1e} (limit {LIMIT:.0e}), training moved them by "
              f"{moved:.1e}{'; ' + said[0][:100] if said else ''}", flush=True)
    return failed > 0


if __name__ == "__main__":
    sys.exit(main(str(Path(sys.argv[1]).resolve()), Path(sys.argv[2])))
