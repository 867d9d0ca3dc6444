#!/usr/bin/env python3
"""Compiles every CUDA kernel for every target and fails on a warning, a spill, a kernel that is not listed, or a budget.

  scripts/kernel_table.py                                   all ops, nvcc's targets 75 80 86 89 90 100 120
  scripts/kernel_table.py --arch 90 --op rope/rope          a part
  scripts/kernel_table.py --nvrtc FOLDER                    NVRTC 12's targets 60 61 70; FOLDER holds the unpacked wheel
                                                            nvidia-cuda-nvrtc-cu12 (scripts/setup.sh --cuda12)

Prints a Markdown table: registers (most), static shared memory (most), spills, seconds, cubin bytes.
"""
import argparse, ctypes, glob, itertools, pathlib, re, resource, shutil, subprocess, sys, tempfile, time

ROOT = pathlib.Path(__file__).resolve().parent.parent
NVCC_TARGETS, NVRTC_TARGETS = [75, 80, 86, 89, 90, 100, 120], [60, 61, 70]
WIDEST = {"float": 4, "bf16": 8, "fp16": 8}


def expand(kernel):
    name, _, arguments = kernel.partition("<")
    if not arguments:
        return [name]
    choices = [a.strip().split("|") for a in arguments.rstrip(">").split(",")]
    result = []
    for element in WIDEST if ["T"] in choices else [None]:
        lists = [[element] if c == ["T"] else [str(WIDEST[element]), "1"] if c == ["W"] else c for c in choices]
        result += [f"{name}<{', '.join(pick)}>" for pick in itertools.product(*lists)]
    return result


def read_table():
    ops = {}
    for line in (ROOT / "kernels/instantiations.txt").read_text().splitlines():
        words = line.split()
        if not words or line.startswith("#"):
            continue
        if words[0] == "op":
            kernels = []
            ops[words[1]] = {"kernels": kernels, **{k: int(v) for k, v in zip(words[2::2], words[3::2])}}
        else:
            kernels += expand(line.strip())
    return ops


def demangle(names):
    text = subprocess.run(["c++filt"], input="\n".join(names), capture_output=True, text=True, check=True).stdout
    plain = []
    for line in text.splitlines():
        line = line.replace("forge::", "").removeprefix("void ")
        depth = 0
        for i, c in enumerate(line):  # up to the parameters: the first parenthesis outside <>
            depth += (c == "<") - (c == ">")
            if c == "(" and depth == 0:
                line = line[:i]
                break
        plain.append(re.sub(r"\((?:int|bool)\)", "", line))
    return plain


def parse_ptxas(text):
    """Output of ptxas -v → {mangled: (registers, shared, spills)}"""
    kernels, name, spills = {}, None, 0
    for line in text.splitlines():
        if m := re.search(r"Compiling entry function '(\w+)'", line):
            name, spills = m[1], 0
        elif m := re.search(r"(\d+) bytes spill stores, (\d+) bytes spill loads", line):
            spills = int(m[1]) + int(m[2])
        elif (m := re.search(r"Used (\d+) registers", line)) and name:
            shared = re.search(r"(\d+) bytes smem", line)
            kernels[name] = (int(m[1]), int(shared[1]) if shared else 0, spills)
            name = None
    return kernels


