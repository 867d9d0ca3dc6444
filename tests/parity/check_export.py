#!/usr/bin/env python3
"""Compares merged models with transformers + PEFT, and GGUF files with llama.cpp and the gguf
package.

    python tests/parity/check_export.py build/bin/forge --llama LIBRARY [--model FOLDER|FILE.gguf] [--types f32,f16,…] [--what merge,gguf]

With a model, an adapter is put on it: trained for some steps if --train names its rows, else with
random factors. Without one the variants of the tiny model are taken, each with an adapter of an
unusual shape. Needs torch, transformers, peft, gguf and a library with llama.cpp in it. Prints the
measurements and "N passed, N failed".
"""
import argparse
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import gguf
import numpy as np
import torch
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests/parity"), str(ROOT / "tests/fixtures")]
from llama_library import LlamaCpp  # noqa: E402
from llama_quantiser import compare, tensors  # noqa: E402
from make_model_goldens import GGUFS  # noqa: E402
from tally import Tally  # noqa: E402
from variants import write_variant  # noqa: E402

TEXTS = ["The lighthouse keeper climbed the stairs and lit the lamp.", "def mean(values):\n    return sum(values) / len(values)",
         "In 1969, 3.5 million people watched; 42 % said so.", "Où est la lune ?"]
TYPES = ["f32", "f16", "bf16", "q8_0", "q6_k", "q5_k_m", "q4_k_m", "q4_0"]
VARIANTS = ["base", "tied", "qwen3", "bias", "phi3", "gemma2", "head-dim", "gemma", "gemma3", "granite", "olmo2", "glm4", "cohere", "starcoder2", "smollm3", "stablelm", "stablelm-parallel",
            "gpt-neox", "falcon", "falcon-grouped", "glm", "gpt2", "gpt2-untied", "cohere2", "olmo3", "phi", "seed-oss", "exaone4", "ernie", "hunyuan", "arcee", "olmo", "nemotron", "bloom", "mpt", "mixtral", "qwen2-moe", "qwen3-moe",
            "ministral3", "glm4-moe", "olmoe", "granitemoe", "granitemoe-shared", "ernie-moe", "minimax-m2", "dots1", "hunyuan-moe", "deepseek-moe",
            "qwen3-next", "qwen3-5", "qwen3-5-moe"]
ALL = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]

def linears_of(model: torch.nn.Module) -> list[str]:
    """Returns the names that linear layers of the model's layers have."""
    return sorted({name.split(".")[-1] for name, module in model.named_modules()
                   if isinstance(module, torch.nn.Linear) and re.search(r"\.(layers|h)\.", name)})


def fits(settings: dict, model: torch.nn.Module) -> bool:
    """True if the model has every module that the settings name."""
    modules = dict(model.named_modules())
    targets = settings["target_modules"]
    # transformers 5 joins experts: PEFT adapts the joined tensors, or none if these names are
    # given; files hold each expert's own.
    of_experts = targets == "all-linear" or {"gate_proj", "up_proj", "down_proj"} & set(targets)
    if of_experts and hasattr(model.config, "num_experts_per_tok"):
        return False
    if isinstance(targets, str) and targets != "all-linear" and not any(re.fullmatch(targets, name) for name in modules):
        return False
    named = [*(targets if isinstance(targets, list) else []), *settings.get("modules_to_save", []), *settings.get("exclude_modules", []),
             *(key.split(".")[-1] for pattern in ("rank_pattern", "alpha_pattern") for key in settings.get(pattern, {}))]
    return set(named) <= {name.split(".")[-1] for name in modules}


