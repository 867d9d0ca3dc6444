"""The protocol's lines between program and engine."""
import json
import os
import subprocess
import sys
from pathlib import Path

from completion_server import Server
from judge_cases import by_model
from lab import Lab, MODEL, ROOT
from policy_cases import policy
from server_cases import served
from tool_cases import with_tool

sys.path.insert(0, str(ROOT / "tests" / "fixtures"))
from wide_model import write_wide  # noqa: E402


def every_request_and_event_is_documented(lab: Lab):
    # The engine's lines are recorded and compared with the tables of schemas/event.schema.json.
    real = Path(lab.forge).resolve().parent / "forge-engine"
    events = lab.folder / "events.jsonl"
    engine = lab.folder / "engine"
    engine.write_text(f"#!/bin/bash\nset -o pipefail\n{real} | tee -a {events}\n")
    engine.chmod(0o755)
    os.environ["FORGE_ENGINE"] = str(engine)
    try:
        lab.run(**lab.with_eval(every_steps=4))
        newest = lab.folder / "run/checkpoints" / lab.checkpoints()[-1] / "manifest.json"
        newest.write_text(newest.read_text()[:40])  # ignored with a notice
        lab.run("--extend", "--set", "train.max_steps=14", **lab.with_eval(every_steps=4))
        lab.run("--ops", "--steps", "1", command="bench")
        lab.run("--kernels", "--seconds", "1", command="bench")
        lab.evaluate(str(lab.folder / "run"))
        for command in (["generate", str(lab.folder / "run"), "--prompt", "a", "--max-new-tokens", "3"], ["doctor"]):
            subprocess.run([lab.forge, *command], capture_output=True, check=True, timeout=120)
        subprocess.run([lab.forge, "chat", str(lab.folder / "run"), "--max-new-tokens", "3"], input="a\nb\n", text=True, capture_output=True, check=True,
                       timeout=120)
        lab.run(name="other", model={"path": str(MODEL)}, train={"on_nan": "stop"}, optimizer={"learning_rate": 1e30}, code=7)
        lab.run(name="narrow", model={"path": str(write_wide(lab.folder / "wide")), "quantization": "fp8", "fp8_tolerance": 1}, provider="fused")
        lab.run(name="drawn", **policy(lab, objective={"type": "grpo", "kl": 0.1, "epochs_per_rollout": 2}))
        lab.run(**{"name": "judged"} | by_model(lab))
        with Server(MODEL, most_adapters=3) as server:
            sections = served(lab, server)
            sections["rollout"]["server"]["max_staleness"] = 1
            lab.run(name="served", **sections)
        lab.run(**{"name": "called"} | with_tool(lab))
    finally:
        del os.environ["FORGE_ENGINE"]
    shapes = {one["title"]: one for one in json.loads((ROOT / "schemas/event.schema.json").read_text())["oneOf"]}
    seen = {}
    for line in events.read_text().splitlines():
        event = json.loads(line)
        shape = shapes[event["event"]]
        seen.setdefault(event["event"], set()).update(event)
        unknown, missing = set(event) - set(shape["properties"]), set(shape["required"]) - set(event)
        assert not unknown and not missing, f"{event}: not documented {unknown}, missing {missing}"
    assert set(seen) == set(shapes), set(shapes) ^ set(seen)
