"""Completions that are sampled, scored by a judge, and recorded."""
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

from lab import Lab


JUDGE = """import json, os, random, sys, time
print(json.dumps({"ready": 1}), flush=True)
for line in sys.stdin:
    item = json.loads(line)
    if "id" not in item:
        continue
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "asked"), "a") as file:
        file.write("x")
    reply = {"id": item["id"], "score": random.random()}
    MODE
    print(json.dumps(reply), flush=True)
"""


def policy(lab: Lab, mode: str = "", **more) -> dict:
    """Returns sections of a job that samples completions. With `mode`, a process scores them and
    runs that statement before it answers.
    """
    (lab.folder / "prompts.jsonl").write_text("".join(json.dumps({"prompt": f"What is {i} and {i * i % 7}?"}) + "\n" for i in range(24)))
    (lab.folder / "judge.py").write_text(JUDGE.replace("MODE", mode or "pass"))
    lab.job["train"] = {"max_steps": 6, "precision": "fp32"}
    judge = {"name": "judge", "type": "command", "command": [sys.executable, str(lab.folder / "judge.py")], "timeout": 0.5}
    plain = [{"type": "length", "max": 6, "slack": 30, "unit": "characters"}, {"type": "repetition", "weight": 0}]
    return {"objective": {"type": "grpo"}, "data": {"train": [{"path": str(lab.folder / "prompts.jsonl")}], "eval_fraction": 0.2},
            "rollout": {"prompts_per_step": 3, "samples_per_prompt": 4, "max_new_tokens": 10}, "rewards": [judge] if mode else plain,
            "checkpoint": {"every_steps": 100}, **more}


def completions_are_drawn_scored_and_recorded(lab: Lab):
    lab.run(**policy(lab, eval={"every_steps": 3, "at_start": True}))
    rollouts, evals = lab.events("rollout"), lab.events("eval")
    assert [e["step"] for e in rollouts] == [1, 2, 3, 4, 5, 6] and [e["step"] for e in evals] == [0, 3, 6]
    assert all(set(e["rewards"]) == {"length", "repetition"} and e["completions"] == 12 for e in rollouts)
    assert all(e["sampler_gap"] is None or e["sampler_gap"] < 1e-4 for e in rollouts), rollouts
    assert all(e["eval_loss"] == -e["eval_reward"] for e in evals)
    assert all(e["kv_bytes"] > 0 and e["provider_version"] == f"step-{e['step'] - 1:06}" for e in rollouts), rollouts
    lines = [json.loads(line) for line in (lab.folder / "run/rollouts/rollout-000005.jsonl").read_text().splitlines()]
    mean = sum(line["reward"] for line in lines) / len(lines)
    assert len(lines) == 12 and abs(mean - rollouts[5]["reward"]) < 1e-12
    assert all(len(line["ids"]) == len(line["sampler_logps"]) for line in lines)
    shown = subprocess.run([lab.forge, "rollouts", str(lab.folder / "run"), "--best", "--limit", "2"], capture_output=True, text=True, check=True)
    best = max(line["reward"] for line in lines)
    assert shown.stdout.startswith("rollout 6 of 6") and f"reward {best:.4g} (length" in shown.stdout, shown.stdout
    page = (lab.folder / "run/report.html").read_text()
    assert all(word in page for word in ("Rewards by name", "held out, greedy", "Decoder against trainer", "repetition")), page[:500]
    report = json.loads((lab.folder / "run/report.json").read_text())
    assert {sample["which"] for sample in report["samples"]} == {"best", "median", "worst"}
    # In fp32 tokens do not depend on how many are sampled at once.
    lab.run(name="narrow", **(policy(lab, eval={"every_steps": 3, "at_start": True}) | {"rollout": {
        "prompts_per_step": 3, "samples_per_prompt": 4, "max_new_tokens": 10, "slots": 4}}))
    for name in ("adapter/adapter_model.safetensors", "rollouts/rollout-000003.jsonl"):
        assert (lab.folder / "run" / name).read_bytes() == (lab.folder / "narrow" / name).read_bytes(), name


def what_is_guessed_ahead_changes_nothing(lab: Lab):
    def drawn(name: str, code: int = 0, **rollout) -> str:
        sections = policy(lab, eval={"every_steps": 3})
        # Nearly greedy, an untrained model repeats itself; completions that end at a letter leave
        # their slots.
        sections["rollout"] |= {"max_new_tokens": 60, "temperature": 0.3, "stop": list("abcdefgh"), **rollout}
        return lab.run(code=code, name=name, **sections)

    drawn("plain")
    for guess, slots in ((1, 12), (4, 12), (7, 8)):
        drawn("guessed", lookup_tokens=guess, slots=slots)
        rollouts = lab.events("rollout", "guessed")
        right, all_of_them = sum(e["lookup_right"] for e in rollouts), sum(e["lookup_guessed"] for e in rollouts)
        assert 0 < right < all_of_them, rollouts
        for number in range(6):
            file = f"rollouts/rollout-{number:06}.jsonl"
            assert (lab.folder / "plain" / file).read_bytes() == (lab.folder / "guessed" / file).read_bytes(), (guess, slots, number)
        assert lab.adapter("plain") == lab.adapter("guessed")
        shutil.rmtree(lab.folder / "guessed")
    assert all("lookup_right" not in e for e in lab.events("rollout", "plain"))
    lab.job["provider"] = "reference"
    heard = drawn("refused", code=3, lookup_tokens=2)
    assert "rollout.lookup_tokens" in heard and "provider: fused" in heard, heard
    del lab.job["provider"]
    heard = drawn("refused", code=3, lookup_tokens=2, provider="http", server={"url": "http://127.0.0.1:1/v1"})
    assert "rollout.lookup_tokens" in heard and "the server generates" in heard, heard


