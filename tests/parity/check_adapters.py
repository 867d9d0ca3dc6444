#!/usr/bin/env python3
"""Checks that forge continues PEFT's adapters as PEFT does: unusual ones, each with random tensors,
three steps of AdamW.

    python tests/parity/check_adapters.py build/bin/forge [--only NAME …]     # needs the oracle

Compares the losses of the steps, the loaded adapter's output before them, and the logits of PEFT's
own result with those of forge's files, loaded by PEFT. Prints "N passed, N failed".
"""
import argparse
import copy
import json
import sys
import tempfile
from pathlib import Path
from unittest import mock

import torch
from bitsandbytes.functional import get_4bit_type
from peft import EvaConfig, LoraConfig, PeftModel, get_peft_model, initialize_lora_eva_weights
from peft.utils.incremental_pca import IncrementalPCA
from peft.utils.loftq_utils import _low_rank_decomposition
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests/parity"), str(ROOT / "tests/fixtures")]
import cases  # noqa: E402
import forge_run  # noqa: E402
import oracle  # noqa: E402
from variants import write_variant  # noqa: E402

GOLDENS = ROOT / "tests/parity/goldens"
QKVO = ["q_proj", "k_proj", "v_proj", "o_proj"]
MLP = ["gate_proj", "up_proj", "down_proj"]
STEPS = 3

# {name: settings of the adapter that PEFT writes, each with an oddity}. `modules` are the names of
# a family's own linear layers.
SHAPES = {
    "all": dict(target_modules=QKVO + MLP),
    "rank-1": dict(r=1, lora_alpha=3, target_modules=["v_proj"]),
    "wide": dict(r=48, lora_alpha=96, target_modules=["q_proj", "down_proj"]),
    "alpha-fraction": dict(lora_alpha=2.5, target_modules=QKVO),
    "alpha-negative": dict(lora_alpha=-8, target_modules=QKVO),
    "rslora": dict(r=5, lora_alpha=7, use_rslora=True, target_modules=QKVO + MLP),
    "dora": dict(use_dora=True, target_modules=QKVO + MLP),
    "dora-rslora": dict(r=3, use_dora=True, use_rslora=True, target_modules=["q_proj", "up_proj"]),
    "dora-patterns": dict(use_dora=True, target_modules=QKVO, rank_pattern={"k_proj": 1}, alpha_pattern={"o_proj": 5}),
    "rank-pattern": dict(target_modules=QKVO + MLP, rank_pattern={"q_proj": 9, "layers.1.mlp.down_proj": 2}),
    "alpha-pattern": dict(target_modules=QKVO + MLP, alpha_pattern={"v_proj": 31, "^model.layers.0.self_attn.q_proj": 1}),
    "both-patterns": dict(target_modules=["q_proj", "v_proj"], rank_pattern={r"layers\.[02]\.self_attn\.q_proj": 7},
                          alpha_pattern={r".*\.1\.self_attn\.v_proj": 3}, use_rslora=True),
    "regex": dict(target_modules=r".*layers\.[02]\.self_attn\.(q|k)_proj"),
    "regex-alternatives": dict(target_modules=r"model\.layers\.\d+\.(self_attn\.o_proj|mlp\.(up|down)_proj)"),
    "layer-0": dict(target_modules=["o_proj", "down_proj"], layers_to_transform=0),
    "layers": dict(target_modules=["o_proj", "down_proj"], layers_to_transform=[1, 2]),
    "layers-pattern": dict(target_modules=["k_proj"], layers_to_transform=[2], layers_pattern="layers"),
    "full-paths": dict(target_modules=["model.layers.0.self_attn.q_proj", "layers.2.mlp.up_proj", "gate_proj"]),
    "all-linear": dict(target_modules="all-linear"),
    "exclude": dict(target_modules="all-linear", exclude_modules=["k_proj", "layers.1.mlp.up_proj"]),
    "exclude-regex": dict(target_modules="all-linear", exclude_modules=r".*\.1\..*"),
    "saved-head": dict(target_modules=["q_proj"], modules_to_save=["lm_head"]),
    "saved-both": dict(target_modules=["q_proj"], modules_to_save=["lm_head", "embed_tokens"]),
    "saved-norms": dict(target_modules=["v_proj"], modules_to_save=["input_layernorm", "norm"]),
    "gaussian": dict(target_modules=QKVO, init_lora_weights="gaussian"),
    "zero-b": dict(target_modules=QKVO + MLP),
    "token-rows": dict(target_modules=QKVO, trainable_token_indices=[1, 9, 380]),
    "token-rows-unsorted": dict(target_modules=["q_proj"], trainable_token_indices=[380, 1, 9]),
    "token-rows-both": dict(target_modules=["q_proj"], trainable_token_indices={"embed_tokens": [3, 4], "lm_head": [4, 5, 6]}),
    "token-rows-head": dict(target_modules=["q_proj"], trainable_token_indices={"lm_head": [7]}),
    "token-rows-tied": dict(target_modules=["q_proj"], trainable_token_indices={"embed_tokens": [3, 4], "lm_head": [3, 4]}),
    "embedding": dict(target_modules=["embed_tokens", "q_proj"]),
    "embedding-alone": dict(target_modules=["embed_tokens"], use_rslora=True),
    "head": dict(target_modules=["lm_head", "down_proj"], rank_pattern={"lm_head": 2}, alpha_pattern={"lm_head": 5}),
    "embedding-and-head": dict(target_modules=["embed_tokens", "lm_head"]),
    "embedding-factors-head-saved": dict(target_modules=["embed_tokens", "q_proj"], modules_to_save=["lm_head"]),
    "embedding-regex": dict(target_modules=r".*(embed_tokens|o_proj)"),
    "biases": dict(target_modules=QKVO, bias="lora_only"),
    "all-biases": dict(target_modules=["q_proj", "o_proj"], bias="all"),
    "biases-dora": dict(target_modules=["q_proj", "o_proj"], bias="lora_only", use_dora=True),
    "rank-over-size": dict(r=40, lora_alpha=20, target_modules=["k_proj", "v_proj"]),
}
FUSED = {"all", "rslora", "dora", "all-linear", "alpha-negative", "wide"}  # with phi3's names instead of llama's
OWN_NAMES = {"gpt2": ["c_attn"], "gpt-neox": ["query_key_value", "dense_4h_to_h"]}
VARIANTS = {
    "base": [shape for shape in SHAPES if shape != "token-rows-tied"],
    "tied": ["all", "dora", "rslora", "both-patterns", "regex", "exclude", "all-linear", "token-rows", "token-rows-tied", "embedding", "head",
             "embedding-and-head"],
    "bias": ["biases", "biases-dora", "all-biases", "all", "dora", "rslora", "rank-pattern", "alpha-pattern", "layers", "saved-norms", "zero-b"],
    "qwen3": ["all", "dora", "rank-pattern", "regex-alternatives", "saved-norms", "exclude-regex"],
    "gemma2": ["token-rows", "embedding", "all", "dora", "rslora", "layers", "all-linear", "full-paths"],
    "phi3": ["all", "rslora", "dora", "all-linear", "alpha-negative"],
    "gpt-neox": ["all-biases"],
    "gpt2": ["all-biases"],
    "head-dim": ["all", "dora-rslora", "exclude", "both-patterns", "saved-head"],
}


