#!/usr/bin/env python3
"""Compares the language model of a class with towers (Gemma 3, Mistral 3) with transformers + peft,
in both generations of tensor names.

    python tests/parity/check_towers.py build/bin/forge     # needs torch, transformers, peft

For each class and generation: forge continues an adapter of PEFT as PEFT does, and writes it under
PEFT's names; the merged checkpoint has the base's names and the towers' bytes, and computes in
transformers what PEFT does; so does one that was trained whole.
"""
import argparse
import copy
import json
import shutil
import sys
import tempfile
from pathlib import Path

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.torch import load_file, save_file
from transformers import Gemma3Config, Gemma3ForConditionalGeneration, Mistral3Config, Mistral3ForConditionalGeneration

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests/parity"), str(ROOT / "tests/fixtures")]
import cases  # noqa: E402
import forge_run  # noqa: E402
import oracle  # noqa: E402
from tally import Tally  # noqa: E402

GOLDENS = ROOT / "tests/parity/goldens"
STEPS = 3
TEXT = {"vocab_size": 384, "hidden_size": 32, "intermediate_size": 88, "num_hidden_layers": 4, "max_position_embeddings": 256,
        "bos_token_id": 1, "eos_token_id": 2}
TOWER = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "image_size": 28, "patch_size": 14}
GEMMA = TEXT | {"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 12, "query_pre_attn_scalar": 10, "sliding_window": 8,
                "sliding_window_pattern": 2, "rope_scaling": {"rope_type": "linear", "factor": 8.0}}
