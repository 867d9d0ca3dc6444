#!/usr/bin/env python3
"""Lists what transformers' classes read from config.json: writes core/model/families/config_keys.txt.

  make_config_keys.py            writes the table
  make_config_keys.py --check    fails if the table is another

For every family of forge (core/model/families/families.cpp) the table has the keys that the family's
language model reads, in its modelling file or in its configuration class, the other names that
transformers takes for them (attribute_map), and the keys that the class declares and nothing reads.
It is made by reading transformers' source (`ast`): a key is read if the model's class, or a class
or function that it names, has `config.KEY`, `self.config.KEY`, `getattr(config, "KEY")` or, in the
configuration class, `self.KEY` and `kwargs.pop("KEY")`. Needs transformers 5.17.0, and no torch.
"""

import argparse
import ast
import importlib.util
import json
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
TABLE = ROOT / "core/model/families/config_keys.txt"
VERSION = "5.17.0"
# Shared files that modelling files import their masks, angles and heads from.
SHARED = ["masking_utils", "modeling_rope_utils", "modeling_layers"]
# Keys that PreTrainedModel reads for every class and that change its loss or its weights.
OF_ALL = {"tie_word_embeddings", "quantization_config", "fusion_config", "transformers_weights"}
# Values of classes, which no file has.
CLASS_VALUES = {"default_rope_type", "default_theta", "ignore_keys_at_rope_validation"}
# Methods that initialise weights or check values: they change nothing that a loaded model computes.
NOT_COMPUTING = re.compile(r"_init_weights|reset_parameters|validate_\w+|get_mtp_config|__init_subclass__")
HEADER = f"""\
# What transformers {VERSION}'s classes make of config.json, by tests/parity/make_config_keys.py. One family a block:
#   FAMILY CLASS
#   reads    keys that the model's class or its configuration class reads
#   alias    NAME=KEY: another name of a key
#   idle     keys that the configuration class declares and that nothing of the language model reads, with their defaults
#   text     TYPE, of a class with towers: the defaults of a text_config of that model_type
#   buffers  regular expressions: tensors of files that the class does not load
"""


class Source:
    """A module of transformers: its top-level classes, functions and tables, and the names it
    imports from shared files.
    """

    def __init__(self, path):
        self.tree = ast.parse(path.read_text())
        self.tops = {node.name: node for node in self.tree.body if isinstance(node, (ast.ClassDef, ast.FunctionDef))}
        for node in self.tree.body:
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                self.tops[node.targets[0].id] = node
        self.shared = {}
        for node in ast.walk(self.tree):
            if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[-1] in SHARED:
                for name in node.names:
                    self.shared[name.asname or name.name] = (node.module.split(".")[-1], name.name)


