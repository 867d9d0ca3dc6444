"""Measures the wall time of `forge plan` from a large model's config.json alone. Standard library
only.

    python3 bench/time/plan_large.py --forge build/bin/forge [--turns 21] [--write bench/results/plan-DATE.md]

Each turn is a process from its start to its end, over 256 rows of tokens, which are cached by the
first. The processor time is the process's own (user and system); on a machine with other load, wall
time includes that load too. Exits 1 if the median of the 70B is 100 ms or more.
"""
import argparse
import datetime
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "parity"))
sys.path.insert(0, str(ROOT / "bench" / "memory"))
import make_header  # noqa: E402
import models  # noqa: E402

TINY = ROOT / "tests" / "fixtures" / "tiny-llama"  # has the tokenizer
MIXTRAL = {"architectures": ["MixtralForCausalLM"], "model_type": "mixtral", "vocab_size": 32000, "hidden_size": 4096,
           "intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
           "num_local_experts": 8, "num_experts_per_tok": 2, "max_position_embeddings": 32768, "rope_theta": 1e6}
QWEN3 = {"architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe", "vocab_size": 151936, "hidden_size": 2048,
         "intermediate_size": 6144, "moe_intermediate_size": 768, "num_hidden_layers": 48, "num_attention_heads": 32,
         "num_key_value_heads": 4, "head_dim": 128, "num_experts": 128, "num_experts_per_tok": 8, "norm_topk_prob": True,
         "max_position_embeddings": 40960, "rope_theta": 1e6}
MODELS = {"llama-3.1-70b": make_header.MODELS["llama-3.1-70b"], "mixtral-8x7b": MIXTRAL, "qwen3-30b-a3b": QWEN3}
LIMIT = 0.1


def write_job(folder: Path, name: str) -> Path:
    model, rows = folder / name, folder / "rows.jsonl"
    model.mkdir()
    models.write_rows(rows, [100 + 7 * i % 800 for i in range(256)], 384)
    for path in TINY.iterdir():
        if path.name not in ("config.json", "model.safetensors"):
            shutil.copyfile(path, model / path.name)
    (model / "config.json").write_text(json.dumps(MODELS[name]))
    job = {"version": 1, "name": name, "output_dir": str(folder / "runs"), "model": {"path": str(model)}, "adapter": {"type": "lora"},
           "data": {"train": [{"path": str(rows), "format": "tokens"}], "max_length": 1024}}
    path = folder / f"{name}.json"
    path.write_text(json.dumps(job))
    return path


def turn(forge: str, job: Path) -> tuple[float, float]:
    """Runs the plan; returns (wall seconds, processor seconds)."""
    began = time.monotonic()
    process = subprocess.Popen([forge, "plan", str(job), "--gpu", "H100", "--json"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    said = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    code = os.waitstatus_to_exitcode(status)
    if code not in (0, 4):  # 4: the job does not fit, which is a plan, too
        sys.exit(f"{job}: exit {code}\n{said.decode()}")
    return time.monotonic() - began, usage.ru_utime + usage.ru_stime


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--forge", required=True)
    parser.add_argument("--turns", type=int, default=21)
    parser.add_argument("--write", type=Path)
    args = parser.parse_args()
    lines = ["# forge plan from config.json alone", "", f"{datetime.date.today()}, {platform.machine()}, {os.cpu_count()} cores", "",
             "    python3 " + " ".join(["bench/time/plan_large.py", *sys.argv[1:]]), "",
             f"Of {args.turns} turns, in ms:", "", "| model | wall, median | wall, least | processor, median |", "|---|---:|---:|---:|"]
    medians = {}
    with tempfile.TemporaryDirectory() as temporary:
        for name in MODELS:
            job = write_job(Path(temporary), name)
            turn(args.forge, job)
            walls, processor = zip(*(turn(args.forge, job) for _ in range(args.turns)))
            medians[name] = statistics.median(walls)
            lines.append(f"| {name} | {1e3 * medians[name]:.0f} | {1e3 * min(walls):.0f} | {1e3 * statistics.median(processor):.0f} |")
            print(lines[-1], flush=True)
    if args.write:
        args.write.write_text("\n".join(lines) + "\n")
    return int(medians["llama-3.1-70b"] >= LIMIT)


if __name__ == "__main__":
    sys.exit(main())
