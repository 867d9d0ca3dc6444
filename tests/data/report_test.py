"""`forge data` on a data set with one of each of many faults: each is reported with its file and
line, and nothing else.

    python3 tests/data/report_test.py build/bin/forge
"""
import json
import os
import shutil
import random
import subprocess
import sys
import tempfile

FORGE = os.path.abspath(sys.argv[1])
MODEL = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "fixtures", "tiny-llama")
WORDS = ("apple river stone garden winter copper window letter market bridge forest silver engine basket candle mirror "
         "harbour pencil blanket thunder valley meadow lantern carpet button feather island kitchen ladder mountain "
         "needle orchard pepper quarry ribbon saddle temple umbrella violin wagon yellow zebra anchor bottle cotton "
         "desert emerald fabric glacier hammer").split()
random.seed(7)


def words(count):
    return " ".join(random.choice(WORDS) for _ in range(count))


def turn(role, content, **more):
    return {"role": role, "content": content, **more}


def chat(*turns):
    return json.dumps({"messages": list(turns)}, ensure_ascii=False)


def pair(question, answer):
    return chat(turn("user", question), turn("assistant", answer))


def sound():
    return pair(words(14) + "?", words(16) + ".")


CALL = [{"type": "function", "function": {"name": "f", "arguments": {}}}]
LOOK_UP = [{"type": "function", "function": {"name": "look_up", "arguments": {}}}]
twin, leaked, similar, asked = sound(), sound(), [words(30), words(30)], words(6)
near = similar[1].rsplit(" ", 1)[0] + " otherwise"

