"""Helpers of the learnable tasks: a small random Llama over single characters, and runs of forge.
Standard library only.
"""
import json
import random
import struct
import subprocess
from pathlib import Path

SPECIAL = ["<pad>", "<bos>", "<eos>"]


def write_model(folder: Path, characters: str, seed: int, layers: int, width: int, inner: int, heads: int) -> None:
    folder.mkdir(parents=True)
    tokens = [*SPECIAL, *characters]
    vocab = {text: i for i, text in enumerate(tokens)}
    special = [{"id": i, "content": text, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
               for i, text in enumerate(SPECIAL)]
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    (folder / "tokenizer.json").write_text(json.dumps({
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": special, "normalizer": None, "pre_tokenizer": level,
        "post_processor": None, "decoder": level,
        "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None, "end_of_word_suffix": None,
                  "fuse_unk": False, "byte_fallback": False, "ignore_merges": False, "vocab": vocab, "merges": []}}))
    (folder / "tokenizer_config.json").write_text(json.dumps({
        "bos_token": "<bos>", "eos_token": "<eos>", "pad_token": "<pad>", "model_max_length": 64,
        "tokenizer_class": "PreTrainedTokenizerFast"}))
    (folder / "config.json").write_text(json.dumps({
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": width, "intermediate_size": inner,
        "num_hidden_layers": layers, "num_attention_heads": heads, "num_key_value_heads": heads, "head_dim": width // heads,
        "vocab_size": len(tokens), "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
        "hidden_act": "silu", "tie_word_embeddings": False, "bos_token_id": 1, "eos_token_id": 2, "dtype": "float32",
        "attention_bias": False, "mlp_bias": False}))
    shapes = {"model.embed_tokens.weight": (len(tokens), width), "lm_head.weight": (len(tokens), width), "model.norm.weight": (width,)}
    for i in range(layers):
        at = f"model.layers.{i}."
        shapes |= {at + f"self_attn.{n}_proj.weight": (width, width) for n in "qkvo"}
        shapes |= {at + "mlp.gate_proj.weight": (inner, width), at + "mlp.up_proj.weight": (inner, width),
                   at + "mlp.down_proj.weight": (width, inner), at + "input_layernorm.weight": (width,),
                   at + "post_attention_layernorm.weight": (width,)}
    draw = random.Random(seed)
    header, body = {}, b""
    for name, shape in shapes.items():
        count = shape[0] * (shape[1] if len(shape) > 1 else 1)
        values = [1.0] * count if len(shape) == 1 else [draw.gauss(0, 0.08) for _ in range(count)]
        data = struct.pack(f"<{count}f", *values)
        header[name] = {"dtype": "F32", "shape": list(shape), "data_offsets": [len(body), len(body) + len(data)]}
        body += data
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + body)


def write_rows(path: Path, rows: list) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def run(forge: str, folder: Path, name: str, job: dict) -> Path:
    path = folder / f"{name}.json"
    path.write_text(json.dumps({"version": 1, "name": name, "output_dir": str(folder / "runs"), **job}, indent=1))
    done = subprocess.run([forge, "run", str(path), "--quiet"], capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{path}: exit {done.returncode}\n{done.stdout}{done.stderr}")
    return folder / "runs" / name


def events(folder: Path, kind: str) -> list:
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    return [event for event in map(json.loads, lines) if event["event"] == kind]


def changed(job: dict, settings: list) -> dict:
    """Returns the job with settings KEY=VALUE, a value as JSON. A section that is a word becomes
    one with that type.
    """
    for setting in settings:
        key, _, value = setting.partition("=")
        *path, last = key.split(".")
        place = job
        for part in path:
            place = place.setdefault(part, {})
        place[last] = json.loads(value)
    return job


def seconds_of(folder: Path) -> float:
    return round(json.loads((folder / "report.json").read_text())["seconds"], 1)
