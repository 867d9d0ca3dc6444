"""Greedy decoding of many prompts at once by forge, transformers' generate and llama.cpp, in turns
in one run, on the CPU.

    python bench/decode/run.py --gguf SmolLM2-135M-Instruct.gguf --engine build/bin/forge-engine [--batches 1 8 32]
        [--tokens 64] [--precision fp32 bf16 q8_0 q4_0 …] [--rounds 3] [--threads N] [--llama libllama.so] [--write bench/results]

The weights are those of the GGUF, dequantised. llama.cpp reads a GGUF of the precision, which forge
exports, and gets the prompts in batches. For a block type forge reads the same GGUF and computes in
--compute; transformers, which reads no block types, has the dequantised weights in that type.
Prompts are pieces of a text of 12 to 60 tokens; transformers pads them on the left.

All read the prompts and decode `tokens` tokens, also past the end of an answer. A rate is new
tokens over the time of both parts, without loading. Ratios are taken within a round; the table
shows the median (min … max). In fp32 the tokens must be the same, unless two of transformers'
logits lie within 1e-4 of each other where they part.
"""
import argparse
import datetime
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "parity"))
import make_smollm2_goldens  # noqa: E402
import smollm2  # noqa: E402


def prompts_of(count: int) -> list[list[int]]:
    ids = [i for line in smollm2.ROWS.read_text().splitlines() for i in json.loads(line)["input_ids"]]
    lengths = [12 + (17 * i) % 49 for i in range(count)]
    return [ids[sum(lengths[:i]) : sum(lengths[: i + 1])] for i in range(count)]


def computed_in(args, precision: str) -> str:
    return precision if precision in ("fp32", "bf16", "fp16") else args.compute


def forge(args, prompts, precision) -> tuple[float, list[list[int]]]:
    computed = computed_in(args, precision)
    model = args.base if computed == precision else exported(args, precision)
    request = {"command": "generate", "model": str(model), "adapter": None, "precision": computed, "provider": "fused",
               "threads": args.threads, "prompts": prompts, "max_new_tokens": args.tokens, "stop_ids": []}
    engine = subprocess.Popen([args.engine], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                              env={**os.environ, "OMP_NUM_THREADS": str(args.threads)})
    engine.stdin.write(json.dumps(request) + "\n")
    engine.stdin.flush()
    texts = [[] for _ in prompts]
    for line in engine.stdout:
        event = json.loads(line)
        if event["event"] == "error":
            sys.exit(event["message"])
        if event["event"] == "tokens":
            for prompt, token in zip(event["prompts"], event["ids"]):
                texts[prompt].append(token)
        if event["event"] == "done":
            seconds = event["prompt_seconds"] + event["token_seconds"]
    engine.wait()
    return sum(map(len, texts)) / seconds, texts


def peer(args, model, prompts) -> tuple[float, list[list[int]]]:
    width = max(map(len, prompts))
    ids = torch.tensor([[0] * (width - len(p)) + p for p in prompts])
    mask = torch.tensor([[0] * (width - len(p)) + [1] * len(p) for p in prompts])
    began = time.monotonic()
    with torch.no_grad():
        out = model.generate(input_ids=ids, attention_mask=mask, max_new_tokens=args.tokens, do_sample=False, eos_token_id=None,
                             pad_token_id=0)
    seconds = time.monotonic() - began
    return out[:, width:].numel() / seconds, out[:, width:].tolist()


def exported(args, precision: str) -> Path:
    gguf = smollm2.CACHE / f"decode-{precision}"
    kind = {"fp32": "f32", "fp16": "f16"}.get(precision, precision)
    if not gguf.exists():
        subprocess.run([Path(args.engine).parent / "forge", "export", "--model", args.base, "--gguf", "--type", kind, "--output", gguf,
                        "--no-check", "--quiet"], check=True)
    return next(gguf.glob("*.gguf"))


