"""Completions that a server samples: as many as asked for, from the right weights, and every fault
is reported.
"""
import json
import re
import signal

from completion_server import Server
from lab import interrupt, Lab, MODEL
from policy_cases import policy
from resume_cases import back_to


def served(lab: Lab, server: Server, timeout: float = 30, **more) -> dict:
    sections = policy(lab, **more)
    sections["rollout"] |= {"provider": "http", "max_new_tokens": 6, "server": {"url": server.url, "timeout": timeout}}
    sections["train"] = {"max_steps": 4, "precision": "fp32"}
    sections["optimizer"] = {"learning_rate": 0.05}
    lab.job["train"] = sections["train"]
    return sections


def lines(lab: Lab, number: int, name: str = "run") -> list:
    return [json.loads(line) for line in (lab.folder / name / f"rollouts/rollout-{number:06}.jsonl").read_text().splitlines()]


def a_server_draws_with_each_new_adapter(lab: Lab):
    with Server(MODEL) as server:
        lab.run(**served(lab, server, eval={"every_steps": 2, "at_start": True}))
        rollouts = lab.events("rollout")
        assert [e["step"] for e in rollouts] == [1, 2, 3, 4] and all(e["completions"] == 12 for e in rollouts)
        # The server computes with other code, in double precision.
        assert all(e["sampler_gap"] is None or e["sampler_gap"] < 1e-4 for e in rollouts), rollouts
        assert len(server.names) == len(set(server.names)) == 5 and all(re.fullmatch("run-[0-9a-f]{6}-step-.*", name) for name in server.names), server.names
        assert server.adapters == {}, server.adapters.keys()  # the last one is unloaded, too
        asked = server.asked[-1]
        assert asked["top_k"] == -1 and asked["n"] == 1 and asked["logprobs"] == 0 and asked["ignore_eos"] is True, asked
        drawn = [e["seed"] for e in server.asked if e["temperature"] > 0]
        assert len(set(drawn)) == len(drawn) == 48, drawn
        assert all(e["kv_bytes"] == 0 for e in rollouts) and [e["provider_version"] for e in rollouts] == [lines(lab, i)[0]["adapter"] for i in range(4)]
        for number in range(4):
            for line in lines(lab, number):
                assert len(line["ids"]) == len(line["sampler_logps"]) <= 6 and line["adapter"] in "".join(server.names), line
        assert len(list((lab.folder / "run/rollouts/adapters").iterdir())) <= 2
        first = lab.adapter()
        # A server that answers with other fields gives equal results.
        server.mode = "only token_id"
        lab.run(name="again", **served(lab, server, eval={"every_steps": 2, "at_start": True}))
        assert lab.adapter("again") == first and lines(lab, 3, "again") == lines(lab, 3)
        said = lab.run(name="other", command="plan", **served(lab, server))
        assert server.url in said and "rollout: cache" not in said and "1 forward" not in said, said


def a_server_that_is_wrong_is_named_and_never_trained_on(lab: Lab):
    wrong = {"late": "imed out", "cut": "/completions: completion", "other ids": "log-probabilities differ from the trainer's|not a stop token",
             "too few logps": "log-probabilities for", "nan": "not finite", "null": "null as a log-probability", "positive": "0.5 as a log-probability", "below every float": "-1e\\+308 as a log-probability",
             "two choices": "2 choices, expected one", "other model": "answered by base", "other prompt": "read other prompt ids",
             "too long": "expected at most 6", "unknown id": "384 of 384", "texts alone": "no token ids", "no logps": "no log-probabilities",
             "past the stop": "after the stop token", "cut short": 'by "length" after 1 of 6', "aborted": 'ended by "abort"',
             "no json": "expected JSON", "large": "the answer is longer than 1.0 MiB",
             "status 400": "status 400", "status 404": "status 404", "status 500": "status 500", "status 503": "out of order",
             "loads nothing": "load_lora_adapter: status 404"}
    with Server(MODEL) as server:
        for mode, said in wrong.items():
            server.mode = mode
            heard = lab.run(name="wrong", code=5, **served(lab, server, timeout=0.5 if mode == "late" else 30))
            assert re.search(said, heard) and server.url in heard, f"{mode}: {heard}"
            assert lab.events("step", "wrong") == [] and not (lab.folder / "wrong/adapter").exists(), mode
    heard = lab.run(name="wrong", code=5, **served(lab, server))
    assert server.url in heard and "onnect" in heard, heard


def a_signal_acts_while_a_server_draws(lab: Lab):
    for signals in ((signal.SIGINT,), (signal.SIGINT, signal.SIGTERM)):
        with Server(MODEL) as server:
            server.mode = "late"
            interrupt(lab, f"late-{len(signals)}", served(lab, server, timeout=100), lambda: server.asked, signals)


def a_server_that_ignores_the_adapter_is_noticed(lab: Lab):
    with Server(MODEL) as server:
        server.mode = "ignores the adapter"
        heard = lab.run(code=5, **served(lab, server))
        # The first adapter changes nothing, so the first rollout is right; the second one is not
        # trained on.
        assert "rollout 2: the server draws like the base model" in heard, heard
        assert [e["step"] for e in lab.events("step")] == [1], heard
        server.mode = ""
        lab.run(**served(lab, server))  # the server is repaired
        lab.run(name="undisturbed", **served(lab, server))
        assert lab.adapter() == lab.adapter("undisturbed")


