#!/usr/bin/env python3
"""Compares rows of random CSV, TSV, JSON, JSONL and text files as `forge data` reads them with
Python's own readers.

    python tests/parity/check_sources.py build/bin/forge [--rounds 40] [--seed 1]

Every file is also packed with gzip, and with zstd if the zstandard package is installed, whole or
in two pieces. Compares the text of every example (`forge data --dump`), which for a pair is prompt,
completion and eos. Python's csv module, json and gzip are the oracle.
"""
import argparse
import csv
import gzip
import io
import json
import pathlib
import random
import subprocess
import sys
import tempfile

try:
    import zstandard
except ImportError:
    zstandard = None

ROOT = pathlib.Path(__file__).resolve().parents[2]
WORDS = ["one", "two three", "a,b", 'say "x"', "line\nbreak", "tab\there", "é", "日本", "", " lead", "trail ", "'", "{}", "\\n"]


def text(rng, empty=True):
    return " ".join(rng.choice(WORDS) for _ in range(rng.randint(1, 5))) or ("" if empty else "x")


def rows_of(rng):
    # A row needs something to train on: a completion is never empty.
    return [{"prompt": text(rng), "completion": "c" + text(rng)} for _ in range(rng.randint(1, 60))]


def as_csv(rng, rows, delimiter):
    out = io.StringIO(newline="")
    quoting = rng.choice([csv.QUOTE_MINIMAL, csv.QUOTE_ALL])
    writer = csv.writer(out, delimiter=delimiter, lineterminator=rng.choice(["\n", "\r\n"]), quoting=quoting)
    writer.writerow(["id", "prompt", "completion"])
    for i, row in enumerate(rows):
        writer.writerow([i, row["prompt"] or " ", row["completion"]])
    content = out.getvalue()
    read = list(csv.DictReader(io.StringIO(content, newline=""), delimiter=delimiter, strict=True))
    bom = rng.choice(["", "\ufeff"])
    return (bom + content).encode(), [(r["prompt"], r["completion"]) for r in read]


def as_jsonl(rng, rows):
    content = rng.choice(["\n", "\r\n", "\n\n"]).join(json.dumps(r, ensure_ascii=rng.random() < 0.5) for r in rows)
    return content.encode(), [(r["prompt"], r["completion"]) for r in rows]


def as_json(rng, rows):
    value = rows if rng.random() < 0.5 else {"version": 1, "data": rows, "n": 3}
    content = json.dumps(value, ensure_ascii=False, indent=rng.choice([None, 1, 4]))
    return content.encode(), [(r["prompt"], r["completion"]) for r in rows]


def packed(rng, content):
    cut = rng.randint(0, len(content))
    pieces = rng.choice([[content], [content[:cut], content[cut:]]])
    kinds = ["plain", "gz"] + (["zst"] if zstandard else [])
    kind = rng.choice(kinds)
    if kind == "gz":
        return ".gz", b"".join(gzip.compress(p) for p in pieces)
    if kind == "zst":
        return ".zst", b"".join(zstandard.compress(p) for p in pieces)
    return "", content


def forge_texts(forge, folder, path):
    job = {"model": {"path": str(ROOT / "tests/fixtures/tiny-llama")}, "adapter": "lora",
           "data": {"train": [{"path": str(path), "format": "prompt_completion"}], "max_length": 100000}}
    (folder / "job.json").write_text(json.dumps(job))
    dump = folder / "dump.jsonl"
    done = subprocess.run([forge, "data", folder / "job.json", "--dump", dump, "--quiet"], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{path}: forge data ends with {done.returncode}\n{done.stderr}")
    lines = [json.loads(line) for line in dump.read_text(encoding="utf-8").split("\n") if line]
    return [line["ids"] for line in lines]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("forge")
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    files = rows_compared = 0
    for round_number in range(args.rounds):
        rng = random.Random(args.seed * 1000 + round_number)
        rows = rows_of(rng)
        writers = {"csv": lambda: as_csv(rng, rows, ","), "tsv": lambda: as_csv(rng, rows, "\t"),
                   "jsonl": lambda: as_jsonl(rng, rows), "json": lambda: as_json(rng, rows)}
        for extension, write in writers.items():
            with tempfile.TemporaryDirectory() as name:
                folder = pathlib.Path(name)
                content, expected = write()
                suffix, data = packed(rng, content)
                path = folder / f"train.{extension}{suffix}"
                path.write_bytes(data)
                # Rows as plain JSONL are the reference: tokens are compared, so nothing is lost in
                # decoding.
                plain = folder / "expected.jsonl"
                plain.write_text("".join(json.dumps({"prompt": p, "completion": c}) + "\n" for p, c in expected))
                got, wanted = forge_texts(args.forge, folder, path), forge_texts(args.forge, folder, plain)
                if got != wanted:
                    sys.exit(f"round {round_number}, {path.name}: {len(got)} rows, expected {len(wanted)} equal ones")
                files += 1
                rows_compared += len(got)
    print(f"{files} files, {rows_compared} rows equal" + ("" if zstandard else " (zstandard is not installed: gzip only)"))


if __name__ == "__main__":
    main()
