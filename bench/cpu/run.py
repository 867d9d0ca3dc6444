"""The same LoRA job in forge and in transformers + peft, alternating in one run, on the CPU.

    python bench/cpu/run.py --gguf SmolLM2-135M-Instruct.gguf --forge build/bin/forge [--precision fp32 bf16]
        [--steps 8] [--rounds 3] [--provider auto] [--quantization nf4] [--dictd /usr/share/dictd] [--write bench/results]
        [--before OLDER/bin/forge]    # compares with an older forge instead of transformers + peft

The job: SmolLM2-135M-Instruct dequantised to fp32 safetensors, LoRA r16 all-linear, batch 8, no
activation checkpointing.
    equal            rows of 128 tokens: no padding anywhere, so only arithmetic is compared
    natural          natural lengths; the peer pads, forge runs with packing off
    natural, packed  natural lengths; the peer pads, forge packs
In each round every contestant of a setting runs once, in turn, so that a slow minute on a shared
machine affects all of them. A ratio is taken within a round; the table shows the median (min … max)
over rounds. Without --forge only the peer is measured.
"""
import argparse
import datetime
import json
import multiprocessing
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass, field
from pathlib import Path

import data
from contestants import WARM_UP_STEPS, Result, measure

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "tests" / "parity"))
import make_smollm2_goldens  # noqa: E402
import smollm2  # noqa: E402

BATCH = 8
# Setting -> (rows, contestants). "forge" never packs, "forge packed" does.
GROUPS = {"equal": ["peer", "forge"], "natural": ["peer", "forge", "forge packed"]}
OF_BOTH = {"equal": ["before", "forge"], "natural": ["before", "forge", "before packed", "forge packed"]}


@dataclass
class Table:
    results: dict = field(default_factory=dict)  # (precision, rows, contestant) -> [Result per round]

    def add(self, key: tuple, result: Result) -> None:
        self.results.setdefault(key, []).append(result)


def make_job(args, name: str, rows: Path, precision: str, packing: bool, folder: Path) -> dict:
    job = {
        "version": 1, "name": name, "seed": 1, "output_dir": str(folder / "runs"),
        "model": {"path": str(args.cache / "base")},
        "adapter": {"type": "lora", "rank": 16, "alpha": 32, "dropout": 0, "target_modules": "all-linear"},
        "objective": {"type": "sft", "train_on": "all"},
        "data": {"train": [{"path": str(rows), "format": "tokens"}], "shuffle": False, "packing": packing},
        "train": {"max_steps": args.steps, "global_batch_size": BATCH, "precision": precision, "max_grad_norm": 1.0,
                  "activation_checkpointing": "none", "threads": args.threads},
        "optimizer": {"type": "adamw", "learning_rate": 1e-3, "weight_decay": 0.0},
        "schedule": {"type": "linear"},
        "log": {"tensorboard": False}, "eval": {"samples": 0},  # the peer answers no prompts
        "hardware": {"device": "cpu"},
        "provider": args.provider,
    }
    if not packing:
        job["train"]["micro_batch_size"] = BATCH
    if args.quantization:
        job["model"] |= {"quantization": args.quantization, "double_quantization": True}
    if args.start:
        job["adapter"] = {"type": "lora", "init_from": str(args.start)}
    return job


def write_start(args, folder: Path) -> Path:
    """Writes one initialised adapter for all contestants, so that their losses can be compared."""
    args.start = None
    path = folder / "start.json"
    job = make_job(args, "start", path, "fp32", False, folder)
    job["model"] = {"path": str(args.cache / "base")}
    path.write_text(json.dumps(job))
    subprocess.run([sys.executable, HERE / "peer.py", path, "--start", folder / "start"], check=True, stdout=subprocess.DEVNULL)
    return folder / "start"


def run_contestant(args, contestant: str, rows: Path, precision: str, folder: Path, number: int) -> Result:
    name = f"{contestant.replace(' ', '-')}-{rows.stem}-{precision}-{number}"
    job = make_job(args, name, rows, precision, contestant.endswith(" packed"), folder)
    if contestant.startswith("before"):
        del job["eval"]  # the first versions answered no prompts and had no key for it
    path = folder / f"{name}.json"
    path.write_text(json.dumps(job, indent=1))
    if contestant == "peer":
        metrics = folder / f"{name}-metrics.jsonl"
        command = [sys.executable, str(HERE / "peer.py"), str(path), str(metrics)]
    else:
        metrics = folder / "runs" / name / "metrics.jsonl"
        command = [args.before if contestant.startswith("before") else args.forge, "run", str(path)]
    result = measure(command, metrics, folder / f"{name}.log")
    print(f"{precision} {rows.stem} {contestant}: {result.tokens_per_second:.1f} tokens/s, start "
          f"{result.start_up_seconds:.1f} s, peak {result.peak_rss_bytes / 2**20:.0f} MiB, "
          f"losses {result.losses[0]:.4f} … {result.losses[-1]:.4f}", flush=True)
    return result


def spread(values: list[float], digits: int = 2) -> str:
    low, middle, high = min(values), statistics.median(values), max(values)
    return f"{middle:.{digits}f} ({low:.{digits}f} … {high:.{digits}f})"


def measured_against(args, contestant: str) -> str:
    return contestant.replace("forge", "before") if args.before else "peer"


