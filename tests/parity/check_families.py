#!/usr/bin/env python3
"""Checks the families' table of docs/families.md: the properties of each, and the checks behind it.
Standard library only.

    python3 tests/parity/check_families.py build/bin/forge [--write]

The families are those of `forge list families`. A family's checks are the variants of
tests/fixtures with its model_type that have goldens by transformers and peft. Fails if the table on
the page differs, or if a family has no check.
"""
import argparse
import json
import subprocess
import sys
from pathlib import Path

import cases
from fixtures_path import variants

HERE = Path(__file__).resolve().parent
GOLDENS = HERE / "goldens"
PAGE = HERE.parent.parent / "docs" / "families.md"
BEGIN, END = "<!-- table -->\n", "<!-- end -->\n"


def families(forge: str) -> list[list[str]]:
    """Returns [(model_type, class, GGUF architecture or "")]."""
    text = subprocess.run([forge, "list", "families"], check=True, capture_output=True, text=True).stdout
    rows = [line.split() for line in text.splitlines() if "For" in line or "LMHead" in line]
    return [[row[0], row[1], row[3] if row[2:3] == ["GGUF:"] else ""] for row in rows]


def configs() -> dict[str, dict]:
    """Returns {variant: its config.json}."""
    base = json.loads((variants.BASE / "config.json").read_text())
    recipes = {path.stem: json.loads(path.read_text()) for path in sorted(variants.VARIANTS.glob("*.json"))}
    return {"base": base} | {name: base | recipe["config"] for name, recipe in recipes.items()}


def sign(there: bool) -> str:
    return "✓" if there else ""


def gguf_check(variant: str) -> bool:
    return (GOLDENS / f"{variant}.gguf").exists() or variant == "base"


def row(family: list[str], configs_: dict[str, dict], logits: str) -> tuple[str, list[str]]:
    model_type, architecture, gguf = family
    mine = [name for name, config in configs_.items() if config["model_type"] == model_type]
    checked = [name for name in mine if f'"{name}"' in logits and (GOLDENS / f"logits-{name}.safetensors").exists()]
    trained = {case.variant for case in cases.CASES if case.variant in mine}
    full = {case.variant for case in cases.CASES if case.variant in mine and not case.lora}
    lora = {case.variant for case in cases.CASES if case.variant in mine and case.lora}
    faults = []
    if not checked:
        faults.append(f"{model_type}: no logits are compared")
    if not full or not lora:
        faults.append(f"{model_type}: its gradients or its adapters are not compared")
    read = sign(any(gguf_check(name) for name in mine)) if gguf else ""
    cells = [model_type, f"`{architecture}`", sign(bool(checked)), sign(bool(full)), sign(bool(lora)),
             f"`{gguf}` {read}".strip() if gguf else "", ", ".join(sorted(trained | set(checked)))]
    return "| " + " | ".join(cells) + " |", faults


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("forge")
    parser.add_argument("--write", action="store_true", help="rewrite the page's table")
    args = parser.parse_args()
    logits = (HERE / "logits_test.cpp").read_text()
    head = ["| model_type | class | logits | gradients | LoRA | GGUF | variants |", "|---|---|---|---|---|---|---|"]
    rows = [row(family, configs(), logits) for family in families(args.forge)]
    table = "\n".join(head + [text for text, _ in rows]) + "\n"
    faults = [fault for _, found in rows for fault in found]
    page = PAGE.read_text()
    before, rest = page.split(BEGIN)
    written = before + BEGIN + table + END + rest.split(END)[1]
    if args.write:
        PAGE.write_text(written)
    elif page != written:
        faults.append(f"{PAGE.name}: the table is another; run this with --write")
    print("\n".join(faults) or f"{len(rows)} families, each with its checks")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
