"""Writes what PEFT reads from adapter_config.json: ranks and scales by module, and the files that
it loads.

    python tests/parity/make_adapter_goldens.py

Writes tests/export/goldens/adapter-rules.json, adapter-edits.json and adapter-tensors.json. Needs
torch, transformers and peft.

rules: settings with the module that each adapts, [rank, scale], or the error's class; for the
variant "model" if it is not base; "tied" if embedding and head are then one. edits: one change each to the settings of tests/parity/goldens/adapter-init-lora, with "loads", or "refused"
and the error's class, or "partly" if PEFT loads it and says that tensors are missing or left over,
or sets aside a key that it does not know. tensors: other names of the tensors, by a part of them
and its replacement ("" removes them), with settings that go with them, and the same outcomes.
"""
import json
import random
import tempfile
import warnings
from pathlib import Path

import torch
from peft import LoraConfig, PeftConfig, PeftModel, get_peft_model
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

from fixtures_path import variants

ROOT = Path(__file__).resolve().parents[2]
START = ROOT / "tests/parity/goldens/adapter-init-lora"
GOLDENS = ROOT / "tests/export/goldens"


def load(variant: str, root: Path):
    folder = root / variant
    if not folder.exists():
        variants.write_variant(variant, folder)
    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)


def base_settings() -> dict:
    return {"peft_type": "LORA", "task_type": "CAUSAL_LM", "r": 4, "lora_alpha": 8, "target_modules": ["q_proj", "v_proj", "down_proj"]}


KEYS = ["q_proj", "v_proj", "down_proj", "k_proj", "layers.0.self_attn.q_proj", "layers.1.mlp.down_proj", "self_attn.v_proj",
        ".*proj", "layers.[01]..*", "model.layers.2.self_attn.q_proj", "^model.layers.0.self_attn.q_proj", "(q|v)_proj", "q_proj|v_proj",
        "oj", "lm_head", "layers.1", "self_attn..*", r"layers\.2\.mlp\.down_proj", "Wqkv"]
TARGETS = [["q_proj"], ["q_proj", "Wqkv"], ["Wqkv", "fc1"], ["q_proj", "v_proj", "down_proj"], ["self_attn.q_proj", "up_proj"],
           ["model.layers.0.self_attn.q_proj"], r".*\.(q|v)_proj", r"q_proj", r".*layers\.[02].*\.(q|down)_proj", "all-linear",
           ["layers.1.self_attn.q_proj", "k_proj"], ["oj"], ["lm_head", "q_proj"]]


def some_rules(rng: random.Random) -> dict:
    settings = base_settings() | {"target_modules": rng.choice(TARGETS)}
    for name, low, high in (("rank_pattern", 1, 9), ("alpha_pattern", 1, 99)):
        keys = rng.sample(KEYS, rng.choice((0, 1, 2, 3, 4)))
        if keys:
            settings[name] = {key: rng.randint(low, high) for key in keys}
    if rng.random() < 0.3:
        settings["use_rslora"] = True
    if rng.random() < 0.25:
        settings["layers_to_transform"] = rng.choice(([0], [1, 2], 1, [7], []))
        if rng.random() < 0.5:
            settings["layers_pattern"] = rng.choice(("layers", ["layers"], ["h", "layers"], "h", ""))
    if rng.random() < 0.25:
        settings["exclude_modules"] = rng.choice((["v_proj"], ["layers.0.self_attn.q_proj"], r".*layers\.1.*", ["nothing"], ["q_proj", "v_proj"]))
    if rng.random() < 0.2:
        settings["modules_to_save"] = rng.choice((["lm_head"], ["embed_tokens"], ["q_proj"]))
    if rng.random() < 0.2:
        settings["ensure_weight_tying"] = True
    return settings


TIED_TARGETS = [["embed_tokens", "q_proj"], ["lm_head", "q_proj"], ["lm_head", "embed_tokens"], ["model.embed_tokens", "v_proj"], ["q_proj"], "all-linear",
                r".*\.q_proj", r".*\.(q_proj|embed_tokens)", r".*(q_proj|embed_tokens)", r"model\.embed_tokens|.*v_proj", r".*v_proj|lm_head"]


def tied_rules() -> list[dict]:
    """Settings of adapters of a model whose head is its embedding."""
    return [base_settings() | {"target_modules": targets} | ({"modules_to_save": saved} if saved else {}) | ({"ensure_weight_tying": True} if ensures else {})
            for targets in TIED_TARGETS for saved in (None, ["lm_head"], ["embed_tokens"], ["q_proj"]) for ensures in (False, True)]


def rules(root: Path) -> list[dict]:
    rng = random.Random(42)
    cases = []
    for variant, settings in [("base", some_rules(rng)) for _ in range(240)] + [("tied", settings) for settings in tied_rules()]:
        folder = root / "settings"
        folder.mkdir(exist_ok=True)
        (folder / "adapter_config.json").write_text(json.dumps(settings))
        case = {"settings": settings} | ({"model": variant} if variant != "base" else {})
        try:
            config = PeftConfig.from_pretrained(folder)
            model = get_peft_model(load(variant, root), config)
            layers = {n.removeprefix("base_model.model."): m for n, m in model.named_modules()
                      if hasattr(m, "lora_A") and ("default" in m.lora_A or "default" in m.lora_embedding_A)}
            case["modules"] = {n: [m.r["default"], m.scaling["default"]] for n, m in layers.items()}
            if getattr(config, "modules_to_tie", None) or getattr(config, "target_modules_to_tie", None):
                case["tied"] = True
        except Exception as error:
            case["refused"] = type(error).__name__
        cases.append(case)
    return cases