def the_largest_ratio_is_told(lab: Lab):
    sections = policy(lab, log={"every_steps": 2}, optimizer={"learning_rate": 0.02})
    sections["objective"] |= {"epochs_per_rollout": 2}
    lab.run(**sections)
    steps = [e for e in lab.events("step") if "ratio" in e]
    # The first step of a rollout has ratios of 1, so the mean of both lies between 1 and the
    # second's.
    assert steps and all(e["ratio_most"] > max(1, e["ratio"]) for e in steps), steps


def the_divergence_is_measured_where_it_is_asked_for(lab: Lab):
    sections = policy(lab)
    lab.run(name="plain", **sections)
    sections["objective"] |= {"kl": {"measure": True}}
    lab.run(**sections)
    assert lab.adapter() == lab.adapter("plain"), "what is measured only changed what is learnt"
    kl = [e["kl"] for e in lab.events("step")]
    assert kl[0] == 0 and kl[-1] > 0 and all("kl" not in e for e in lab.events("step", "plain")), kl
    assert "from the base" in (lab.folder / "run/report.html").read_text()
    sections["objective"] |= {"kl": {"measure": True, "weight": 0.1}}
    assert "objective.kl.measure: has no effect" in lab.run(name="both", code=3, **sections)


def judges_that_fail_never_score_nothing_as_zero(lab: Lab):
    for mode, said in [('reply["score"] = float("nan")', "judge"), ("os._exit(3)", "judge"), ("time.sleep(60)", "judge"),
                       ('print("hello", flush=True)', "judge"), ("print(json.dumps(reply), flush=True)", "judge")]:
        text = lab.run(code=5, name="bad", **policy(lab, mode))
        assert said in text, (mode, text)
        assert not (lab.folder / "bad/metrics.jsonl").exists() or not lab.events("rollout", "bad"), mode
        shutil.rmtree(lab.folder / "bad", ignore_errors=True)
    # One in three has no score: it leaves its group and is counted.
    sections = policy(lab, 'reply["score"] = None if item["id"] % 3 == 0 else 1 + item["id"]')
    sections["rewards"][0] |= {"on_error": "unscored", "max_unscored": 1}
    lab.run(**sections)
    for event in lab.events("rollout"):
        assert event["unscored"] == event["rewards"]["judge"]["unscored"] == 4 and event["rewards"]["judge"]["min"] > 1, event


def a_killed_run_takes_the_scores_that_it_had(lab: Lab):
    job = lab.folder / "run.json"
    job.write_text(json.dumps({**lab.job, **policy(lab, "time.sleep(0.01)"), "train": {"max_steps": 8, "precision": "fp32"}}))
    process = subprocess.Popen([lab.forge, "run", str(job)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    third = lab.folder / "run/rollouts/rollout-000002.jsonl"
    end = time.monotonic() + 60
    while not third.exists() and time.monotonic() < end:
        time.sleep(0.01)
    engine = [int(word) for word in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()]
    for pid in [*engine, process.pid]:  # the engine first: it would write a checkpoint without scores
        os.kill(pid, signal.SIGKILL)
    process.wait()
    time.sleep(1)
    before = {path.name: path.read_text() for path in (lab.folder / "run/rollouts").glob("*.jsonl")}
    assert len(before) >= 3 and not list((lab.folder / "run").glob("checkpoints/step-*"))
    (lab.folder / "asked").unlink()
    subprocess.run([lab.forge, "run", str(job)], capture_output=True, check=True, timeout=120)
    after = {path.name: path.read_text() for path in (lab.folder / "run/rollouts").glob("*.jsonl")}
    assert len(after) == 8 and all(after[name] == text for name, text in before.items())
    asked = len((lab.folder / "asked").read_text())
    drawn = sum(text.count("\n") for name, text in after.items() if name not in before)
    assert asked == drawn + lab.events("eval")[0]["eval_completions"], (asked, drawn)


def lambda_by_length_is_no_use_for_short_answers(lab: Lab):
    sections = policy(lab) | {"objective": {"type": "vapo", "value": {"pretrain_steps": 1}}}
    assert "objective.lambda_length 0.05 makes lambda 0 for completions of up to 20 tokens" in lab.run(command="plan", **sections)
    sections["rollout"] = sections["rollout"] | {"max_new_tokens": 40}
    assert "makes lambda 0" not in lab.run(command="plan", **sections)
    sections["rollout"] = sections["rollout"] | {"max_new_tokens": 10}
    sections["objective"] |= {"lambda_policy": 0.95}
    assert "makes lambda 0" not in lab.run(command="plan", **sections)
