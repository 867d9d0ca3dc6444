#!/usr/bin/env python3
"""Runs every line of every result's README as it is written.

    python tests/parity/check_readmes.py build/bin/forge --llama LIBRARY --llama-python llama_cpp_python-0.3.36 [--model FOLDER]

Python and forge are run. llama.cpp loads what is for llama-cli and answers. Lines for vLLM and
Ollama are compared with their documented formats (tests/export/serving_formats.py). Needs torch,
transformers, peft, gguf, bitsandbytes, llama.cpp as a library and llama-cpp-python's unpacked
source (llama_binding.py). Prints "N passed, N failed".
"""
import argparse
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests/parity"), str(ROOT / "tests/fixtures"), str(ROOT / "tests/export")]
from llama_binding import binding  # noqa: E402
from llama_library import LlamaCpp  # noqa: E402
from serving_formats import parse_modelfile, vllm_faults  # noqa: E402
from tally import Tally  # noqa: E402
from variants import write_variant  # noqa: E402

WHOLE = {"type": "none"}  # every weight trained, no adapter
tally = Tally()


def check(name: str, good: bool, said: str) -> None:
    tally.check(name, good, " ".join(said.split())[-160:])


def run(command: list, folder: Path, environment=os.environ) -> subprocess.CompletedProcess:
    path = f"{Path(arguments.forge).resolve().parent}:{os.environ['PATH']}"
    return subprocess.run(list(map(str, command)), cwd=folder, capture_output=True, text=True, env=environment | {"PATH": path}, timeout=900)


def forge(*words) -> None:
    done = run(["forge", *words], ROOT)
    assert done.returncode == 0, done.stderr[-1500:]


def asked_of_llama_cpp(words: list[str], folder: Path) -> str:
    options = dict(zip(words[1::2], words[2::2]))
    assert set(options) <= {"-m", "--lora"}, options
    with library.load(folder / options["-m"]) as model:
        before = model.logits([1, 5, 9])
        if "--lora" in options:
            model.set_lora(str(folder / options["--lora"]))
            assert abs(model.logits([1, 5, 9]) - before).max() > 0, "the adapter changes nothing"
        return f"answers {model.greedy([1, 5, 9], 4)}"


def held_against_vllm(words: list[str], folder: Path) -> str:
    """Checks `vllm serve MODEL [--enable-lora --max-lora-rank N --lora-modules NAME=PATH]`."""
    model = folder / words[2]
    for name in ("config.json", "tokenizer.json", "tokenizer_config.json"):
        assert (model / name).is_file(), f"no {name} in {model}"
    assert list(model.glob("*.safetensors")), f"no weights in {model}"
    rest = words[3:]
    if not rest:
        return "a model folder"
    assert rest[0] == "--enable-lora" and rest[1] == "--max-lora-rank" and rest[3] == "--lora-modules", rest
    name, _, adapter = rest[4].partition("=")
    faults = vllm_faults(folder / adapter, int(rest[2]))
    assert name and not faults, faults
    return f"an adapter of rank up to {rest[2]}"


def held_against_ollama(words: list[str], folder: Path) -> str:
    assert words[:2] == ["ollama", "create"] and words[3] == "-f", words
    modelfile = folder / words[4]
    rows = parse_modelfile(modelfile.read_text())
    source = modelfile.parent / dict(row[:2] for row in rows if row[0] != "PARAMETER")["FROM"]
    assert source.is_file(), f"no {source}"
    return f"FROM {source.name} and {len(rows) - 1} more"


def shell_line(line: str, folder: Path) -> tuple[bool, str]:
    words = shlex.split(line)
    if words[0] == "forge":
        done = run(words, folder)
        return done.returncode == 0, done.stdout + done.stderr
    try:
        return True, {"llama-cli": asked_of_llama_cpp, "vllm": held_against_vllm, "ollama": held_against_ollama}[words[0]](words, folder)
    except (AssertionError, ValueError, KeyError, OSError) as error:
        return False, repr(error)


