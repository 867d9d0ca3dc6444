"""What the SmolLM2 parity runs are: rows, steps, settings. Standard library only."""
from pathlib import Path

from cases import Settings

HERE = Path(__file__).resolve().parent
ROWS = HERE / "smollm2-rows.jsonl"
CACHE = Path.home() / ".cache" / "forge" / "parity"
ADAPTER_SEED = 17
ROWS_PER_STEP, STEPS = 5, 20
LORA = {"r": 16, "lora_alpha": 32, "lora_dropout": 0.0, "target_modules": "all-linear"}
RUNS = {
    "lora": {"lora": True, "settings": Settings(2e-4, STEPS)},
    "full": {"lora": False, "settings": Settings(2e-5, STEPS)},
}


def batches(rows: list) -> list[list]:
    return [rows[i : i + ROWS_PER_STEP] for i in range(0, ROWS_PER_STEP * STEPS, ROWS_PER_STEP)]
