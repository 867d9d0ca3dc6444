#!/usr/bin/env python3
"""Trains tiny models on the emulated CUDA engine and compares every step and the result with the
CPU's fused provider.

    python3 tests/emulator/engine/check_emulated.py build/bin/forge build/bin/forge-engine-emulated [--only TEXT] [--keep FOLDER]

Compares relative errors of losses, of gradient norms and of the change that training made. The
limits are TOLERANCES and, in bf16, the error that the roundings of both can cause. Standard library
only.
"""
import argparse
import fcntl
import json
import math
import os
import signal
import struct
import subprocess
import sys
import tempfile
import time
from array import array
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent.parent / "parity"), str(HERE.parent.parent)]
import forge_run  # noqa: E402
from fixtures_path import variants  # noqa: E402
from sample import in_sample  # noqa: E402
from wide_model import write_wide  # noqa: E402
from tensors import change_error, read_safetensors, write_safetensors  # noqa: E402

ROWS = HERE.parent.parent / "parity" / "goldens" / "tiny-batches.jsonl"
CARD, TURING, HOPPER = "cuda:RTX 4070", "cuda:RTX 2080 Ti", "cuda:H100 SXM"

# Limits for a step's loss and gradient norm, and for the change by training, all tensors together.
# fp16 is compared with the CPU's fp32, whose sums differ only in their order from one processor to
# the next. bf16: moved_by_rounding; an adapter's change is judged relative to the gradients that
# made it.
TOLERANCES = {"fp32": (1e-6, 1e-6, 1e-5), "bf16": None, "fp16": (5e-4, 2e-3, 5e-3)}
# The limit for a later step's gradient norm in fp32: its weights may differ by the limit for the
# change. DeepSeek V3's third norm moves by 1e-6 from one instruction set of a CPU to the next, and
# by 3e-6 to the emulated device; its first by 1e-7.
NORM_AFTER_UPDATES = TOLERANCES["fp32"][2]
# Adam moves a weight by its gradient's sign as soon as the gradient exceeds eps: if a gradient is
# smaller than its error, in the wrong direction. For a model that is trained whole the fp32 weights
# are compared. Those in the file have the type's roundings too, and one that tips over moves an
# embedding near 4 by as much as three steps do.
WHOLE_IN_BF16, SAVED_IN_FP16 = 0.1, 0.02
# A moment on the border of two codes may take either, which moves a weight by a step of the code
# book.
CODED_STATE = 1e-4
# In 8 bits a rounding of bf16 may take a number to the next code, 6 % away: one in eight does, and
# others on each device. In fp32, sums in another order rarely do so: in a step of some hundred
# thousand numbers for one of them; within a few steps for what follows, too.
ROUNDED_IN_FP8, ONE_CODE = (3e-3, 2e-2, 2e-2), (1e-6, 1e-5, 1e-5)
# Limits for the losses of fp8's gate, which sees several times as many numbers as a step.
GATE = {"fp32": 1e-5, "bf16": 3e-3}

# A rounding's error relative to the number, root mean square over a binade: 0.21 of a unit in the
# last place of 1, 2^-7 in bf16.
BF16_ROUNDING = 0.21 * 2**-7
# Roundings forward through a layer: norm, q (as k, v), S, P, attention, o, stream, norm, gate, act
# · up, down, stream. After the layers: norm and logits.
ROUNDINGS_OF_A_LAYER, ROUNDINGS_BEHIND = 12, 2
DEVIATIONS = 4


def moved_by_rounding(loss, tokens, layers, vocabulary):
    """Returns how much a step's loss and gradient norm may differ, relatively, between two devices
    that round to bf16.

    Each rounds in its own way: the GPU rounds S, d S and logits; a CPU whose AMX, pairs or fp32
    tiles sum in other orders tips other roundings.

    Each rounds N times on the way to the logits, independently: together they differ by e = √(2N)
    roundings. Logits of deviation s give a loss of ln V + s²/2 for a text that is not yet learned,
    which gives s. A token's loss is logsumexp(z) - z[y]: it moves by at most √2 · e · s, and the
    mean over T tokens by that / √T. The softmax in its gradient moves by at most half of what two
    logits do, e · s / 2, and the backward pass rounds another 2N times on each side, which is e ·
    √2; the norm averages over tokens, too.
    """
    e = math.sqrt(2 * (ROUNDINGS_OF_A_LAYER * layers + ROUNDINGS_BEHIND)) * BF16_ROUNDING
    s = math.sqrt(max(2 * (loss - math.log(vocabulary)), 0.25))
    of_mean = DEVIATIONS * e / math.sqrt(tokens)
    return of_mean * math.sqrt(2) * s / loss, of_mean * math.hypot(s / 2, math.sqrt(2))


LORA = {"adapter": {"type": "lora", "rank": 4, "alpha": 8, "dropout": 0, "target_modules": "all-linear"}}
FULL = {"adapter": {"type": "none"}}