MISTRAL = TEXT | {"model_type": "mistral", "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8, "sliding_window": None}
GEMMA_OUTSIDE = {"image_token_index": 400, "mm_tokens_per_image": 4, "vision_config": TOWER | {"model_type": "siglip_vision_model"}}
MISTRAL_OUTSIDE = {"image_token_index": 383, "vision_config": TOWER | {"model_type": "pixtral", "head_dim": 8}}
CLASSES = {
    "gemma3": (Gemma3ForConditionalGeneration, Gemma3Config, {"text_config": GEMMA, **GEMMA_OUTSIDE}),
    "gemma3-untied": (Gemma3ForConditionalGeneration, Gemma3Config, {"text_config": GEMMA, "tie_word_embeddings": False, **GEMMA_OUTSIDE}),
    "mistral3": (Mistral3ForConditionalGeneration, Mistral3Config, {"text_config": MISTRAL, "tie_word_embeddings": False, **MISTRAL_OUTSIDE}),
    "mistral3-tied": (Mistral3ForConditionalGeneration, Mistral3Config, {"text_config": MISTRAL, **MISTRAL_OUTSIDE}),
}
NAMES = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
TOWERS = r"model\.(vision_tower|multi_modal_projector)\..*"


def write_base(kind: str, generation: str, folder: Path) -> type:
    """Writes a checkpoint of random weights with `generation`'s names; returns its class."""
    model_class, config_class, settings = CLASSES[kind]
    torch.manual_seed(11)
    model = model_class(config_class(**copy.deepcopy(settings)))
    with torch.no_grad():
        for name, tensor in model.named_parameters():
            if tensor.dim() > 1:
                tensor.normal_(0, 1.0 if "embed_tokens" in name else 1.2 / tensor.shape[-1] ** 0.5)
            else:
                tensor.add_(0.1 * torch.randn_like(tensor))
    model.save_pretrained(folder)
    if generation == "current":
        tied = model.config.tie_word_embeddings
        state = {name: tensor.clone() for name, tensor in model.state_dict().items() if not (tied and name == "lm_head.weight")}
        save_file(state, folder / "model.safetensors", {"format": "pt"})
    names = list(load_file(folder / "model.safetensors"))
    assert any(name.startswith({"older": "language_model.model.", "current": "model.language_model."}[generation]) for name in names), names
    config = json.loads((folder / "config.json").read_text())
    if kind == "mistral3":  # as published: nothing says that head and embedding are one, or that they are not
        for place in (config, config["text_config"]):
            place.pop("tie_word_embeddings", None)
    (folder / "config.json").write_text(json.dumps(config))
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copyfile(ROOT / "tests/fixtures/tiny-llama" / name, folder / name)
    (folder / "preprocessor_config.json").write_text('{"image_processor_type": "SiglipImageProcessor"}')
    return model_class


@torch.no_grad()
def logits(model, rows) -> torch.Tensor:
    model.eval()
    return torch.cat([model(input_ids=torch.tensor([row["input_ids"]])).logits[0] for row in rows[:4]])


def relative(got: torch.Tensor, want: torch.Tensor) -> float:
    return float((got - want).abs().max() / want.abs().max())


def job_of(name: str, base: Path, settings, root: Path, adapter: dict) -> dict:
    case = cases.Case(name, settings, lora={"r": 1, "lora_alpha": 1, "target_modules": ""}, init_from=False)
    return cases.job(case, name, base, GOLDENS, root / "runs") | {"adapter": adapter}


def check_adapter(name: str, load, base: Path, root: Path, rows, forge: str, tally: Tally) -> None:
    torch.manual_seed(7)
    model = get_peft_model(load(base), LoraConfig(task_type="CAUSAL_LM", r=4, lora_alpha=8, target_modules=NAMES, exclude_modules=TOWERS))
    with torch.no_grad():
        for key, tensor in model.named_parameters():
            if "lora_B" in key:
                tensor.normal_(0, 0.05)
    model.save_pretrained(root / f"{name}-start")
    settings = cases.Settings(5e-3, STEPS, eps=1e-4)
    record = oracle.train(model, [rows[i:i + 8] for i in range(0, 8 * STEPS, 8)], settings)
    run = forge_run.run_job(forge, job_of(name, base, settings, root, {"type": "lora", "init_from": str(root / f"{name}-start")}), root)
    losses = max(abs(a - b) / b for a, b in zip(run.losses, record.losses, strict=True))
    tally.check(f"{name} losses", losses < 1e-5, f"{losses:.1e}")
    theirs = {key: tuple(tensor.shape) for key, tensor in load_file(root / f"{name}-start/adapter_model.safetensors").items()}
    ours = {key: tuple(tensor.shape) for key, tensor in load_file(run.folder / "adapter/adapter_model.safetensors").items()}
    tally.check(f"{name} adapter names", ours == theirs, f"{len(ours)} of {len(theirs)}, {sorted(set(ours) ^ set(theirs))[:2]}")
    loaded = PeftModel.from_pretrained(load(base), run.folder / "adapter")
    adapted = {key for key, _ in loaded.named_modules() if key.endswith("lora_A.default")}
    tally.check(f"{name} adapts no tower", all(".language_model." in key for key in adapted), f"{len(adapted)} layers")
    want = logits(model, rows)
    tally.check(f"{name} in PEFT", relative(logits(loaded, rows), want) < 1e-4, f"{relative(logits(loaded, rows), want):.1e}")
    check_merged(name, load, base, run.folder, want, rows, forge, tally)


def tensors_of(folder: Path) -> dict:
    return {key: tensor for path in sorted(folder.glob("*.safetensors")) for key, tensor in load_file(path).items()}


def check_whole(name: str, folder: Path, base: Path, load, want, rows, tally: Tally) -> None:
    """Checks that the folder holds all of the base, under its names, with the towers' bytes, and
    computes `want`.
    """
    before, after = tensors_of(base), tensors_of(folder)
    towers = [key for key in before if "language_model" not in key and not key.endswith("lm_head.weight")]
    same = all(torch.equal(before[key], after[key]) for key in towers if key in after)
    tally.check(f"{name} tensors", set(before) == set(after) and same, f"{len(after)}, {len(towers)} of towers, {sorted(set(before) ^ set(after))[:2]}")
    got = logits(load(folder), rows)
    tally.check(f"{name} in transformers", relative(got, want) < 1e-4, f"{relative(got, want):.1e}")
    tally.check(f"{name} processor", (folder / "preprocessor_config.json").exists(), "")


def check_merged(name: str, load, base: Path, run: Path, want, rows, forge: str, tally: Tally) -> None:
    forge_run.call(forge, "merge", run, "--dtype", "fp32", "--max-shard-size", "0.0001")
    check_whole(f"{name} merged", run / "merged", base, load, want, rows, tally)


def check_full(name: str, load, base: Path, root: Path, rows, forge: str, tally: Tally) -> None:
    model = load(base)
    for key, tensor in model.named_parameters():
        tensor.requires_grad_("language_model" in key or key == "lm_head.weight")
    settings = cases.Settings(1e-3, STEPS, eps=1e-4)
    record = oracle.train(model, [rows[i:i + 8] for i in range(0, 8 * STEPS, 8)], settings)
    run = forge_run.run_job(forge, job_of(f"{name}-full", base, settings, root, {"type": "none"}), root)
    losses = max(abs(a - b) / b for a, b in zip(run.losses, record.losses, strict=True))
    tally.check(f"{name} full losses", losses < 1e-5, f"{losses:.1e}")
    check_whole(f"{name} full", run.folder / "model", base, load, logits(model, rows), rows, tally)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("forge")
    parser.add_argument("--only", default="")
    arguments = parser.parse_args()
    forge = str(Path(arguments.forge).resolve())
    rows = oracle.read_rows(GOLDENS / "tiny-batches.jsonl")
    tally = Tally()
    with tempfile.TemporaryDirectory(prefix="forge-towers-") as folder:
        for kind in CLASSES:
            for generation in ("older", "current"):
                name = f"{kind}-{generation}"
                if arguments.only not in name:
                    continue
                root = Path(folder) / name
                root.mkdir()
                model_class = write_base(kind, generation, root / "base")
                load = lambda path: model_class.from_pretrained(path, dtype=torch.float32, attn_implementation="eager")  # noqa: B023, E731
                check_adapter(name, load, root / "base", root, rows, forge, tally)
                check_full(name, load, root / "base", root, rows, forge, tally)
    tally.end()


if __name__ == "__main__":
    main()
