#!/usr/bin/env python3
"""Checks that schemas/job.schema.json and forge's parser agree.

    python tests/config/schema_test.py [--forge build/bin/forge]

An independent JSON Schema implementation (the jsonschema package) must accept every example and
refuse every bad case below; with --forge, `forge validate` must agree on each. Rules between keys
are forge's alone and are not part of the schema. Needs jsonschema and yaml (scripts/packages.sh
installs them).
"""
import argparse
import copy
import json
import pathlib
import re
import subprocess
import sys
import tempfile

try:
    import jsonschema
    import yaml
except ImportError as error:
    sys.exit(f"{error}: scripts/packages.sh installs python3-jsonschema and python3-yaml; pip has jsonschema and pyyaml")

ROOT = pathlib.Path(__file__).resolve().parents[2]


class Loader(yaml.SafeLoader):
    """Loads YAML 1.2's core schema: 1e-4 is a number, yes and on are text."""


Loader.yaml_implicit_resolvers = {}
for tag, pattern, first in [
    ("bool", r"^(?:true|True|TRUE|false|False|FALSE)$", "tTfF"),
    ("null", r"^(?:~|null|Null|NULL|)$", ["~", "n", "N", ""]),
    ("int", r"^[-+]?[0-9]+$", "-+0123456789"),
    ("float", r"^[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?$", "-+0123456789."),
]:
    Loader.add_implicit_resolver("tag:yaml.org,2002:" + tag, re.compile(pattern), list(first))
Loader.add_constructor("tag:yaml.org,2002:float", lambda loader, node: float(node.value))

GOOD = {"model": {"path": "m"}, "data": {"train": ["a.jsonl"]}}


def changed(path, value):
    job = copy.deepcopy(GOOD)
    place = job
    *parents, last = path.split(".")
    for key in parents:
        place = place.setdefault(key, {})
    place[last] = value
    return job


ACCEPTED = [
    GOOD,
    {"model": "m", "data": {"train": "a.jsonl"}},
    {"extends": "base.yaml", "seed": 3},
    changed("data.train", [{"path": "a", "format": "text", "limit": 3}, "b"]) | {"objective": "pretrain"},
    changed("data.train", {"path": "a"}),
    changed("adapter", "qlora"),
    changed("adapter", None),
    changed("adapter", {"type": "lora", "target_modules": "all-linear"}),
    changed("adapter", {"type": "lora", "target_modules": ["q_proj"], "rank_pattern": {"q_proj": 4}}),
    changed("adapter", {"type": "lora", "rank": 8.0, "alpha": 0.5, "layers_to_transform": [1, 2]}),
    changed("train", {"micro_batch_size": "auto", "precision": "auto", "max_time": "1h30m", "epochs": 0.5}),
    changed("train.micro_batch_size", None),
    changed("hardware.memory_limit", "24GiB"),
    changed("hardware.memory_limit", 1024),
    changed("optimizer", "sgd"),
    changed("schedule", {"type": "wsd", "decay_ratio": 0.2}),
    changed("optimizer.betas", [0.9, 0.95]),
    changed("version", 1),
    changed("objective", "dpo"),
    {"model": {"repo": "org/m"}, "data": {"train": "a.jsonl"}},
    {"model": {"repo": "org/m", "revision": "main"}, "data": {"train": [{"repo": "org/d"}]}},
    {"model": {"repo": "org/m", "path": "m.gguf"}, "data": {"train": {"repo": "org/d", "path": "a.jsonl"}}},
    {"extends": "base.yaml", "model": {"dropout": "none"}},
]

REFUSED = [
    {},
    [],
    "text",
    {"model": "m"},
    {"data": {"train": "a"}},
    {"model": {"quantization": "none"}, "data": {"train": "a"}},
    {"model": "m", "data": {}},
    {"model": "m", "data": {"train": []}},
    changed("sede", 1),
    changed("adapter.lora_r", 8),
    changed("train.learning_rate", 1e-4),
    changed("eval.early_stopping.patiense", 1),
    changed("data.train", [{"path": "a", "fromat": "text"}]),
    changed("data.train", [{"format": "text"}]),
    changed("data.train", [1]),
    changed("data.train", 1),
    changed("version", 2),
    changed("seed", "7"),
    changed("seed", -1),
    changed("seed", 1.5),
    changed("seed", True),
    changed("seed", [1]),
    changed("name", 2026),
    changed("name", ""),
    changed("name", True),
    changed("output_dir", {"a": 1}),
    changed("model", []),
    changed("model.quantization", "nf8"),
    changed("model.double_quantization", "yes"),
    changed("model.double_quantization", 1),
    changed("adapter", {"type": "lora", "rank": 0}),
    changed("adapter", {"type": "lora", "rank": 1.5}),
    changed("adapter", {"type": "lora", "dropout": 1}),
    changed("adapter", {"type": "lora", "target_modules": []}),
    changed("adapter", {"type": "lora", "target_modules": {"a": 1}}),
    changed("adapter", {"type": "lora", "rank_pattern": {"q": 0}}),
    changed("adapter", {"type": "lora", "rank_pattern": [1]}),
    changed("adapter", {"type": "lora", "layers_to_transform": [-1]}),
    changed("adapter", "loraa"),
    changed("objective", "dpoo"),
    {"model": {"revision": "main"}, "data": {"train": "a"}},
    {"model": "m", "data": {"train": [{"revision": "main"}]}},
    changed("data.eval_fraction", 1),
    changed("data.max_length", 0),
    changed("data.max_length", "auto"),
    changed("train.epochs", 0),
    changed("train.max_steps", 0),
    changed("train.max_time", "1 week"),
    changed("train.micro_batch_size", "all"),
    changed("train.precision", "bf61"),
    changed("train", 3),
    changed("optimizer.learning_rate", 0),
    changed("optimizer.betas", [0.9]),
    changed("optimizer.betas", [0.9, 1]),
    changed("optimizer.betas", 0.9),
    changed("schedule.warmup_steps", 0.1),
    changed("schedule.warmup_ratio", 3),
    changed("schedule", ["linear"]),
    changed("checkpoint.keep_last", 0),
    changed("log.tensorboard", "true"),
    changed("hardware.memory_limit", "24 gigs"),
    changed("hardware.memory_limit", 0),
]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--forge", help="also run `validate` of this forge")
    options = parser.parse_args()
    schema = json.loads((ROOT / "schemas/job.schema.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    faults = 0

    def check(what, job, expected, file):
        nonlocal faults
        verdicts = {"jsonschema": validator.is_valid(job)}
        if options.forge:
            verdicts["forge"] = subprocess.run([options.forge, "validate", file], capture_output=True).returncode == 0
        for who, verdict in verdicts.items():
            if verdict != expected:
                faults += 1
                print(f"{who} {'accepts' if verdict else 'refuses'} {what}")

    examples = sorted((ROOT / "examples").glob("*.yaml"))
    for file in examples:
        check(file.name, yaml.load(file.read_text(), Loader), True, file)
    with tempfile.TemporaryDirectory() as folder:
        (pathlib.Path(folder) / "base.yaml").write_text("model: m\ndata: {train: a.jsonl}\n")
        file = pathlib.Path(folder) / "job.json"
        for expected, cases in [(True, ACCEPTED), (False, REFUSED)]:
            for job in cases:
                file.write_text(json.dumps(job))
                check(json.dumps(job), job, expected, file)
    print(f"{len(examples)} examples, {len(ACCEPTED)} good and {len(REFUSED)} bad cases, {faults} disagreements")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
