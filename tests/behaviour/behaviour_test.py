#!/usr/bin/env python3
"""What a run does when things go wrong or settings change, with the real engine on the tiny model.

    python3 tests/behaviour/behaviour_test.py build/bin/forge [--only NAME]

Standard library only; prints "N passed, N failed".
"""
import argparse
import json
import os
import re
import pty
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MODEL = ROOT / "tests" / "fixtures" / "tiny-llama"
ROWS = ROOT / "tests" / "parity" / "goldens" / "tiny-batches.jsonl"


class Lab:
    """One folder with a job in it."""

    def __init__(self, forge: str, folder: Path):
        self.forge, self.folder = forge, folder
        lines = ROWS.read_text().splitlines()
        (folder / "train.jsonl").write_text("\n".join(lines[:48]) + "\n")
        (folder / "eval.jsonl").write_text("\n".join(lines[48:64]) + "\n")
        self.job = {
            "version": 1, "name": "run", "seed": 7, "output_dir": str(folder),
            "model": {"path": str(MODEL)}, "adapter": {"type": "lora", "rank": 4, "alpha": 8},
            "data": {"train": [{"path": str(folder / "train.jsonl"), "format": "tokens"}]},
            "train": {"max_steps": 12, "global_batch_size": 4}, "optimizer": {"learning_rate": 5e-3},
            "checkpoint": {"every_steps": 4},
        }

    def run(self, *options: str, code: int = 0, name: str = "run", command: str = "run", **sections) -> str:
        """Writes the job with changed sections, gives it to a command, checks the exit code. Returns what was said."""
        job = json.loads(json.dumps(self.job)) | {"name": name}
        for section, values in sections.items():
            job[section] = job.get(section, {}) | values if isinstance(values, dict) else values
        path = self.folder / f"{name}.json"
        path.write_text(json.dumps(job))
        done = subprocess.run([self.forge, command, str(path), *options], capture_output=True, text=True, timeout=120)
        said = done.stdout + done.stderr
        assert done.returncode == code, f"exit {done.returncode}, expected {code}:\n{said[-2000:]}"
        return said

    def events(self, kind: str, name: str = "run") -> list:
        lines = (self.folder / name / "metrics.jsonl").read_text().splitlines()
        return [e for e in map(json.loads, lines) if e["event"] == kind]

    def losses(self, name: str = "run") -> list:
        return [e["loss"] for e in self.events("step", name)]

    def adapter(self, name: str = "run") -> bytes:
        return (self.folder / name / "adapter" / "adapter_model.safetensors").read_bytes()

    def checkpoints(self, name: str = "run") -> list:
        return sorted(p.name for p in (self.folder / name / "checkpoints").iterdir())

    def report(self, name: str = "run") -> dict:
        return json.loads((self.folder / name / "report.json").read_text())

    def evaluate(self, *what: str, code: int = 0) -> str:
        """Runs forge eval on the held-out rows. Returns the loss it printed, or what it said."""
        command = [self.forge, "eval", *what, "--data", str(self.folder / "eval.jsonl")]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        assert done.returncode == code, f"exit {done.returncode}, expected {code}:\n{done.stderr[-2000:]}"
        return done.stdout or done.stderr

    def changed_adapter(self, **settings) -> str:
        """The run's adapter beside it, with other settings in adapter_config.json."""
        folder = self.folder / "changed-adapter"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(self.folder / "run" / "adapter", folder)
        config = json.loads((folder / "adapter_config.json").read_text())
        (folder / "adapter_config.json").write_text(json.dumps(config | settings))
        return str(folder)

    def with_eval(self, **eval_settings) -> dict:
        return {"data": {"eval": [{"path": str(self.folder / "eval.jsonl"), "format": "tokens"}]}, "eval": eval_settings}


def early_stopping_exports_the_best(lab: Lab):
    # 48 rows again and again: it overfits, and the held-out loss rises.
    settings = lab.with_eval(every_steps=5, early_stopping={"patience": 3}) | {
        "train": {"max_steps": 400}, "optimizer": {"learning_rate": 2e-2}, "schedule": {"type": "constant"}}
    lab.run(**settings)
    report, evals = lab.report(), lab.events("eval")
    best = min(evals, key=lambda e: e["eval_loss"])["step"]
    assert report["stopped_early"] and report["step"] == best + 15, (report["step"], best)
    assert report["exported"]["step"] == best, report["exported"]
    assert lab.adapter() == (lab.folder / f"run/checkpoints/step-{best:06d}/adapter_model.safetensors").read_bytes()
    said = lab.run(**settings)
    assert "finished" in said, said


def retention_keeps_last_and_best(lab: Lab):
    lab.run(**lab.with_eval(every_steps=2), checkpoint={"every_steps": 2, "keep_last": 2, "keep_best": 1})
    best = min(lab.events("eval"), key=lambda e: e["eval_loss"])["step"]
    assert lab.checkpoints() == sorted({f"step-{s:06d}" for s in (10, 12, best)}), lab.checkpoints()


def a_seed_repeats_every_bit(lab: Lab):
    settings = {"adapter": {"dropout": 0.1}, "train": {"neftune_alpha": 5}}
    for name in ("a", "b"):
        lab.run(name=name, **settings)
    lab.run(name="c", seed=8, **settings)
    lab.run(name="d")
    assert lab.adapter("a") == lab.adapter("b")
    assert lab.losses("a") == lab.losses("b")
    assert lab.losses("a") != lab.losses("c") and lab.losses("a") != lab.losses("d")


def a_loss_that_is_not_finite_ends_the_run(lab: Lab):
    said = lab.run(code=7, optimizer={"learning_rate": 1e30, "type": "sgd"}, train={"max_grad_norm": 0})
    assert "not finite" in said and "learning_rate" in said, said
    for path in (lab.folder / "run/checkpoints").glob("*"):
        assert b"nan" not in (path / "state.json").read_bytes().lower()