def settings_of(variant: str, shape: str) -> dict:
    settings = {"r": 4, "lora_alpha": 8, "lora_dropout": 0.0} | copy.deepcopy(SHAPES[shape])
    if variant == "phi3" and isinstance(settings["target_modules"], list):
        settings["target_modules"] = ["qkv_proj", "o_proj", "gate_up_proj", "down_proj"]
    return settings | ({"target_modules": OWN_NAMES[variant]} if variant in OWN_NAMES else {})


def randomised(model, shape: str):
    """Moves every trained tensor off its start, as training would."""
    with torch.no_grad():
        for name, tensor in model.named_parameters():
            if not tensor.requires_grad:
                continue
            if ("lora_B" in name or "lora_embedding_A" in name) and shape != "zero-b":
                tensor.normal_(0, 0.05)
            elif "magnitude" in name:
                tensor.mul_(1 + 0.1 * torch.randn_like(tensor))
            elif "lora_" not in name:
                tensor.add_(0.02 * torch.randn_like(tensor))
    return model


@torch.no_grad()
def logits(model, rows) -> torch.Tensor:
    model.eval()
    return torch.cat([model(torch.tensor([row["input_ids"]])).logits[0] for row in rows[:4]])


def relative(got: torch.Tensor, want: torch.Tensor) -> float:
    return float((got - want).abs().max() / want.abs().max())


