"""What the machine does to a run: full disks, closed terminals, refused resources, a second process."""
import json
import os
import pty
import re
import shutil
import subprocess
import time

from lab import Going, Lab, lab_of, MODEL


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
    """Its own terminal sends HUP, which is answered with a checkpoint; another one's end is only words unsaid."""
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
