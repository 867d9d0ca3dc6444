#!/usr/bin/env python3
"""Takes vectors of a model from transformers, for `forge family check FILE MODEL --vectors OUT`:
logits, gradients, the likeliest text and the names of parameters, in fp32 on the CPU.

    python3 family_vectors.py MODEL OUT.json
    python3 family_vectors.py CONFIG OUT.json --save TINY --set hidden_size=64 --set num_hidden_layers=3 …

MODEL is a Hugging Face folder. With --save, a model with random weights is made of the config.json
in the folder CONFIG with other sizes, and saved: a large model is checked by a small one of its
class. Its tokenizer is copied. Needs torch, transformers and safetensors.
"""
import argparse
import json
import math
import shutil
from pathlib import Path

LENGTHS, GREEDY, ENTRIES = (5, 17, 33), 20, 16
TOKENIZER = ("tokenizer.json", "tokenizer.model", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json")


def small_model(args):
    """Returns a model with random weights, whose norms and biases are random, too."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    config = AutoConfig.from_pretrained(args.model, trust_remote_code=args.trust_remote_code)
    for setting in args.set:
        key, _, value = setting.partition("=")
        setattr(config, key, json.loads(value))
    torch.manual_seed(args.seed)
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32, trust_remote_code=args.trust_remote_code)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.add_(0.1 * torch.randn_like(parameter))
    model.save_pretrained(args.save)
    for name in TOKENIZER:
        if (Path(args.model) / name).exists():
            shutil.copy(Path(args.model) / name, Path(args.save) / name)


def prompts_of(vocabulary: int, longest: int, seed: int) -> list:
    """Returns texts of random tokens; the first few ids are often special."""
    import torch

    generator = torch.Generator().manual_seed(seed)
    lengths = [min(length, longest) for length in LENGTHS]
    return [torch.randint(min(3, vocabulary - 1), vocabulary, (length,), generator=generator).tolist() for length in lengths]


def greedy(model, prompt: list) -> list:
    """Returns the likeliest token after each. Ends of texts do not end it."""
    import torch

    ids = list(prompt)
    for _ in range(GREEDY):
        with torch.no_grad():
            ids.append(model(torch.tensor([ids]), use_cache=False).logits[0, -1].argmax().item())
    return ids[len(prompt):]


def gradients(model, ids: list) -> tuple:
    """Returns the mean loss of a text, and each parameter's gradient: its norm and a few entries."""
    import torch

    model.zero_grad(set_to_none=True)
    logits = model(torch.tensor([ids]), use_cache=False).logits[0, :-1]
    loss = torch.nn.functional.cross_entropy(logits, torch.tensor(ids[1:]))
    loss.backward()
    found = {}
    for name, parameter in model.named_parameters():
        if parameter.grad is None:
            continue
        flat = parameter.grad.flatten()
        step = max(1, flat.numel() // ENTRIES)
        largest = flat.abs().argmax().item()
        at = sorted({largest, *range(0, flat.numel(), step)})
        found[name] = {"shape": list(parameter.shape), "norm": flat.double().norm().item(), "at": at, "values": flat[at].tolist()}
    return loss.item(), found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("out")
    parser.add_argument("--save", help="folder of a small model to make")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=JSON", help="a setting of config.json")
    parser.add_argument("--columns", type=int, default=512, help="most columns of the vocabulary whose logits are kept")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--trust-remote-code", action="store_true", help="run code that the model folder brings along")
    args = parser.parse_args()
    import torch
    import transformers

    if args.set and not args.save:
        parser.error("--set goes with --save")
    if args.save:
        small_model(args)
    model = transformers.AutoModelForCausalLM.from_pretrained(args.save or args.model, dtype=torch.float32, attn_implementation="eager",
                                                              trust_remote_code=args.trust_remote_code).eval()
    vocabulary = model.get_input_embeddings().weight.shape[0]
    prompts = prompts_of(vocabulary, getattr(model.config, "max_position_embeddings", LENGTHS[-1]), args.seed)
    stride = math.ceil(vocabulary / args.columns)
    with torch.no_grad():
        logits = [model(torch.tensor([ids]), use_cache=False).logits[0, :, ::stride].tolist() for ids in prompts]
    loss, grads = gradients(model, prompts[-1])
    vectors = {"form": 1, "transformers": transformers.__version__, "model_type": model.config.model_type,
               "prompts": prompts, "stride": stride, "logits": logits, "greedy": greedy(model, prompts[0]),
               "loss": loss, "gradients": grads}
    Path(args.out).write_text(json.dumps(vectors) + "\n")
    print(f"{args.out}: {sum(map(len, prompts))} positions, {len(grads)} gradients")


if __name__ == "__main__":
    main()
