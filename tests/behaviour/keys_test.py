#!/usr/bin/env python3
"""Checks that no key of a job is accepted and ignored: a value other than the default changes what
a run does.

    python3 tests/behaviour/keys_test.py build/bin/forge [--only KEY]

KEYS lists every key of the job schema with another value, and with the settings under which the key
has a meaning. The job runs with and without that value; what is seen of the two runs must differ.
The job, its origins and its identity as plan.json repeats them do not count as seen. Standard
library only; prints "N passed, N failed".
"""
import argparse
import functools
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from completion_server import Server

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "fixtures"))
from variants import write_variant  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
MODEL = ROOT / "tests" / "fixtures" / "tiny-llama"
OTHER_ADAPTER = ROOT / "tests" / "parity" / "goldens" / "adapter-init-lora"

LORA = {"adapter": {"type": "lora", "rank": 4, "alpha": 8}}
ALL = {"objective": {"train_on": "all"}}
EVAL = {"data": {"eval": "eval.jsonl"}, "eval": {"every_steps": 1}, "checkpoint": {"every_steps": 1}}
NARROW = {"train": {"precision": "bf16"}}
LONG = {"data": {"max_length": 40}}
DPO = {"objective": {"type": "dpo"}, "data": {"train": "pairs.jsonl"}}
SIMPO = {"objective": {"type": "simpo"}, "data": {"train": "pairs.jsonl"}}
ORPO = {"objective": {"type": "orpo"}, "data": {"train": "pairs.jsonl"}}
KTO = {"objective": {"type": "kto"}, "data": {"train": "pairs.jsonl"}}
REWARD = {"objective": {"type": "reward"}, "data": {"train": "pairs.jsonl"}}


def draws(objective=None, rollout=None, **more) -> dict:
    """Returns a job that samples completions; the objective takes two steps on each, so ratios and
    limits matter.
    """
    return {"objective": {"type": "grpo", "train_on": None, "epochs_per_rollout": 2, **(objective or {})}, "data": {"train": "prompts.jsonl"},
            "train": {"global_batch_size": None}, "optimizer": {"learning_rate": 0.05},
            "rollout": {"prompts_per_step": 2, "samples_per_prompt": 4, "max_new_tokens": 6, **(rollout or {})},
            "rewards": [{"type": "length", "max": 1, "slack": 60, "unit": "characters"}], **more}


LETTERS = {"stop": list("abcdefghijklmnopqrstuvwxyz"), "max_new_tokens": 24}


def tools(program: str = "tool.py", timeout: float = 60) -> dict:
    return draws(rollout={**LETTERS, "tools": {"command": ["python3", program], "max_turns": 4, "timeout": timeout}})


TOOLS = tools()
SERVED = draws(rollout={"provider": "http", "server": {}})
STALE = draws(rollout={"provider": "http", "server": {"max_staleness": 1}})
GRPO = draws()
PPO = draws({"type": "ppo"}, rewards=[{"type": "length", "max": 20, "slack": 60, "unit": "characters"}])
FOREIGN = {"allow": ["foreign_template"]}  # the model has no such control tokens


def both_splits(source: dict, **settings) -> dict:
    """Returns sections that train and evaluate on the same source."""
    return {**EVAL, **settings, "data": {"train": [dict(source)], "eval": [dict(source)]}}


# {key of a source: (value, settings of both runs)}
SOURCE_KEYS = {
    "path": ("other.jsonl", EVAL),
    "format": ("text", both_splits({"path": "both.jsonl", "format": "messages"}, **ALL)),
    "limit": (2, EVAL),
    "skip": (3, EVAL),
    "weight": (2, EVAL),
    "columns": ({"messages": "turns"}, both_splits({"path": "both.jsonl", "format": "messages"})),
    "roles": ({"user": "assistant", "assistant": "user"}, both_splits({"path": "both.jsonl", "format": "messages"})),
    "prompt": ("Q: {text}", both_splits({"path": "both.jsonl", "prompt": "{text}", "completion": "{text}"})),
    "completion": ("A: {text}", both_splits({"path": "both.jsonl", "prompt": "{text}", "completion": "{text}"})),
    "ignore": (["turns"], both_splits({"path": "both.jsonl", "format": "messages"})),
    "sample_by": ("line", both_splits({"path": "lines.txt"}, **ALL)),
}

