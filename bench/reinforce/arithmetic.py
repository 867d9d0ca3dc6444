#!/usr/bin/env python3
"""A tiny model learns single-digit sums from rewards alone, over several seeds. Standard library only.

    python3 bench/reinforce/arithmetic.py build/bin/forge [--seeds 3] [--objectives grpo dapo] [--set KEY=VALUE]
        [--out results.json] [--keep DIR]

A random Llama of two layers and width 64 over the characters of "3+4=7" is first trained on sums of which half have a wrong
answer, then by reinforcement on the sums that are not held out, with `exact` as the only reward. What counts is how many of
the held-out sums it answers greedily, at some point of the steps: 20 sums are held out, so that one is 5 %. --set changes the policy's
job, a value as JSON. Prints a line a run and "N reached 90 %".
"""
import argparse
import json
import random
import shutil
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

LAYERS, WIDTH, INNER, HEADS = 2, 64, 192, 4
CHARACTERS = ["<pad>", "<bos>", "<eos>", *"0123456789+="]
WANTED = 0.9


def write_model(folder: Path, seed: int) -> None:
    folder.mkdir(parents=True)
    vocab = {text: i for i, text in enumerate(CHARACTERS)}
    special = [{"id": i, "content": CHARACTERS[i], "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
                "special": True} for i in range(3)]
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    (folder / "tokenizer.json").write_text(json.dumps({
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": special, "normalizer": None, "pre_tokenizer": level,
        "post_processor": None, "decoder": level,
        "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None, "end_of_word_suffix": None,
                  "fuse_unk": False, "byte_fallback": False, "ignore_merges": False, "vocab": vocab, "merges": []}}))
    (folder / "tokenizer_config.json").write_text(json.dumps({
        "bos_token": "<bos>", "eos_token": "<eos>", "pad_token": "<pad>", "model_max_length": 64,
        "tokenizer_class": "PreTrainedTokenizerFast"}))
    (folder / "config.json").write_text(json.dumps({
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": WIDTH, "intermediate_size": INNER,
        "num_hidden_layers": LAYERS, "num_attention_heads": HEADS, "num_key_value_heads": HEADS, "head_dim": WIDTH // HEADS,
        "vocab_size": len(CHARACTERS), "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
        "hidden_act": "silu", "tie_word_embeddings": False, "bos_token_id": 1, "eos_token_id": 2, "dtype": "float32",
        "attention_bias": False, "mlp_bias": False}))
    shapes = {"model.embed_tokens.weight": (len(CHARACTERS), WIDTH), "lm_head.weight": (len(CHARACTERS), WIDTH),
              "model.norm.weight": (WIDTH,)}
    for i in range(LAYERS):
        at = f"model.layers.{i}."
        shapes |= {at + f"self_attn.{n}_proj.weight": (WIDTH, WIDTH) for n in "qkvo"}
        shapes |= {at + "mlp.gate_proj.weight": (INNER, WIDTH), at + "mlp.up_proj.weight": (INNER, WIDTH),
                   at + "mlp.down_proj.weight": (WIDTH, INNER), at + "input_layernorm.weight": (WIDTH,),
                   at + "post_attention_layernorm.weight": (WIDTH,)}
    draw = random.Random(seed)
    header, body = {}, b""
    for name, shape in shapes.items():
        count = shape[0] * (shape[1] if len(shape) > 1 else 1)
        values = [1.0] * count if len(shape) == 1 else [draw.gauss(0, 0.08) for _ in range(count)]
        data = struct.pack(f"<{count}f", *values)
        header[name] = {"dtype": "F32", "shape": list(shape), "data_offsets": [len(body), len(body) + len(data)]}
        body += data
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + body)


def write_rows(folder: Path, seed: int) -> None:
    draw = random.Random(seed)
    sums = [(a, b) for a in range(10) for b in range(10)]
    draw.shuffle(sums)
    rows = [{"prompt": f"{a}+{b}=", "answer": str(a + b)} for a, b in sums]
    (folder / "held_out.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows[:20]))
    (folder / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows[20:]))
    noisy = []
    for _ in range(12):
        for row in rows:
            wrong = draw.random() < 0.5
            noisy.append({"prompt": row["prompt"], "completion": str(draw.randrange(19)) if wrong else row["answer"]})
    draw.shuffle(noisy)
    (folder / "noisy.jsonl").write_text("".join(json.dumps(row) + "\n" for row in noisy))