def check(variant: str, shape: str, root: Path, rows, forge: str) -> str:
    """Runs a check; returns the measurements; raises AssertionError."""
    torch.manual_seed(7)
    model_path = root / "models" / variant
    if not model_path.exists():
        write_variant(variant, model_path)
    name = f"{variant}-{shape}"
    load = lambda: AutoModelForCausalLM.from_pretrained(model_path, dtype=torch.float32, attn_implementation="eager")  # noqa: E731
    model = randomised(get_peft_model(load(), LoraConfig(task_type="CAUSAL_LM", **settings_of(variant, shape))), shape)
    model.save_pretrained(root / name)
    before = oracle.example_losses(model.eval(), rows[:4])
    settings = cases.Settings(5e-3, STEPS, eps=1e-4)
    record = oracle.train(model, [rows[i:i + 8] for i in range(0, 8 * STEPS, 8)], settings)
    case = cases.Case(name, settings, lora={"r": 1, "lora_alpha": 1, "target_modules": ""}, init_from=False)
    job = cases.job(case, name, model_path, GOLDENS, root / "runs")
    job["adapter"] = {"type": "lora", "init_from": str(root / name)}
    head = root / "rows.jsonl"
    head.write_text("".join(json.dumps(row) + "\n" for row in rows[:4]))
    loaded = forge_run.per_example(forge, model_path, root / name, head, root / f"{name}.losses")
    start = max(abs(a["loss"] - b["loss"]) / b["loss"] for a, b in zip(loaded, before, strict=True))
    run = forge_run.run_job(forge, job, root)
    losses = max(abs(a - b) / b for a, b in zip(run.losses, record.losses, strict=True))
    result = relative(logits(PeftModel.from_pretrained(load(), run.folder / "adapter"), rows), logits(model, rows))
    moved = relative(logits(load(), rows), logits(model, rows))
    said = f"loaded {start:.1e}, losses {losses:.1e}, result in PEFT {result:.1e} of a change of {moved:.1e}"
    assert start < 1e-5 and losses < 1e-5 and result < 1e-4 and moved > 10 * result, said
    return said


def check_start(init: str, root: Path, rows, forge: str) -> str:
    """forge's first A and B are PEFT's up to the signs of directions; PEFT on the plain base
    computes what forge trained.
    """
    model_path = root / "models" / "base"
    if not model_path.exists():
        write_variant("base", model_path)
    load = lambda: AutoModelForCausalLM.from_pretrained(model_path, dtype=torch.float32, attn_implementation="eager")  # noqa: E731
    peft = get_peft_model(load(), LoraConfig(task_type="CAUSAL_LM", r=4, lora_alpha=8, target_modules="all-linear", init_lora_weights=init))
    theirs = {name.replace(".default", ""): tensor.detach() for name, tensor in peft.named_parameters() if "lora_" in name}
    case = cases.Case(f"start-{init}", cases.Settings(5e-3, 2, eps=1e-4), lora={"r": 4, "lora_alpha": 8, "target_modules": "all-linear"},
                      adapter={"init": init}, init_from=False)
    run = forge_run.run_job(forge, cases.job(case, case.name, model_path, GOLDENS, root / "runs"), root)
    ours = load_file(run.folder / "adapter/adapter_model.safetensors")  # of rank 2 r: [B, -B0] [A; A0]
    worst = 0.0
    for name in (name for name in theirs if "lora_A" in name):
        b_name = name.replace("lora_A", "lora_B")
        a, b = ours[name][4:], -ours[b_name][:, 4:]
        signs = torch.sign((a * theirs[name]).sum(1))
        worst = max(worst, float((a * signs[:, None] - theirs[name]).abs().max()), float((b * signs - theirs[b_name]).abs().max()))
    head = root / "rows.jsonl"
    head.write_text("".join(json.dumps(row) + "\n" for row in rows[:4]))
    own = forge_run.per_example(forge, model_path, run.folder / "adapter", head, root / f"{init}.losses")
    loaded = oracle.example_losses(PeftModel.from_pretrained(load(), run.folder / "adapter").eval(), rows[:4])
    apart = max(abs(a["loss"] - b["loss"]) / b["loss"] for a, b in zip(own, loaded, strict=True))
    said = f"first A and B differ by {worst:.1e}, the result in PEFT by {apart:.1e}"
    assert worst < 1e-5 and apart < 1e-5, said
    return said


def check_loftq(root: Path, rows, forge: str) -> str:
    """forge's first B A over nf4 equals that of PEFT's replace_lora_weights_loftq with alpha = r, a
    scale of 1.

    PEFT decomposes what nf4 in blocks of 64 loses. Its function itself needs a GPU, and
    bitsandbytes' CPU path quantises rows shorter than a block in another way."""
    model_path = write_variant("base", root / "models" / "loftq")
    case = cases.Case("start-loftq", cases.Settings(1e-30, 1), lora={"r": 4, "lora_alpha": 4, "target_modules": "all-linear"},
                      adapter={"init": "loftq"}, init_from=False)
    job = cases.job(case, case.name, model_path, GOLDENS, root / "runs")
    job["model"]["quantization"] = "nf4"
    ours = load_file(forge_run.run_job(forge, job, root).folder / "adapter/adapter_model.safetensors")
    exact, code, worst = load_file(model_path / "model.safetensors"), get_4bit_type("nf4", device="cpu").float(), 0.0
    for name in (name for name in ours if "lora_A" in name):
        weight = exact[name.removeprefix("base_model.model.").replace("lora_A.", "")].float()
        blocks = weight.reshape(-1, 64)
        largest = blocks.abs().amax(1, keepdim=True)
        held = (code[((blocks / largest)[..., None] - code).abs().argmin(-1)] * largest).reshape(weight.shape)
        parts = _low_rank_decomposition(weight - held, 4)
        apart = relative(ours[name.replace("lora_A", "lora_B")] @ ours[name], parts["L"] @ parts["R"])
        assert apart < 1e-3, f"first B A of {name} differs by {apart:.1e}"
        worst = max(worst, apart)
    assert worst < 1e-3, f"first B A differs by {worst:.1e}"
    return f"first B A differs by {worst:.1e} of {len(ours) // 2} layers"


