#!/usr/bin/env python3
"""Packs first contact from the build, unpacks it in an empty folder and rehearses a short part of
it without a GPU.

    python3 bench/gpu/first_contact/rehearsal_test.py BUILD LIBRARY TORCH_FOLDER [--whole OUTPUT]

LIBRARY stands in for a GPU (tests/hollow). --whole runs all three calls instead and keeps their
results in OUTPUT, which takes many minutes. Standard library only."""
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
SHORT = ("engine", "tiny *", "cases gated", "planted*")


def pack(build: Path, output: Path, *cases: str) -> None:
    words = [word for case in cases for word in ("--cases", case)]
    done = subprocess.run([sys.executable, HERE / "pack.py", "--build", build, "--output", output, *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    print(done.stdout, end="")
    assert output.stat().st_size <= 60_000_000, output.stat().st_size


def call(kit: Path, folder: Path, torch: Path, *words: str) -> tuple[int, str]:
    """Runs the kit with an environment that only says where torch is."""
    env = {"PATH": "/usr/bin:/bin", "HOME": str(folder), "TMPDIR": str(folder), "FORGE_TORCH_DIR": str(torch), "LC_ALL": "C.UTF-8",
           "FORGE_HOLLOW_REPORT": str(folder / "hollow.jsonl")}
    done = subprocess.run([sys.executable, kit, *map(str, words)], cwd=folder, env=env, capture_output=True, text=True)
    print(done.stdout + done.stderr, end="", flush=True)
    return done.returncode, done.stdout + done.stderr


def events(output: Path, kind: str) -> list[dict]:
    found = [json.loads(line) for line in (output / "results.jsonl").read_text().splitlines()]
    return [event for event in found if event["event"] == kind]


def found_elsewhere(folder: Path, torch: Path) -> list[str]:
    """Returns libraries of the kit's programs found outside torch's packages, the kit and the C and
    C++ runtimes.
    """
    libraries = ":".join(map(str, [torch / "torch/lib", *sorted(torch.glob("nvidia/*/lib"))]))
    allowed = re.compile(r"^(lib(c|m|dl|pthread|rt|stdc\+\+|gcc_s|gomp|util)\.so|/lib64/ld-linux|linux-vdso|ld-linux)")
    strange = []
    for program in folder.glob("forge-first-contact-*/bin/*"):
        done = subprocess.run(["ldd", program], env={"PATH": "/usr/bin:/bin", "LD_LIBRARY_PATH": libraries}, capture_output=True, text=True)
        for line in done.stdout.splitlines():
            name, _, path = line.strip().partition(" => ")
            # Torch's own libraries need others, which its other packages provide.
            mine = name in subprocess.run(["readelf", "-d", program], capture_output=True, text=True).stdout
            if mine and not allowed.match(name) and not path.startswith((str(folder), str(torch))):
                strange.append(f"{program.name}: {line.strip()}")
    return strange


def judged(build: Path, folder: Path, torch: Path) -> None:
    """Checks that real numbers are within the limits of the kit's goldens and other goldens are
    refused.

    The numbers are the emulated engine's. For objectives whose head LibTorch computes, which that
    engine does not run, they are the CPU's own."""
    kit = next(folder.glob("forge-first-contact-*/kit.json")).parent
    emulated, cpu = ("cuda:RTX 4070", "forge-engine-emulated"), ("cpu", "forge-engine")

    def check(case: str, device: str, engine: str) -> subprocess.CompletedProcess:
        env = {"PATH": "/usr/bin:/bin", "FORGE_TORCH_DIR": str(torch), "FORGE_KIT_WORK": str(folder / "judged"), "FORGE_KIT_DEVICE": device,
               "FORGE_ENGINE": str(build / "bin" / engine)}
        return subprocess.run([sys.executable, kit / "bench/gpu/first_contact/tiny.py", case], env=env, capture_output=True, text=True)

    for case, on in (("lora", emulated), ("full bf16", emulated), ("dpo", cpu), ("grpo", cpu)):
        done = check(case, *on)
        checks = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"check"')]
        assert done.returncode == 0 and len(checks) >= 3 and all(one["ok"] for one in checks), (case, done.stdout, done.stderr)
        print(f"{case} by {on[1]}: " + ", ".join(f"{one['check']} {one['value']:.1e} (limit {one['limit']:.1e})" for one in checks))
    metrics = kit / "goldens/lora/metrics.jsonl"
    lines = [json.loads(line) for line in metrics.read_text().splitlines()]
    metrics.write_text("".join(json.dumps(line | ({"loss": line["loss"] * 1.001} if line["event"] == "step" else {})) + "\n" for line in lines))
    done = check("lora", *emulated)
    assert done.returncode == 1 and re.search(r"^loss: 0.000999, at most 1e-06 was expected", done.stderr, re.M), (done.stdout, done.stderr)


def short(build: Path, library: Path, torch: Path) -> None:
    with tempfile.TemporaryDirectory() as temporary:
        folder, kit = Path(temporary) / "empty", Path(temporary) / "kit.pyz"
        folder.mkdir()
        pack(build, kit)
        only = [word for name in SHORT for word in ("--only", name)]
        words = ("--output", folder / "out", "--rehearse", library, "--plant", *only)
        begin = time.monotonic()
        code, said = call(kit, folder, torch, *words)
        steps = {event["step"]: event for event in events(folder / "out", "step")}
        assert code == 1, code
        assert steps["planted failure"]["status"] == "failed" and "planted: a step that fails" in steps["planted failure"]["says"], steps
        assert "planted: a step that fails" in said and re.search(r"^too long +\d+\.\d  planted hang$", said, re.M), said
        assert steps["planted hang"]["status"] == "too long" and 3 <= steps["planted hang"]["seconds"] < 10, steps
        assert steps["planted lack"] | {"event": ""} == {"event": "", "step": "planted lack", "status": "missing", "says": "no-such-program is not here"}
        ran = [name for name in steps if not name.startswith("planted")]
        assert len(ran) == 9, steps.keys()
        for name in ran:
            assert steps[name]["status"] == "done", steps[name]
        for name in ("tiny lora", "tiny full bf16", "tiny dpo"):
            checks = [event for event in events(folder / "out", "figure") if event["step"] == name and "check" in event]
            assert {check["check"] for check in checks} == {"loss", "gradient norm", "change"} and all(check["ok"] is None for check in checks), checks
        assert not found_elsewhere(folder, torch), found_elsewhere(folder, torch)
        reports = [json.loads(line) for line in (folder / "hollow.jsonl").read_text().splitlines()]
        assert sum(len(report["violations"]) for report in reports) == 0 and any(report["graphs"] for report in reports), reports
        lines = len(events(folder / "out", "figure"))
        code, said = call(kit, folder, torch, *words, "--only", "no such step")
        assert said.count("done before") == len(ran) + 1 and len(events(folder / "out", "figure")) == lines, said  # the figures' lines, and the summary
        code, said = call(kit, folder, torch, "--output", folder / "other", "--done", folder / "out/results.jsonl", "--budget", "5", "--only", "engine",
                          "--only", "weights smollm2", "--rehearse", library)
        assert code == 1 and "done before" in said and re.search(r"^left .* weights smollm2$", said, re.M), said
        code, said = call(kit, folder, torch, "--output", folder / "ops", "--call", 2, "--only", "weights smollm2", "--only", "ops smollm2*", "--rehearse", library)
        figures = events(folder / "ops", "figure")
        assert code == 0 and any(figure.get("ops_clock") == "device" for figure in figures), said
        assert any(figure.get("check") == "shares of ops, less 1" and figure["ok"] for figure in figures), figures
        judged(build, folder, torch)
        print(f"rehearsed in {time.monotonic() - begin:.0f} s")


def whole(build: Path, library: Path, torch: Path, output: Path) -> None:
    with tempfile.TemporaryDirectory() as temporary:
        kit = output / "forge-first-contact.pyz"
        output.mkdir(parents=True, exist_ok=True)
        pack(build, kit)
        for number in (1, 2, 3):
            print(f"\ncall {number}")
            call(kit, Path(temporary), torch, "--call", number, "--output", output / f"call-{number}", "--rehearse", library)


if __name__ == "__main__":
    build, library, torch = (Path(word).resolve() for word in sys.argv[1:4])
    whole(build, library, torch, Path(sys.argv[5]).resolve()) if sys.argv[4:5] == ["--whole"] else short(build, library, torch)
