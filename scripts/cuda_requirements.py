#!/usr/bin/env python3
"""Prints scripts/requirements-cuda.txt: NVIDIA's wheels that torch's metadata requires on Linux,
and the compiler of the same toolkit.

    scripts/cuda_requirements.py > scripts/requirements-cuda.txt

Versions and hashes are as pip resolves them. Needs PyPI; downloads no wheel.
"""
import json
import subprocess
import sys

TORCH = "torch==2.11.0"
TOOLKIT = "cuda-toolkit[nvcc,crt,nvvm,cccl]==13.0.2"  # the toolkit that torch's metadata names
COMPILER = {"nvidia-cuda-nvcc", "nvidia-cuda-crt", "nvidia-nvvm", "nvidia-cuda-cccl"}

command = [sys.executable, "-m", "pip", "install", "--dry-run", "--quiet", "--ignore-installed",
           "--only-binary=:all:", "--report", "-", TORCH, TOOLKIT]
report = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
wheels = {}
for item in report["install"]:
    name, digest = item["metadata"]["name"], item["download_info"]["archive_info"]["hashes"]["sha256"]
    wheels[name] = f"{name}=={item['metadata']['version']} --hash=sha256:{digest}"
libraries = sorted(n for n in wheels if n.startswith("nvidia-") and n not in COMPILER)
print("# Written by scripts/cuda_requirements.py: what the CUDA engine loads, as torch's metadata asks for it.")
print("\n".join(wheels[name] for name in libraries))
print("# nvcc 13 and its headers, for machines without.")
print("\n".join(wheels[name] for name in sorted(COMPILER)))