# {name: settings of the adapter that PEFT writes, each with an oddity}
SHAPES = {
    "all": dict(r=8, lora_alpha=16, target_modules=ALL),
    "rank-1": dict(r=1, lora_alpha=3, target_modules=["v_proj"]),
    "rslora": dict(r=5, lora_alpha=7, target_modules=ALL, use_rslora=True),
    "dora": dict(r=4, lora_alpha=8, target_modules=ALL, use_dora=True),
    "dora-rslora": dict(r=3, lora_alpha=8, target_modules=["q_proj", "up_proj"], use_dora=True, use_rslora=True),
    "patterns": dict(r=4, lora_alpha=8, target_modules=ALL, rank_pattern={"q_proj": 9, "layers.1.mlp.down_proj": 2},
                     alpha_pattern={"v_proj": 31, "^model.layers.0.self_attn.q_proj": 1}),
    "regex": dict(r=4, lora_alpha=8, target_modules=r".*layers\.[02]\.self_attn\.(q|k)_proj"),
    "layers": dict(r=4, lora_alpha=8, target_modules=["o_proj", "down_proj"], layers_to_transform=[1, 2]),
    "saved": dict(r=4, lora_alpha=8, target_modules=["q_proj"], modules_to_save=["lm_head", "embed_tokens"]),
    "saved-norms": dict(r=4, lora_alpha=8, target_modules=["q_proj"], modules_to_save=["input_layernorm", "norm"]),
    "biases": dict(r=4, lora_alpha=8, target_modules=["q_proj", "o_proj"], bias="lora_only"),
    "all-biases": dict(r=4, lora_alpha=8, target_modules=["q_proj"], bias="all"),
    "token-rows": dict(r=4, lora_alpha=8, target_modules=["q_proj"], trainable_token_indices=[380, 5, 12]),
    "embedding": dict(r=4, lora_alpha=8, target_modules=["embed_tokens", "q_proj"]),
    "head": dict(r=4, lora_alpha=8, target_modules=["lm_head", "down_proj"], rank_pattern={"lm_head": 2}, alpha_pattern={"lm_head": 5}),
    "embedding-head-saved": dict(r=4, lora_alpha=8, target_modules=["embed_tokens"], modules_to_save=["lm_head"], use_rslora=True),
    "wide": dict(r=64, lora_alpha=128, target_modules=ALL),
    "negative": dict(r=4, lora_alpha=-8, target_modules=ALL),
    "all-linear": dict(r=4, lora_alpha=8, target_modules="all-linear", exclude_modules=["k_proj"]),
}
# f32 differs only by the order of sums. The others are the effect of 11 and 8 bits on random
# weights whose logits reach 25. Blocks are compared with those of llama.cpp's own quantiser; their
# loss is measured and has no limit here.
MOST_DIVERGENCE = {"f32": 1e-9, "f16": 5e-5, "bf16": 1e-2}
tally = Tally()
check = tally.check


def forge(*words) -> str:
    done = subprocess.run([arguments.forge, *map(str, words)], capture_output=True, text=True)
    assert done.returncode == 0, (done.stdout + done.stderr)[-1500:]
    return done.stdout


def load(path: Path):
    if path.is_dir():
        return AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32).eval()
    return AutoModelForCausalLM.from_pretrained(path.parent, gguf_file=path.name, dtype=torch.float32).eval()


def make_adapter(model, settings: dict, folder: Path) -> torch.nn.Module:
    """Saves an adapter whose every tensor is random, by PEFT; returns the model with it."""
    torch.manual_seed(3)
    adapted = get_peft_model(model, LoraConfig(task_type="CAUSAL_LM", **settings)).eval()
    with torch.no_grad():
        for name, tensor in adapted.named_parameters():
            if tensor.requires_grad and ("lora_B" in name or "lora_embedding_A" in name):
                tensor.normal_(0, 0.05)
            elif tensor.requires_grad and "magnitude" in name:
                tensor.mul_(1 + 0.1 * torch.randn_like(tensor))
            elif tensor.requires_grad and "lora_" not in name:
                tensor.add_(0.02 * torch.randn_like(tensor))
    adapted.save_pretrained(folder)
    return adapted


@torch.no_grad()
def logits(model, ids: list[list[int]]) -> np.ndarray:
    return np.concatenate([model(torch.tensor([row])).logits[0].numpy() for row in ids])


class HalfGelu(torch.nn.Module):
    """llama.cpp's GELU on a CPU: a table in fp16 of the tanh approximation, used also for models
    that compute it by erf.
    """

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        halves = torch.nn.functional.gelu(x.half().float(), approximate="tanh").half().to(x.dtype)
        return torch.where(x >= 10, x, torch.where(x <= -10, torch.zeros_like(x), halves))


