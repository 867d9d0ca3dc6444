#!/usr/bin/env python3
"""Checks family files from the outside: numbers beside transformers', runs, their results, and hostile
files. Standard library only.

    python3 tests/families/check_family_files.py build/bin/forge [--only NAME]

Prints every failure and "N passed, N failed"; exits 1 if any failed.
"""
import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from helium import FAMILY, NAMES, ROOT, write_config, write_helium
from variants import write_variant

HERE = Path(__file__).resolve().parent
ROWS = ROOT / "tests" / "parity" / "goldens" / "tiny-batches.jsonl"


class Checks:
    def __init__(self, forge: str, root: Path):
        self.forge, self.root, self.passed, self.failed = forge, root, 0, 0

    def say(self, what: str, ok: bool, detail: str = "") -> None:
        self.passed, self.failed = self.passed + ok, self.failed + (not ok)
        if not ok:
            print(f"FAIL {what}: {detail}", flush=True)

    def call(self, *words, code: int = 0) -> str:
        done = subprocess.run([self.forge, *map(str, words)], capture_output=True, text=True)
        said = done.stdout + done.stderr
        self.say(" ".join(map(str, words)), done.returncode == code, f"exit {done.returncode}, expected {code}\n{said}")
        return said

    def refused(self, code: int, part: str, *words) -> None:
        said = self.call(*words, code=code)
        self.say(f"{' '.join(map(str, words))} says {part}", part in said, said)

    def job(self, name: str, model: dict, **more) -> Path:
        job = {"name": name, "output_dir": str(self.root / "runs"), "model": model,
               "adapter": {"type": "lora", "rank": 4, "alpha": 8},
               "objective": {"type": "sft", "train_on": "all"},
               "data": {"train": [{"path": str(ROWS), "format": "tokens"}], "packing": False},
               "train": {"max_steps": 4, "global_batch_size": 4, "precision": "fp32"},
               "optimizer": {"type": "adamw", "learning_rate": 1e-2}, "schedule": {"type": "constant"},
               "hardware": {"device": "cpu"}}
        for section, keys in more.items():
            job[section] = {**job.get(section, {}), **keys}
        path = self.root / f"{name}.json"
        path.write_text(json.dumps(job))
        return path


def vectors(c: Checks) -> None:
    """Logits, gradients, text and names are transformers'."""
    for name in NAMES:
        model = write_helium(name, c.root / f"helium-{name}")
        said = c.call("family", "check", FAMILY, model, "--vectors", HERE / f"helium-{name}.json")
        c.say(f"{name}: all rows hold", said.count("ok ") >= 4 and "FAILED" not in said, said)
    wrong = c.root / "wrong.yaml"
    wrong.write_text(FAMILY.read_text().replace("rotary_pairs: neighbours", "rotary_pairs: halves"))
    said = c.call("family", "check", wrong, c.root / "helium-plain", "--vectors", HERE / "helium-plain.json", code=8)
    c.say("other pairs of angles differ", said.count("FAILED") >= 2, said)


def same_as_own(c: Checks) -> None:
    """A described Llama trains the same adapter as forge's own, bit for bit."""
    own = write_variant("base", c.root / "own")
    other = write_helium("plain", c.root / "other")
    file = c.root / "llama-again.yaml"
    file.write_text(FAMILY.read_text().replace("rotary_pairs: neighbours", "rotary_pairs: halves"))
    c.call("run", c.job("own", {"path": str(own)}), "--quiet")
    c.call("run", c.job("again", {"path": str(other), "family": str(file)}), "--quiet")
    adapters = [(c.root / "runs" / name / "adapter" / "adapter_model.safetensors").read_bytes() for name in ("own", "again")]
    c.say("the adapters are equal", adapters[0] == adapters[1])


# Families that forge has in C++, described once more: experts, regroup, scale, head_norm.
AGAIN = {"mixtral": ("mixtral", "mixtral-balanced"), "granite": ("granite", "granite-tied"),
         "falcon": ("falcon-grouped", "falcon-sequential"), "qwen3": ("qwen3",)}


def described_again(c: Checks) -> None:
    """A description of a family in C++ has its list of ops and its trained adapter, bit for bit."""
    for family, models in AGAIN.items():
        for variant in models:
            model = {"path": str(write_variant(variant, c.root / variant))}
            both = [c.job(f"{variant}-own", model), c.job(f"{variant}-again", model | {"family": str(HERE / "again" / f"{family}.yaml")})]
            lists = [c.call("plan", job, "--graph") for job in both]
            c.say(f"{variant}: the lists are equal", lists[0] == lists[1])
            for job in both:
                c.call("run", job, "--quiet")
            trained = [(c.root / "runs" / job.stem / "adapter" / "adapter_model.safetensors").read_bytes() for job in both]
            c.say(f"{variant}: the adapters are equal", trained[0] == trained[1])


def gguf(c: Checks) -> None:
    """A GGUF is read by a family file that names its architecture, and only by such a one."""
    c.call("export", "--gguf", "--model", write_variant("base", c.root / "llama"), "--type", "f32", "--output", c.root / "out")
    file, model = c.root / "mine.yaml", c.root / "out" / "model-f32.gguf"
    file.write_text(FAMILY.read_text().replace("rotary_pairs: neighbours", "gguf: llama").replace("helium", "mine").replace("Helium", "Mine"))
    c.call("family", "check", file, model)
    c.refused(3, 'general.architecture is "llama", and', "family", "check", FAMILY, model)
    c.call("run", c.job("gguf", {"path": str(model), "family": str(file)}), "--quiet")
    c.call("merge", c.root / "runs" / "gguf", "--output", c.root / "merged")
    c.call("export", "--gguf", c.root / "runs" / "gguf", "--type", "f32", "--output", c.root / "again")


