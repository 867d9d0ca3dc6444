#!/usr/bin/env python3
"""Compares tokens added to a model (model.add_tokens) with transformers + PEFT: ids, rows, losses
and results.

    python tests/parity/check_tokens.py build/bin/forge [--llama LIBRARY]     # needs the oracle

Checks for a tied and an untied tiny model: the rows that added tokens start from; ten steps of LoRA
with trained rows, by PEFT from the same start; the result loaded by PEFT after
resize_token_embeddings; merged, in transformers; as a GGUF, in llama.cpp, if a library is named.
Also checks full fine-tuning, whose result has the larger vocabulary. Prints "N passed, N failed".
"""
import argparse
import json
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
from peft import PeftModel
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests/parity"), str(ROOT / "tests/fixtures")]
import cases  # noqa: E402
import forge_run  # noqa: E402
import oracle  # noqa: E402
from llama_library import LlamaCpp  # noqa: E402
from variants import write_variant  # noqa: E402

TOKENS = ["<think>", "</think>", "[tool]"]
FROM = {"<think>": "a lamp", "[tool]": "the"}
TEXTS = [f"<think>{a} {b}</think> the {b} is {a}[tool]{k}" for k, (a, b) in
         enumerate([("red", "lamp"), ("tall", "tower"), ("wet", "sea"), ("old", "keeper")] * 5)]
STEPS = 5
failed = passed = 0


def check(name: str, good: bool, said: str) -> None:
    global failed, passed
    passed, failed = passed + good, failed + (not good)
    print(f"{'ok  ' if good else 'FAIL'}  {name}: {said}", flush=True)


def load(path: Path):
    return AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32, attn_implementation="eager").eval()


def grown(path: Path, rows: int):
    """Returns the base with room for the tokens, filled with other values than forge starts from.
    """
    model = load(path)
    model.resize_token_embeddings(rows, mean_resizing=False)
    return model


@torch.no_grad()
def logits(model, ids) -> torch.Tensor:
    return torch.cat([model.eval()(torch.tensor([row])).logits[0] for row in ids])


def job_of(name: str, model: Path, rows: Path, root: Path, adapter: dict, steps: int, rate: float) -> dict:
    return {"version": 1, "name": name, "seed": 1, "output_dir": str(root / "runs"),
            "model": {"path": str(model), "add_tokens": TOKENS, "add_tokens_from": FROM}, "adapter": adapter,
            "objective": "pretrain", "data": {"train": [{"path": str(rows), "format": "text"}], "shuffle": False, "packing": False},
            "train": {"max_steps": steps, "global_batch_size": 4, "micro_batch_size": 4, "precision": "fp32", "max_grad_norm": 1.0,
                      "threads": 1},
            "optimizer": {"type": "adamw", "learning_rate": rate, "weight_decay": 0.01, "eps": 1e-4}, "schedule": "linear"}


def check_rows(name: str, base: Path, start: Path, tokenizer, ids: list[int], rows: int) -> None:
    state = load_file(start / "adapter_model.safetensors")
    embedding = load(base).get_input_embeddings().weight.detach().double()
    key = "base_model.model.model.embed_tokens.token_adapter.trainable_tokens_delta"
    plain = AutoTokenizer.from_pretrained(base)
    want = [embedding[plain(FROM[token], add_special_tokens=False)["input_ids"]].mean(0) if token in FROM else embedding.mean(0)
            for token in TOKENS]
    apart = max(float((state[key][i].double() - row).abs().max()) for i, row in enumerate(want))
    check(f"{name} rows start", apart < 1e-6, f"differ by {apart:.1e} from the means of {list(FROM.values())} and of all {rows - len(ids)} rows")