# (checks, row); None marks a sound row that others refer to.
TRAIN = [
    (None, twin), (None, leaked), (None, pair(*similar)), (None, pair(asked, words(25))),
    ("unusable", '{"messages": ['),
    ("unusable", b'{"messages": [{"role": "user", "content": "\xff\xfe"}]}'),
    ("unusable", '{"messages": [], "messages": []}'),
    ("unusable", "[1, 2]"),
    ("unusable", chat(turn("user", 5), turn("assistant", "x"))),
    ("unusable", chat(turn("robot", "x"), turn("assistant", "x"))),
    ("unusable", '{"messages": []}'),
    ("unusable", '{"talk": "x"}'),
    ("unusable", chat(turn("user", None), turn("assistant", "x"))),
    ("unusable", chat(turn("user", "x"), turn("assistant", "", tool_calls=[{"function": {"name": "f", "arguments": "{"}}]))),
    ("unusable", chat(turn("user", "x"), turn("assistant", "x", weight="maybe"))),
    ("unusable", chat(turn("user", [{"type": "image", "image": "x.png"}]), turn("assistant", "x"))),
    ("unusable", "no JSON at all"),
    ("trains_nothing", chat(turn("system", words(12)))),
    ("dropped", pair(words(400), words(5))),
    ("cut", pair(words(12), words(400))),
    ("duplicate", twin),
    ("near_duplicate conflict", pair(similar[0], near)),
    ("conflict", pair(asked, words(25))),
    (None, pair(words(14), "Sorry, I do not know that.")),
    ("repeated_answer", pair(words(14), "Sorry, I do not know that.")),
    ("repeated_answer", pair(words(14), "Sorry, I do not know that.")),
    ("repeated_answer", pair(words(14), "Sorry, I do not know that.")),
    ("repeated_answer", pair(words(14), "Sorry, I do not know that.")),
    ("unsaid", chat(turn("user", words(9)), turn("assistant", words(9), reasoning_content=words(9)))),
    ("unsaid", chat(turn("user", words(9)), turn("assistant", words(9), tool_calls=LOOK_UP), turn("tool", words(9)),
                    turn("assistant", words(9)))),
    ("empty_answer", pair(words(12), "  ")),
    ("empty_prompt", pair("", words(12))),
    ("looping_answer", pair(words(12), words(3) + " and then" * 20)),
    ("copied_prompt", pair("The river is long and cold", "The river is long and cold")),
    ("role_order", chat(turn("user", words(9)), turn("user", words(9)), turn("assistant", words(9)))),
    ("role_order", chat(turn("user", words(9)), turn("assistant", words(9)), turn("assistant", words(9)))),
    ("answer_first", chat(turn("assistant", words(9)), turn("user", words(9)), turn("assistant", words(9)))),
    ("late_system", chat(turn("user", words(9)), turn("system", words(9)), turn("assistant", words(9)))),
    ("unanswered", chat(turn("user", words(9)), turn("assistant", words(9)), turn("user", words(9)))),
    ("orphan_result", chat(turn("user", words(9)), turn("tool", words(9)), turn("assistant", words(9)))),
    ("open_call unsaid", chat(turn("user", words(9)), turn("assistant", "", tool_calls=CALL), turn("user", words(9)),
                       turn("assistant", words(9)))),
    ("open_call unsaid", chat(turn("user", words(9)), turn("assistant", "", tool_calls=CALL * 2), turn("tool", words(9)),
                       turn("assistant", words(9)))),
    ("control_tokens", pair(words(9) + " <|im_end|>", words(12))),
    ("missing_value", chat(turn("user", words(9) + "\nNaN"), turn("assistant", words(9)))),
    ("broken_text", pair(words(12), words(9) + " caf\ufffd")),
    ("broken_text", pair(words(12), words(9) + " caf\u00c3\u00a9")),
    ("control_characters", pair(words(12), words(9) + "\u0007")),
    ("hidden_characters", pair(words(12), words(9) + " \u202eabc")),
    ("api_key", pair(words(12), "sk-" + "a1B2" * 10)),
    ("api_key", pair(words(12), "key AKIA" + "ABCD1234" * 2 + " " + words(9))),
    ("api_key", pair(words(12), "ghp_" + "x9" * 18 + " " + words(9))),
    ("private_key", pair(words(12), "-----BEGIN RSA PRIVATE " + "KEY-----\nMIIE\n" + words(9))),
    ("password_url", pair(words(12), "see https://admin:hunter2@example.org/x " + words(9))),
    ("refusal", pair(words(12), "As an AI language model " + words(9))),
    ("open_code", pair(words(12), "```python\n" + words(9))),
    ("html_entities", pair(words(12), words(5) + " &amp; " + words(5))),
    ("answer_blanks", pair(words(12), words(9) + "\n" * 12)),
    ("missing_value", pair(words(12), "NaN")),
    ("missing_value", pair("nan", words(12))),
    # OpenAI's older role of a tool's result answers a call, too.
    ("unsaid", chat(turn("user", words(9)), turn("assistant", words(9), tool_calls=LOOK_UP), turn("function", words(9)),
                    turn("assistant", words(9)))),
    ("orphan_result", chat(turn("user", words(9)), turn("function", words(9)), turn("assistant", words(9)))),
    ("strange_result unsaid", chat(turn("user", words(9)), turn("assistant", "", tool_calls=[CALL[0] | {"id": "call_1"}]),
                            turn("tool", words(9), tool_call_id="call_2"), turn("assistant", words(9)))),
    ("unsaid", chat(turn("user", words(9)), turn("assistant", "", tool_calls=[CALL[0] | {"id": "call_1"}]),
                    turn("tool", words(9), tool_call_id="call_1"), turn("assistant", words(9)))),
]
EVAL = [
    ("overlap", leaked),
    ("near_overlap conflict", pair(similar[0], similar[1].rsplit(" ", 1)[0] + " differently")),
    ("unusable", "{}"),
]
SECRETS = ("a1B2a1B2", "ABCD1234", "x9x9", "hunter2")


def write(path, rows):
    """Writes each faulty row between sound ones, with its expected checks separated by blanks.
    Returns {(check, line)}.
    """
    expected, line = set(), 0
    with open(path, "wb") as out:
        for check, row in rows:
            for text in (sound(), row):
                line += 1
                out.write((text if isinstance(text, bytes) else text.encode()) + b"\n")
            for name in (check or "").split():
                expected.add((name, os.path.basename(path), line))
    return expected


def run(folder, *arguments):
    done = subprocess.run([FORGE, "data", "job.yaml", "--quiet", *arguments], cwd=folder, capture_output=True)
    return done.returncode, done.stdout.decode("utf-8"), done.stderr.decode("utf-8")


def first_line(text):
    """Returns the report; an error follows it as a line of its own."""
    return json.loads(text.splitlines()[0])


def findings(report):
    return {(check["check"], os.path.basename(place[0]), int(place[1]))
            for check in report["checks"] for finding in check["findings"]
            for place in [finding["place"].split(":")]}


def check(condition, *what):
    if not condition:
        print("FAILED:", *what)
        sys.exit(1)


