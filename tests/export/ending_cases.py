"""Ends of answers in a result's files: generation_config.json for transformers, eot_token_id for
llama.cpp.
"""
import json
import shutil
import struct
from pathlib import Path

from lab import Lab

END_OF_TEXT, START, END = 0, 1, 2  # <|endoftext|>, <|im_start|> and <|im_end|> of the tiny model
TURNS = "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] }}END\n{% endfor %}" \
        "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"


def metadata(path: Path) -> dict:
    """Returns a GGUF's numeric keys (gguf.md of ggml). Its first bytes hold all but arrays, which
    are skipped.
    """
    data, at = path.read_bytes(), 24
    sizes = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}

    def take(form: str):
        nonlocal at
        (value,) = struct.unpack_from("<" + form, data, at)
        at += struct.calcsize("<" + form)
        return value

    def value(kind: int):
        nonlocal at
        if kind == 8:
            length = take("Q")
            at += length
        elif kind == 9:
            element, count = take("I"), take("Q")
            for _ in range(count):
                value(element)
        else:
            return take(sizes[kind])

    assert data[:4] == b"GGUF"
    found = {}
    for _ in range(struct.unpack_from("<Q", data, 16)[0]):
        length = take("Q")
        name, at = data[at:at + length].decode(), at + length
        found[name] = value(take("I"))
    return found


def model_that_ends_texts_otherwise(lab: Lab) -> Path:
    """Writes a model whose texts end with <|endoftext|> and its template's turns with <|im_end|>,
    as many base models do.
    """
    folder = lab.model("base", eos_token_id=END_OF_TEXT)
    (folder / "generation_config.json").write_text(json.dumps({"bos_token_id": START, "eos_token_id": END_OF_TEXT}))
    path = folder / "tokenizer_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"eos_token": "<|endoftext|>"}))
    return folder


def rows(lab: Lab) -> Path:
    path = lab.folder / "conversations.jsonl"
    turns = [{"role": "user", "content": "Where is the capital?"}, {"role": "assistant", "content": "The city is here."}]
    path.write_text((json.dumps({"messages": turns}) + "\n") * 8)
    return path


def sections(lab: Lab, **more) -> dict:
    return {"data": {"train": [{"path": str(rows(lab))}]}, "train": {"max_steps": 1, "global_batch_size": 4}} | more


def template(lab: Lab, name: str, end: str) -> str:
    path = lab.folder / f"{name}.jinja"
    path.write_text(TURNS.replace("END", end))
    return str(path)


def ends_of(folder: Path):
    return json.loads((folder / "generation_config.json").read_text())["eos_token_id"]


def told(lab: Lab, run: Path) -> tuple:
    """Returns eos_token_id of the merged model, and the GGUF's eos_token_id and eot_token_id."""
    lab.call("merge", run, "--fresh")
    lab.call("export", run, "--gguf", "--type", "f32", "--fresh")
    keys = metadata(run / "gguf" / "model-f32.gguf")
    return ends_of(run / "merged"), keys["tokenizer.ggml.eos_token_id"], keys.get("tokenizer.ggml.eot_token_id")


def the_end_of_a_turn_is_told_where_texts_end_otherwise(lab: Lab):
    model = {"path": str(model_that_ends_texts_otherwise(lab))}
    run = lab.run("ends-turn", **sections(lab, model=model))
    assert told(lab, run) == ([END_OF_TEXT, END], END_OF_TEXT, END), told(lab, run)
    full = lab.run("ends-full", **sections(lab, model=model, adapter={"type": "none"}))
    assert ends_of(full / "model") == [END_OF_TEXT, END]
    assert told(lab, full) == ([END_OF_TEXT, END], END_OF_TEXT, END), told(lab, full)


def a_template_of_another_family_tells_its_own_end(lab: Lab):
    data = {"train": [{"path": str(rows(lab))}], "template": template(lab, "other", "<|endoftext|>")}
    run = lab.run("ends-other", **sections(lab, data=data))
    assert told(lab, run) == ([END, END_OF_TEXT], END, END_OF_TEXT), told(lab, run)
    full = lab.run("ends-other-full", **sections(lab, data=data, adapter={"type": "none"}))
    assert told(lab, full) == ([END, END_OF_TEXT], END, END_OF_TEXT), told(lab, full)


def an_end_that_is_no_control_token_is_told(lab: Lab):
    """model.add_tokens and many published tokenizers say special: false of the token that ends a turn."""
    folder = model_that_ends_texts_otherwise(lab)
    published = lab.folder / "models" / "plain-ends"
    if not published.exists():
        shutil.copytree(folder, published)
        path = published / "tokenizer.json"
        tokenizer = json.loads(path.read_text())
        for token in tokenizer["added_tokens"]:
            token["special"] = token["id"] != END
        path.write_text(json.dumps(tokenizer))
    run = lab.run("ends-plain", **sections(lab, model={"path": str(published)}))
    assert told(lab, run) == ([END_OF_TEXT, END], END_OF_TEXT, END), told(lab, run)
    added = len(json.loads((folder / "tokenizer.json").read_text())["model"]["vocab"])
    data = {"train": [{"path": str(rows(lab))}], "template": template(lab, "added", "<|turn_over|>")}
    model = {"path": str(folder), "add_tokens": ["<|turn_over|>"]}
    run = lab.run("ends-added", **sections(lab, data=data, model=model))
    assert told(lab, run) == ([END_OF_TEXT, added], END_OF_TEXT, added), told(lab, run)
    said = lab.call("plan", lab.folder / "ends-added.json")
    assert "the model does not learn where an answer ends" not in said, said
    full = lab.run("ends-added-full", **sections(lab, data=data, model=model, adapter={"type": "none"}))
    assert ends_of(full / "model") == [END_OF_TEXT, added], ends_of(full / "model")


def an_end_that_is_told_already_is_left(lab: Lab):
    run = lab.run("ends-same", **sections(lab))
    assert told(lab, run) == (END, END, None), told(lab, run)


def a_template_without_an_end_is_said_in_plan_and_run(lab: Lab):
    for name, end in (("line", ""), ("words", " ### ")):
        data = {"train": [{"path": str(rows(lab))}], "template": template(lab, name, end)}
        job = {"version": 1, "name": f"endless-{name}", "output_dir": str(lab.folder), "model": {"path": str(lab.model())},
               "adapter": {"type": "lora"}} | sections(lab, data=data)
        path = lab.folder / f"endless-{name}.json"
        path.write_text(json.dumps(job))
        for command in ("plan", "run"):
            said = lab.call(command, path)
            assert "the chat template does not end with a token" in said, said
            assert "the model does not learn where an answer ends" in said, said
        assert told(lab, lab.folder / f"endless-{name}") == (END, END, None)


CASES = [the_end_of_a_turn_is_told_where_texts_end_otherwise, a_template_of_another_family_tells_its_own_end,
         an_end_that_is_no_control_token_is_told, an_end_that_is_told_already_is_left, a_template_without_an_end_is_said_in_plan_and_run]
