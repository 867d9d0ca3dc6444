#!/usr/bin/env python3
"""Measures the memory of a merge or an export, on a model of any size in a sparse file of zeros,
which takes no room on the disk.

    python3 tests/export/merge_memory.py build/bin/forge [--layers 32 --hidden 4096 --intermediate 14336 --vocab 128256] [--rank 16]
                                         [--folder DIR] [--limit-gib 3] [-- merge --dtype bf16]

The default shape is Llama 3 8B's. Prints the time and the peak of resident memory, in which /proc
counts mapped files too. Exits 1 above the limit. Removes the result.
"""
import argparse
import json
import os
import resource
import shutil
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def header_of(shapes: dict, dtype: str, size: int) -> tuple[bytes, int]:
    header, offset = {"__metadata__": {"format": "pt"}}, 0
    for name, shape in shapes.items():
        count = size
        for dimension in shape:
            count *= dimension
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [offset, offset + count]}
        offset += count
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text, offset


def write_sparse(path: Path, shapes: dict, dtype: str, size: int) -> int:
    head, data = header_of(shapes, dtype, size)
    with open(path, "wb") as file:
        file.write(head)
        file.truncate(len(head) + data)
    return data


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("forge")
    for name, value in {"layers": 32, "hidden": 4096, "intermediate": 14336, "vocab": 128256, "heads": 32, "kv-heads": 8, "rank": 16}.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--folder", default=None)
    parser.add_argument("--limit-gib", type=float, default=3)
    parser.add_argument("command", nargs="*", default=["merge", "--dtype", "bf16"])
    a = parser.parse_args()
    kv = a.hidden // a.heads * a.kv_heads
    linears = {"self_attn.q_proj": (a.hidden, a.hidden), "self_attn.k_proj": (kv, a.hidden), "self_attn.v_proj": (kv, a.hidden),
               "self_attn.o_proj": (a.hidden, a.hidden), "mlp.gate_proj": (a.intermediate, a.hidden),
               "mlp.up_proj": (a.intermediate, a.hidden), "mlp.down_proj": (a.hidden, a.intermediate)}
    base, adapter = {"model.embed_tokens.weight": [a.vocab, a.hidden]}, {}
    for layer in range(a.layers):
        for name, (rows, columns) in linears.items():
            module = f"model.layers.{layer}.{name}"
            base[module + ".weight"] = [rows, columns]
            adapter[f"base_model.model.{module}.lora_A.weight"] = [a.rank, columns]
            adapter[f"base_model.model.{module}.lora_B.weight"] = [rows, a.rank]
        for name in ("input_layernorm", "post_attention_layernorm"):
            base[f"model.layers.{layer}.{name}.weight"] = [a.hidden]
    base |= {"model.norm.weight": [a.hidden], "lm_head.weight": [a.vocab, a.hidden]}
    folder = Path(tempfile.mkdtemp(prefix="forge-merge-", dir=a.folder))
    try:
        model = folder / "model"
        shutil.copytree(ROOT / "tests/fixtures/tiny-llama", model)
        config = json.loads((model / "config.json").read_text()) | {
            "hidden_size": a.hidden, "intermediate_size": a.intermediate, "num_hidden_layers": a.layers, "vocab_size": a.vocab,
            "num_attention_heads": a.heads, "num_key_value_heads": a.kv_heads, "head_dim": a.hidden // a.heads}
        (model / "config.json").write_text(json.dumps(config))
        size = write_sparse(model / "model.safetensors", base, "BF16", 2)
        (folder / "adapter").mkdir()
        write_sparse(folder / "adapter/adapter_model.safetensors", adapter, "F32", 4)
        (folder / "adapter/adapter_config.json").write_text(json.dumps(
            {"peft_type": "LORA", "r": a.rank, "lora_alpha": 32, "target_modules": "all-linear"}))
        start = time.monotonic()
        subprocess.run([a.forge, *a.command, "--model", model, "--adapter", folder / "adapter", "--output", folder / "out",
                        "--no-check", "--quiet"], check=True)
        seconds = time.monotonic() - start
        peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
        print(f"base {size / 1e9:.1f} GB, peak {peak / 2**30:.2f} GiB, {seconds:.0f} s on {os.cpu_count()} cores: {' '.join(a.command)}")
        return peak > a.limit_gib * 2**30
    finally:
        shutil.rmtree(folder, ignore_errors=True)


sys.exit(main())
