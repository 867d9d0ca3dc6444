"""The peer: TRL's DPOTrainer on the same rows, as its documentation uses it.

    python bench/preference/peer.py JOB.json METRICS.jsonl     # JOB is a forge job with the few keys that against_trl.py writes

The reference is the model without its adapter, computed in each step or beforehand. A step's tokens
are the real ones of both answers.
"""
import json
import sys
import time
from pathlib import Path

import torch
from datasets import load_dataset
from peft import LoraConfig
from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback
from trl import DPOConfig, DPOTrainer


class Events(TrainerCallback):
    """Writes one line per step: its duration and the trainer's counts."""

    def __init__(self, path: str):
        self.file, self.began, self.tokens, self.loss = open(path, "w"), 0.0, 0, 0.0
        self.trainer = None

    def on_step_begin(self, *_, **__):
        self.began = time.monotonic()

    def on_step_end(self, args, state, control, **_):
        seconds, total = time.monotonic() - self.began, self.trainer._total_train_tokens
        event = {"event": "step", "step": state.global_step, "tokens": int(total - self.tokens), "step_seconds": seconds, "loss": 0.0}
        self.tokens = total
        print(json.dumps(event), file=self.file, flush=True)


def main() -> None:
    job = json.loads(Path(sys.argv[1]).read_text())
    train, objective, adapter = job["train"], job["objective"], job["adapter"]
    torch.set_num_threads(train["threads"])
    path = job["model"]["path"]
    model = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32)
    tokenizer = AutoTokenizer.from_pretrained(path)
    config = DPOConfig(
        output_dir=str(Path(sys.argv[2]).parent / "trl"), per_device_train_batch_size=train["global_batch_size"],
        gradient_accumulation_steps=1, max_steps=train["max_steps"], learning_rate=job["optimizer"]["learning_rate"],
        lr_scheduler_type="constant", beta=0.1, max_length=job["data"]["max_length"], seed=job["seed"], report_to=[],
        precompute_ref_log_probs=objective["reference_cache"], gradient_checkpointing=False, save_strategy="no", use_cpu=True,
        logging_strategy="no", disable_tqdm=True, bf16=train["precision"] == "bf16", optim="adamw_torch", weight_decay=0.0)
    lora = LoraConfig(task_type="CAUSAL_LM", r=adapter["rank"], lora_alpha=adapter["alpha"], target_modules="all-linear")
    events = Events(sys.argv[2])
    trainer = DPOTrainer(model, args=config, train_dataset=load_dataset("json", data_files=job["data"]["train"], split="train"),
                         processing_class=tokenizer, peft_config=lora, callbacks=[events])
    events.trainer = trainer
    trainer.train()


if __name__ == "__main__":
    main()
