"""Writes a model folder as the GGUF that llama.cpp's convert_hf_to_gguf.py would make of it,
without its tokenizer.

Names of tensors and keys are the gguf package's, so that forge's own table is compared with
llama.cpp's. Changes by the converter are made here too: Gemma's norms have 1 added, rows of q and k
of Llama's relatives are in the order that rotates neighbours, Gemma's query_pre_attn_scalar is not
stored (a reader takes the head's width), and in a matrix of q, k and v all of q come first.
"""
import json
import re
from pathlib import Path

import gguf
import numpy as np
from safetensors.numpy import load_file

ARCHITECTURES = {
    "llama": gguf.MODEL_ARCH.LLAMA,
    "gemma": gguf.MODEL_ARCH.GEMMA,
    "gemma2": gguf.MODEL_ARCH.GEMMA2,
    "gemma3_text": gguf.MODEL_ARCH.GEMMA3,
    "smollm3": gguf.MODEL_ARCH.SMOLLM3,
    "granite": gguf.MODEL_ARCH.GRANITE,
    "olmo2": gguf.MODEL_ARCH.OLMO2,
    "olmo3": gguf.MODEL_ARCH.OLMO2,
    "glm": gguf.MODEL_ARCH.CHATGLM,
    "glm4": gguf.MODEL_ARCH.GLM4,
    "cohere": gguf.MODEL_ARCH.COMMAND_R,
    "cohere2": gguf.MODEL_ARCH.COHERE2,
    "gpt2": gguf.MODEL_ARCH.GPT2,
    "starcoder2": gguf.MODEL_ARCH.STARCODER2,
    "stablelm": gguf.MODEL_ARCH.STABLELM,
    "gpt_neox": gguf.MODEL_ARCH.GPTNEOX,
    "falcon": gguf.MODEL_ARCH.FALCON,
    "mixtral": gguf.MODEL_ARCH.LLAMA,
    "ministral3": gguf.MODEL_ARCH.MISTRAL3,
    "qwen2": gguf.MODEL_ARCH.QWEN2,
    "qwen3": gguf.MODEL_ARCH.QWEN3,
    "phi3": gguf.MODEL_ARCH.PHI3,
    "qwen2_moe": gguf.MODEL_ARCH.QWEN2MOE,
    "qwen3_moe": gguf.MODEL_ARCH.QWEN3MOE,
    "phi": gguf.MODEL_ARCH.PHI2,
    "seed_oss": gguf.MODEL_ARCH.SEED_OSS,
    "exaone4": gguf.MODEL_ARCH.EXAONE4,
    "ernie4_5": gguf.MODEL_ARCH.ERNIE4_5,
    "hunyuan_v1_dense": gguf.MODEL_ARCH.HUNYUAN_DENSE,
    "arcee": gguf.MODEL_ARCH.ARCEE,
    "olmo": gguf.MODEL_ARCH.OLMO,
    "nemotron": gguf.MODEL_ARCH.NEMOTRON,
    "bloom": gguf.MODEL_ARCH.BLOOM,
    "mpt": gguf.MODEL_ARCH.MPT,
    "glm4_moe": gguf.MODEL_ARCH.GLM4_MOE,
    "olmoe": gguf.MODEL_ARCH.OLMOE,
    "ernie4_5_moe": gguf.MODEL_ARCH.ERNIE4_5_MOE,
    "minimax_m2": gguf.MODEL_ARCH.MINIMAXM2,
    "dots1": gguf.MODEL_ARCH.DOTS1,
    "hunyuan_v1_moe": gguf.MODEL_ARCH.HUNYUAN_MOE,
    "deepseek": gguf.MODEL_ARCH.DEEPSEEK,
    "granitemoe": gguf.MODEL_ARCH.GRANITE_MOE,
    "granitemoeshared": gguf.MODEL_ARCH.GRANITE_MOE,
    "qwen3_next": gguf.MODEL_ARCH.QWEN3NEXT,
    "qwen3_5_text": gguf.MODEL_ARCH.QWEN35,
    "qwen3_5_moe_text": gguf.MODEL_ARCH.QWEN35MOE,
}
# {setting: its name in GPT-2's config.json}
GPT2 = {"hidden_size": "n_embd", "num_hidden_layers": "n_layer", "num_attention_heads": "n_head", "max_position_embeddings": "n_positions",
        "intermediate_size": "n_inner"}
