"""Trains, times and decodes models of real shapes with random weights by forge. Standard library
only.

    training.py weights SHAPE          config.json, model.safetensors and the tiny model's tokenizer
    training.py repeated SHAPE         LoRA 20 steps twice, and killed and resumed: are the bytes equal? Peaks beside the plan
    training.py deterministic SHAPE    the same with train.deterministic, where they must be
    training.py bench SHAPE SETTING    forge bench: tokens/s, peaks; ops: op by op, too, by events on the GPU
    training.py gate SHAPE             losses of a base in fp8 beside its own
    training.py decode SHAPE ROWS      forge generate, ROWS prompts at once"""
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import kit

sys.path.insert(0, str(kit.KIT / "bench/memory"))
import models  # noqa: E402

LLAMA3 = dict(vocab_size=128256, rope_theta=500000.0, max_position_embeddings=131072)
# For a model with fewer layers than the real one, times are per layer.
SHAPES = {
    "smollm2": dict(vocab_size=49152, hidden_size=576, intermediate_size=1536, num_hidden_layers=30, num_attention_heads=9,
                    num_key_value_heads=3, tie_word_embeddings=True, rope_theta=100000.0),
    "1b": LLAMA3 | dict(hidden_size=2048, intermediate_size=8192, num_hidden_layers=16, num_attention_heads=32, num_key_value_heads=8,
                        tie_word_embeddings=True),
    "8b": LLAMA3 | dict(hidden_size=4096, intermediate_size=14336, num_hidden_layers=32, num_attention_heads=32, num_key_value_heads=8,
                        tie_word_embeddings=False),
    "gemma2-9b": dict(vocab_size=256000, hidden_size=3584, intermediate_size=14336, num_hidden_layers=14, num_attention_heads=16,
                      num_key_value_heads=8, head_dim=256, tie_word_embeddings=True, architectures=["Gemma2ForCausalLM"], model_type="gemma2",
                      hidden_act="gelu_pytorch_tanh", sliding_window=4096, query_pre_attn_scalar=256, attn_logit_softcapping=50.0,
                      final_logit_softcapping=30.0),
    "qwen3-30b-a3b": dict(vocab_size=151936, hidden_size=2048, intermediate_size=6144, moe_intermediate_size=768, num_hidden_layers=8,
                          num_attention_heads=32, num_key_value_heads=4, head_dim=128, tie_word_embeddings=False,
                          architectures=["Qwen3MoeForCausalLM"], model_type="qwen3_moe", num_experts=128, num_experts_per_tok=8,
                          norm_topk_prob=True, decoder_sparse_step=1, mlp_only_layers=[], rope_theta=1000000.0),
}
LORA = {"type": "lora", "rank": 16, "alpha": 32, "dropout": 0, "target_modules": "all-linear"}
WHOLE = {"type": "none"}
TOKENIZER_VOCABULARY = 384  # the tiny model's
TOKENS = 8192  # per step, which is one micro-batch; as in baseline.py


def setting(length: int, adapter: dict = LORA, train: dict | None = None, **more) -> tuple[int, dict]:
    return length, {"adapter": adapter, "train": train or {}} | more


SETTINGS = {
    "lora": setting(4096),
    "qlora": setting(2048, model={"quantization": "nf4", "double_quantization": True}),
    "fp8": setting(4096, model={"quantization": "fp8"}),
    "lora-recomputed": setting(4096, train={"activation_checkpointing": "full", "activation_offloading": "none"}),
    "activations-host": setting(4096, train={"activation_checkpointing": "full", "activation_offloading": "host"}),
    "long": setting(32768, train={"activation_checkpointing": "full"}),
    "full": setting(2048, WHOLE, optimizer={"offload": "none"}),
    "full-host": setting(2048, WHOLE, optimizer={"offload": "host"}),
    "full-8bit": setting(2048, WHOLE, optimizer={"type": "adamw_8bit"}),
}


