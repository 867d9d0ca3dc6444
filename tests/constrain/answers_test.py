#!/usr/bin/env python3
"""Constrained answers of a model of random weights: only the constraint can make them valid.

    python3 tests/constrain/answers_test.py build/bin/forge

The requirements on each schema's answers are written out here, so that they do not depend on
forge's own validator.
"""
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

MODEL = Path(__file__).resolve().parents[1] / "fixtures/tiny-llama"
FORGE = sys.argv[1]
failures = []


def is_int(value):
    return isinstance(value, int) and not isinstance(value, bool)


PERSON = {"type": "object", "properties": {"name": {"type": "string", "minLength": 1, "maxLength": 20}, "age": {"type": "integer", "minimum": 0, "maximum": 130},
                                           "pets": {"type": "array", "items": {"enum": ["cat", "dog"]}, "maxItems": 3}},
          "required": ["name", "age"], "additionalProperties": False}
TREE = {"$defs": {"t": {"type": "object", "properties": {"v": {"type": "number", "minimum": 0, "maximum": 1}, "kids": {"type": "array", "items": {"$ref": "#/$defs/t"}}},
                        "required": ["v", "kids"]}}, "$ref": "#/$defs/t"}


def is_person(value):
    return (isinstance(value, dict) and set(value) <= {"name", "age", "pets"} and isinstance(value["name"], str) and 1 <= len(value["name"]) <= 20
            and is_int(value["age"]) and 0 <= value["age"] <= 130 and len(value.get("pets", [])) <= 3 and set(value.get("pets", [])) <= {"cat", "dog"})


def is_tree(value):
    return set(value) == {"v", "kids"} and 0 <= value["v"] <= 1 and not isinstance(value["v"], bool) and all(map(is_tree, value["kids"]))


CASES = [("person", PERSON, is_person, 40), ("tree", TREE, is_tree, 30), ("anything", {}, lambda value: True, 4),
         ("date", {"type": "string", "pattern": "^(19|20)\\d\\d-(0[1-9]|1[0-2])-\\d\\d$"},
          lambda value: bool(re.fullmatch(r"(19|20)[0-9]{2}-(0[1-9]|1[0-2])-[0-9]{2}", value)), 12)]


def check(name, good, said):
    if not good:
        failures.append(name)
    print(f"{'ok  ' if good else 'FAIL'}  {name}: {said}")


def forge(*words):
    return subprocess.run([FORGE, "generate", "--model", MODEL, "--raw", "--json", "--device", "cpu", *map(str, words)], capture_output=True, text=True)


PROMPTS = [word for text in ("The lamp", "{", "été", "return sum(values)", "x" * 50) for word in ("--prompt", text)]
with tempfile.TemporaryDirectory(prefix="forge-answers-") as folder:
    for name, schema, holds, least in CASES:
        path = Path(folder) / f"{name}.json"
        path.write_text(json.dumps(schema))
        for most in (least, least + 7, 90):
            for how in (["--temperature", 0], ["--temperature", 3, "--seed", most], ["--temperature", 1, "--repetition-penalty", 1.3, "--top-k", 5]):
                done = forge(*PROMPTS, "--json-schema", path, "--max-new-tokens", most, *how)
                assert done.returncode == 0, done.stderr
                answers = [json.loads(line) for line in done.stdout.splitlines()]
                good = [holds(json.loads(answer["text"])) and answer["tokens"] <= most for answer in answers]
                check(f"{name} {most} {how}", len(good) == 5 and all(good), answers[0]["text"][:100])
    done = forge(*PROMPTS, "--choice", "yes", "--choice", "no", "--choice", "Où, donc?", "--temperature", 5)
    answers = [json.loads(line)["text"] for line in done.stdout.splitlines()]
    check("choices", len(answers) == 5 and set(answers) <= {"yes", "no", "Où, donc?"}, str(answers))
    done = forge(*PROMPTS, "--choice", "yes, of course", "--max-new-tokens", 3)
    check("too few tokens", done.returncode == 2 and "needs up to 14 tokens" in done.stdout, done.stdout.strip())
    for words, said in ((["--choice", "a", "--json-schema", path], "expected one of them"), (["--choice", "a", "--stop", "x"], "--stop would cut"),
                        (["--choice", ""], "--choice: expected a text"), (["--json-schema", Path(folder) / "none.json"], "none.json")):
        done = forge("--prompt", "x", *words)
        check(" ".join(map(str, words[:1])), done.returncode != 0 and said in done.stdout, done.stdout.strip()[:100])
print(f"{len(failures)} failed")
sys.exit(bool(failures))
