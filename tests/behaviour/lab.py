"""The folder with a job in it that the cases share."""
import json
import shutil
import signal
import subprocess
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MODEL = ROOT / "tests" / "fixtures" / "tiny-llama"
ROWS = ROOT / "tests" / "parity" / "goldens" / "tiny-batches.jsonl"


class Lab:
    """One folder with a job in it."""

    def __init__(self, forge: str, folder: Path):
        self.forge, self.folder = forge, folder
        lines = ROWS.read_text().splitlines()
        (folder / "train.jsonl").write_text("\n".join(lines[:48]) + "\n")
        (folder / "eval.jsonl").write_text("\n".join(lines[48:64]) + "\n")
        self.job = {
            "version": 1, "name": "run", "seed": 7, "output_dir": str(folder),
            "model": {"path": str(MODEL)}, "adapter": {"type": "lora", "rank": 4, "alpha": 8},
            "data": {"train": [{"path": str(folder / "train.jsonl"), "format": "tokens"}]},
            "train": {"max_steps": 12, "global_batch_size": 4}, "optimizer": {"learning_rate": 5e-3},
            "checkpoint": {"every_steps": 4},
        }

    def run(self, *options: str, code: int = 0, name: str = "run", command: str = "run", **sections) -> str:
        """Writes the job with changed sections, runs a command on it, checks the exit code; returns
        the output.
        """
        job = json.loads(json.dumps(self.job)) | {"name": name}
        for section, values in sections.items():
            job[section] = job.get(section, {}) | values if isinstance(values, dict) else values
        path = self.folder / f"{name}.json"
        path.write_text(json.dumps(job))
        done = subprocess.run([self.forge, command, str(path), *options], capture_output=True, text=True, timeout=120)
        said = done.stdout + done.stderr
        assert done.returncode == code, f"exit {done.returncode}, expected {code}:\n{said[-2000:]}"
        return said

    def events(self, kind: str, name: str = "run") -> list:
        lines = (self.folder / name / "metrics.jsonl").read_text().splitlines()
        return [e for e in map(json.loads, lines) if e["event"] == kind]

    def losses(self, name: str = "run") -> list:
        return [e["loss"] for e in self.events("step", name)]

    def adapter(self, name: str = "run") -> bytes:
        return (self.folder / name / "adapter" / "adapter_model.safetensors").read_bytes()

    def checkpoints(self, name: str = "run") -> list:
        return sorted(p.name for p in (self.folder / name / "checkpoints").iterdir())

    def report(self, name: str = "run") -> dict:
        return json.loads((self.folder / name / "report.json").read_text())

    def evaluate(self, *what: str, code: int = 0) -> str:
        """Runs forge eval on the held-out rows; returns the loss it printed, or its output if it
        failed.
        """
        command = [self.forge, "eval", *what, "--data", str(self.folder / "eval.jsonl")]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        assert done.returncode == code, f"exit {done.returncode}, expected {code}:\n{done.stderr[-2000:]}"
        return done.stdout or done.stderr

    def changed_adapter(self, **settings) -> str:
        """Copies the run's adapter with other settings in adapter_config.json; returns the copy's
        path.
        """
        folder = self.folder / "changed-adapter"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(self.folder / "run" / "adapter", folder)
        config = json.loads((folder / "adapter_config.json").read_text())
        (folder / "adapter_config.json").write_text(json.dumps(config | settings))
        return str(folder)

    def with_eval(self, **eval_settings) -> dict:
        return {"data": {"eval": [{"path": str(self.folder / "eval.jsonl"), "format": "tokens"}]}, "eval": eval_settings}


def unfinished(lab: Lab, name: str = "run") -> Path:
    """Returns a run in the state that a kill between the last checkpoint and the export leaves."""
    (lab.folder / name / "report.json").unlink()
    shutil.rmtree(lab.folder / name / "adapter")
    return lab.folder / name


class Going:
    """A run of many steps that is still training: it has left a file of the pattern."""

    def __init__(self, lab: Lab, steps: int = 4000, left: str = "checkpoints/step-??????"):
        lab.job["train"]["max_steps"] = steps
        lab.job["train"]["threads"] = 1
        (lab.folder / "run.json").write_text(json.dumps(lab.job))
        self.process = subprocess.Popen([lab.forge, "run", str(lab.folder / "run.json")], stdout=subprocess.PIPE,
                                        stderr=subprocess.STDOUT, text=True)
        end = time.monotonic() + 60
        while not list(lab.folder.glob(f"run/{left}")) and time.monotonic() < end:
            time.sleep(0.02)

    def end(self, code: int) -> str:
        try:
            said = self.process.communicate(timeout=60)[0]
        finally:
            self.process.kill()
        assert self.process.returncode == code, f"exit {self.process.returncode}, expected {code}:\n{said[-2000:]}"
        return said


def lab_of(lab: Lab, name: str) -> Lab:
    (lab.folder / name).mkdir()
    return Lab(lab.forge, lab.folder / name)


def interrupt(lab: Lab, name: str, sections: dict, waits, signals: tuple = (signal.SIGINT,)) -> None:
    """Starts a run, signals it once `waits()` says that it waits for somebody, and expects it to end soon."""
    job = lab.folder / f"{name}.json"
    job.write_text(json.dumps({**lab.job, **sections, "name": name}))
    process = subprocess.Popen([lab.forge, "run", str(job)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        end = time.monotonic() + 60
        while not waits() and process.poll() is None and time.monotonic() < end:
            time.sleep(0.02)
        assert waits() and process.poll() is None, (name, "nobody was asked")
        began = time.monotonic()
        for number in signals:
            process.send_signal(number)
        said = process.communicate(timeout=20)[1]
    finally:
        process.kill()
    took = time.monotonic() - began
    assert process.returncode in (75, 130) and took < 5, (name, process.returncode, took, said)
