#!/usr/bin/env python3
"""Checks reward models both ways: transformers and PEFT load forge's, and forge loads theirs, with
the same scores.

    python tests/parity/check_reward_model.py build/bin/forge

Needs torch, transformers and peft. Trains the tiny model by objective: reward, as an adapter and
whole, and loads each result into transformers and PEFT as its README.md says. Makes models with
those and loads them into forge score. Texts are scored one by one and, by transformers, as a padded
batch. Prints one line per check.
"""
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForSequenceClassification, PreTrainedTokenizerFast

HERE = Path(__file__).resolve().parent
GOLDENS, TINY = HERE / "goldens", HERE.parent / "fixtures" / "tiny-llama"
ROWS = [json.loads(line) for line in (GOLDENS / "tiny-pairs.jsonl").read_text().splitlines()]
LIMIT = 1e-5


def texts(tokenizer) -> list[list[int]]:
    return [tokenizer(row["prompt"] + row[side], add_special_tokens=False)["input_ids"] + [tokenizer.eos_token_id]
            for row in ROWS for side in ("chosen", "rejected")]


def theirs(model, tokenizer, batched: bool) -> list[float]:
    model.eval()
    ids = texts(tokenizer)
    with torch.no_grad():
        if not batched:
            return [model(input_ids=torch.tensor([one])).logits.item() for one in ids]
        longest, pad = max(map(len, ids)), model.config.pad_token_id
        padded = torch.tensor([one + [pad] * (longest - len(one)) for one in ids])
        mask = torch.tensor([[1] * len(one) + [0] * (longest - len(one)) for one in ids])
        return model(input_ids=padded, attention_mask=mask).logits.squeeze(1).tolist()


def forges(forge: str, *arguments: str) -> list[float]:
    done = subprocess.run([forge, "score", str(GOLDENS / "tiny-pairs.jsonl"), *arguments, "--threads", "1", "--json"], check=True,
                          capture_output=True, text=True)
    return [row["score"] for row in json.loads(done.stdout)["scores"]]


def as_its_card_says(folder: Path):
    """Runs the code of the folder's README.md there."""
    code = (folder / "README.md").read_text().split("```python\n")[1].split("```")[0]
    names, before = {}, Path.cwd()
    os.chdir(folder)
    exec(code, names)
    os.chdir(before)
    return names["model"]


def train(forge: str, folder: Path, name: str, adapter: dict) -> Path:
    job = {"name": name, "output_dir": str(folder / "runs"), "model": str(TINY), "adapter": adapter, "objective": "reward",
           "data": {"train": str(GOLDENS / "tiny-margins.jsonl"), "max_length": 128},
           "train": {"max_steps": 5, "global_batch_size": 8, "precision": "fp32", "threads": 1}, "optimizer": {"learning_rate": 1e-2}}
    (folder / f"{name}.json").write_text(json.dumps(job))
    subprocess.run([forge, "run", str(folder / f"{name}.json"), "--quiet"], check=True)
    return folder / "runs" / name


def main() -> int:
    forge, failed = str(Path(sys.argv[1]).resolve()), 0
    tokenizer = PreTrainedTokenizerFast.from_pretrained(TINY)

    def compare(what: str, a: list[float], b: list[float]) -> None:
        nonlocal failed
        worst = max(abs(x - y) for x, y in zip(a, b, strict=True))
        ok = worst <= LIMIT and max(a) - min(a) > 0.01  # equal scores would prove nothing
        failed += not ok
        print(f"{'ok  ' if ok else 'FAIL'} {what}: {worst:.1e} (limit {LIMIT:.0e}), scores {min(a):.3f} to {max(a):.3f}", flush=True)

    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        lora = {"type": "lora", "rank": 4, "alpha": 8}
        for name, settings in {"adapter": lora, "dora": lora | {"use_dora": True}, "pissa": lora | {"init": "pissa"},
                               "saved": lora | {"modules_to_save": ["norm", "score"]}}.items():
            run = train(forge, folder, name, settings)
            model = as_its_card_says(run / "adapter")
            own = forges(forge, "--run", str(run))
            compare(f"PEFT loads forge's {name}", own, theirs(model, tokenizer, False))
            if name == "adapter":
                subprocess.run([forge, "eval", str(run), "--data", str(GOLDENS / "tiny-margins.jsonl"), "--json"], check=True)
                model.merge_and_unload().save_pretrained(folder / "merged")
                compare("forge loads what PEFT merged", forges(forge, "--model", str(copied(folder / "merged"))), own)
        run = train(forge, folder, "full", {"type": "none"})
        model = as_its_card_says(run / "model")
        own = forges(forge, "--run", str(run))
        compare("transformers loads forge's model", own, theirs(model, tokenizer, False))
        compare("transformers loads forge's model, padded batch", own, theirs(model, tokenizer, True))

        torch.manual_seed(4)
        base = AutoModelForSequenceClassification.from_pretrained(TINY, num_labels=1)
        base.config.pad_token_id = 0
        base.save_pretrained(folder / "theirs")
        compare("forge loads transformers' model", forges(forge, "--model", str(copied(folder / "theirs"))), theirs(base, tokenizer, False))
        tuned = get_peft_model(base, LoraConfig(task_type="SEQ_CLS", r=4, lora_alpha=8, target_modules="all-linear"))
        with torch.no_grad():
            for name, parameter in tuned.named_parameters():
                if "lora_B" in name or "modules_to_save" in name:
                    parameter.copy_(torch.randn_like(parameter) / parameter.shape[-1] ** 0.5)
        tuned.save_pretrained(folder / "tuned")
        compare("forge loads PEFT's adapter", forges(forge, "--model", str(TINY), "--adapter", str(folder / "tuned")),
                theirs(tuned, tokenizer, False))
    print(f"{failed} failed")
    return int(failed > 0)


def copied(folder: Path) -> Path:
    """Returns a copy with the tokenizer beside the weights, which save_pretrained leaves out."""
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (folder / name).write_bytes((TINY / name).read_bytes())
    return folder


if __name__ == "__main__":
    sys.exit(main())