# Every step has the same micro-batch, which is replayed from the third one on.
REPEATED = {"data": {"train": [{"path": str(ROWS), "format": "tokens", "limit": 8}]}, "train": {"max_steps": 5}}


def with_adapter(**more):
    return {"adapter": LORA["adapter"] | more}


# fp16 with the residual stream in fp32, as the card's profile chooses.
ON_TURING = {"hardware": {"device": TURING}}


# A base in fp8, which has products only on Hopper and later.
FP8 = {"model": {"quantization": "fp8"}, "hardware": {"device": HOPPER}}
ONE_STEP = {"train": {"max_steps": 1}}
# Rows of an encoder-decoder: sources and answers.
FROM_SOURCES = {"objective": {"train_on": "completion"}, "data": {"train": [{"path": str(ROWS.with_name("tiny-sources.jsonl"))}]}}


# A tensor that BART's files may lack.
ZEROS = {"final_logits_bias": [0.0] * 384}


CASES = {
    "lora": ("base", "fp32", LORA),
    "lora recomputed": ("base", "fp32", LORA | {"train": {"activation_checkpointing": "full"}}),
    "lora half recomputed": ("base", "fp32", LORA | {"train": {"activation_checkpointing": "selective"}}),
    "lora accumulated": ("base", "fp32", LORA | {"train": {"micro_batch_size": 3}}),
    "lora packed": ("base", "fp32", LORA | {"train": {"micro_batch_size": None, "micro_batch_tokens": 64},
                                            "data": {"packing": True}}),
    "lora deterministic": ("base", "fp32", LORA | {"train": {"deterministic": True}}),
    "lora dropout": ("base", "fp32", with_adapter(dropout=0.2)),
    "lora noise": ("base", "fp32", LORA | {"train": {"neftune_alpha": 5}}),
    "lora lion": ("base", "fp32", LORA | {"optimizer": {"type": "lion", "learning_rate": 1e-3, "eps": None}}),
    "full 8-bit state": ("base", "fp32", FULL | {"optimizer": {"type": "adamw_8bit"}}),
    "lora sgd": ("base", "fp32", LORA | {"optimizer": {"type": "sgd", "momentum": 0.9, "learning_rate": 0.05, "eps": None}}),
    "lora plus, clipped": ("base", "fp32", with_adapter(lora_plus_ratio=4.0) | {"train": {"max_grad_norm": 0.1}}),
    "dora": ("base", "fp32", with_adapter(use_dora=True)),
    "dora dropout bias": ("bias", "fp32", with_adapter(use_dora=True, dropout=0.1)),
    "qlora nf4": ("base", "fp32", LORA | {"model": {"quantization": "nf4", "double_quantization": True}}),
    "qlora of q": ("base", "fp32", with_adapter(target_modules=["q_proj"]) | {"model": {"quantization": "nf4"}}),
    "qlora int8": ("base", "fp32", LORA | {"model": {"quantization": "int8"}}),
    "full": ("base", "fp32", FULL),
    "full tied": ("tied", "fp32", FULL),
    "full bias": ("bias", "fp32", FULL),
    "full padding": ("pad", "fp32", FULL),
    "qwen3": ("qwen3", "fp32", LORA),
    "qwen3 full": ("qwen3", "fp32", FULL),
    "phi3": ("phi3", "fp32", LORA),
    "qwen2 with windows": ("qwen2-window", "fp32", LORA),
    "qwen2 full": ("qwen2-window", "fp32", FULL),
    "gemma2": ("gemma2", "fp32", LORA),
    "gemma2 full": ("gemma2", "fp32", FULL),
    "gemma2 bf16 recomputed": ("gemma2", "bf16", LORA | {"train": {"activation_checkpointing": "full"}}),
    "starcoder2 full": ("starcoder2", "fp32", FULL),
    "gpt-neox dropout": ("gpt-neox", "fp32", with_adapter(dropout=0.1)),
    "granite": ("granite", "fp32", LORA),
    "granite full bf16": ("granite", "bf16", FULL),
    "mixtral": ("mixtral-balanced", "fp32", LORA),
    "mixtral full": ("mixtral-balanced", "fp32", FULL),
    "qwen2-moe dropout": ("qwen2-moe", "fp32", with_adapter(dropout=0.2)),
    "qwen3-moe": ("qwen3-moe", "fp32", LORA),
    "qwen3-moe full bf16": ("qwen3-moe-sparse", "bf16", FULL),
    "qwen3-moe recomputed": ("qwen3-moe-sparse", "fp32", LORA | {"train": {"activation_checkpointing": "full"}}),
    "gpt-oss": ("gpt-oss", "fp32", LORA),
    "gpt-oss full": ("gpt-oss", "fp32", FULL),
    "gpt-oss joined experts": ("gpt-oss", "fp32", with_adapter(
        target_parameters=["mlp.experts.gate_up_proj", "mlp.experts.down_proj"])),
    "ministral3": ("ministral3", "fp32", LORA),
    "ministral3 full bf16": ("ministral3-window", "bf16", FULL),
    "lfm2": ("lfm2", "fp32", LORA),
    "lfm2 full": ("lfm2-older", "fp32", FULL),
    "lfm2 experts": ("lfm2-moe", "fp32", LORA),
    "mpt": ("mpt-bounds", "fp32", LORA),
    "llama4 apart": ("llama4-apart", "fp32", with_adapter(target_modules=["q_proj", "gate_projs.0", "up_projs.3", "down_projs.1"])),
    "mistral4": ("mistral4", "fp32", LORA),
    "mistral4 full bf16": ("mistral4-groups", "bf16", FULL),
    # Ops that no device has a kernel for.
    "llama4": ("llama4", "fp32", LORA),
    "llama4 full": ("llama4-interleaved", "fp32", FULL),
    "dora of experts": ("qwen2-moe", "fp32", with_adapter(use_dora=True)),
    "t5 dropout": ("t5", "fp32", FROM_SOURCES | with_adapter(dropout=0.1)),
    "t5 full": ("t5-gated", "fp32", FROM_SOURCES | FULL),
    "bart full": ("bart", "fp32", FROM_SOURCES | FULL),
    "deepseek-v2": ("deepseek-v2", "fp32", LORA),
    "deepseek-v2 full": ("deepseek-v2-groups", "fp32", FULL),
    "deepseek-v3": ("deepseek-v3", "fp32", with_adapter(dropout=0.1)),
    "deepseek-v3 full": ("deepseek-v3-halves", "fp32", FULL),
    "granitemoe": ("granitemoe", "fp32", with_adapter(
        target_modules=["q_proj"], target_parameters=["block_sparse_moe.experts.gate_up_proj", "block_sparse_moe.experts.down_proj"])),
    "granitemoe full": ("granitemoe-shared", "fp32", FULL),
    "ernie full": ("ernie-moe", "fp32", FULL),
    "lora bf16": ("base", "bf16", LORA),
    "lora bf16 dropout": ("base", "bf16", with_adapter(dropout=0.2)),
    "dora bf16": ("base", "bf16", with_adapter(use_dora=True)),
    "qlora bf16": ("base", "bf16", LORA | {"model": {"quantization": "nf4", "double_quantization": True}}),
    "full bf16": ("base", "bf16", FULL),
    "lora bf16 deterministic": ("base", "bf16", LORA | {"train": {"deterministic": True}}),
    "lora fp16": ("base", "fp16", LORA | {"train": {"residual": "compute"}}),
    "turing lora": ("base", "fp16", LORA | ON_TURING),
    "turing lora recomputed": ("base", "fp16", LORA | ON_TURING | {"train": {"activation_checkpointing": "full"}}),
    "turing lora packed": ("base", "fp16", LORA | ON_TURING | {"train": {"micro_batch_size": None, "micro_batch_tokens": 64},
                                                               "data": {"packing": True}}),
    "turing lora dropout": ("base", "fp16", with_adapter(dropout=0.2) | ON_TURING),
    "turing lora noise": ("base", "fp16", LORA | ON_TURING | {"train": {"neftune_alpha": 5}}),
    "turing dora": ("base", "fp16", with_adapter(use_dora=True) | ON_TURING),
    "turing qlora": ("base", "fp16", LORA | ON_TURING | {"model": {"quantization": "nf4", "double_quantization": True}}),
    "turing full": ("base", "fp16", FULL | ON_TURING),
    "turing full tied": ("tied", "fp16", FULL | ON_TURING),
    "turing gemma2 recomputed": ("gemma2", "fp16", LORA | ON_TURING | {"train": {"activation_checkpointing": "full"}}),
    "turing granite": ("granite", "fp16", LORA | ON_TURING),
    "turing gpt-neox": ("gpt-neox", "fp16", LORA | ON_TURING),
    "turing starcoder2 full": ("starcoder2", "fp16", FULL | ON_TURING),
    "turing olmo2": ("olmo2", "fp16", LORA | ON_TURING),
    "turing qwen2-moe": ("qwen2-moe", "fp16", LORA | ON_TURING),
    "replayed turing lora": ("base", "fp16", LORA | ON_TURING | REPEATED),
    "replayed lora dropout": ("base", "fp32", with_adapter(dropout=0.2) | REPEATED),
    "replayed lora bf16": ("base", "bf16", LORA | REPEATED),
    "replayed qlora bf16": ("base", "bf16", LORA | {"model": {"quantization": "nf4", "double_quantization": True}} | REPEATED),
    "replayed full": ("tied", "fp32", FULL | REPEATED),
    "fp8": ("wide", "fp32", LORA | FP8 | ONE_STEP),
    "fp8 recomputed": ("wide", "fp32", LORA | FP8 | {"train": {"activation_checkpointing": "full", "max_steps": 1}}),
    "fp8 accumulated": ("wide", "fp32", LORA | FP8 | {"train": {"micro_batch_size": 3, "max_steps": 1}}),
    "fp8 dropout": ("wide", "fp32", with_adapter(dropout=0.2) | FP8 | ONE_STEP),
    "fp8 of q and down": ("wide", "fp32", with_adapter(target_modules=["q_proj", "down_proj"]) | FP8 | ONE_STEP),
    "fp8 beside a trained layer": ("wide", "fp32", with_adapter(target_modules=["q_proj"], modules_to_save=["k_proj"]) | FP8 | ONE_STEP),
    "replayed fp8": ("wide", "fp32", LORA | FP8 | REPEATED),
    "fp8 bf16": ("wide", "bf16", LORA | FP8),
    "replayed fp8 bf16": ("wide", "bf16", with_adapter(dropout=0.2) | FP8 | REPEATED),
}


