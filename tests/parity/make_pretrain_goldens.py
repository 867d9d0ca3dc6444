"""Losses of transformers on the batches of check_pretrain.py, from forge's initial weights.

    python tests/parity/make_pretrain_goldens.py build/bin/forge    # needs torch, transformers and tokenizers
"""
import json
import sys
import tempfile
from pathlib import Path

import torch
from safetensors.torch import load_file
from tokenizers import Tokenizer
from transformers import LlamaConfig, LlamaForCausalLM, get_scheduler

from forge_run import run_job
from pretrain_cases import ARCHITECTURE, CASES, DECAY, EVERY, GOLDEN, LENGTH, MODEL, RATE, ROWS, STEPS, WARMUP, documents, start_job, write_texts

torch.manual_seed(0)
config = LlamaConfig(**json.loads((MODEL / "config.json").read_text()) | ARCHITECTURE)
tokenizer = Tokenizer.from_file(str(MODEL / "tokenizer.json"))


def rows_of(texts: list[str], case: str) -> list[list[int]]:
    """Groups texts as run_clm.py does, but keeps the rest as a last shorter row; or keeps each text
    by itself.
    """
    ids = [tokenizer.encode(text).ids + [config.eos_token_id] for text in texts]
    streams = [sum(ids, [])] if case == "joined" else ids
    rows = [stream[begin : begin + LENGTH] for stream in streams for begin in range(0, len(stream), LENGTH)]
    return [row for row in rows if len(row) > 1]


def loss_of(model, rows: list[list[int]]) -> torch.Tensor:
    """Returns the mean over the tokens of all rows that have one before them."""
    total, count = 0.0, 0
    for row in rows:
        ids = torch.tensor([row])
        logits = model(ids).logits[0, :-1].float()
        total = total + torch.nn.functional.cross_entropy(logits, ids[0, 1:], reduction="sum")
        count += len(row) - 1
    return total / count


def train(start: dict, case: str) -> dict:
    model = LlamaForCausalLM(config)
    missing = model.load_state_dict(start, strict=False)
    assert not missing.unexpected_keys and missing.missing_keys in ([], ["lm_head.weight"]), missing
    model.tie_weights()
    decays = [p for n, p in model.named_parameters() if "norm" not in n]
    rest = [p for n, p in model.named_parameters() if "norm" in n]
    optimizer = torch.optim.AdamW([{"params": decays, "weight_decay": DECAY}, {"params": rest, "weight_decay": 0.0}], lr=RATE)
    scheduler = get_scheduler("cosine", optimizer, WARMUP, STEPS)
    rows, held_out = rows_of(documents(0, 120), case), rows_of(documents(200, 9), case)
    assert len(rows) >= STEPS * ROWS
    losses, evals = [], []
    for step in range(STEPS):
        loss = loss_of(model, rows[step * ROWS : (step + 1) * ROWS])
        losses.append(loss.item())
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        if (step + 1) % EVERY == 0:
            with torch.no_grad():
                evals.append(loss_of(model, held_out).item())
    return {"rows": len(rows), "losses": losses, "eval_losses": evals}


with tempfile.TemporaryDirectory() as folder:
    write_texts(Path(folder))
    run = run_job(sys.argv[1], start_job(Path(folder)), Path(folder))
    start = load_file(run.folder / "model" / "model.safetensors")
drawn = {name: [value.mean().item(), value.std().item()] for name, value in start.items() if value.dim() == 2}
golden = {case: train(start, case) for case in CASES} | {"start": drawn}
GOLDEN.write_text(json.dumps(golden, indent=1) + "\n")
print(GOLDEN, {case: golden[case]["losses"][-1] for case in CASES})
