"""Training results, ends of runs, and reports."""
import json
import re
import shutil
import struct
import sys
import time

from lab import Lab, MODEL, ROOT

sys.path.insert(0, str(ROOT / "tests" / "fixtures"))
import variants  # noqa: E402


def early_stopping_exports_the_best(lab: Lab):
    # 48 rows over and over: the model overfits, and the held-out loss rises.
    settings = lab.with_eval(every_steps=5, early_stopping={"patience": 3}) | {
        "train": {"max_steps": 400}, "optimizer": {"learning_rate": 2e-2}, "schedule": {"type": "constant"}}
    lab.run(**settings)
    report, evals = lab.report(), lab.events("eval")
    best = min(evals, key=lambda e: e["eval_loss"])["step"]
    assert report["stopped_early"] and report["step"] == best + 15, (report["step"], best)
    assert report["exported"]["step"] == best, report["exported"]
    assert lab.adapter() == (lab.folder / f"run/checkpoints/step-{best:06d}/adapter_model.safetensors").read_bytes()
    said = lab.run(**settings)
    assert f"is finished: {report['step']} steps" in said, said


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
    assert "not finite" in said and "learning_rate" in said and "on_nan: skip" in said, said
    assert "no checkpoint was written yet" in said and "untouched" not in said, said
    for path in (lab.folder / "run/checkpoints").glob("*"):
        assert b"nan" not in (path / "state.json").read_bytes().lower()


def a_run_that_diverges_names_its_last_checkpoint(lab: Lab):
    said = lab.run(code=7, optimizer={"learning_rate": 1e30, "type": "sgd"}, train={"max_grad_norm": 0}, checkpoint={"every_steps": 1})
    last = max(map(int, re.findall(r"step (\d+): not finite", said))) - 1
    assert last > 0 and f"the checkpoint of step {last} is untouched" in said, said


def numbers_that_no_step_made_are_not_laid_to_the_learning_rate(lab: Lab):
    model = lab.folder / "broken"
    shutil.copytree(MODEL, model)
    weights = bytearray((model / "model.safetensors").read_bytes())
    weights[-4:] = struct.pack("<f", float("nan"))  # of the last norm
    (model / "model.safetensors").write_bytes(weights)
    for on_nan in ("stop", "skip"):
        said = lab.run(code=7, model={"path": str(model)}, train={"on_nan": on_nan, "max_steps": 80})
        assert "not finite" in said and "the learning rate is not the cause" in said, said
        assert "lower optimizer" not in said and "on_nan: skip" not in said, said
        shutil.rmtree(lab.folder / "run")


def skipped_steps_are_counted_and_bounded(lab: Lab):
    said = lab.run(code=7, optimizer={"learning_rate": 1e30, "type": "sgd"},
                   train={"max_grad_norm": 0, "on_nan": "skip", "max_steps": 80})
    assert "lower optimizer.learning_rate" in said and "on_nan: skip" not in said, said
    assert sum(e["skipped"] for e in lab.events("step")) >= 50


def every_optimizer_learns_and_resumes(lab: Lab):
    # The factors are wide enough for adamw_8bit to keep their state in 8 bits.
    adapter = {"adapter": {"rank": 160, "alpha": 160}}
    for kind, rate in (("adamw_8bit", 2e-3), ("lion", 5e-4), ("sgd", 0.5), ("adafactor", 2e-3), ("muon", 2e-3), ("schedule_free", 2e-3)):
        optimizer = {"type": kind, "learning_rate": rate} | ({"momentum": 0.9} if kind == "sgd" else {})
        adapter["schedule"] = {"type": "constant" if kind == "schedule_free" else "cosine"}
        lab.run(name=kind, optimizer=optimizer, **adapter)
        whole, losses = lab.adapter(kind), lab.losses(kind)
        assert losses[-1] < losses[0] - 0.05, (kind, losses)
        state = (lab.folder / kind / "checkpoints/step-000012/optimizer.safetensors").read_bytes()
        assert (b"exp_avg_8bit." in state) == (kind == "adamw_8bit")
        lab.run("--fresh", name=kind, optimizer=optimizer, **adapter)
        assert lab.adapter(kind) == whole, kind
        # The last checkpoint is removed, and the run continues from the one before it.
        (lab.folder / kind / "report.json").unlink()
        shutil.rmtree(lab.folder / kind / "adapter")
        shutil.rmtree(lab.folder / kind / "checkpoints/step-000012")
        lab.run(name=kind, optimizer=optimizer, **adapter)
        assert lab.adapter(kind) == whole and lab.losses(kind) == losses, kind


