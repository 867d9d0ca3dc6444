"""Continuing after a stop: with other settings, other weights, damaged or missing files."""
import json
import re
import shutil
import subprocess

from lab import Lab, MODEL, unfinished
from policy_cases import policy


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


def no_file_of_a_run_ends_in_a_bug(lab: Lab):
    settings = {"checkpoint": {"every_steps": 2, "keep_last": 3}, "train": {"max_steps": 6}}
    lab.run(name="whole", **settings)
    adapter, checkpoints = lab.adapter("whole"), "checkpoints/step-000006/"

    def spoilt(path: str, change, code: int, said: str, finished: bool = False):
        """Copies the run, changes one of its files and repeats the same command."""
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
    # A damaged checkpoint is named, and the one before it is used.
    for change in (key("format", "1"), key("files", {}), key("files", [{"name": 3}]), key("step", 4), lambda content: b"\0"):
        spoilt(checkpoints + "manifest.json", change, 0, "this checkpoint is skipped")
    for name in ("state.json", "optimizer.safetensors"):
        spoilt(checkpoints + name, lambda content: content[:-9], 0, "this checkpoint is skipped")
    spoilt(checkpoints + "state.json", lambda content: content.replace(b"6", b"7"), 0, "does not match its hash")
    spoilt(checkpoints + "manifest.json", key("plan", "0" * 32), 0, "is a checkpoint of another run")


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
    # The adapter that a run starts from belongs to its identity, too.
    shutil.copytree(lab.folder / "run" / "adapter", lab.folder / "start")
    start = settings | {"adapter": {"init_from": str(lab.folder / "start")}}
    lab.run(name="second", **start)
    config = lab.folder / "start" / "adapter_config.json"
    config.write_text(config.read_text() + "\n")
    said = lab.run(name="second", code=3, **start)
    assert f"{config} changed since the run began" in said, said


def a_damaged_checkpoint_is_no_start_of_another_run(lab: Lab):
    lab.run(name="first")
    checkpoint = lab.folder / "first/checkpoints/step-000012"
    settings = {"adapter": {"init_from": str(checkpoint)}}
    lab.run(name="second", **settings)
    for path, change in ((checkpoint / "adapter_model.safetensors", lambda content: content[:-1] + bytes([content[-1] ^ 1])),
                         (checkpoint / "adapter_config.json", lambda content: content + b"\n")):
        whole = path.read_bytes()
        path.write_bytes(change(whole))
        said = lab.run(name="third", code=5, **settings)
        assert f"{path}: is not the file that manifest.json lists" in said, said
        assert not (lab.folder / "third").exists()
        path.write_bytes(whole)
    # An adapter's folder without the rest of a checkpoint may hold another tool's manifest.
    (checkpoint / "state.json").unlink()
    (checkpoint / "manifest.json").write_text('{"name": "x"}')
    lab.run(name="third", **settings)


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
        "a time that is none": (text.replace(lines[2], re.sub(rb'"time":[0-9.]+', b'"time":null', lines[2])), 11),
        "a name that is none": (text.replace(lines[2], lines[2].replace(b'"event":"step"', b'"event":[]')), 11),
        "a step that is none": (text.replace(lines[2], re.sub(rb'"step":[0-9]+', b'"step":{}', lines[2], count=1)), 11),
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
    path.write_bytes(text + b'{"event":"step","step":13,"loss":1}\n')  # the lines that a kill leaves after the checkpoint are cut off
    assert "warning" not in lab.run()
    assert path.read_bytes() == text


def back_to(lab: Lab, step: int) -> None:
    """Returns the run to the state that a kill after the checkpoint of that step leaves."""
    for path in unfinished(lab).glob("checkpoints/step-*"):
        if int(path.name[5:]) > step:
            shutil.rmtree(path)


def a_best_checkpoint_that_was_changed_is_not_exported(lab: Lab):
    lab.job["train"] |= {"threads": 1, "max_steps": 400}
    settings = lab.with_eval(every_steps=5, early_stopping={"patience": 3}) | {
        "optimizer": {"learning_rate": 2e-2}, "schedule": {"type": "constant"}, "checkpoint": {"every_steps": 5, "keep_last": 99, "keep_best": 2}}
    lab.run(**settings)
    best, second = [e["step"] for e in sorted(lab.events("eval"), key=lambda e: e["eval_loss"])[:2]]
    last = lab.report()["step"]
    assert lab.report()["exported"]["step"] == best < last
    folder = lab.folder / f"run/checkpoints/step-{best:06d}"
    back_to(lab, best + 5)
    weights = folder / "adapter_model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + bytes([weights.read_bytes()[-1] ^ 1]))
    said = lab.run(**settings)
    assert f"{weights}: does not match its hash" in said, said
    assert f"step {best}, which evaluated better, is not exported" in said, said
    assert lab.report()["exported"]["step"] == second and lab.report()["step"] == last
    assert lab.adapter() == (lab.folder / f"run/checkpoints/step-{second:06d}/adapter_model.safetensors").read_bytes()
    shutil.rmtree(folder)
    back_to(lab, best + 5)
    assert f"{folder}/manifest.json" in lab.run(**settings) and lab.report()["exported"]["step"] == second


PAIRS = [{"prompt": f"What is {i}?", "chosen": f"It is {i * i}.", "rejected": f"No {i}"} for i in range(48)]
JUDGED = [{"prompt": f"What is {i}?", "completion": f"It is {i * i}.", "label": i % 3 > 0} for i in range(48)]


