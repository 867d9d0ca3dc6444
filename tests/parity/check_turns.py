"""Compares train_on each_assistant over published chat templates with transformers.

    python tests/parity/check_turns.py build/bin/forge MODEL_DIR TEMPLATE.jinja…     (needs transformers)

MODEL_DIR lends tokenizer and shapes. For every assistant turn the example must be
apply_chat_template of the conversation up to it, trained after apply_chat_template of what precedes
the turn with the generation prompt. If the prompt opens a thought that the text leaves out, an
answer that begins with that opening follows the prompt word for word; any other has no such mask,
and forge must refuse it. Templates that mark generation say themselves what is trained and are left
out. Prints a line a template.
"""
import json
import pathlib
import re
import subprocess
import sys
import tempfile

from transformers import AutoTokenizer


def turn(role, content, **more):
    return {"role": role, "content": content, **more}


CONVERSATIONS = [
    [turn("user", "Who wrote it?"), turn("assistant", "Bierce."), turn("user", "When?"), turn("assistant", "In 1906.")],
    [turn("system", "Be terse."), turn("user", "2 + 2?"),
     turn("assistant", "4", reasoning_content="Add them.", thinking="Add them."), turn("user", "And 3 more?"),
     turn("assistant", "7", reasoning_content="4 + 3.", thinking="4 + 3."), turn("user", "Thanks"),
     turn("assistant", "Any time.")],
    [turn("user", "naïve café 🙂?"), turn("assistant", "<think>\nUm.\n</think>\n\n🙂"), turn("user", "And?"),
     turn("assistant", "<think>\nHm.\n</think>\n\nThat was all.")],
]


def expected(tokenizer, template, messages):
    """Returns [(ids, mask)], or None if a turn has no mask; raises what the template raises."""
    render = lambda part, prompt=False: tokenizer.apply_chat_template(
        part, chat_template=template, tokenize=False, add_generation_prompt=prompt)
    examples = []
    for i, message in enumerate(messages):
        if message["role"] != "assistant":
            continue
        text, before = render(messages[:i + 1]), render(messages[:i], True)
        if not text.startswith(before):
            said = message["content"].strip()
            thought, close, answer = said.rpartition("</think>")
            opening = "<think>" + before.rpartition("<think>")[2]
            if not (close and before.endswith(opening) and said.startswith(opening) and answer.strip() in text):
                return None
            shown = text.removeprefix(before.removesuffix(opening)).lstrip()
            if not shown.startswith(answer.strip()):
                return None
            text = before + said.removeprefix(opening) + text.rpartition(answer.strip())[2]
        encoded = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
        mask = [int(start >= len(before)) for start, _ in encoded["offset_mapping"]]
        mask[0] = 0
        examples.append((encoded["input_ids"], mask))
    return examples


def made(forge, model, template, messages, folder):
    (folder / "rows.jsonl").write_text(json.dumps({"messages": messages}) + "\n")
    job = {"version": 1, "name": "turns", "model": {"path": str(model)}, "adapter": {"type": "lora"},
           "objective": {"type": "sft", "train_on": "each_assistant"},
           "data": {"train": str(folder / "rows.jsonl"), "template": str(template), "max_length": 2048}}
    (folder / "job.json").write_text(json.dumps(job))
    dump = folder / "dump.jsonl"
    dump.unlink(missing_ok=True)
    done = subprocess.run([forge, "data", folder / "job.json", "--dump", dump, "--quiet"], capture_output=True, text=True)
    if not dump.exists():
        return None, done.stderr.strip()
    return [(row["ids"], row["mask"]) for row in map(json.loads, dump.read_text().splitlines())], done.stderr


def main():
    forge, model, templates = sys.argv[1], pathlib.Path(sys.argv[2]).resolve(), sys.argv[3:]
    tokenizer = AutoTokenizer.from_pretrained(model)
    totals = {"equal": 0, "refused as it must be": 0, "DIFFERENT": 0}
    for path in map(pathlib.Path, templates):
        if re.search(r"\bgeneration\s*-?%}", path.read_text()):
            continue
        said = []
        for messages in CONVERSATIONS:
            with tempfile.TemporaryDirectory() as folder:
                ours, error = made(forge, model, path.resolve(), messages, pathlib.Path(folder))
            try:
                theirs = expected(tokenizer, path.read_text(), messages)
            except Exception as problem:  # the template refuses the conversation
                theirs = None
            word = "equal" if ours == theirs and ours is not None else "refused as it must be" if ours is theirs else "DIFFERENT"
            totals[word] += 1
            said.append(word if word != "DIFFERENT" else f"DIFFERENT {error.splitlines()[:1] if ours is None else ''}")
        print(f"{path.name}: {', '.join(said)}", flush=True)
    print(totals)
    sys.exit(totals["DIFFERENT"] > 0)


if __name__ == "__main__":
    main()