def job(name, model, precision, settings, output, device):
    base = {
        "version": 1, "name": name, "seed": 1, "output_dir": str(output), "model": {"path": str(model)},
        "objective": {"type": "sft", "train_on": "all"},
        "data": {"train": [{"path": str(ROWS), "format": "tokens"}], "shuffle": False, "packing": False},
        "train": {"max_steps": 3, "global_batch_size": 8, "micro_batch_size": 8, "precision": precision, "threads": 1},
        "optimizer": {"type": "adamw", "learning_rate": 2e-3, "eps": 1e-4}, "schedule": {"type": "linear"},
        "hardware": {"device": device}, "provider": "fused",
    }
    for key, value in settings.items():
        base[key] = {k: v for k, v in (base.get(key, {}) | value).items() if v is not None or k == "micro_batch_size"}
    return base


def on_cpu(precision, settings):
    """Returns the precision and settings that a CPU gets instead: it has no fp16."""
    train = {k: v for k, v in settings.get("train", {}).items() if k != "residual"}
    return "fp32" if precision == "fp16" else precision, {k: v for k, v in settings.items() if k != "hardware"} | {"train": train}


def train(forge, job_file, root, engine=None):
    if engine:
        os.environ["FORGE_ENGINE"] = engine
    try:
        return forge_run.run_job(forge, job_file, root)
    finally:
        os.environ.pop("FORGE_ENGINE", None)