def skipped_steps_are_counted_and_bounded(lab: Lab):
    lab.run(code=7, optimizer={"learning_rate": 1e30, "type": "sgd"}, train={"max_grad_norm": 0, "on_nan": "skip", "max_steps": 80})
    assert sum(e["skipped"] for e in lab.events("step")) >= 50


def a_damaged_checkpoint_is_passed_over(lab: Lab):
    lab.run(name="whole")
    lab.run()
    (lab.folder / "run/report.json").unlink()
    shutil.rmtree(lab.folder / "run/adapter")
    newest = lab.folder / "run/checkpoints/step-000012/optimizer.safetensors"
    data = bytearray(newest.read_bytes())
    data[-5] ^= 1
    newest.write_bytes(data)
    said = lab.run()
    assert "damaged" in said, said
    assert lab.adapter() == lab.adapter("whole")
    assert [e["step"] for e in lab.events("step")] == list(range(1, 13))


def every_optimizer_learns_and_resumes(lab: Lab):
    # Wide enough factors that adamw_8bit keeps their state in 8 bits.
    adapter = {"adapter": {"rank": 160, "alpha": 160}}
    for kind, rate in (("adamw_8bit", 2e-3), ("lion", 5e-4), ("sgd", 0.5)):
        optimizer = {"type": kind, "learning_rate": rate} | ({"momentum": 0.9} if kind == "sgd" else {})
        lab.run(name=kind, optimizer=optimizer, **adapter)
        whole, losses = lab.adapter(kind), lab.losses(kind)
        assert losses[-1] < losses[0] - 0.05, (kind, losses)
        state = (lab.folder / kind / "checkpoints/step-000012/optimizer.safetensors").read_bytes()
        assert (b"exp_avg_8bit." in state) == (kind == "adamw_8bit")
        lab.run("--fresh", name=kind, optimizer=optimizer, **adapter)
        assert lab.adapter(kind) == whole, kind
        # The last checkpoint goes, and the run continues from the one before it.
        (lab.folder / kind / "report.json").unlink()
        shutil.rmtree(lab.folder / kind / "adapter")
        shutil.rmtree(lab.folder / kind / "checkpoints/step-000012")
        lab.run(name=kind, optimizer=optimizer, **adapter)
        assert lab.adapter(kind) == whole and lab.losses(kind) == losses, kind


def settings_that_do_not_matter_may_change(lab: Lab):
    lab.run(train={"max_steps": 6})
    (lab.folder / "run/report.json").unlink()
    lab.run(train={"max_steps": 6}, checkpoint={"every_steps": 3}, log={"every_steps": 2})
    said = lab.run(train={"max_steps": 6}, optimizer={"learning_rate": 1e-4}, code=3)
    assert "optimizer.learning_rate" in said and "--fresh" in said, said


def an_extended_run_goes_on(lab: Lab):
    lab.run(train={"max_steps": 6}, schedule={"type": "constant"})
    lab.run("--extend", train={"max_steps": 12}, schedule={"type": "constant"})
    lab.run(name="whole", schedule={"type": "constant"})
    assert lab.losses() == lab.losses("whole"), (lab.losses(), lab.losses("whole"))
    assert lab.adapter() == lab.adapter("whole")


