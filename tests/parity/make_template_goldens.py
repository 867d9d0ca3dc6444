#!/usr/bin/env python3
"""Goldens of the template language and of chat templates, made with jinja2 under transformers' own
settings.

  make_template_goldens.py write                        writes tests/text/goldens/{expressions,chat}.json
  make_template_goldens.py compare PROBE FILE...        renders every .jinja file over all conversations with
                                                        transformers and with build/bin/render_probe, counts equals

Needs transformers and jinja2. Expressions come from template_expressions.py beside this file.
"""
import json
import subprocess
import sys
from copy import deepcopy
from datetime import datetime, timezone
from pathlib import Path

import transformers.utils.chat_template_utils as chat_utils

from template_conversations import CONVERSATIONS, SPECIAL_TOKENS
from template_expressions import EXPRESSIONS, VARIABLES

ROOT = Path(__file__).resolve().parents[2]
GOLDENS = ROOT / "tests/text/goldens"
NOW = 1700000000  # the time of strftime_now


class FixedDatetime(datetime):
    @classmethod
    def now(cls, tz=None):
        return cls.fromtimestamp(NOW, tz or timezone.utc)


chat_utils.datetime = FixedDatetime


def compile_template(source):
    return chat_utils._cached_compile_jinja_template.__wrapped__(source) if hasattr(
        chat_utils._cached_compile_jinja_template, "__wrapped__") else chat_utils._compile_jinja_template(source)


def render(source, variables):
    try:
        return {"output": compile_template(source).render(**deepcopy(variables))}  # |indent changes a list
    except RecursionError:
        return {"error": "RecursionError"}
    except Exception as problem:
        return {"error": f"{type(problem).__name__}: {problem}"}


def render_chat(source, conversation, prompt):
    """Returns the text and, in code points, the spans of {% generation %}."""
    try:
        kwargs = {**SPECIAL_TOKENS, **conversation.get("variables", {})}
        texts, spans = chat_utils.render_jinja_template(
            [conversation["messages"]], tools=conversation.get("tools"), chat_template=source,
            return_assistant_tokens_mask=True, add_generation_prompt=prompt, **kwargs)
        return {"output": texts[0], "generated": spans[0]}
    except Exception as problem:
        return {"error": f"{type(problem).__name__}: {problem}"}


def chat_variables(conversation, prompt):
    return {**SPECIAL_TOKENS, **conversation.get("variables", {}), "messages": conversation["messages"],
            "tools": conversation.get("tools"), "documents": None, "add_generation_prompt": prompt}


def write():
    cases = [{"template": source, **render(source, VARIABLES)} for source in EXPRESSIONS]
    # Addresses and the names of Python's own types are not part of the contract.
    shown = (" at 0x", "<built-in", "<class", "<function", "<bound method", "<method", "jinja2.")
    cases = [case for case in cases if not any(word in case.get("output", "") for word in shown)]
    dump(GOLDENS / "expressions.json", {"variables": VARIABLES, "cases": cases})
    templates = sorted((ROOT / "core/lib/text/templates").glob("*.jinja")) + sorted(GOLDENS.glob("*.jinja"))
    chats = []
    for path in templates:
        source = path.read_text()
        for index, conversation in enumerate(CONVERSATIONS):
            for prompt in (False, True):
                chats.append({"template": path.stem, "conversation": index, "prompt": prompt,
                              **render_chat(source, conversation, prompt)})
    dump(GOLDENS / "chat.json", {"special_tokens": SPECIAL_TOKENS, "conversations": CONVERSATIONS, "cases": chats})
    print(f"{len(cases)} expressions ({sum('error' in case for case in cases)} errors), "
          f"{len(templates)} templates, {len(chats)} chats ({sum('error' in case for case in chats)} errors)")


def dump(path, value):
    path.write_text(json.dumps(value, ensure_ascii=False, indent=0) + "\n")


def same(expected, got):
    if "error" in expected:
        return "error" in got
    return got.get("output") == expected["output"]


def compare(probe, files):
    process = subprocess.Popen([probe], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8")
    equal_templates, equal_cases, cases = 0, 0, 0
    for file in files:
        source, bad, rendered = Path(file).read_text(), [], 0
        for index, conversation in enumerate(CONVERSATIONS):
            for prompt in (False, True):
                expected = render_chat(source, conversation, prompt)
                request = {"template": source, "variables": chat_variables(conversation, prompt), "now": NOW}
                process.stdin.write(json.dumps(request) + "\n")
                process.stdin.flush()
                got = json.loads(process.stdout.readline())
                cases += 1
                rendered += "output" in expected
                equal_cases += same(expected, got)
                if not same(expected, got):
                    bad.append((index, prompt, expected, got))
        equal_templates += not bad
        print(f"{'equal' if not bad else 'DIFFER'}  {rendered}/{2 * len(CONVERSATIONS)} rendered  {Path(file).name}")
        for index, prompt, expected, got in bad[:2]:
            print(f"    conversation {index} prompt {prompt}\n      jinja2: {str(expected)[:1500]}\n      forge:  {str(got)[:1500]}")
    print(f"{equal_templates} of {len(files)} templates equal; {equal_cases} of {cases} renderings")


if __name__ == "__main__":
    if sys.argv[1:2] == ["write"]:
        write()
    elif sys.argv[1:2] == ["compare"] and len(sys.argv) > 3:
        compare(sys.argv[2], sys.argv[3:])
    else:
        sys.exit(__doc__)
