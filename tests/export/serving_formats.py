"""Reads forge's results as Ollama and vLLM do, by their documentation and sources. Standard library
only.

    modelfile = parse_modelfile(text)                    # [("FROM", "./model.gguf"), …]
    render_go_template(template, messages)               # what Ollama would send to the model
    vllm_faults(folder)                                  # why vLLM would refuse an adapter folder

Sources: ollama's docs/modelfile.md and docs/template.md with Go's text/template; vLLM's
lora/peft_helper.py (PEFTHelper) and lora/utils.py (parse_fine_tuned_lora_name).
"""
import json
import re
import struct
from pathlib import Path

INSTRUCTIONS = {"FROM", "PARAMETER", "TEMPLATE", "SYSTEM", "ADAPTER", "LICENSE", "MESSAGE", "REQUIRES"}
NUMBERS = {"num_ctx": int, "repeat_last_n": int, "repeat_penalty": float, "temperature": float, "seed": int, "num_predict": int,
           "top_k": int, "top_p": float, "min_p": float}


def unquoted(value: str) -> str:
    """Returns a value without quotes: triple quotes hold anything, quotes hold escapes, else it is
    the rest of the line.
    """
    if value.startswith('"""'):
        return value[3:-3]
    return json.loads(value) if value.startswith('"') else value


def parse_modelfile(text: str) -> list[tuple]:
    """Parses a Modelfile; raises ValueError for anything outside the grammar."""
    rows, at = [], 0
    instruction = re.compile(r'[ \t]*(#[^\n]*)?\n|[ \t]*([A-Za-z]+)[ \t]+("""(?:.|\n)*?"""|[^\n]*)\n?')
    while at < len(text):
        found = instruction.match(text, at)
        if not found:
            raise ValueError(f"no instruction at {text[at:at + 40]!r}")
        at = found.end()
        if not found[2]:
            continue
        name, value = found[2].upper(), found[3].strip()
        if name not in INSTRUCTIONS:
            raise ValueError(f"{name} is no instruction")
        if name == "PARAMETER":
            key, _, value = value.partition(" ")
            value = unquoted(value.strip())
            if key != "stop":
                NUMBERS[key](value)
            rows.append((name, key, value))
        else:
            rows.append((name, unquoted(value)))
    if sum(row[0] == "FROM" for row in rows) != 1:
        raise ValueError("expected one FROM")
    return rows


TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[()]|[^\s()]+')