def with_kept_reference(lab: Lab, objective: str, rows: list, **more) -> dict:
    path = lab.folder / f"{objective}.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    lab.job["train"] |= {"threads": 1, "max_steps": 6}
    return {"objective": {"type": objective, "reference_cache": True}, "data": {"train": [{"path": str(path)}]},
            "checkpoint": {"every_steps": 2, "keep_last": 9}, **more}


def a_kept_reference_that_was_changed_is_made_again(lab: Lab):
    for objective, rows in (("dpo", PAIRS), ("kto", JUDGED)):
        settings = with_kept_reference(lab, objective, rows)
        lab.run("--fresh", **settings)
        whole, kept = lab.adapter(), lab.folder / "run/reference.safetensors"
        reference = kept.read_bytes()
        for at in (20, len(reference) // 2, len(reference) - 3):
            back_to(lab, 2)
            kept.write_bytes(reference[:at] + bytes([reference[at] ^ 1]) + reference[at + 1:])
            said = lab.run(**settings)
            assert "reference.safetensors: is damaged; the reference's log-probabilities are computed again" in said, (at, said)
            assert lab.adapter() == whole and kept.read_bytes() == reference, (objective, at)
        back_to(lab, 2)
        assert "damaged" not in lab.run(**settings)
        assert lab.adapter() == whole


def a_kept_reference_that_cannot_be_made_again_is_refused(lab: Lab):
    """The first weights of a model that is trained whole are gone after a step."""
    lab.job["adapter"] = "none"
    settings = with_kept_reference(lab, "dpo", PAIRS)
    lab.run(**settings)
    kept, whole = lab.folder / "run/reference.safetensors", (lab.folder / "run/model/model.safetensors").read_bytes()
    reference = kept.read_bytes()
    for damage in (lambda: kept.write_bytes(reference[:-3] + bytes([reference[-3] ^ 1]) + reference[-2:]), kept.unlink):
        (lab.folder / "run/report.json").unlink()
        for path in lab.folder.glob("run/checkpoints/step-*"):
            if int(path.name[5:]) > 2:
                shutil.rmtree(path)
        shutil.rmtree(lab.folder / "run/model")
        damage()
        said = lab.run(code=5, **settings)
        assert "reference.safetensors" in said and "missing, damaged" in said, said
        kept.write_bytes(reference)
        lab.run(**settings)
        assert (lab.folder / "run/model/model.safetensors").read_bytes() == whole


def a_recorded_completion_that_was_changed_is_drawn_again(lab: Lab):
    settings = policy(lab, 'reply["score"] = len(item["completion"]) % 5') | {"checkpoint": {"every_steps": 2, "keep_last": 9}}
    settings["data"].pop("eval_fraction")  # evaluations need scores, too
    lab.job["train"] |= {"threads": 1}
    lab.run(**settings)
    whole, recorded = lab.adapter(), lab.folder / "run/rollouts/rollout-000003.jsonl"
    text = recorded.read_text()
    for change in (lambda t: re.sub(r'"score":(\d)', lambda m: f'"score":{(int(m[1]) + 1) % 5}', t, count=1),
                   lambda t: re.sub(r'"reward":(\d)', '"reward":9', t, count=1), lambda t: t.replace('"text":"', '"text":"x', 1),
                   lambda t: re.sub(r',"hash":"[^"]*"', "", t, count=1)):
        assert change(text) != text
        back_to(lab, 2)
        recorded.write_text(change(text))
        said = lab.run(**settings)
        assert "rollout-000003.jsonl: 1 recorded completions are damaged; they are drawn and scored again" in said, said
        assert lab.adapter() == whole and recorded.read_text() == text
    back_to(lab, 2)
    (lab.folder / "asked").unlink()
    assert "damaged" not in lab.run(**settings)
    assert lab.adapter() == whole and not (lab.folder / "asked").exists(), "recorded scores were asked for again"


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


def a_result_is_never_replaced_by_starting_over(lab: Lab):
    lab.run()
    adapter = lab.adapter()
    for step in (lab.folder / "run/checkpoints").iterdir():
        (step / "state.json").write_bytes(b"{}" + b" " * ((step / "state.json").stat().st_size - 2))
    lab.job["train"]["max_steps"] = 14
    said = lab.run("--extend", code=5)
    assert "none of its checkpoints can be read" in said and "adapter.init_from" in said, said
    shutil.rmtree(lab.folder / "run/checkpoints")
    assert "none of its checkpoints" in lab.run("--extend", code=5)
    assert lab.adapter() == adapter
    # Without its plan the folder is still recognised as a run's.
    (lab.folder / "run/plan.json").unlink()
    assert "without its plan.json" in lab.run(code=5)
    lab.run("--fresh")


def a_finished_run_makes_again_what_was_removed(lab: Lab):
    lab.job["train"]["threads"] = 1
    lab.run()
    adapter, metrics = lab.adapter(), (lab.folder / "run/metrics.jsonl").read_bytes()
    shutil.rmtree(lab.folder / "run/adapter")
    assert "writing it again" in lab.run()
    assert lab.adapter() == adapter
    weights = lab.folder / "run/adapter/adapter_model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-50])
    assert "writing it again" in lab.run() and lab.adapter() == adapter
    for file in sorted((lab.folder / "run/adapter").iterdir()):
        file.unlink()
        assert "writing it again" in lab.run() and file.exists(), file
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
