"""Rewards from a server and from a reward model, with a program that reacts while it waits for
them.
"""
import http.server
import json
import os
import shutil
import signal
import subprocess
import threading
import time
from pathlib import Path

from lab import interrupt, Lab, unfinished
from policy_cases import policy


class Judge:
    """A server that scores by length unless `mode` says otherwise."""

    def __init__(self, mode: str = ""):
        judge = self
        self.mode, self.asked, self.lock, self.headers = mode, [], threading.Lock(), set()

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                item = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                with judge.lock:
                    judge.asked.append(item)
                    judge.headers.add(self.headers["Authorization"])
                    again = sum(1 for other in judge.asked if (other["step"], other["id"]) == (item["step"], item["id"]))
                try:
                    judge.answer(self, item, again)
                except BrokenPipeError:
                    pass  # the client did not wait

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/score"

    def answer(self, request, item: dict, again: int):
        status, body = 200, json.dumps({"result": {"score": len(item["completion"]) / 30}})
        if self.mode == "late":
            time.sleep(30)
        if self.mode == "cut":
            request.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 4000\r\n\r\n{\"result\"")
            request.close_connection = True
            return
        if self.mode == "busy once" and again == 1:
            status, body = 503, "busy"
        if self.mode == "broken":
            status, body = 500, "out of order"
        if self.mode == "not a number":
            body = '{"result": {"score": NaN}}'
        if self.mode == "text":
            body = '{"result": {"score": "good"}}'
        if self.mode == "elsewhere":
            body = '{"score": 1}'
        if self.mode == "page":
            body = "<html>hello</html>"
        if self.mode == "error":
            body = '{"error": "no judge is free"}'
        if self.mode == "echo":
            body = json.dumps({"result": {"score": 1}, "info": "asked with " + str(request.headers["Authorization"])})
        if self.mode == "echo refused" and again < 4 and item["id"] % 2:
            status, body = 403, "not for " + str(request.headers["Authorization"])
        if self.mode == "large":
            body = " " * (1 << 21) + body
        if self.mode == "talks":
            body = json.dumps({"result": {"score": 1}, "info": "r" * 900_000})
        if self.mode == "declines" and item["id"] % 3 == 0:
            body = '{"result": {"score": null}, "info": "unclear"}'
        data = body.encode()
        request.send_response(status)
        request.send_header("Content-Length", str(len(data)))
        request.end_headers()
        request.wfile.write(data)

    def close(self):
        self.server.shutdown()


def by_http(lab: Lab, judge: Judge, **more) -> dict:
    sections = policy(lab)
    sections["rewards"] = [{"name": "judge", "type": "http", "url": judge.url, "field": "result.score", "timeout": 0.5,
                            "headers": {"Authorization": "Bearer ${env:JUDGE_TOKEN}"}, **more}]
    return sections


def what_a_server_echoes_is_written_nowhere(lab: Lab):
    os.environ["JUDGE_TOKEN"] = "s3cret-of-the-judge"
    echoes(lab, "Bearer ${env:JUDGE_TOKEN}", held_by=[])
    # A plan that is continued needs what the job states in so many letters.
    echoes(lab, "Bearer s3cret-of-the-judge", held_by=["run/plan.json"])


def echoes(lab: Lab, header: str, held_by: list):
    for mode, code in (("echo", 0), ("echo refused", 0), ("echo refused", 5)):
        judge = Judge(mode)
        shutil.rmtree(lab.folder / "run", ignore_errors=True)
        settings = {"headers": {"Authorization": header}} | ({"on_error": "unscored", "max_unscored": 1} if code == 0 else {})
        said = lab.run(**by_http(lab, judge, **settings), code=code)
        judge.close()
        assert "s3cret" not in said, said
        assert judge.headers == {"Bearer s3cret-of-the-judge"}
        holding = [path for path in (lab.folder / "run").rglob("*") if path.is_file() and b"s3cret" in path.read_bytes()]
        assert [str(path.relative_to(lab.folder)) for path in holding] == held_by, holding
        if mode == "echo":
            assert "asked with Bearer ***" in (lab.folder / "run/rollouts/rollout-000000.jsonl").read_text()


def an_answer_without_measure_is_a_failure(lab: Lab):
    os.environ["JUDGE_TOKEN"] = "s3cret-of-the-judge"
    judge = Judge("large")
    said = lab.run(code=5, **by_http(lab, judge))
    judge.close()
    assert "the answer is longer than 1.0 MiB" in said, said


def a_long_remark_is_kept_by_its_beginning(lab: Lab):
    os.environ["JUDGE_TOKEN"] = "s3cret-of-the-judge"
    judge = Judge("talks")
    lab.run(**by_http(lab, judge, timeout=20))
    judge.close()
    lines = [json.loads(line) for line in (lab.folder / "run/rollouts/rollout-000000.jsonl").read_text().splitlines()]
    assert {line["rewards"]["judge"]["reason"] for line in lines} == {"r" * 4096 + "…"}


def a_server_scores_completions(lab: Lab):
    os.environ["JUDGE_TOKEN"] = "s3cret-of-the-judge"
    judge = Judge("busy once")
    lab.run(**by_http(lab, judge))
    assert judge.headers == {"Bearer s3cret-of-the-judge"}, judge.headers
    for name in ("job.yaml", "plan.json", "metrics.jsonl", "report.json"):
        assert "s3cret" not in (lab.folder / "run" / name).read_text(), name
    for number, event in enumerate(lab.events("rollout")):
        lines = [json.loads(line) for line in (lab.folder / f"run/rollouts/rollout-{number:06}.jsonl").read_text().splitlines()]
        assert all(abs(line["rewards"]["judge"]["score"] - len(line["text"]) / 30) < 1e-9 for line in lines)
        assert event["unscored"] == 0
    assert {"prompt", "completion", "row", "finish", "tokens", "reward"} <= set(judge.asked[0]) and judge.asked[0]["reward"] == "judge"
    judge.close()