with tempfile.TemporaryDirectory() as folder:
    expected = write(os.path.join(folder, "train.jsonl"), TRAIN) | write(os.path.join(folder, "eval.jsonl"), EVAL)
    with open(os.path.join(folder, "job.yaml"), "w") as out:
        out.write(f"model: {{path: {os.path.abspath(MODEL)}}}\nadapter: {{type: lora}}\n"
                  "data: {train: train.jsonl, eval: eval.jsonl, max_length: 1200}\n")
    code, stdout, stderr = run(folder, "--json")
    check(code == 6, "exit", code, stderr)
    found = findings(first_line(stdout))
    missing, extra = expected - found, found - expected
    check(not missing, "not reported:", sorted(missing))
    check(not extra, "reported without reason:", sorted(extra))
    check(len(expected) >= 50, "only", len(expected), "faults were seeded")
    check(not any(secret in stdout for secret in SECRETS), "a secret is shown")
    check("train.jsonl:10:" in stdout.splitlines()[1], "the error names no row:", stdout)

    # With bad rows skipped the examples are shown, as text and as a page from which no data can
    # break out.
    code, stdout, stderr = run(folder, "--set", "data.on_bad_row=skip", "--html", "page.html", "--show", "60")
    check(code == 0, "exit", code, stderr)
    check("api_key (3): texts that look like keys" in stdout and "assistant" in stdout, stdout)
    page = open(os.path.join(folder, "page.html"), encoding="utf-8").read()
    check('<span class="t"' in page and '<span class="c"' in page, "the page shows no tokens")
    check("<script" not in page and "default-src 'none'" in page, "the page may run scripts")

    attack = '</span></pre><script>alert(1)</script><img src=x onerror=alert(2)> "quoted" &amp; \u0007'
    with open(os.path.join(folder, "train.jsonl"), "w") as out:
        out.write("".join(pair(attack + str(i), attack) + "\n" for i in range(9)))
    code, stdout, stderr = run(folder, "--set", "data.on_bad_row=skip", "--html", "page.html")
    page = open(os.path.join(folder, "page.html"), encoding="utf-8").read()
    check(code == 0 and "<script" not in page and "<img" not in page and "\u0007" not in page, "the page is injected")

    # Rows left out by drop are named; everything else matches the plan.
    code, stdout, stderr = run(folder, "--set", "data.overlong=drop", "--set", "data.max_length=64",
                               "--set", "data.on_bad_row=skip", "--json")
    check(code == 6 and "no example is left" in stdout, code, stdout)
    check(sum(c["count"] for c in first_line(stdout)["checks"] if c["check"] == "dropped") >= 9, stdout)

    # Two answers to one prompt are two texts: the prompt is reported once, and there is no other
    # finding.
    def answers(name, rows, *settings):
        with open(os.path.join(folder, name), "w") as out:
            out.write("".join(json.dumps(row) + "\n" for row in rows))
        code, stdout, stderr = run(folder, "--json", "--set", "data.train=" + name, *settings)
        return {c["check"]: c for c in first_line(stdout)["checks"]}, first_line(stdout)

    prompt = [turn("system", words(9)), turn("user", words(9) + " &amp;")]
    pair_row = {"chosen": prompt + [turn("assistant", words(9))], "rejected": prompt + [turn("assistant", "")]}
    alone = ("--set", "data.eval=[]")
    checks, _ = answers("pairs.jsonl", [pair_row], *alone)
    check(set(checks) == {"html_entities", "empty_answer"}, checks)
    check([c["count"] for c in checks.values()] == [1, 1], checks)

    # Rows are counted, not their faults.
    faulty = {"messages": [turn("user", 5), turn("user", 6), turn("robot", "x")]}
    checks, _ = answers("faulty.jsonl", [faulty] * 5, *alone)
    check(checks["unusable"]["count"] == 5 and len(checks["unusable"]["findings"]) == 15, checks["unusable"])

    # An answer that also occurs in its question is attributed to the assistant.
    said = [{"messages": [turn("user", "say yes or no"), turn("assistant", "yes or no")]}]
    checks, report = answers("said.jsonl", said, *alone)
    roles = report["roles"]["training"]
    check(roles["assistant"]["trained"] >= 3 and roles["user"]["trained"] == 0, roles)

    # Only this model has these control tokens.
    own = shutil.copytree(MODEL, os.path.join(folder, "own"))
    for name, more in (("config.json", {"vocab_size": 400}), ("tokenizer_config.json", {"additional_special_tokens": ["<|tool_call|>"]})):
        with open(os.path.join(own, name)) as text:
            settings = json.load(text) | more
        with open(os.path.join(own, name), "w") as out:
            json.dump(settings, out)
    row = {"messages": [turn("user", "Go <|tool_call|> there."), turn("assistant", "I went <|tool_call> there.")]}
    checks, _ = answers("own.jsonl", [row], *alone, "--set", f"model.path={own}")
    check(set(checks) == {"control_tokens"} and "<|tool_call|>" in checks["control_tokens"]["findings"][0]["detail"], checks)

    # Answers that begin within a token of their prompt, and text that the tokenizer does not have.
    checks, _ = answers("glued.jsonl", [{"prompt": "the wate", "completion": "r is cold"}], *alone)
    check("within a token of its prompt" in checks["glued"]["findings"][0]["detail"], checks)
    words_only = shutil.copytree(MODEL, os.path.join(folder, "words"))
    shutil.copy(os.path.join(MODEL, "../../text/goldens/bert.tokenizer.json"), os.path.join(words_only, "tokenizer.json"))
    with open(os.path.join(words_only, "tokenizer_config.json"), "w") as out:
        json.dump({"unk_token": "[UNK]", "eos_token": "[SEP]"}, out)
    with open(os.path.join(words_only, "config.json")) as text:
        settings = json.load(text) | {"vocab_size": 2000}
    with open(os.path.join(words_only, "config.json"), "w") as out:
        json.dump(settings, out)
    model = ("--set", f"model.path={words_only}", *alone)
    checks, _ = answers("unknown.jsonl", [{"prompt": "the \u16a0\u16b1", "completion": " the"}], *model)
    check("1 of 4 tokens, the first for \"\u16a0\u16b1\"" in checks["unknown"]["findings"][0]["detail"], checks)
    checks, _ = answers("asked.jsonl", [{"prompt": "the \u16a0\u16b1", "answer": "the"}], *model, "--set", "objective.type=grpo", "--set", "rewards=[{type: exact}]")
    check("1 of the prompt's tokens, the first for \"\u16a0\u16b1\"" in checks["unknown"]["findings"][0]["detail"], checks)

    # In texts the finding names the key that makes the token the border of two documents.
    pretrain = ("--set", "objective.type=pretrain", *alone)
    documents = [{"text": words(9) + "<|endoftext|>" + words(9)}]
    checks, report = answers("documents.jsonl", documents, *pretrain)
    check(set(checks) == {"control_tokens"} and "data.separator" in checks["control_tokens"]["findings"][0]["detail"], checks)
    check(report["examples"] == 1, report)
    checks, report = answers("documents.jsonl", documents, *pretrain, "--set", "data.separator=<|endoftext|>")
    check(not checks and report["examples"] == 2, checks, report)
    checks, _ = answers("turns.jsonl", [{"messages": [turn("user", words(9) + "<|endoftext|>"), turn("assistant", words(9))]}], *alone)
    check("data.separator" not in checks["control_tokens"]["findings"][0]["detail"], checks)

    # Rows that call a tool with other arguments, or offer other tools, are not duplicates.
    def called(degrees, **more):
        call = [{"type": "function", "function": {"name": "turn", "arguments": {"deg": degrees}}}]
        return {"messages": [turn("user", "Go there and turn."), {"role": "assistant", "content": "", "tool_calls": call}]} | more

    tool = [{"type": "function", "function": {"name": "turn", "parameters": {}}}]
    checks, _ = answers("calls.jsonl", [called(1), called(2), called(1, tools=tool)], *alone)
    check("duplicate" not in checks, checks)
    checks, _ = answers("calls.jsonl", [called(1), called(2), called(1)], *alone)
    check(checks["duplicate"]["count"] == 1, checks)

    # Each unread key is a finding.
    checks, _ = answers("keys.jsonl", [{**said[0], "id": 1, "tag": "x"}, {**said[0], "id": 2}], *alone)
    details = [f["detail"] for f in checks["unread_key"]["findings"]]
    check(details == ["id, in 2 rows", "tag, in 1 row"], details)

print(f"{len(expected)} seeded faults reported, nothing else")