def in_fp16(values):
    return [struct.unpack("e", struct.pack("e", value))[0] for value in values]


def round_weights(model):
    """Rounds the weights to numbers of fp16, so that a run in fp32 begins with the same."""
    tensors = read_safetensors(model / "model.safetensors")
    for tensor in tensors.values():
        tensor.values = array("f", in_fp16(tensor.values))
    write_safetensors(model / "model.safetensors", tensors)
    return model


def gate_of(run):
    """Returns the two losses of fp8's gate, or none for a run without it."""
    events = [json.loads(line) for line in (run.folder / "metrics.jsonl").read_text().splitlines()]
    return [e[key] for e in events if e["event"] == "fp8_gate" for key in ("loss", "fp8_loss")]


def nearest(errors, limits):
    """Returns the pair of error and limit that is nearest to its limit."""
    return max(zip(errors, limits), key=lambda pair: pair[0] / pair[1])


def masters(run):
    """Returns the weights of the last checkpoint, which are kept in fp32."""
    last = max((run.folder / "checkpoints").iterdir())
    return {n: t.values for n, t in read_safetensors(last / "model.safetensors").items()}


def compare(case, forge, engine, root):
    """Runs a case; returns its faults and what was measured."""
    variant, precision, settings = CASES[case]
    model, name = root / variant, case.replace(" ", "-")
    whole_in_fp16 = precision == "fp16" and settings["adapter"]["type"] == "none"
    if whole_in_fp16:
        model = round_weights(variants.write_variant(variant, root / f"{name}-rounded"))
    want = train(forge, job(name, model, *on_cpu(precision, settings), root / "cpu", "cpu"), root)
    got = train(forge, job(name, model, precision, settings, root / "emulated", CARD), root, engine)
    if refused := [text for text in got.notices if "graphs are not used" in text]:
        return False, refused[0]
    if len(got.steps) != len(want.steps):
        return False, f"{len(got.steps)} steps instead of {len(want.steps)}"
    seen = differences(case, got, want, model)
    return all(value <= limit for _, value, limit in seen), ", ".join(f"{what} {value:.1e} (limit {limit:.1e})" for what, value, limit in seen)