def servers_that_fail_never_score_nothing_as_zero(lab: Lab):
    os.environ["JUDGE_TOKEN"] = "s3cret-of-the-judge"
    for mode, said in [("broken", "status 500"), ("late", "timed out"), ("cut", "judge"), ("not a number", "expected JSON"),
                       ("text", "not a finite number"), ("elsewhere", "has no result.score"), ("page", "expected JSON"),
                       ("error", "no judge is free")]:
        judge = Judge(mode)
        text = lab.run(code=5, name="bad", **by_http(lab, judge))
        assert said in text and "(reward judge)" in text, (mode, text)
        assert not (lab.folder / "bad/metrics.jsonl").exists() or not lab.events("rollout", "bad"), mode
        shutil.rmtree(lab.folder / "bad", ignore_errors=True)
        judge.close()
    judge.url = "http://127.0.0.1:9/nobody"
    assert "judge" in lab.run(code=5, name="bad", **by_http(lab, judge))
    judge = Judge("declines")
    lab.run(**by_http(lab, judge, on_error="unscored", max_unscored=1))
    assert all(event["unscored"] == 4 for event in lab.events("rollout"))
    judge.close()


BLANK_LINES = 'while True: sys.stdout.write("\\n" * 65536)'


def a_signal_acts_while_a_judge_thinks(lab: Lab):
    os.environ["JUDGE_TOKEN"] = "s3cret-of-the-judge"
    asked = lab.folder / "asked"
    for mode in ("time.sleep(60)", BLANK_LINES):
        for signals in ((signal.SIGINT,), (signal.SIGINT, signal.SIGTERM)):
            sections = policy(lab, mode)
            sections["rewards"][0]["timeout"] = 100
            interrupt(lab, f"process-{len(signals)}", sections, asked.exists, signals)
            asked.unlink()
    late = Judge("late")
    interrupt(lab, "server", by_http(lab, late, timeout=100), lambda: late.asked)
    late.close()


def by_model(lab: Lab) -> dict:
    """Trains a reward model as the run "judge"; returns sections whose reward is that model."""
    pairs = [{"prompt": f"What is {i}?", "chosen": "e" * (1 + i % 4), "rejected": f"no {i}"} for i in range(24)]
    (lab.folder / "pairs.jsonl").write_text("".join(json.dumps(pair) + "\n" for pair in pairs))
    lab.run(name="judge", objective={"type": "reward"}, data={"train": [{"path": str(lab.folder / "pairs.jsonl")}]},
            train={"precision": "fp32"})
    sections = policy(lab)
    sections["rewards"] = [{"name": "judge", "type": "model", "path": str(lab.folder / "judge/adapter")}, {"type": "length", "max": 6, "weight": 0}]
    return sections


def a_reward_model_scores_as_it_does_alone(lab: Lab):
    sections = by_model(lab)
    lab.run(**sections)
    lines = [json.loads(line) for line in (lab.folder / "run/rollouts/rollout-000003.jsonl").read_text().splitlines()]
    rows = lab.folder / "drawn.jsonl"
    rows.write_text("".join(json.dumps({"prompt": line["prompt_text"], "completion": line["text"]}) + "\n" for line in lines))
    alone = subprocess.run([lab.forge, "score", str(rows), "--run", str(lab.folder / "judge"), "--json", "--quiet"], capture_output=True,
                           text=True, check=True)
    expected = [row["score"] for row in json.loads(alone.stdout)["scores"]]
    scores = [line["rewards"]["judge"]["score"] for line in lines]
    assert len(set(scores)) > 3 and max(abs(a - b) for a, b in zip(scores, expected)) < 1e-5, (scores, expected)
    tried = subprocess.run([lab.forge, "score", str(rows), "--rewards", str(lab.folder / "run.json"), "--json"], capture_output=True, text=True,
                           check=True)
    again = [row["rewards"]["judge"]["score"] for row in json.loads(tried.stdout)["scores"]]
    assert max(abs(a - b) for a, b in zip(scores, again)) < 1e-5, (scores, again)
    # A path that is no reward model is refused before anything is sampled.
    sections["rewards"][0]["path"] = lab.job["model"]["path"]
    assert "gives no scores" in lab.run(code=5, name="other", **sections)


def a_reward_model_that_is_a_damaged_checkpoint_is_refused(lab: Lab):
    sections = by_model(lab)
    checkpoint = sorted((lab.folder / "judge/checkpoints").iterdir())[-1]
    sections["rewards"][0]["path"] = str(checkpoint)
    weights = checkpoint / "adapter_model.safetensors"
    content = weights.read_bytes()
    weights.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    said = lab.run(code=5, **sections)
    assert f"{weights}: is not the file that manifest.json lists" in said and not (lab.folder / "run").exists(), said
    weights.write_bytes(content)
    lab.run(**sections)


def a_reward_model_is_known_by_its_content(lab: Lab):
    sections = by_model(lab) | {"train": {"max_steps": 2, "precision": "fp32"}}
    lab.run(**sections)
    done = lab.adapter()
    unfinished(lab)
    # Equal files at another path are the same judge; other files at the same path are another.
    shutil.copytree(lab.folder / "judge/adapter", lab.folder / "moved")
    sections["rewards"][0]["path"] = str(lab.folder / "moved")
    lab.run(**sections)
    assert lab.adapter() == done
    unfinished(lab)
    weights = lab.folder / "moved/adapter_model.safetensors"
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.write_bytes(content)
    heard = lab.run(code=3, **sections)
    assert "was started from other files" in heard and "moved/adapter_model.safetensors changed" in heard, heard