# {key: (value, settings of both runs)}
KEYS = {
    "name": ("other", {}),
    "seed": (7, {}),
    "output_dir": ("elsewhere", {}),
    "model.path": ("other-model", {}),
    "model.family": ("llama.yaml", {}),  # with other pairs of rotary features
    "model.init": ("random", {"adapter": {"type": "none", "rank": None, "alpha": None}}),
    "model.architecture": ({"num_hidden_layers": 1}, {"model": {"init": "random"}, "adapter": {"type": "none", "rank": None, "alpha": None}}),
    "model.quantization": ("nf4", {}),
    "model.double_quantization": (True, {"model": {"quantization": "nf4"}}),
    "model.add_tokens": (["<new>"], {}),
    "model.add_tokens_from": ({"<new>": "the"}, {"model": {"add_tokens": ["<new>"]}}),
    "adapter.type": ("none", {"adapter": {"rank": None, "alpha": None}}),
    "adapter.rank": (8, {}),
    "adapter.alpha": (16, {}),
    "adapter.dropout": (0.5, {}),
    "adapter.target_modules": (["q_proj"], {}),
    "adapter.exclude_modules": (["q_proj"], {}),
    "adapter.modules_to_save": (["lm_head"], {}),
    "adapter.trainable_token_indices": ([5, 7], {}),
    "adapter.bias": ("lora_only", {"model": {"path": "model-with-biases"}}),
    "adapter.use_rslora": (True, {}),
    "adapter.use_dora": (True, {}),
    "adapter.init": ("gaussian", {}),
    "adapter.eva.tau": (0, {"adapter": {"init": "eva"}}),
    "adapter.eva.use_label_mask": (False, {"adapter": {"init": "eva"}}),
    "adapter.eva.whiten": (True, {"adapter": {"init": "eva"}}),
    "adapter.lora_plus_ratio": (16, {}),
    "adapter.rank_pattern": ({"q_proj": 8}, {}),
    "adapter.alpha_pattern": ({"q_proj": 32}, {}),
    "adapter.layers_to_transform": ([0], {}),
    "adapter.init_from": (str(OTHER_ADAPTER), {"adapter": {"type": "lora", "rank": 4, "alpha": 8}}),
    "objective.type": ("pretrain", {}),
    "objective.train_on": ("all", {}),
    "objective.label_smoothing": (0.3, {}),
    "objective.z_loss": (0.1, {}),
    "objective.loss": ("hinge", DPO),
    "objective.beta": (0.5, DPO),
    "objective.label_flip": (0.2, DPO),
    "objective.nll_weight": (1, DPO),
    "objective.nll_mean": ("token", ORPO),
    "objective.nll_on": ("all", ORPO),
    "objective.gamma": (0.1, SIMPO),
    "objective.odds_weight": (0.5, ORPO),
    "objective.desirable_weight": (1.3, KTO),
    "objective.undesirable_weight": (0.8, KTO),
    "objective.center": (0.5, REWARD),
    "objective.reference": ("start", DPO),
    "objective.reference_cache": (True, DPO),
    "objective.policy": ("cispo", GRPO),
    "objective.ratio": ("sequence", GRPO),
    "objective.clip_low": (0.001, GRPO),
    "objective.clip_high": (0.001, GRPO),
    "objective.dual_clip": (1.0001, draws({"clip_high": 0})),
    "objective.mean": ("sequence", GRPO),
    "objective.advantage.baseline": ("others", draws({"advantage": {"scale": "none"}})),
    "objective.advantage.scale": ("none", GRPO),
    "objective.kl.weight": (0.5, GRPO),
    "objective.kl.measure": (True, GRPO),
    "objective.kl.estimator": ("k1", draws({"kl": {"weight": 0.5, "in": "reward"}})),
    "objective.kl.in": ("reward", draws({"kl": {"weight": 0.5}})),
    "objective.entropy_weight": (0.5, GRPO),
    "objective.updates_per_rollout": (2, GRPO),
    "objective.epochs_per_rollout": (3, GRPO),
    "objective.mask_truncated": (True, draws(rollout={"stop": ["e"]})),
    "objective.gamma_discount": (0.5, PPO),
    "objective.lambda_policy": (0.2, PPO),
    "objective.lambda_value": (0.2, PPO),
    "objective.lambda_length": (0.5, PPO),
    "objective.success_nll": (0.5, PPO),
    "objective.value.clip": (0.001, PPO),
    "objective.value.learning_rate_ratio": (2, PPO),
    "objective.value.pretrain_steps": (1, PPO),
    "rollout.prompts_per_step": (3, GRPO),
    "rollout.samples_per_prompt": (3, GRPO),
    "rollout.max_new_tokens": (4, GRPO),
    "rollout.temperature": (0.5, GRPO),
    "rollout.stop": (["e"], GRPO),
    "rollout.slots": (4, GRPO),
    "rollout.lookup_tokens": (3, GRPO),
    "rollout.server.url": ("http://127.0.0.1:1/v1", SERVED),
    "rollout.server.max_gap": (1e-12, SERVED),
    "rollout.server.max_staleness": (1, SERVED),
    "rollout.correction": (1, STALE),
    "rollout.server.adapter_folder": ("/nowhere", SERVED),
    "rollout.server.timeout": (0.01, SERVED),
    "rollout.tools.command": (["python3", "tool.py"], draws(rollout=LETTERS)),
    "rollout.tools.max_turns": (2, TOOLS),
    "rollout.tools.on_error": ("unscored", tools("mute.py", 1)),
    "rollout.tools.timeout": (30, tools("slow.py", 0.2)),
    "rollout.tools.directory": (".cache", TOOLS),
    "rollout.dynamic_sampling.reward": ("length", draws(rollout={"max_new_tokens": 6})),
    "rollout.dynamic_sampling.keep": ([0.9, 0.95], draws(rollout={"dynamic_sampling": {"reward": "length"}})),
    "rollout.dynamic_sampling.max_rounds": (1, draws(rollout={"dynamic_sampling": {"reward": "length", "keep": [0.9, 0.95]}})),
    "eval.prompts": (1, draws(data={"train": "prompts.jsonl", "eval": "prompts.jsonl"}, eval={"every_steps": 1})),
    **{f"data.{split}.{key}": case for split in ("train", "eval") for key, case in SOURCE_KEYS.items()},
    "data.eval_fraction": (0.25, {}),
    "data.template": ("llama3", FOREIGN),
    "data.prompt_as": ("user", GRPO),
    "data.template_variables": ({"bos_token": "<s>"}, {"data": {"template": "llama3"}, **FOREIGN}),
    "data.max_length": (40, {}),
    "data.overlong": ("drop", LONG),
    "data.truncation_side": ("left", LONG),
    "data.max_prompt_length": (5, {}),
    "data.max_completion_length": (3, {}),
    "data.packing": (False, {"train": {"micro_batch_size": 2}}),
    "data.separator": ("lamp", {"objective": {"type": "pretrain", "train_on": None}, "data": {"train": [{"path": "lines.txt", "sample_by": "line"}]}}),
    "data.join_documents": (True, {"objective": {"type": "pretrain", "train_on": None},
                                   "data": {"train": [{"path": "lines.txt", "sample_by": "line"}], "max_length": 40, "overlong": None}}),
    "data.group_by_length": (True, {}),
    "data.shuffle": (False, {}),
    "data.on_bad_row": ("skip", {"data": {"train": "bad.jsonl"}}),
    "train.epochs": (2, {"train": {"max_steps": None, "epochs": 1}}),
    "train.max_steps": (2, {}),
    "train.max_tokens": (100, {}),
    "train.max_time": (0.001, {}),
    "train.global_batch_size": (2, {}),
    "train.global_batch_tokens": (150, {"train": {"global_batch_size": None}}),
    "train.micro_batch_size": (1, {"data": {"packing": False}}),
    "train.micro_batch_tokens": (64, {}),
    "train.activation_checkpointing": ("full", {}),
    "train.precision": ("bf16", {}),
    "train.master_weights": (False, NARROW),
    "train.max_grad_norm": (0.01, {}),
    "train.neftune_alpha": (5, {}),
    "train.on_nan": ("skip", {"optimizer": {"learning_rate": 1e30}, "train": {"max_grad_norm": 0}}),
    "train.deterministic": (True, {}),
    "train.threads": (1, {}),
    "optimizer.type": ("sgd", {}),
    "optimizer.learning_rate": (1e-3, {}),
    "optimizer.betas": ([0.5, 0.6], {}),
    "optimizer.eps": (1e-2, {}),
    "optimizer.weight_decay": (0.5, {}),
    "optimizer.momentum": (0.9, {"optimizer": {"type": "sgd"}}),
    "schedule.type": ("constant", {}),
    "schedule.warmup_steps": (2, {}),
    "schedule.warmup_ratio": (0.5, {}),
    "schedule.min_lr_ratio": (0.5, {}),
    "schedule.decay_ratio": (0.9, {"schedule": {"type": "wsd"}}),
    "schedule.decay": ("sqrt", {"schedule": {"type": "wsd", "decay_ratio": 0.9}}),
    "schedule.cycles": (2, {"schedule": {"type": "cosine_with_restarts"}}),
    "schedule.power": (2, {"schedule": {"type": "polynomial"}}),
    "checkpoint.every_steps": (1, {}),
    "checkpoint.keep_last": (1, {"checkpoint": {"every_steps": 1, "keep_best": 0}}),
    "checkpoint.keep_best": (3, {**EVAL, "checkpoint": {"every_steps": 1, "keep_last": 1}}),
    "eval.every_steps": (1, {"data": {"eval": "eval.jsonl"}}),
    "eval.at_start": (True, {"data": {"eval": "eval.jsonl"}}),
    "eval.early_stopping.patience": (1, {**EVAL, "optimizer": {"learning_rate": 1e-12}}),
    "eval.early_stopping.min_delta": (100, {**EVAL, "eval": {"every_steps": 1, "early_stopping": {"patience": 1}}}),
    "log.every_steps": (2, {}),
    "log.tensorboard": (False, {}),
    "hardware.profile": ("cpu", {}),
    "hardware.device": ("cuda", {}),
    "hardware.memory_limit": ("1GiB", {}),
    "provider": ("reference", {}),
    "extends": (["base.yaml"], {}),
}