def averaged_weights_are_what_is_evaluated_and_saved(lab: Lab):
    held_out = {"data": lab.job["data"] | {"eval": [{"path": str(lab.folder / "eval.jsonl"), "format": "tokens"}]}}
    lab.run(optimizer={"type": "schedule_free"}, schedule={"type": "constant"}, eval={"every_steps": 4}, **held_out)
    last = lab.events("eval")[-1]["eval_loss"]
    for folder in ("adapter", "checkpoints/step-000012"):
        said = lab.evaluate(str(lab.folder / "run" / folder), "--train-on", "all")
        assert f"loss {last:.4f}" in said, (folder, said, last)
    # Evaluations in between do not change training.
    lab.run(name="unseen", optimizer={"type": "schedule_free"}, schedule={"type": "constant"})
    assert lab.losses("unseen") == lab.losses() and lab.adapter("unseen") == lab.adapter()


def bf16_learns_like_fp32(lab: Lab):
    lab.run(name="wide")
    lab.run(name="narrow", train={"precision": "bf16"})
    for wide, narrow in zip(lab.losses("wide"), lab.losses("narrow")):
        assert abs(wide - narrow) < 0.03 * wide, (wide, narrow)
    lab.run(name="bare", train={"precision": "bf16", "master_weights": False})
    assert lab.losses("bare")[-1] < lab.losses("bare")[0]


def limits_in_tokens_and_time_end_a_run(lab: Lab):
    lab.job["train"] = {"global_batch_size": 4, "max_tokens": 600}
    lab.run(name="tokens")
    seen = sum(e["tokens"] for e in lab.events("step", "tokens"))
    last = lab.events("step", "tokens")[-1]["tokens"]
    assert seen - last < 600 <= seen, (seen, last)
    lab.job["train"] = {"global_batch_size": 4, "max_time": 1, "epochs": 100000}
    lab.run(name="time", schedule={"type": "constant"})
    assert lab.report("time")["state"] == "finished"
    # The plan has no number of steps; the message counts the steps that were done.
    said = lab.run(name="time", schedule={"type": "constant"})
    assert f"is finished: {lab.report('time')['step']:,} steps" in said, said
    # Without a number of steps the schedule follows the clock: each rate is the share of the time
    # that the steps before it left. A slow machine needs more time for four steps.
    limit, steps = 1, []
    while len(steps) < 4 and limit < 100:
        limit *= 2
        lab.job["train"] = {"global_batch_size": 4, "max_time": limit}
        lab.run("--fresh", name="clock", schedule="linear", optimizer={"learning_rate": 1.0, "type": "sgd"},
                train={"max_grad_norm": 1e-9})
        steps = lab.events("step", "clock")
    assert len(steps) >= 4, steps
    # All time counts: by a rate's time, the step began no later than its end less its own seconds.
    before = 0.0
    for step in steps:
        began = (1 - step["learning_rate"]) * limit
        assert before <= began + 1e-6 <= step["run_seconds"] - step["step_seconds"] + 0.05, (before, began, step)
        before = step["run_seconds"]
    assert steps[-2]["run_seconds"] < limit <= steps[-1]["run_seconds"], steps
    assert sum(s["step_seconds"] for s in steps) < steps[-1]["run_seconds"] <= lab.report("clock")["seconds"], steps
    # Parts share the limit: the time of the first is spent.
    lab.run(name="parts", train={"max_time": 1000, "max_steps": 2}, checkpoint={"every_steps": 1})
    first = lab.events("step", "parts")[-1]["run_seconds"]
    lab.run("--extend", name="parts", train={"max_time": 1000, "max_steps": 3}, checkpoint={"every_steps": 1})
    last = lab.events("step", "parts")[-1]
    assert last["run_seconds"] > first + last["step_seconds"], (first, last)


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


