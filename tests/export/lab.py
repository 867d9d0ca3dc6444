"""Helpers of the export cases: a folder with models and runs, and the formulas of merged weights.
"""
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests/parity"), str(ROOT / "tests/fixtures")]
from tensors import Tensor  # noqa: E402
from variants import write_variant  # noqa: E402
from wide_model import write_wide  # noqa: E402

ROWS = ROOT / "tests" / "parity" / "goldens" / "tiny-batches.jsonl"


class Lab:
    """A folder with models, and runs of a few steps."""

    def __init__(self, forge: str, folder: Path):
        self.forge, self.folder = forge, folder

    def call(self, *words, code: int = 0, environment: dict = {}) -> str:
        done = subprocess.run([self.forge, *map(str, words)], capture_output=True, text=True, timeout=240, cwd=self.folder,
                              env=os.environ | environment)
        said = done.stdout + done.stderr
        assert done.returncode == code, f"exit {done.returncode}, expected {code}: {words}\n{said[-2000:]}"
        return said

    def report(self, *words) -> dict:
        return json.loads(self.call(*words, "--json").splitlines()[-1])

    def model(self, variant: str = "base", **config) -> Path:
        folder = self.folder / "models" / "-".join([variant, *config])
        if not folder.exists():
            write_wide(folder) if variant == "wide" else write_variant(variant, folder)
            path = folder / "config.json"
            path.write_text(json.dumps(json.loads(path.read_text()) | config))
        return folder

    def run(self, name: str, variant: str = "base", **sections) -> Path:
        job = {
            "version": 1, "name": name, "seed": 7, "output_dir": str(self.folder), "model": {"path": str(self.model(variant))},
            "adapter": {"type": "lora", "rank": 4, "alpha": 8},
            "data": {"train": [{"path": str(ROWS), "format": "tokens"}]},
            "train": {"max_steps": 4, "global_batch_size": 4, "precision": "fp32"}, "optimizer": {"learning_rate": 2e-2},
            "checkpoint": {"every_steps": 2},
        }
        for section, values in sections.items():
            job[section] = values if values.get("type") == "none" else job.get(section, {}) | values
        path = self.folder / f"{name}.json"
        path.write_text(json.dumps(job))
        if not (self.folder / name).exists():
            self.call("run", path)
        return self.folder / name


def product(b: Tensor, a: Tensor) -> list:
    """Returns B A, row after row."""
    (rows, rank), columns = b.shape, a.shape[1]
    out = []
    for row in range(rows):
        sums = [0.0] * columns
        for r in range(rank):
            factor = b.values[row * rank + r]
            for i in range(columns):
                sums[i] += factor * a.values[r * columns + i]
        out += sums
    return out


def expected(base: dict, adapter: dict, config: dict) -> dict:
    """Returns the merged weights by the formulas of LoRA and DoRA, in double precision."""
    merged = dict(base)
    for name, a in adapter.items():
        if not name.endswith(".lora_A.weight"):
            if name.endswith(".weight") and ".lora_" not in name:
                merged[name.removeprefix("base_model.model.")] = a
            continue
        stem = name.removesuffix(".lora_A.weight")
        module = stem.removeprefix("base_model.model.")
        b = adapter[stem + ".lora_B.weight"]
        rank = a.shape[0]
        leaf = module.rsplit(".", 1)[1]
        alpha = config.get("alpha_pattern", {}).get(leaf, config["lora_alpha"])
        scale = alpha / (rank ** 0.5 if config["use_rslora"] else rank)
        weight = base[module + ".weight"]
        values = [w + scale * d for w, d in zip(weight.values, product(b, a))]
        magnitude = adapter.get(stem + ".lora_magnitude_vector")
        if magnitude:
            columns = weight.shape[1]
            for row in range(weight.shape[0]):
                part = values[row * columns:(row + 1) * columns]
                factor = magnitude.values[row] / sum(v * v for v in part) ** 0.5
                values[row * columns:(row + 1) * columns] = [v * factor for v in part]
        merged[module + ".weight"] = Tensor(weight.shape, values)
    return merged


def assert_equal(got: dict, want: dict, tolerance: float = 1e-6):
    assert got.keys() == want.keys(), sorted(got.keys() ^ want.keys())
    for name, tensor in want.items():
        assert got[name].shape == tensor.shape, name
        worst = max(abs(a - b) for a, b in zip(got[name].values, tensor.values))
        assert worst <= tolerance, f"{name}: {worst}"


def changed_settings(lab: Lab, name: str, **settings) -> Path:
    adapter = lab.folder / name
    shutil.copytree(lab.run("m-plain") / "adapter", adapter)
    path = adapter / "adapter_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | settings))
    return adapter


SHAPES = {
    "plain": {},
    "rslora": {"use_rslora": True, "alpha": 3},
    "dora": {"use_dora": True},
    "patterns": {"rank_pattern": {"q_proj": 7, "down_proj": 1}, "alpha_pattern": {"v_proj": 31}},
    "saved": {"modules_to_save": ["lm_head", "input_layernorm"], "target_modules": ["q_proj", "down_proj"]},
    "few": {"target_modules": ["o_proj"], "layers_to_transform": [1]},
}