def two_processes_never_share_a_folder(lab: Lab):
    lab.job["train"]["max_steps"] = 4000
    lab.job["train"]["deterministic"] = False
    (lab.folder / "run.json").write_text(json.dumps(lab.job))
    first = subprocess.Popen([lab.forge, "run", str(lab.folder / "run.json")], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        for _ in range(200):
            if (lab.folder / "run/metrics.jsonl").exists():
                break
            time.sleep(0.05)
        said = lab.run(code=5)
        assert "another process" in said, said
    finally:
        first.terminate()
        first.wait(30)
    assert first.returncode in (0, 75), first.returncode


def bf16_learns_like_fp32(lab: Lab):
    lab.run(name="wide")
    lab.run(name="narrow", train={"precision": "bf16"})
    for wide, narrow in zip(lab.losses("wide"), lab.losses("narrow")):
        assert abs(wide - narrow) < 0.03 * wide, (wide, narrow)
    lab.run(name="bare", train={"precision": "bf16", "master_weights": False})
    assert lab.losses("bare")[-1] < lab.losses("bare")[0]


def a_full_disk_is_said_and_leaves_no_litter(lab: Lab):
    job = lab.folder / "run.json"
    job.write_text(json.dumps(lab.job))
    # RLIMIT_FSIZE: every file past 20 KiB is refused, as a full disk refuses it.
    done = subprocess.run(["bash", "-c", f"ulimit -f 20; exec {lab.forge} run {job}"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 5, (done.returncode, done.stderr[-800:])
    left = [p.name for p in (lab.folder / "run").rglob("*") if ".tmp-" in p.name or p.name.startswith(".trash")]
    assert not left, left
    lab.run()


def no_file_of_a_run_ends_in_a_bug(lab: Lab):
    settings = {"checkpoint": {"every_steps": 2, "keep_last": 3}, "train": {"max_steps": 6}}
    lab.run(name="whole", **settings)
    adapter, checkpoints = lab.adapter("whole"), "checkpoints/step-000006/"

    def spoilt(path: str, change, code: int, said: str, finished: bool = False):
        """A copy of the run with one file changed, given to the same command."""
        run = lab.folder / "run"
        shutil.rmtree(run, ignore_errors=True)
        shutil.copytree(lab.folder / "whole", run)
        if not finished:
            (run / "report.json").unlink()
        (run / path).write_bytes(change((run / path).read_bytes() if (run / path).exists() else b""))
        told = lab.run(code=code, **settings)
        assert said in told, (path, told[-800:])
        assert code or lab.adapter() == adapter, path

    def key(name: str, value):
        return lambda content: json.dumps(json.loads(content) | {name: value}).encode()

    def amendment(**fields):
        return lambda content: content + json.dumps(fields).encode() + b"\n"

    spoilt("plan.json", key("steps", 0), 5, "plan.json: was edited")
    spoilt("plan.json", lambda content: content[:-40], 5, "plan.json:")
    spoilt("amendments.jsonl", amendment(kind="out_of_memory", step=1, micro_batch_divisor=0), 5,
           "amendments.jsonl:1: micro_batch_divisor: expected at least 1, found 0")
    spoilt("amendments.jsonl", amendment(kind="settings", changes=7), 5, "changes: expected an object, found 7")
    spoilt("amendments.jsonl", amendment(kind="settings", changes={"log.every_steps": 0}), 5, "log.every_steps")
    spoilt("amendments.jsonl", amendment(kind=["x"]), 5, "kind: expected a text")
    for change in (key("state", 5), key("planned_steps", "many"), lambda content: b"[]", lambda content: content[:50]):
        spoilt("report.json", change, 0, "it is made again", finished=True)
    # A damaged checkpoint is named, and the one before it serves.
    for change in (key("format", "1"), key("files", {}), key("files", [{"name": 3}]), key("step", 4), lambda content: b"\0"):
        spoilt(checkpoints + "manifest.json", change, 0, "this checkpoint is damaged and passed over")
    for name in ("state.json", "optimizer.safetensors"):
        spoilt(checkpoints + name, lambda content: content[:-9], 0, "this checkpoint is damaged and passed over")
    spoilt(checkpoints + "state.json", lambda content: content.replace(b"6", b"7"), 0, "does not have the hash")


def other_weights_are_another_run(lab: Lab):
    model = lab.folder / "model"
    shutil.copytree(MODEL, model)
    settings = {"model": {"path": str(model)}, "train": {"max_steps": 4}, "checkpoint": {"every_steps": 2}}
    lab.run(**settings)
    evaluated = lab.evaluate(str(lab.folder / "run"))
    weights = (model / "model.safetensors").read_bytes()
    (model / "model.safetensors").write_bytes(weights[:-2] + bytes([weights[-2] ^ 1]) + weights[-1:])
    (lab.folder / "run" / "report.json").unlink()
    said = lab.run(code=3, **settings)
    assert f"{model}/model.safetensors changed since the run began" in said, said
    told = subprocess.run([lab.forge, "eval", str(lab.folder / "run"), "--data", str(lab.folder / "eval.jsonl")],
                          capture_output=True, text=True, check=True).stderr
    assert "warning:" in told and "model.safetensors has changed since the run was trained with it" in told, told
    (model / "model.safetensors").write_bytes(weights)
    lab.run(**settings)
    assert lab.evaluate(str(lab.folder / "run")) == evaluated
    # The adapter that a run starts from is part of it too.
    shutil.copytree(lab.folder / "run" / "adapter", lab.folder / "start")
    start = settings | {"adapter": {"init_from": str(lab.folder / "start")}}
    lab.run(name="second", **start)
    config = lab.folder / "start" / "adapter_config.json"
    config.write_text(config.read_text() + "\n")
    said = lab.run(name="second", code=3, **start)
    assert f"{config} changed since the run began" in said, said


def limits_in_tokens_and_time_end_a_run(lab: Lab):
    lab.job["train"] = {"global_batch_size": 4, "max_tokens": 600}
    lab.run(name="tokens")
    seen = sum(e["tokens"] for e in lab.events("step", "tokens"))
    last = lab.events("step", "tokens")[-1]["tokens"]
    assert seen - last < 600 <= seen, (seen, last)
    lab.job["train"] = {"global_batch_size": 4, "max_time": 1, "epochs": 100000}
    lab.run(name="time", schedule={"type": "constant"})
    assert lab.report("time")["state"] == "finished"
    # Without a number of steps the schedule follows the clock: each rate is what the steps before it left of the time. A
    # slow machine needs more of it for some steps.
    limit, steps = 1, []
    while len(steps) < 4 and limit < 100:
        limit *= 2
        lab.job["train"] = {"global_batch_size": 4, "max_time": limit}
        lab.run("--fresh", name="clock", schedule="linear", optimizer={"learning_rate": 1.0, "type": "sgd"},
                train={"max_grad_norm": 1e-9})
        steps = lab.events("step", "clock")
    assert len(steps) >= 4, steps
    # Everything counts: of the time at a step's end, the step began no later than its own seconds before.
    before = 0.0
    for step in steps:
        began = (1 - step["learning_rate"]) * limit
        assert before <= began + 1e-6 <= step["run_seconds"] - step["step_seconds"] + 0.05, (before, began, step)
        before = step["run_seconds"]
    assert steps[-2]["run_seconds"] < limit <= steps[-1]["run_seconds"], steps
    assert sum(s["step_seconds"] for s in steps) < steps[-1]["run_seconds"] <= lab.report("clock")["seconds"], steps
    # And across parts: the time of the first is spent.
    lab.run(name="parts", train={"max_time": 1000, "max_steps": 2}, checkpoint={"every_steps": 1})
    first = lab.events("step", "parts")[-1]["run_seconds"]
    lab.run("--extend", name="parts", train={"max_time": 1000, "max_steps": 3}, checkpoint={"every_steps": 1})
    last = lab.events("step", "parts")[-1]
    assert last["run_seconds"] > first + last["step_seconds"], (first, last)


def an_adapter_means_what_its_config_says(lab: Lab):
    # Its own excluded modules, read back. A run is evaluated as it was trained, its parts in fp32.
    lab.job["train"]["precision"] = "fp32"
    lab.run(adapter={"exclude_modules": ["layers.0.self_attn.q_proj", "down_proj"]})
    lab.evaluate("--model", str(MODEL), "--adapter", str(lab.folder / "run" / "adapter"))
    # As PEFT writes all-linear with exclusions: both lists name the excluded path.
    adapter = lab.changed_adapter(target_modules=["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"])
    assert lab.evaluate("--model", str(MODEL), "--adapter", adapter) == lab.evaluate(str(lab.folder / "run"))
    # PEFT takes the start of these out of the base when it loads them.
    adapter = lab.changed_adapter(init_lora_weights="pissa")
    said = lab.evaluate("--model", str(MODEL), "--adapter", adapter, code=5)
    assert 'init_lora_weights is "pissa"' in said, said
    said = lab.evaluate("--model", str(MODEL), "--adapter", lab.changed_adapter(a_setting_of_tomorrow=3), code=5)
    assert "a_setting_of_tomorrow is set, which forge does not support" in said, said


def an_evaluation_says_its_precision(lab: Lab):
    lab.run(train={"precision": "bf16"})
    run, data = str(lab.folder / "run"), ["--data", str(lab.folder / "eval.jsonl")]
    parts = ["--model", str(MODEL), "--adapter", run + "/adapter"]

    def told(*what: str) -> tuple:
        both = [subprocess.run([lab.forge, "eval", *what, *data, *options], capture_output=True, text=True, check=True)
                for options in ([], ["--json"])]
        answer = json.loads(both[1].stdout)
        assert f"precision {answer['precision']}: {answer['precision_reason']}\n" in both[0].stderr, both[0].stderr
        return answer["precision"], answer["precision_reason"], answer["loss"]

    assert told(run)[:2] == ("bf16", "as the run was trained")
    assert told(*parts)[:2] == ("fp32", "the default without a run")
    assert told(*parts, "--precision", "bf16")[1:] == ("--precision", told(run)[2])


def a_stated_processor_is_planned_for_and_kept_to(lab: Lab):
    def stated(name: str, *command: str, **sections) -> subprocess.CompletedProcess:
        (lab.folder / "run.json").write_text(json.dumps(lab.job | sections))
        return subprocess.run([lab.forge, *command], capture_output=True, text=True, env=os.environ | {"FORGE_CPU": name})

    job = str(lab.folder / "run.json")
    plan = {name: json.loads(stated(name, "plan", "--json", job).stdout) for name in ("avx2", "avx512_bf16", "amx_bf16")}
    assert [p["job"]["train"]["precision"] for p in plan.values()] == ["fp32", "bf16", "bf16"], plan["avx2"]
    done = stated("avx2", "run", job)
    assert done.returncode == 0 and lab.report()["environment"] is not None, done.stderr
    assert json.loads((lab.folder / "run/plan.json").read_text())["device"]["cpu"]["isa"] == ["avx2", "fma", "f16c"]
    said = stated("avx3", "plan", job)
    assert said.returncode == 5 and "FORGE_CPU=avx3: expected baseline, avx2, " in said.stderr, said.stderr


def a_line_of_metrics_tells_of_all_its_steps(lab: Lab):
    lab.job["data"]["packing"] = False
    lab.run(name="each")
    lab.run(name="some", log={"every_steps": 5})
    each, some = lab.events("step", "each"), lab.events("step", "some")
    assert [e["step"] for e in some] == [5, 10, 12], some
    for begin, end, line in ((0, 5, some[0]), (5, 10, some[1]), (10, 12, some[2])):
        steps = each[begin:end]
        for key in ("examples", "tokens", "supervised_tokens"):
            assert line[key] == sum(e[key] for e in steps), (key, line)
        assert abs(line["loss"] - sum(e["loss"] for e in steps) / len(steps)) < 1e-6, line
        assert line["learning_rate"] == steps[-1]["learning_rate"] and line["grad_norm"] == steps[-1]["grad_norm"]
    for key in ("steps", "examples", "tokens", "supervised_tokens"):
        assert lab.report("some")[key] == lab.report("each")[key], key


def an_adapter_brings_its_chat_template(lab: Lab):
    rows = lab.folder / "chats.jsonl"
    turns = [{"role": "user", "content": "one"}, {"role": "assistant", "content": "two"}]
    rows.write_text(json.dumps({"messages": turns}) + "\n")
    lab.job["train"]["precision"] = "fp32"  # that of an evaluation without a run
    lab.run(data={"train": str(rows), "template": "llama3", "template_variables": {"bos_token": "begin"}},
            allow="foreign_template")

    def told(*what: str) -> str:
        return subprocess.run([lab.forge, "eval", *what, "--data", str(rows), "--quiet"],
                              capture_output=True, text=True, check=True).stdout

    beside = ["--model", str(MODEL), "--adapter", str(lab.folder / "run" / "adapter")]
    assert told(*beside) == told(str(lab.folder / "run"))
    assert told(*beside) != told(*beside, "--template", "llama3")


def an_adapter_starts_with_its_own_scale(lab: Lab):
    lab.run(name="first")
    start = {"init_from": str(lab.folder / "first" / "adapter")}
    said = lab.run(name="second", adapter=start | {"alpha": 16}, code=3)
    assert "adapter.alpha: is 16.0, the adapter in" in said and "has 8.0" in said, said
    lab.run(name="third", adapter=start)
    # What the job leaves open is the adapter's.
    lab.job["adapter"] = {"type": "lora"} | start
    lab.run(name="fourth")
    assert lab.adapter("fourth") == lab.adapter("third")


def a_report_shows_what_was_learned(lab: Lab):
    lab.run(name="whole", train={"max_steps": 20})
    whole = lab.report("whole")
    assert len(whole["samples"]) == 2 and all(set(s) == {"prompt", "before", "after"} for s in whole["samples"]), whole["samples"]
    assert any(s["before"] != s["after"] for s in whole["samples"]), whole["samples"]
    assert isinstance(whole["device"], str) and whole["environment"]["torch"].startswith("2."), whole
    # A continued run still knows what the model said at first.
    lab.run(train={"max_steps": 10}, schedule={"type": "constant"})
    first = lab.report()["samples"]
    lab.run("--extend", train={"max_steps": 20}, schedule={"type": "constant"})
    assert [s["before"] for s in lab.report()["samples"]] == [s["before"] for s in first] == [s["before"] for s in whole["samples"]]
    lab.run(name="none", eval={"samples": 0})
    assert lab.report("none")["samples"] == [] and not (lab.folder / "none/samples.json").exists()


def secrets_stay_out_of_the_run(lab: Lab):
    secret = "s3cret-value-of-this-test"
    (lab.folder / secret).mkdir()
    (lab.folder / secret / "model").symlink_to(MODEL)
    (lab.folder / "rows.jsonl").write_text('{"q": "one", "a": " two"}\n' * 8)
    os.environ["LAB_TOKEN"] = secret
    try:
        source = {"path": "rows.jsonl", "prompt": "${env:LAB_TOKEN} {q}", "completion": "{a}"}
        settings = {"model": {"path": "${env:LAB_TOKEN}/model"}, "data": {"train": [source]}, "train": {"max_steps": 4}}
        said = lab.run(**settings) + lab.run("--json", command="plan", **settings) + lab.run(command="plan", **settings)
        said += lab.run("--show", "2", command="data", **settings) + lab.run("--prepare", command="data", **settings)
        page = lab.folder / "data.html"
        lab.run("--html", str(page), command="data", **settings)
        said += re.sub("<[^>]*>", "", page.read_text())  # a token is a span of its own
        said += lab.run(code=3, **settings | {"optimizer": {"learning_rate": 1e-4}})
        assert secret not in said, said
        held = [str(p) for p in (lab.folder / "run").rglob("*") if p.is_file() and secret.encode() in p.read_bytes()]
        assert not held, held
        assert "${env:LAB_TOKEN}" in (lab.folder / "run/plan.json").read_text()
        lab.run("--extend", **settings | {"train": {"max_steps": 6}})
        assert "finished" in lab.run(**settings | {"train": {"max_steps": 6}})
        assert "loss" in lab.evaluate(str(lab.folder / "run"))
    finally:
        del os.environ["LAB_TOKEN"]
    said = lab.evaluate(str(lab.folder / "run"), code=5)
    assert "not set: LAB_TOKEN" in said, said


def an_evaluation_that_is_not_finite_ends_the_run(lab: Lab):
    settings = lab.with_eval(every_steps=1) | {
        "train": {"max_steps": 1, "max_grad_norm": 0}, "optimizer": {"learning_rate": 1e30}}
    said = lab.run(code=7, **settings)
    assert "evaluation at step 1: the loss is not finite" in said, said
    said = lab.run("--fresh", **settings | {"train": settings["train"] | {"on_nan": "skip"}})
    assert "eval at step 1: loss nan" in said, said


def two_heads_are_not_one(lab: Lab):
    # config.json ties head and embedding, the file holds another head.
    model = lab.folder / "model"
    shutil.copytree(MODEL, model)
    config = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps(config | {"tie_word_embeddings": True}))
    said = lab.run(model={"path": str(model)}, code=5)
    assert "ties the head to the embedding" in said, said


def a_bench_measures_what_would_be_planned(lab: Lab):
    def bench(*options: str, **sections) -> dict:
        return json.loads(lab.run("--json", *options, command="bench", **sections))

    def planned(*options: str) -> dict:
        return json.loads(lab.run("--json", *options, command="plan"))

    alone, = bench("--steps", "2")["points"]
    plan = planned()
    assert alone["predicted_peak_bytes"] == plan["memory"]["predicted_peak_bytes"], alone
    assert alone["micro_batch_tokens"] == plan["job"]["train"]["micro_batch_tokens"], alone
    assert len(alone["step_tokens_per_second"]) >= 2 and min(alone["step_tokens_per_second"]) > 0, alone

    swept = bench("--batch-sweep", "--seconds", "0", "--length", "64", "--length", "32")
    for length in (64, 32):
        points = [p for p in swept["points"] if p["max_length"] == length]
        sizes = [p["micro_batch_tokens"] for p in points]
        assert sizes[0] <= length and all(b == 2 * a for a, b in zip(sizes, sizes[1:])), sizes
        best = max(p["tokens_per_second"] for p in points)
        knee = next(p for p in points if 1.03 * p["tokens_per_second"] >= best)
        assert {"data.max_length": length, "train.micro_batch_tokens": knee["micro_batch_tokens"]} in swept["recommended"]
        # One micro-batch a step: what is measured is what the plan of these settings foresees.
        point = points[-1]
        sets = [word for value in point["set"] for word in ("--set", value)]
        assert planned(*sets)["memory"]["predicted_peak_bytes"] == point["predicted_peak_bytes"], point
        assert 0.9 * point["predicted_peak_bytes"] <= point["measured_peak_bytes"] <= point["predicted_peak_bytes"], point

    rungs = bench("--ladder", "--seconds", "0")["points"]
    assert rungs[0]["provider"] == "reference" and rungs[0]["activation_checkpointing"] == "full", rungs[0]
    assert rungs[-1]["provider"] == plan["provider"] == "fused" and rungs[-1]["set"] != rungs[0]["set"], rungs[-1]
    assert sorted(p.name for p in lab.folder.iterdir()) == [".cache", "eval.jsonl", "run.json", "train.jsonl"], "litter"


def a_plan_tells_its_time_once_rates_are_measured(lab: Lab):
    def planned(*options: str) -> dict:
        return json.loads(lab.run("--json", *options, command="plan"))

    assert planned()["time"]["step_seconds"] == 0 and "--kernels" in planned()["time"]["reason"], planned()["time"]
    bench = json.loads(lab.run("--json", "--kernels", "--seconds", "0", command="bench"))
    rates = Path(bench["path"])
    plan = planned()
    assert plan["time"]["step_seconds"] > 0, plan["time"]
    assert abs(plan["time"]["run_seconds"] - plan["steps"] * plan["time"]["step_seconds"]) < 1e-9, plan["time"]
    assert "unmeasured" in planned("--set", "provider=reference")["time"]["reason"]
    # Twice as slow a machine takes twice as long.
    slow = json.loads(rates.read_text())
    for rate in slow["rates"]:
        rate["seconds"] *= 2
    rates.write_text(json.dumps(slow))
    assert abs(planned()["time"]["step_seconds"] / plan["time"]["step_seconds"] - 2) < 1e-9
    slow["machine"]["threads"] = 77
    rates.write_text(json.dumps(slow))
    foreign = planned()
    assert foreign["time"]["step_seconds"] == 0, foreign["time"]
    trace = lab.folder / "trace.json"
    lab.run("--trace", str(trace), "--steps", "2", "--seconds", "0", command="bench")
    events = json.loads(trace.read_text())["traceEvents"]
    names = {event["name"] for event in events}
    assert {"step", "linear", "attention backward", "head", "norm"} <= names, names
    steps = [e for e in events if e["name"] == "step"]
    ops = [e for e in events if e["name"] != "step"]
    assert all(any(s["ts"] <= e["ts"] and e["ts"] + e["dur"] <= s["ts"] + s["dur"] for s in steps) for e in ops)
    assert sum(e["dur"] for e in ops) <= sum(s["dur"] for s in steps)


def a_bench_says_what_does_not_fit(lab: Lab):
    def sweep(**hardware) -> list:
        return json.loads(lab.run("--json", "--seconds", "0", "--batch-sweep", command="bench", hardware=hardware,
                                  train={"activation_checkpointing": "none"}))["points"]

    said = lab.run(command="bench", code=4, hardware={"memory_limit": 100_000})
    assert "forge plan shows what takes the memory" in said, said
    # Room for the smallest micro-batch and not for one of twice its size.
    swept = sweep(memory_limit=int(1.02 * sweep()[0]["predicted_peak_bytes"]))
    assert len(swept) == 2 and "tokens_per_second" in swept[0], swept
    assert swept[1]["refused"].startswith("does not fit: needs "), swept


def unfinished(lab: Lab, name: str = "run") -> Path:
    """As a kill between the last checkpoint and the export leaves it."""
    (lab.folder / name / "report.json").unlink()
    shutil.rmtree(lab.folder / name / "adapter")
    return lab.folder / name


def metrics_that_are_lost_or_damaged_never_stop_a_run(lab: Lab):
    lab.job["train"]["threads"] = 1
    lab.run(name="whole")
    lab.run()
    path = lab.folder / "run/metrics.jsonl"
    text = path.read_bytes()
    lines = text.splitlines(keepends=True)
    half = b"".join(lines[:5])
    for number, (damage, steps) in enumerate({
        "shorter": (half, 5), "torn": (half + b'{"event":"st', 5), "missing": (None, 0), "empty": (b"", 0),
        "lengthened with zeros": (half + bytes(len(text) - len(half)), 5),
        "a line of another kind": (text.replace(lines[2], b"x" * (len(lines[2]) - 1) + b"\n"), 11),
    }.values()):
        unfinished(lab)
        path.unlink() if damage is None else path.write_bytes(damage)
        said = lab.run()
        assert "metrics.jsonl" in said and "warning" in said, said
        assert "finished" in said and ": 12 steps" in said and "run/adapter, report:" in said, said
        assert lab.adapter() == lab.adapter("whole")
        assert len(lab.events("step")) == steps, (number, len(lab.events("step")))
        kept = sorted(lab.folder.glob("run/metrics.jsonl.kept-*"))
        assert [p.read_bytes() for p in kept] == ([] if damage is None else [damage]), (number, kept)
        for p in kept:
            p.unlink()
        path.write_bytes(text)
    unfinished(lab)
    path.unlink()
    path.mkdir()
    lab.run()
    unfinished(lab)
    path.write_bytes(text + b'{"event":"step","step":13,"loss":1}\n')  # what a kill after the checkpoint leaves is cut
    assert "warning" not in lab.run()
    assert path.read_bytes() == text


def metrics_outlive_checkpoints_that_do_not(lab: Lab):
    lab.job["train"]["threads"] = 1
    lab.run()
    text = (lab.folder / "run/metrics.jsonl").read_bytes()
    for state in unfinished(lab).glob("checkpoints/*/state.json"):
        state.write_bytes(state.read_bytes().replace(b"1", b"2"))
    said = lab.run()
    assert "no checkpoint can be read" in said, said
    assert (lab.folder / "run/metrics.jsonl.kept-1").read_bytes() == text
    assert [e["step"] for e in lab.events("step")] == list(range(1, 13))
    assert lab.checkpoints() and not list(lab.folder.glob("run/checkpoints/*.damaged")), lab.checkpoints()


class Going:
    """A run of many steps that is going on."""

    def __init__(self, lab: Lab):
        lab.job["train"]["max_steps"] = 4000
        lab.job["train"]["threads"] = 1
        (lab.folder / "run.json").write_text(json.dumps(lab.job))
        self.process = subprocess.Popen([lab.forge, "run", str(lab.folder / "run.json")], stdout=subprocess.PIPE,
                                        stderr=subprocess.STDOUT, text=True)
        end = time.monotonic() + 60
        while not list(lab.folder.glob("run/checkpoints/step-??????")) and time.monotonic() < end:
            time.sleep(0.02)

    def end(self, code: int) -> str:
        try:
            said = self.process.communicate(timeout=60)[0]
        finally:
            self.process.kill()
        assert self.process.returncode == code, f"exit {self.process.returncode}, expected {code}:\n{said[-2000:]}"
        return said


def a_run_whose_folder_goes_stops_and_says_so(lab: Lab):
    going = Going(lab)
    (lab.folder / "run").rename(lab.folder / "elsewhere")
    assert "was removed, emptied or renamed" in going.end(5)
    assert not (lab.folder / "run").exists()
    (lab.folder / "elsewhere").rename(lab.folder / "run")
    saved = max(int(path.name[5:]) for path in lab.folder.glob("run/checkpoints/step-??????"))
    said = lab.run("--extend", train={"max_steps": saved + 2})
    assert f"from step {saved:,}" in said, said
    going = Going(lab_of(lab, "second"))
    shutil.rmtree(lab.folder / "second/run", ignore_errors=True)  # the engine may write beneath it meanwhile
    assert "was removed, emptied or renamed" in going.end(5)


def lab_of(lab: Lab, name: str) -> Lab:
    (lab.folder / name).mkdir()
    return Lab(lab.forge, lab.folder / name)


def a_finished_run_makes_again_what_was_removed(lab: Lab):
    lab.job["train"]["threads"] = 1
    lab.run()
    adapter, metrics = lab.adapter(), (lab.folder / "run/metrics.jsonl").read_bytes()
    shutil.rmtree(lab.folder / "run/adapter")
    assert "writing it again" in lab.run()
    assert lab.adapter() == adapter
    assert (lab.folder / "run/metrics.jsonl").read_bytes() == metrics
    page = (lab.folder / "run/report.html").read_bytes()
    (lab.folder / "run/report.html").unlink()
    assert "report.html was missing" in lab.run()
    assert (lab.folder / "run/report.html").read_bytes() == page
    lab.job["adapter"] = "none"
    lab.run(name="full")
    model = (lab.folder / "full/model/model.safetensors").read_bytes()
    (lab.folder / "full/model/config.json").unlink()
    lab.run(name="full")
    assert (lab.folder / "full/model/model.safetensors").read_bytes() == model


def a_terminal_that_closes_loses_nothing(lab: Lab):
    """Its own terminal sends HUP, which is answered with a checkpoint; another one's end is only words unsaid."""
    lab.job["train"] |= {"max_steps": 4000, "threads": 1}
    lab.job["checkpoint"]["every_steps"] = 1000
    (lab.folder / "run.json").write_text(json.dumps(lab.job))
    command = [lab.forge, "run", str(lab.folder / "run.json")]
    child, master = pty.fork()
    if child == 0:
        os.execv(lab.forge, command)
    os.set_blocking(master, False)
    end = time.monotonic() + 60
    while not list(lab.folder.glob("run/metrics.jsonl")) and time.monotonic() < end:
        time.sleep(0.02)
    os.close(master)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 75
    steps = max(int(step[5:]) for step in lab.checkpoints()) + 3
    lab.job["train"]["max_steps"] = steps
    (lab.folder / "run.json").write_text(json.dumps(lab.job))
    master, slave = pty.openpty()
    process = subprocess.Popen([*command, "--extend"], stdin=slave, stdout=slave, stderr=slave, start_new_session=True)
    os.close(slave)
    os.close(master)  # from here on every write to it is EIO
    assert process.wait(60) == 0
    assert lab.report()["step"] == steps


def a_machine_without_proc_still_runs(lab: Lab):
    lab.job["train"]["threads"] = 1
    (lab.folder / "run.json").write_text(json.dumps(lab.job))
    without = ["unshare", "--mount", "sh", "-c", "umount -l /proc && exec \"$@\"", "sh"]
    if subprocess.run([*without, "true"], capture_output=True).returncode != 0:
        return print("     (not tried: this user may not unmount /proc)")
    for _ in range(2):
        done = subprocess.run([*without, lab.forge, "run", str(lab.folder / "run.json")], capture_output=True, text=True,
                              timeout=60)
        assert done.returncode == 0, (done.returncode, done.stderr[-800:])


def a_refused_resource_is_a_sentence(lab: Lab):
    """Memory, files: exit 4 or 5 with words, never 70 and no bare abort."""
    lab.job["train"]["threads"] = 1
    path = lab.folder / "run.json"
    path.write_text(json.dumps(lab.job))
    for limit in ("-v 40000", "-v 100000", "-v 400000", "-v 900000", "-n 6", "-f 1"):
        done = subprocess.run(["bash", "-c", f"ulimit {limit}; exec {lab.forge} run {path}"], capture_output=True,
                              text=True, timeout=60)
        assert done.returncode in (0, 4, 5), (limit, done.returncode, done.stderr[-800:])
        assert done.returncode == 0 or done.stderr.strip(), limit
        shutil.rmtree(lab.folder / "run", ignore_errors=True)


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
    """Sections of a job that draws completions; with `mode`, scored by a process that does that before it answers."""
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
    # In fp32 no token depends on how many are drawn at once.
    lab.run(name="narrow", **(policy(lab, eval={"every_steps": 3, "at_start": True}) | {"rollout": {
        "prompts_per_step": 3, "samples_per_prompt": 4, "max_new_tokens": 10, "slots": 4}}))
    for name in ("adapter/adapter_model.safetensors", "rollouts/rollout-000003.jsonl"):
        assert (lab.folder / "run" / name).read_bytes() == (lab.folder / "narrow" / name).read_bytes(), name


def judges_that_fail_never_score_nothing_as_zero(lab: Lab):
    for mode, said in [('reply["score"] = float("nan")', "judge"), ("os._exit(3)", "judge"), ("time.sleep(60)", "judge"),
                       ('print("hello", flush=True)', "judge"), ("print(json.dumps(reply), flush=True)", "judge")]:
        text = lab.run(code=5, name="bad", **policy(lab, mode))
        assert said in text, (mode, text)
        assert not (lab.folder / "bad/metrics.jsonl").exists() or not lab.events("rollout", "bad"), mode
        shutil.rmtree(lab.folder / "bad", ignore_errors=True)
    # One in three is declined: it leaves its group and is counted.
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
    for pid in [*engine, process.pid]:  # the engine first: a checkpoint would do without scores
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


def every_request_and_event_is_documented(lab: Lab):
    # An engine whose lines are kept, and the tables as schemas/event.schema.json has them.
    real = Path(lab.forge).resolve().parent / "forge-engine"
    events = lab.folder / "events.jsonl"
    engine = lab.folder / "engine"
    engine.write_text(f"#!/bin/bash\nset -o pipefail\n{real} | tee -a {events}\n")
    engine.chmod(0o755)
    os.environ["FORGE_ENGINE"] = str(engine)
    try:
        lab.run(**lab.with_eval(every_steps=4))
        newest = lab.folder / "run/checkpoints" / lab.checkpoints()[-1] / "manifest.json"
        newest.write_text(newest.read_text()[:40])  # passed over with a notice
        lab.run("--extend", "--set", "train.max_steps=14", **lab.with_eval(every_steps=4))
        lab.run("--steps", "1", command="bench")
        lab.run("--kernels", "--seconds", "1", command="bench")
        lab.evaluate(str(lab.folder / "run"))
        for command in (["generate", str(lab.folder / "run"), "--prompt", "a", "--max-new-tokens", "3"], ["doctor"]):
            subprocess.run([lab.forge, *command], capture_output=True, check=True, timeout=120)
        lab.run(name="other", model={"path": str(MODEL)}, train={"on_nan": "stop"}, optimizer={"learning_rate": 1e30}, code=7)
        lab.run(name="drawn", **policy(lab, objective={"type": "grpo", "kl": 0.1, "epochs_per_rollout": 2}))
    finally:
        del os.environ["FORGE_ENGINE"]
    shapes = {one["title"]: one for one in json.loads((ROOT / "schemas/event.schema.json").read_text())["oneOf"]}
    seen = {}
    for line in events.read_text().splitlines():
        event = json.loads(line)
        shape = shapes[event["event"]]
        seen.setdefault(event["event"], set()).update(event)
        unknown, missing = set(event) - set(shape["properties"]), set(shape["required"]) - set(event)
        assert not unknown and not missing, f"{event}: not documented {unknown}, missing {missing}"
    assert set(seen) == set(shapes), set(shapes) ^ set(seen)


CASES = [early_stopping_exports_the_best, retention_keeps_last_and_best, a_seed_repeats_every_bit,
         a_loss_that_is_not_finite_ends_the_run, skipped_steps_are_counted_and_bounded, a_damaged_checkpoint_is_passed_over, every_optimizer_learns_and_resumes,
         settings_that_do_not_matter_may_change, an_extended_run_goes_on, two_processes_never_share_a_folder,
         bf16_learns_like_fp32, a_full_disk_is_said_and_leaves_no_litter, no_file_of_a_run_ends_in_a_bug,
         other_weights_are_another_run, limits_in_tokens_and_time_end_a_run,
         an_adapter_means_what_its_config_says, an_evaluation_says_its_precision,
         a_stated_processor_is_planned_for_and_kept_to, a_line_of_metrics_tells_of_all_its_steps, an_adapter_brings_its_chat_template, an_adapter_starts_with_its_own_scale,
         a_report_shows_what_was_learned, secrets_stay_out_of_the_run,
         an_evaluation_that_is_not_finite_ends_the_run, two_heads_are_not_one,
         a_bench_measures_what_would_be_planned, a_plan_tells_its_time_once_rates_are_measured, a_bench_says_what_does_not_fit,
         metrics_that_are_lost_or_damaged_never_stop_a_run, metrics_outlive_checkpoints_that_do_not,
         a_run_whose_folder_goes_stops_and_says_so,
         a_finished_run_makes_again_what_was_removed, a_terminal_that_closes_loses_nothing,
         a_machine_without_proc_still_runs, a_refused_resource_is_a_sentence,
         completions_are_drawn_scored_and_recorded, judges_that_fail_never_score_nothing_as_zero,
         a_killed_run_takes_the_scores_that_it_had, every_request_and_event_is_documented]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("forge")
    parser.add_argument("--only", default="")
    args = parser.parse_args()
    passed = failed = 0
    for case in CASES:
        if args.only not in case.__name__:
            continue
        with tempfile.TemporaryDirectory() as folder:
            try:
                case(Lab(os.path.abspath(args.forge), Path(folder)))
                passed += 1
                print(f"ok   {case.__name__}", flush=True)
            except Exception:
                failed += 1
                print(f"FAIL {case.__name__}\n{traceback.format_exc(limit=3)}", flush=True)
    print(f"{passed} passed, {failed} failed")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