# Keys whose effect cannot be seen here, each with the reason.
UNSEEN = {
    "adapter.target_parameters": "of models whose experts lie in one tensor: tests/parity/check_tiny.py",
    "version": "there is one version",
    "data.eval.weight": "refused: every row is evaluated once",
    "$schema": "for editors",
    "eval.samples": "shows in the report: training_cases.py",
    "allow": "lets through a job that is refused without it: journeys/public_data.test",
    "train.deterministic": "chooses CUDA kernels; a CPU run is deterministic anyway",
    "train.residual": "is a choice in fp16, which a CPU does not compute in (tests/emulator/engine)",
    "model.dropout": "refuses a config.json that has dropout: plan/published_configs_test.cpp",
    "model.fp8_tolerance": "is of a base in fp8: tests/parity/check_fp8.py",
    "optimizer.offload": "is a choice on a GPU (tests/emulator/engine)",
    "train.activation_offloading": "is a choice on a GPU (tests/emulator/engine)",
    "hardware.profile": "a CPU has one profile that fits",
    "rollout.provider": "of rollout.server's keys",
    "rollout.server.headers": "which a server sees: server_cases.py",
    "rollout.server.concurrency": "decides how long it takes",
    "rollout.tools.workers": "decides how long it takes",
    "rollout.tools.memory_limit": "as of rewards: tests/reward/process_pool_test.cpp",
    "rollout.tools.environment": "as of rewards: tests/reward/process_pool_test.cpp",
    **{f"{place}.{key}": "a place of the hub's cache: tests/hub/fetch_test.py"
       for place in ("model", "data.train", "data.eval") for key in ("repo", "revision")},
}