def with_llama_gelu(model: torch.nn.Module) -> bool:
    """Replaces the model's GELU by HalfGelu; returns False for a model that has none."""
    found = [(parent, name) for parent in model.modules() for name, child in parent.named_children() if "gelu" in type(child).__name__.lower()]
    for parent, name in found:
        setattr(parent, name, HalfGelu())
    return bool(found)


def least_divergence(model_path: Path, ids) -> float:
    """Returns the limit for f32.

    A model with a table in fp16 takes another of its entries after a rounding of fp32; a comparison
    with fp64 shows the effect.
    """
    exact, rounded = load(model_path).double(), load(model_path)
    if not with_llama_gelu(exact):
        return MOST_DIVERGENCE["f32"]
    with_llama_gelu(rounded)
    return max(MOST_DIVERGENCE["f32"], 4 * divergence(logits(exact, ids), logits(rounded, ids)))


def divergence(a: np.ndarray, b: np.ndarray, without: int = 0) -> float:
    """Returns the mean divergence over positions, without the `without` largest ones."""
    p, q = (torch.log_softmax(torch.tensor(x, dtype=torch.float64), -1) for x in (a, b))
    each = (p.exp() * (p - q)).sum(-1).flatten().sort().values
    return float(each[:len(each) - without].mean())


def perplexity(rows: np.ndarray, ids: list[list[int]]) -> float:
    losses, at = [], 0
    for row in ids:
        log_p = torch.log_softmax(torch.tensor(rows[at:at + len(row) - 1], dtype=torch.float64), -1)
        losses += (-log_p[range(len(row) - 1), row[1:]]).tolist()
        at += len(row)
    return float(np.exp(np.mean(losses)))


def check_merge(name: str, model_path: Path, settings: dict, folder: Path, ids: list[list[int]]) -> None:
    want = logits(make_adapter(load(model_path), settings, folder / "adapter"), ids)
    bare = logits(load(model_path), ids)
    forge("merge", "--model", model_path, "--adapter", folder / "adapter", "--dtype", "fp32", "--output", folder / "merged")
    got = logits(load(folder / "merged"), ids)
    worst = float(np.abs(got - want).max())
    check(f"merge {name}", worst <= 1e-5 * max(1, float(np.abs(want).max())),
          f"differs by {worst:.1e} of {np.abs(want).max():.2f}; the adapter by {np.abs(want - bare).max():.2f}")


def check_file(path: Path) -> None:
    reader = gguf.GGUFReader(path)
    for tensor in reader.tensors:
        values = gguf.dequantize(tensor.data, tensor.tensor_type)
        assert np.isfinite(values).all() and list(values.shape) == [int(n) for n in reversed(tensor.shape)], tensor.name


ROUNDED = {"f16": torch.float16, "bf16": torch.bfloat16}


def rounded(model: torch.nn.Module, dtype: torch.dtype) -> torch.nn.Module:
    """Rounds the matrices that a file of 16 bits would hold; vectors and routers stay in fp32
    there.
    """
    for name, weight in model.named_parameters():
        if weight.dim() > 1 and not name.endswith("mlp.gate.weight"):
            weight.data = weight.data.to(dtype).float()
    return model


