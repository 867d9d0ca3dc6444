#!/usr/bin/env python3
"""Proves that two builds of forge plan and train alike, byte for byte: for changes of the code that
change no behaviour.

    python3 tests/builds/compare_builds.py BEFORE/bin/forge AFTER/bin/forge [--only TEXT] [--plans | --runs]
                                           [--reworded] [--keep FOLDER]

Runs: families, adapters, objectives, precisions and settings of the step, each by both builds on
this CPU; their files (tensors, losses, gradient norms, plan.json) must be equal. Plans: published
config.json on several cards; the plan as JSON, which holds its memory lines, and as --graph, which
holds the list of ops, must be equal. ALLOWED names the known differences. With --reworded,
sentences may differ, and plan.json may have new members. Standard library only.
"""
import argparse
import concurrent.futures
import difflib
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
TESTS = HERE.parent
sys.path[:0] = [str(TESTS / name) for name in ("parity", "fixtures", "emulator/engine", ".")]
import check_emulated as emulated  # noqa: E402
import preference_cases  # noqa: E402
from variants import names, write_variant  # noqa: E402

GOLDENS = TESTS / "parity" / "goldens"
PUBLISHED = TESTS / "plan" / "published"
CARDS = ("cpu", "RTX 4070", "RTX 2080 Ti", "GTX 1080 Ti", "H100 SXM")

# Patterns of lines that may differ, each with its reason.
ALLOWED = {
    r"the cheapest remedy: ": "a remedy is planned with the lists that its own job chooses (core/plan/stages/step_choice.h)",
}

# Members of plan.json and events that depend on time, speed, this machine's free memory, or the
# version of the data pipeline.
VOLATILE = {"cache_path", "available_bytes", "free_bytes", "hash", "date", "time", "peak_memory_bytes", "tokens_per_second", "mfu"}


def volatile(key):
    return key in VOLATILE or key.endswith(("seconds", "per_second"))


def family_job(variant, adapter, precision="fp32", **sections):
    """Returns a job with two steps of a variant of the tiny model; its rows have sources if the
    model reads them.
    """
    pairs = variant.startswith(("t5", "bart"))
    rows = GOLDENS / ("tiny-sources.jsonl" if pairs else "tiny-batches.jsonl")
    made = {
        "version": 1, "name": "job", "seed": 1, "output_dir": "runs", "model": {"path": f"../models/{variant}"},
        "objective": {"type": "sft", "train_on": "completion" if pairs else "all"},
        "data": {"train": [{"path": str(rows), "format": "tokens"}], "shuffle": False, "packing": False},
        "train": {"max_steps": 2, "global_batch_size": 8, "micro_batch_size": 8, "precision": precision, "threads": 1},
        "optimizer": {"type": "adamw", "learning_rate": 2e-3}, "schedule": {"type": "linear"},
        "hardware": {"device": "cpu"},
    }
    for section, values in (adapter | sections).items():
        made[section] = made.get(section, {}) | values if isinstance(values, dict) else values
    return made


def emulated_job(case):
    """Returns a case of the emulated engine as a job for the CPU."""
    variant, precision, settings = emulated.CASES[case]
    precision, settings = emulated.on_cpu(precision, settings)
    if settings.get("model", {}).get("quantization") == "fp8" or variant == "wide":
        return None
    made = emulated.job("job", f"../models/{variant}", precision, settings, "runs", "cpu")
    return made


def preference_job(case):
    made = preference_cases.job(case, "job", "../models/base", GOLDENS, "runs", train={"max_steps": 2})
    return made


def policy_job(kind, **sections):
    made = family_job("base", emulated.LORA)
    made["objective"] = {"type": kind}
    made["data"] = {"train": [{"path": "../prompts.jsonl"}]}
    made["train"] = {"max_steps": 2, "threads": 1, "precision": "fp32"}
    made["rollout"] = {"prompts_per_step": 3, "samples_per_prompt": 4 if kind == "grpo" else 1, "max_new_tokens": 8}
    made["rewards"] = [{"type": "length", "max": 6, "slack": 30, "unit": "characters"}]
    return made | sections


