"""Oracle of the real model: SmolLM2-135M-Instruct, dequantised from its GGUF to fp32, by
transformers + peft.

    python tests/parity/make_smollm2_goldens.py --gguf SmolLM2-135M-Instruct.gguf [--cache ~/.cache/forge/parity]

Writes to the cache (large, never committed): base/ (the dequantised model as safetensors),
adapter-init/ (as PEFT writes it), lora/ and full/ (final tensors). Writes beside this file (small,
committed): goldens/smollm2.json, goldens/smollm2-logits.safetensors and
goldens/smollm2-changes.safetensors. About 5 minutes on 2 cores.

Rows are smollm2-rows.jsonl: ids, because transformers' copy of this tokenizer does not split digits
as the GGUF says.
"""
import argparse
import json
import time
from pathlib import Path

import torch
from peft import LoraConfig, PeftModel, get_peft_model, get_peft_model_state_dict
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, LlamaForCausalLM

import oracle
import smollm2

HERE = Path(__file__).resolve().parent
GOLDENS = HERE / "goldens"
LOGIT_ROWS = (0, 1, 2, 3)
VOCABULARY_STRIDE = 601  # prime; 82 of the 49,152 ids


def dequantise(gguf: Path, folder: Path) -> None:
    if (folder / "model.safetensors").exists():
        return
    read = AutoModelForCausalLM.from_pretrained(gguf.parent, gguf_file=gguf.name, dtype=torch.float32)
    settings = {k: v for k, v in read.config.to_dict().items() if k not in ("quantization_config", "dtype")}
    plain = LlamaForCausalLM(LlamaConfig(**settings))  # transformers refuses to save a model that it calls quantised
    plain.load_state_dict(read.state_dict())
    plain.to(torch.float32).save_pretrained(folder)
    AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name).save_pretrained(folder)


def load_base(cache: Path):
    return AutoModelForCausalLM.from_pretrained(cache / "base", dtype=torch.float32, attn_implementation="eager")


def make_initial_adapter(cache: Path) -> None:
    torch.manual_seed(smollm2.ADAPTER_SEED)
    model = get_peft_model(load_base(cache), LoraConfig(task_type="CAUSAL_LM", **smollm2.LORA))
    model.save_pretrained(cache / "adapter-init")


def logits_golden(cache: Path, rows) -> dict:
    model = load_base(cache).eval()
    tensors, largest = {}, []
    for index in LOGIT_ROWS:
        ids = torch.tensor(rows[index]["input_ids"])
        with torch.no_grad():
            logits = model(input_ids=ids[None], use_cache=False).logits[0]
        tensors[f"ids_{index}"] = ids
        tensors[f"logits_{index}"] = logits[:, ::VOCABULARY_STRIDE].contiguous()
        tensors[f"logsumexp_{index}"] = logits.double().logsumexp(-1).float()
        top = logits.topk(8)
        tensors[f"top_ids_{index}"], tensors[f"top_logits_{index}"] = top.indices, top.values
        largest.append(logits.abs().max().item())
    save_file(tensors, GOLDENS / "smollm2-logits.safetensors")
    losses = oracle.example_losses(model, [rows[i] for i in LOGIT_ROWS])
    return {"vocabulary_stride": VOCABULARY_STRIDE, "max_abs_logit": largest, "example_losses": losses}


def trained_state(model, lora: bool) -> dict[str, torch.Tensor]:
    if lora:
        return {n: t.detach().clone().contiguous() for n, t in get_peft_model_state_dict(model).items()}
    return {n: p.detach().clone() for n, p in model.named_parameters()}


def start_model(name: str, cache: Path):
    model = load_base(cache)
    if smollm2.RUNS[name]["lora"]:
        model = PeftModel.from_pretrained(model, cache / "adapter-init", is_trainable=True)
    return model


def train(name: str, cache: Path, rows, thin: dict) -> dict:
    """Trains one of smollm2.RUNS; keeps the final tensors in the cache and a thin sample of the
    change for git.
    """
    run = smollm2.RUNS[name]
    if run["lora"]:
        make_initial_adapter(cache)
    model = start_model(name, cache)
    start = trained_state(model, run["lora"])
    began = time.time()

    def progress(step, record):
        print(f"{name} step {step}: loss {record.losses[-1]:.6f}, {time.time() - began:.0f} s", flush=True)

    record = oracle.train(model, smollm2.batches(rows), run["settings"], progress)
    final = trained_state(model, run["lora"])
    (cache / name).mkdir(exist_ok=True)
    save_file(final, cache / name / "final.safetensors")
    norms = {}
    for tensor in sorted(final):
        change = (final[tensor].double() - start[tensor].double()).flatten()
        norms[tensor] = change.norm().item()
        thin[f"{name}.{tensor}"] = change[:: max(1, change.numel() // 8)][:8].float().contiguous()
    model.eval()
    examples = oracle.example_losses(model, smollm2.batches(rows)[0])
    return {
        "losses": record.losses,
        "grad_norms": record.grad_norms,
        "learning_rates": record.learning_rates,
        "change_norms": norms,
        "final_example_losses": examples,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gguf", type=Path, required=True)
    parser.add_argument("--cache", type=Path, default=smollm2.CACHE)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--only", choices=["logits", *smollm2.RUNS], help="redo one part")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    args.cache.mkdir(parents=True, exist_ok=True)
    dequantise(args.gguf, args.cache / "base")
    rows = oracle.read_rows(smollm2.ROWS)
    path, thin_path = GOLDENS / "smollm2.json", GOLDENS / "smollm2-changes.safetensors"
    summary = json.loads(path.read_text()) if path.exists() else {}
    thin = load_file(thin_path) if thin_path.exists() else {}
    for part in [args.only] if args.only else ["logits", *smollm2.RUNS]:
        summary[part] = logits_golden(args.cache, rows) if part == "logits" else train(part, args.cache, rows, thin)
        path.write_text(json.dumps(summary, indent=1) + "\n")
        save_file(thin, thin_path)


if __name__ == "__main__":
    main()
