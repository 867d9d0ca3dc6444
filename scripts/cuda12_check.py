#!/usr/bin/env python3
"""Compiles the sources of the CUDA engine against LibTorch 2.7.1 and CUDA 12.6, for cards that CUDA
13 dropped (Pascal, Volta).

  scripts/setup.sh --cuda12 && scripts/cuda12_check.py [BUILD] [--only TEXT] [--seconds S]

--seconds takes a sample: the order differs for every commit, and no more sources are begun after
that time.

The sources and their options are those of BUILD's compile_commands.json. They run through the
compiler's front end only, and nothing is linked: LibTorch 2.7.1 for Linux is 820 MB to fetch, so
its headers are taken from the wheel for macOS. NCCL's and cuBLAS's headers are the build's.
scripts/kernel_table.py --nvrtc checks the kernels for those cards.
"""
import argparse, concurrent.futures, hashlib, os, pathlib, re, subprocess, sys, tempfile, time

import compile_commands

ROOT = pathlib.Path(__file__).resolve().parent.parent
CACHE = pathlib.Path(os.environ.get("FORGE_CACHE", pathlib.Path.home() / ".cache/forge")) / "cuda-12.6"
PRECOMPILED = ["ATen/ATen.h", "c10/core/GradMode.h", "torch/csrc/autograd/autograd.h", "torch/csrc/autograd/variable.h",
               "nlohmann/json.hpp"]

# Types of CUDA 13's runtime that cuBLAS's and cuSOLVER's headers name.
NAMED_BY_CUDA_13 = ["cudaEmulationMantissaControl", "cudaEmulationSpecialValuesSupport", "cudaEmulationStrategy"]


def engine_commands(build):
    """Returns {file: words of its compile command} for the engine's files that include LibTorch."""
    commands = {}
    for file, words in compile_commands.read(build).items():
        part = file.relative_to(ROOT).parts[0] if file.is_relative_to(ROOT) else ""
        if part not in ("core", "engine", "kernels", "providers") or not any("/torch/include" in w for w in words):
            continue
        if file.stem.endswith("no_cuda"):
            continue
        commands[file] = words
    return commands


def for_cuda_12(words):
    result, skip = [], 0
    for word in words:
        if skip:
            skip -= 1
        elif word in ("-o", "-c", "-include"):
            skip = 1
        elif word == "-Winvalid-pch":
            continue
        else:
            word = re.sub(r".*/torch/include", str(CACHE / "torch/include"), word)
            if re.search(r"/cuda[^/]*/include$", word):  # the build's headers of NCCL, cuBLAS and others that LibTorch includes stay
                result += [str(CACHE / "nvidia/cuda_runtime/include"), "-isystem"]
            result.append(word)
    return result


def precompile(folder, words):
    macros = folder / "c10/cuda/impl/cuda_cmake_macros.h"  # LibTorch's build writes this file if it has CUDA
    macros.parent.mkdir(parents=True)
    macros.write_text("#pragma once\n#define C10_CUDA_BUILD_SHARED_LIBS\n")
    header = folder / "torch_2_7_1.h"
    newer = "".join(f"enum {name} : int;\ntypedef {name} {name}_t;\n" for name in NAMED_BY_CUDA_13)
    header.write_text(newer + "".join(f"#include <{name}>\n" for name in PRECOMPILED))
    subprocess.run([*words, "-x", "c++-header", header, "-o", f"{header}.gch"], check=True)
    return header


def compile_one(file, words, header):
    own = re.search(r"_cpu\.cpp$", file.name)  # plain loops, compiled without the precompiled header
    done = subprocess.run([*words, *([] if own else ["-include", header]), "-isystem", header.parent, "-fsyntax-only", file], capture_output=True, text=True)
    return file, done.returncode, done.stderr


def in_order_of_the_commit(commands):
    commit = subprocess.run(["git", "-C", ROOT, "rev-parse", "HEAD"], capture_output=True, text=True).stdout.strip()
    return dict(sorted(commands.items(), key=lambda item: hashlib.sha256(f"{commit} {item[0]}".encode()).digest()))


def check_sources(build, only, seconds):
    commands = {file: for_cuda_12(words) for file, words in engine_commands(build).items()}
    runtime = commands.get(ROOT / "kernels/device/runtime_cuda.cpp")
    if not runtime:
        sys.exit(f"{build} has no CUDA engine: configure it with nvcc on PATH")
    commands = {f: w for f, w in commands.items() if only in str(f)}
    if seconds:
        commands = in_order_of_the_commit(commands)
    with tempfile.TemporaryDirectory() as folder:
        header = precompile(pathlib.Path(folder), runtime)
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            until = time.monotonic() + seconds if seconds else float("inf")
            begin = lambda item: compile_one(*item, header) if time.monotonic() < until else None
            done = [result for result in pool.map(begin, commands.items()) if result]
        faults = [f"{file.relative_to(ROOT)}:\n{text}" for file, code, text in done if code]
    print(f"{len(done) - len(faults)} of {len(done)} sources of the engine compile against LibTorch 2.7.1 and CUDA 12.6; there are {len(commands)}")
    return faults


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path, nargs="?", default=ROOT / "build")
    parser.add_argument("--only", default="", help="compile only sources whose path has this text")
    parser.add_argument("--seconds", type=float, help="begin no more sources after this many seconds")
    args = parser.parse_args()
    if not (CACHE / "torch/include/ATen/ATen.h").exists():
        sys.exit(f"{CACHE} holds no headers: scripts/setup.sh --cuda12")
    faults = check_sources(args.build, args.only, args.seconds)
    for fault in faults:
        print(f"error: {fault}", file=sys.stderr)
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