def check_eva(name: str, variant: str, settings: dict, root: Path, rows, forge: str) -> str:
    """forge's first A is PEFT's with rho 1, on the same batches.

    PEFT's randomised SVD of twice the rank is replaced by an exact one: for the random tiny models
    it finds other directions with every seed. The output also says how far it is from itself."""
    lora = {"r": 4, "lora_alpha": 8, "target_modules": "all-linear"}
    model_path = write_variant(variant, root / "models" / f"eva-{variant}")
    batches = [oracle.pad(rows[i:i + 8]) for i in range(0, len(rows), 8)]

    def theirs() -> dict:
        model = AutoModelForCausalLM.from_pretrained(model_path, dtype=torch.float32, attn_implementation="eager")
        peft = get_peft_model(model, LoraConfig(task_type="CAUSAL_LM", init_lora_weights="eva", eva_config=EvaConfig(rho=1, **settings), **lora))
        initialize_lora_eva_weights(peft, batches, show_progress_bar=False)
        return {key.replace(".default", ""): tensor.detach() for key, tensor in peft.named_parameters() if "lora_A" in key}

    randomised = theirs()
    with mock.patch.object(IncrementalPCA, "_svd_fn_lowrank", IncrementalPCA._svd_fn_full):
        exact = theirs()
    case = cases.Case(f"start-eva-{name}", cases.Settings(1e-30, 1), lora=lora, adapter={"init": "eva", "eva": settings}, init_from=False)
    ours = load_file(forge_run.run_job(forge, cases.job(case, case.name, model_path, GOLDENS, root / "runs"), root).folder / "adapter/adapter_model.safetensors")

    def cosine(a: dict, b: dict) -> float:  # the least over a layer's directions, paired by position
        return min(float(torch.nn.functional.cosine_similarity(a[key], b[key]).abs().min()) for key in exact)

    # PEFT whitens in place, and so once for each of the layers that read the same input.
    alone = [key for key in exact if any(part in key for part in ("o_proj", "down_proj", "c_proj"))]
    length = max(float((ours[key].norm(dim=1) / exact[key].norm(dim=1) - 1).abs().max()) for key in alone)
    said = (f"of {len(exact)} layers, least cosine of directions {cosine(ours, exact):.6f}, lengths differ by {length:.1e}; PEFT's own "
            f"randomised SVD from its exact one {cosine(randomised, exact):.6f}")
    assert cosine(ours, exact) > 0.999 and length < 1e-3, said
    return said


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("forge")
    parser.add_argument("--only", nargs="*", default=[])
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    rows = oracle.read_rows(GOLDENS / "tiny-batches.jsonl")
    passed, failed = 0, 0
    todo = {f"start-{init}": (check_start, init) for init in ("pissa", "olora")}
    todo["start-loftq"] = (check_loftq,)
    todo |= {f"start-eva-{name}": (check_eva, name, variant, settings) for name, variant, settings in (
        ("base", "base", {}), ("prompts-too", "base", {"use_label_mask": False}), ("whiten", "tied", {"whiten": True}), ("tau", "bias", {"tau": 0.999}),
        ("gemma2", "gemma2", {}), ("gpt2", "gpt2", {}))}
    todo |= {f"{variant}-{shape}": (check, variant, shape) for variant, shapes in VARIANTS.items() for shape in shapes}
    with tempfile.TemporaryDirectory(prefix="forge-adapters-") as folder:
        for name, (function, *what) in todo.items():
            if arguments.only and name not in arguments.only:
                continue
            try:
                print(f"ok    {name}: {function(*what, Path(folder), rows, arguments.forge)}", flush=True)
                passed += 1
            except (AssertionError, forge_run.ForgeFailed) as error:
                print(f"FAIL  {name}: {error}", flush=True)
                failed += 1
    print(f"{passed} passed, {failed} failed")
    sys.exit(bool(failed))


main()
