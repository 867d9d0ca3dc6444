"""Times forge opening a model of 2 GB, beside reading its file. Standard library only.

    python3 bench/load/run.py --forge build/bin/forge [--folder /tmp] [--rounds 3] [--write bench/results/load-DATE.md]

Writes TinyLlama-1.1B's shape with random weights in bf16 (2.2 GB of safetensors) into a temporary
folder. Each round runs three things, each with the file out of the page cache: reading the file
from end to end, one token of `forge generate`, and `forge run` with one step of LoRA, the last two
in bf16 as the file is. They run once more with the file in the cache, which shows the cost of
opening itself. Peak is the highest resident set of any process of the command, which includes
mapped pages of the file, over the size of the file.
"""
import argparse
import datetime
import json
import os
import random
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TINY = ROOT / "tests" / "fixtures" / "tiny-llama"
HIDDEN, INNER, LAYERS, HEADS, KV_HEADS, VOCABULARY = 2048, 5632, 22, 32, 4, 32000
BLOCK = 1 << 22  # bytes, drawn once and repeated from another offset each time


def shapes() -> dict:
    kv = HIDDEN // HEADS * KV_HEADS
    found = {"model.embed_tokens.weight": (VOCABULARY, HIDDEN), "model.norm.weight": (HIDDEN,), "lm_head.weight": (VOCABULARY, HIDDEN)}
    for layer in range(LAYERS):
        at = f"model.layers.{layer}."
        found |= {at + "input_layernorm.weight": (HIDDEN,), at + "post_attention_layernorm.weight": (HIDDEN,)}
        for name, out, width in (("self_attn.q_proj", HIDDEN, HIDDEN), ("self_attn.k_proj", kv, HIDDEN), ("self_attn.v_proj", kv, HIDDEN),
                                 ("self_attn.o_proj", HIDDEN, HIDDEN), ("mlp.gate_proj", INNER, HIDDEN), ("mlp.up_proj", INNER, HIDDEN),
                                 ("mlp.down_proj", HIDDEN, INNER)):
            found[f"{at}{name}.weight"] = (out, width)
    return found


def write_model(folder: Path) -> Path:
    folder.mkdir()
    config = json.loads((TINY / "config.json").read_text())
    config |= {"hidden_size": HIDDEN, "intermediate_size": INNER, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS,
               "num_key_value_heads": KV_HEADS, "head_dim": HIDDEN // HEADS, "vocab_size": VOCABULARY, "tie_word_embeddings": False,
               "max_position_embeddings": 2048, "torch_dtype": "bfloat16"}
    (folder / "config.json").write_text(json.dumps(config, indent=1))
    for path in TINY.iterdir():
        if path.name not in ("config.json", "model.safetensors"):
            (folder / path.name).write_bytes(path.read_bytes())
    draw = random.Random(1)
    # Signs and fractions are random; the exponents keep numbers between 2^-7 and 2^-6.
    numbers = bytearray(draw.randbytes(BLOCK))
    for i in range(1, BLOCK, 2):
        numbers[i] = numbers[i] & 0x80 | 0x3C
    header, offset = {}, 0
    for name, shape in shapes().items():
        size = 2 * shape[0] * (shape[1] if len(shape) > 1 else 1)
        header[name] = {"dtype": "BF16", "shape": list(shape), "data_offsets": [offset, offset + size]}
        offset += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(folder / "model.safetensors", "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for tensor in header.values():
            left = tensor["data_offsets"][1] - tensor["data_offsets"][0]
            while left > 0:
                begin = 2 * draw.randrange(BLOCK // 4)
                left -= file.write(numbers[begin : begin + min(left, BLOCK // 2)])
        os.fsync(file.fileno())
    return folder


def forget(path: Path) -> None:
    """Drops the file from the page cache, apart from dirty pages."""
    with open(path, "rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def read(path: Path) -> float:
    begin = time.perf_counter()
    with open(path, "rb", buffering=0) as file:
        block = bytearray(8 << 20)
        while file.readinto(block):
            pass
    return time.perf_counter() - begin


def run(command: list) -> tuple[float, int, int]:
    """Returns (seconds, highest resident bytes of one of its processes, bytes read from the disk).
    """
    begin = time.perf_counter()
    process = subprocess.Popen([str(part) for part in command], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    said = process.stderr.read().decode()
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - begin
    if status != 0:
        sys.exit(f"{' '.join(map(str, command))}\n{said}")
    return seconds, usage.ru_maxrss * 1024, usage.ru_inblock * 512


def job(model: Path, folder: Path) -> Path:
    rows = folder / "rows.jsonl"
    rows.write_text("".join(json.dumps({"ids": list(range(3, 19))}) + "\n" for _ in range(2)))
    path = folder / "job.json"
    path.write_text(json.dumps({
        "version": 1, "name": "load", "output_dir": str(folder / "runs"), "model": {"path": str(model)},
        "adapter": {"type": "lora", "rank": 4, "target_modules": ["q_proj"]}, "objective": {"type": "sft", "train_on": "all"},
        "data": {"train": [{"path": str(rows), "format": "tokens"}]},
        "train": {"max_steps": 1, "global_batch_size": 2, "precision": "bf16"}, "eval": {"samples": 0}, "hardware": {"device": "cpu"}}))
    return path


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--forge", required=True, type=Path)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--write", type=Path)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=args.folder) as name:
        folder = Path(name)
        model = write_model(folder / "model")
        file = model / "model.safetensors"
        size = file.stat().st_size
        job_file = job(model, folder)
        generate = [args.forge, "generate", "--model", model, "--prompt", "a", "--max-new-tokens", "1", "--precision", "bf16"]
        commands = {"plan": [args.forge, "plan", job_file], "generate, one token": generate,
                    "run, one step": [args.forge, "run", job_file, "--fresh", "--quiet"]}
        seen: dict = {}
        for state in ("cold", "cached"):
            for _ in range(args.rounds):
                forget(file) if state == "cold" else read(file)
                seen.setdefault(("reading", state), []).append((read(file), 0, 0))
                for what, command in commands.items():
                    forget(file) if state == "cold" else read(file)
                    seen.setdefault((what, state), []).append(run(command))
        processor = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), "")
        lines = [f"# A model of {size / 1e9:.2f} GB opened", "",
                 f"{datetime.date.today()}, {processor}, {os.cpu_count()} processors; `python3 bench/load/run.py`, median of {args.rounds} rounds.", "",
                 "| what | file | s | over reading it | peak | over the file's size | read from the disk |", "|---|---|---|---|---|---|---|"]
        for (what, state), runs in seen.items():
            seconds, peak = statistics.median(r[0] for r in runs), max(r[1] for r in runs)
            plain = statistics.median(r[0] for r in seen["reading", state])
            memory = f"{peak / 1e9:.2f} GB | {peak / size:.2f} | {max(r[2] for r in runs) / 1e9:.2f} GB" if peak else " | | "
            lines.append(f"| {what} | {state} | {seconds:.2f} | {seconds / plain:.2f} | {memory} |")
        text = "\n".join(lines) + "\n"
        print(text)
        if args.write:
            args.write.write_text(text)
        shutil.rmtree(folder / "runs", ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
