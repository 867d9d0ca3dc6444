#!/usr/bin/env python3
"""transformers + peft, LoRA rank 16 on all linears, random weights: baseline.py MODEL
[--checkpointing] [--fp32-adapter] [--nf4 FOLDER]

Runs the peer that forge is compared with as a user would run it: bf16, sdpa, fused AdamW,
micro-batches of 8,192 tokens in full-length sequences. Prints one JSON line: tokens/s (of the
median step) and peak memory."""
import argparse, json, statistics, time

import torch
from peft import LoraConfig, get_peft_model
from transformers import LlamaConfig, LlamaForCausalLM

MODELS = {
    "llama-3.1-8b": (dict(hidden_size=4096, intermediate_size=14336, num_hidden_layers=32, num_attention_heads=32,
                          num_key_value_heads=8, vocab_size=128256, rope_theta=500000.0), 4096),
    "llama-3.2-1b": (dict(hidden_size=2048, intermediate_size=8192, num_hidden_layers=16, num_attention_heads=32,
                          num_key_value_heads=8, vocab_size=128256, rope_theta=500000.0, tie_word_embeddings=True), 2048),
    "tinyllama": (dict(hidden_size=2048, intermediate_size=5632, num_hidden_layers=22, num_attention_heads=32,
                       num_key_value_heads=4, vocab_size=32000), 2048),
}
LINEARS = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]


def in_four_bits(folder):
    from transformers import BitsAndBytesConfig
    quantization = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_use_double_quant=True,
                                      bnb_4bit_compute_dtype=torch.bfloat16)
    return LlamaForCausalLM.from_pretrained(folder, quantization_config=quantization, dtype=torch.bfloat16, device_map={"": 0},
                                            attn_implementation="sdpa", use_cache=False)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", choices=MODELS)
    parser.add_argument("--checkpointing", action="store_true")
    parser.add_argument("--fp32-adapter", action="store_true", help="keep the adapter in fp32, peft's default")
    parser.add_argument("--nf4", metavar="FOLDER", help="load the model in this folder in 4 bits by bitsandbytes, rows of 2,048 tokens")
    parser.add_argument("--steps", type=int, default=9)
    args = parser.parse_args()
    config, length = MODELS[args.model]
    torch.manual_seed(0)
    torch.set_default_dtype(torch.bfloat16)
    if args.nf4:
        length, model = 2048, in_four_bits(args.nf4)
    else:
        with torch.device("cuda"):
            model = LlamaForCausalLM(LlamaConfig(**config, attn_implementation="sdpa", use_cache=False))
    model = get_peft_model(model, LoraConfig(r=16, lora_alpha=32, lora_dropout=0.0, target_modules=LINEARS),
                           autocast_adapter_dtype=args.fp32_adapter)
    if args.checkpointing:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
        model.enable_input_require_grads()
    model.train()
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-4, fused=True)
    batch = 8192 // length
    times = []
    for step in range(args.steps):
        ids = torch.randint(0, config["vocab_size"], (batch, length), device="cuda")
        torch.cuda.synchronize()
        begin = time.perf_counter()
        model(input_ids=ids, labels=ids).loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - begin)
    median = statistics.median(times[3:])
    print(json.dumps({"measure": "baseline", "model": args.model, "length": length, "tokens": batch * length,
                      "nf4": bool(args.nf4), "checkpointing": args.checkpointing, "fp32_adapter": args.fp32_adapter,
                      "tokens_per_second": round(batch * length / median), "step_seconds": round(median, 4),
                      "peak_gib": round(torch.cuda.max_memory_allocated() / 2**30, 2)}))


main()
