"""Makes smollm2-rows.jsonl: 100 entries of The Devil's Dictionary (public domain) as ids, at most
64 tokens each.

    python tests/parity/make_smollm2_rows.py devil.dict.dz SmolLM2-135M-Instruct.gguf

The headword is the prompt, the definition is supervised. Lengths differ, so that padding and
packing matter.
"""
import gzip
import json
import random
import re
import sys
from pathlib import Path

from transformers import AutoTokenizer

import smollm2


def entries(path: str) -> list[tuple[str, str]]:
    """Returns [(headword, definition)] of paragraphs that begin like `ABATIS, n.  Rubbish ...`."""
    text = gzip.open(path).read().decode("utf-8", "replace")
    found = re.findall(r"(?:^|\n\n)([A-Z][A-Z' -]+, [a-z.]+)  (.+?)(?=\n\n|\Z)", text, re.DOTALL)
    return [(head, " ".join(body.split())) for head, body in found if len(body) > 60]


def main() -> None:
    dictionary, gguf = sys.argv[1], Path(sys.argv[2])
    tokenizer = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
    chosen = random.Random(1911).sample(entries(dictionary), smollm2.ROWS_PER_STEP * smollm2.STEPS)
    with smollm2.ROWS.open("w") as out:
        for head, body in chosen:
            prompt = tokenizer(head, add_special_tokens=False)["input_ids"]
            ids = (prompt + tokenizer(" " + body, add_special_tokens=False)["input_ids"])[:64]
            labels = [-100] * len(prompt) + ids[len(prompt) :]
            out.write(json.dumps({"input_ids": ids, "labels": labels}, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
