#!/usr/bin/env python3
"""Compares forge's GGUF types with llama.cpp's own quantiser on the same weights: blocks, error and
perplexity.

    python tests/parity/check_quantizer.py build/bin/forge --llama libllama.so --model FOLDER|FILE.gguf --text FILE [--types q4_0,…]

Needs gguf, numpy and a library with llama.cpp in it that exports ggml_quantize_chunk. Both quantise
the f32 GGUF that forge writes, and forge chooses the types of the tensors. Prints a table and "N
passed, N failed": forge's mean square error of every type must be at most 1.02 times llama.cpp's,
and its perplexity as well.
"""
import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))
from llama_library import LlamaCpp  # noqa: E402
from llama_quantiser import MOST, compare, tensors  # noqa: E402

TYPES = ["q8_0", "q4_0", "q4_k_m", "q5_k_m", "q6_k"]


def perplexity(library: LlamaCpp, path: Path, text: str) -> float:
    losses = []
    with library.load(path) as model:
        ids = model.tokenize(text)[:1024]
        for at in range(0, len(ids), 256):
            row = ids[at:at + 256]
            logits = model.logits(row)[:-1].astype(np.float64)
            logits -= logits.max(-1, keepdims=True)
            log_p = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
            losses += (-log_p[range(len(row) - 1), row[1:]]).tolist()
    return float(np.exp(np.mean(losses)))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("forge")
    parser.add_argument("--llama", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--text", type=Path, required=True)
    parser.add_argument("--types", default=",".join(TYPES))
    arguments = parser.parse_args()
    library, text, failed = LlamaCpp(arguments.llama), arguments.text.read_text(), 0

    def export(kind: str, folder: Path) -> Path:
        done = subprocess.run([arguments.forge, "export", "--model", arguments.model, "--gguf", "--type", kind, "--output",
                               str(folder / kind), "--json", "--no-check"], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return Path(json.loads(done.stdout)["file"])

    with tempfile.TemporaryDirectory(prefix="forge-quantizer-") as name:
        folder = Path(name)
        plain = export("f32", folder)
        exact = tensors(plain)
        print(f"f32 perplexity {perplexity(library, plain, text):.4f}", flush=True)
        for kind in arguments.types.split(","):
            own, theirs = export(kind, folder), folder / f"theirs-{kind}.gguf"
            blocks = compare(library, own, exact, theirs)
            found, their = perplexity(library, own, text), perplexity(library, theirs, text)
            good = blocks.good and found <= MOST * their
            failed += not good
            print(f"{'ok  ' if good else 'FAIL'}  {kind}: perplexity {found:.4f}, llama.cpp {their:.4f}; squared error {blocks.error:.4e}, llama.cpp "
                  f"{blocks.their_error:.4e}; {blocks.equal} of {blocks.tensors} tensors byte for byte equal", flush=True)
            own.unlink(), theirs.unlink()
    print(f"{len(arguments.types.split(',')) - failed} passed, {failed} failed")
    sys.exit(bool(failed))


main()
