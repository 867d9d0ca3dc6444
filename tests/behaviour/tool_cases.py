"""Completions of several turns with a tool's answers between them: the answers are read and never
trained.
"""
import json
import shutil
import signal
import subprocess
import sys
import time

from completion_server import Server
from lab import interrupt, Lab, MODEL
from policy_cases import policy

# A calculator that knows one sum, the length of its input; it records every answer.
TOOL = """import json, os, sys, time
greeting = json.loads(sys.stdin.readline())
assert greeting["tools"] is True
print(json.dumps({"ready": 1}), flush=True)
folder = os.path.dirname(os.path.abspath(__file__))
for line in sys.stdin:
    item = json.loads(line)
    if "id" not in item:
        continue
    reply = {"id": item["id"], "content": "=%d;" % (7 * len(item["completion"]))}
    MODE
    with open(os.path.join(folder, "answers"), "a") as file:
        file.write(json.dumps([item, reply]) + "\\n")
    print(json.dumps(reply), flush=True)
"""


def with_tool(lab: Lab, mode: str = "pass", turns: int = 3, **more) -> dict:
    """Returns sections in which a turn ends with any letter, which the untrained model soon
    samples.
    """
    sections = policy(lab, **more)
    (lab.folder / "tool.py").write_text(TOOL.replace("MODE", mode))
    sections["rollout"] |= {"max_new_tokens": 40, "stop": list("abcdefghijklmnopqrstuvwxyz"),
                            "tools": {"command": [sys.executable, str(lab.folder / "tool.py")], "max_turns": turns, "timeout": 0.5}}
    lab.job["train"] = {"max_steps": 4, "precision": "fp32"}
    return sections


def lines(lab: Lab, number: int, name: str = "run") -> list:
    return [json.loads(line) for line in (lab.folder / name / f"rollouts/rollout-{number:06}.jsonl").read_text().splitlines()]


def answers(of: Lab) -> list:
    return [json.loads(line) for line in (of.folder / "answers").read_text().splitlines()]


def a_tool_answers_and_the_model_goes_on(lab: Lab):
    lab.run(**with_tool(lab, eval={"every_steps": 4}))
    rollouts, steps = lab.events("rollout"), lab.events("step")
    assert max(e["turns"]["max"] for e in rollouts) == 3 and all(e["tool_failures"] == 0 for e in rollouts), rollouts
    # The trainer finds each sampled token as likely as the decoder did, after the same inserted
    # ids.
    assert all(e["sampler_gap"] is not None and e["sampler_gap"] < 1e-5 for e in rollouts), rollouts
    said = [reply["content"] for _, reply in answers(lab)]
    assert all(reply["content"] == "=%d;" % (7 * len(item["completion"])) for item, reply in answers(lab))
    inserted = 0
    for number, (rollout, step) in enumerate(zip(rollouts, steps)):
        drawn = 0
        for line in lines(lab, number):
            spans = line.get("inserted", [])
            assert line.get("turns", 1) == len(spans) + 1 and len(line["ids"]) <= 40, line
            assert len(line["sampler_logps"]) == len(line["ids"]) - sum(end - begin for begin, end in spans), line
            assert all(begin < end for begin, end in spans) and (not spans or line["text_begin"] == spans[-1][1]), line
            drawn += len(line["sampler_logps"])
            inserted += len(spans)
            begin = line.get("text_begin", 0)
            assert line["tokens"] <= len(line["ids"]) - begin, line
            if spans:
                assert any(answer in line["transcript"] for answer in said), line
        assert rollout["inserted_tokens"]["max"] > 0
        if rollout["flat_groups"] == 0 and rollout["unscored"] == 0:
            assert step["supervised_tokens"] == drawn, (step, drawn)
    assert 0 < inserted <= len(said)
    shown = subprocess.run([lab.forge, "rollouts", str(lab.folder / "run"), "--rollout", "1", "--limit", "12"], capture_output=True, text=True, check=True)
    assert ", 3 turns\n" in shown.stdout and said[0] in shown.stdout, shown.stdout
    # Neither slots nor neighbours change the result.
    sections = with_tool(lab, eval={"every_steps": 4})
    sections["rollout"]["slots"] = 4
    lab.run(name="narrow", **sections)
    assert lab.adapter("narrow") == lab.adapter() and lines(lab, 3, "narrow") == lines(lab, 3)
    # Guessed tokens change nothing either, within a turn and across insertions.
    sections["rollout"] |= {"lookup_tokens": 3, "temperature": 0.3}
    lab.run(name="guessed", **sections)
    assert sum(e["lookup_guessed"] for e in lab.events("rollout", "guessed")) > 0
    del sections["rollout"]["lookup_tokens"]
    lab.run(name="unguessed", **sections)
    assert lab.adapter("guessed") == lab.adapter("unguessed") and all(lines(lab, i, "guessed") == lines(lab, i, "unguessed") for i in range(4))


