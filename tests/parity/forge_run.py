"""Runs forge and reads its results. Standard library only.

    run = run_job(forge, job_dict, folder)      # writes folder/NAME.json, runs it, reads folder/runs/NAME
    run.losses, run.tensors
"""
import json
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tensors import Tensor, read_safetensors


class ForgeFailed(RuntimeError):
    pass


@dataclass
class Run:
    folder: Path
    steps: list[dict]  # the step events of metrics.jsonl
    notices: list[str]

    @property
    def losses(self) -> list[float]:
        return [event["loss"] for event in self.steps]

    def tensors(self) -> dict[str, Tensor]:
        """Returns the adapter's tensors under PEFT's names, or the model's under Hugging Face's."""
        adapter = self.folder / "adapter" / "adapter_model.safetensors"
        if adapter.exists():
            return read_safetensors(adapter)
        found = {}
        for path in sorted((self.folder / "model").glob("*.safetensors")):
            found |= read_safetensors(path)
        return found


def call(forge: str, *arguments: str) -> str:
    """Returns forge's stdout; raises ForgeFailed with its output."""
    done = subprocess.run([forge, *map(str, arguments)], capture_output=True, text=True)
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip().splitlines()[-8:]
        raise ForgeFailed(f"forge {' '.join(map(str, arguments))}: exit {done.returncode}\n    " + "\n    ".join(said))
    return done.stdout


def read_run(folder: Path) -> Run:
    events = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return Run(folder, [event for event in events if event["event"] == "step"],
               [event["text"] for event in events if event["event"] == "notice"])


def run_job(forge: str, job: dict, folder: Path) -> Run:
    path = folder / f"{job['name']}.json"
    path.write_text(json.dumps(job, indent=1))
    call(forge, "run", path)
    return read_run(Path(job["output_dir"]) / job["name"])


def per_example(forge: str, model: Path, adapter: Path | None, data: Path, out: Path) -> list[dict]:
    """Returns the rows of `forge eval --per-example`."""
    extra = ["--adapter", adapter] if adapter else []
    call(forge, "eval", "--model", model, *extra, "--data", data, "--precision", "fp32", "--per-example", out)
    return [json.loads(line) for line in out.read_text().splitlines()]


def relative_error(got: list[float], want: list[float]) -> float:
    """Returns the largest relative difference of two lists; infinite if their lengths differ."""
    if len(got) != len(want):
        return float("inf")
    return max((abs(a - b) / max(abs(b), 1e-30) for a, b in zip(got, want)), default=0.0)