def an_evaluation_that_is_not_finite_ends_the_run(lab: Lab):
    settings = lab.with_eval(every_steps=1) | {
        "train": {"max_steps": 1, "max_grad_norm": 0}, "optimizer": {"learning_rate": 1e30}}
    said = lab.run(code=7, **settings)
    assert "evaluation at step 1: the loss is not finite" in said, said
    said = lab.run("--fresh", **settings | {"train": settings["train"] | {"on_nan": "skip"}})
    assert "eval at step 1: loss nan" in said, said


def two_heads_are_not_one(lab: Lab):
    # config.json ties head and embedding, but the file holds another head.
    model = lab.folder / "model"
    shutil.copytree(MODEL, model)
    config = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps(config | {"tie_word_embeddings": True}))
    said = lab.run(model={"path": str(model)}, code=5)
    assert "ties the head to the embedding" in said, said


def a_report_shows_what_was_learned(lab: Lab):
    lab.run(name="whole", train={"max_steps": 20})
    whole = lab.report("whole")
    assert len(whole["samples"]) == 2 and all(set(s) == {"prompt", "before", "after"} for s in whole["samples"]), whole["samples"]
    assert any(s["before"] != s["after"] for s in whole["samples"]), whole["samples"]
    assert isinstance(whole["device"], str) and whole["environment"]["torch"].startswith("2."), whole
    # A continued run still has the samples from before training.
    lab.run(train={"max_steps": 10}, schedule={"type": "constant"})
    first = lab.report()["samples"]
    lab.run("--extend", train={"max_steps": 20}, schedule={"type": "constant"})
    assert [s["before"] for s in lab.report()["samples"]] == [s["before"] for s in first] == [s["before"] for s in whole["samples"]]
    lab.run(name="none", eval={"samples": 0})
    assert lab.report("none")["samples"] == [] and not (lab.folder / "none/samples.json").exists()


def files_with_the_base_class_names_are_the_same_model(lab: Lab):
    """As GPT-2, Pythia, Falcon and BART are published by their base class: no prefix, and buffers that nothing reads."""
    rows = (ROOT / "tests/parity/goldens/tiny-sources.jsonl").read_text().splitlines()[:8]
    for variant, prefix, buffer in (("gpt2", "transformer.", "h.0.attn.bias"), ("gpt-neox", "gpt_neox.", "layers.0.attention.masked_bias"),
                                    ("falcon", "transformer.", ""), ("bart", "model.", "")):
        whole, bare = (lab.folder / f"{variant}-{kind}" for kind in ("whole", "bare"))
        variants.write_variant(variant, whole)
        shutil.copytree(whole, bare)
        tensors = variants.read_safetensors(whole / "model.safetensors")
        assert any(name.startswith(prefix) for name in tensors), list(tensors)
        named = {name.removeprefix(prefix): tensor for name, tensor in tensors.items()}
        if buffer:
            named[buffer] = type(next(iter(tensors.values())))([1, 1], [1.0])
        variants.write_safetensors(bare / "model.safetensors", named)
        if variant == "bart":
            (lab.folder / "eval.jsonl").write_text("\n".join(rows) + "\n")
        losses = [lab.evaluate("--model", str(folder)) for folder in (whole, bare)]
        assert losses[0] == losses[1] and losses[0], (variant, losses)