def a_server_with_other_weights_is_noticed(lab: Lab):
    with Server(MODEL) as server:
        weights = server.llama.weights["lm_head.weight"]
        server.llama.weights["lm_head.weight"] = [[3 * value for value in row] for row in weights]
        heard = lab.run(code=5, **served(lab, server))
        assert "rollout 1: the server's log-probabilities differ from the trainer's by" in heard and "rollout.server.max_gap is 0.1" in heard, heard
        sections = served(lab, server)
        sections["rollout"]["server"]["max_gap"] = 10
        lab.run(name="wide", **sections)


def what_a_server_drew_is_replayed(lab: Lab):
    """The judge ends after the server answered: the next start requests nothing that is in the
    file.
    """
    with Server(MODEL) as server:
        flag = lab.folder / "broken"
        flag.touch()
        sections = served(lab, server, mode=f"os._exit(3) if os.path.exists({str(flag)!r}) else reply.update(score=len(item['completion']))")
        lab.run(code=5, **sections)
        drawn = lines(lab, 0)
        assert len(drawn) == 12 and all(line["rewards"] == {} for line in drawn)
        assert len(server.asked) == 12, len(server.asked)
        server.known.clear()
        server.llama.weights["model.norm.weight"] = [2.0] * 32  # it would sample other tokens now
        flag.unlink()
        sections["rollout"]["server"]["max_gap"] = 100
        lab.run(**sections)
        again = lines(lab, 0)
        assert [line["ids"] for line in again] == [line["ids"] for line in drawn] and all(line["rewards"] for line in again)
        asked = [e for e in server.asked if e["temperature"] > 0]
        assert len(asked) == 12 + 3 * 12, len(asked)


def stale(lab: Lab, server: Server, staleness: int, **more) -> dict:
    sections = served(lab, server, **more)
    sections["rollout"]["server"]["max_staleness"] = staleness
    sections["objective"] = {"type": "grpo", "updates_per_rollout": 3, "epochs_per_rollout": 1}
    lab.job["train"]["max_steps"] = sections["train"]["max_steps"] = 15  # five rollouts
    return sections


def result(lab: Lab, name: str) -> dict:
    """Returns all bytes that a run leaves, without times."""
    folder = lab.folder / name
    files = [*folder.glob("rollouts/*.jsonl"), *folder.glob("adapter/*.safetensors")]
    steps = [[e["step"], e["loss"], e["grad_norm"], e["ratio"]] for e in lab.events("step", name)]
    said = [[e.get(key) for key in ("staleness", "reward", "sampler_gap", "correction", "correction_cut_share")] for e in lab.events("rollout", name)]
    return {str(path.relative_to(folder)).replace(name, "run"): path.read_bytes() for path in files} | {"steps": steps, "rollouts": said}


def a_server_draws_ahead_with_the_adapter_of_so_many_rollouts_before(lab: Lab):
    for staleness in (1, 2):
        # Evaluations between a rollout's steps need a slot for an adapter of their own.
        with Server(MODEL, most_adapters=staleness + 2) as server:
            name = f"stale-{staleness}"
            lab.run(name=name, **stale(lab, server, staleness, eval={"every_steps": 2, "at_start": True}))
            asked = [e for e in server.asked if e["temperature"] > 0]
            assert len(asked) == 60 and len({e["seed"] for e in asked}) == 60
            wanted = [3 * max(0, rollout - staleness) for rollout in range(5)]
            for rollout in range(5):
                steps = {int(re.search("-step-([0-9]+)-", e["model"])[1]) for e in asked[12 * rollout:12 * rollout + 12]}
                assert steps == {wanted[rollout]}, f"rollout {rollout}: {steps}, expected {wanted}"
                assert all(line["adapter"].startswith(f"step-{wanted[rollout]:06}-") for line in lines(lab, rollout, name))
            rollouts = lab.events("rollout", name)
            assert [e["staleness"] for e in rollouts] == [min(rollout, staleness) for rollout in range(5)], rollouts
            # The gap is to the weights that sampled; the trained weights have moved on by now.
            assert all(e["sampler_gap"] is None or e["sampler_gap"] < 1e-4 for e in rollouts), rollouts
            assert rollouts[0]["correction"] == 1 or abs(rollouts[0]["correction"] - 1) < 1e-4, rollouts[0]
            assert max(abs(e["correction"] - 1) for e in rollouts[1:]) > 1e-3, rollouts
            assert server.adapters == {}, server.adapters.keys()
            report = json.loads((lab.folder / name / "report.json").read_text())
            assert "Staleness" in (lab.folder / name / "report.html").read_text(), report.keys()
            said = lab.run(name="other", command="plan", **stale(lab, server, staleness))
            assert f"the adapter of {staleness} rollout" in said and "weigh up to 2" in said, said
            # The second time only the requests are the same: the server takes its time, and other
            # threads answer first.
            first = result(lab, name)
            server.known.clear()
            server.mode = "slow"
            again = f"slow-{staleness}"
            lab.run(name=again, **stale(lab, server, staleness, eval={"every_steps": 2, "at_start": True}))
            second = result(lab, again)
            assert first.keys() == second.keys() and [k for k in first if first[k] != second[k]] == []


