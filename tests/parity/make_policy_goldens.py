#!/usr/bin/env python3
"""Writes tests/rollout/goldens/policy.json: losses by TRL's trainers for given completions and
rewards, in float64.

    python3 tests/parity/make_policy_goldens.py        # needs trl 1.16.0

The losses are TRL's own methods, called on stand-ins that hold the settings and return the
log-probabilities. Advantages are made as _generate_and_score_completions makes them, from the same
helpers. Each has two optimizer settings: ratios other than 1, and ratios of 1 (no old
log-probabilities). Each case holds the loss and its gradient to every log-probability.
"""
import json
import types
from collections import defaultdict
from pathlib import Path

import torch
import trl
from transformers import AutoModelForCausalLM
from trl.trainer.grpo_trainer import GRPOTrainer
from trl.trainer.rloo_trainer import RLOOTrainer
from trl.trainer.utils import nanstd

torch.set_default_dtype(torch.float64)  # TRL computes in the default type: in float32 its deviations are off by 1e-8

OUT = Path(__file__).resolve().parents[1] / "rollout" / "goldens" / "policy.json"
MODEL = Path(__file__).resolve().parents[1] / "fixtures" / "tiny-llama"
LENGTHS = [[5, 3, 7, 1], [2, 6, 4, 4], [3, 3, 3, 3]]  # groups of four
REWARDS = [[1.0, 0.0, 0.25, 0.0], [0.5, 0.5, 1.5, -1.0], [1.0, 1.0, 1.0, 1.0]]
WIDTH = max(max(group) for group in LENGTHS)

# {name: (TRL's settings, forge's objective)}
CASES = {
    "grpo": (dict(loss_type="grpo", level="token", low=0.2, high=0.2, scale="group"),
             dict(mean="sequence", clip_high=0.2)),
    "grpo_delta": (dict(loss_type="grpo", level="token", low=0.2, high=0.2, scale="group", delta=1.5),
                   dict(mean="sequence", clip_high=0.2, dual_clip=1.5)),
    "grpo_kl": (dict(loss_type="grpo", level="token", low=0.2, high=0.2, scale="group", beta=0.04),
                dict(mean="sequence", clip_high=0.2, kl=0.04)),
    "dr_grpo": (dict(loss_type="dr_grpo", level="token", low=0.2, high=0.28, scale="none"), dict(type="dr_grpo")),
    "dapo": (dict(loss_type="dapo", level="token", low=0.2, high=0.28, scale="group"), dict(type="dapo")),
    "batch": (dict(loss_type="dapo", level="token", low=0.2, high=0.28, scale="batch"), dict(scale="batch")),
    "gspo": (dict(loss_type="grpo", level="sequence", low=3e-4, high=4e-4, scale="group"), dict(type="gspo")),
    "gspo_token_mean": (dict(loss_type="dapo", level="sequence", low=0.1, high=0.1, scale="group"),
                        dict(ratio="sequence", clip_low=0.1, clip_high=0.1)),
    "cispo": (dict(loss_type="cispo", level="token", low=0.2, high=2.0, scale="group"), dict(policy="cispo", clip_high=1)),
    "sapo": (dict(loss_type="sapo", level="token", low=0.2, high=0.2, scale="group"), dict(type="sapo", mean="sequence")),
    "rloo": (dict(loss_type="rloo", low=0.2, high=0.2), dict(type="rloo", kl=0)),
    # Truncated importance weights for a sampler's other log-probabilities
    # (vllm_importance_sampling_mode token_truncate).
    "grpo_truncated": (dict(loss_type="grpo", level="token", low=0.2, high=0.2, scale="group", correction=1.5),
                       dict(mean="sequence", clip_high=0.2)),
    "gspo_truncated": (dict(loss_type="dapo", level="sequence", low=0.1, high=0.1, scale="group", correction=1.2),
                       dict(ratio="sequence", clip_low=0.1, clip_high=0.1)),
    "cispo_truncated": (dict(loss_type="cispo", level="token", low=0.2, high=2.0, scale="group", correction=2.0),
                        dict(policy="cispo", clip_high=1)),
}


def numbers(seed: int, spread: float) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return spread * torch.randn(len(LENGTHS) * 4, WIDTH, generator=generator, dtype=torch.float64)


def advantages_of(settings: dict) -> torch.Tensor:
    """Returns advantages as trl/trainer/{grpo,rloo}_trainer.py make them of one generation batch.
    """
    rewards = torch.tensor(REWARDS, dtype=torch.float64)
    if settings["loss_type"] == "rloo":
        total, count = rewards.nansum(dim=1, keepdim=True), rewards.size(1)
        return (rewards - (total - rewards) / (count - 1)).flatten()
    centred = rewards - torch.nanmean(rewards, dim=1, keepdim=True)
    if settings["scale"] == "none":
        return centred.flatten()
    std = nanstd(rewards, dim=1).unsqueeze(1) if settings["scale"] == "group" else nanstd(rewards.flatten())
    return (centred / (std + 1e-4)).flatten()


def stand_in(settings: dict, logps: torch.Tensor) -> types.SimpleNamespace:
    accelerator = types.SimpleNamespace(num_processes=1, reduce=lambda x, reduction="sum": x, gather=lambda x: x,
                                        gather_for_metrics=lambda x: x)
    args = types.SimpleNamespace(use_bias_correction_kl=True, delta=settings.get("delta"), steps_per_generation=1,
                                 sapo_temperature_pos=1.0, sapo_temperature_neg=1.05)
    return types.SimpleNamespace(
        _get_per_token_logps_and_entropies=lambda *_, **__: (logps, torch.zeros_like(logps), None),
        aux_loss_enabled=False, top_entropy_quantile=1.0, off_policy_mask_threshold=None, args=args,
        importance_sampling_level=settings.get("level"), beta=settings.get("beta", 0.0), loss_type=settings["loss_type"],
        epsilon_low=settings["low"], epsilon_high=settings["high"], use_vllm="correction" in settings, vllm_importance_sampling_correction="correction" in settings,
        model=types.SimpleNamespace(training=True), current_gradient_accumulation_steps=1, max_completion_length=WIDTH,
        accelerator=accelerator, _entropy_bonus_enabled=False, _metrics={"train": defaultdict(list)})


