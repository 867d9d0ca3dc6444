"""The peer: transformers + peft on the same rows, in a plain loop without Trainer's overhead.

    python bench/cpu/peer.py JOB.json METRICS.jsonl     # JOB is a forge job with the few keys that run.py writes
    python bench/cpu/peer.py JOB.json --start FOLDER    # writes the initialised adapter and trains nothing

Batches are padded to their longest row. The loss is the mean over the supervised tokens, as
transformers computes it from labels. Attention is transformers' default on a CPU (LibTorch's fused
one). `precision` is the dtype of the frozen weights and activations; adapter and optimizer are
fp32, as peft makes them. bf16 runs under autocast, as Trainer does. bitsandbytes quantises the
base, if the job asks for that.
"""
import contextlib
import json
import sys
import time
from pathlib import Path

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import AutoModelForCausalLM, BitsAndBytesConfig, get_scheduler

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "parity"))
import oracle  # noqa: E402


def build(job: dict, dtype):
    quantized = {}
    if job["model"].get("quantization"):
        quantized = {"device_map": {"": "cpu"}, "quantization_config": BitsAndBytesConfig(
            load_in_4bit=True, bnb_4bit_quant_type=job["model"]["quantization"], bnb_4bit_compute_dtype=dtype,
            bnb_4bit_use_double_quant=job["model"]["double_quantization"])}
    base = AutoModelForCausalLM.from_pretrained(job["model"]["path"], dtype=dtype, **quantized)
    base.config.use_cache = False
    if job["adapter"].get("init_from"):
        return PeftModel.from_pretrained(base, job["adapter"]["init_from"], is_trainable=True).train()
    lora = LoraConfig(task_type="CAUSAL_LM", r=job["adapter"]["rank"], lora_alpha=job["adapter"]["alpha"],
                      lora_dropout=0.0, target_modules="all-linear")
    torch.manual_seed(job["seed"])
    return get_peft_model(base, lora).train()


def main() -> None:
    job = json.loads(Path(sys.argv[1]).read_text())
    train = job["train"]
    if sys.argv[2] == "--start":
        return build(job, torch.float32).save_pretrained(sys.argv[3])
    metrics = Path(sys.argv[2]).open("w")
    torch.set_num_threads(train["threads"])
    low = train["precision"] == "bf16"
    model = build(job, torch.bfloat16 if low else torch.float32)
    rows = oracle.read_rows(job["data"]["train"][0]["path"])
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=job["optimizer"]["learning_rate"], weight_decay=0.0)
    schedule = get_scheduler("linear", optimizer, 0, train["max_steps"])
    size = train["global_batch_size"]
    for step in range(train["max_steps"]):
        began = time.monotonic()
        batch = oracle.pad(rows[step * size : (step + 1) * size])
        with torch.autocast("cpu", torch.bfloat16) if low else contextlib.nullcontext():
            loss = model(**batch).loss
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(trained, train["max_grad_norm"]).item()
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        event = {"event": "step", "step": step + 1, "loss": loss.item(), "grad_norm": norm,
                 "tokens": int(batch["attention_mask"].sum()), "step_seconds": time.monotonic() - began}
        print(json.dumps(event), file=metrics, flush=True)


if __name__ == "__main__":
    main()