PERMUTED = ("llama", "smollm3", "granite", "mixtral", "ministral3", "arcee", "olmo", "deepseek", "granitemoe", "granitemoeshared")


def permuted(rows: np.ndarray, heads: int) -> np.ndarray:
    """Follows the converter's LlamaModel.permute."""
    return rows.reshape(heads, 2, rows.shape[0] // heads // 2, *rows.shape[1:]).swapaxes(1, 2).reshape(rows.shape)


def all_queries_first(rows: np.ndarray, heads: int, groups: int) -> np.ndarray:
    """Follows the converter's GPTNeoXModel.modify_tensors and FalconModel.modify_tensors; GPT-NeoX
    has a group for each head.
    """
    parts = rows.reshape(groups, heads // groups + 2, -1, *rows.shape[1:])
    return np.concatenate([part.reshape(-1, *rows.shape[1:]) for part in (parts[:, :-2], parts[:, -2], parts[:, -1])])


def tiled(tensor: np.ndarray, axis: int, config: dict) -> np.ndarray:
    """Follows the converter's _LinearAttentionVReorderBase: the first head of values of every head
    of keys, then the second.
    """
    keys, values = config["linear_num_key_heads"], config["linear_num_value_heads"]
    shape = tensor.shape
    heads = tensor.reshape(*shape[:axis], keys, values // keys, shape[axis] // values, *shape[axis + 1:])
    return heads.swapaxes(axis, axis + 1).reshape(shape)


def of_delta_rule(name: str, tensor: np.ndarray, config: dict) -> list[tuple[str, np.ndarray]]:
    """Follows the converter's Qwen3NextModel and Qwen3_5TextModel for tensors of linear_attn."""
    part = name.split(".linear_attn.")[1]
    keys = config["linear_num_key_heads"] * config["linear_key_head_dim"]
    if part == "conv1d.weight":
        tensor = tensor.squeeze(1)
    if config["model_type"].startswith("qwen3_5"):
        if part in ("in_proj_qkv.weight", "conv1d.weight"):
            tensor = np.concatenate([tensor[: 2 * keys], tiled(tensor[2 * keys:], 0, config)])
        elif part in ("in_proj_z.weight", "in_proj_a.weight", "in_proj_b.weight", "A_log", "dt_bias"):
            tensor = tiled(tensor, 0, config)
        elif part == "out_proj.weight":
            tensor = tiled(tensor, 1, config)
    if part == "A_log":
        tensor = -np.exp(tensor)
    if part == "dt_bias":
        name = name.replace("dt_bias", "dt_proj.bias")
    if part != "in_proj_qkvz.weight":
        return [(name, tensor)]
    heads = config["linear_num_key_heads"]
    values = config["linear_num_value_heads"] // heads * config["linear_value_head_dim"]
    width = config["linear_key_head_dim"]
    ends = np.cumsum([width, width, values, values])[:-1]
    q, k, v, z = (rows.reshape(-1, tensor.shape[1]) for rows in np.split(tensor.reshape(heads, -1, tensor.shape[1]), ends, 1))
    layer = name.split(".")[2]
    return [(f"blk.{layer}.attn_qkv.weight", np.concatenate([q, k, v])), (f"blk.{layer}.attn_gate.weight", z)]


def groups_of(config: dict) -> int:
    """Returns the heads of k and v."""
    if config["model_type"] == "falcon" and not config.get("new_decoder_architecture") and config.get("multi_query", True):
        return 1
    return config.get("num_kv_heads") or config.get("num_key_value_heads") or config["num_attention_heads"]


def llama3_divisors(rope: dict, head_dim: int) -> np.ndarray:
    """Follows the converter's LlamaModel.generate_extra_tensors."""
    wavelengths = 2 * np.pi * rope["rope_theta"] ** (np.arange(0, head_dim, 2, dtype=np.float32) / head_dim)
    context, factor = rope["original_max_position_embeddings"], rope["factor"]
    low, high = rope["low_freq_factor"], rope["high_freq_factor"]
    divisors = []
    for wavelength in wavelengths:
        smooth = (context / wavelength - low) / (high - low)
        between = 1 / ((1 - smooth) / factor + smooth)
        divisors.append(1 if wavelength < context / high else factor if wavelength > context / low else between)
    return np.array(divisors, np.float32)


def write_rope_factors(writer: gguf.GGUFWriter, config: dict) -> None:
    """Writes the tensors of llama3 scaling, and of longrope as the converter's Phi3MiniModel does.
    """
    rope = config.get("rope_scaling") or config.get("rope_parameters") or {}
    rope = {"rope_theta": config.get("rope_theta"), **rope}
    kind = rope.get("rope_type", rope.get("type"))
    if kind == "llama3":
        head_dim = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
        writer.add_tensor("rope_freqs.weight", llama3_divisors(rope, head_dim))
    if kind == "longrope":
        original = config.get("original_max_position_embeddings") or rope["original_max_position_embeddings"]
        scale = config["max_position_embeddings"] / original
        writer.add_rope_scaling_orig_ctx_len(original)
        writer.add_rope_scaling_attn_factors(np.sqrt(1 + np.log(scale) / np.log(original)) if scale > 1 else 1.0)
        writer.add_tensor("rope_factors_long.weight", np.array(rope["long_factor"], np.float32))
        writer.add_tensor("rope_factors_short.weight", np.array(rope["short_factor"], np.float32))


def scaled_base(base: float, config: dict, head_dim: int) -> float:
    """Follows the converter's HunYuanModel.set_gguf_parameters."""
    alpha = (config.get("rope_scaling") or {}).get("alpha")
    return base * alpha ** (head_dim / (head_dim - 2)) if alpha else base


def write_settings(writer: gguf.GGUFWriter, config: dict) -> None:
    kind, head_dim = config["model_type"], config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
    rope = config.get("rope_parameters") or {}
    rope = rope.get("full_attention", rope)
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    if kind != "qwen3_5_moe_text":  # has no MLP without experts
        writer.add_feed_forward_length(config.get("intermediate_size") or config.get("ffn_hidden_size") or 4 * config["hidden_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(groups_of(config))
    writer.add_key_length(head_dim)
    writer.add_value_length(head_dim)
    if kind not in ("gpt2", "bloom", "mpt"):
        writer.add_rope_freq_base(scaled_base(rope.get("rope_theta", config.get("rope_theta", 10000.0)), config, head_dim))
        turned = rope.get("partial_rotary_factor", config.get("partial_rotary_factor", config.get("rotary_pct", 1.0)))
        turned = 0.25 if kind.startswith("qwen3_") and "linear_num_key_heads" in config and turned == 1.0 else turned
        writer.add_rope_dimension_count(int(head_dim * turned))
    if kind == "mpt":
        writer.add_max_alibi_bias(8.0)
    if kind == "olmo":
        writer.add_layer_norm_eps(1e-5)
    if config.get("clip_qkv"):
        writer.add_clamp_kqv(config["clip_qkv"])
    for key in ("layer_norm_eps", "norm_epsilon", "layer_norm_epsilon", "norm_eps"):
        if key in config:
            writer.add_layer_norm_eps(config[key])
    if "rms_norm_eps" in config:
        writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    if kind == "gemma2":
        writer.add_attn_logit_softcapping(config["attn_logit_softcapping"])
    if config.get("final_logit_softcapping"):
        writer.add_final_logit_softcapping(config["final_logit_softcapping"])
    if kind.startswith(("gemma2", "gemma3")):
        assert config["query_pre_attn_scalar"] == head_dim, "a GGUF has no place for it"
        writer.add_sliding_window(config["sliding_window"])
    if kind.startswith("granite"):
        writer.add_embedding_scale(config["embedding_multiplier"])
        writer.add_attention_scale(config["attention_multiplier"])
        writer.add_residual_scale(config["residual_multiplier"])
        writer.add_logit_scale(config["logits_scaling"])
    if kind in ("stablelm", "gpt_neox"):
        writer.add_parallel_residual(config.get("use_parallel_residual", kind == "gpt_neox"))
    if kind == "falcon":
        writer.add_tensor_data_layout("jploski")
    if kind == "mixtral":
        writer.add_expert_count(config["num_local_experts"])
        writer.add_expert_used_count(config["num_experts_per_tok"])
    if "linear_num_key_heads" in config:
        writer.add_ssm_conv_kernel(config["linear_conv_kernel_dim"])
        writer.add_ssm_state_size(config["linear_key_head_dim"])
        writer.add_ssm_group_count(config["linear_num_key_heads"])
        writer.add_ssm_time_step_rank(config["linear_num_value_heads"])
        writer.add_ssm_inner_size(config["linear_num_value_heads"] * config["linear_value_head_dim"])
        writer.add_full_attention_interval(config.get("full_attention_interval", 4))
        if kind.startswith("qwen3_5"):
            writer.add_rope_dimension_sections([*rope.get("mrope_section", [11, 11, 10]), 0])
    if kind in ("qwen3_next", "qwen3_5_moe_text"):
        writer.add_expert_count(config["num_experts"])
        writer.add_expert_used_count(config["num_experts_per_tok"])
        writer.add_expert_feed_forward_length(config["moe_intermediate_size"])
        writer.add_expert_shared_feed_forward_length(config["shared_expert_intermediate_size"])
    if kind in ("qwen2_moe", "qwen3_moe"):
        assert config.get("norm_topk_prob", False) == (kind == "qwen3_moe"), "llama.cpp computes no other"
        writer.add_expert_count(config["num_experts"])
        writer.add_expert_used_count(config["num_experts_per_tok"])
        writer.add_expert_feed_forward_length(config["moe_intermediate_size"])
    if kind == "qwen2_moe":
        writer.add_expert_shared_feed_forward_length(config["shared_expert_intermediate_size"])
    if kind == "ministral3":
        writer.add_rope_scaling_type(gguf.RopeScalingType.YARN)
        writer.add_rope_scaling_factor(rope["factor"])
        writer.add_rope_scaling_orig_ctx_len(rope["original_max_position_embeddings"])
        writer.add_rope_scaling_yarn_beta_fast(rope["beta_fast"])
        writer.add_rope_scaling_yarn_beta_slow(rope["beta_slow"])
        writer.add_rope_scaling_yarn_log_mul(rope["mscale_all_dim"])
        writer.add_attn_temperature_scale(rope["llama_4_scaling_beta"])
    write_routed(writer, config)
    if kind in ("cohere2", "olmo3"):
        writer.add_sliding_window(config["sliding_window"])
    if kind == "exaone4" and config.get("sliding_window"):
        writer.add_sliding_window(config["sliding_window"])
        writer.add_sliding_window_pattern([kind == "sliding_attention" for kind in config["layer_types"]])
    if kind in ("cohere", "cohere2"):
        writer.add_logit_scale(config["logit_scale"])


def write_routed(writer: gguf.GGUFWriter, config: dict) -> None:
    """Follows the converters of glm.py, dots1.py, deepseek.py, olmo.py, minimax.py, ernie.py and
    hunyuan.py.
    """
    kind = config["model_type"]
    if kind in ("olmoe", "minimax_m2", "granitemoe", "granitemoeshared"):
        writer.add_expert_count(config.get("num_experts") or config["num_local_experts"])
        writer.add_expert_used_count(config["num_experts_per_tok"])
    if config.get("shared_intermediate_size"):
        writer.add_expert_shared_feed_forward_length(config["shared_intermediate_size"])
    if kind == "minimax_m2":
        writer.add_expert_feed_forward_length(config["intermediate_size"])
        writer.add_expert_gating_func(gguf.ExpertGatingFuncType.SIGMOID)
    if kind in ("glm4_moe", "dots1", "deepseek"):
        writer.add_expert_count(config["n_routed_experts"])
        writer.add_expert_used_count(config["num_experts_per_tok"])
        writer.add_expert_feed_forward_length(config["moe_intermediate_size"])
        writer.add_expert_shared_count(config["n_shared_experts"])
        writer.add_leading_dense_block_count(config["first_k_dense_replace"])
        writer.add_expert_weights_scale(config.get("routed_scaling_factor", 1.0))
    if kind in ("glm4_moe", "dots1"):
        writer.add_expert_gating_func(gguf.ExpertGatingFuncType.SIGMOID)
        writer.add_expert_weights_norm(config["norm_topk_prob"])
        writer.add_expert_group_count(config.get("n_group", 1))
        writer.add_expert_group_used_count(config.get("topk_group", 1))
    if kind == "ernie4_5_moe":
        writer.add_expert_count(config["moe_num_experts"])
        writer.add_expert_used_count(config["moe_k"])
        writer.add_interleave_moe_layer_step(config["moe_layer_interval"])
        writer.add_leading_dense_block_count(config["moe_layer_start_index"])
        writer.add_expert_feed_forward_length(config["moe_intermediate_size"])
        writer.add_expert_shared_count(config["moe_num_shared_experts"])
        writer.add_expert_shared_feed_forward_length(config["moe_num_shared_experts"] * config["moe_intermediate_size"])
    if kind == "hunyuan_v1_moe":
        writer.add_expert_count(config["num_experts"])
        writer.add_expert_used_count(config["moe_topk"][0])
        writer.add_expert_feed_forward_length(config["intermediate_size"])
        writer.add_expert_shared_feed_forward_length(config["intermediate_size"])


def halves_apart(tensors: dict) -> dict:
    """Follows GraniteMoeModel.modify_tensors: gate and up, which are one matrix in files, are two."""
    names = {".block_sparse_moe.input_linear": ".mlp.experts.%s_proj", ".shared_mlp.input_linear": ".mlp.shared_expert.%s_proj"}
    apart = {}
    for name, tensor in tensors.items():
        for own, parts in names.items():
            if own in name:
                apart |= {name.replace(own, parts % part): half for part, half in zip(("gate", "up"), np.split(tensor, 2, axis=-2))}
                break
        else:
            apart[name] = tensor
    return apart


def joined_experts(tensors: dict) -> dict:
    """Joins a layer's experts into one tensor for each of their matrices, under its name without
    the expert's number.
    """
    joined = {}
    for name, tensor in tensors.items():
        apart = re.fullmatch(r"(.*\.experts)\.(\d+)(\..*)", name)
        if apart:
            joined.setdefault(apart[1] + apart[3], {})[int(apart[2])] = tensor
        else:
            joined[name] = tensor
    return {name: np.stack([t[i] for i in range(len(t))]) if isinstance(t, dict) else t for name, t in joined.items()}


def write(folder: Path, path: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    kind = config["model_type"]
    if kind == "bloom":
        config |= {"num_hidden_layers": config["n_layer"], "max_position_embeddings": 2048}
    if kind == "mpt":
        config |= {"num_hidden_layers": config["n_layers"], "max_position_embeddings": config["max_seq_len"], "hidden_size": config["d_model"],
                   "num_attention_heads": config["n_heads"], **config["attn_config"]}
    if kind == "gpt2":
        config = {key: value for key, value in config.items() if key != "rms_norm_eps"} | {key: config[name] for key, name in GPT2.items()}
    names = gguf.get_tensor_name_map(ARCHITECTURES[kind], config["num_hidden_layers"])
    writer = gguf.GGUFWriter(path, gguf.MODEL_ARCH_NAMES[ARCHITECTURES[kind]])
    write_settings(writer, config)
    write_rope_factors(writer, config)
    for name, tensor in joined_experts(halves_apart(load_file(folder / "model.safetensors"))).items():
        if ".linear_attn." in name:
            for part, values in of_delta_rule(name, tensor, config):
                own = part if part.startswith("blk.") else names.get_name(part, try_suffixes=(".weight", ".bias"))
                writer.add_tensor(own, np.ascontiguousarray(values))
            continue
        plus_one = kind.startswith(("gemma", "nemotron", "qwen3_next", "qwen3_5"))
        stored = tensor + 1 if plus_one and name.endswith("norm.weight") else tensor
        for part, heads in (("q_proj", "num_attention_heads"), ("k_proj", "num_key_value_heads")):
            if kind in PERMUTED and f".{part}." in name:
                stored = permuted(stored, config[heads])
        if ".query_key_value." in name:
            stored = all_queries_first(stored, config["num_attention_heads"], groups_of(config))
        if kind == "gpt2" and any(f".{part}.weight" in name for part in ("c_attn", "c_proj", "c_fc")):
            stored = stored.T
        if name.endswith(("shared_expert_gate.weight", "moe_statics.e_score_correction_bias")):
            stored = stored.squeeze()
        name = name.removeprefix("transformer.") if kind == "bloom" else name
        name = name.replace("e_score_correction_bias", "e_score_correction.bias")
        writer.add_tensor(names.get_name(name, try_suffixes=(".weight", ".bias")), np.ascontiguousarray(stored))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
