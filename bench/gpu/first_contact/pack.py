#!/usr/bin/env python3
"""Packs first contact with a GPU into one file of at most 60 MB: programs, tiny models with the
CPU's numbers, scripts.

    ninja -C build forge forge-engine forge-engine-cuda13 gpu_cases_test
    python3 bench/gpu/first_contact/pack.py --build build --output forge-first-contact.pyz [--cases lora --cases dpo]

Trains the tiny models on this machine's CPU, which takes about a minute. Fails if a program needs a
library other than glibc, libstdc++, libgomp, those of torch's packages, and libsentencepiece, which
is packed. Needs strip, readelf and cmake."""
import argparse
import datetime
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import steps
import tiny

ROOT = Path(__file__).resolve().parents[3]
HERE = Path(__file__).resolve().parent.relative_to(ROOT)
PROGRAMS = ("forge", "forge-engine-cuda13", "gpu_cases_test")
SCRIPTS = ("bench/gpu/measure.py", "bench/gpu/baseline.py", "bench/memory/models.py", "tests/emulator/engine/check_emulated.py",
           "tests/sample.py", "tests/parity/forge_run.py", "tests/parity/fixtures_path.py", "tests/parity/tensors.py", "tests/parity/preference_cases.py",
           "tests/fixtures/variants.py", "tests/fixtures/wide_model.py")
GLIBC = {"libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1", "ld-linux-x86-64.so.2"}
COMPILER = {"libstdc++.so.6", "libgcc_s.so.1", "libgomp.so.1"}
TORCH = {"libtorch_cpu.so", "libtorch_cuda.so", "libc10.so", "libc10_cuda.so", "libcudart.so.13"}
OWN = {"libsentencepiece.so.0"}
MOST_BYTES = 60_000_000


def output_of(*words) -> str:
    return subprocess.run(list(map(str, words)), capture_output=True, text=True, check=True).stdout


def needed(program: Path) -> set[str]:
    return set(re.findall(r"\(NEEDED\).*\[(.*)\]", output_of("readelf", "-d", program)))


def newest(program: Path, prefix: str) -> str:
    versions = re.findall(rf"\b{prefix}_(\d+(?:\.\d+)+)", output_of("readelf", "-V", program))
    return max(versions, key=lambda text: [int(part) for part in text.split(".")], default="")


def library(program: Path, name: str) -> Path:
    found = re.search(rf"{re.escape(name)} => (\S+)", output_of("ldd", program))
    if not found:
        sys.exit(f"{program}: ldd finds no {name}")
    return Path(found[1]).resolve()


def copy_program(source: Path, to: Path) -> None:
    if not source.exists():
        sys.exit(f"{source} is not built: ninja -C {source.parents[1]} {source.name}")
    if strange := needed(source) - GLIBC - COMPILER - TORCH - OWN:
        sys.exit(f"{source} needs {', '.join(sorted(strange))}, which no torch package and no archive brings")
    to.parent.mkdir(parents=True, exist_ok=True)
    output_of("strip", "-o", to, source)
    script = to.with_suffix(".cmake")
    script.write_text(f'file(RPATH_SET FILE "{to}" NEW_RPATH "$ORIGIN/../lib")\n')
    output_of("cmake", "-P", script)
    script.unlink()
    if "$ORIGIN/../lib]" not in output_of("readelf", "-d", to):
        sys.exit(f"{to}: its libraries would be looked for elsewhere than beside it")


def copy(path: Path, stage: Path) -> None:
    to = stage / path.relative_to(ROOT)
    to.parent.mkdir(parents=True, exist_ok=True)
    shutil.copytree(path, to, dirs_exist_ok=True) if path.is_dir() else shutil.copyfile(path, to)


def architectures(build: Path) -> list[str]:
    """Returns the GPU generations for which the programs hold machine code."""
    targets = re.search(r"^FORGE_CUDA_TARGETS:\w+=(.*)$", (build / "CMakeCache.txt").read_text(), re.M)
    return [f"sm_{target}" for target in targets[1].split(";")]


def stage_all(build: Path, stage: Path, cases: list[str]) -> dict:
    programs = {}
    for name in PROGRAMS:
        copy_program(build / "bin" / name, stage / "bin" / name)
        programs[name] = {"glibc": newest(stage / "bin" / name, "GLIBC"), "libstdc++": newest(stage / "bin" / name, "GLIBCXX")}
    (stage / "lib").mkdir()
    output_of("strip", "-o", stage / "lib/libsentencepiece.so.0", library(build / "bin/forge", "libsentencepiece.so.0"))
    for script in [*SCRIPTS, *(HERE / path.name for path in (ROOT / HERE).glob("*.py") if path.name not in ("pack.py", "__main__.py"))]:
        copy(ROOT / script, stage)
    shutil.copyfile(ROOT / HERE / "__main__.py", stage / "__main__.py")
    os.environ.pop("FORGE_ENGINE", None)
    with tempfile.TemporaryDirectory() as scratch:
        for case in cases:
            for path in tiny.files_of(case):
                copy(path, stage)
            tiny.golden(case, str(build / "bin/forge"), stage / "goldens" / case.replace(" ", "-"), Path(scratch) / case.replace(" ", "-"))
    commit = subprocess.run(["git", "-C", ROOT, "describe", "--always", "--dirty"], capture_output=True, text=True).stdout.strip()
    about = {"commit": commit, "packed": datetime.date.today().isoformat(), "programs": programs, "goldens": cases,
             "architectures": architectures(build)}
    (stage / "kit.json").write_text(json.dumps(about, indent=1))
    return about


def archive(stage: Path, output: Path) -> None:
    with zipfile.ZipFile(output, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as file:
        for path in sorted(p for p in stage.rglob("*") if p.is_file() and "__pycache__" not in p.parts):
            # Python reads __main__.py from the archive; files that it unpacks may be compressed
            # more.
            kind = zipfile.ZIP_LZMA if path.parent.name in ("bin", "lib") else zipfile.ZIP_DEFLATED
            file.write(path, path.relative_to(stage), compress_type=kind)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build", type=Path)
    parser.add_argument("--output", default="forge-first-contact.pyz", type=Path)
    parser.add_argument("--cases", action="append", help="only these tiny cases (default: all)")
    options = parser.parse_args()
    cases = options.cases or [*steps.FIRST_TINY, *steps.MORE_TINY]
    with tempfile.TemporaryDirectory() as folder:
        about = stage_all(options.build.resolve(), Path(folder), cases)
        archive(Path(folder), options.output)
    size = options.output.stat().st_size
    print(f"{options.output}: {size / 1e6:.1f} MB, commit {about['commit']}, {', '.join(about['architectures'])}; "
          f"needs glibc {max((p['glibc'] for p in about['programs'].values()), key=lambda v: [int(x) for x in v.split('.')])}, torch 2.11.0+cu130")
    if size > MOST_BYTES:
        sys.exit(f"more than {MOST_BYTES / 1e6:.0f} MB")


if __name__ == "__main__":
    main()