def check_types(name: str, source: list, merged: Path, folder: Path, library: LlamaCpp, texts_ids) -> None:
    reference, as_there = load(merged), load(merged)
    gelu = with_llama_gelu(as_there)

    def export(kind: str) -> dict:
        return json.loads(forge("export", *source, "--gguf", "--type", kind, "--output", folder / f"gguf-{kind}", "--json", "--no-check"))

    exact_file = export("f32")
    exact_tensors = tensors(Path(exact_file["file"]))
    for kind in arguments.types.split(","):
        written = exact_file if kind == "f32" else export(kind)
        check_file(Path(written["file"]))
        blocks = None if kind in MOST_DIVERGENCE else compare(library, Path(written["file"]), exact_tensors, folder / "theirs.gguf")
        with library.load(written["file"]) as model:
            ids = texts_ids(model)
            want = logits(reference, ids)
            got = np.concatenate([model.logits(row) for row in ids])
            kl, worst = divergence(want, got), float(np.abs(want - got).max())
            # A divergence beyond 11 bits' is allowed only from GELU's table: with that table in
            # place, f32's limit holds.
            exact = divergence(logits(as_there, ids), got) if gelu and kind == "f32" else kl
            # Rounded weights choose another expert here and there, which is no fault: the file
            # holds the rounded model. llama.cpp's rounded activations may do so too, for a token or
            # two.
            if kind in ROUNDED and hasattr(reference.config, "num_experts_per_tok"):
                exact = kl = divergence(logits(rounded(load(merged), ROUNDED[kind]), ids), got, without=2)
            greedy = model.greedy(ids[0], 16)
        tokens = torch.tensor([ids[0]])
        reference.generation_config.eos_token_id = None  # or generate() would forbid it
        expected = reference.generate(tokens, max_new_tokens=16, min_new_tokens=16, do_sample=False)[0, len(ids[0]):].tolist()
        same = next((i for i, (a, b) in enumerate(zip(greedy, expected)) if a != b), 16)
        plain = kind in ("f32", "f16")
        before, after = perplexity(want, ids), perplexity(got, ids)
        if blocks:
            good, beside = blocks.good, f"{blocks.equal} of {blocks.tensors} tensors llama.cpp's"
        else:
            most = least_divergence(merged, ids) if kind == "f32" and gelu else MOST_DIVERGENCE[kind]
            good = exact < most and kl < MOST_DIVERGENCE["f16" if kind == "f32" else kind] and (not plain or same == 16)
            beside = f"at most {most:.1e}"
        check(f"{name} {kind}", good, f"{written['bytes']:,} bytes, divergence {kl:.1e}{f' ({exact:.1e} with the same GELU)' if exact != kl else ''}, logits differ by {worst:.2g}, perplexity "
              f"{before:.4f} → {after:.4f} ({100 * (after / before - 1):+.1f} %), greedy equal for {same} of 16, {beside}")


def check_lora(name: str, model_path: Path, adapter: Path, folder: Path, library: LlamaCpp, texts_ids) -> None:
    """Checks the adapter's GGUF over a model path whose `folder` holds the merged model."""
    base = json.loads(forge("export", "--model", model_path, "--gguf", "--type", "f32", "--output", folder / "base", "--json", "--no-check"))["file"]
    merged = json.loads(forge("export", "--model", model_path, "--adapter", adapter, "--gguf", "--type", "f32", "--output",
                              folder / "whole", "--json", "--no-check"))["file"]
    lora = json.loads(forge("export", "--model", model_path, "--adapter", adapter, "--gguf-lora", "--output", folder / "lora", "--json"))["file"]
    with library.load(base) as one, library.load(merged) as other:
        ids = texts_ids(one)
        plain = np.concatenate([one.logits(row) for row in ids])
        one.set_lora(lora)
        a, b = (np.concatenate([model.logits(row) for row in ids]) for model in (one, other))
    check(f"{name} LoRA GGUF", divergence(b, a) < least_divergence(folder / "merged", ids),
          f"divergence {divergence(b, a):.1e} from the merged file, {divergence(b, plain):.1e} without the adapter")


def as_llama_has_it(model_path: Path) -> None:
    """Writes the variant's family with random weights and settings that llama.cpp knows.

    They are: every fourth layer without a window, one base of the angles, heads that are together
    as wide as the model, and a delta rule whose keys are as wide as its values."""
    config = AutoConfig.from_pretrained(model_path)
    if config.model_type == "glm":
        config.head_dim = config.hidden_size // config.num_attention_heads
    elif hasattr(config, "linear_value_head_dim"):
        config.linear_value_head_dim = config.linear_key_head_dim
        config.rope_parameters["mrope_section"] = [1, 1, 0]
    else:
        config.num_hidden_layers = 5
        config.layer_types = ["full_attention" if layer == 3 else "sliding_attention" for layer in range(5)]
    if config.model_type == "cohere2":
        config.sliding_window_pattern = 4
    if config.model_type == "olmo3":
        config.rope_parameters["sliding_attention"]["rope_theta"] = config.rope_parameters["full_attention"]["rope_theta"]
    torch.manual_seed(6)
    config.initializer_range = 0.2
    AutoModelForCausalLM.from_config(config).save_pretrained(model_path)