VALUES = [None, True, False, 0, 1, -1, 5, 4, 0.5, 1.5, "", "weird", "none", "all", "lora_only", "gaussian", "pissa", [], ["q_proj"], ["weird"], [0], [3], 2.0,
          {}, {"q_proj": 4}, {"q_proj": 0}, {"q_proj": -3}, {"q_proj": "4"}, {"q_proj": 2.5}, {"(": 4}, "(", "CAUSAL_LM", "SEQ_2_SEQ_LM", "LORA", "IA3"]

MORE = {"init_lora_weights": ["olora", "orthogonal", "eva", "corda", "loftq", "pissa_niter_4", "GAUSSIAN", "lora_ga"],
        "task_type": ["SEQ_CLS", "TOKEN_CLS", "QUESTION_ANS", "FEATURE_EXTRACTION", "causal_lm"],
        "target_modules": [r".*\.(q|k|v|o|gate|up|down)_proj", "all-linear", "All-Linear", ["down_proj", "gate_proj", "k_proj", "o_proj", "q_proj", "up_proj", "v_proj", "Wqkv"]],
        "rank_pattern": [{"weird": 9}, {"layers.1.mlp.up_proj": 4, "up_proj": 9}], "r": [4.0, "4"], "lora_alpha": ["8", -8.5],
        "exclude_modules": [r".*k_proj", ["lm_head"], ["gate_proj", "weird"]], "modules_to_save": [["lm_head"], ["weird", "lm_head"], "lm_head"],
        "trainable_token_indices": [{"embed_tokens": [3]}, [3, 3], [10000]], "layers_to_transform": [[0, 1, 2], [0, 1, 2, 3], [0, "1"]]}


def outcome(folder: Path, root: Path) -> dict:
    try:
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            model = PeftModel.from_pretrained(load("base", root), folder)
        with torch.no_grad():
            finite = bool(torch.isfinite(model(torch.arange(3, 20)[None]).logits).all())
    except Exception as error:
        return {"peft": "refused", "error": f"{type(error).__name__}: {str(error)[:120]}"}
    words = " ".join(str(warning.message) for warning in said)
    own = load_file(folder / "adapter_model.safetensors")
    from peft import get_peft_model_state_dict
    there = get_peft_model_state_dict(model)
    same = own.keys() == there.keys() and all(torch.equal(own[n], there[n]) for n in own)
    return {"peft": "loads" if same and finite else "partly", **({"said": words[:160]} if words else {})}


def edits(root: Path) -> list[dict]:
    settings = json.loads((START / "adapter_config.json").read_text())
    names = sorted({*settings, *LoraConfig.__dataclass_fields__, "a_key_of_tomorrow"} - {"base_model_name_or_path", "auto_mapping", "revision", "peft_version"})
    cases = []
    for name in names:
        for value in VALUES + MORE.get(name, []):
            cases.append({"set": {name: value}})
        cases.append({"remove": name})
    folder = root / "edited"
    folder.mkdir()
    save_file(load_file(START / "adapter_model.safetensors"), folder / "adapter_model.safetensors", {"format": "pt"})
    for case in cases:
        changed = settings | case.get("set", {})
        changed.pop(case.get("remove"), None)
        (folder / "adapter_config.json").write_text(json.dumps(changed))
        case |= outcome(folder, root)
    return cases


def tensors(root: Path) -> list[dict]:
    settings = json.loads((START / "adapter_config.json").read_text())
    own = load_file(START / "adapter_model.safetensors")
    cases = [{"replace": [".lora_A.weight", ".lora_A.default.weight"]},
             {"replace": [".lora_B.weight", ".lora_B.other.weight"]},
             {"replace": [".lora_A.weight", ".lora_A.default"]},
             {"replace": ["base_model.model.", ""]},
             {"replace": [".q_proj.lora_B.weight", None]},
             {"replace": [".layers.1.mlp.up_proj.lora_A.weight", None]},
             {"set": {"use_dora": True}},
             {"set": {"use_dora": True}, "magnitudes": ".lora_magnitude_vector"},
             {"set": {"use_dora": True}, "magnitudes": ".lora_magnitude_vector.weight"},
             {"set": {"use_dora": True}, "magnitudes": ".lora_magnitude_vector.default.weight"},
             {}]
    model = load("base", root)
    folder = root / "renamed"
    folder.mkdir()
    for case in cases:
        (folder / "adapter_config.json").write_text(json.dumps(settings | case.get("set", {})))
        old, new = case.get("replace", ("", ""))
        kept = {name.replace(old, new or "") if old else name: value for name, value in own.items() if new is not None or old not in name}
        if "magnitudes" in case:
            for name in own:
                if name.endswith(".lora_A.weight"):
                    module = name.removesuffix(".lora_A.weight")
                    weight = model.get_parameter(module.removeprefix("base_model.model.") + ".weight")
                    kept[module + case["magnitudes"]] = weight.norm(dim=1).detach().clone()
        save_file(kept, folder / "adapter_model.safetensors", {"format": "pt"})
        case |= outcome(folder, root)
    return cases


def write(name: str, cases: list[dict]) -> None:
    (GOLDENS / name).write_text("[\n" + ",\n".join(json.dumps(case) for case in cases) + "\n]\n")


if __name__ == "__main__":
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as temporary:
        write("adapter-rules.json", rules(Path(temporary)))
        write("adapter-edits.json", edits(Path(temporary)))
        write("adapter-tensors.json", tensors(Path(temporary)))
