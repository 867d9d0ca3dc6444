#!/usr/bin/env python3
"""An engine for journeys that computes nothing but speaks the protocol of docs/engine-protocol.md.

FAKE chooses the fault: refuse (before the first step), segv, kill, killed_by_kernel,
missing_library, silent, garbage, old, diverge, slow, deaf (ignores signals).
"""
import json
import os
import pathlib
import signal
import sys
import threading
import time

FAKE = os.environ.get("FAKE", "")
stop = threading.Event()


def send(event, **fields):
    sys.stdout.write(json.dumps({"event": event, **fields}) + "\n")
    sys.stdout.flush()


def fail(kind, code, message, hint=""):
    send("error", kind=kind, message=message, hint=hint)
    sys.exit(code)


def answer_signal(number, frame):
    if stop.is_set():
        fail("interrupted", 130, "interrupted before a checkpoint could be written")
    stop.set()


def save(folder, step):
    checkpoint = folder / "checkpoints" / f"step-{step:06d}"
    checkpoint.mkdir(parents=True, exist_ok=True)
    (checkpoint / "manifest.json").write_text(json.dumps({"format": 1, "step": step, "files": []}))
    send("checkpoint", step=step, path=str(checkpoint), bytes=1024, seconds=0.01)


def train(request):
    plan, folder = request["plan"], pathlib.Path(request["run_folder"])
    folder.mkdir(parents=True, exist_ok=True)
    first = 0
    if request["resume"]:
        plan = json.loads((folder / "plan.json").read_text())
        saved = sorted((folder / "checkpoints").glob("step-*")) if (folder / "checkpoints").exists() else []
        first = int(saved[-1].name[5:]) if saved else 0
        if saved:
            send("resumed", step=first, checkpoint=str(saved[-1]))
    else:
        (folder / "plan.json").write_text(json.dumps(plan))
        (folder / "job.yaml").write_text(request["job_text"])
    if FAKE == "refuse":
        fail("environment", 5, "the model's third tensor is damaged")
    steps = plan.get("steps", 3)
    with open(folder / "amendments.jsonl", "a") as file:
        for amendment in request["amendments"]:
            file.write(json.dumps(amendment) + "\n")
    for line in (folder / "amendments.jsonl").read_text().split("\n"):
        if line:
            steps = json.loads(line)["changes"].get("steps", steps)
    for step in range(first + 1, steps + 1):
        if FAKE in ("slow", "deaf"):
            time.sleep(0.3)
        if FAKE == "diverge":
            fail("diverged", 7, f"step {step}: the loss is not finite", "lower optimizer.learning_rate")
        send("step", step=step, steps=steps, epoch=step / steps, loss=4.0 / step, learning_rate=1e-3, grad_norm=1.0,
             examples=8, tokens=100, supervised_tokens=50, tokens_per_second=1000.0, step_seconds=0.1,
             data_wait_seconds=0.0, peak_memory_bytes=1 << 20)
        if stop.is_set() and FAKE != "deaf":
            save(folder, step)
            fail("stopped", 75, f"stopped at step {step} with a checkpoint", "run the same command again to continue")
        if FAKE == "die_at_2" and step == 2:
            save(folder, step)
            os.kill(os.getpid(), signal.SIGKILL)
    save(folder, steps)
    full = plan["job"]["adapter"]["type"] == "none"
    for name in ("model/model.safetensors", "model/config.json") if full else \
            ("adapter/adapter_model.safetensors", "adapter/adapter_config.json"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes((2).to_bytes(8, "little") + b"{}" if name.endswith(".safetensors") else b"")  # no tensors
    if not full:
        config = {"peft_type": "LORA", "r": plan["job"]["adapter"]["rank"], "lora_alpha": 8, "target_modules": ["q_proj"]}
        (folder / "adapter/adapter_config.json").write_text(json.dumps(config))
    (folder / "report.html").touch()
    report = {"version": 1, "name": folder.name, "state": "finished", "steps": steps, "planned_steps": steps}
    (folder / "report.json").write_text(json.dumps(report))
    send("done", report=report)


def generate(request):
    texts = [prompt[: request["max_new_tokens"]] for prompt in request["prompts"]]  # echoes the prompts
    for step in range(max(map(len, texts)) + 1):  # one token of each at a time, the last prompt first
        for number, text in reversed(list(enumerate(texts))):
            if FAKE in ("slow", "deaf"):
                stop.wait(5)
            if stop.is_set() and FAKE != "deaf":
                fail("interrupted", 130, "interrupted")
            if step < len(text):
                send("tokens", prompts=[number], ids=[text[step]])
            if step == len(text):
                send("text_end", prompt=number, reason="length", tokens=len(text), seconds=0.1)
    if not request.get("turns"):
        return send("done", tokens=1, seconds=0.1)
    send("turn", tokens=1, prompt_tokens=1)
    if line := sys.stdin.readline():
        generate(json.loads(line))


def main():
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN if FAKE == "deaf" else answer_signal)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGINT, signal.SIGTERM))  # held back at the start
    if FAKE == "missing_library":
        sys.stderr.write("forge-engine: error while loading shared libraries: libcudart.so.13: cannot open shared "
                         "object file: No such file or directory\n")
        sys.exit(127)
    if FAKE == "old":
        send("hello", protocol=0)
        time.sleep(5)
    request = json.loads(sys.stdin.readline())
    send("hello", protocol=1, torch="2.11.0", device="cpu", threads=2, pid=os.getpid())
    if FAKE == "segv":
        sys.stderr.write("a last word\n")
        sys.stderr.flush()
        os.kill(os.getpid(), signal.SIGSEGV)
    if FAKE == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if FAKE == "silent":
        sys.exit(0)
    if FAKE == "garbage":
        print("hello, this is not JSON", flush=True)
    if request["command"] == "info":
        cards = [f"cuda:{index}" for index in range(int(os.environ.get("FAKE_CARDS", 0)))]
        send("done", checks=[{"device": device, "found": "ok"} for device in cards or ["cpu"]], collectives="ok" if cards else "")
    if request["command"] == "train":
        train(request)
    if request["command"] == "generate":
        generate(request)
    if request["command"] == "eval":
        for index in range(2):
            send("example", index=index, tokens=10, supervised_tokens=5, loss=5.0 + index)
        send("done", eval_loss=1.1, tokens=20, supervised_tokens=10, examples=2, seconds=0.5)


main()
