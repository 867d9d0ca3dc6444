"""Runs forge on jobs/smollm2-*.yaml and compares each run with the oracle. A few minutes on 2
cores.

    python tests/parity/run_smollm2.py build/bin/forge --gguf SmolLM2-135M-Instruct.gguf [--cache ...] [--output DIR]
        [--jobs smollm2-lora ...] [--set provider=reference]...
"""
import argparse
import subprocess
import sys
from pathlib import Path

import forge_run
import smollm2

HERE = Path(__file__).resolve().parent


def run_one(job: Path, args) -> bool:
    lora = "lora" in job.stem
    sets = [f"model.path={args.gguf}", f"output_dir={args.output}", *args.set]
    sets += [f"adapter.init_from={args.cache / 'adapter-init'}"] if lora else []
    forge_run.call(args.forge, "run", job, *(word for s in sets for word in ("--set", s)))
    run = args.output / job.stem
    rows = args.output / "first-rows.jsonl"
    rows.write_text("".join(smollm2.ROWS.read_text().splitlines(keepends=True)[: smollm2.ROWS_PER_STEP]))
    examples = args.output / f"{job.stem}-examples.jsonl"
    model, adapter = (args.gguf, run / "adapter") if lora else (run / "model", None)
    forge_run.per_example(args.forge, model, adapter, rows, examples)
    compare = [sys.executable, HERE / "compare_smollm2.py", run, "--cache", args.cache, "--per-example", examples]
    return subprocess.run(compare).returncode == 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("forge")
    parser.add_argument("--gguf", type=lambda p: Path(p).resolve(), required=True)
    parser.add_argument("--cache", type=lambda p: Path(p).resolve(), default=smollm2.CACHE)
    parser.add_argument("--output", type=lambda p: Path(p).resolve(), default=Path("runs/parity").resolve())
    parser.add_argument("--jobs", nargs="*", default=["smollm2-lora", "smollm2-lora-packed", "smollm2-full"])
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    args = parser.parse_args()
    args.output.mkdir(parents=True, exist_ok=True)
    good = [run_one(HERE / "jobs" / f"{name}.yaml", args) for name in args.jobs]
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
