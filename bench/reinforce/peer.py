"""The peer: TRL's GRPOTrainer on completions that forge sampled, or transformers' generate on its
prompts.

    python bench/reinforce/peer.py train|generate JOB.json RUN DUMP.jsonl METRICS.jsonl

JOB is a forge job with the few keys that against_trl.py writes, RUN the folder of its run, DUMP the
output of `forge data --dump` for its prompts. `train` gives each rollout's completions, rewards and
prompts to TRL's own loss, in micro-batches of 8, its default, and takes the step with torch's
AdamW; the time includes no sampling. `generate` samples 32 completions at once with the adapter
beside the weights.
"""
import json
import sys
import time
from pathlib import Path

import torch
from datasets import Dataset
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import GRPOConfig, GRPOTrainer

MICRO_BATCH = 8


def rollouts_of(run: Path, prompts: list) -> list:
    """Returns each rollout's completions: prompt ids, completion ids, advantage."""
    result = []
    for path in sorted(run.glob("rollouts/rollout-*.jsonl")):
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        groups = {}
        for line in lines:
            groups.setdefault(line["place"], []).append(line["reward"])
        rows = []
        for line in lines:
            rewards = torch.tensor(groups[line["place"]], dtype=torch.float64)
            advantage = (line["reward"] - rewards.mean()) / (rewards.std() + 1e-4)
            rows.append((prompts[line["prompt"]], line["ids"], advantage.item()))
        # forge leaves out completions without a gradient, so they are left out here too.
        result.append([row for row in rows if row[2] != 0])
    return result


def padded(rows: list, left: bool, pad: int):
    width = max(map(len, rows))
    side = lambda row, fill: [fill] * (width - len(row)) + row if left else row + [fill] * (width - len(row))  # noqa: E731
    return torch.tensor([side(row, pad) for row in rows]), torch.tensor([side([1] * len(row), 0) for row in rows])


def train(job: dict, model, tokenizer, lora, rollouts: list, report) -> None:
    precision = job["train"]["precision"]
    config = GRPOConfig(output_dir="/tmp/unused", per_device_train_batch_size=MICRO_BATCH, num_generations=8, report_to=[], use_cpu=True, beta=0.0,
                        bf16=precision == "bf16", gradient_checkpointing=False, save_strategy="no", disable_tqdm=True)
    trainer = GRPOTrainer(model=model, reward_funcs=lambda completions, **_: [0.0] * len(completions), args=config, peft_config=lora,
                          train_dataset=Dataset.from_list([{"prompt": "x"}] * 8), processing_class=tokenizer)
    model = trainer.model
    model.train()
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-4, weight_decay=0.0)
    for step, rows in enumerate(rollouts):
        began = time.monotonic()
        batches = [rows[i:i + MICRO_BATCH] for i in range(0, len(rows), MICRO_BATCH)]
        trainer.current_gradient_accumulation_steps = len(batches)
        items = torch.tensor(sum(len(row[1]) for row in rows))
        for batch in batches:
            prompt_ids, prompt_mask = padded([row[0] for row in batch], True, tokenizer.pad_token_id)
            ids, mask = padded([row[1] for row in batch], False, tokenizer.pad_token_id)
            inputs = {"prompt_ids": prompt_ids, "prompt_mask": prompt_mask, "completion_ids": ids, "completion_mask": mask,
                      "advantages": torch.tensor([row[2] for row in batch], dtype=torch.float32), "num_items_in_batch": items}
            with trainer.compute_loss_context_manager():
                loss = trainer.compute_loss(model, inputs)
            loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        report(step + 1, sum(len(row[0]) + len(row[1]) for row in rows), time.monotonic() - began)


def generate(job: dict, model, tokenizer, lora, rollouts: list, report) -> None:
    model = get_peft_model(model, lora)
    model.eval()
    rollout = job["rollout"]
    for step, rows in enumerate(rollouts):
        ids, mask = padded([row[0] for row in rows], True, tokenizer.pad_token_id)
        torch.manual_seed(step)
        began = time.monotonic()
        with torch.no_grad():
            drawn = model.generate(input_ids=ids, attention_mask=mask, max_new_tokens=rollout["max_new_tokens"], do_sample=True, temperature=1.0,
                                   top_k=0, top_p=1.0, pad_token_id=tokenizer.pad_token_id)
        seconds, tokens = time.monotonic() - began, 0
        for row in drawn[:, ids.shape[1]:].tolist():
            tokens += row.index(tokenizer.eos_token_id) + 1 if tokenizer.eos_token_id in row else len(row)
        report(step + 1, tokens, seconds)


def main() -> None:
    what, job, run, dump, metrics = sys.argv[1], json.loads(Path(sys.argv[2]).read_text()), Path(sys.argv[3]), Path(sys.argv[4]), Path(sys.argv[5])
    torch.set_num_threads(job["train"]["threads"])
    path = job["model"]["path"]
    dtype = torch.bfloat16 if what == "generate" and job["train"]["precision"] == "bf16" else torch.float32
    model = AutoModelForCausalLM.from_pretrained(path, dtype=dtype)
    tokenizer = AutoTokenizer.from_pretrained(path)
    if tokenizer.pad_token_id is None:  # a tokenizer from a GGUF names none; any id will do, since it is masked
        tokenizer.pad_token = tokenizer.eos_token
    lora = LoraConfig(task_type="CAUSAL_LM", r=job["adapter"]["rank"], lora_alpha=job["adapter"]["alpha"], target_modules="all-linear")
    prompts = [json.loads(line)["ids"] for line in dump.read_text().splitlines()]
    rollouts = rollouts_of(run, prompts)
    if what == "generate":  # all prompts of a rollout, whether or not they taught anything
        lines = [[json.loads(line) for line in path.read_text().splitlines()] for path in sorted(run.glob("rollouts/rollout-*.jsonl"))]
        rollouts = [[(prompts[line["prompt"]],) for line in rollout] for rollout in lines]
    with metrics.open("w") as file:
        def report(step: int, tokens: int, seconds: float) -> None:
            print(json.dumps({"event": "step", "step": step, "tokens": tokens, "step_seconds": seconds, "loss": 0.0}), file=file, flush=True)

        {"train": train, "generate": generate}[what](job, model, tokenizer, lora, rollouts, report)


if __name__ == "__main__":
    main()
