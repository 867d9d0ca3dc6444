"""Goldens of the tiny model: logits of every variant, gradients, and training runs, by transformers
and peft.

    python tests/parity/make_model_goldens.py [--only NAME …]     # cases and variants to add; without: all anew

Writes tests/parity/goldens/. README.md in this folder says what each file holds. Needs
tests/fixtures/tiny-llama.
"""
import argparse
import copy
import json
import random
import shutil
import tempfile
from dataclasses import asdict
from pathlib import Path

import torch
from peft import LoraConfig, PeftModel, get_peft_model, get_peft_model_state_dict
from safetensors.torch import save_file
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForSeq2SeqLM, get_scheduler

import cases
import deepseek_moe  # noqa: F401: registers its class
import experts_apart
import family_gguf
import llama4_apart
import oracle
from edges import NEAR, Edges
from fixtures_path import variants

GOLDENS = Path(__file__).resolve().parent / "goldens"
LENGTHS = (5, 17, 40)
GREEDY = 20
VOCAB = 384
BATCH, STEPS = 8, 20


def make_rows() -> list[dict]:
    """Returns 160 rows of 6 to 40 tokens; a prefix is not supervised, and every fifth row has a
    hole in its supervision.
    """
    rng = random.Random(11)
    rows = []
    for index in range(BATCH * STEPS):
        length = rng.randint(6, 40)
        # A skewed, first-order text: each token depends on the one before, so that there is
        # something to learn.
        ids = [1]
        while len(ids) < length:
            ids.append((ids[-1] * 7 + rng.choice((3, 3, 3, 5, 11)) + 3) % VOCAB)
        ids[-1] = 2
        prefix = rng.randint(1, length // 2)
        labels = [-100] * prefix + ids[prefix:]
        if index % 5 == 0:
            labels[prefix + (length - prefix) // 2] = -100
        rows.append({"input_ids": ids, "labels": labels})
    return rows


def make_pairs() -> list[dict]:
    """Returns pairs: a source of 1 to 40 tokens, and an answer of 1 to 24 that begins with some of
    the source's.
    """
    rng = random.Random(12)
    pairs = []
    for _ in range(BATCH * STEPS):
        source = [rng.randrange(3, VOCAB) for _ in range(rng.randint(1, 40))]
        answer = source[: rng.randint(0, 8)] + [rng.randrange(3, VOCAB) for _ in range(rng.randint(0, 15))]
        pairs.append({"input_ids": source, "labels": [*answer, 2]})
    return pairs


def batches_of(rows):
    return [rows[i : i + BATCH] for i in range(0, len(rows), BATCH)]


def load(name: str, root: Path):
    """Loads in fp32 with eager attention: plain matmul and softmax, the arithmetic to compare with.
    """
    kind = AutoModelForSeq2SeqLM if AutoConfig.from_pretrained(root / name).is_encoder_decoder else AutoModelForCausalLM
    with llama4_apart.experts_of(name):
        model = kind.from_pretrained(root / name, dtype=torch.float32, attn_implementation="eager")
    for parameter_name, parameter in model.named_parameters():
        if ".indexer." in parameter_name or ".moe_statics." in parameter_name:  # never trained
            parameter.requires_grad_(False)
    experts_apart.keep_logits(model)
    return model


def logits_golden(name: str, root: Path) -> dict:
    """Computes each sequence alone and in a fresh model: transformers' dynamic RoPE keeps state
    between calls.
    """
    generator = torch.Generator().manual_seed(5)
    tensors, summary = {}, {"loss": [], "max_abs_logit": []}
    for length in LENGTHS:
        ids = torch.randint(3, VOCAB, (length,), generator=generator)
        model = load(name, root)
        inputs = {"input_ids": ids[None]}
        if model.config.is_encoder_decoder:  # an answer of another length
            inputs["labels"] = torch.randint(3, VOCAB, (1, 45 - length), generator=generator)
            tensors[f"answer_{length}"] = inputs["labels"][0]
        with torch.no_grad():
            logits = model(**inputs, use_cache=False).logits[0]
        answer = inputs["labels"][0] if "labels" in inputs else ids[1:]
        loss = torch.nn.functional.cross_entropy(logits[: len(answer)].double(), answer)
        stride = 1 if name == "base" else 4
        tensors[f"ids_{length}"] = ids
        tensors[f"logits_{length}"] = logits[:, ::stride].contiguous()
        summary["loss"].append(loss.item())
        summary["max_abs_logit"].append(logits.abs().max().item())
    tensors["greedy"] = greedy(load(name, root), tensors[f"ids_{LENGTHS[0]}"])
    save_file(tensors, GOLDENS / f"logits-{name}.safetensors")
    return summary | {"lengths": list(LENGTHS), "vocabulary_stride": stride}


def greedy(model, prompt: torch.Tensor) -> torch.Tensor:
    """Returns the likeliest token after each, with a cache. Ends of texts do not end it. Where
    transformers goes on from a state, it does not bound the steps of a state space from below, as it
    does over a whole text: such models read the text anew.
    """
    tokens, cache, fresh, source = [], None, prompt[None], {}
    key = "decoder_input_ids" if model.config.is_encoder_decoder else "input_ids"
    if model.config.is_encoder_decoder:
        source = {"encoder_outputs": model.get_encoder()(input_ids=fresh)}
        fresh = torch.tensor([[model.config.decoder_start_token_id]])
    if model.config.model_type in ("nemotron_h", "falcon_h1"):
        text = prompt[None]
        for _ in range(GREEDY):
            with torch.no_grad():
                text = torch.cat([text, model(input_ids=text, use_cache=False).logits[:, -1:].argmax(-1)], 1)
        return text[0, len(prompt):]
    for _ in range(GREEDY):
        with torch.no_grad():
            out = model(**source, **{key: fresh}, past_key_values=cache, use_cache=True)
        cache, fresh = out.past_key_values, out.logits[:, -1:].argmax(-1)
        tokens.append(fresh.item())
    return torch.tensor(tokens)


# Llama 3.1's own settings.
LLAMA31 = {"rope_type": "llama3", "rope_theta": 500000.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
           "original_max_position_embeddings": 8192}
ONE_BASE = {kind: {"rope_type": "default", "rope_theta": 10000.0} for kind in ("full_attention", "sliding_attention")}
# Settings for which a GGUF has a place, or which its readers assume.
GGUFS = {
    "gemma": {},
    "gemma2": {"query_pre_attn_scalar": 12},
    "gemma3": {"query_pre_attn_scalar": 12, "rope_local_base_freq": 10000.0, "rope_scaling": None,
               "sliding_window_pattern": 6},
    "smollm3": {"no_rope_layer_interval": 4, "num_hidden_layers": 3},
    "granite": {},
    "granite-tied": {},
    "olmo2": {},
    "olmo3": {"layer_types": ["sliding_attention"] * 3, "rope_parameters": ONE_BASE},
    "glm": {},
    "glm4": {},
    "cohere": {},
    "cohere2": {"sliding_window_pattern": 4},
    "gpt2": {},
    "starcoder2": {},
    "stablelm": {},
    "stablelm-parallel": {},
    "gpt-neox": {},
    "falcon": {},
    "falcon-grouped": {},
    "mixtral": {},
    "ministral3": {},
    "qwen2-window": {"use_sliding_window": False},
    "qwen3": {},
    "qwen2-moe": {},
    "qwen3-moe": {},
    "glm4-moe": {},
    "olmoe": {},
    "granitemoe": {},
    "granitemoe-shared": {},
    "ernie-moe": {},
    "minimax-m2": {},
    "dots1": {},
    "hunyuan-moe": {},
    "deepseek-moe": {},
    "phi3": {},
    "phi3-longrope": {},
    "rope-llama3": {},  # settings of no released model
    "base": {"rope_parameters": LLAMA31, "max_position_embeddings": 131072},
    "phi": {},
    "seed-oss": {},
    "exaone4": {},
    "exaone4-window": {},
    "ernie": {},
    "hunyuan": {},
    "arcee": {},
    "olmo": {},
    "nemotron": {},
    "bloom": {},
    "mpt": {},
    "qwen3-next": {"full_attention_interval": 2, "layer_types": None},
    "qwen3-5": {"full_attention_interval": 3, "layer_types": None},
    "qwen3-5-moe": {"full_attention_interval": 2, "layer_types": None},
}


def gguf_golden(variant: str, root: Path) -> dict:
    """Writes a variant as a GGUF; returns the logits of the same model from its folder."""
    name = f"{variant}-gguf"
    folder = root / name
    variants.write_variant(variant, folder)
    config = json.loads((folder / "config.json").read_text()) | GGUFS[variant]
    config = {key: value for key, value in config.items() if value is not None or key not in GGUFS[variant]}
    (folder / "config.json").write_text(json.dumps(config))
    family_gguf.write(folder, GOLDENS / f"{variant}.gguf")
    return logits_golden(name, root)


def adapter_tensors(model) -> dict[str, torch.Tensor]:
    """Returns the adapter's tensors, without the frozen matrices that peft stores beside factors of
    embedding and head.
    """
    return {n: t.clone().contiguous() for n, t in get_peft_model_state_dict(model).items() if not n.endswith(".base_layer.weight")}


def with_adapter(model, case: cases.Case):
    """Returns the model with PEFT's adapter and a non-zero B, so that every tensor has a gradient
    from the first step on.
    """
    torch.manual_seed(case.seed)
    experts_apart.apart(model)
    # Under its own name peft would look for the experts that transformers 5 has joined.
    model_type, model.config.model_type = model.config.model_type, "llama"
    task = "SEQ_2_SEQ_LM" if model.config.is_encoder_decoder else "CAUSAL_LM"
    model = get_peft_model(model, LoraConfig(task_type=task, **case.lora))
    model.config.model_type = model_type
    if case.random_b:
        for name, parameter in model.named_parameters():
            if "lora_B" in name or "lora_embedding_A" in name:
                parameter.data.normal_(std=0.05)
    return model


def strip(name: str) -> str:
    return name.replace("base_model.model.", "").replace(".base_layer", "").replace(".default", "")


def build(case: cases.Case, root: Path):
    model = load(case.variant, root)
    return with_adapter(model, case) if case.lora else model


def save_initial_adapter(case: cases.Case, model) -> None:
    folder = GOLDENS / f"adapter-init-{case.name}"
    model.save_pretrained(folder)
    (folder / "README.md").unlink(missing_ok=True)
    fix_adapter_config(folder)


def check_joined(case: cases.Case, model, root: Path) -> None:
    """Checks that peft reads the adapter of experts one by one over joined experts, too, and
    computes the same.
    """
    folder = GOLDENS / f"adapter-init-{case.name}"
    joined = PeftModel.from_pretrained(load(case.variant, root), folder)
    ids = torch.arange(3, 40)[None]
    with torch.no_grad():
        got, want = (m.eval()(input_ids=ids).logits for m in (joined, model))
    assert (got - want).abs().max() <= 1e-5 * want.abs().max(), f"{case.name}: peft reads another adapter"


def train_case(case: cases.Case, batches, root: Path) -> dict:
    model = build(case, root)
    if case.init_from and case.lora:
        save_initial_adapter(case, model)
        if case.variant in ("mixtral", "qwen3-moe"):
            check_joined(case, model, root)
    start = state(model, case)
    products = initial_products(model) if case.compare_effective else {}
    with Edges() as edges:
        record = oracle.train(model, batches, case.settings)
    assert edges.closest > NEAR, f"{case.name}: a value comes within {edges.closest:.1e} of an edge: take another seed"
    save_final(case, start, state(model, case), products)
    if case.keep_gradients:
        gradients = {strip(n): g for n, g in record.first_gradients.items()}
        save_file(gradients, GOLDENS / f"gradients-{case.name}.safetensors")
    model.eval()
    return {
        "variant": case.variant,
        "settings": asdict(case.settings),
        "losses": record.losses,
        "grad_norms": record.grad_norms,
        "learning_rates": record.learning_rates,
        "final_example_losses": [e["loss"] for e in oracle.example_losses(model, batches[0])],
    }


def fix_adapter_config(folder: Path) -> None:
    """Removes the base model's place, which is the reader's business, and sorts sets, whose order
    varies.
    """
    path = folder / "adapter_config.json"
    config = json.loads(path.read_text())
    config["base_model_name_or_path"] = "tests/fixtures/tiny-llama"
    for key in ("target_modules", "modules_to_save"):
        if isinstance(config.get(key), list):
            config[key] = sorted(config[key])
    path.write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")


def effective_weights(model) -> dict[str, torch.Tensor]:
    """Returns base + s B A of every adapted layer. PiSSA's A and B have free signs; their product
    has none.
    """
    out = {}
    for name, module in model.named_modules():
        if hasattr(module, "lora_A") and "default" in module.lora_A:
            weight = module.base_layer.weight.double() + module.get_delta_weight("default").double()
            out[strip(name) + ".weight"] = weight.detach().float().clone()
    return out


def state(model, case: cases.Case) -> dict[str, torch.Tensor]:
    if not case.lora:
        neox = model.config.model_type == "gpt_neox"  # its files have another name for the head
        names = {n: n.replace("lm_head.", "embed_out.") if neox else n for n, _ in model.named_parameters()}
        weights = {names[n]: p.detach().clone() for n, p in model.named_parameters()}
        weights |= {n: b.clone() for n, b in model.named_buffers() if n.endswith(("e_score_correction_bias", "expert_bias", "layer_scalar"))}
        return experts_apart.stored(weights, model.config.model_type)
    return effective_weights(model) if case.compare_effective else adapter_tensors(model)


def initial_products(model) -> dict[str, torch.Tensor]:
    """Returns s B A at the start, which PiSSA took out of the base. An adapter stored as PEFT
    stores it needs it.
    """
    modules = {n: m for n, m in model.named_modules() if hasattr(m, "lora_A") and "default" in m.lora_A}
    return {strip(n) + ".weight": m.get_delta_weight("default").detach().clone() for n, m in modules.items()}


def save_final(case: cases.Case, start, final, products) -> None:
    """Saves whole tensors, or (stride) every stride-th entry of each, flattened, of the start and
    of the end.
    """
    if case.stride == 1:
        save_file(final, GOLDENS / f"final-{case.name}.safetensors")
        return
    groups = {"start": start, "final": final, "product": products}
    thin = {
        f"{group}.{n}": t.flatten()[:: case.stride].contiguous() for group in groups for n, t in groups[group].items()
    }
    save_file(thin, GOLDENS / f"final-{case.name}.safetensors")


def schedules() -> dict:
    """Returns learning rates (of 1) by transformers.get_scheduler over 20 steps, with forge's job.
    """
    settings = {
        "constant": ({"type": "constant"}, "constant", 0, {}),
        "constant-warmup": ({"type": "constant", "warmup_steps": 5}, "constant_with_warmup", 5, {}),
        "linear": ({"type": "linear"}, "linear", 0, {}),
        "linear-warmup": ({"type": "linear", "warmup_steps": 3}, "linear", 3, {}),
        "cosine": ({"type": "cosine"}, "cosine", 0, {}),
        "cosine-warmup": ({"type": "cosine", "warmup_steps": 4}, "cosine", 4, {}),
        "cosine-min": (
            {"type": "cosine", "warmup_steps": 2, "min_lr_ratio": 0.1},
            "cosine_with_min_lr",
            2,
            {"min_lr_rate": 0.1},
        ),
        "wsd": (
            {"type": "wsd", "warmup_steps": 4, "decay_ratio": 0.25},
            "warmup_stable_decay",
            4,
            {"num_decay_steps": 5, "decay_type": "linear"},
        ),
    }
    out = {}
    for name, (job, kind, warmup, extra) in settings.items():
        optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
        schedule = get_scheduler(kind, optimizer, warmup, STEPS, scheduler_specific_kwargs=extra)
        rates = []
        for _ in range(STEPS):
            rates.append(optimizer.param_groups[0]["lr"])
            optimizer.step()
            schedule.step()
        out[name] = {"schedule": job, "rates": rates}
    return out


def clear() -> None:
    for path in GOLDENS.glob("*"):
        if path.name.startswith("smollm2"):  # made by make_smollm2_goldens.py
            continue
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", help="make these cases and variants and keep the others")
    only = parser.parse_args().only
    wanted = lambda name: only is None or name in only  # noqa: E731
    torch.set_num_threads(1)
    GOLDENS.mkdir(exist_ok=True)
    summary = json.loads((GOLDENS / "tiny.json").read_text()) if only else {"logits": {}, "runs": {}}
    if not only:
        clear()
    rows = make_rows()
    for file, data in (("tiny-batches.jsonl", rows), ("tiny-sources.jsonl", pairs := make_pairs())):
        (GOLDENS / file).write_text("".join(json.dumps(r, separators=(",", ":")) + "\n" for r in data))
    with tempfile.TemporaryDirectory() as temporary:
        root = Path(temporary)
        for name in variants.names():
            variants.write_variant(name, root / name)
            if wanted(name):
                summary["logits"][name] = logits_golden(name, root)
        for variant in GGUFS:
            if wanted(f"{variant}-gguf"):
                gguf_golden(variant, root)
        for case in cases.CASES:
            if wanted(case.name):
                summary["runs"][case.name] = train_case(case, copy.deepcopy(batches_of(pairs if case.pairs else rows)), root)
    summary["schedules"] = schedules()
    (GOLDENS / "tiny.json").write_text(json.dumps(summary, indent=1) + "\n")


if __name__ == "__main__":
    main()