def is_config(node):
    """True for `config`, `self.config`, `effective_config`, `config.get_text_config()`."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "get_text_config":
        return is_config(node.func.value)
    if isinstance(node, ast.Name):
        return node.id.endswith("config") and node.id not in ("generation_config", "quantization_config")
    return isinstance(node, ast.Attribute) and node.attr == "config"


def is_self(node):
    return isinstance(node, ast.Name) and node.id == "self"


def nodes_of(node):
    """Returns all nodes below one, without those of methods that compute nothing."""
    yield node
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef) and NOT_COMPUTING.fullmatch(child.name):
            continue
        yield from nodes_of(child)


def keys_read(node, holder):
    """Returns the keys of `holder` (a predicate) that code reads: attributes, getattr, hasattr, and
    kwargs taken out.
    """
    keys = set()
    for found in nodes_of(node):
        if isinstance(found, ast.Attribute) and holder(found.value) and isinstance(found.ctx, ast.Load):
            keys.add(found.attr)
        if not isinstance(found, ast.Call):
            continue
        name = found.func.id if isinstance(found.func, ast.Name) else ""
        texts = [a.value for a in found.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
        if name in ("getattr", "hasattr") and found.args and holder(found.args[0]):
            keys.update(texts)
        taken = isinstance(found.func, ast.Attribute) and found.func.attr in ("pop", "get")
        if holder is is_self and taken and isinstance(found.func.value, ast.Name) and found.func.value.id == "kwargs":
            keys.update(texts[:1])
    return keys


def reached(sources, module, name, seen):
    """Returns the keys that a class or function reads, with everything that it names."""
    source = sources[module]
    if name in source.shared:
        module, name = source.shared[name]
        source = sources[module]
    if (module, name) in seen or name not in source.tops:
        return set()
    seen.add((module, name))
    node = source.tops[name]
    keys = keys_read(node, is_config)
    for found in nodes_of(node):
        if isinstance(found, ast.Name):
            keys |= reached(sources, module, found.id, seen)
    return keys


# {class with towers: the model_types of its text_config}
TEXTS = {"gemma3": ["gemma3_text"], "mistral3": ["mistral", "ministral3", "mistral4"], "qwen2_vl": ["qwen2_vl_text"], "qwen2_5_vl": ["qwen2_5_vl_text"],
         "qwen3_vl": ["qwen3_vl_text"], "qwen3_vl_moe": ["qwen3_vl_moe_text"], "llama4": ["llama4_text"], "qwen3_5": ["qwen3_5_text"], "qwen3_5_moe": ["qwen3_5_moe_text"], "idefics3": ["llama"], "smolvlm": ["llama"],
         "internvl": ["qwen2", "qwen3", "qwen3_moe", "llama"], "llava": ["llama", "mistral", "qwen2"], "voxtral": ["llama"], "glm4v": ["glm4v_text"], "paddleocr_vl": ["paddleocr_vl_text"], "lfm2_vl": ["lfm2"], "gemma4": ["gemma4_text"], "gemma4_unified": ["gemma4_unified_text"]}


# {model_type: {another name of a key, which the class's own code takes: the key}}
NAMES = {"bloom": {"n_embed": "hidden_size"}}
# {model_type: keys that its configuration class turns into another one}
TURNED = {"nemotron_h": {"hybrid_override_pattern"}}
# {model_type: further tensors of published files that its class does not load}
BUFFERS = {"gptj": ["attn\\.bias"], "gemma4_text": ["self_attn\\.[kv]_(proj|norm)"]}


def file_of(root, kind, model_type):
    """Returns the file of a model_type, such as models/gemma3/modeling_gemma3.py of gemma3_text."""
    folder = model_type.removesuffix("_text")
    return root / f"models/{folder}/{kind}_{folder}.py"


def config_class(root, model_type):
    path = file_of(root, "configuration", model_type)
    classes = [n for n in ast.parse(path.read_text()).body if isinstance(n, ast.ClassDef)]
    for node in classes:
        for item in node.body:
            if isinstance(item, ast.Assign) and getattr(item.targets[0], "id", "") == "model_type" and item.value.value == model_type:
                return node
    raise SystemExit(f"{path}: no class with model_type {model_type}")


def block(root, shared, model_type, architecture):
    if model_type in ELSEWHERE:
        return f"{model_type} {architecture}\n" + ELSEWHERE[model_type]
    modelling = Source(file_of(root, "modeling", model_type))
    sources = {**shared, model_type: modelling}
    config = config_class(root, model_type)
    declared = {n.target.id for n in config.body if isinstance(n, ast.AnnAssign) and "ClassVar" not in ast.dump(n.annotation)}
    aliases = {}
    for node in config.body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "attribute_map":
            aliases = ast.literal_eval(node.value)
    aliases |= NAMES.get(model_type, {})
    functions = {n.name for n in config.body if isinstance(n, ast.FunctionDef)}
    reads = reached(sources, model_type, architecture, set()) | keys_read(config, is_self) | OF_ALL
    if "rope_parameters" in declared:
        mixin = keys_read(shared["modeling_rope_utils"].tops["RotaryEmbeddingConfigMixin"], is_self)
        reads |= mixin - ({"layer_types"} - declared)  # there it only tells angles by layer from angles for all
        for name, function in shared["modeling_rope_utils"].tops.items():
            if name.startswith("_compute_"):
                reads |= keys_read(function, is_config)
    methods = {n.name for n in ast.walk(shared["modeling_rope_utils"].tree) if isinstance(n, ast.FunctionDef)}
    reads -= (functions - declared) | methods | CLASS_VALUES
    reads = {aliases.get(key, key) for key in reads if not key.startswith("_")} | TURNED.get(model_type, set())
    if model_type in TEXTS:  # the language model's own keys are those of its class, and are in text_config
        reads &= declared | OF_ALL
    text = [f"{model_type} {architecture}", "reads " + " ".join(sorted(reads))]
    if aliases:
        text.append("alias " + " ".join(f"{name}={key}" for name, key in sorted(aliases.items())))
    text.append("idle " + " ".join(f"{key}={default_of(config, key)}" for key in sorted(declared) if aliases.get(key, key) not in reads))
    own = defaults_of_its_own(config)
    text += [text_defaults(config_class(root, kind), kind, own) for kind in TEXTS.get(model_type, [])]
    buffers = ["rotary_emb\\.inv_freq"] if "rope_parameters" in declared else []
    text.append(" ".join(["buffers", *buffers, *BUFFERS.get(model_type, []), *patterns_of(modelling, architecture)]))
    return "\n".join(line for line in text if " " in line.strip()) + "\n"


def defaults_of_its_own(config):
    """Returns the values that a class with towers takes in place of the defaults of its text_config's
    class: Voxtral's `_default_text_config_kwargs`.
    """
    for node in config.body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "_default_text_config_kwargs":
            return ast.literal_eval(node.value)
    return {}


def text_defaults(config, kind, own):
    """Returns the line of a text_config's class: its keys and their defaults, and the base of the
    angles, which is no field of it. `own`: defaults_of_its_own().
    """
    keys = sorted(n.target.id for n in config.body if isinstance(n, ast.AnnAssign) and "ClassVar" not in ast.dump(n.annotation))
    defaults = {key: default_of(config, key) for key in keys if key != "use_cache"}
    for node in config.body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "default_theta" and isinstance(node.value, ast.Constant):
            defaults["rope_theta"] = json.dumps(node.value.value)
    defaults |= {key: json.dumps(value) for key, value in own.items() if key != "use_cache"}
    return f"text {kind} " + " ".join(f"{key}={value}" for key, value in sorted(defaults.items()))


def default_of(config, key):
    """Returns the default of a declared key as JSON without spaces; null if it is not a constant.
    """
    value = next(n.value for n in config.body if isinstance(n, ast.AnnAssign) and n.target.id == key)
    if isinstance(value, ast.Call):
        value = next((k.value for k in value.keywords if k.arg == "default"), None)
    return json.dumps(value.value if isinstance(value, ast.Constant) else None, separators=(",", ":"))


def patterns_of(source, name):
    """Returns _keys_to_ignore_on_load_unexpected of a class, of its bases and of the model that it
    holds.
    """
    patterns = []
    for node in [source.tops[name], *(source.tops[n.id] for n in ast.walk(source.tops[name]) if isinstance(n, ast.Name) and n.id in source.tops)]:
        for item in getattr(node, "body", []):
            if isinstance(item, ast.Assign) and getattr(item.targets[0], "id", "") == "_keys_to_ignore_on_load_unexpected":
                patterns += [p for p in ast.literal_eval(item.value) or [] if p not in patterns]
    return patterns


# Classes that are not in transformers, by the code that repositories bring along.
ELSEWHERE = {
    # deepseek-ai/deepseek-moe-16b-base: modeling_deepseek.py, configuration_deepseek.py
    "deepseek": """\