def rows_of_table(args, table: Table) -> list[str]:
    columns = ["precision", "rows", "contestant", "tokens/s", "ratio to older forge" if args.before else "ratio to peer", "peak RSS, MiB", "ratio", "start-up, s",
               "ratio", "first loss", "last loss"]
    measures = (("tokens_per_second", 1, 1), ("peak_rss_bytes", 2**-20, 0), ("start_up_seconds", 1, 2))
    lines = ["| " + " | ".join(columns) + " |", "|---" * len(columns) + "|"]
    for (precision, rows, contestant), results in table.results.items():
        against = measured_against(args, contestant)
        peers = table.results[(precision, rows, against)]
        cell = [precision, rows, "transformers + peft" if contestant == "peer" else contestant]
        for key, scale, digits in measures:
            cell.append(spread([getattr(r, key) * scale for r in results], digits))
            ratios = [getattr(a, key) / getattr(b, key) for a, b in zip(results, peers)]
            cell.append("" if contestant == against else spread(ratios))
        cell += [f"{results[0].losses[0]:.4f}", f"{results[0].losses[-1]:.4f}"]
        lines.append("| " + " | ".join(cell) + " |")
    return lines


def processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":")[1].strip()
    return platform.processor()


def has_bf16() -> bool:
    flags = Path("/proc/cpuinfo").read_text()
    return "avx512_bf16" in flags or "amx_bf16" in flags


def report(args, table: Table) -> str:
    import peft
    import torch
    import transformers

    forge = "not measured"
    if args.forge:
        forge = subprocess.run([args.forge, "--version"], capture_output=True, text=True).stdout.strip()
    lines = [
        f"# LoRA on the CPU, {datetime.date.today()}",
        "",
        f"{processor()}, {os.cpu_count()} processors, {args.threads} threads, bf16 instructions: "
        f"{'yes' if has_bf16() else 'no (bf16 is emulated and shown for completeness)'}. torch {torch.__version__}, "
        f"transformers {transformers.__version__}, peft {peft.__version__}; forge: {forge}, provider {args.provider}.",
        f"SmolLM2-135M-Instruct, {'QLoRA ' + args.quantization if args.quantization else 'LoRA'} r16 all-linear, batch {BATCH}, {args.steps} steps of which the first "
        f"{WARM_UP_STEPS} are not counted, {args.rounds} rounds, alternating. Real tokens only. Median (min … max); "
        "ratios are within a round, above 1 is more than the peer. Load at the end: "
        f"{os.getloadavg()[0]:.1f}.",
        "",
        "    python bench/cpu/" + " ".join([Path(sys.argv[0]).name, *sys.argv[1:]]).replace(str(Path.home()), "~"),
        "",
    ]
    return "\n".join(lines + rows_of_table(args, table)) + "\n"


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gguf", type=Path, required=True)
    parser.add_argument("--forge", help="forge; without it only the peer runs")
    parser.add_argument("--before", help="an older build of forge, compared instead of the peer")
    parser.add_argument("--provider", default="auto")
    parser.add_argument("--precision", nargs="+", default=["fp32", "bf16"] if has_bf16() else ["fp32"])
    parser.add_argument("--groups", nargs="+", default=list(GROUPS), choices=list(GROUPS))
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quantization", choices=["nf4", "fp4"], help="quantizes the frozen base, with double quantization; the peer uses bitsandbytes")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--dictd", type=Path, default=Path("/usr/share/dictd"))
    parser.add_argument("--cache", type=Path, default=smollm2.CACHE)
    parser.add_argument("--write", type=Path, help="folder for cpu-DATE.md and .json")
    args = parser.parse_args()
    if args.steps <= WARM_UP_STEPS:
        parser.error(f"--steps must be more than {WARM_UP_STEPS}, which are not counted")
    return args


def main() -> None:
    args = parse()
    args.cache.mkdir(parents=True, exist_ok=True)
    if args.write:
        args.write.mkdir(parents=True, exist_ok=True)
    # Runs in a process of its own: the peak memory that the system reports for a child starts at
    # the peak of the process that starts it.
    own = multiprocessing.get_context("spawn").Process(target=make_smollm2_goldens.dequantise, args=(args.gguf, args.cache / "base"))
    own.start()
    own.join()
    table = Table()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        files = data.write_rows(args.cache / "base", args.dictd, folder)
        args.start = write_start(args, folder)
        for precision in args.precision:
            for group in args.groups:
                names = OF_BOTH[group] if args.before else [c for c in GROUPS[group] if args.forge or c == "peer"]
                for number in range(args.rounds):
                    for contestant in names:
                        result = run_contestant(args, contestant, files[group], precision, folder, number)
                        table.add((precision, group, contestant), result)
    text = report(args, table)
    print(text)
    if args.write:
        stem = args.write / f"cpu-{'older-' if args.before else ''}{args.quantization + '-' if args.quantization else ''}{datetime.date.today()}"
        stem.with_suffix(".md").write_text(text)
        raw = [{"precision": p, "rows": r, "contestant": c, "rounds": [asdict(x) for x in results]}
               for (p, r, c), results in table.results.items()]
        stem.with_suffix(".json").write_text(json.dumps(raw, indent=1) + "\n")


if __name__ == "__main__":
    main()
