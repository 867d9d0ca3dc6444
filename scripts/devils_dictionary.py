#!/usr/bin/env python3
"""Turns The Devil's Dictionary (Ambrose Bierce, public domain) into chats for fine-tuning.

    scripts/devils_dictionary.py OUTPUT_FOLDER [DICTD_FOLDER]

Reads devil.dict.dz and devil.index of Debian's package dict-devil (default folder /usr/share/dictd)
and writes train.jsonl and eval.jsonl, one conversation a line: a user who says "Define: WORD" and
an assistant who answers with the entry. Every tenth entry in alphabetical order is held out: 903 to
train on, 100 to evaluate. Needs nothing but Python's standard library; the same input gives the
same bytes.
"""
import gzip
import json
import pathlib
import re
import sys

DIGITS = {c: i for i, c in enumerate("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")}


def number(text):
    """Decodes dictd's offsets and lengths: base 64, most significant digit first."""
    value = 0
    for c in text:
        value = value * 64 + DIGITS[c]
    return value


def unwrap(text):
    """Joins the lines of prose paragraphs; verse, which is indented, keeps its lines."""
    paragraphs = []
    for block in re.split(r"\n\s*\n", text.strip("\n")):
        lines = [line.rstrip() for line in block.split("\n")]
        if lines[0].startswith(" "):
            paragraphs.append("\n".join(line.strip() for line in lines))
        else:
            # A paragraph may also begin with an indented line right after another paragraph.
            joined = "\n".join(("\n" if line.startswith("    ") else "") + line.strip() for line in lines)
            paragraphs.append("\n".join(re.sub(r"\s+", " ", part.strip()) for part in joined.split("\n\n")))
    return "\n\n".join(paragraphs)


def entries(folder):
    """Yields (headword, definition) for each of the 1,003 headwords, in the order of the text."""
    with gzip.open(folder / "devil.dict.dz", "rb") as file:
        content = file.read()
    places = []
    for line in (folder / "devil.index").read_text(encoding="utf-8").splitlines():
        word, offset, length = line.split("\t")
        if not word.startswith("00database"):
            places.append((number(offset), number(length), word))
    for offset, length, word in sorted(places):
        text = content[offset:offset + length].decode("utf-8").strip("\n")
        head = re.match(r"[^\n,.;(]+", text).group()
        # "ABATIS, n.  Rubbish …" loses its head; the few others ("LL.D.  Letters …") keep it.
        plain = re.sub(r"[^a-z]", "", head.lower()) == re.sub(r"[^a-z]", "", word)
        yield word.upper(), unwrap(text[len(head):].lstrip(",.; \n") if plain else text)


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    output, folder = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2] if len(sys.argv) == 3 else "/usr/share/dictd")
    if not (folder / "devil.index").is_file():
        sys.exit(f"{folder}/devil.index: not found; apt-get install dict-devil brings it on Debian and Ubuntu; elsewhere train on your own rows (docs/own-data.md)")
    splits = {"train": [], "eval": []}
    for index, (word, definition) in enumerate(entries(folder)):
        row = {"messages": [{"role": "user", "content": f"Define: {word}"},
                            {"role": "assistant", "content": definition}]}
        splits["eval" if index % 10 == 9 else "train"].append(row)
    output.mkdir(parents=True, exist_ok=True)
    for name, rows in splits.items():
        text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        (output / f"{name}.jsonl").write_text(text, encoding="utf-8")
        words = sum(len(message["content"].split()) for row in rows for message in row["messages"])
        print(f"{output / name}.jsonl: {len(rows)} conversations, {words} words")


if __name__ == "__main__":
    main()