def results(c: Checks) -> None:
    """Everything that a run leaves is read without naming the file again."""
    model = write_helium("plain", c.root / "model")
    c.refused(3, "the architecture HeliumForCausalLM", "plan", c.job("none", {"path": str(model)}))
    job = c.job("lora", {"path": str(model), "family": str(FAMILY)})
    c.call("run", job, "--quiet")
    run = c.root / "runs" / "lora"
    c.say("family.yaml lies beside the adapter", (run / "adapter" / "family.yaml").read_text() == FAMILY.read_text())
    c.call("generate", run, "--prompt", "The", "--max-new-tokens", "4")
    c.call("adapter", "check", run / "adapter", "--model", model)
    merged = c.root / "merged"
    c.call("merge", run, "--output", merged)
    c.say("family.yaml lies beside the merged model", (merged / "family.yaml").read_text() == FAMILY.read_text())
    c.call("generate", "--model", merged, "--prompt", "The", "--max-new-tokens", "4")
    c.call("family", "check", FAMILY, merged)
    full = c.job("full", {"path": str(model), "family": str(FAMILY)}, adapter={"type": "none", "rank": None, "alpha": None})
    c.call("run", full, "--quiet")
    c.call("generate", c.root / "runs" / "full", "--prompt", "The", "--max-new-tokens", "4")
    # Beside the base, too, it is found.
    shutil.copy(FAMILY, model / "family.yaml")
    c.call("plan", c.job("beside", {"path": str(model)}))


def resumed(c: Checks) -> None:
    """A run continues with the same content only, from any place."""
    model = write_helium("plain", c.root / "base")
    file = c.root / "mine.yaml"
    shutil.copy(FAMILY, file)
    once = c.job("once", {"path": str(model), "family": str(file)}, checkpoint={"every_steps": 2})
    c.call("run", once, "--quiet")
    first = c.job("twice", {"path": str(model), "family": str(file)}, train={"max_steps": 2}, checkpoint={"every_steps": 2})
    c.call("run", first, "--quiet")
    moved = c.root / "elsewhere.yaml"
    shutil.move(file, moved)
    again = c.job("twice", {"path": str(model), "family": str(moved)}, checkpoint={"every_steps": 2})
    c.call("run", again, "--extend", "--quiet")
    adapters = [(c.root / "runs" / name / "adapter" / "adapter_model.safetensors").read_bytes() for name in ("once", "twice")]
    c.say("a run in two parts is bit-equal", adapters[0] == adapters[1])
    moved.write_text(moved.read_text() + "# another content\n")
    c.refused(3, "elsewhere.yaml changed since the run began", "run", again)


def hostile(c: Checks) -> None:
    """Faults of a file: exit 3 with line and reason; nothing is loaded."""
    model = write_helium("plain", c.root / "hostile")
    text = FAMILY.read_text()
    cases = {
        "cycle": (text.replace("x = norm(h, input_layernorm)", "x = norm(y, input_layernorm)"), ":19:3: layer: y is read before it is made"),
        "misspelt": (text.replace("gated(", "gatd("), 'unknown op "gatd" (did you mean "gated"?)'),
        "ancestor": ("form: 1\nname: &a [*a]\n", "anchors (&name) and aliases (*name) are not supported"),
        "huge": (text.replace("head_dim: 128", "head_dim: 99999999999999"), "defaults.head_dim: 99999999999999 is outside"),
        "width": (text.replace("q_proj: q_width", "q_proj: 64 intermediate"), "layer: rope: q is 5632 wide"),
        "binary": ("\x00\x01\x02", "a control character"),
        "no file": (None, "no such file"),
    }
    for name, (content, part) in cases.items():
        file = c.root / f"{name}.yaml"
        if content is not None:
            file.write_text(content)
        c.refused(3, part, "family", "check", file, model)
        c.refused(3, part, "plan", c.job("bad", {"path": str(model), "family": str(file)}))
    write_config(model, {"use_magic": True})
    c.refused(3, "use_magic is true, a setting forge does not know", "family", "check", FAMILY, model)
    write_config(model, {"use_magic": None, "intermediate_size": 96})
    c.refused(5, "has shape [88, 32], expected [96, 32]", "family", "check", FAMILY, model)
    whole, empty = write_helium("plain", c.root / "whole"), c.root / "empty.json"
    empty.write_text("{}")
    c.refused(5, "is no file of vectors", "family", "check", FAMILY, whole, "--vectors", empty)
    other = json.loads((HERE / "helium-plain.json").read_text()) | {"model_type": "llama"}
    empty.write_text(json.dumps(other))
    c.refused(5, "is of a llama, and the model is a helium", "family", "check", FAMILY, whole, "--vectors", empty)


CASES = {case.__name__: case for case in (vectors, same_as_own, described_again, gguf, results, resumed, hostile)}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("forge")
    parser.add_argument("--only", choices=CASES)
    args = parser.parse_args()
    passed = failed = 0
    for name, case in CASES.items():
        if args.only in (None, name):
            with tempfile.TemporaryDirectory() as folder:
                checks = Checks(args.forge, Path(folder))
                case(checks)
                passed, failed = passed + checks.passed, failed + checks.failed
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
