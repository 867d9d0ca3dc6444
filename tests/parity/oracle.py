"""transformers + peft as the oracle: one explicit training loop with the rules that forge promises.

    loss        mean of cross-entropy over the supervised tokens of the whole optimizer step
    clipping    by the global norm, as torch.nn.utils.clip_grad_norm_
    AdamW       torch.optim.AdamW; no decay on biases and norms, by transformers' own rule
    schedule    transformers.get_scheduler, one step of it per optimizer step
"""
import json
import math
from dataclasses import dataclass, field
from pathlib import Path

import torch
from peft.optimizers import create_loraplus_optimizer
from transformers import Trainer, get_scheduler

import experts_apart
from cases import Settings


@dataclass
class Record:
    losses: list = field(default_factory=list)
    grad_norms: list = field(default_factory=list)  # before clipping
    learning_rates: list = field(default_factory=list)
    first_gradients: dict = field(default_factory=dict)  # gradients of the first step, before clipping


def read_rows(path) -> list[dict]:
    return [json.loads(line) for line in Path(path).read_text().splitlines()]


def pad(rows: list[dict]) -> dict[str, torch.Tensor]:
    """Pads on the right to the longest row, as transformers' collators do; padding is masked, its
    labels are -100.
    """
    longest = max(len(row["input_ids"]) for row in rows)

    def column(key, fill):
        longest = max(len(row[key]) for row in rows)
        return torch.tensor([row[key] + [fill] * (longest - len(row[key])) for row in rows])

    mask = [{"mask": [1] * len(row["input_ids"])} for row in rows]
    return {
        "input_ids": column("input_ids", 0),
        "labels": column("labels", -100),
        "attention_mask": torch.tensor([m["mask"] + [0] * (longest - len(m["mask"])) for m in mask]),
    }


def outputs(model, batch):
    if model.config.is_encoder_decoder:
        return model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"], labels=batch["labels"], use_cache=False)
    return model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"], use_cache=False)


def targets(model, batch) -> torch.Tensor:
    """Returns the next tokens, [rows, predicted positions].

    A decoder reads them itself; an encoder-decoder gets them shifted.
    """
    return batch["labels"] if model.config.is_encoder_decoder else batch["labels"][:, 1:]


def token_losses(logits, labels) -> torch.Tensor:
    """Returns the cross-entropy of each next token, 0 if it is not supervised: [rows, predicted
    positions].
    """
    logits = logits[:, : labels.shape[1]]
    losses = torch.nn.functional.cross_entropy(
        logits.reshape(-1, logits.shape[-1]), labels.reshape(-1), ignore_index=-100, reduction="none"
    )
    return losses.view(labels.shape)


def mean_loss(model, batch) -> torch.Tensor:
    out = outputs(model, batch)
    labels = targets(model, batch)
    mean = token_losses(out.logits, labels).sum() / (labels != -100).sum()
    return mean + experts_apart.balance_loss(model, out, batch["attention_mask"])


def example_losses(model, rows) -> list[dict]:
    """Returns rows as `forge eval --per-example` writes them: line from 1, tokens,
    supervised_tokens, loss (summed).
    """
    out = []
    for line, row in enumerate(rows, start=1):
        with torch.no_grad():
            labels = targets(model, pad([row]))
            loss = token_losses(outputs(model, pad([row])).logits, labels).double().sum().item()
        supervised = (labels != -100).sum().item()
        out.append(
            {"line": line, "tokens": len(row["input_ids"]), "supervised_tokens": supervised, "loss": loss}
        )
    return out


def make_optimizer(model, s: Settings):
    adam = {"betas": (0.9, 0.999), "eps": s.eps}
    if s.optimizer == "lora_plus":
        return create_loraplus_optimizer(
            model,
            torch.optim.AdamW,
            lr=s.learning_rate,
            loraplus_lr_ratio=s.lora_plus_ratio,
            loraplus_weight_decay=s.weight_decay,
            **adam,
        )
    decayed = set(Trainer.get_decay_parameter_names(None, model))
    trained = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
    groups = [
        {"params": [p for name, p in trained if name in decayed], "weight_decay": s.weight_decay},
        {"params": [p for name, p in trained if name not in decayed], "weight_decay": 0.0},
    ]
    if s.optimizer == "sgd":
        return torch.optim.SGD(groups, lr=s.learning_rate, momentum=s.momentum)
    return torch.optim.AdamW(groups, lr=s.learning_rate, **adam)


def train(model, batches: list[list[dict]], s: Settings, progress=None) -> Record:
    """Takes one optimizer step per batch. Changes the model; returns the content that forge writes
    to metrics.jsonl.
    """
    model.train()
    record = Record()
    parameters = [(n, p) for n, p in model.named_parameters() if p.requires_grad]
    optimizer = make_optimizer(model, s)
    schedule = get_scheduler(s.schedule, optimizer, s.warmup_steps, s.steps)
    for step, rows in enumerate(batches[: s.steps], start=1):
        loss = mean_loss(model, pad(rows))
        loss.backward()
        if step == 1:
            record.first_gradients = {n: p.grad.clone() for n, p in parameters}
        record.learning_rates.append(optimizer.param_groups[0]["lr"])
        limit = s.max_grad_norm or math.inf
        record.grad_norms.append(torch.nn.utils.clip_grad_norm_([p for _, p in parameters], limit).item())
        record.losses.append(loss.item())
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        if progress:
            progress(step, record)
    return record


def relative_change_error(start, got, want) -> tuple[float, float, str]:
    """Returns (together, worst, name of worst): Frobenius norm of got - want over that of want -
    start, in float64.
    """
    errors = {n: (got[n].double() - want[n].double()).square().sum().item() for n in want}
    changes = {n: (want[n].double() - start[n].double()).square().sum().item() for n in want}
    ratios = {n: math.sqrt(errors[n] / changes[n]) if changes[n] else (math.inf if errors[n] else 0.0) for n in want}
    worst = max(ratios, key=ratios.get)
    return math.sqrt(sum(errors.values()) / sum(changes.values())), ratios[worst], worst