def conversations_go_on_by_their_template(lab: Lab):
    (lab.folder / "plain.jinja").write_text(
        "{% for m in messages %}<{{ m.role }}>{{ m.content }}{{ eos_token }}{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}")
    sections = with_tool(lab, mode='reply["role"] = "tool"', turns=2)
    rows = [{"prompt": [{"role": "user", "content": f"What is {i}?"}]} for i in range(24)]
    (lab.folder / "prompts.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    sections["data"]["template"] = str(lab.folder / "plain.jinja")
    lab.run(**sections)
    several = [line for number in range(4) for line in lines(lab, number) if line.get("turns", 1) > 1]
    assert several
    for line in several:
        (begin, end), = line["inserted"]
        assert line["ids"][begin] == 2, line  # the turn's end, which the model did not write
        assert "<|im_end|><tool>=" in line["transcript"] and ";<|im_end|><assistant>" in line["transcript"], line["transcript"]
    said = answers(lab)
    assert all(item["messages"][0]["role"] == "user" and item["turn"] == 1 for item, _ in said)


def tools_that_fail_end_as_documented(lab: Lab):
    for mode, said in [("os._exit(3)", "ended with exit code 3"), ("time.sleep(60)", "no answer within"), ('print("hello", flush=True)', 'it wrote "hello"'),
                       ('reply["content"] = float("nan")', "JSON has no NaN"), ("print(json.dumps(reply), flush=True)", "twice"),
                       ('reply["id"] = 999', "was not asked for"), ('reply = {"id": item["id"]}', "neither content nor done nor error"),
                       ('reply = {"id": item["id"], "error": "no such tool"}', "no such tool"), ('reply["content"] = ""', "its content is empty"),
                       ('reply["done"] = "no"', "its done is neither true nor false")]:
        heard = lab.run(code=5, name="fails", **with_tool(lab, mode=mode))
        assert "rollout.tools: " in heard and said in heard, f"{mode}: {heard}"
        assert lab.events("step", "fails") == []
        shutil.rmtree(lab.folder / "fails")
    sections = with_tool(lab, mode='reply = {"id": item["id"], "error": "no such tool"} if item["id"] == 0 else reply')
    sections["rollout"]["tools"]["on_error"] = "unscored"
    lab.run(**sections)
    rollouts = lab.events("rollout")
    assert all(e["unscored"] == e["tool_failures"] for e in rollouts) and rollouts[0]["tool_failures"] >= 1, rollouts
    assert any(line["unscored"] == "rollout.tools: no such tool" and line["reward"] is None for line in lines(lab, 0))
    # A tool's answer with `done` false and content: the turns go on, and the content counts.
    sections = with_tool(lab, mode='reply["done"] = False')
    lab.run(name="goes-on", **sections)
    assert max(e["turns"]["max"] for e in lab.events("rollout", "goes-on")) == 3 and lines(lab, 1, "goes-on") != []
    sections = with_tool(lab, mode='reply = {"id": item["id"], "done": True}')
    lab.run(name="done", **sections)
    assert all(e["turns"]["max"] == 1 for e in lab.events("rollout", "done"))


def a_tool_that_answers_otherwise_is_replayed(lab: Lab):
    """The run is killed while a judge scores: the tool's earlier answers come from the file."""
    flag = lab.folder / "slow"
    flag.touch()
    sections = with_tool(lab, mode='import random; reply["content"] = "=%d;" % random.randrange(10 ** 6)', turns=2)
    judge = (f'time.sleep(60) if os.path.exists({str(flag)!r}) else reply.update(score=len(item["completion"]))')
    policy(lab, mode=judge)  # writes judge.py
    sections["rewards"] = [
        {"name": "judge", "type": "command", "command": [sys.executable, str(lab.folder / "judge.py")], "timeout": 100}]
    job = json.loads(json.dumps(lab.job)) | {"name": "run"} | {key: value for key, value in sections.items()}
    (lab.folder / "run.json").write_text(json.dumps(job))
    process = subprocess.Popen([lab.forge, "run", str(lab.folder / "run.json")], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    record, end = lab.folder / "run/rollouts/rollout-000000.jsonl", time.monotonic() + 60
    while not record.exists() and time.monotonic() < end:
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    drawn, asked = lines(lab, 0), len(answers(lab))
    assert any(line.get("inserted") for line in drawn) and all(line["rewards"] == {} for line in drawn)
    flag.unlink()
    lab.run(**sections)
    again = lines(lab, 0)
    assert [line["ids"] for line in again] == [line["ids"] for line in drawn] and all(line["rewards"] for line in again)
    items = [item for item, _ in answers(lab)[asked:]]
    assert items and min(item["step"] for item in items) == 2, "the tool was asked again about the first rollout"


def a_signal_acts_while_a_tool_thinks(lab: Lab):
    asked = lab.folder / "tool-asked"
    for mode in ("time.sleep(60)", 'while True: sys.stdout.write("\\n" * 65536)'):
        for signals in ((signal.SIGINT,), (signal.SIGINT, signal.SIGTERM)):
            sections = with_tool(lab, mode=f"open({str(asked)!r}, 'w').close()\n    {mode}")
            sections["rollout"]["tools"]["timeout"] = 100
            interrupt(lab, f"tool-{len(signals)}", sections, asked.exists, signals)
            asked.unlink()


def a_tool_that_writes_blank_lines_is_held_to_its_time(lab: Lab):
    heard = lab.run(code=5, **with_tool(lab, mode='while True: sys.stdout.write("\\n" * 65536)'))
    assert "rollout.tools: " in heard and "no answer within" in heard, heard


def a_server_draws_several_turns(lab: Lab):
    with Server(MODEL) as server:
        sections = with_tool(lab, turns=2)
        sections["rollout"] |= {"provider": "http", "server": {"url": server.url, "timeout": 10}, "max_new_tokens": 16}
        lab.run(**sections)
        rollouts = lab.events("rollout")
        assert max(e["turns"]["max"] for e in rollouts) == 2
        assert all(e["sampler_gap"] is None or e["sampler_gap"] < 1e-4 for e in rollouts), rollouts