class GoTemplate:
    """Go's text/template with range, if, else if, else and end; fields and variables; eq, ne, and,
    or, not.
    """

    def __init__(self, text: str):
        self.pieces = []
        for i, piece in enumerate(re.split(r"\{\{(.*?)\}\}", text, flags=re.S)):
            if i % 2 == 0:
                self.pieces.append(("text", piece))
                continue
            if piece.startswith("- "):
                self.pieces[-1] = ("text", self.pieces[-1][1].rstrip())
            if piece.endswith(" -"):
                raise ValueError("a trim marker at the end")
            self.pieces.append(("code", piece.removeprefix("- ").strip()))

    def render(self, data: dict) -> str:
        self.at, out = 0, []
        self.block(data, {"$": data}, out, True)
        if self.at != len(self.pieces):
            raise ValueError("an end without its beginning")
        return "".join(out)

    def block(self, dot, names, out, live) -> str:
        """Renders up to the end or else that closes the block, which is returned."""
        while self.at < len(self.pieces):
            kind, text = self.pieces[self.at]
            self.at += 1
            if kind == "text":
                out.append(text if live else "")
            elif text == "end" or text.startswith("else"):
                return text
            elif text.startswith("if "):
                self.choose(text[3:], dot, names, out, live)
            elif text.startswith("range "):
                self.loop(text[6:], dot, names, out, live)
            elif live:
                out.append(str(self.value(TOKEN.findall(text), dot, names)))
        return ""

    def choose(self, condition, dot, names, out, live) -> None:
        taken, closing = False, "else if " + condition
        while closing.startswith("else"):
            test = closing.removeprefix("else").strip()
            now = live and not taken and (not test or bool(self.value(TOKEN.findall(test.removeprefix("if ")), dot, names)))
            taken |= now
            closing = self.block(dot, names, out, now)
        if closing != "end":
            raise ValueError("an if without its end")

    def loop(self, text, dot, names, out, live) -> None:
        variables, _, what = text.rpartition(":=")
        index, item = ([v.strip() for v in variables.split(",")] + ["", ""])[:2] if variables else ("", "")
        items = self.value(TOKEN.findall(what), dot, names) if live else []
        begin, closing = self.at, "end"
        for i, value in enumerate(items):
            self.at = begin
            closing = self.block(value, names | {index: i, item: value}, out, True)
        if not items:
            closing = self.block(dot, names, out, False)
        if closing != "end":
            raise ValueError("a range without its end")

    def value(self, tokens, dot, names):
        parts, stack = [], []
        for token in tokens:
            if token == "(":
                stack.append(parts)
                parts = []
            elif token == ")":
                done, parts = self.call(parts), stack.pop()
                parts.append(done)
            else:
                parts.append(self.atom(token, dot, names))
        return self.call(parts)

    @staticmethod
    def call(parts):
        functions = {"eq": lambda a, *b: a in b, "ne": lambda a, b: a != b, "not": lambda a: not a,
                     "and": lambda *a: next((x for x in a if not x), a[-1]), "or": lambda *a: next((x for x in a if x), a[-1])}
        head = parts[0]
        if isinstance(head, tuple) and head[0] == "function":
            return functions[head[1]](*parts[1:])
        if len(parts) != 1:
            raise ValueError(f"values side by side: {parts}")
        return head

    @staticmethod
    def atom(token, dot, names):
        if token.startswith('"'):
            return json.loads(token)
        if re.fullmatch(r"-?\d+", token):
            return int(token)
        if token in ("eq", "ne", "and", "or", "not"):
            return ("function", token)
        head, *fields = token.split(".")
        value = dot if head == "" else names[head]
        for field in fields:
            value = value[field]
        return value


def render_go_template(template: str, messages: list[dict]) -> str:
    """Renders with Ollama's data: .Messages with .Role and .Content, and .System, all system
    messages joined.
    """
    system = "\n\n".join(m["content"] for m in messages if m["role"] == "system")
    turns = [{"Role": m["role"], "Content": m["content"]} for m in messages]
    return GoTemplate(template).render({"Messages": turns, "System": system, "Prompt": "", "Response": "", "Tools": []})


def tensor_names(folder: Path) -> list[str]:
    with (folder / "adapter_model.safetensors").open("rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
    return [name for name in header if name != "__metadata__"]


def vllm_faults(folder: Path, max_lora_rank: int = 512) -> list[str]:
    config = json.loads((folder / "adapter_config.json").read_text())
    faults = [f"{key} is missing" for key in ("r", "lora_alpha", "target_modules") if config.get(key) is None]
    if config.get("modules_to_save"):
        faults.append("modules_to_save")
    if config.get("use_dora"):
        faults.append("use_dora")
    # PEFTHelper has one alpha and one rank, and scales every module by them.
    faults += [key for key in ("alpha_pattern", "rank_pattern") if config.get(key)]
    if config.get("bias", "none") != "none":
        faults.append("bias")
    if config["r"] > max_lora_rank:
        faults.append("rank")
    for name in tensor_names(folder):
        parts = name.split(".")
        known = name.startswith("base_model.model.") and (name.endswith(".weight") and parts[-2] in ("lora_A", "lora_B")
                                                          or parts[-1] in ("lora_embedding_A", "lora_embedding_B"))
        if not known:
            faults.append(name)
    return faults
