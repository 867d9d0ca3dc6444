"""Rows, steps and settings of the SmolLM2 parity runs. Standard library only."""
from pathlib import Path

from cases import Settings

HERE = Path(__file__).resolve().parent
ROWS = HERE / "smollm2-rows.jsonl"
CACHE = Path.home() / ".cache" / "forge" / "parity"
ADAPTER_SEED = 17
ROWS_PER_STEP, STEPS = 5, 20
LORA = {"r": 16, "lora_alpha": 32, "lora_dropout": 0.0, "target_modules": "all-linear"}
# LoRA with eps 1e-6: with 1e-8 a single weight whose first gradient is rounding (|g| near 1e-9)
# takes a step of the other sign, and one such weight of 10,000 is 2e-3 to 3e-3 of a tensor's
# change: transformers differs from itself by that much.
RUNS = {
    "lora": {"lora": True, "settings": Settings(2e-4, STEPS, eps=1e-6)},
    "full": {"lora": False, "settings": Settings(2e-5, STEPS)},
}


def batches(rows: list) -> list[list]:
    return [rows[i : i + ROWS_PER_STEP] for i in range(0, ROWS_PER_STEP * STEPS, ROWS_PER_STEP)]
