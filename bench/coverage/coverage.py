#!/usr/bin/env python3
"""Counts which models that other programs' examples name are opened by forge.

    bench/coverage/coverage.py [--missing] build/bin/forge

Each list (axolotl.tsv, automodel.tsv) has a row for a model: its name, how many example
configurations name it, its kind, the class that its config.json names, and the form of its files
where that is not plain safetensors or decides whether forge opens them. The names were taken from
the programs' repositories at the commit in the list's first line; classes are as published, or, of
models that were not at hand, as transformers names the model's type.

A model counts as opened if forge has its class as a family (`forge list families`) or trains the
language model inside it (`forge list towers`), and reads its form. Rows of kind "other" (images,
speech, encoders, diffusion, drafts for decoding) are not counted. Exits with 1 if a list is below
its mark.
"""

import argparse
import collections
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
# The share of configurations that are to open.
MARKS = {"axolotl": 0.90, "automodel": 0.80}
# Forms that docs/checkpoints.md says are read.
FORMS = {"", "bitsandbytes", "gptq", "nvfp4"}


def classes(forge: str) -> set[str]:
    """Returns the classes of config.json's `architectures` that forge opens."""
    found = set()
    for what in ("families", "towers"):
        text = subprocess.run([forge, "list", what], check=True, capture_output=True, text=True).stdout
        found |= {line.split()[1] for line in text.splitlines() if len(line.split()) > 1}
    # Score heads of a family's models have a class of their own.
    return found | {name.replace("ForCausalLM", "ForSequenceClassification") for name in found}


def rows(path: pathlib.Path) -> list[tuple[str, int, str, str, str]]:
    """Returns [(model, configurations, kind, class, form)]."""
    found = []
    for line in path.read_text().splitlines():
        if line.startswith("#"):
            continue
        fields = line.split("\t")
        model, count, kind, class_ = fields[:4]
        found.append((model, int(count), kind, class_, fields[4] if len(fields) > 4 else ""))
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("forge")
    parser.add_argument("--missing", action="store_true", help="list what does not open, by class")
    options = parser.parse_args()
    known = classes(options.forge)
    below = False
    for name, mark in MARKS.items():
        counted = [row for row in rows(HERE / f"{name}.tsv") if row[2] != "other"]
        opened = [row for row in counted if row[3] in known and row[4] in FORMS]
        share = sum(row[1] for row in opened) / sum(row[1] for row in counted)
        print(f"{name}: {sum(row[1] for row in opened)} of {sum(row[1] for row in counted)} configurations "
              f"({share:.1%}, mark {mark:.0%}), {len(opened)} of {len(counted)} models")
        below |= share < mark
        if options.missing:
            missing: collections.Counter[str] = collections.Counter()
            for row in counted:
                if row not in opened:
                    missing[f"{row[3]} {row[4]}".strip()] += row[1]
            for class_, count in missing.most_common():
                print(f"  {count:3} {class_}")
    return int(below)


if __name__ == "__main__":
    sys.exit(main())