def check_tiny_gguf(variant: str, model_path: Path, folder: Path, library: LlamaCpp, ids) -> None:
    if variant in ("gemma2", "gemma3", "smollm3"):  # a setting for which GGUF has no key must have the value that its readers assume
        config = json.loads((model_path / "config.json").read_text())
        assumed = {"no_rope_layers": [1, 1, 1]} if variant == "smollm3" else {"query_pre_attn_scalar": config["head_dim"]}
        assumed |= {"sliding_window_pattern": 6} if variant == "gemma3" else {}
        (model_path / "config.json").write_text(json.dumps(config | assumed))
    if variant in ("glm", "cohere2", "olmo3"):
        as_llama_has_it(model_path)
    if variant.startswith(("qwen3-next", "qwen3-5")):
        config = json.loads((model_path / "config.json").read_text()) | GGUFS[variant]
        (model_path / "config.json").write_text(json.dumps({key: value for key, value in config.items() if value is not None}))
        as_llama_has_it(model_path)
    model = load(model_path)
    # peft adapts a mixture's experts as transformers 5 has joined them.
    mixture = getattr(model.config, "num_experts_per_tok", None)
    targets = ["q_proj", "k_proj", "v_proj", "o_proj"] if mixture else "all-linear"
    make_adapter(model, dict(r=4, lora_alpha=8, target_modules=targets), folder / "adapter")
    source = ["--model", model_path, "--adapter", folder / "adapter"]
    forge("merge", *source, "--dtype", "fp32", "--output", folder / "merged", "--no-check")
    check_types(variant, source, folder / "merged", folder, library, lambda model: ids)
    check_lora(variant, model_path, folder / "adapter", folder, library, lambda model: ids)


LLAMA31 = {"rope_type": "llama3", "rope_theta": 500000.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
           "original_max_position_embeddings": 8192}
LONGROPE = {"rope_type": "longrope", "rope_theta": 10000.0, "factor": 4.0, "original_max_position_embeddings": 4096,
            "short_factor": [1.0, 1.1, 1.3, 1.7], "long_factor": [1.0, 1.5, 3.0, 9.0]}