# Sections whose keys are covered by another test.
ELSEWHERE = {"rewards.": "tests/reward/keys_test.py", "reward_mix.": "tests/reward/keys_test.py"}


def merged(below: dict, above: dict) -> dict:
    """Merges `above` over `below`; None removes a key."""
    result = dict(below)
    for key, value in above.items():
        result[key] = merged(result[key], value) if isinstance(value, dict) and isinstance(result.get(key), dict) else value
    return {key: value for key, value in result.items() if value is not None}


def with_value(job: dict, key: str, value) -> dict:
    job = json.loads(json.dumps(job))
    *path, last = key.split(".")
    place = job
    if path[:2] in (["data", "train"], ["data", "eval"]):
        sources = job["data"][path[1]]
        job["data"][path[1]] = sources = [{"path": sources}] if isinstance(sources, str) else sources
        sources[0][last] = value
        return job
    for part in path:
        place = place.setdefault(part, {})
    place[last] = value
    return job


def rows(first: int, count: int, several: bool = False) -> str:
    """Returns conversations, one a line. With `several`, a row also holds them as `turns` and
    `text`.
    """
    words = "the devil lends a small lamp to whoever asks why a lamp burns".split()
    lines = []
    for i in range(first, first + count):
        question = " ".join(words[(i * 3 + j) % len(words)] for j in range(3 + i % 5))
        answers = [" ".join(words[(i * 5 + j + k) % len(words)] for j in range(2 + i % 7)) for k in range(2)]
        turns = [{"role": "user", "content": question}, {"role": "assistant", "content": answers[0]}]
        if i % 3 == 0:
            turns += [{"role": "user", "content": "and?"}, {"role": "assistant", "content": answers[1]}]
        lines.append(json.dumps({"messages": turns, **({"turns": turns[-2:], "text": question} if several else {})}))
    return "\n".join(lines) + "\n"


