#!/usr/bin/env python3
"""Checks what forge says and does on machines with GPUs on which it can, or cannot, compute.

    python3 tests/door/door_test.py build/bin/forge --stubs build/tests/door \\
        --torch ~/.cache/forge/torch-2.11.0 --generation 90

Each case has a copy of the program beside some engines, under a stub driver that names cards. Real
engines compute if a case trains. Standard library only.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MODEL = ROOT / "tests/fixtures/tiny-llama"
ROWS = ROOT / "tests/parity/goldens/tiny-batches.jsonl"
FAKE_ENGINE = ROOT / "tests/journeys/fake_engine.py"


class Machine:
    """A machine with a driver and cards, and an installation of forge with a job in its folder."""

    def __init__(self, options, folder: Path):
        self.options, self.folder, self.bin = options, folder, folder / "installed/bin"
        self.bin.mkdir(parents=True)
        self.program = self.bin / "forge"
        shutil.copy2(options.forge, self.program)
        self.add_engine("forge-engine", Path(options.forge).parent / "forge-engine")
        self.environment = {
            k: v
            for k, v in os.environ.items()
            if not k.startswith(("FORGE_ENGINE", "CUDA_VISIBLE", "STUB_"))
        }
        self.environment["FORGE_TORCH_DIR"] = options.torch
        self.environment["LD_LIBRARY_PATH"] = f"{options.stubs}/driver"
        lines = ROWS.read_text().splitlines()
        (folder / "rows.jsonl").write_text("\n".join(lines[:16]) + "\n")

    def add_engine(self, name: str, file: Path):
        (self.bin / name).symlink_to(file)

    def cards(self, *cards: tuple, **stub):
        """Sets the cards, each as (name, compute capability, GiB, free GiB)."""
        self.environment["STUB_CARDS"] = ";".join("|".join(map(str, card)) for card in cards)
        self.environment |= {f"STUB_{name.upper()}": str(value) for name, value in stub.items()}
        return self

    def forge(self, *words: str, code: int = 0, text: str = "", **variables) -> str:
        """Runs a command in the folder and checks its exit code; returns the output of both
        streams."""
        done = subprocess.run(
            [self.program, *words],
            cwd=self.folder,
            env=self.environment | variables,
            input=text,
            text=True,
            capture_output=True,
            timeout=120,
        )
        assert (
            done.returncode == code
        ), f"{words}: exit {done.returncode}, expected {code}:\n{done.stdout}{done.stderr}"
        return done.stdout + done.stderr

    def job(self, device: str = "auto", name: str = "run") -> str:
        (self.folder / f"{name}.json").write_text(
            json.dumps(
                {
                    "version": 1,
                    "name": name,
                    "model": {"path": str(MODEL)},
                    "adapter": {"type": "lora", "rank": 4},
                    "data": {"train": [{"path": "rows.jsonl", "format": "tokens"}]},
                    "hardware": {"device": device},
                    "train": {"max_steps": 2, "global_batch_size": 4, "threads": 1},
                }
            )
        )
        return f"{name}.json"

    def plan(self, device: str = "auto", *more: str) -> dict:
        return json.loads(self.forge("plan", self.job(device), "--json", *more))

    def refused(self, device: str, **variables) -> str:
        """Checks that a run may not begin: exit 5, and neither a name nor a folder is taken."""
        said = self.forge("run", self.job(device, "refused"), code=5, **variables)
        assert "runs/refused" not in said and not (self.folder / "runs/refused").exists(), said
        return said

    def doctor(self, code: int, **variables) -> tuple:
        """Runs doctor; returns its findings other than `ok` as {what: (state, found, remedy)}, and
        its devices by name."""
        said = json.loads(self.forge("doctor", "--json", code=code, **variables))
        assert said["healthy"] == (code == 0), said
        findings = {
            f["what"]: (f["state"], f["found"], f["remedy"])
            for f in said["findings"]
            if f["state"] != "ok"
        }
        return findings, {device["device"]: device for device in said["devices"]}

    def falls_back(self, *words: str) -> str:
        """Checks that auto computes on the CPU.

        The plan has one warning, which holds these words, and a run shows it once."""
        plan = self.plan()
        assert plan["engine"] == "cpu" and len(plan["warnings"]) == 1, plan["warnings"]
        warning, = plan["warnings"]
        assert warning.startswith("the CPU computes, not the NVIDIA") and all(
            word in warning for word in words
        ), warning
        said = self.forge("run", self.job())
        assert (
            said.count("the CPU computes") == 1 and (self.folder / "runs/run/report.json").exists()
        ), said
        return warning


def a_card_without_its_engine(machine: Machine):
    new = machine.options.generation
    machine.cards(("NVIDIA Test", new, 80, 79))
    machine.falls_back(
        "forge-engine-cuda13 is not installed", "scripts/setup.sh --cuda && scripts/build.sh"
    )
    for device in ("cuda", "cuda:0"):
        said = machine.refused(device)
        assert (
            f"hardware.device: {device}: NVIDIA Test: "
            "the engine forge-engine-cuda13 is not installed"
            in said
        ), said
        assert "or hardware.device: cpu" in said and "FORGE_ENGINE=ON" not in said, said
    machine.forge("plan", machine.job("cuda"), code=5)
    assert machine.plan("cpu")["warnings"] == []
    assert "forge-engine" not in str(machine.plan("auto", "--gpu", "RTX 4070")["warnings"])
    own, = machine.plan("auto", "--gpu", "0")["warnings"]
    assert own.startswith("planned for the NVIDIA Test, which cannot be used: "), own

    other = {
        "generate": ["generate", "runs/run", "--prompt", "a", "--max-new-tokens", "2"],
        "chat": ["chat", "runs/run", "--max-new-tokens", "2"],
        "eval": ["eval", "runs/run", "--data", "rows.jsonl"],
        "merge": ["merge", "runs/run", "--output", "merged"],
        "bench": ["bench", "run.json", "--steps", "1", "--seconds", "0"],
    }
    machine.job()
    for name, words in other.items():
        said = machine.forge(*words, text="a\n" if name == "chat" else "")
        assert said.count("the CPU computes, not the NVIDIA Test") == 1, (name, said)
        if name == "bench":
            continue  # the job sets its device
        shutil.rmtree(machine.folder / "merged", ignore_errors=True)
        said = machine.forge(*words, "--device", "cuda", code=5)
        assert "--device: cuda: NVIDIA Test: the engine" in said and "or --device cpu" in said, (
            name,
            said,
        )
        shutil.rmtree(machine.folder / "merged", ignore_errors=True)
        assert "the CPU computes" not in machine.forge(
            *words, "--device", "cpu", text="a\n" if name == "chat" else ""
        ), name

    findings, devices = machine.doctor(5)
    state, found, remedy = findings["CUDA engine"]
    assert (
        state == "problem" and "is not installed" in found and "scripts/build.sh" in remedy
    ), findings
    assert (
        devices["cpu"]["usable"]
        and not devices["cuda:0"]["usable"]
        and devices["cuda:0"]["engine"] == "cuda13"
    ), devices


def an_engine_without_its_libraries(machine: Machine):
    lacking = Path(machine.options.stubs) / "door_lacking_engine"
    machine.cards(("NVIDIA Test", machine.options.generation, 80, 79))
    machine.add_engine("forge-engine-cuda13", lacking)
    helps = (
        "libcufile.so.99, libcusparseLt.so.99",
        "scripts/setup.sh --cuda",
        "python3 -m pip install torch==2.11.0",
        "FORGE_TORCH_DIR",
    )
    machine.falls_back(*helps)
    said = machine.refused("cuda")
    assert all(word in said for word in helps) and "hardware.device: cpu" in said, said
    findings, devices = machine.doctor(5)
    assert all(word in " ".join(findings["CUDA engine's libraries"]) for word in helps), findings
    assert not devices["cuda:0"]["usable"], devices
    # The command is for the folder where LibTorch is, or for the environment of that folder.
    remedy = findings["CUDA engine's libraries"][2]
    assert f"torch==2.11.0 --upgrade --target '{Path(machine.options.torch)}'" in remedy, remedy
    packages = machine.folder / "environment/lib/python3.12/site-packages"
    packages.mkdir(parents=True)
    for part in ("torch", "nvidia"):
        (packages / part).symlink_to(Path(machine.options.torch) / part)
    python = machine.folder / "environment/bin/python3"
    python.parent.mkdir()
    python.touch()
    findings, _ = machine.doctor(5, FORGE_TORCH_DIR=str(packages))
    remedy = findings["CUDA engine's libraries"][2]
    assert f"{python} -m pip install torch==2.11.0; or" in remedy, remedy
    # If nothing looked beforehand, the engine's own end reports the library that its loader missed
    # first.
    said = machine.forge("run", machine.job("cpu", "late"), code=5, FORGE_ENGINE=str(lacking))
    assert (
        "libcufile.so.99" in said
        and "pip install torch==2.11.0" in said
        and "the one it was built with" not in said
    ), said


def no_libtorch(machine: Machine):
    """Every engine lacks it, so the card is planned for and the run says it once."""
    machine.cards(("NVIDIA Test", machine.options.generation, 80, 79))
    machine.add_engine("forge-engine-cuda13", FAKE_ENGINE)
    machine.environment["FORGE_TORCH_DIR"] = str(machine.folder)
    plan = machine.plan()
    assert plan["engine"] == "cuda13" and plan["warnings"] == [], plan["warnings"]
    said = machine.refused("auto")
    assert said.count("pip install torch==2.11.0") == 1 and "the CPU computes" not in said, said
    assert "pip install torch==2.11.0" in machine.doctor(5)[0]["LibTorch"][2]


def the_real_engine_without_its_libraries(machine: Machine):
    engine = Path(machine.options.forge).parent / "forge-engine-cuda13"
    if not engine.exists():
        return print("     (not tried: this build has no CUDA engine)")
    machine.cards(("NVIDIA Test", machine.options.generation, 80, 79))
    machine.add_engine("forge-engine-cuda13", engine)
    folder = Path(machine.options.torch)
    paths = [folder / "torch/lib", *sorted(folder.glob("nvidia/*/lib"))]
    ldd = subprocess.run(["ldd", str(engine)], capture_output=True, text=True,
                         env=os.environ | {"LD_LIBRARY_PATH": ":".join(map(str, paths))}).stdout
    missing = re.findall(r"^\s*(\S+) => not found", ldd, re.MULTILINE)
    if not missing:
        return print("     (not tried: this machine has all of CUDA's libraries)")
    machine.falls_back(", ".join(dict.fromkeys(missing)))


def a_driver_that_is_too_old(machine: Machine):
    machine.cards(
        ("NVIDIA Test", machine.options.generation, 80, 79), cuda=12020, driver="535.183.01"
    )
    machine.add_engine("forge-engine-cuda13", FAKE_ENGINE)
    words = (
        "driver 535.183.01 supports CUDA 12.2",
        "needs CUDA 13.0",
        "install NVIDIA driver 580 or newer",
    )
    machine.falls_back(*words)
    said = machine.refused("cuda:0")
    assert all(word in said for word in words) and "or hardware.device: cpu" in said, said
    findings, devices = machine.doctor(5)
    assert (
        findings["GPU"][0] == "problem"
        and words[0] in findings["GPU"][1]
        and words[2] in findings["GPU"][2]
    ), findings
    assert not devices["cuda:0"]["usable"] and devices["cpu"]["usable"], devices
    machine.cards(("NVIDIA Test", machine.options.generation, 80, 79), cuda=13010, driver="590.10")
    assert machine.plan("cuda")["engine"] == "cuda13"


def a_card_that_no_engine_computes_on(machine: Machine):
    machine.cards(("NVIDIA GeForce GTX 1080 Ti", 61, 11, 10))
    machine.add_engine("forge-engine-cuda13", FAKE_ENGINE)
    machine.falls_back("engine for CUDA 12 that Pascal needs is not built yet", "Turing")
    said = machine.refused("cuda")
    assert (
        "not built yet" in said and "hardware.device: cpu" in said and "FORGE_ENGINE" not in said
    ), said
    said = machine.forge("plan", machine.job(), "--gpu", "GTX 1080 Ti")
    assert "tokens/s" not in said and "no engine computes on " in said, said
    assert "tokens/s" in machine.forge("plan", machine.job(), "--gpu", "RTX 4070")
    # The installation has no fault; the devices that it can use are listed all the same.
    findings, devices = machine.doctor(0)
    assert findings["GPU"][0] == "note" and "not built yet" in findings["GPU"][1], findings
    assert devices["cuda:0"]["engine"] is None and not devices["cuda:0"]["usable"], devices
    machine.cards(("NVIDIA Tesla K80", 37, 12, 11))
    assert "3.7" in machine.refused("cuda")
    # The kernels were compiled for earlier generations.
    machine.cards(("NVIDIA Tomorrow", 990, 80, 79))
    said = machine.refused("cuda")
    assert "compute capability is 99.0" in said and "-DFORGE_CUDA_TARGETS=990" in said, said


def several_cards(machine: Machine):
    new = machine.options.generation
    machine.add_engine("forge-engine-cuda13", FAKE_ENGINE)
    machine.cards(*[("NVIDIA Test", new, 80, 70 + (index == 5)) for index in range(8)])
    plan = machine.plan()
    idle, = plan["warnings"]
    assert idle.startswith(
        "8 GPUs are here and forge uses one, cuda:5 (NVIDIA Test); the others stay idle"
    ), idle
    assert plan["job"]["hardware"]["device"] == "cuda:5", plan["job"]["hardware"]
    said = machine.forge("run", machine.job())
    assert said.count("8 GPUs are here") == 1, said
    assert machine.plan("cuda:2")["warnings"] == []
    findings, devices = machine.doctor(0, FAKE_CARDS="8")
    assert findings["idle GPUs"] == ("note", idle, ""), findings
    assert all(devices[f"cuda:{index}"]["usable"] for index in range(8)), devices
    # A card that the driver lists and the engine does not see is a fault.
    findings, devices = machine.doctor(5, FAKE_CARDS="7")
    assert findings["cuda:7"][0] == "problem" and "nvidia-smi" in findings["cuda:7"][2] and [
        d for d in devices if not devices[d]["usable"]
    ] == ["cuda:7"], devices
    # The largest card is skipped if no engine computes on it.
    machine.cards(("NVIDIA GeForce GTX 1080 Ti", 61, 11, 10), ("NVIDIA Test", new, 8, 7))
    assert machine.plan()["job"]["hardware"]["device"] == "cuda:1"
    assert machine.plan("cuda")["job"]["hardware"]["device"] == "cuda:1"


def an_engine_that_is_named_and_not_there(machine: Machine):
    for cards in ((("NVIDIA Test", machine.options.generation, 80, 79),), ()):
        machine.cards(*cards)
        said = machine.refused("auto", FORGE_ENGINE="/nonsense/engine")
        assert (
            "FORGE_ENGINE=/nonsense/engine: there is no such program" in said
            and "unset FORGE_ENGINE" in said
        ), said
        assert "-DFORGE_ENGINE=ON" not in said, said
    assert (
        "FORGE_ENGINE=/nonsense"
        in machine.doctor(5, FORGE_ENGINE="/nonsense/engine")[0]["engine"][1]
    )


def a_driver_that_does_not_work(machine: Machine):
    machine.cards(init=803)
    plan = machine.plan()
    assert plan["engine"] == "cpu" and "restart the machine" in plan["warnings"][0], plan[
        "warnings"
    ]
    assert "restart the machine" in machine.refused("cuda")
    findings, _ = machine.doctor(5)
    assert findings["GPU"][0] == "problem" and "803" in findings["GPU"][1], findings
    machine.cards(
        init=100
    )  # no device: hidden by CUDA_VISIBLE_DEVICES, or a laptop's card that sleeps
    assert machine.plan()["warnings"] == []
    assert machine.doctor(0)[0]["GPU"][0] == "note"


def a_card_of_another_machine(machine: Machine):
    machine.cards()
    machine.add_engine("forge-engine-cuda13", FAKE_ENGINE)
    assert "RTX 4070 is not in this machine" in machine.refused("cuda:RTX 4070")
    machine.forge("plan", machine.job("cuda:RTX 4070"))


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("forge", type=os.path.abspath)
    parser.add_argument(
        "--stubs", required=True, type=os.path.abspath, help="the folder of the stub libraries"
    )
    parser.add_argument("--torch", required=True, help="the folder that holds torch/ and nvidia/")
    parser.add_argument(
        "--generation",
        required=True,
        type=int,
        help="a generation that the CUDA engine is built for: 90 is 9.0",
    )
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    cases = [
        a_card_without_its_engine,
        an_engine_without_its_libraries,
        no_libtorch,
        the_real_engine_without_its_libraries,
        a_driver_that_is_too_old,
        a_card_that_no_engine_computes_on,
        several_cards,
        an_engine_that_is_named_and_not_there,
        a_driver_that_does_not_work,
        a_card_of_another_machine,
    ]
    failed = 0
    for case in cases:
        if options.only not in case.__name__:
            continue
        began = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            try:
                case(Machine(options, Path(folder)))
                print(f"ok   {case.__name__}  {time.monotonic() - began:.1f} s", flush=True)
            except Exception:
                failed += 1
                print(f"FAIL {case.__name__}\n{traceback.format_exc(limit=3)}", flush=True)
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