def differences(case, got, want, model):
    """Returns [(what, relative error, limit)] of two runs with as many steps; `want` is a CPU's."""
    _, precision, settings = CASES[case]
    whole_in_fp16 = precision == "fp16" and settings["adapter"]["type"] == "none"
    start = {n: [0.0] * len(t.values) for n, t in want.tensors().items()}
    values = lambda run: {n: t.values for n, t in run.tensors().items()}  # noqa: E731
    whole_in_bf16 = precision == "bf16" and settings["adapter"]["type"] == "none"
    if whole_in_bf16:
        values = masters
    if settings["adapter"]["type"] == "none":
        start = {n: t.values for n, t in read_safetensors(model / "model.safetensors").items() if n in start} | ZEROS
    wanted = values(want)
    if whole_in_fp16:  # a CPU saves them in fp32
        wanted = {n: in_fp16(v) for n, v in wanted.items()}
    change = change_error(start, values(got), wanted).together
    config = json.loads((model / "config.json").read_text())
    layers = next(config[key] for key in ("num_hidden_layers", "num_layers", "decoder_layers", "n_layers") if key in config)
    moved = [moved_by_rounding(s["loss"], s["tokens"], layers, config["vocab_size"]) for s in want.steps]
    most = list(TOLERANCES[precision] or (None, None, min(norm for _, norm in moved)))
    if whole_in_bf16:
        most[2] = WHOLE_IN_BF16
    if whole_in_fp16:
        most[2] = SAVED_IN_FP16
    if settings.get("optimizer", {}).get("type") == "adamw_8bit":
        most[2] = CODED_STATE
    if settings.get("model", {}).get("quantization") == "fp8":
        most = ONE_CODE if precision == "fp32" and settings.get("train", {}).get("max_steps") == 1 else ROUNDED_IN_FP8
    seen = []
    for index, (what, field) in enumerate((("loss", "loss"), ("gradient norm", "grad_norm"))):
        errors = [forge_run.relative_error([g[field]], [w[field]]) for g, w in zip(got.steps, want.steps)]
        limits = [most[index] or step[index] for step in moved]
        if precision == "fp32" and field == "grad_norm":
            limits[1:] = [max(limit, NORM_AFTER_UPDATES) for limit in limits[1:]]
        seen.append((what, *nearest(errors, limits)))
    seen.append(("change", change, most[2]))
    if settings.get("model", {}).get("quantization") == "fp8":
        seen.append(("gate", forge_run.relative_error(gate_of(got), gate_of(want)), GATE[precision]) if gate_of(got) else ("gate", float("inf"), 0))
    return seen


def overflows(forge, engine, root, card=CARD):
    """fp16 steps that overflow are skipped and halve the scale; the following ones equal fp32."""
    model = variants.write_variant("base", root / "loud")
    tensors = read_safetensors(model / "model.safetensors")
    for name, factor in (("lm_head.weight", 2.0**11), ("model.norm.weight", 2.0**-11)):  # the same logits, with large gradients between them
        tensors[name].values = array("f", [v * factor for v in tensors[name].values])
    write_safetensors(model / "model.safetensors", tensors)
    rows = root / "eight.jsonl"  # every step has all of them
    rows.write_text("\n".join(ROWS.read_text().splitlines()[:8]) + "\n")

    def run(precision, device, steps, engine=None):
        settings = LORA | {"data": {"train": [{"path": str(rows), "format": "tokens"}]}, "schedule": {"type": "constant"},
                           "train": {"max_steps": steps}}
        return train(forge, job("overflow", model, precision, settings, root / f"overflow-{precision}", device), root, engine)

    steps = 8
    got = run("fp16", card, steps, engine)
    skipped = [bool(s.get("skipped")) for s in got.steps]
    count = sum(skipped)
    scales = [s["loss_scale"] for s in got.steps]
    if not 1 <= count <= steps - 3 or skipped != [True] * count + [False] * (steps - count):
        return False, f"steps that were skipped: {skipped}"
    if scales != [65536 / 2 ** min(i + 1, count) for i in range(steps)]:
        return False, f"loss scales: {scales}"
    want = run("fp32", "cpu", steps - count)
    losses = forge_run.relative_error(got.losses[count:], want.losses)
    waiting = forge_run.relative_error(got.losses[:count], [got.losses[count]] * count)
    start = {n: [0.0] * len(t.values) for n, t in want.tensors().items()}
    values = lambda run: {n: t.values for n, t in run.tensors().items()}  # noqa: E731
    change = change_error(start, values(got), values(want)).together
    limits = TOLERANCES["fp16"]
    return (losses <= limits[0] and waiting == 0 and change <= limits[2],
            f"{count} skipped, then loss {losses:.1e} (limit {limits[0]:.0e}), change {change:.1e} (limit {limits[2]:.0e})")


def overflows_on_turing(forge, engine, root):
    return overflows(forge, engine, root, TURING)