def llama(args, prompts, precision) -> float:
    request = {"library": args.llama, "model": str(exported(args, precision)), "threads": args.threads, "tokens": args.tokens,
               "prompts": prompts}
    answer = subprocess.run([sys.executable, Path(__file__).parent / "llama.py"], input=json.dumps(request) + "\n", check=True, text=True,
                            stdout=subprocess.PIPE).stdout
    answer = json.loads(answer.splitlines()[-1])
    return sum(map(len, answer["texts"])) / answer["seconds"]


def closeness(model, prompt: list[int], text: list[int], place: int) -> float:
    """Returns the gap between the two best logits after the tokens that both sides agree on."""
    with torch.no_grad():
        logits = model(input_ids=torch.tensor([prompt + text[:place]])).logits[0, -1].float()
    best = logits.topk(2).values
    return (best[0] - best[1]).item()


def compare(model, prompts, mine, its) -> list[str]:
    faults = []
    for number, (prompt, a, b) in enumerate(zip(prompts, mine, its)):
        place = next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), None)
        if place is None:
            continue
        gap = closeness(model, prompt, b, place)
        faults.append(f"prompt {number} parts at token {place}, where transformers' best two logits differ by {gap:.1e}")
        if gap > 1e-4:
            sys.exit("forge decodes other tokens: " + faults[-1])
    return faults


def shown(values: list[float], digits: int) -> str:
    return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f} … {max(values):.{digits}f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gguf", type=Path, required=True)
    parser.add_argument("--engine", required=True)
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 8, 32])
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--precision", nargs="+", default=["fp32", "bf16"])
    parser.add_argument("--compute", choices=["fp32", "bf16"], default="bf16", help="dtype in which forge and transformers compute with block types")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--llama", help="llama.cpp's shared library; without it llama.cpp is left out")
    parser.add_argument("--write", type=Path)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    args.base = smollm2.CACHE / "base"
    make_smollm2_goldens.dequantise(args.gguf, args.base)
    peers = ["transformers"] + ["llama.cpp"] * bool(args.llama)
    lines = ["| precision | sequences | forge, tokens/s |" + "".join(f" {name}, tokens/s | ratio |" for name in peers),
             "|---|---|---|" + "---|---|" * len(peers)]
    notes = []
    for precision in args.precision:
        dtype = torch.float32 if computed_in(args, precision) == "fp32" else torch.bfloat16
        model = AutoModelForCausalLM.from_pretrained(args.base, dtype=dtype).eval()
        peer(args, model, prompts_of(1))  # warm-up: kernels are chosen and memory is touched first
        for count in args.batches:
            prompts, mine, theirs = prompts_of(count), [], {name: [] for name in peers}
            for _ in range(args.rounds):
                rate, texts = forge(args, prompts, precision)
                mine.append(rate)
                rate, other = peer(args, model, prompts)
                theirs["transformers"].append(rate)
                if args.llama:
                    theirs["llama.cpp"].append(llama(args, prompts, precision))
            if precision == "fp32":
                notes += compare(model, prompts, texts, other)
            line = f"| {precision} | {count} | {shown(mine, 0)} |"
            for its in theirs.values():
                line += f" {shown(its, 0)} | {shown([a / b for a, b in zip(mine, its)], 2)} |"
            lines.append(line)
            print(lines[-1], flush=True)
    text = "\n".join(lines + [""] + (notes or ["In fp32 all tokens are the same."])) + "\n"
    print(text)
    if args.write:
        cpu = next((l.split(":")[1].strip() for l in open("/proc/cpuinfo") if l.startswith("model name")), platform.processor())
        head = (f"# Decoding on a CPU, {datetime.date.today()}\n\n`bench/decode/run.py`, {args.tokens} new tokens a sequence, greedy; "
                f"{cpu}, {args.threads} threads; {args.rounds} rounds in turns with {' and '.join(peers)}.\n\n")
        (args.write / f"decode-{datetime.date.today()}.md").write_text(head + text)


if __name__ == "__main__":
    main()
