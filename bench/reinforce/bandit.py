"""A bandit: one token is the whole answer. Two of the sixteen tokens are right; the prompt says
which.
"""
from pathlib import Path

import tiny

OBJECTIVES = ["grpo", "dr_grpo", "rloo", "reinforce++", "gspo", "ppo"]
LETTERS = "abcdefghijklm"  # 16 tokens with the three special ones
PROMPTS, STEPS, MARK = 8, 100, 0.95
WANTED = f"the mean reward of a rollout is above {MARK} within {STEPS} steps"


def learn(forge: str, folder: Path, objective: str, seed: int, settings: list) -> dict:
    tiny.write_model(folder / "model", LETTERS, seed, layers=1, width=32, inner=64, heads=2)
    tiny.write_rows(folder / "train.jsonl", [{"prompt": LETTERS[i], "one": LETTERS[(3 * i + 1) % 13], "other": LETTERS[(3 * i + 6) % 13]}
                                             for i in range(PROMPTS)])
    # Steps of a rollout after the first have a ratio other than 1, which is where most objectives
    # differ.
    form = {"type": objective} if objective == "reinforce++" else {"type": objective, "updates_per_rollout": 2}
    policy = tiny.run(forge, folder, objective.rstrip("+"), tiny.changed({
        "seed": seed, "adapter": {"type": "none"}, "hardware": {"device": "cpu"}, "log": {"tensorboard": False},
        "model": {"path": str(folder / "model")}, "objective": form, "data": {"train": str(folder / "train.jsonl"), "max_length": 8},
        "rollout": {"prompts_per_step": PROMPTS, "samples_per_prompt": 16, "max_new_tokens": 1},
        "rewards": [{"name": "one", "type": "exact", "answer": "one"}, {"name": "other", "type": "exact", "answer": "other"}],
        "train": {"max_steps": STEPS, "precision": "fp32", "threads": 1}, "optimizer": {"learning_rate": 1e-2, "weight_decay": 0},
        "schedule": {"type": "constant"}}, settings))
    reward = [[e["step"], round(e["reward"], 4)] for e in tiny.events(policy, "rollout")]
    best = max(value for _, value in reward)
    return {"reached": best > MARK, "reward": reward, "seconds": tiny.seconds_of(policy),
            "said": f"reward {reward[0][1]:.2f} -> {reward[-1][1]:.2f} (best {best:.2f})"}
