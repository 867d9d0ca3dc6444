"""The other side: transformers' Trainer on the same rows from the same weights.

    python bench/pretrain/peer.py JOB.json START METRICS.jsonl [NUDGE]    # START: the model folder that forge drew

JOB is a forge job with the few keys that against_trainer.py writes. Rows are made as forge makes them: documents joined by eos and cut. NUDGE: each
weight is moved by about that share of itself first.
"""
import json
import sys
import time
from pathlib import Path

import torch
from tokenizers import Tokenizer
from transformers import AutoModelForCausalLM, Trainer, TrainerCallback, TrainingArguments


class Events(TrainerCallback):
    """One line per step: its duration and its loss."""

    def __init__(self, path: str, tokens: int):
        self.file, self.tokens, self.began, self.seconds = open(path, "w"), tokens, 0.0, 0.0

    def on_step_begin(self, *_, **__):
        self.began = time.monotonic()

    def on_step_end(self, *_, **__):
        self.seconds = time.monotonic() - self.began

    def on_log(self, args, state, control, logs=None, **_):
        if logs and "loss" in logs:
            event = {"event": "step", "step": state.global_step, "tokens": self.tokens, "step_seconds": self.seconds, "loss": float(logs["loss"])}
            print(json.dumps(event), file=self.file, flush=True)


def rows_of(job: dict, split: str, folder: Path, eos: int) -> list[dict]:
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    stream = []
    for line in Path(job["data"][split][0]["path"]).read_text().splitlines():
        stream += tokenizer.encode(json.loads(line)["text"]).ids + [eos]
    length = job["data"]["max_length"]
    return [{"input_ids": row, "labels": row} for row in (stream[i : i + length] for i in range(0, len(stream) - length, length))]


def main() -> None:
    job = json.loads(Path(sys.argv[1]).read_text())
    train, start = job["train"], Path(sys.argv[2])
    torch.set_num_threads(train["threads"])
    model = AutoModelForCausalLM.from_pretrained(start, dtype=torch.float32)
    if len(sys.argv) > 4:
        torch.manual_seed(1)
        with torch.no_grad():
            for weight in model.parameters():
                weight.mul_(1 + float(sys.argv[4]) * torch.randn_like(weight))
    arguments = TrainingArguments(
        output_dir=str(Path(sys.argv[3]).parent / "trainer"), per_device_train_batch_size=train["global_batch_size"],
        max_steps=train["max_steps"], learning_rate=job["optimizer"]["learning_rate"], weight_decay=job["optimizer"]["weight_decay"],
        lr_scheduler_type="constant_with_warmup", warmup_steps=job["schedule"]["warmup_steps"], max_grad_norm=1.0, optim="adamw_torch", train_sampling_strategy="sequential", report_to=[],
        logging_steps=1, save_strategy="no", use_cpu=True, disable_tqdm=True)
    rows, held_out = (rows_of(job, split, start, model.config.eos_token_id) for split in ("train", "eval"))
    events = Events(sys.argv[3], train["global_batch_size"] * job["data"]["max_length"])
    collate = lambda batch: {key: torch.tensor([row[key] for row in batch]) for key in ("input_ids", "labels")}  # noqa: E731
    trainer = Trainer(model, args=arguments, train_dataset=rows, eval_dataset=held_out, data_collator=collate, callbacks=[events])
    trainer.train()
    print(json.dumps({"event": "eval", "step": train["max_steps"], "eval_loss": trainer.evaluate()["eval_loss"]}), file=events.file, flush=True)


if __name__ == "__main__":
    main()