def past_fp16(forge, engine, root):
    """A residual stream that begins past 65,504 is infinite in fp16, and equals fp32's if the
    stream alone is in fp32.
    """
    model = variants.write_variant("granite", root / "far")
    config = json.loads((model / "config.json").read_text())
    config["embedding_multiplier"] = 1e6
    (model / "config.json").write_text(json.dumps(config))
    settings = LORA | ON_TURING
    want = train(forge, job("far", model, *on_cpu("fp16", settings), root / "far-cpu", "cpu"), root)
    got = train(forge, job("far", model, "fp16", settings, root / "far-fp32", TURING), root, engine)
    losses = forge_run.relative_error(got.losses, want.losses)
    try:
        narrow = train(forge, job("far", model, "fp16", settings | {"train": {"residual": "compute"}}, root / "far-fp16", TURING), root, engine)
        infinite = all(loss is None for loss in narrow.losses) and all(step["skipped"] for step in narrow.steps)
    except forge_run.ForgeFailed as failure:
        infinite = "not finite" in str(failure)
    limit = TOLERANCES["fp16"][0]
    return infinite and losses <= limit, f"loss {losses:.1e} (limit {limit:.0e}); in fp16 alone " + ("not finite" if infinite else "another failure")


def closer_with_wide_stream(forge, engine, root):
    """Losses in fp16 are nearer to those in fp32 with the stream in fp32, for which memory is
    planned.
    """
    model = variants.write_variant("granite", root / "near")
    config = json.loads((model / "config.json").read_text())
    config["embedding_multiplier"] = 1e3  # large compared with what layers add
    (model / "config.json").write_text(json.dumps(config))
    round_weights(model)
    want = train(forge, job("near", model, *on_cpu("fp16", LORA), root / "near-cpu", "cpu"), root)
    errors, memory = {}, {}
    for residual in ("compute", "fp32"):
        settings = LORA | ON_TURING | {"train": {"residual": residual}}
        got = train(forge, job("near", model, "fp16", settings, root / f"near-{residual}", TURING), root, engine)
        errors[residual] = forge_run.relative_error(got.losses, want.losses)
        memory[residual] = json.loads((got.folder / "report.json").read_text())["memory"]
    more = memory["fp32"]["predicted_peak_bytes"] - memory["compute"]["predicted_peak_bytes"]
    return (errors["fp32"] < 0.5 * errors["compute"] and more > 0,
            f"losses {errors['fp32']:.1e} with an fp32 stream, {errors['compute']:.1e} without; {more} B more are planned")