def check_long(folder: Path, library: LlamaCpp) -> None:
    """Rotary scaling that a GGUF keeps as tensors: logits and greedy text after more tokens than
    the original context.
    """
    for name, variant, rope, count, most in (("llama3", "base", LLAMA31, 8400, 131072), ("llama3-32", "base", LLAMA31 | {"factor": 32.0}, 8400, 131072),
                                             ("longrope", "phi3-longrope", LONGROPE, 4500, 8192)):
        model_path = write_variant(variant, folder / "long" / name)
        path = model_path / "config.json"
        config = json.loads(path.read_text()) | {"rope_parameters": rope, "max_position_embeddings": most}
        config = {key: value for key, value in config.items() if key not in ("rope_scaling", "rope_theta", "original_max_position_embeddings")}
        path.write_text(json.dumps(config))
        ids = [5 + (7 * i * i + 3 * i // 5) % 370 for i in range(count)]
        file = json.loads(forge("export", "--model", model_path, "--gguf", "--type", "f32", "--output", folder / f"{name}-gguf", "--no-check", "--json"))["file"]
        reference = load(model_path)
        with torch.no_grad():
            want = reference(torch.tensor([ids])).logits[0, -64:].numpy()
        with library.load(file, context=count + 64) as model:
            got = model.logits(ids)[-64:]
            greedy = model.greedy(ids, 24)
        expected = reference.generate(torch.tensor([ids]), max_new_tokens=24, min_new_tokens=24, do_sample=False)[0, count:].tolist()
        path.write_text(json.dumps(config | {"rope_parameters": {"rope_type": "default", "rope_theta": rope["rope_theta"]}}))
        with torch.no_grad():
            unscaled = load(model_path)(torch.tensor([ids])).logits[0, -64:].numpy()
        worst, apart = float(np.abs(want - got).max()), float(np.abs(want - unscaled).max())
        check(f"long {name}", greedy == expected and worst < 1e-3 * np.abs(want).max() and apart > 10 * worst,
              f"{count} tokens, logits differ by {worst:.1e} of {np.abs(want).max():.2f}, by {apart:.1e} from those without scaling, greedy equal for "
              f"{next((i for i, (a, b) in enumerate(zip(greedy, expected)) if a != b), 24)} of 24")


def tiny(folder: Path, library: LlamaCpp) -> None:
    if "long" in arguments.what:
        check_long(folder, library)
    ids = [[5 + (7 * i * i + 3 * k) % 370 for i in range(24)] for k in range(3)]
    for variant in arguments.variants.split(","):
        model_path = write_variant(variant, folder / "models" / variant)
        model = load(model_path)
        for shape in arguments.shapes.split(","):
            settings = SHAPES[shape]
            settings = settings | ({"target_modules": linears_of(model)} if settings["target_modules"] == ALL else {})
            if "merge" in arguments.what and fits(settings, model):
                check_merge(f"{variant} {shape}", model_path, settings, folder / f"{variant}-{shape}", ids)
        if "gguf" in arguments.what:
            check_tiny_gguf(variant, model_path, folder / f"{variant}-gguf", library, ids)


def trained_adapter(path: Path, folder: Path) -> None:
    """Trains forge's own adapter, of rank 8 on every linear layer."""
    job = {"name": "trained", "output_dir": str(folder), "model": {"path": str(path.resolve())}, "adapter": {"type": "lora", "rank": 8, "alpha": 16},
           "data": {"train": str(arguments.train.resolve()), "max_length": 512},
           "train": {"max_steps": 60, "global_batch_size": 8}, "optimizer": {"learning_rate": 5e-4}, "hardware": {"device": "cpu"}}
    (folder / "trained.json").write_text(json.dumps(job))
    forge("run", folder / "trained.json", "--quiet")
    (folder / "adapter").symlink_to(folder / "trained/adapter")


def real(path: Path, folder: Path, library: LlamaCpp) -> None:
    def texts_ids(model):
        if not arguments.text:
            return [model.tokenize(text) for text in TEXTS]
        ids = model.tokenize(arguments.text.read_text())[:1024]
        return [ids[at:at + 256] for at in range(0, len(ids), 256)]

    if arguments.train:
        trained_adapter(path, folder)
    else:
        make_adapter(load(path), dict(r=8, lora_alpha=16, target_modules=ALL), folder / "adapter")
    source = ["--model", path, "--adapter", folder / "adapter"]
    forge("merge", *source, "--dtype", "fp32", "--output", folder / "merged")
    tokenizer = AutoTokenizer.from_pretrained(folder / "merged")
    with library.load(json.loads(forge("export", *source, "--gguf", "--type", "q8_0", "--output", folder / "words", "--json", "--no-check"))["file"]) as model:
        theirs = [model.tokenize(text) for text in TEXTS]
        check("tokens", theirs == [tokenizer(text)["input_ids"] for text in TEXTS], f"{sum(map(len, theirs))} tokens")
    with torch.no_grad():
        adapted = PeftModel.from_pretrained(load(path), folder / "adapter").eval()
        want, got = logits(adapted, theirs), logits(load(folder / "merged"), theirs)
    worst = float(np.abs(want - got).max())
    check("merge", worst <= 1e-5 * np.abs(want).max(), f"differs by {worst:.1e} of {np.abs(want).max():.2f}")
    check_types("types", source, folder / "merged", folder, library, texts_ids)
    check_lora("adapter", path, folder / "adapter", folder, library, texts_ids)


parser = argparse.ArgumentParser()
parser.add_argument("forge")
parser.add_argument("--llama", required=True)
parser.add_argument("--model", type=Path)
parser.add_argument("--what", default="merge,gguf,long", help="checks of the tiny model's variants; long: past the original context")
parser.add_argument("--types", default=",".join(TYPES))
parser.add_argument("--variants", default=",".join(VARIANTS), help="variants of the tiny model")
parser.add_argument("--shapes", default=",".join(SHAPES), help="shapes of the adapters that are merged into them")
parser.add_argument("--train", type=Path, help="rows to train a real model's adapter on")
parser.add_argument("--text", type=Path, help="text whose perplexity compares the types of a real model; its first 1,024 tokens are used")
arguments = parser.parse_args()
with tempfile.TemporaryDirectory(prefix="forge-export-") as name:
    llama = LlamaCpp(arguments.llama)
    real(arguments.model, Path(name), llama) if arguments.model else tiny(Path(name), llama)
tally.end()
