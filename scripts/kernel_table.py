#!/usr/bin/env python3
"""Checks every CUDA kernel for every target and fails on a warning, a spill, a kernel that is not
listed, or a budget.

  scripts/kernel_table.py                                   all ops, nvcc's targets 75 80 86 89 90 100 120, compiled
  scripts/kernel_table.py --build build                     what that build compiled is read from its objects, the rest compiled
  scripts/kernel_table.py --arch 90 --op rope/rope          a part
  scripts/kernel_table.py --nvrtc FOLDER                    NVRTC 12's targets 60 61 70; FOLDER holds the unpacked wheel
                                                            nvidia-cuda-nvrtc-cu12 (scripts/setup.sh --cuda12)

kernels/<op>/instantiations.txt lists every kernel that a build may contain, and what it may cost; a
kernel too many or too few is a fault:

  op <folder/file>  seconds <of processor time, one target>  kilobytes <cubin>  registers <most>  [stack <bytes a thread>]
    <kernel>        T: float, bf16, fp16.  W: 16 bytes of T, and 1.  a|b: both.

Prints a Markdown table: registers (most), static shared memory (most), stack (most; a spill is
stack beyond what instantiations.txt allows), seconds and cubin bytes. Seconds are processor time.
For an object they are wall time divided by its targets, and 0 if it came out of a cache. The
results of sources that are the same, byte for byte, are kept in ~/.cache/forge/kernel_table (or
$FORGE_CACHE); --fresh compiles them again.
"""
import argparse, ctypes, glob, hashlib, itertools, json, os, pathlib, re, resource, shutil, subprocess, sys, tempfile, time

from cubins import Kernel, cubins_of, kernels_of

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))
from sample import in_sample

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
    lists = sorted((ROOT / "kernels").glob("*/instantiations.txt"))
    for line in itertools.chain.from_iterable(path.read_text().splitlines() for path in lists):
        words = line.split()
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
        for i, c in enumerate(line):  # the name ends at the parameters: the first parenthesis outside <>
            depth += (c == "<") - (c == ">")
            if c == "(" and depth == 0:
                line = line[:i]
                break
        plain.append(re.sub(r"\((?:int|bool)\)", "", line))
    return plain


def compile_nvcc(nvcc, op, arch, cubin):
    """Compiles an op; returns [error or None, {mangled: registers, shared, stack}, seconds, bytes].
    """
    command = [nvcc, "-std=c++20", "-O3", f"-arch=sm_{arch}", "-cubin", "-o", cubin, "-I", ROOT, "-I",
               ROOT / "kernels/device/cuda", "--Werror", "all-warnings", ROOT / f"kernels/{op}.cu"]
    start = child_seconds()
    done = subprocess.run(command, capture_output=True, text=True)
    seconds = child_seconds() - start
    if done.returncode:
        return [f"nvcc failed\n{done.stdout}{done.stderr}", {}, seconds, 0]
    code = cubin.read_bytes()
    return [None, {n: [k.registers, k.shared, k.stack] for n, k in kernels_of(code).items()}, seconds, len(code)]


def build_seconds(build):
    """Returns the wall seconds that each output took when it was last made."""
    lines = (build / ".ninja_log").read_text().splitlines()[1:]
    return {f[3]: (int(f[1]) - int(f[0])) / 1000 for f in (line.split("\t") for line in lines)}


def built(build, op, seconds_of):
    """Returns a build's results for an op: {arch: as compile_nvcc}, or {} if a source is newer.

    The build's warnings are errors, too.
    """
    name = f"kernels_{op.replace('/', '_')}.o"
    path, listed = build / name, build / f"{name}.d"
    if not path.exists() or not listed.exists():
        return {}
    read = [(build / word).resolve() for word in listed.read_text().replace("\\\n", " ").partition(":")[2].split()]
    sources = [s for s in read if s.is_relative_to(ROOT)]
    if not sources or any(not s.exists() or s.stat().st_mtime > path.stat().st_mtime for s in sources):
        return {}
    found = dict(cubins_of(path))
    seconds = seconds_of.get(name, 0) / max(1, len(found))
    return {arch: [None, {n: [k.registers, k.shared, k.stack] for n, k in kernels_of(code).items()}, seconds, len(code)]
            for arch, code in found.items()}


def sources_digest(op, *more):
    """Returns a digest of all of forge's files that a compilation reads, and of `more`."""
    listed = subprocess.run(["g++", "-MM", "-std=c++20", "-x", "c++", "-I", ROOT, "-I", ROOT / "kernels/device/cuda", ROOT / f"kernels/{op}.cu"],
                            capture_output=True, text=True, check=True).stdout
    paths = {pathlib.Path(word).resolve() for word in listed.partition(":")[2].replace("\\\n", " ").split()}
    paths |= {p for p in (ROOT / "kernels/device").rglob("*") if p.is_file()}  # some are included only under nvcc
    digest = hashlib.sha256(pathlib.Path(__file__).read_bytes())
    for text in [*more, *(str(p.relative_to(ROOT)) for p in sorted(paths))]:
        digest.update(f"{text}\0".encode())
    for path in sorted(paths):
        content = path.read_bytes()
        digest.update(len(content).to_bytes(8, "little") + content)
    return digest.hexdigest()