def check_readme(name: str, folder: Path) -> None:
    text = (folder / "README.md").read_text()
    blocks = re.findall(r"^```(\w*)\n(.*?)^```", text, re.M | re.S)
    check(f"{name}: a README", bool(blocks) and {kind for kind, _ in blocks} <= {"python", "sh"}, f"{len(blocks)} blocks")
    for kind, block in blocks:
        if kind == "python":
            done = run([sys.executable, "-c", block], folder, llama_python if "llama_cpp" in block else os.environ)
            check(f"{name}: {block.splitlines()[0]}", done.returncode == 0 and ("print" not in block or done.stdout.strip() != ""), done.stdout or done.stderr)
        else:
            for line in filter(None, block.splitlines()):
                check(f"{name}: {line.split(' --')[0][:60]}", *shell_line(line, folder))


def trained(folder: Path, name: str, model: Path, rows: Path, /, **sections) -> Path:
    job = {"version": 1, "name": name, "output_dir": str(folder), "model": {"path": str(model)}, "adapter": {"type": "lora", "rank": 4},
           "data": {"train": [{"path": str(rows)}], "max_length": 64, "packing": False}, "train": {"max_steps": 1, "global_batch_size": 1, "precision": "fp32"}}
    for section, settings in sections.items():
        job[section] = settings if settings == WHOLE else job.get(section, {}) | settings
    (folder / f"{name}.json").write_text(json.dumps(job))
    forge("run", folder / f"{name}.json")
    return folder / name


def check_all(model: Path, folder: Path) -> None:
    rows, pairs = folder / "rows.jsonl", folder / "pairs.jsonl"
    rows.write_text(json.dumps({"prompt": "What is a lighthouse?", "completion": "A tower with a lamp."}) + "\n")
    pairs.write_text(json.dumps({"prompt": "What is a lighthouse?", "chosen": "A tower.", "rejected": "A boat."}) + "\n")
    forge("export", "--model", model, "--gguf", "--type", "f16", "--output", folder / "base", "--no-check")
    gguf = next((folder / "base").glob("*.gguf"))
    results = {
        "lora": (model, rows, {}),
        "full": (model, rows, {"adapter": WHOLE}),
        "on a GGUF": (gguf, rows, {}),
        "nf4": (model, rows, {"model": {"quantization": "nf4"}}),
        "dora": (model, rows, {"adapter": {"use_dora": True}}),
        "pissa": (model, rows, {"adapter": {"init": "pissa"}}),
        "head kept whole": (model, rows, {"adapter": {"modules_to_save": ["lm_head"]}}),
        "added tokens": (model, rows, {"model": {"add_tokens": ["<tower>"]}, "adapter": {"modules_to_save": ["lm_head", "embed_tokens"]}}),
        "reward": (model, pairs, {"objective": {"type": "reward"}}),
        "reward full": (model, pairs, {"objective": {"type": "reward"}, "adapter": WHOLE}),
    }
    for name, (base, data, sections) in results.items():
        result = trained(folder, name.replace(" ", "-"), base, data, **sections)
        check_readme(name, result / ("model" if (result / "model").exists() else "adapter"))
        if name in ("lora", "on a GGUF"):
            forge("merge", result, "--dtype", "bf16")
            check_readme(f"{name}, merged", result / "merged")
            forge("export", result, "--gguf-lora")
            made = result / "gguf-lora"
            (made / "BASE.gguf").symlink_to(gguf)
            check_readme(f"{name}, LoRA GGUF", made)
        if name in ("lora", "full", "added tokens"):
            forge("export", result, "--gguf", "--type", "q8_0")
            forge("export", result, "--ollama", "--type", "q8_0")
            check_readme(f"{name}, GGUF", result / "gguf")
            check_readme(f"{name}, Ollama", result / "ollama")


parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("forge")
parser.add_argument("--llama", required=True)
parser.add_argument("--llama-python", type=Path, required=True, help="llama-cpp-python's unpacked source distribution")
parser.add_argument("--model", type=Path, help="a Hugging Face folder; default: the tiny fixture")
arguments = parser.parse_args()
with tempfile.TemporaryDirectory(prefix="forge-readmes-") as temporary:
    place = Path(temporary)
    library = LlamaCpp(arguments.llama)
    llama_python = binding(arguments.llama_python, arguments.llama, place / "binding")
    check_all(arguments.model.resolve() if arguments.model else write_variant("base", place / "tiny"), place)
tally.end()
