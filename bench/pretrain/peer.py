"""The peer: transformers' Trainer on the same rows from the same weights.

    python bench/pretrain/peer.py JOB.json START METRICS.jsonl [--nudge SHARE] [--exact-norm]    # START: the model folder that forge drew

JOB is a forge job with the few keys that against_trainer.py writes. Rows are made as forge makes
them: documents are joined by eos and cut. --nudge moves each weight by about that share of itself
first. --exact-norm clips gradients by a norm summed in fp64. LibTorch's norm on a CPU sums millions
of squares in fp32 and comes out about 2e-4 of it too small here, by another share in each step.
"""
import argparse
import json
import time
from pathlib import Path

import torch
from tokenizers import Tokenizer
from transformers import AutoModelForCausalLM, Trainer, TrainerCallback, TrainingArguments


class Events(TrainerCallback):
    """Writes one line per step: its duration and its loss."""

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
    return [stream[i : i + length] for i in range(0, len(stream), length)]


@torch.no_grad()
def mean_loss(model, rows: list[list[int]]) -> float:
    """Returns the mean over all predicted tokens, those of a shorter last row included."""
    model.eval()
    batches = [rows[:-1][i : i + 16] for i in range(0, len(rows) - 1, 16)] + [rows[-1:]]
    losses = [(model(input_ids=torch.tensor(batch), labels=torch.tensor(batch)).loss.item(), len(batch) * (len(batch[0]) - 1))
              for batch in batches if len(batch[0]) > 1]
    return sum(loss * count for loss, count in losses) / sum(count for _, count in losses)


def clip_by_exact_norm(parameters, max_norm: float, **_) -> torch.Tensor:
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    norm = torch.stack([gradient.double().square().sum() for gradient in gradients]).sum().sqrt()
    for gradient in gradients:
        gradient.mul_(torch.clamp(max_norm / (norm + 1e-6), max=1.0))
    return norm


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("job", type=Path)
    parser.add_argument("start", type=Path)
    parser.add_argument("metrics", type=Path)
    parser.add_argument("--nudge", type=float, default=0)
    parser.add_argument("--exact-norm", action="store_true")
    args = parser.parse_args()
    job = json.loads(args.job.read_text())
    train, start = job["train"], args.start
    if args.exact_norm:
        torch.nn.utils.clip_grad_norm_ = clip_by_exact_norm
    torch.set_num_threads(train["threads"])
    model = AutoModelForCausalLM.from_pretrained(start, dtype=torch.float32)
    if args.nudge:
        torch.manual_seed(1)
        with torch.no_grad():
            for weight in model.parameters():
                weight.mul_(1 + args.nudge * torch.randn_like(weight))
    arguments = TrainingArguments(
        output_dir=str(args.metrics.parent / "trainer"), per_device_train_batch_size=train["global_batch_size"],
        max_steps=train["max_steps"], learning_rate=job["optimizer"]["learning_rate"], weight_decay=job["optimizer"]["weight_decay"],
        lr_scheduler_type="constant_with_warmup", warmup_steps=job["schedule"]["warmup_steps"], max_grad_norm=1.0, optim="adamw_torch", train_sampling_strategy="sequential", report_to=[],
        logging_steps=1, save_strategy="no", use_cpu=True, disable_tqdm=True)
    rows, held_out = (rows_of(job, split, start, model.config.eos_token_id) for split in ("train", "eval"))
    events = Events(str(args.metrics), train["global_batch_size"] * job["data"]["max_length"])
    collate = lambda batch: {key: torch.tensor([row[key] for row in batch]) for key in ("input_ids", "labels")}  # noqa: E731
    training = [{"input_ids": row, "labels": row} for row in rows[:-1]]
    trainer = Trainer(model, args=arguments, train_dataset=training, data_collator=collate, callbacks=[events])
    trainer.train()
    print(json.dumps({"event": "eval", "step": train["max_steps"], "eval_loss": mean_loss(model, held_out)}), file=events.file, flush=True)


if __name__ == "__main__":
    main()