def wait_for_lock(folder):
    """Waits until an engine whose program was killed has ended, too."""
    descriptor = os.open(folder, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    os.close(descriptor)


def with_offload(settings, place):
    return settings | {"optimizer": settings.get("optimizer", {}) | {"offload": place}}


def with_activations(settings, place):
    return settings | {"train": settings.get("train", {}) | {"activation_offloading": place}}


def killed_and_resumed(forge, engine, root, adapter=LORA, precision="bf16", card=CARD, places=("auto", "auto", "auto"), moved=with_offload,
                       model="base"):
    """A run that was killed twice and continued writes the bytes of one that was not.

    `places` says where the three parts keep what `moved` moves, by default the optimizer's state,
    which changes nothing either."""
    settings = adapter | {"train": {"max_steps": 8}, "checkpoint": {"every_steps": 1}}
    name = "-".join(("killed", model, moved.__name__, precision, *places))
    moments = lambda folder: (folder / "checkpoints/step-000008/optimizer.safetensors").read_bytes()  # noqa: E731
    final = lambda folder: {p.relative_to(folder): p.read_bytes() for p in sorted(folder.rglob("*.safetensors"))  # noqa: E731
                            if "checkpoints" not in p.parts}
    want = train(forge, job(name, root / model, precision, settings, root / "whole", card), root, engine)
    job_file = root / f"{name}.json"
    folder, ends = root / "parts" / name, []
    for step, place in zip((2, 5, 8), places):
        job_file.write_text(json.dumps(job(name, root / model, precision, moved(settings, place), root / "parts", card)))
        if step == 8:
            break
        process = subprocess.Popen([forge, "run", job_file], env=os.environ | {"FORGE_ENGINE": engine}, start_new_session=True,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while process.poll() is None and not list(folder.glob(f"checkpoints/step-{step:06d}")):
            time.sleep(0.01)
        os.killpg(process.pid, signal.SIGKILL)
        ends.append(process.wait())
        wait_for_lock(folder)
    if ends != [-signal.SIGKILL] * 2 or final(folder):
        return False, f"it was not killed in time: exits {ends}"
    got = train(forge, json.loads(job_file.read_text()), root, engine)
    same = final(folder) == final(want.folder) and final(folder) and moments(folder) == moments(want.folder)
    same = same and gate_of(got) == gate_of(want)  # computed once, before the first step
    return bool(same) and got.losses == want.losses, f"killed behind steps 2 and 5; final bytes {'equal' if same else 'differ'}"


def full_killed_and_resumed(forge, engine, root):
    return killed_and_resumed(forge, engine, root, FULL, "fp32")


def fp8_killed_and_resumed(forge, engine, root):
    return killed_and_resumed(forge, engine, root, LORA | FP8, "bf16", HOPPER, model="wide")


def turing_killed_and_resumed(forge, engine, root):
    return killed_and_resumed(forge, engine, root, LORA, "fp16", TURING)


def offloaded_killed_and_resumed(forge, engine, root):
    return killed_and_resumed(forge, engine, root, FULL, "fp32", places=("host", "host", "host"))


def moved_killed_and_resumed(forge, engine, root):
    return killed_and_resumed(forge, engine, root, FULL | {"optimizer": {"type": "adamw_8bit"}}, "bf16", places=("host", "none", "host"))


def activations_killed_and_resumed(forge, engine, root):
    settings = LORA | {"train": {"activation_checkpointing": "full"}}
    return killed_and_resumed(forge, engine, root, settings, "bf16", places=("host", "none", "host"), moved=with_activations)


def written(run):
    return {p.relative_to(run.folder): p.read_bytes() for p in sorted(run.folder.rglob("*.safetensors"))}


def less_on_the_card(stays, moves):
    """Returns a fault or "", the bytes on the host, and how much smaller the card's planned and
    measured peaks are.

    Both runs must have written the same files.
    """
    memory = [json.loads((run.folder / "report.json").read_text())["memory"] for run in (stays, moves)]
    saved = [memory[0][peak] - memory[1][peak] for peak in ("predicted_peak_bytes", "measured_peak_bytes")]
    held = sum(line["bytes"] for line in json.loads((moves.folder / "plan.json").read_text())["memory"]["host_lines"])
    same = written(stays) == written(moves) and stays.losses == moves.losses and len(written(moves)) > 1
    return "" if same else "bytes differ", held, saved


def deep(root, layers=6):
    """Writes the base with its layers repeated."""
    model = variants.write_variant("base", root / "deep")
    config = json.loads((model / "config.json").read_text())
    tensors, number = read_safetensors(model / "model.safetensors"), config["num_hidden_layers"]
    for layer in range(number, layers):
        begin = f"model.layers.{layer % number}."
        tensors |= {f"model.layers.{layer}.{n[len(begin):]}": t for n, t in tensors.items() if n.startswith(begin)}
    config["num_hidden_layers"] = layers
    (model / "config.json").write_text(json.dumps(config))
    write_safetensors(model / "model.safetensors", tensors)
    return model, layers, config["hidden_size"]


def activations_offloaded(forge, engine, root):
    """With train.activation_offloading: host every job writes the same bytes, and the card holds
    two of the layers' inputs.
    """
    model, layers, width = deep(root)
    full = {"activation_checkpointing": "full"}
    quantized = {"model": {"quantization": "nf4", "double_quantization": True}}
    cases = {"kept": (LORA, "bf16", {"activation_checkpointing": "none"}, CARD), "full": (FULL, "fp32", full, CARD),
             "qlora accumulated": (LORA | quantized, "bf16", full | {"micro_batch_size": 2}, CARD),
             "turing": (LORA, "fp16", full, TURING)}  # its stream is fp32
    seen = []
    for name, (adapter, precision, train_settings, card) in cases.items():
        runs = []
        for place in ("none", "host"):
            settings = with_activations(adapter | REPEATED | {"train": train_settings | {"max_steps": 3}}, place)
            runs.append(train(forge, job(f"activations-{name.split()[0]}", model, precision, settings, root / place, card), root, engine))
        fault, held, saved = less_on_the_card(*runs)
        plan = json.loads((runs[1].folder / "plan.json").read_text())
        tokens = plan["memory"]["training_batch"]["tokens"]
        value = tokens * width * {"bf16": 2, "fp32": 4, "fp16": 4}[precision]
        wait = layers - 1 - (name == "kept")  # beside a norm's result that stays, no gradient reads the first layer's input
        if held != wait * value:
            fault = f"{held} B on the host, {wait} values of {value} B were expected"
        planned = saved[0]  # no emulated card measures the arena
        if train_settings["activation_checkpointing"] == "full" and planned < (layers - 4) * value:
            fault = f"{planned} B less are planned for the card, of {value} B a layer"
        if refused := [text for run in runs for text in run.notices if "graphs are not used" in text]:
            fault = refused[0]
        if fault:
            return False, f"{name}: {fault}"
        seen.append(f"{name} {planned / value:.1f}")
    return True, f"equal bytes; of {layers} layers' inputs the card holds less by " + ", ".join(seen)


def offloaded(forge, engine, root):
    """With optimizer.offload: host a full fine-tuning writes the same bytes, and the card holds all
    but the state.
    """
    seen = []
    for kind, precision in (("adamw", "fp32"), ("adamw_8bit", "bf16"), ("lion", "bf16")):
        runs = []
        for place in ("none", "host"):
            settings = FULL | REPEATED | {"optimizer": {"type": kind, **({"eps": None} if kind == "lion" else {})}}
            runs.append(train(forge, job(f"offload-{kind}", root / "tied", precision, with_offload(settings, place), root / place, CARD), root, engine))
        fault, held, saved = less_on_the_card(*runs)
        if fault or saved != [held, held]:
            return False, f"{kind}: {fault or 'bytes equal'}, {held} B on the host, less on the card {saved}"
        seen.append(f"{kind} {held} B")
    return True, "equal bytes, and on the host " + ", ".join(seen)


def completions_drawn(forge, engine, root):
    """A card's model draws a CPU's completions, with attention over the cache in ATen, and trains on
    them.
    """
    prompts = root / "prompts.jsonl"
    prompts.write_text("".join(json.dumps({"prompt": f"What is {i}?"}) + "\n" for i in range(12)))
    settings = LORA | {"objective": {"type": "grpo", "train_on": None},
                       "data": {"train": [{"path": str(prompts)}], "template": "chatml", "shuffle": None, "packing": None},
                       "train": {"max_steps": 2, "global_batch_size": None, "micro_batch_size": None},
                       "rollout": {"prompts_per_step": 3, "samples_per_prompt": 4, "max_new_tokens": 12},
                       "rewards": [{"type": "length", "max": 6, "slack": 30, "unit": "characters"}]}
    seen = []
    for model in ("base", "gemma2", "gpt-oss", "deepseek-v3"):
        drawn, norms = [], []
        for device, uses in (("cpu", None), (CARD, engine)):
            asked = job(f"drawn-{model}", variants.write_variant(model, root / model), "fp32",
                        {k: v for k, v in settings.items() if k != "rewards"}, root / f"drawn-{device[:4]}", device)
            asked["train"].pop("micro_batch_size")
            run = train(forge, asked | {"rewards": settings["rewards"]}, root, uses)
            rows = [json.loads(line) for path in sorted((run.folder / "rollouts").iterdir()) for line in path.read_text().splitlines()]
            drawn.append([(row["prompt"], row["sample"], row["ids"], row["sampler_logps"]) for row in rows])
            norms.append([step["grad_norm"] for step in run.steps])
        if [d[:3] for d in drawn[0]] != [d[:3] for d in drawn[1]] or len(drawn[0]) != 24:
            return False, f"{model}: other completions"
        logps = max(forge_run.relative_error(got[3], want[3]) for want, got in zip(*drawn))
        norm = forge_run.relative_error(norms[1], norms[0])
        if logps > 1e-5 or norm > 1e-5:
            return False, f"{model}: log-probabilities {logps:.1e}, gradient norms {norm:.1e} (limits 1e-5)"
        seen.append(f"{model} {max(logps, norm):.1e}")
    return True, "equal completions; errors of " + ", ".join(seen)


SPECIAL = {"completions drawn": completions_drawn, "full offloaded": offloaded, "full offloaded killed": offloaded_killed_and_resumed, "full moved killed": moved_killed_and_resumed,
           "activations offloaded": activations_offloaded, "activations moved killed": activations_killed_and_resumed,
           "fp16 overflow": overflows, "turing overflow": overflows_on_turing, "turing past fp16": past_fp16,
           "turing closer": closer_with_wide_stream, "lora killed": killed_and_resumed, "full killed": full_killed_and_resumed,
           "turing killed": turing_killed_and_resumed, "fp8 killed": fp8_killed_and_resumed}


# A sample (tests/sample.py) always has these: each precision, adapter, card and way of holding the
# base or the state once. It has one in COMMITS of the others.
ALWAYS = ["lora", "full", "dora", "qlora int8", "lora bf16", "qwen3-moe full bf16", "replayed qlora bf16", "lora fp16", "turing lora", "fp8 bf16",
          "turing overflow", "full offloaded", "lora killed", "completions drawn"]
COMMITS = 4


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("forge")
    parser.add_argument("engine")
    parser.add_argument("--only", default="")
    parser.add_argument("--keep")
    options = parser.parse_args()
    forge, engine = str(Path(options.forge).resolve()), str(Path(options.engine).resolve())
    passed = failed = left = 0
    with tempfile.TemporaryDirectory() as temporary:
        root = Path(options.keep or temporary)
        for name in {variant for variant, _, _ in CASES.values()}:
            write_wide(root / name) if name == "wide" else variants.write_variant(name, root / name)
        for case in (c for c in [*CASES, *SPECIAL] if options.only in c):
            if case not in ALWAYS and not in_sample(case, COMMITS):
                left += 1
                continue
            began = time.monotonic()
            try:
                ok, seen = SPECIAL[case](forge, engine, root) if case in SPECIAL else compare(case, forge, engine, root)
            except forge_run.ForgeFailed as failure:
                ok, seen = False, str(failure)
            print("ok  " if ok else "FAIL", f"{case}: {seen}, {time.monotonic() - began:.0f} s", flush=True)
            passed, failed = passed + ok, failed + (not ok)
    print(f"{passed} passed, {failed} failed" + (f", {left} left for another commit" if left else ""))
    return failed > 0 or not passed


if __name__ == "__main__":
    sys.exit(main())
