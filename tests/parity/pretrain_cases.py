"""Texts, job and described model of the pretraining check and its goldens. Standard library only.
"""
import json
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MODEL = ROOT / "tests" / "fixtures" / "tiny-llama"
GOLDEN = Path(__file__).resolve().parent / "goldens" / "pretrain.json"
ARCHITECTURE = {"num_hidden_layers": 2, "initializer_range": 0.05, "tie_word_embeddings": True}
STEPS, ROWS, LENGTH, EVERY, RATE, WARMUP, DECAY = 20, 4, 48, 10, 2e-3, 4, 0.1
# {name: keys of data}
CASES = {"joined": {"join_documents": True}, "packed": {"overlong": "split"}}
SUBJECTS = "the river|a miller|the old king|my sister|the north wind|a grey cat|the clock".split("|")
VERBS = "finds|sells|counts|forgets|sings of|carries|asks for".split("|")
OBJECTS = "seven stones|a loaf of bread|the moon|its own name|three letters|the last train|a red door".split("|")


def documents(first: int, count: int) -> list[str]:
    """Returns texts of one to eight sentences, so that some are longer than a row and some share
    one.
    """
    texts = []
    for n in range(first, first + count):
        sentences = [f"{SUBJECTS[(n + 3 * k) % 7]} {VERBS[(n * n + k) % 7]} {OBJECTS[(2 * n + 5 * k) % 7]}." for k in range(1 + n * 5 % 8)]
        texts.append(" ".join(sentences))
    return texts


def write_texts(folder: Path) -> None:
    for name, texts in (("train", documents(0, 120)), ("eval", documents(200, 9))):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))


def job(folder: Path, name: str, case: str, **sections) -> dict:
    """Returns a job that trains from random weights on the texts of `folder`."""
    whole = {
        "version": 1, "name": name, "seed": 5, "output_dir": str(folder / "runs"), "objective": "pretrain",
        "model": {"path": str(MODEL), "init": "random", "architecture": ARCHITECTURE}, "adapter": "none",
        "data": {"train": [{"path": str(folder / "train.jsonl"), "format": "text"}], "eval": [{"path": str(folder / "eval.jsonl"), "format": "text"}],
                 "max_length": LENGTH, "shuffle": False, **CASES[case]},
        "train": {"max_steps": STEPS, "global_batch_size": ROWS, "precision": "fp32", "deterministic": True, "threads": 1},
        "optimizer": {"learning_rate": RATE, "weight_decay": DECAY}, "schedule": {"type": "cosine", "warmup_steps": WARMUP},
        "checkpoint": {"every_steps": 5}, "eval": {"every_steps": EVERY, "samples": 0},
    }
    for section, values in sections.items():
        whole[section] = whole[section] | values if isinstance(values, dict) else values
    return whole


def start_job(folder: Path) -> dict:
    """Returns a job with a step so small that the result is the initial weights."""
    return job(folder, "start", "joined", train={"max_steps": 1}, optimizer={"type": "sgd", "learning_rate": 1e-30, "weight_decay": 0},
               schedule={"type": "constant", "warmup_steps": 0})
