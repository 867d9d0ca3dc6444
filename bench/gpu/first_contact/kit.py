"""Helpers that the steps share: figures and checks as JSON lines, and the kit's forge. Standard
library only.

    figure(tokens_per_second=812)                   # {"tokens_per_second": 812}
    check("loss", 3e-7, 1e-6)                       # ok: at most the limit; leave() then exits 1 if one was not
    forge("run", job_file)                          # its stdout; raises Failed with the end of its output

In a rehearsal (FORGE_KIT_REHEARSAL names the library to preload) values are not judged, unless
`always` is set."""
import ctypes
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

KIT = Path(__file__).resolve().parents[3]
WORK = Path(os.environ.get("FORGE_KIT_WORK", "first-contact-work"))
REHEARSAL = os.environ.get("FORGE_KIT_REHEARSAL", "")
DEVICE = os.environ.get("FORGE_KIT_DEVICE", "cuda:0")
_faults: list = []


class Failed(RuntimeError):
    pass


def figure(**values) -> None:
    print(json.dumps(values), flush=True)


def check(name: str, value: float, limit: float, always: bool = False, **more) -> bool:
    ok = value <= limit
    judged = always or not REHEARSAL
    figure(check=name, value=value, limit=limit, ok=ok if judged else None, **more)
    if judged and not ok:
        _faults.append(f"{name}: {value:.3g}, at most {limit:.3g} was expected")
    return ok


def leave() -> None:
    sys.exit("\n".join(_faults) if _faults else 0)


def program_environment() -> dict:
    return os.environ | ({"LD_PRELOAD": REHEARSAL} if REHEARSAL else {})


def die_with_parent() -> None:
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: forge ends even if the step is killed


def start(*words, **more) -> subprocess.Popen:
    return subprocess.Popen([str(KIT / "bin/forge"), *map(str, words)], env=program_environment(), text=True, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, preexec_fn=die_with_parent, **more)


def forge(*words) -> str:
    process = start(*words)
    said, errors = process.communicate()
    if process.returncode:
        tail = (errors or said).strip().splitlines()[-12:]
        raise Failed(f"forge {' '.join(map(str, words))}: exit {process.returncode}\n    " + "\n    ".join(tail))
    return said


def run_job(job: dict, folder: Path) -> Path:
    """Runs the job; returns the run's folder."""
    forge("run", write_job(job, folder))
    return Path(job["output_dir"]) / job["name"]


def write_job(job: dict, folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{job['name']}.json"
    path.write_text(json.dumps(job, indent=1))
    return path