reads attention_bias attention_dropout aux_loss_alpha first_k_dense_replace hidden_act hidden_size intermediate_size max_position_embeddings moe_intermediate_size moe_layer_freq n_routed_experts n_shared_experts norm_topk_prob num_attention_heads num_experts_per_tok num_hidden_layers num_key_value_heads pad_token_id quantization_config rms_norm_eps rope_parameters rope_scaling rope_theta scoring_func seq_aux tie_word_embeddings vocab_size
idle bos_token_id=100000 eos_token_id=100001 initializer_range=0.02 pretraining_tp=1 use_cache=true
buffers rotary_emb\\.inv_freq
"""}


def families():
    """Returns name and architecture of every family, as the sources of core/model/families have them."""
    rows, names, architectures = [], r'(?:\.name = |family\.name = )"(\w+)"', r'architecture = "(\w+)"'
    for path in sorted((ROOT / "core/model/families").glob("*.cpp")):
        text = path.read_text()
        rows += zip(re.findall(names, text), re.findall(r"(?<!gguf_)" + architectures, text))
    for path in sorted((ROOT / "core/model/families/described").glob("*.yaml")):
        rows.append(re.search(r"(?ms)^name: (\w+).*^architecture: (\w+)", path.read_text()).groups())
    return sorted(rows)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    root = pathlib.Path(importlib.util.find_spec("transformers").origin).parent
    version = re.search(r'__version__ = "(.*)"', (root / "__init__.py").read_text())
    if version.group(1) != VERSION:
        raise SystemExit(f"transformers {version.group(1)} is installed, the table is of {VERSION}")
    shared = {name: Source(root / f"{name}.py") for name in SHARED}
    text = HEADER + "".join("\n" + block(root, shared, *row) for row in families())
    if check and text != TABLE.read_text():
        raise SystemExit(f"{TABLE} is another; run {sys.argv[0]}")
    if not check:
        TABLE.write_text(text)


if __name__ == "__main__":
    main()
