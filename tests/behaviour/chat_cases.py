"""Conversations: which tokens are computed again."""
import json
import os
import subprocess
import sys
from pathlib import Path

from lab import Lab, MODEL

# Records the program's requests and the engine's answers.
RECORDER = """#!/bin/bash
echo started >> {folder}/starts
set -o pipefail
tee -a {folder}/requests | {engine} | tee -a {folder}/events
"""
# Answers every turn with a new engine, which holds no earlier turn.
FORGETFUL = """#!{python}
import json, subprocess, sys
for number, line in enumerate(sys.stdin):
    request = json.loads(line)
    del request["turns"]
    engine = subprocess.Popen(["{engine}"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    print(json.dumps(request), file=engine.stdin, flush=True)  # which stays open: its end would stop the engine
    for event in map(json.loads, engine.stdout):
        if event["event"] == "done":
            event = dict(event="turn", tokens=event["tokens"], prompt_tokens=event["prompt_tokens"])
        if event["event"] != "hello" or number == 0:
            print(json.dumps(event), file=open("{folder}/events", "a"))
            print(json.dumps(event), flush=True)
"""


def chat(lab: Lab, name: str, engine: str, lines: list[str], *options: str) -> tuple[Path, list[dict]]:
    """Runs forge chat over these lines; returns the folder of its records and the engine's events.
    """
    folder = lab.folder / name
    folder.mkdir()
    script = folder / "engine"
    script.write_text(engine.format(folder=folder, engine=Path(lab.forge).resolve().parent / "forge-engine", python=sys.executable))
    script.chmod(0o755)
    subprocess.run([lab.forge, "chat", "--model", str(MODEL), "--template", "chatml", "--max-new-tokens", "12", *options],
                   input="".join(line + "\n" for line in lines), env=os.environ | {"FORGE_ENGINE": str(script)}, text=True,
                   capture_output=True, check=True, timeout=300)
    return folder, [json.loads(line) for line in (folder / "events").read_text().splitlines()]


def answers(events: list[dict]) -> list[list[int]]:
    texts = [[]]
    for event in events:
        if event["event"] == "tokens":
            texts[-1] += event["ids"]
        if event["event"] == "turn":
            texts.append([])
    return texts[:-1]


def a_chat_computes_only_what_it_does_not_hold(lab: Lab):
    words = ["the first question", "and another one", "/undo", "something else", "/retry", "/system be brief", "once more", "and more",
             "/reset", "from the beginning"]
    for options in ([], ["--temperature", "1.5", "--repetition-penalty", "1.3"], ["--lookup", "4"], ["--choice", "yes", "--choice", "no"]):
        name = "-".join(options[:1]) or "plain"
        kept, events = chat(lab, f"kept{name}", RECORDER, words, *options)
        _, anew = chat(lab, f"anew{name}", FORGETFUL, words, *options)
        assert len(answers(events)) == 7 and answers(events) == answers(anew), (options, answers(events), answers(anew))
        assert (kept / "starts").read_text().count("started") == 1
        prompts = [json.loads(line)["prompts"][0] for line in (kept / "requests").read_text().splitlines()]
        computed = [event["prompt_tokens"] for event in events if event["event"] == "turn"]
        assert computed[0] == len(prompts[0]) and all(0 < new <= len(prompt) for new, prompt in zip(computed, prompts)), computed
        # /retry repeats the last request: all but the last token of its prompt is held.
        assert prompts[3] == prompts[2] and computed[3] == 1, (computed, list(map(len, prompts)))
        # Only what follows the first prompt is computed, in the turn after it and in the one after
        # /undo.
        assert computed[1] <= len(prompts[1]) - len(prompts[0]) and computed[2] <= len(prompts[2]) - len(prompts[0]), computed
        assert computed[6] <= len(prompts[6]), computed


def a_conversation_without_an_answer_is_not_saved(lab: Lab):
    """A row without an answer trains nothing, and forge data refuses it."""
    saved = lab.folder / "saved.jsonl"
    lines = [f"/save {saved}", "the first question", f"/save {saved}", "/undo", f"/save {saved}"]
    chat(lab, "saving", RECORDER, lines)
    rows = [json.loads(line) for line in saved.read_text().splitlines()]
    assert [message["role"] for message in rows[0]["messages"]] == ["user", "assistant"] and len(rows) == 1, rows