# A program with three tools: one answers, one answers after half a second, one has no answer.
TOOL = """import json, sys, time
json.loads(sys.stdin.readline())
print(json.dumps({"ready": 1}), flush=True)
for line in sys.stdin:
    item = json.loads(line)
    if "id" in item:
        time.sleep(%s)
        print(json.dumps({"id": item["id"], %s}), flush=True)
"""


def write_inputs(folder: Path) -> None:
    for name, words in [("tool", (0, '"content": "=7;"')), ("slow", (0.5, '"content": "=7;"')), ("mute", (0, '"error": "no answer"'))]:
        (folder / f"{name}.py").write_text(TOOL % words)
    (folder / "train.jsonl").write_text(rows(0, 24))
    pairs = [json.loads(line)["messages"][:2] for line in rows(0, 48).splitlines()]
    (folder / "pairs.jsonl").write_text("".join(
        json.dumps({"chosen": good, "rejected": [good[0], bad[1]]}) + "\n" for good, bad in zip(pairs[:24], pairs[24:])
        if good[1] != bad[1]))
    (folder / "prompts.jsonl").write_text("".join(json.dumps({"prompt": json.loads(line)["messages"][0]["content"]}) + "\n"
                                                  for line in rows(0, 12).splitlines()))
    (folder / "eval.jsonl").write_text(rows(40, 6))
    (folder / "llama.yaml").write_text((ROOT / "examples/families/helium.yaml").read_text().replace("helium", "llama").replace("HeliumFor", "LlamaFor"))
    (folder / "other.jsonl").write_text(rows(60, 24))
    (folder / "both.jsonl").write_text(rows(0, 24, several=True))
    (folder / "bad.jsonl").write_text(rows(0, 24) + '{"messages": []}\n')
    (folder / "lines.txt").write_text("".join(json.loads(line)["text"] + "\n" for line in rows(0, 24, several=True).splitlines()))
    (folder / "base.yaml").write_text("optimizer: {learning_rate: 1e-4}\n")
    write_variant("bias", folder / "model-with-biases")
    other = folder / "other-model"
    other.mkdir(exist_ok=True)
    for file in MODEL.iterdir():
        content = file.read_bytes()
        if file.name == "config.json":
            content = content.replace(b'"rms_norm_eps": 1e-05', b'"rms_norm_eps": 1e-02')
        (other / file.name).write_bytes(content)


def seen(forge: str, folder: Path, job: dict) -> dict:
    """Returns everything that distinguishes two runs, except times and copies of the job."""
    folder.mkdir()
    write_inputs(folder)
    (folder / "run.json").write_text(json.dumps(job))
    done = subprocess.run([forge, "run", str(folder / "run.json"), "--json"], capture_output=True, text=True, timeout=120)
    facts = {"exit": done.returncode, "error": (done.stdout + done.stderr if done.returncode else "").replace(str(folder), "")}
    facts["threads"] = [e.get("threads") for e in map(json.loads, done.stdout.splitlines()) if e.get("event") == "hello"]
    files = [p.relative_to(folder).as_posix() for p in folder.rglob("*") if ".cache" not in p.parts and not p.name.endswith(".lost.jsonl")]
    facts["files"] = sorted("events" if "tfevents" in f else f for f in files)
    for plan in folder.rglob("plan.json"):
        facts["plan"] = json.loads(plan.read_text())
        for echo in ("job", "origins", "identity", "execution", "device"):
            facts["plan"].pop(echo)
        facts["plan"]["memory"].pop("available_bytes")
        for split in (facts["plan"]["data"][name] for name in ("train", "eval")):
            split.pop("cache_path"), split.pop("lost_rows_path")
    for metrics in folder.rglob("metrics.jsonl"):
        timeless = lambda e: {k: v for k, v in e.items() if "second" not in k and k not in ("path", "bytes")}  # noqa: E731
        facts["metrics"] = [timeless(json.loads(line)) for line in metrics.read_text().splitlines()]
    for result in folder.glob("**/adapter/adapter_model.safetensors"):
        facts["adapter"] = hashlib.sha256(result.read_bytes()).hexdigest()
    return facts