def run_jobs():
    jobs = {}
    for variant in names():
        jobs[f"lora {variant}"] = family_job(variant, emulated.LORA)
        jobs[f"full {variant}"] = family_job(variant, emulated.FULL)
        jobs[f"bf16 {variant}"] = family_job(variant, emulated.LORA, "bf16")
    for case in emulated.CASES:
        if made := emulated_job(case):
            jobs[f"case {case}"] = made
    for case in preference_cases.CASES:
        jobs[f"preference {case.name}"] = preference_job(case)
    for kind in ("grpo", "ppo"):
        jobs[f"policy {kind}"] = policy_job(kind)
    for provider in ("reference", "fused"):
        jobs[f"provider {provider}"] = family_job("base", emulated.LORA, provider=provider)
    for checkpointing in ("none", "selective", "full"):
        jobs[f"checkpointing {checkpointing}"] = family_job(
            "base", emulated.LORA, train={"activation_checkpointing": checkpointing, "max_steps": 2, "precision": "fp32",
                                          "threads": 1, "micro_batch_size": 3, "global_batch_size": 8})
    for optimizer in ("lion", "adamw_8bit", "adafactor", "muon", "schedule_free", "sgd"):
        jobs[f"optimizer {optimizer}"] = family_job("base", emulated.FULL, optimizer={"type": optimizer, "learning_rate": 1e-3})
    jobs["evaluated"] = family_job("base", emulated.LORA, data={
        "train": [{"path": str(GOLDENS / "tiny-batches.jsonl"), "format": "tokens"}], "eval_fraction": 0.25})
    return jobs


def plan_jobs():
    """Returns jobs over published config.json, for which plan assumes weights and data."""
    jobs = {}
    settings = {
        "lora": {"adapter": {"type": "lora", "rank": 16}},
        "qlora": {"adapter": {"type": "lora", "rank": 16}, "model": {"quantization": "nf4"}},
        "full": {"adapter": {"type": "none"}},
    }
    for config in sorted(PUBLISHED.glob("*.json")):
        for name, sections in settings.items():
            made = {"version": 1, "name": "job", "model": {"path": f"../configs/{config.stem}"},
                    "objective": {"type": "sft"}, "data": {"train": [{"path": "absent.jsonl"}], "max_length": 2048}}
            for section, values in sections.items():
                made[section] = made.get(section, {}) | values
            jobs[f"{config.stem} {name}"] = made
    return jobs


def without_volatile(value):
    if isinstance(value, dict):
        return {key: without_volatile(inner) for key, inner in value.items() if not volatile(key)}
    return [without_volatile(inner) for inner in value] if isinstance(value, list) else value


def call(forge, folder, *arguments):
    """Runs forge; returns its output with its exit code."""
    environment = os.environ | {"FORGE_LOG": "", "NO_COLOR": "1"}
    done = subprocess.run([forge, *arguments], cwd=folder, capture_output=True, text=True, env=environment, timeout=600)
    return f"exit {done.returncode}\n{alike(done.stdout + done.stderr, folder)}"


def alike(text, folder):
    """Returns the text without the build's own folder and without free memory."""
    text = text.replace(str(folder.parent), "ROOT")
    return re.sub(r"\b(of|has) [0-9.,]+ [KMGT]iB|[0-9.,]+ [KMGT]iB (available|free)", "some memory", text)


def trained(forge, folder, job):
    """Trains the job; returns {name: content that two builds must have in common}."""
    folder.mkdir()
    (folder / "job.json").write_text(json.dumps(job))
    said = call(forge, folder, "run", "job.json", "--quiet")
    run = folder / "runs" / "job"
    if not said.startswith("exit 0"):
        return {"said": said}
    seen = {"exit": said.split("\n")[0]}
    plan = json.dumps(without_volatile(json.loads((run / "plan.json").read_text())), indent=1, sort_keys=True)
    seen["plan.json"] = alike(plan, folder)
    events = [without_volatile(json.loads(line)) for line in (run / "metrics.jsonl").read_text().splitlines()]
    seen["metrics.jsonl"] = "\n".join(json.dumps(event, sort_keys=True) for event in events if event["event"] in ("step", "eval", "rollout"))
    for path in sorted(run.rglob("*.safetensors")):
        seen[str(path.relative_to(run))] = path.read_bytes()
    seen["graph"] = call(forge, folder, "plan", "job.json", "--graph")
    return seen


def planned(forge, folder, job):
    folder.mkdir()
    (folder / "job.json").write_text(json.dumps(job))
    seen = {}
    for card in CARDS:
        plan = call(forge, folder, "plan", "job.json", "--json", "--gpu", card)
        code, _, text = plan.partition("\n")
        try:
            text = alike(json.dumps(without_volatile(json.JSONDecoder().raw_decode(text)[0]), indent=1, sort_keys=True), folder)
        except ValueError:
            pass
        seen[f"plan {card}"] = f"{code}\n{text}"
        seen[f"graph {card}"] = call(forge, folder, "plan", "job.json", "--graph", "--gpu", card)
    return seen


def numbers_of(text):
    """Returns the numbers of each line in ascending order, without its words."""
    return "\n".join(" ".join(sorted(re.findall(r"[0-9][0-9.,]*", line))) for line in text.splitlines())


