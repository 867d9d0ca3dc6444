"""Faults of the machine: full disks, closed terminals, refused resources, a second process."""
import json
import os
import pty
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

from lab import Going, Lab, lab_of, MODEL, ROOT
from policy_cases import policy


def two_processes_never_share_a_folder(lab: Lab):
    lab.job["train"]["max_steps"] = 4000
    lab.job["train"]["deterministic"] = False
    (lab.folder / "run.json").write_text(json.dumps(lab.job))
    first = subprocess.Popen([lab.forge, "run", str(lab.folder / "run.json")], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        for _ in range(200):
            if (lab.folder / "run/metrics.jsonl").exists():
                break
            time.sleep(0.05)
        said = lab.run(code=5)
        assert "another process" in said, said
    finally:
        first.terminate()
        first.wait(30)
    assert first.returncode in (0, 75), first.returncode


def a_full_disk_is_said_and_leaves_no_litter(lab: Lab):
    job = lab.folder / "run.json"
    job.write_text(json.dumps(lab.job))
    # RLIMIT_FSIZE: every file past 20 KiB is refused, as a full disk refuses it.
    done = subprocess.run(["bash", "-c", f"ulimit -f 20; exec {lab.forge} run {job}"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 5, (done.returncode, done.stderr[-800:])
    left = [p.name for p in (lab.folder / "run").rglob("*") if ".tmp-" in p.name or p.name.startswith(".trash")]
    assert not left, left
    lab.run()


def a_run_whose_folder_goes_stops_and_says_so(lab: Lab):
    going = Going(lab)
    (lab.folder / "run").rename(lab.folder / "elsewhere")
    assert "was removed, emptied or renamed" in going.end(5)
    assert not (lab.folder / "run").exists()
    (lab.folder / "elsewhere").rename(lab.folder / "run")
    saved = max(int(path.name[5:]) for path in lab.folder.glob("run/checkpoints/step-??????"))
    said = lab.run("--extend", train={"max_steps": saved + 2})
    assert f"from step {saved:,}" in said, said
    going = Going(lab_of(lab, "second"))
    shutil.rmtree(lab.folder / "second/run", ignore_errors=True)  # the engine may still be writing to it
    assert "was removed, emptied or renamed" in going.end(5)


def a_terminal_that_closes_loses_nothing(lab: Lab):
    """The run's own terminal sends HUP, which a checkpoint answers; after another one closes, only
    output is lost.
    """
    lab.job["train"] |= {"max_steps": 4000, "threads": 1}
    lab.job["checkpoint"]["every_steps"] = 1000
    (lab.folder / "run.json").write_text(json.dumps(lab.job))
    command = [lab.forge, "run", str(lab.folder / "run.json")]
    child, master = pty.fork()
    if child == 0:
        os.execv(lab.forge, command)
    os.set_blocking(master, False)
    end = time.monotonic() + 60
    while not list(lab.folder.glob("run/metrics.jsonl")) and time.monotonic() < end:
        time.sleep(0.02)
    os.close(master)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 75
    steps = max(int(step[5:]) for step in lab.checkpoints()) + 3
    lab.job["train"]["max_steps"] = steps
    (lab.folder / "run.json").write_text(json.dumps(lab.job))
    master, slave = pty.openpty()
    process = subprocess.Popen([*command, "--extend"], stdin=slave, stdout=slave, stderr=slave, start_new_session=True)
    os.close(slave)
    os.close(master)  # from here on every write to it fails with EIO
    assert process.wait(60) == 0
    assert lab.report()["step"] == steps


def a_machine_without_proc_still_runs(lab: Lab):
    lab.job["train"]["threads"] = 1
    (lab.folder / "run.json").write_text(json.dumps(lab.job))
    without = ["unshare", "--mount", "sh", "-c", "umount -l /proc && exec \"$@\"", "sh"]
    if subprocess.run([*without, "true"], capture_output=True).returncode != 0:
        return print("     (not tried: this user may not unmount /proc)")
    for _ in range(2):
        done = subprocess.run([*without, lab.forge, "run", str(lab.folder / "run.json")], capture_output=True, text=True,
                              timeout=60)
        assert done.returncode == 0, (done.returncode, done.stderr[-800:])


def a_refused_resource_is_a_sentence(lab: Lab):
    """Memory, files, stack: exit 4 or 5 with a message, never 70 or a bare abort."""
    lab.job["train"]["threads"] = 1
    path = lab.folder / "run.json"
    path.write_text(json.dumps(lab.job))
    starved = [f"-v {kib}" for kib in (300000, 420000, 450000, 480000, 500000, 520000, 600000, 900000)]
    for limit in ("-v 40000", "-v 100000", *starved, "-v 1100000", "-n 6", "-f 1", "-s 20", "-s 100", "-s 1024"):
        done = subprocess.run(["bash", "-c", f"ulimit {limit}; exec {lab.forge} run {path}"], capture_output=True,
                              text=True, timeout=60)
        assert done.returncode in (0, 4, 5), (limit, done.returncode, done.stderr[-800:])
        assert done.returncode == 0 or done.stderr.strip(), limit
        assert limit not in starved or (done.returncode == 4 and "ulimit -v" in done.stderr), (limit, done.stderr)
        shutil.rmtree(lab.folder / "run", ignore_errors=True)


def secrets_stay_out_of_the_run(lab: Lab):
    secret = "s3cret-value-of-this-test"
    (lab.folder / secret).mkdir()
    (lab.folder / secret / "model").symlink_to(MODEL)
    (lab.folder / "rows.jsonl").write_text('{"q": "one", "a": " two"}\n' * 8)
    os.environ["LAB_TOKEN"] = secret
    try:
        source = {"path": "rows.jsonl", "prompt": "${env:LAB_TOKEN} {q}", "completion": "{a}"}
        settings = {"model": {"path": "${env:LAB_TOKEN}/model"}, "data": {"train": [source]}, "train": {"max_steps": 4}}
        said = lab.run(**settings) + lab.run("--json", command="plan", **settings) + lab.run(command="plan", **settings)
        said += lab.run("--show", "2", command="data", **settings) + lab.run("--prepare", command="data", **settings)
        page = lab.folder / "data.html"
        lab.run("--html", str(page), command="data", **settings)
        said += re.sub("<[^>]*>", "", page.read_text())  # each token is its own span
        said += lab.run(code=3, **settings | {"optimizer": {"learning_rate": 1e-4}})
        assert secret not in said, said
        held = [str(p) for p in (lab.folder / "run").rglob("*") if p.is_file() and secret.encode() in p.read_bytes()]
        assert not held, held
        assert "${env:LAB_TOKEN}" in (lab.folder / "run/plan.json").read_text()
        lab.run("--extend", **settings | {"train": {"max_steps": 6}})
        assert "finished" in lab.run(**settings | {"train": {"max_steps": 6}})
        assert "loss" in lab.evaluate(str(lab.folder / "run"))
    finally:
        del os.environ["LAB_TOKEN"]
    said = lab.evaluate(str(lab.folder / "run"), code=5)
    assert "not set: LAB_TOKEN" in said, said


def a_reader_that_sleeps_does_not_keep_a_run_from_stopping(lab: Lab):
    """The pipe is full and nobody reads it: Ctrl-C still ends the run, with a checkpoint."""
    lab.job["train"] |= {"max_steps": 40000, "threads": 1}
    lab.job["checkpoint"]["every_steps"] = 10000
    (lab.folder / "run.json").write_text(json.dumps(lab.job))
    process = subprocess.Popen([lab.forge, "run", str(lab.folder / "run.json"), "--json"], stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        size, full_since = -1, time.monotonic()
        while time.monotonic() - full_since < 2:
            metrics = lab.folder / "run/metrics.jsonl"
            now = metrics.stat().st_size if metrics.exists() else -1
            if now < 0 or now != size:
                size, full_since = now, time.monotonic()
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 75
    finally:
        process.kill()
    assert lab.checkpoints(), "no checkpoint"


def another_machines_beat_keeps_a_run_from_starting_twice(lab: Lab):
    """The folder is on a file system that keeps locks to each machine: there is no lock, but
    another boot's beat.
    """
    beat = lab.folder / "run/running.json"
    beat.parent.mkdir()
    beat.write_text(json.dumps({"host": "node-7", "boot": "11111111-2222-3333-4444-555555555555", "process": 1}))
    said = lab.run(code=5)
    assert '"node-7" is working on this run' in said and "run again in" in said, said
    assert beat.exists() and not (lab.folder / "run/plan.json").exists()
    old = time.time() - 120
    os.utime(beat, (old, old))
    lab.run()
    assert not beat.exists(), beat.read_text()
    # A beat of this machine is left to the lock; an invalid beat is ignored.
    own = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    for text in (json.dumps({"host": "here", "boot": own, "process": 1}), "{", "[]", '{"boot": 3}'):
        beat.write_text(text)
        lab.run("--fresh")
        assert not beat.exists(), text
    beat.write_text(json.dumps({"host": "node-7", "boot": "other", "process": 1}))
    assert "node-7" in lab.run("--fresh", code=5), "--fresh would remove a run that goes on elsewhere"


def another_machines_beat_ends_a_run(lab: Lab):
    """As a machine sees it that slept while another one took the run over."""
    lab.job["checkpoint"]["every_steps"] = 1000
    going = Going(lab, steps=4_000_000)
    before = lab.checkpoints()
    (lab.folder / "other").write_text(json.dumps({"host": "node-7", "boot": "other", "process": 1}))
    (lab.folder / "other").rename(lab.folder / "run/running.json")
    said = going.end(5)  # its next beat is due within 15 s
    assert '"node-7" is working on this run' in said and "it ends here at once" in said, said
    assert "node-7" in (lab.folder / "run/running.json").read_text()
    steps = [int(name[5:]) for name in lab.checkpoints() if ".tmp-" not in name]
    assert before and all(step % 1000 == 0 for step in steps), "a checkpoint was written at the end"


def flip_last_bit(path: Path) -> None:
    """As cp over it does: the same file, other bytes."""
    with open(path, "r+b") as file:
        file.seek(-1, os.SEEK_END)
        last = file.read(1)
        file.seek(-1, os.SEEK_END)
        file.write(bytes([last[0] ^ 1]))


def a_base_that_is_rewritten_is_noticed(lab: Lab):
    model = lab.folder / "base"
    shutil.copytree(MODEL, model)
    weights = model / "model.safetensors"
    lab.job["model"] = {"path": str(model)}
    lab.job["checkpoint"]["every_steps"] = 1
    going = Going(lab)
    os.utime(weights)  # a new time, the same content
    time.sleep(0.5)
    assert going.process.poll() is None, going.end(0)
    flip_last_bit(weights)
    said = going.end(5)
    assert "model.safetensors: was rewritten while the run was training on it" in said, said
    assert lab.checkpoints() and not (lab.folder / "run/adapter").exists()
    flip_last_bit(weights)
    step = int(lab.checkpoints()[-1][5:])
    said = lab.run("--extend", train={"max_steps": step + 1})
    assert f"from step {step:,}" in said, said


def a_base_that_is_rewritten_is_noticed_by_an_evaluation(lab: Lab):
    model = lab.folder / "base"
    shutil.copytree(MODEL, model)
    evaluates = lab.with_eval(every_steps=1)
    lab.job |= {"model": {"path": str(model)}, "data": lab.job["data"] | evaluates["data"], "eval": evaluates["eval"],
                "checkpoint": {"every_steps": 1_000_000, "keep_best": 0}}
    going = Going(lab, steps=4_000_000, left="metrics.jsonl")
    flip_last_bit(model / "model.safetensors")
    said = going.end(5)
    assert "model.safetensors: was rewritten while the run was training on it" in said, said
    assert not (lab.folder / "run/checkpoints").exists() or not lab.checkpoints()


def a_base_that_is_replaced_is_said(lab: Lab):
    """The files that the run has open stay as they were."""
    model = lab.folder / "base"
    shutil.copytree(MODEL, model)
    lab.job["model"] = {"path": str(model)}
    lab.job["checkpoint"]["every_steps"] = 1
    going = Going(lab)
    shutil.copy(model / "model.safetensors", lab.folder / "other")
    (lab.folder / "other").rename(model / "model.safetensors")
    time.sleep(1)
    going.process.send_signal(signal.SIGTERM)
    said = going.end(75)
    assert said.count("another file is in its place") == 1, said


TOKEN = "hf_aB3dE5fG7hI9jK1lM3nO5pQ7rS9tU1vW3"


def files_that_hold(folder: Path, text: str) -> list:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file() and text.encode() in path.read_bytes())


def made_results(lab: Lab, environment: dict) -> str:
    said = ""
    for words in (["run", "run.json"], ["merge", "run", "--no-check"], ["export", "run", "--gguf", "--no-check"], ["export", "run", "--gguf-lora", "--no-check"]):
        done = subprocess.run([lab.forge, *words], cwd=lab.folder, env=os.environ | environment, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, (words, done.stderr[-800:])
        said += done.stdout + done.stderr
    return said


def a_token_in_a_path_is_passed_on_by_no_file(lab: Lab):
    models = lab.folder / "elsewhere" / TOKEN
    shutil.copytree(MODEL, models / "base")
    shutil.move(lab.folder / "train.jsonl", models / "train.jsonl")
    where = str(lab.folder / "elsewhere")
    for path in (f"{where}/${{env:MODELS}}", str(models)):  # named by a variable, then literally
        source = {"path": f"{path}/train.jsonl", "format": "tokens"}  # twice, so that a warning of the plan names it
        lab.job |= {"model": {"path": f"{path}/base"}, "data": {"train": [source, source]}}
        (lab.folder / "run.json").write_text(json.dumps(lab.job))
        said = made_results(lab, {"MODELS": TOKEN})
        assert TOKEN not in said, said
        holding = files_that_hold(lab.folder, TOKEN)
        if path == str(models):  # a path that must lead to the files again stays as the user wrote it
            holding = [name for name in holding if name not in ("run.json", "run/job.yaml", "run/plan.json") and not name.endswith("adapter_config.json")]
        assert not holding, holding
        assert "twice: its rows are trained twice" in (lab.folder / "run/log.txt").read_text()
        readme = (lab.folder / "run/merged/README.md").read_text()
        assert "***" in readme, readme
        shutil.rmtree(lab.folder / "run")
        shutil.rmtree(lab.folder / ".cache")


def on_terminal(command: list, code: int = 0, typed: str = "", **environment) -> str:
    """What a command writes to stdout, if that is a terminal."""
    master, slave = pty.openpty()
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=slave, stderr=subprocess.PIPE, env=os.environ | environment)
    os.close(slave)
    process.stdin.write(typed.encode())
    process.stdin.close()
    shown = b""
    try:
        while piece := os.read(master, 65536):
            shown += piece
    except OSError:  # EIO: nobody writes to it any more
        pass
    os.close(master)
    said = process.stderr.read().decode()
    assert process.wait(60) == code, (process.returncode, said)
    return shown.decode()


def control_characters_of_a_model_stay_off_the_terminal(lab: Lab):
    """They are raw in a pipe, for programs, and escaped on a terminal."""
    lab.run()
    (lab.folder / "run/rollouts").mkdir()
    line = {"text": "red \x1b[31m and\u009b2J\ttab", "prompt_text": "p", "rewards": {"r": {"score": 1, "reason": "\x1b]0;title\x07"}}, "tokens": 3, "finish": "stop"}
    (lab.folder / "run/rollouts/rollout-000000.jsonl").write_text(json.dumps(line) + "\n")
    command = [lab.forge, "rollouts", str(lab.folder / "run")]
    piped = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "\x1b[31m" in piped and "\x1b]0;title" in piped, piped
    shown = on_terminal(command)
    assert "\x1b" not in shown and "\u009b" not in shown and "\\x1b[31m" in shown and "\ttab" in shown, shown


def texts_of_models_and_judges_stay_off_the_terminal(lab: Lab):
    """generate and chat with an engine that repeats what it is asked, score with a judge that does."""
    hostile = "a\x1b]0;title\x07b\u009b2Jc"
    (lab.folder / "rows.jsonl").write_text(json.dumps({"prompt": "p", "completion": hostile}) + "\n")
    (lab.folder / "hostile.jsonl").write_text(json.dumps({"prompt": hostile}) + "\n")
    sections = policy(lab, 'reply["info"] = item["completion"]')
    (lab.folder / "score.json").write_text(json.dumps(lab.job | sections))
    echo = {"FORGE_ENGINE": str(ROOT / "tests/journeys/fake_engine.py")}
    model = ["--model", str(MODEL)]
    for words, typed in ((["generate", *model, "--raw", "--prompts", str(lab.folder / "hostile.jsonl")], ""),
                         (["chat", *model, "--template", "chatml"], hostile + "\n"),
                         (["score", str(lab.folder / "rows.jsonl"), "--rewards", str(lab.folder / "score.json")], "")):
        command = [lab.forge, *words]
        piped = subprocess.run(command, input=typed.encode(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=os.environ | echo,
                               check=True, timeout=60).stdout.decode()
        assert "\x1b]0;title" in piped and "\u009b2J" in piped, (words[0], piped)
        shown = on_terminal(command, typed=typed, **echo)
        assert "\\x1b]0;title\\x07" in shown and "\\x9b2J" in shown and not set("\x1b\x07\u009b") & set(shown), (words[0], shown)


def names_of_an_adapter_stay_off_the_terminal(lab: Lab):
    names = {"\x1b]0;title\x07\u009b2J\u202e.lora_A.weight": [4, 8], "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight": [4, 8],
             "base_model.model.model.layers.0.self_attn.q_proj.lora_B.weight": [8, 4]}
    header = {name: {"dtype": "F32", "shape": shape, "data_offsets": [128 * i, 128 * (i + 1)]} for i, (name, shape) in enumerate(names.items())}
    written = json.dumps(header).encode()
    adapter = lab.folder / "adapter"
    adapter.mkdir()
    (adapter / "adapter_model.safetensors").write_bytes(len(written).to_bytes(8, "little") + written + bytes(128 * len(names)))
    (adapter / "adapter_config.json").write_text(json.dumps({"peft_type": "LORA", "r": 4, "lora_alpha": 8, "target_modules": ["q_proj"]}))
    command = [lab.forge, "adapter", "check", str(adapter)]
    assert "\x1b]0;title\x07\u009b2J" in subprocess.run(command, capture_output=True, text=True).stdout
    shown = on_terminal(command, code=5)
    assert "\\x1b]0;title" in shown and not set("\x1b\x07\u009b\u202e") & set(shown), shown


def more_threads_than_processors_are_warned_of(lab: Lab):
    said = lab.run(command="plan", train={"threads": 4000})
    assert "train.threads 4,000 is more than the" in said, said
    assert "is more than the" not in lab.run(command="plan", train={"threads": 1})
