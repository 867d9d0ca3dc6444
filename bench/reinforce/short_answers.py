"""SmolLM2-135M-Instruct learns to answer in few words.

30 questions are trained; 10 are held out and answered greedily. The reward falls with the length
and with being cut off. Repetition, and whether a word of the question comes back, are only
measured."""
import json
import random
import sys
from pathlib import Path

import tiny

ROOT = Path(__file__).resolve().parents[2]
OBJECTIVES = ["grpo"]
STEPS = 30
WANTED = ("on held-out questions the share of answers that end rises by 0.3, or to 1 where it began above 0.7, and their mean length falls "
          "by 30 % within 30 steps, and repetition does not rise")
MODEL = None  # the model's path; learnable.py sets it

ON_TOPIC = """import json, re, sys
words = lambda text: {w for w in re.findall("[a-z]+", text.lower()) if len(w) > 3 and w not in ("what", "which", "many", "does", "have", "that", "where")}
json.loads(sys.stdin.readline())
print(json.dumps({"ready": 1}), flush=True)
for line in sys.stdin:
    item = json.loads(line)
    if "id" in item:
        question = item["messages"][-1]["content"] if item["messages"] else item["prompt"]
        print(json.dumps({"id": item["id"], "score": float(bool(words(question) & words(item["completion"])))}), flush=True)
"""


def learn(forge: str, folder: Path, objective: str, seed: int, settings: list) -> dict:
    if not MODEL:
        raise SystemExit("short answers: --model names SmolLM2-135M-Instruct, a folder or a .gguf")
    folder.mkdir(parents=True)
    (folder / "on_topic.py").write_text(ON_TOPIC)
    rows = [json.loads(line) for line in (ROOT / "examples" / "plain-questions.jsonl").read_text().splitlines()]
    random.Random(seed).shuffle(rows)
    tiny.write_rows(folder / "held_out.jsonl", rows[:10])
    tiny.write_rows(folder / "train.jsonl", rows[10:])
    policy = tiny.run(forge, folder, objective, tiny.changed({
        "seed": seed, "model": {"path": MODEL}, "adapter": {"type": "lora", "rank": 8, "alpha": 16},
        "objective": {"type": objective, "kl": {"measure": True}}, "hardware": {"device": "cpu"}, "log": {"tensorboard": False},
        "data": {"train": str(folder / "train.jsonl"), "eval": str(folder / "held_out.jsonl"), "max_length": 128},
        "rollout": {"prompts_per_step": 4, "samples_per_prompt": 8, "max_new_tokens": 32},
        "rewards": [{"name": "brief", "type": "length", "max": 8, "slack": 24, "unit": "tokens"},
                    {"name": "ends", "type": "overlong", "max": 32, "buffer": 1},
                    {"name": "repeats", "type": "repetition", "ngram": 2, "weight": 0},
                    {"name": "on_topic", "type": "command", "command": [sys.executable, str(folder / "on_topic.py")], "weight": 0}],
        "train": {"max_steps": STEPS}, "optimizer": {"learning_rate": 1e-4}, "schedule": {"type": "constant"},
        "eval": {"every_steps": 10, "at_start": True}, "checkpoint": {"keep_best": 0}}, settings))
    evals = tiny.events(policy, "eval")
    curve = [{"step": e["step"], "reward": e["eval_reward"], "ended": 1 - e["eval_truncated_share"], "tokens": e["eval_completion_tokens"]["mean"],
              "distinct_2": e["eval_distinct_2"], **{name: part["mean"] for name, part in e["eval_rewards"].items()}} for e in evals]
    first, good = curve[0], lambda e: (e["ended"] >= min(1, curve[0]["ended"] + 0.3) and e["tokens"] <= 0.7 * curve[0]["tokens"]  # noqa: E731
                                       and e["repeats"] >= curve[0]["repeats"] - 1e-9)
    at = next((e["step"] for e in curve[1:] if good(e)), None)
    last = curve[-1]
    kl = [[e["step"], round(e["kl"], 5)] for e in tiny.events(policy, "step") if e.get("kl") is not None]
    return {"reached": at is not None, "reached_at": at, "held_out": curve, "kl_to_base": kl, "seconds": tiny.seconds_of(policy),
            "reward": [[e["step"], round(e["reward"], 4)] for e in tiny.events(policy, "rollout")],
            "said": f"ended {first['ended']:.1f} -> {last['ended']:.1f}, tokens {first['tokens']:.1f} -> {last['tokens']:.1f}, repetition "
                    f"{first['repeats']:.3f} -> {last['repeats']:.3f}, on_topic {first['on_topic']:.1f} -> {last['on_topic']:.1f}, KL to base "
                    f"{kl[-1][1] if kl else float('nan'):.3f} a token, reached at step {at}"}