def run(settings: dict, on_policy: bool) -> dict:
    lengths = torch.tensor(LENGTHS).flatten()
    mask = (torch.arange(WIDTH)[None, :] < lengths[:, None]).long()
    # Values are rounded to float32, which forge keeps of a rollout.
    old = (-1 + numbers(1, 0.5)).float().double()
    base = (-1 + numbers(2, 0.5)).float().double()
    drawn = (old + numbers(5, 0.4)).float().double()
    logps = (old if on_policy else old + numbers(3, 0.6)).clone().requires_grad_(True)
    inputs = {
        "prompt_ids": torch.zeros(len(lengths), 1, dtype=torch.long), "prompt_mask": torch.ones(len(lengths), 1, dtype=torch.long),
        "completion_ids": torch.zeros_like(mask), "completion_mask": mask, "advantages": advantages_of(settings),
        "old_per_token_logps": None if on_policy else old, "ref_per_token_logps": base, "num_items_in_batch": mask.sum().double(),
        "old_logps": ((logps.detach() if on_policy else old) * mask).sum(1)}
    if "correction" in settings:  # follows _generate_and_score_completions
        inputs["importance_sampling_ratio"] = torch.clamp(torch.exp((old - drawn) * mask), max=settings["correction"])
    trainer = RLOOTrainer if settings["loss_type"] == "rloo" else GRPOTrainer
    loss = trainer._compute_loss(stand_in(settings, logps), None, inputs)
    loss.backward()
    cut = [[row[:n].tolist() for row, n in zip(values, lengths)] for values in (logps.detach(), old, base, logps.grad, drawn)]
    return {"on_policy": on_policy, "advantages": inputs["advantages"].tolist(), "loss": loss.item(), "logps": cut[0],
            "old_logps": cut[1], "base_logps": cut[2], "gradient": cut[3],
            **({"drawn_logps": cut[4], "correction": settings["correction"]} if "correction" in settings else {})}


def whole_step(settings: dict, temperature: float) -> dict:
    """Returns the tiny Llama's gradient, in float64, through TRL's loss.

    For each weight it has the norm and the product with cos(0, 1, 2, …).
    """
    model = AutoModelForCausalLM.from_pretrained(MODEL, dtype=torch.float64)
    prompts = [[(13 * g + 5 * t + 3) % 380 for t in range(4 + g)] for g in range(len(LENGTHS))]
    ids = [[[(37 * (4 * g + i) + 11 * t * t + 9) % 380 for t in range(n)] for i, n in enumerate(group)] for g, group in enumerate(LENGTHS)]
    rows, lengths = [], [n for group in LENGTHS for n in group]
    for g, group in enumerate(ids):
        for completion in group:
            text = torch.tensor([prompts[g] + completion])
            logits = model(text).logits[0, len(prompts[g]) - 1:-1] / temperature
            picked = logits.log_softmax(-1).gather(1, torch.tensor(completion)[:, None])[:, 0]
            rows.append(torch.cat([picked, picked.new_zeros(WIDTH - len(completion))]))
    logps = torch.stack(rows)
    mask = (torch.arange(WIDTH)[None, :] < torch.tensor(lengths)[:, None]).long()
    old = (logps.detach() - numbers(4, 0.2)).float().double()
    inputs = {"prompt_ids": torch.zeros(len(rows), 1, dtype=torch.long), "prompt_mask": torch.ones(len(rows), 1, dtype=torch.long),
              "completion_ids": torch.zeros_like(mask), "completion_mask": mask, "advantages": advantages_of(settings),
              "old_per_token_logps": old, "num_items_in_batch": mask.sum().double(), "old_logps": (old * mask).sum(1)}
    trainer = RLOOTrainer if settings["loss_type"] == "rloo" else GRPOTrainer
    loss = trainer._compute_loss(stand_in(settings, logps), None, inputs)
    loss.backward()
    wave = lambda grad: (grad.flatten() * torch.cos(torch.arange(grad.numel(), dtype=torch.float64))).sum().item()  # noqa: E731
    return {"temperature": temperature, "prompts": prompts, "ids": ids, "loss": loss.item(),
            "old_logps": [row[:n].tolist() for row, n in zip(old, lengths)],
            "gradient": {name: [p.grad.norm().item(), wave(p.grad)] for name, p in model.named_parameters()}}


def main() -> None:
    assert trl.__version__ == "1.16.0", trl.__version__
    cases = {name: {"objective": forge, "runs": [run(settings, False), run(settings, True)]}
             for name, (settings, forge) in CASES.items()}
    OUT.parent.mkdir(parents=True, exist_ok=True)
    OUT.write_text(json.dumps({"trl": trl.__version__, "torch": torch.__version__, "max_new_tokens": WIDTH, "rewards": REWARDS,
                               "cases": cases, "steps": {name: {"objective": CASES[name][1], **whole_step(CASES[name][0], temperature)}
                                                   for name, temperature in (("grpo", 1.0), ("dapo", 0.7), ("gspo", 1.0), ("cispo", 1.0),
                                                                             ("dr_grpo", 1.0), ("rloo", 1.0))}}) + "\n")
    print(f"{OUT}: {len(cases)} cases")


if __name__ == "__main__":
    main()
