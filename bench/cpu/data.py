"""Rows for the benchmark: The Devil's Dictionary as chats, tokenised once, so all contestants see
the same ids.

    natural   one conversation per row at its natural length, answers supervised, at most 512 tokens
    equal     the same text cut into rows of 128 tokens, all supervised: no padding for anyone
"""
import json
import subprocess
import sys
from pathlib import Path

EQUAL_LENGTH, MAX_LENGTH = 128, 512
ROOT = Path(__file__).resolve().parents[2]


def chats(dictd: Path, folder: Path) -> list[list[dict]]:
    subprocess.run([sys.executable, ROOT / "scripts" / "devils_dictionary.py", folder, dictd], check=True,
                   stdout=subprocess.DEVNULL)
    return [json.loads(line)["messages"] for line in (folder / "train.jsonl").read_text().splitlines()]


def natural_row(tokenizer, messages: list[dict]) -> dict:
    prompt = tokenizer.apply_chat_template(messages[:-1], tokenize=False, add_generation_prompt=True)
    whole = tokenizer.apply_chat_template(messages, tokenize=False)
    head = tokenizer(prompt, add_special_tokens=False)["input_ids"]
    ids = head + tokenizer(whole[len(prompt) :], add_special_tokens=False)["input_ids"]
    return {"input_ids": ids[:MAX_LENGTH], "labels": ([-100] * len(head) + ids[len(head) :])[:MAX_LENGTH]}


def equal_rows(rows: list[dict]) -> list[dict]:
    ids = [token for row in rows for token in row["input_ids"]]
    cut = [ids[i : i + EQUAL_LENGTH] for i in range(0, len(ids) - EQUAL_LENGTH + 1, EQUAL_LENGTH)]
    return [{"input_ids": row, "labels": row} for row in cut]


def write_rows(model: Path, dictd: Path, folder: Path) -> dict[str, Path]:
    """Returns {name: JSONL file of `tokens` rows}. Shuffles with a fixed seed: alphabetical order
    groups lengths.
    """
    import random

    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(model)
    natural = [natural_row(tokenizer, messages) for messages in chats(dictd, folder)]
    random.Random(0).shuffle(natural)
    files = {}
    for name, rows in (("natural", natural), ("equal", equal_rows(natural))):
        files[name] = folder / f"{name}.jsonl"
        files[name].write_text("".join(json.dumps(row) + "\n" for row in rows))
    return files