def remembered(key, fresh, make):
    """Returns make()'s result, kept from an earlier call with `key`. Its first element is a fault,
    which is not kept.
    """
    path = pathlib.Path(os.environ.get("FORGE_CACHE") or pathlib.Path.home() / ".cache/forge") / "kernel_table" / key
    if not fresh and path.exists():
        return json.loads(path.read_text())
    made = make()
    if made[0]:
        return made
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(f".{os.getpid()}")
    part.write_text(json.dumps(made))
    part.replace(path)
    return made


def compile_nvrtc(library, op, kernels, arch):
    """Compiles the .cuh; returns [error or None, cubin bytes, seconds]. NVRTC has no host code."""
    start = time.time()
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
    return [text if status or warnings else None, size.value, time.time() - start]


COMMITS = 8  # one in this many commits compiles what its build does not hold (tests/sample.py)
EXTRA_HEADERS = {"optimizer/optimizer": ["optimizer/adamw_8bit.cuh"]}
OWN_TYPES = r"\b(bf16|fp16|Silu|Sigmoid|Identity|SquaredRelu|Clamp|GeluTanh|Gelu|AsStored|Gated|AdamWRule|LionRule)\b"


def in_namespace(kernel):
    return "forge::" + re.sub(OWN_TYPES, r"forge::\1", kernel)


def child_seconds():
    """Returns the processor time of finished children, so that the budget also works on a busy
    machine.
    """
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def row(op, arch, kernels, registers, shared, stack, seconds, size):
    print(f"| {op} | sm_{arch} | {kernels} | {registers} | {shared} | {stack} | {seconds:.1f} | {size} |", flush=True)


def nvcc_table(ops, archs, nvcc, fresh, build):
    faults, version = [], subprocess.run([nvcc, "--version"], capture_output=True, text=True, check=True).stdout
    seconds_of = build_seconds(build) if build else {}
    objects = {op: built(build, op, seconds_of) if build else {} for op in ops}
    count, left = 0, 0
    with tempfile.TemporaryDirectory() as folder:
        cubin = pathlib.Path(folder) / "out.cubin"
        for arch, (op, entry) in itertools.product(archs, ops.items()):
            place = f"{op} sm_{arch}"
            made = objects[op].get(arch)
            if not made and not in_sample(place, COMMITS):
                left += 1
                continue
            count += bool(made)
            if not made or made[2] > entry["seconds"]:  # a busy machine's wall time says little: the compiler runs again for its processor time
                made = remembered(sources_digest(op, version, arch), fresh, lambda: compile_nvcc(nvcc, op, arch, cubin))
            error, found, seconds, size = made
            if error:
                faults.append(f"{place}: {error}")
                continue
            names = dict(zip(demangle(found), (Kernel(*numbers) for numbers in found.values())))
            faults += [f"{place}: {k} is not in the instantiations.txt of its folder" for k in names.keys() - set(entry["kernels"])]
            faults += [f"{place}: {k} of its folder's instantiations.txt is in no launcher" for k in set(entry["kernels"]) - names.keys()]
            stack = entry.get("stack", 0)
            faults += [f"{place}: {k} has {v.stack} bytes of stack, {stack} are allowed: it spills" for k, v in names.items() if v.stack > stack]
            most = [max((v[i] for v in found.values()), default=0) for i in range(3)]
            if most[0] > entry["registers"]:
                faults.append(f"{place}: {most[0]} registers, budget {entry['registers']}")
            if size > entry["kilobytes"] * 1024:
                faults.append(f"{place}: {size} bytes of cubin, budget {entry['kilobytes']} KiB")
            if seconds > entry["seconds"]:
                faults.append(f"{place}: {seconds:.0f} s to compile, budget {entry['seconds']} s")
            row(op, arch, len(found), *most, seconds, size)
    if build:
        print(f"{count} of {len(ops) * len(archs)} read from the objects in {build}, {left} left for another commit")
    return faults


def nvrtc_table(ops, archs, folder, fresh):
    paths = glob.glob(f"{folder}/**/libnvrtc.so.12", recursive=True)
    if not paths:
        sys.exit(f"no libnvrtc.so.12 under {folder}: scripts/setup.sh --cuda12")
    library, faults = ctypes.CDLL(paths[0]), []
    for arch, (op, entry) in itertools.product(archs, ops.items()):
        key = sources_digest(op, paths[0], pathlib.Path(paths[0]).stat().st_size, arch, *entry["kernels"])
        error, size, seconds = remembered(key, fresh, lambda: compile_nvrtc(library, op, entry["kernels"], arch))
        if error:
            faults.append(f"{op} sm_{arch}: {error}")
        else:
            row(op, arch, len(entry["kernels"]), "-", "-", "-", seconds, size)
    return faults


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--arch", type=int, action="append")
    parser.add_argument("--op", action="append")
    parser.add_argument("--nvrtc", metavar="FOLDER")
    parser.add_argument("--nvcc", default=shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc")
    parser.add_argument("--build", type=pathlib.Path, help="a build folder")
    parser.add_argument("--fresh", action="store_true", help="compile everything again")
    args = parser.parse_args()
    ops = {k: v for k, v in read_table().items() if not args.op or k in args.op}
    print("| op | target | kernels | registers | shared bytes | stack bytes | seconds | cubin bytes |")
    print("|---|---|---|---|---|---|---|---|")
    if args.nvrtc:
        faults = nvrtc_table(ops, args.arch or NVRTC_TARGETS, args.nvrtc, args.fresh)
    else:
        faults = nvcc_table(ops, args.arch or NVCC_TARGETS, args.nvcc, args.fresh, args.build)
    for fault in faults:
        print(f"error: {fault}", file=sys.stderr)
    sys.exit(1 if faults else 0)


main()
