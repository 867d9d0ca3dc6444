"""Runs llama-cpp-python's own Python code over another build of llama.cpp, for machines that cannot
build its library.

    environment = binding(Path("llama_cpp_python-0.3.36"), "libllama.so", folder)     # what a snippet runs with

The package's folder is its source distribution, unpacked (pip download --no-deps --no-binary :all:
llama-cpp-python). Functions that the library does not export, such as the quantiser of some
bindings, end the process when they are called.
"""
import os
import re
import subprocess
from pathlib import Path


def exported(library: str) -> set[str]:
    table = subprocess.run(["nm", "-D", "--defined-only", library], capture_output=True, text=True, check=True).stdout
    return {line.split()[-1] for line in table.splitlines()}


def binding(package: Path, library: str, folder: Path) -> dict:
    folder.mkdir()
    wanted = set()
    for name in ("llama_cpp.py", "_ggml.py", "mtmd_cpp.py"):
        wanted |= set(re.findall(r'"((?:llama|ggml|mtmd)_[a-z0-9_]+)"', (package / "llama_cpp" / name).read_text()))
    missing = sorted(wanted - exported(library))
    (folder / "missing.c").write_text("".join(f"void {name}(void) {{ __builtin_trap(); }}\n" for name in missing))
    os.symlink(os.path.abspath(library), folder / "libforeign.so")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", folder / "libllama.so", folder / "missing.c", "-Wl,--no-as-needed", f"-L{folder}",
                    "-lforeign", f"-Wl,-rpath,{folder}"], check=True)
    for name in ("ggml", "ggml-base", "ggml-cpu", "mtmd"):
        os.symlink("libllama.so", folder / f"lib{name}.so")
    return os.environ | {"LLAMA_CPP_LIB_PATH": str(folder), "PYTHONPATH": f"{package.resolve()}:{os.environ.get('PYTHONPATH', '')}"}