def memory_of(forge: str, folder: Path, job: dict) -> int:
    write_inputs(folder)
    (folder / "run.json").write_text(json.dumps(job))
    done = subprocess.run([forge, "plan", str(folder / "run.json"), "--json"], capture_output=True, text=True, timeout=60)
    return json.loads(done.stdout)["memory"]["available_bytes"]


def base_job() -> dict:
    return {"version": 1, "name": "run", "output_dir": "runs", "model": {"path": str(MODEL)}, **LORA,
            "data": {"train": "train.jsonl", "max_length": 200},
            "train": {"max_steps": 4, "global_batch_size": 4, "precision": "fp32"}, "optimizer": {"learning_rate": 5e-3}}


def check(forge: str, folder: Path, key: str, unchanged) -> str:
    """Returns the fault of a key, or "". `unchanged` runs a job, and the same job only once."""
    value, settings = KEYS[key]
    before = merged(base_job(), settings)
    after = with_value(before, key, value)
    if key == "hardware.memory_limit":
        without, limited = memory_of(forge, folder, before), memory_of(forge, folder, after)
        return "" if limited < without else "the limit does not show in the plan"
    first, second = unchanged(json.dumps(before)), seen(forge, folder / "after", after)
    wanted = {"data.on_bad_row": 6, "train.on_nan": 7, "rollout.tools.on_error": 5, "rollout.tools.timeout": 5}.get(key, 0)
    if first["exit"] != wanted:
        return f"the job without it ends with {first['exit']}: {first['error'][-600:]}"
    if second["exit"] in (2, 3, 70):
        return f"the job with it ends with {second['exit']}: {second['error'][-600:]}"
    return "" if first != second else "makes no difference"


def leaves(node: dict, prefix: str = ""):
    for key, value in node["properties"].items():
        forms = [value, *value.get("anyOf", [])]
        forms += [inner for form in forms if form.get("type") == "array" for inner in (form["items"], *form["items"].get("anyOf", []))]
        inner = next((form for form in forms if "properties" in form), None)
        if inner:
            yield from leaves(inner, prefix + key + ".")
        else:
            yield prefix + key


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("forge")
    parser.add_argument("--only", default="")
    args = parser.parse_args()
    forge = os.path.abspath(args.forge)
    schema = json.loads(subprocess.run([forge, "schema", "job"], capture_output=True, text=True, check=True).stdout)
    known = [key for key in leaves(schema) if not key.startswith(tuple(ELSEWHERE))]
    faults = {key: "stands in no test" for key in known if key not in KEYS and key not in UNSEEN}
    faults |= {key: "is no key of a job" for key in KEYS if key not in known}
    keys = [key for key in KEYS if key in known and key not in UNSEEN and args.only in key]
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(2) as pool, Server(MODEL, most_adapters=100) as server:
        for _, settings in KEYS.values():
            if "server" in settings.get("rollout", {}):
                settings["rollout"]["server"]["url"] = server.url
        @functools.lru_cache(None)
        def unchanged(job: str) -> dict:
            return seen(forge, Path(tempfile.mkdtemp(dir=folder)) / "before", json.loads(job))

        unchanged(json.dumps(base_job()))  # before two threads need it
        places = [Path(folder) / key for key in keys]
        for place in places:
            place.mkdir()
        for key, fault in zip(keys, pool.map(lambda pair: check(forge, *pair, unchanged), zip(places, keys))):
            if fault:
                faults[key] = fault
    for key, fault in faults.items():
        print(f"FAIL {key}: {fault}")
    for key, reason in UNSEEN.items():
        print(f"not seen here: {key}: {reason}")
    print(f"{len(keys) - len([k for k in faults if k in keys])} passed, {len(faults)} failed")
    return len(faults) > 0


if __name__ == "__main__":
    sys.exit(main())