def run(forge: str, folder: Path, name: str, job: dict) -> Path:
    path = folder / f"{name}.json"
    path.write_text(json.dumps({"version": 1, "name": name, "output_dir": str(folder / "runs"), **job}, indent=1))
    done = subprocess.run([forge, "run", str(path), "--quiet"], capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{path}: exit {done.returncode}\n{done.stdout}{done.stderr}")
    return folder / "runs" / name


def events(folder: Path, kind: str) -> list:
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    return [event for event in map(json.loads, lines) if event["event"] == kind]


def changed(job: dict, settings: list) -> dict:
    for setting in settings:
        key, _, value = setting.partition("=")
        *path, last = key.split(".")
        place = job
        for part in path:
            place = place.setdefault(part, {})
        place[last] = json.loads(value)
    return job


def learn(forge: str, folder: Path, objective: str, seed: int, steps: int, settings: list) -> dict:
    write_model(folder / "model", seed)
    write_rows(folder, seed)
    common = {"seed": seed, "adapter": {"type": "none"}, "hardware": {"device": "cpu"}, "log": {"tensorboard": False}}
    sft = run(forge, folder, "sft", {
        **common, "model": {"path": str(folder / "model")}, "objective": "sft", "data": {"train": str(folder / "noisy.jsonl"), "max_length": 16},
        "train": {"epochs": 9, "global_batch_size": 64, "precision": "fp32", "threads": 1},
        "optimizer": {"learning_rate": 3e-3}, "eval": {"samples": 0}})
    policy = run(forge, folder, objective, changed({
        **common, "model": {"path": str(sft / "model")}, "objective": {"type": objective},
        "data": {"train": str(folder / "train.jsonl"), "eval": str(folder / "held_out.jsonl"), "max_length": 16},
        "rollout": {"prompts_per_step": 16, "samples_per_prompt": 8, "max_new_tokens": 3}, "rewards": [{"type": "exact"}],
        "train": {"max_steps": steps, "precision": "fp32", "threads": 1}, "optimizer": {"learning_rate": 2e-4, "weight_decay": 0.1},
        "schedule": {"type": "constant"}, "eval": {"at_start": True, "every_steps": 20, "prompts": 20}, "checkpoint": {"keep_best": 0}}, settings))
    rollouts, evals = events(policy, "rollout"), events(policy, "eval")
    return {"objective": objective, "seed": seed, "held_out": [[e["step"], e["eval_reward"]] for e in evals],
            "reward": [[e["step"], round(e["reward"], 4)] for e in rollouts if e["reward"] is not None],  # null: no group was kept
            "flat_share": [[e["step"], round(e["flat_groups"] / max(1, e["groups"]), 4)] for e in rollouts],
            "seconds": round(json.loads((policy / "report.json").read_text())["seconds"], 1)}


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("forge")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--objectives", nargs="+", default=["grpo"])
    parser.add_argument("--set", action="append", default=[], help="KEY=VALUE of the policy's job")
    parser.add_argument("--out")
    parser.add_argument("--keep")
    args = parser.parse_args()
    root = Path(args.keep or tempfile.mkdtemp(prefix="forge-arithmetic-"))
    results = []
    for objective in args.objectives:
        for seed in range(1, args.seeds + 1):
            result = learn(args.forge, root / f"{objective}-{seed}", objective, seed, args.steps, args.set)
            results.append(result)
            best = max(value for _, value in result["held_out"])
            print(f"{objective} seed {seed}: held out {result['held_out'][0][1]:.2f} -> {result['held_out'][-1][1]:.2f} (best {best:.2f}), "
                  f"reward {result['reward'][0][1]:.2f} -> {result['reward'][-1][1]:.2f}, {result['seconds']} s", flush=True)
    reached = sum(max(value for _, value in result["held_out"]) >= WANTED for result in results)
    print(f"{reached} of {len(results)} reached {WANTED:.0%}")
    if args.out:
        Path(args.out).write_text(json.dumps(results, indent=1) + "\n")
    if not args.keep:
        shutil.rmtree(root)
    return 0 if reached == len(results) else 1


if __name__ == "__main__":
    sys.exit(main())