def rehearsed(size: dict) -> dict:
    """Returns the shape shrunk for a machine without a GPU: two layers, a quarter of the heads, a
    small vocabulary.
    """
    fewer = {key: max(2, size[key] // 4) for key in ("num_attention_heads", "num_experts") if key in size and size[key] % 4 == 0}
    if "num_attention_heads" in fewer:
        fewer |= {key: size[key] // 4 for key in ("hidden_size", "intermediate_size", "num_key_value_heads")}
    return size | fewer | {"num_hidden_layers": 2, "vocab_size": 4096}


def size_of(shape: str) -> dict:
    return rehearsed(SHAPES[shape]) if kit.REHEARSAL else SHAPES[shape]


def folder_of(shape: str) -> Path:
    folder = kit.WORK / "models" / shape
    if not (folder / "whole").exists():
        raise kit.Failed(f"the weights of {shape} are not here: their own step makes them")
    return folder


def weights(shape: str) -> None:
    folder, size = kit.WORK / "models" / shape, size_of(shape)
    shutil.rmtree(folder, ignore_errors=True)
    wanted = 2 * sum(map(models.count, models.shapes(size).values()))
    free = shutil.disk_usage(kit.WORK).free
    if free < wanted + (2 << 30):
        raise kit.Failed(f"{kit.WORK} has {free >> 30} GiB free, and the weights take {wanted >> 30}: name a larger disk with --work")
    begin = time.monotonic()
    models.write_model(folder, size, kit.KIT / "tests/fixtures/tiny-llama", bf16=True)
    (folder / "whole").touch()
    kit.figure(shape=shape, parameters=wanted // 2, seconds=round(time.monotonic() - begin, 1))


def rows(lengths: list[int], name: str) -> Path:
    """Writes rows of random tokens, all trained. Ids are the tokenizer's, which are few; products
    take equally long.
    """
    path = kit.WORK / "rows" / f"{name}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    draw = random.Random(2)
    path.write_text("".join(json.dumps({"input_ids": [draw.randrange(TOKENIZER_VOCABULARY) for _ in range(length)]}) + "\n" for length in lengths))
    return path


def job(name: str, shape: str, data: Path, length: int, sections: dict) -> dict:
    base = {
        "version": 1, "name": name, "seed": 1, "output_dir": str(kit.WORK / "runs"), "model": {"path": str(folder_of(shape))},
        "objective": {"type": "sft", "train_on": "all"},
        "data": {"train": [{"path": str(data), "format": "tokens"}], "max_length": length},
        "train": {}, "optimizer": {"type": "adamw", "learning_rate": 1e-4}, "schedule": {"type": "constant"},
        "hardware": {"device": kit.DEVICE},
    }
    for key, value in sections.items():
        base[key] = base.get(key, {}) | value
    return base


class CardMemory:
    """A with block's peak of the card's used memory as nvidia-smi reports it, less the use before.
    """

    def __enter__(self) -> "CardMemory":
        self.before, self.peak, self.stop = self.used(), None, threading.Event()
        self.thread = threading.Thread(target=self.watch, daemon=True)
        self.thread.start()
        return self

    def __exit__(self, *_) -> None:
        self.stop.set()
        self.thread.join()

    @staticmethod
    def used() -> int | None:
        try:
            asked = ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits", "--id=0"]
            return int(subprocess.run(asked, capture_output=True, text=True, check=True, timeout=10).stdout) << 20
        except (OSError, ValueError, subprocess.SubprocessError):
            return None

    def watch(self) -> None:
        while not self.stop.wait(0.3):
            if (used := self.used()) is not None and self.before is not None:
                self.peak = max(self.peak or 0, used - self.before)


def written(run: Path) -> dict:
    """Returns the bytes of the result's files, without checkpoints."""
    return {str(p.relative_to(run)): p.read_bytes() for p in sorted(run.rglob("*.safetensors")) if "checkpoints" not in p.parts}


def killed_and_resumed(asked: dict) -> Path:
    """Kills the run after its first checkpoint, then runs it again."""
    run, process = Path(asked["output_dir"]) / asked["name"], kit.start("run", kit.write_job(asked, kit.WORK / "jobs"), start_new_session=True)
    while process.poll() is None and not list(run.glob("checkpoints/step-*")):
        time.sleep(0.01)
    if process.poll() is not None:
        raise kit.Failed(f"the run ended with exit {process.returncode} before it could be killed: {process.stderr.read()[-1500:]}")
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    time.sleep(1)  # its engine ends as well
    return kit.run_job(asked, kit.WORK / "jobs")


def repeated(shape: str, deterministic: bool) -> None:
    draw = random.Random(5)
    data = rows([draw.randrange(64, 512) for _ in range(160)], "short")
    name = f"{shape}-{'deterministic' if deterministic else 'repeated'}"
    sections = {"adapter": LORA, "train": {"max_steps": 20, "global_batch_size": 8, "deterministic": deterministic}, "checkpoint": {"every_steps": 10}}
    jobs = [job(f"{name}-{part}", shape, data, 512, sections) for part in ("one", "two", "resumed")]
    for asked in jobs:
        shutil.rmtree(Path(asked["output_dir"]) / asked["name"], ignore_errors=True)
    with CardMemory() as card:
        begin = time.monotonic()
        one = kit.run_job(jobs[0], kit.WORK / "jobs")
        seconds = time.monotonic() - begin
    report, plan = (json.loads((one / f"{file}.json").read_text()) for file in ("report", "plan"))
    memory = report["memory"]
    kit.figure(run_seconds=round(seconds, 1), predicted_peak_bytes=memory["predicted_peak_bytes"], measured_peak_bytes=memory["measured_peak_bytes"],
               card_peak_bytes=card.peak, available_bytes=plan["memory"]["available_bytes"])
    kit.check("peak of the allocator, of the plan's", memory["measured_peak_bytes"] / memory["predicted_peak_bytes"], 1.01, always=True)
    two, resumed = kit.run_job(jobs[1], kit.WORK / "jobs"), killed_and_resumed(jobs[2])
    for what, run in (("twice", two), ("resumed", resumed)):
        differ = [path for path, content in written(one).items() if written(run).get(path) != content]
        if deterministic:
            kit.check(f"files whose bytes differ, {what}", len(differ), 0, of=len(written(one)))
        else:
            kit.figure(compared=what, files=len(written(one)), files_that_differ=differ)


def bench(shape: str, name: str, ops: bool) -> None:
    length, sections = SETTINGS[name]
    if kit.REHEARSAL:
        length //= 8
    count = max(1, TOKENS // length)
    data = rows([length] * 2 * count, str(length))
    train = {"global_batch_size": count, "micro_batch_size": count}
    asked = job(f"{shape}-{name}", shape, data, length, sections | {"train": train | sections["train"]})
    file = kit.write_job(asked, kit.WORK / "jobs")
    kit.figure(planned=[line for line in kit.forge("plan", file).splitlines() if line.startswith("Speed:") or "predicted peak" in line])
    trace = kit.WORK / f"trace-{shape}-{name}.json"
    with CardMemory() as card:
        said = kit.forge("bench", file, "--json", "--steps", "6", "--seconds", "25",
                         *(["--ops", "--trace", trace] if ops else []))
    point = json.loads(said)["points"][0]
    if "refused" in point:
        raise kit.Failed(point["refused"])
    kit.figure(shape=shape, setting=name, layers=size_of(shape)["num_hidden_layers"], length=length, card_peak_bytes=card.peak,
               **{key: value for key, value in point.items() if key not in ("name", "set")})
    if ops:
        kit.check("shares of ops, less 1", abs(sum(op["share"] for op in point["ops"]) - 1), 1e-3, always=True)
        events = [event for event in json.loads(trace.read_text())["traceEvents"] if event["name"] != "step"]
        kit.figure(trace=len(events), longest=sorted(([e["name"], round(e["dur"], 1), e["args"].get("module", "")] for e in events),
                                                     key=lambda e: -e[1])[:20])


def gate(shape: str) -> None:
    length, sections = SETTINGS["fp8"]
    data = rows([length // (8 if kit.REHEARSAL else 1)] * 4, "gate")
    asked = job(f"{shape}-gate", shape, data, length, sections | {"train": {"max_steps": 2, "global_batch_size": 2}, "model": {"quantization": "fp8", "fp8_tolerance": 1}})
    shutil.rmtree(Path(asked["output_dir"]) / asked["name"], ignore_errors=True)
    run = kit.run_job(asked, kit.WORK / "jobs")
    events = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    kit.figure(gate=[event for event in events if event["event"] == "fp8_gate"], steps=[event for event in events if event["event"] == "step"])


def decode(shape: str, count: int) -> None:
    prompts = kit.WORK / f"prompts-{count}.txt"
    prompts.write_text("".join(f"What is {i} and {7 * i}?\n" for i in range(count)))
    times, tokens = [], []
    for most in (4, 8) if kit.REHEARSAL else (16, 80):  # the difference of both times leaves out starting and loading
        begin = time.monotonic()
        said = kit.forge("generate", "--model", folder_of(shape), "--device", kit.DEVICE, "--precision", "bf16", "--prompts", prompts,
                         "--max-new-tokens", most, "--raw", "--json")
        times.append(time.monotonic() - begin)
        tokens.append(sum(json.loads(line)["tokens"] for line in said.splitlines()))
    kit.figure(shape=shape, prompts=count, seconds=[round(t, 2) for t in times], tokens=tokens,
               tokens_per_second=round((tokens[1] - tokens[0]) / max(times[1] - times[0], 1e-9), 1))


def main(verb: str, shape: str, *words: str) -> None:
    if verb == "weights":
        weights(shape)
    elif verb in ("repeated", "deterministic"):
        repeated(shape, verb == "deterministic")
    elif verb in ("bench", "ops"):
        bench(shape, words[0], verb == "ops")
    elif verb == "gate":
        gate(shape)
    else:
        decode(shape, int(words[0]))
    kit.leave()


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except kit.Failed as failure:
        sys.exit(str(failure))