def without_words(before, after):
    """Returns both values of a plan without sentences and without members that one of them lacks."""
    if isinstance(before, dict) and isinstance(after, dict):
        pairs = {key: without_words(before[key], after[key]) for key in before.keys() & after.keys()}
        return {key: was for key, (was, _) in pairs.items()}, {key: now for key, (_, now) in pairs.items()}
    if isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        pairs = [without_words(*pair) for pair in zip(before, after)]
        return [was for was, _ in pairs], [now for _, now in pairs]
    return tuple(numbers_of(value) if isinstance(value, str) and " " in value else value for value in (before, after))


def reworded(before, after):
    """Returns what two builds gave without their words."""
    for name in before.keys() & after.keys():
        if isinstance(before[name], bytes) or name.endswith(".jsonl"):
            continue
        try:
            codes, plans = zip(*(text.rpartition("\n{")[::2] if not text.startswith("{") else ("", text[1:])
                                 for text in (before[name], after[name])))
            pair = without_words(*(json.loads("{" + plan) for plan in plans))
            before[name], after[name] = (code + json.dumps(plan, indent=1, sort_keys=True) for code, plan in zip(codes, pair))
        except ValueError:
            refused = not before[name].startswith("exit 0") and name != "exit"
            before[name], after[name] = (text.split("\n")[0] if refused else numbers_of(text)
                                         for text in (before[name], after[name]))
    return before, after


def allowed(line):
    return any(re.search(pattern, line) for pattern in ALLOWED)


def difference(before, after):
    """Returns the first differences, a line each, or "" for equal values."""
    faults = []
    for name in sorted(before.keys() | after.keys()):
        was, now = before.get(name), after.get(name)
        if was == now:
            continue
        if isinstance(was, bytes) or isinstance(now, bytes) or was is None or now is None:
            faults.append(f"{name}: " + ("other bytes" if was and now else "of one build alone"))
            continue
        lines = [line for line in difflib.unified_diff(was.splitlines(), now.splitlines(), lineterm="", n=0)
                 if not line.startswith(("---", "+++", "@@")) and not allowed(line)]
        if lines:
            faults.append(f"{name}:\n      " + "\n      ".join(line[:200] for line in lines[:8]))
    return faults


def compare(kind, name, job, before, after, root, rewords):
    made = {"run": trained, "plan": planned}[kind]
    place = name.replace(" ", "-").replace("/", "-")
    seen = []
    for which, forge in (("before", before), ("after", after)):
        seen.append(made(forge, root / which / f"{kind}-{place}", job))
    said = seen[0].get("said", "")
    faults = difference(*(reworded(*seen) if rewords else seen))
    if kind == "run" and "said" in seen[0] and not faults:
        return None, said.strip().splitlines()[-1][:140]
    return faults, ""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before")
    parser.add_argument("after")
    parser.add_argument("--only", default="")
    parser.add_argument("--plans", action="store_true")
    parser.add_argument("--runs", action="store_true")
    parser.add_argument("--reworded", action="store_true")
    parser.add_argument("--keep")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    before, after = (str(Path(forge).resolve()) for forge in (options.before, options.after))
    temporary = None if options.keep else tempfile.TemporaryDirectory()
    root = Path(options.keep or temporary.name)
    for which in ("before", "after"):
        (root / which).mkdir(parents=True)
    for variant in names():
        write_variant(variant, root / "models" / variant)
    for config in PUBLISHED.glob("*.json"):
        (root / "configs" / config.stem).mkdir(parents=True)
        (root / "configs" / config.stem / "config.json").write_text(config.read_text())
    (root / "prompts.jsonl").write_text("".join(json.dumps({"prompt": f"What is {i}?"}) + "\n" for i in range(12)))
    for which in ("before", "after"):  # jobs name ../models
        for shared in ("models", "configs", "prompts.jsonl"):
            (root / which / shared).symlink_to(Path("..") / shared)
    work = []
    if not options.plans:
        work += [("run", name, job) for name, job in run_jobs().items()]
    if not options.runs:
        work += [("plan", name, job) for name, job in plan_jobs().items()]
    work = [item for item in work if options.only in f"{item[0]} {item[1]}"]
    counts = {"equal": 0, "refused alike": 0, "differ": 0}
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        futures = {pool.submit(compare, *item, before, after, root, options.reworded): item for item in work}
        for future in concurrent.futures.as_completed(futures):
            kind, name, _ = futures[future]
            faults, note = future.result()
            result = "refused alike" if faults is None else "differ" if faults else "equal"
            counts[result] += 1
            if faults:
                print(f"DIFFER {kind} {name}\n    " + "\n    ".join(faults), flush=True)
            elif faults is None:
                print(f"refused alike: {kind} {name}: {note}", flush=True)
    print(", ".join(f"{count} {what}" for what, count in counts.items()))
    return 1 if counts["differ"] or not counts["equal"] else 0


if __name__ == "__main__":
    sys.exit(main())
