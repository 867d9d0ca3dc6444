"""Single-digit sums, learned by a random Llama over the characters of "3+4=7".

The model first learns the sums from labels that forget the carry in seven of ten cases, so that
about half of its greedy answers are right. It then learns by reinforcement on the sums that are not
held out, with `exact` as the only reward. 20 sums are held out, so that one is 5 %.

Labels that are wrong by chance left the outcome to chance as well: what must be unlearned then
differs from sum to sum, so that rewards of 80 sums say little about the other 20, and half of
fourteen seeds reached the mark."""
import random
from pathlib import Path

import tiny

OBJECTIVES = ["grpo", "ppo", "dapo", "vapo"]
STEPS, MARK = 200, 0.9
WANTED = f"{MARK:.0%} of the held-out sums are answered greedily at some point of {STEPS} steps"


def write_data(folder: Path, seed: int) -> None:
    draw = random.Random(seed)
    sums = [(a, b) for a in range(10) for b in range(10)]
    draw.shuffle(sums)
    rows = [{"prompt": f"{a}+{b}=", "answer": str(a + b)} for a, b in sums]
    tiny.write_rows(folder / "held_out.jsonl", rows[:20])
    tiny.write_rows(folder / "train.jsonl", rows[20:])
    noisy = [{"prompt": row["prompt"], "completion": row["answer"][-1] if draw.random() < 0.7 else row["answer"]} for _ in range(12) for row in rows]
    draw.shuffle(noisy)
    tiny.write_rows(folder / "noisy.jsonl", noisy)


def learn(forge: str, folder: Path, objective: str, seed: int, settings: list) -> dict:
    tiny.write_model(folder / "model", "0123456789+=", seed, layers=2, width=64, inner=192, heads=4)
    write_data(folder, seed)
    common = {"seed": seed, "adapter": {"type": "none"}, "hardware": {"device": "cpu"}, "log": {"tensorboard": False}}
    sft = tiny.run(forge, folder, "sft", {
        **common, "model": {"path": str(folder / "model")}, "objective": "sft", "data": {"train": str(folder / "noisy.jsonl"), "max_length": 16},
        "train": {"epochs": 9, "global_batch_size": 64, "precision": "fp32", "threads": 1},
        "optimizer": {"learning_rate": 3e-3}, "eval": {"samples": 0}})
    policy = tiny.run(forge, folder, objective, tiny.changed({
        **common, "model": {"path": str(sft / "model")}, "objective": {"type": objective},
        "data": {"train": str(folder / "train.jsonl"), "eval": str(folder / "held_out.jsonl"), "max_length": 16},
        "rollout": {"prompts_per_step": 16, "samples_per_prompt": 8, "max_new_tokens": 3}, "rewards": [{"type": "exact"}],
        "train": {"max_steps": STEPS, "precision": "fp32", "threads": 1}, "optimizer": {"learning_rate": 2e-4, "weight_decay": 0.1},
        "schedule": {"type": "constant"}, "eval": {"at_start": True, "every_steps": 20, "prompts": 20}, "checkpoint": {"keep_best": 0}}, settings))
    rollouts, evals = tiny.events(policy, "rollout"), tiny.events(policy, "eval")
    held_out = [[e["step"], round(e["eval_reward"], 4)] for e in evals]
    reward = [[e["step"], round(e["reward"], 4)] for e in rollouts if e["reward"] is not None]  # null: no group was kept
    best = max(value for _, value in held_out)
    return {"reached": best >= MARK, "held_out": held_out, "reward": reward,
            "flat_share": [[e["step"], round(e["flat_groups"] / max(1, e["groups"]), 4)] for e in rollouts],
            "entropy": [[e["step"], round(e["entropy"], 4)] for e in rollouts if e["entropy"] is not None],
            "seconds": tiny.seconds_of(policy),
            "said": f"held out {held_out[0][1]:.2f} -> {held_out[-1][1]:.2f} (best {best:.2f}), reward {reward[0][1]:.2f} -> {reward[-1][1]:.2f}"}
