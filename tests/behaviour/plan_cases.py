"""Plans against measurements: processors, rates, sweeps."""
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from lab import Lab, MODEL, ROOT

sys.path.insert(0, str(ROOT / "tests" / "fixtures"))
import variants  # noqa: E402


def a_stated_processor_is_planned_for_and_kept_to(lab: Lab):
    def stated(name: str, *command: str, **sections) -> subprocess.CompletedProcess:
        (lab.folder / "run.json").write_text(json.dumps(lab.job | sections))
        # Limits that the libraries' own variables set count too: the test may run under one.
        limits = ("ATEN_CPU_CAPABILITY", "ONEDNN_MAX_CPU_ISA", "MKL_ENABLE_INSTRUCTIONS")
        environment = {k: v for k, v in os.environ.items() if k not in limits} | {"FORGE_CPU": name}
        return subprocess.run([lab.forge, *command], capture_output=True, text=True, env=environment)

    job = str(lab.folder / "run.json")
    plan = {name: json.loads(stated(name, "plan", "--json", job).stdout) for name in ("avx2", "avx512_bf16", "amx_bf16")}
    assert [p["job"]["train"]["precision"] for p in plan.values()] == ["fp32", "bf16", "bf16"], plan["avx2"]
    done = stated("avx2", "run", job)
    assert done.returncode == 0 and lab.report()["environment"] is not None, done.stderr
    assert json.loads((lab.folder / "run/plan.json").read_text())["device"]["cpu"]["isa"] == ["avx2", "fma", "f16c"]
    said = stated("avx3", "plan", job)
    assert said.returncode == 5 and "FORGE_CPU=avx3: expected baseline, avx2, " in said.stderr, said.stderr


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
        # A step has one micro-batch, so the measurement is of what the plan of these settings
        # predicts.
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
    # A machine that is half as fast takes twice as long.
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
    point, = json.loads(lab.run("--json", "--ops", "--steps", "2", "--seconds", "0", command="bench"))["points"]
    shares = {op["name"]: op for op in point["ops"]}
    assert abs(sum(op["share"] for op in point["ops"]) - 1) < 1e-6, shares
    assert {"linear", "linear d x", "head", "attention", "between ops"} <= shares.keys(), shares
    # A product of a frozen weight [out, in] with n tokens has 2 · n · out · in operations, once
    # forward and once for d x.
    assert 0 < shares["linear d x"]["operations"] < shares["linear"]["operations"], shares
    assert shares["norm"]["operations"] == 0 and point["best_product_rate"] > 0
    products = sum(op["operations"] for op in point["ops"]) / sum(op["seconds"] for op in point["ops"])
    assert abs(point["roofline_share"] - products / point["best_product_rate"]) < 1e-6, point


def a_bench_says_what_does_not_fit(lab: Lab):
    def sweep(**hardware) -> list:
        return json.loads(lab.run("--json", "--seconds", "0", "--batch-sweep", command="bench", hardware=hardware,
                                  train={"activation_checkpointing": "none"}))["points"]

    said = lab.run(command="bench", code=4, hardware={"memory_limit": 100_000})
    assert "forge plan shows what takes the memory" in said, said
    # The limit has room for the smallest micro-batch and not for one of twice its size.
    swept = sweep(memory_limit=int(1.02 * sweep()[0]["predicted_peak_bytes"]))
    assert len(swept) == 2 and "tokens_per_second" in swept[0], swept
    assert swept[1]["refused"].startswith("does not fit: needs "), swept


def findings_in_the_data_stand_in_plan_log_and_report(lab: Lab):
    rows = (lab.folder / "train.jsonl").read_text().splitlines()
    (lab.folder / "train.jsonl").write_text("\n".join([rows[0], *rows]) + "\n")
    finding = "rows that repeat an earlier row: 1"
    assert finding in lab.run(command="plan")
    assert f"warning: {finding}" in lab.run()
    for name in ("log.txt", "report.json", "report.html"):
        assert finding in (lab.folder / "run" / name).read_text(), name


def settings_of_config_that_count_for_nothing_are_said(lab: Lab):
    model = lab.folder / "model"
    shutil.copytree(MODEL, model)
    path = model / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"architectures": ["GemmaForCausalLM"], "full_attn_mod": 1, "attention_dropout": 0.1}))
    for command in ("plan", "run"):
        said = lab.run(command=command, model={"path": str(model)}, train={"max_steps": 1})
        for words in ("GemmaForCausalLM", "never reads, and forge does not either: full_attn_mod", "dropout inside the base model", "attention_dropout"):
            assert words in said, said
    said = lab.run(command="plan")
    assert "never reads" not in said and "dropout inside" not in said, said


def a_plan_says_whether_a_gguf_can_be_written(lab: Lab):
    assert "forge export can write the result as a GGUF" in lab.run(command="plan")
    model = variants.write_variant("deepseek-v2", lab.folder / "deepseek-v2")
    said = lab.run(command="plan", model={"path": str(model)})
    assert "can write the result as a GGUF" not in said, said
    assert "the result cannot be written as a GGUF: forge writes no GGUF of deepseek_v2" in said, said
    # A head that comes loose. export/gguf_cases.py compares the answer for every family.
    model = variants.write_variant("gemma", lab.folder / "gemma")
    assert "forge export can write the result as a GGUF" in lab.run(command="plan", model={"path": str(model)})
    said = lab.run(command="plan", model={"path": str(model)}, adapter={"modules_to_save": ["lm_head"]})
    assert "computes logits from the embedding, and this model has a head of its own" in said, said