def what_is_drawn_ahead_comes_while_the_trainer_works(lab: Lab):
    """A rollout's judge answers only once the server has the requests for the next one, which no
    step waits for.
    """
    with Server(MODEL, most_adapters=3) as server:
        folder = lab.folder / "asked-of-the-server"
        folder.mkdir()
        server.on_asked = lambda count: (folder / str(count)).touch()
        mode = (f"end = time.time() + 20\n    while item['step'] == 1 and not os.path.exists({str(folder / '24')!r}) and time.time() < end: time.sleep(0.01)\n"
                "    reply['score'] = len(item['completion']) if time.time() < end else None")
        sections = stale(lab, server, 1, mode=mode)
        sections["rewards"][0]["timeout"] = 30
        lab.run(**sections)
        assert [e["unscored"] for e in lab.events("rollout")] == [0] * 5


def a_server_without_places_for_stale_adapters_says_how_many(lab: Lab):
    with Server(MODEL, most_adapters=2) as server:
        heard = lab.run(code=5, **stale(lab, server, 2))
        assert "no place for another adapter" in heard and "have places for 4 of them (--max-loras)" in heard, heard


def a_stale_server_that_ignores_the_adapter_is_noticed(lab: Lab):
    with Server(MODEL, most_adapters=4) as server:
        server.mode = "ignores the adapter"
        heard = lab.run(code=5, **stale(lab, server, 2))
        # The first three rollouts are sampled with the first adapter, which changes nothing.
        assert "rollout 4: the server draws like the base model" in heard, heard
        assert lab.events("step")[-1]["step"] == 9, heard
        server.mode = ""
        lab.run(**stale(lab, server, 2))
        lab.run(name="undisturbed", **stale(lab, server, 2))
        assert lab.adapter() == lab.adapter("undisturbed")


def a_run_that_is_extended_goes_on_as_if_it_had_been_longer(lab: Lab):
    with Server(MODEL, most_adapters=4) as server:
        sections = stale(lab, server, 2)
        sections["schedule"] = {"type": "constant"}
        lab.run(name="long", **sections)
        sections["train"]["max_steps"] = 9
        lab.run(**sections)
        sections["train"]["max_steps"] = 15
        lab.run("--extend", **sections)
        assert lab.adapter() == lab.adapter("long")


def flip_last_bit(path) -> bytes:
    """Returns what the file held."""
    content = path.read_bytes()
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    return content


def forget_rollouts(lab: Lab, first: int) -> None:
    for path in (lab.folder / "run/rollouts").glob("rollout-*.jsonl"):
        if int(path.stem[8:]) >= first:
            path.unlink()


def an_adapter_that_a_server_may_be_reading_stays(lab: Lab):
    with Server(MODEL) as server:
        sections = served(lab, server, checkpoint={"every_steps": 1, "keep_last": 9})
        lab.run(**sections)
        served_one = next((lab.folder / "run/rollouts/adapters").glob("step-000003-*")) / "adapter_model.safetensors"
        before = served_one.stat().st_ino
        back_to(lab, 3)
        forget_rollouts(lab, 3)
        lab.run(**sections)
        assert served_one.stat().st_ino == before, "the folder was replaced"
        content = flip_last_bit(served_one)
        back_to(lab, 3)
        forget_rollouts(lab, 3)
        lab.run(**sections)
        assert served_one.read_bytes() == content, "a damaged adapter was served again"


def an_adapter_of_a_pending_rollout_that_is_damaged_is_refused(lab: Lab):
    with Server(MODEL, most_adapters=4) as server:
        sections = stale(lab, server, 2) | {"checkpoint": {"every_steps": 3, "keep_last": 9}}
        lab.run(**sections)
        whole = lab.adapter()
        back_to(lab, 9)
        forget_rollouts(lab, 3)
        named = [one["adapter"] for one in json.loads((lab.folder / "run/checkpoints/step-000009/ahead.json").read_text())]
        weights = lab.folder / "run/rollouts/adapters" / named[0] / "adapter_model.safetensors"
        content = flip_last_bit(weights)
        heard = lab.run(code=5, **sections)
        assert f"{weights.parent}: the adapter that a pending rollout is drawn with is gone or damaged" in heard, heard
        weights.write_bytes(content)
        # An older checkpoint that somebody edited names no adapter, and is no reason to stop.
        ahead = lab.folder / "run/checkpoints/step-000006/ahead.json"
        edited = re.sub(r'"adapter":"([^"]*).."', r'"adapter":["\1"]', ahead.read_text(), count=1)
        assert "[" in edited[1:] and len(edited) == ahead.stat().st_size, edited
        ahead.write_text(edited)
        lab.run(**sections)
        assert lab.adapter() == whole
