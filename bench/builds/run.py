#!/usr/bin/env python3
"""Compares the speed of two builds of forge in turns on the CPU: training, drawing, decoding, data,
plans, opening a model.

    python3 bench/builds/run.py BEFORE/bin/forge build/bin/forge [--only TEXT…] [--rounds 3] [--most 9]
        [--gguf SmolLM2-135M-Instruct.gguf] [--write bench/results/builds-DATE.md]

A cell is a job or a request with a rate. In each round both builds run it once, in turn, the second
one first in every other round; a ratio is taken within a round. A cell whose median ratio is below
0.98 gets more rounds, up to --most, before it counts. Training counts the fastest of the steps
after one of warm-up, since other work on the machine only slows steps. Exits 1 if a median is below
0.98. Standard library only.
"""
import argparse
import datetime
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
for folder in ("bench/data", "bench/load", "bench/memory", "bench/seq2seq", "bench/reinforce"):
    sys.path.insert(0, str(ROOT / folder))
import models  # noqa: E402

LOWEST, WARM_UP, STEPS = 0.98, 1, 5


def other(name: str, folder: str):
    """Returns the module run.py of another bench."""
    import importlib.util
    spec = importlib.util.spec_from_file_location(name, ROOT / "bench" / folder / "run.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Bench:
    def __init__(self, args, folder: Path):
        self.args, self.folder = args, folder
        self.base = {"version": 1, "name": "job", "output_dir": str(folder / "runs"), "model": {"path": str(args.gguf)},
                     "log": {"tensorboard": False}, "eval": {"samples": 0}, "hardware": {"device": "cpu"}}

    def run(self, forge: str, job: dict) -> list[dict]:
        """Runs a job and returns its events."""
        shutil.rmtree(self.folder / "runs", ignore_errors=True)
        path = self.folder / "job.json"
        path.write_text(json.dumps(self.base | job))
        done = subprocess.run([forge, "run", str(path), "--quiet"], capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"{forge} run {path}: {done.stderr[-600:]}")
        return [json.loads(line) for line in (self.folder / "runs" / "job" / "metrics.jsonl").read_text().splitlines()]

    def trained(self, job: dict):
        def rate(forge: str) -> float:
            steps = [event for event in self.run(forge, job) if event["event"] == "step"][WARM_UP:]
            return max(event["tokens_per_second"] for event in steps)
        return rate

    def drawn(self, job: dict, what: str):
        def rate(forge: str) -> float:
            events = self.run(forge, job)
            rollouts = [event for event in events if event["event"] == "rollout"][1:]
            if what == "draw":
                return max(event["sample_tokens_per_second"] for event in rollouts)
            steps = [event for event in events if event["event"] == "step"][1:]
            return max(step["tokens"] / rollout["train_seconds"] for step, rollout in zip(steps, rollouts))
        return rate

    def decoded(self, precision: str, texts: int):
        ids = [i for line in self.rows(200).read_text().splitlines() for i in json.loads(line)["input_ids"]]
        prompts = [ids[40 * i : 40 * i + 12 + (17 * i) % 29] for i in range(texts)]

        def rate(forge: str) -> float:
            request = {"command": "generate", "model": str(self.args.gguf), "adapter": None, "precision": precision, "provider": "fused",
                       "threads": os.cpu_count(), "prompts": prompts, "max_new_tokens": 48, "stop_ids": []}
            # An engine whose input ends stops, so it stays open until the last event.
            engine = subprocess.Popen([Path(forge).parent / "forge-engine"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            engine.stdin.write(json.dumps(request) + "\n")
            engine.stdin.flush()
            events = [json.loads(line) for line in engine.stdout]
            engine.wait()
            end = next((event for event in events if event["event"] == "done"), None)
            if end is None:
                sys.exit(f"{forge}: {events[-1:]}")
            return sum(len(e["ids"]) for e in events if e["event"] == "tokens") / (end["prompt_seconds"] + end["token_seconds"])
        return rate

    def command(self, *words: str):
        """Returns a rate of a whole process: runs a second."""
        def rate(forge: str) -> float:
            shutil.rmtree(self.folder / "runs", ignore_errors=True)  # and the token cache in it
            began = time.monotonic()
            done = subprocess.run([forge, *words], capture_output=True, text=True, cwd=self.folder)
            if done.returncode:
                sys.exit(f"{forge} {' '.join(words)}: {done.stdout[-600:]}{done.stderr[-600:]}")
            return 1 / (time.monotonic() - began)
        return rate

    def rows(self, count: int, length: int = 0) -> Path:
        path = self.folder / f"rows-{count}-{length}.jsonl"
        return path if path.exists() else models.write_rows(path, [length or 24 + 37 * i % 300 for i in range(count)], 40000)

    def cells(self):
        """Yields (name, function that makes the rate of a build)."""
        lora, full = {"type": "lora", "rank": 16}, {"type": "none"}
        tokens = {"objective": {"type": "sft", "train_on": "all"}}

        def train(precision, **more):
            return {"max_steps": STEPS, "global_batch_size": 4, "precision": precision, "activation_checkpointing": "none", **more}

        for precision in ("fp32", "bf16"):
            equal = {"data": {"train": [{"path": str(self.rows(64, 128)), "format": "tokens"}], "packing": False}, **tokens}
            packed = {"data": {"train": [{"path": str(self.rows(64)), "format": "tokens"}], "max_length": 512}, **tokens}
            yield f"train {precision}, lora, equal rows", lambda: self.trained({**equal, "adapter": lora, "train": train(precision)})
            yield f"train {precision}, lora, packed rows", lambda: self.trained({**packed, "adapter": lora, "train": train(precision)})
            yield f"train {precision}, lora, all computed again", lambda: self.trained({**packed, "adapter": lora, "train": train(precision, activation_checkpointing="full")})
            yield f"train {precision}, lora, reference", lambda: self.trained({**packed, "adapter": lora, "train": train(precision), "provider": "reference"})
            yield f"train {precision}, all weights", lambda: self.trained({**packed, "adapter": full, "train": train(precision)})
            nf4 = self.base["model"] | {"quantization": "nf4", "double_quantization": True}
            yield f"train {precision}, qlora nf4", lambda: self.trained({**packed, "adapter": lora, "train": train(precision), "model": nf4})
            pairs = self.folder / "pairs.jsonl"
            pairs.write_text("".join(json.dumps({"prompt": f"Say {i}.", "chosen": f"The number is {i}. " * 6, "rejected": f"No, not {i}. " * 8}) + "\n" for i in range(64)))
            yield f"train {precision}, dpo", lambda: self.trained({"adapter": lora, "objective": {"type": "dpo"}, "data": {"train": str(pairs)}, "train": train(precision)})
            draws = {"adapter": lora, "objective": {"type": "grpo"}, "data": {"train": str(ROOT / "examples" / "plain-questions.jsonl"), "max_length": 128},
                     "rollout": {"prompts_per_step": 4, "samples_per_prompt": 8, "max_new_tokens": 32},
                     "rewards": [{"type": "length", "max": 1, "slack": 400, "unit": "characters"}], "train": {"max_steps": 4, "precision": precision}}
            yield f"grpo {precision}, drawing", lambda: self.drawn(draws, "draw")
            yield f"grpo {precision}, training", lambda: self.drawn(draws, "train")
            for texts in (1, 8, 32):
                yield f"decode {precision}, {texts} texts", lambda: self.decoded(precision, texts)
            for kind in ("t5-small", "bart-base"):
                yield f"train {precision}, {kind}", lambda: self.seq2seq(kind, precision)
        yield "data, 16 MB of chats", self.data
        yield "plan, 70B", lambda: self.command("plan", "--gpu", "H100", "--quiet", "--json", self.plan_of("llama-70b"))
        yield "plan, mixture of 128 experts", lambda: self.command("plan", "--gpu", "H100", "--quiet", "--json", self.plan_of("qwen3-30b"))
        yield "open 2.2 GB, one token", self.opened

    def seq2seq(self, kind: str, precision: str):
        import material
        model = self.folder / kind
        if not model.exists():
            model.mkdir()
            material.write_model(kind, model, 1)
        rows = self.folder / "summaries.jsonl"
        rows.write_text("\n".join(json.dumps(row) for row in material.summary_rows(200, 1)))
        return self.trained({"model": {"path": str(model)}, "adapter": {"type": "lora"}, "data": {"train": [str(rows)]},
                             "train": {"max_steps": STEPS, "global_batch_size": 16, "precision": precision, "micro_batch_tokens": 2048}})

    def data(self):
        bench = other("data_bench", "data")
        rows = self.folder / "chats.jsonl"
        bench.write_file(rows, 16)
        (self.folder / "data.yaml").write_text(f"model: {{path: {self.args.gguf}}}\nadapter: lora\ndata: {{train: {rows}}}\n")
        return self.command("data", "data.yaml", "--prepare", "--quiet", "--json")

    def plan_of(self, name: str) -> str:
        config = {"llama-70b": {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 8192, "intermediate_size": 28672,
                                "num_hidden_layers": 80, "num_attention_heads": 64, "num_key_value_heads": 8, "vocab_size": 32000,
                                "max_position_embeddings": 4096, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "hidden_act": "silu"},
                  "qwen3-30b": {"architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe", "hidden_size": 2048, "intermediate_size": 6144,
                                "moe_intermediate_size": 768, "num_hidden_layers": 48, "num_attention_heads": 32, "num_key_value_heads": 4,
                                "head_dim": 128, "num_experts": 128, "num_experts_per_tok": 8, "norm_topk_prob": True, "decoder_sparse_step": 1,
                                "mlp_only_layers": [], "vocab_size": 32000, "max_position_embeddings": 40960, "rms_norm_eps": 1e-6,
                                "rope_theta": 1000000.0, "hidden_act": "silu", "tie_word_embeddings": False}}[name]
        model = self.folder / name
        model.mkdir(exist_ok=True)
        tiny = ROOT / "tests" / "fixtures" / "tiny-llama"
        for path in tiny.iterdir():
            if path.name not in ("config.json", "model.safetensors"):
                shutil.copy(path, model)
        (model / "config.json").write_text(json.dumps(config))
        job = self.folder / f"{name}.json"
        job.write_text(json.dumps(self.base | {"model": {"path": str(model), "quantization": "nf4"}, "adapter": {"type": "lora"}, "hardware": {},
                                               "data": {"train": [{"path": str(models.write_rows(self.folder / "few.jsonl", [200] * 64, 380)), "format": "tokens"}]},
                                               "objective": {"type": "sft", "train_on": "all"}}))
        return str(job)

    def opened(self):
        model = self.folder / "large"
        if not model.exists():
            other("load_bench", "load").write_model(model)
        return self.command("generate", "--model", str(model), "--prompt", "a", "--max-new-tokens", "1", "--precision", "bf16", "--quiet")


def processor() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    flags = next(line for line in lines if line.startswith("flags")).split()
    has = [word for word, flag in (("AMX", "amx_bf16"), ("AVX512-BF16", "avx512_bf16"), ("AVX-512", "avx512f")) if flag in flags]
    return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")) + f" ({', '.join(has)}), {os.cpu_count()} cores"


def compare(args, rate) -> tuple[list[float], float]:
    """Returns the ratios of all rounds, and the last rate of the second build."""
    ratios, rates = [], {}
    while len(ratios) < args.rounds or (statistics.median(ratios) < LOWEST and len(ratios) < args.most):
        order = [args.before, args.after]
        for forge in order if len(ratios) % 2 == 0 else reversed(order):
            rates[forge] = rate(forge)
        ratios.append(rates[args.after] / rates[args.before])
    return ratios, rates[args.after]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before")
    parser.add_argument("after")
    parser.add_argument("--only", nargs="+", default=[""], help="cells whose name contains one of these texts")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--most", type=int, default=9)
    parser.add_argument("--gguf", type=Path, default=Path.home() / ".cache/forge/models/SmolLM2-135M-Instruct.gguf")
    parser.add_argument("--write", type=Path)
    args = parser.parse_args()
    args.before, args.after = os.path.abspath(args.before), os.path.abspath(args.after)
    lines = [f"# Two builds in turns, {datetime.date.today()}", "", f"{processor()}. Rates of the second build over the first's: median (lowest to highest) over",
             "rounds. `python3 bench/builds/run.py BEFORE AFTER`", "", "| cell | ratio | rounds | rate |", "|---|---:|---:|---:|"]
    slow = []
    with tempfile.TemporaryDirectory(prefix="forge-builds-") as folder:
        bench = Bench(args, Path(folder))
        for name, make in bench.cells():
            if not any(text in name for text in args.only):
                continue
            ratios, last = compare(args, make())
            middle = statistics.median(ratios)
            lines.append(f"| {name} | {middle:.3f} ({min(ratios):.3f} to {max(ratios):.3f}) | {len(ratios)} | {last:.4g} |")
            print(lines[-1], flush=True)
            if middle < LOWEST:
                slow.append(name)
    if args.write:
        args.write.write_text("\n".join(lines) + "\n")
    print(f"below {LOWEST}: " + (", ".join(slow) or "none"))
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main())