def compile_nvcc(nvcc, op, arch, cubin):
    command = [nvcc, "-std=c++20", "-O3", f"-arch=sm_{arch}", "-cubin", "-o", cubin, "-I", ROOT, "-I",
               ROOT / "kernels/device/cuda", "--Werror", "all-warnings", "-Xptxas", "-v", ROOT / f"kernels/{op}.cu"]
    done = subprocess.run(command, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def compile_nvrtc(library, op, kernels, arch):
    """→ (error or None, cubin bytes). Only the .cuh: NVRTC has no host code."""
    check = lambda status: status and sys.exit(f"NVRTC call failed with status {status}")
    program, headers = ctypes.c_void_p(), [f"kernels/{op}.cuh"]
    headers += [f"kernels/{p}" for p in EXTRA_HEADERS.get(op, [])]
    source = "".join(f'#include "{h}"\n' for h in headers).encode()
    check(library.nvrtcCreateProgram(ctypes.byref(program), source, b"forge.cu", 0, None, None))
    for kernel in kernels:
        check(library.nvrtcAddNameExpression(program, in_namespace(kernel).encode()))
    options = [f"--gpu-architecture=sm_{arch}", "--std=c++20", f"-I{ROOT}", f"-I{ROOT}/kernels/device/cuda"]
    array = (ctypes.c_char_p * len(options))(*[o.encode() for o in options])
    status = library.nvrtcCompileProgram(program, len(options), array)
    size = ctypes.c_size_t()
    check(library.nvrtcGetProgramLogSize(program, ctypes.byref(size)))
    log = ctypes.create_string_buffer(size.value)
    check(library.nvrtcGetProgramLog(program, log))
    text = log.value.decode().strip()
    if status == 0:
        check(library.nvrtcGetCUBINSize(program, ctypes.byref(size)))
    library.nvrtcDestroyProgram(ctypes.byref(program))
    # NVRTC 12 reports each of these targets as deprecated.
    warnings = [l for l in text.splitlines() if "warning" in l and "are deprecated" not in l]
    return (text if status or warnings else None), size.value


EXTRA_HEADERS = {"optimizer/optimizer": ["optimizer/adamw_8bit.cuh"]}
OWN_TYPES = r"\b(bf16|fp16|Silu|GeluTanh|Gelu|AsStored|Gated|AdamWRule|LionRule)\b"


def in_namespace(kernel):
    return "forge::" + re.sub(OWN_TYPES, r"forge::\1", kernel)


def child_seconds():
    """Processor time of finished children, so that the budget also works on a busy machine."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def row(op, arch, kernels, registers, shared, spills, seconds, size):
    print(f"| {op} | sm_{arch} | {kernels} | {registers} | {shared} | {spills} | {seconds:.1f} | {size} |", flush=True)


def nvcc_table(ops, archs, nvcc):
    faults = []
    with tempfile.TemporaryDirectory() as folder:
        cubin = pathlib.Path(folder) / "out.cubin"
        for arch, (op, entry) in itertools.product(archs, ops.items()):
            start = child_seconds()
            code, text = compile_nvcc(nvcc, op, arch, cubin)
            seconds = child_seconds() - start
            place = f"{op} sm_{arch}"
            if code:
                faults.append(f"{place}: nvcc failed\n{text}")
                continue
            found = parse_ptxas(text)
            names = dict(zip(demangle(found), found.values()))
            faults += [f"{place}: {k} is not in kernels/instantiations.txt" for k in names.keys() - set(entry["kernels"])]
            faults += [f"{place}: {k} of kernels/instantiations.txt is in no launcher" for k in set(entry["kernels"]) - names.keys()]
            faults += [f"{place}: {k} spills {v[2]} bytes" for k, v in names.items() if v[2]]
            most = [max((v[i] for v in found.values()), default=0) for i in range(3)]
            size = cubin.stat().st_size
            if most[0] > entry["registers"]:
                faults.append(f"{place}: {most[0]} registers, budget {entry['registers']}")
            if size > entry["kilobytes"] * 1024:
                faults.append(f"{place}: {size} bytes of cubin, budget {entry['kilobytes']} KiB")
            if seconds > entry["seconds"]:
                faults.append(f"{place}: {seconds:.0f} s to compile, budget {entry['seconds']} s")
            row(op, arch, len(found), most[0], most[1], sum(v[2] for v in found.values()), seconds, size)
    return faults


def nvrtc_table(ops, archs, folder):
    paths = glob.glob(f"{folder}/**/libnvrtc.so.12", recursive=True)
    if not paths:
        sys.exit(f"no libnvrtc.so.12 under {folder}: scripts/setup.sh --cuda12")
    library, faults = ctypes.CDLL(paths[0]), []
    for arch, (op, entry) in itertools.product(archs, ops.items()):
        start = time.time()
        error, size = compile_nvrtc(library, op, entry["kernels"], arch)
        if error:
            faults.append(f"{op} sm_{arch}: {error}")
        else:
            row(op, arch, len(entry["kernels"]), "-", "-", "-", time.time() - start, size)
    return faults


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--arch", type=int, action="append")
    parser.add_argument("--op", action="append")
    parser.add_argument("--nvrtc", metavar="FOLDER")
    parser.add_argument("--nvcc", default=shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc")
    args = parser.parse_args()
    ops = {k: v for k, v in read_table().items() if not args.op or k in args.op}
    print("| op | target | kernels | registers | shared bytes | spilled bytes | seconds | cubin bytes |")
    print("|---|---|---|---|---|---|---|---|")
    if args.nvrtc:
        faults = nvrtc_table(ops, args.arch or NVRTC_TARGETS, args.nvrtc)
    else:
        faults = nvcc_table(ops, args.arch or NVCC_TARGETS, args.nvcc)
    for fault in faults:
        print(f"error: {fault}", file=sys.stderr)
    sys.exit(1 if faults else 0)


main()
