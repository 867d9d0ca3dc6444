#!/usr/bin/env python3
"""Reads from a tree's binaries what a machine must have to start them, and refuses what a package
may not hold.

    packaging/floors.py TREE         prints the floors and the wheel's platform tag; exit 1 lists what is wrong

A binary may need at most the symbols of glibc 2.34 and libstdc++ 11 (RHEL 9, Ubuntu 22.04, Debian
12, Fedora 35). It may need the libraries listed below or beside it, finds them by $ORIGIN alone,
and holds no debug symbols. A newer symbol comes from code that can mostly be written in another way
(core/lib/base/wait.h), or from a newer build machine: packages are made on Debian 12.
"""
import os
import re
import subprocess
import sys

HIGHEST = {"GLIBC": "2.34", "GLIBCXX": "3.4.29"}
# auditwheel's policies: the highest version that each allows of the symbol sets below.
POLICIES = [
    ("manylinux_2_28", {"GLIBC": "2.28", "GLIBCXX": "3.4.24", "CXXABI": "1.3.11", "GCC": "7.0.0"}),
    ("manylinux_2_31", {"GLIBC": "2.31", "GLIBCXX": "3.4.28", "CXXABI": "1.3.12", "GCC": "7.0.0"}),
    ("manylinux_2_34", {"GLIBC": "2.34", "GLIBCXX": "3.4.29", "CXXABI": "1.3.13", "GCC": "7.0.0"}),
    ("manylinux_2_35", {"GLIBC": "2.35", "GLIBCXX": "3.4.30", "CXXABI": "1.3.13", "GCC": "12.0.0"}),
]
# Libraries from outside the tree: on every machine; of LibTorch's packages; of the machine, if a
# component is used.
SYSTEM = {"ld-linux-x86-64.so.2", "libc.so.6", "libdl.so.2", "libgcc_s.so.1", "libm.so.6", "libpthread.so.0", "libresolv.so.2",
          "librt.so.1", "libstdc++.so.6"}
TORCH = {"libc10.so", "libgomp.so.1", "libtorch_cpu.so"}
OUTSIDE = {
    "forge-engine": TORCH,
    "forge-engine-cuda13": TORCH | {"libc10_cuda.so", "libcudart.so.13", "libtorch_cuda.so"},
    "libforge-http.so": {"libcrypto.so.3", "libcurl.so.4"},
    "libforge-parquet.so": {"libarrow.so.2600", "libparquet.so.2600"},
}


def number(version):
    return tuple(int(part) for part in version.split("."))


def is_elf(path):
    with open(path, "rb") as file:
        return file.read(4) == b"\x7fELF"


def binaries(tree):
    for folder, _, names in os.walk(tree):
        for name in sorted(names):
            path = os.path.join(folder, name)
            if not os.path.islink(path) and is_elf(path):
                yield path


def readelf(*arguments):
    return subprocess.run(["readelf", "-W", *arguments], capture_output=True, text=True, check=True, env={**os.environ, "LC_ALL": "C"}).stdout


def versions(path):
    """Returns the highest version of each name (GLIBC, GLIBCXX …) that `path` needs."""
    needs = readelf("-V", path).partition("Version needs section")[2]
    highest = {}
    for name, version in re.findall(r"Name: (GLIBC|GLIBCXX|CXXABI|GCC)_([0-9.]+)", needs):
        highest[name] = max(highest.get(name, "0"), version, key=number)
    return highest


def floors(tree):
    """Returns the highest versions that all binaries of `tree` need."""
    highest = {}
    for path in binaries(tree):
        for name, version in versions(path).items():
            highest[name] = max(highest.get(name, "0"), version, key=number)
    return highest


def platform_tag(floor):
    """Returns the oldest policy that allows `floor`; None if none does."""
    for name, limits in POLICIES:
        if all(number(version) <= number(limits[key]) for key, version in floor.items()):
            return f"{name}_x86_64"
    return None


def faults(path, own):
    """Returns the faults of the binary `path`, in words. `own` has the names of the tree's
    libraries.
    """
    name = os.path.basename(path)
    for key, version in versions(path).items():
        if key in HIGHEST and number(version) > number(HIGHEST[key]):
            yield f"{name}: needs {key}_{version}, expected at most {key}_{HIGHEST[key]}"
    dynamic = readelf("-d", path)
    for library in re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic):
        if library not in SYSTEM | OUTSIDE.get(name, set()) | own:
            yield f"{name}: needs {library}, which is neither in the package nor allowed from outside"
    for run_path in re.findall(r"\((?:RUNPATH|RPATH)\).*\[(.*)\]", dynamic):
        if any(not part.startswith("$ORIGIN") for part in run_path.split(":")):
            yield f"{name}: looks for libraries in {run_path}, expected $ORIGIN alone"
    if re.search(r" \.(symtab|debug_\w+) ", readelf("-S", path)):
        yield f"{name}: is not stripped"


def main():
    tree = sys.argv[1]
    paths = list(binaries(tree))
    own = {os.path.basename(path) for path in paths}
    wrong = [fault for path in paths for fault in faults(path, own)]
    if not paths:
        wrong.append(f"{tree}: holds no binaries")
    if wrong:
        sys.exit("\n".join(wrong))
    floor = floors(tree)
    print(f"needs glibc {floor['GLIBC']} and libstdc++ with GLIBCXX_{floor['GLIBCXX']} or later: {platform_tag(floor)}")


if __name__ == "__main__":
    main()