def check_adapter(name: str, base: Path, root: Path, forge: str, library) -> None:
    texts = root / "rows.jsonl"
    texts.write_text("".join(json.dumps({"text": text}) + "\n" for text in TEXTS))
    lora = {"type": "lora", "rank": 4, "alpha": 8}
    start = forge_run.run_job(forge, job_of(f"{name}-start", base, texts, root, lora, 1, 1e-30), root).folder / "adapter"
    tokenizer = AutoTokenizer.from_pretrained(start)
    ids = [tokenizer.convert_tokens_to_ids(token) for token in TOKENS]
    rows = [tokenizer(text, add_special_tokens=True)["input_ids"] for text in TEXTS]
    size = max(max(ids) + 1, load(base).config.vocab_size)
    batch = [{"input_ids": row + [tokenizer.eos_token_id], "labels": row + [tokenizer.eos_token_id]} for row in rows]
    check(f"{name} ids", all(len(set(ids) & set(row)) == 3 for row in rows), f"{ids} of {len(tokenizer)}")
    check_rows(name, base, start, tokenizer, ids, size)
    run = forge_run.run_job(forge, job_of(name, base, texts, root, lora | {"init_from": str(start)}, STEPS, 5e-3), root)
    model = PeftModel.from_pretrained(grown(base, size), start, is_trainable=True)
    record = oracle.train(model, [batch[i:i + 4] for i in range(0, 4 * STEPS, 4)], cases.Settings(5e-3, STEPS, eps=1e-4))
    losses = max(abs(a - b) / b for a, b in zip(run.losses, record.losses, strict=True))
    check(f"{name} losses", losses < 1e-5, f"differ by {losses:.1e} over {STEPS} steps, {record.losses[0]:.4f} to {record.losses[-1]:.4f}")
    want = logits(model, rows[:4])
    got = logits(PeftModel.from_pretrained(grown(base, size), run.folder / "adapter"), rows[:4])
    apart = float((want - got).abs().max() / want.abs().max())
    check(f"{name} in PEFT", apart < 1e-4, f"logits differ by {apart:.1e} from PEFT's own training")
    own = forge_run.per_example(forge, base, run.folder / "adapter", texts_as_tokens(root, rows), root / f"{name}.losses")
    theirs = oracle.example_losses(PeftModel.from_pretrained(grown(base, size), run.folder / "adapter").eval(),
                                   [{"input_ids": row, "labels": row} for row in rows])
    apart = max(abs(a["loss"] - b["loss"]) / b["loss"] for a, b in zip(own, theirs, strict=True))
    check(f"{name} forge eval", apart < 1e-5, f"losses differ by {apart:.1e}")
    forge_run.call(forge, "merge", run.folder, "--dtype", "fp32", "--output", root / f"{name}-merged")
    check_merged(f"{name} merged", root / f"{name}-merged", rows, ids, logits(PeftModel.from_pretrained(grown(base, size), run.folder / "adapter"), rows[:4]))
    if library:
        check_gguf(f"{name} GGUF", forge, run.folder, root / f"{name}-gguf", library, root / f"{name}-merged", rows, ids)


def texts_as_tokens(root: Path, rows) -> Path:
    path = root / "tokens.jsonl"
    path.write_text("".join(json.dumps({"input_ids": row, "labels": row}) + "\n" for row in rows))
    return path


def check_merged(name: str, folder: Path, rows, ids, want) -> None:
    tokenizer = AutoTokenizer.from_pretrained(folder)
    got = logits(load(folder), rows[:4])
    apart = float((want - got).abs().max() / want.abs().max())
    same = [tokenizer.convert_tokens_to_ids(token) for token in TOKENS] == ids and tokenizer(TEXTS[0])["input_ids"] == rows[0]
    check(name, apart < 1e-5 and same, f"logits differ by {apart:.1e}; the tokenizer has the tokens: {same}")


def check_gguf(name: str, forge: str, run: Path, folder: Path, library, merged: Path, rows, ids) -> None:
    written = json.loads(forge_run.call(forge, "export", run, "--gguf", "--type", "f32", "--output", folder, "--json"))
    with library.load(written["file"]) as model:
        tokens = [model.tokenize(token, add_special=False) for token in TOKENS]
        got = np.concatenate([model.logits(row) for row in rows[:4]])
    want = logits(load(merged), rows[:4]).numpy()
    apart = float(np.abs(want - got).max() / np.abs(want).max())
    check(name, tokens == [[i] for i in ids] and apart < 1e-4, f"llama.cpp reads {tokens}, logits differ by {apart:.1e}; forge compared {written['difference']['largest_difference']:.1e}")


def check_full(name: str, base: Path, root: Path, forge: str) -> None:
    run = forge_run.run_job(forge, job_of(f"{name}-full", base, root / "rows.jsonl", root, {"type": "none"}, 2, 1e-3), root)
    tokenizer = AutoTokenizer.from_pretrained(run.folder / "model")
    model = load(run.folder / "model")
    rows = [tokenizer(text)["input_ids"] for text in TEXTS]
    own = forge_run.per_example(forge, run.folder / "model", None, texts_as_tokens(root, rows), root / "full.losses")
    theirs = oracle.example_losses(model, [{"input_ids": row, "labels": row} for row in rows])
    apart = max(abs(a["loss"] - b["loss"]) / b["loss"] for a, b in zip(own, theirs, strict=True))
    size = model.get_input_embeddings().weight.shape[0]
    check(f"{name} full fine-tuning", apart < 1e-5 and size == model.config.vocab_size >= len(tokenizer) and len(rows[0]) < len(TEXTS[0]),
          f"losses differ by {apart:.1e}, {size} rows")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("forge")
    parser.add_argument("--llama")
    parser.add_argument("--variants", default="base,tied")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    library = LlamaCpp(arguments.llama) if arguments.llama else None
    with tempfile.TemporaryDirectory(prefix="forge-tokens-") as folder:
        root = Path(folder)
        for variant in arguments.variants.split(","):
            base = root / "models" / variant
            write_variant(variant, base)
            for work in (lambda: check_adapter(variant, base, root, arguments.forge, library), lambda: check_full(variant, base, root, arguments.forge)):
                try:
                    work()
                except forge_run.ForgeFailed as error:
                    check(f"{variant} runs", False, str(error))
    print(f"{passed} passed, {failed} failed")
    sys.exit(bool(failed))


main()
