"""Small models with random weights, and rows of random tokens. Standard library only.

    write_model(folder, SIZES["10m"]); write_rows(path, [64] * 32, vocabulary=8192)
"""
import array
import itertools
import json
import math
import random
import struct
from pathlib import Path

# Shapes of real small models, shrunk; "2m" and "10m" have grouped heads, "2m" an untied head.
SIZES = {
    "2m": dict(vocab_size=4096, hidden_size=128, intermediate_size=384, num_hidden_layers=4, num_attention_heads=4,
               num_key_value_heads=2, tie_word_embeddings=False),
    "10m": dict(vocab_size=8192, hidden_size=320, intermediate_size=896, num_hidden_layers=6, num_attention_heads=10,
                num_key_value_heads=5, tie_word_embeddings=True),
    # Other families at the size of "2m": one with windows, and one with all that Gemma 2 has.
    "window": dict(vocab_size=4096, hidden_size=128, intermediate_size=384, num_hidden_layers=4, num_attention_heads=4,
                   num_key_value_heads=2, tie_word_embeddings=False, architectures=["MistralForCausalLM"],
                   sliding_window=100),
    "gemma2": dict(vocab_size=4096, hidden_size=128, intermediate_size=384, num_hidden_layers=4, num_attention_heads=4,
                   num_key_value_heads=2, tie_word_embeddings=True, architectures=["Gemma2ForCausalLM"], head_dim=48,
                   hidden_act="gelu_pytorch_tanh", sliding_window=100, query_pre_attn_scalar=48),
    "experts": dict(vocab_size=4096, hidden_size=128, intermediate_size=384, num_hidden_layers=4, num_attention_heads=4,
                    num_key_value_heads=2, tie_word_embeddings=False, architectures=["MixtralForCausalLM"], num_local_experts=8,
                    num_experts_per_tok=2),
    "sinks": dict(vocab_size=4096, hidden_size=128, intermediate_size=192, num_hidden_layers=4, num_attention_heads=4,
                  num_key_value_heads=2, tie_word_embeddings=False, architectures=["GptOssForCausalLM"], num_local_experts=8,
                  num_experts_per_tok=2, sliding_window=100, attention_bias=True),
    "latent": dict(vocab_size=4096, hidden_size=128, intermediate_size=384, num_hidden_layers=4, num_attention_heads=4,
                   num_key_value_heads=4, tie_word_embeddings=False, architectures=["DeepseekV3ForCausalLM"], q_lora_rank=48,
                   kv_lora_rank=32, qk_nope_head_dim=24, qk_rope_head_dim=16, v_head_dim=32, moe_intermediate_size=128,
                   n_routed_experts=8, n_shared_experts=1, num_experts_per_tok=2, n_group=4, topk_group=2, first_k_dense_replace=1),
    # Every other layer has a gated delta rule.
    "delta": dict(vocab_size=4096, hidden_size=128, intermediate_size=384, num_hidden_layers=4, num_attention_heads=4,
                  num_key_value_heads=2, tie_word_embeddings=False, architectures=["Qwen3_5ForCausalLM"], head_dim=32,
                  linear_num_key_heads=2, linear_num_value_heads=4, linear_key_head_dim=32, linear_value_head_dim=40,
                  linear_conv_kernel_dim=4, full_attention_interval=2),
    # Encoder-decoders, whose settings have other names (OTHER_NAMES).
    "t5": dict(vocab_size=4096, hidden_size=128, intermediate_size=384, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=4,
               tie_word_embeddings=True, architectures=["T5ForConditionalGeneration"], encoder_layers=3),
    "bart": dict(vocab_size=4096, hidden_size=128, intermediate_size=384, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=4,
                 tie_word_embeddings=True, architectures=["BartForConditionalGeneration"], encoder_layers=3),
}
OTHER_NAMES = {
    "t5": lambda s: {"d_model": s["hidden_size"], "d_ff": s["intermediate_size"], "d_kv": s["hidden_size"] // s["num_attention_heads"],
                     "num_heads": s["num_attention_heads"], "num_layers": s["encoder_layers"], "num_decoder_layers": s["num_hidden_layers"],
                     "is_encoder_decoder": True, "decoder_start_token_id": 0, "pad_token_id": 0},
    "bart": lambda s: {"d_model": s["hidden_size"], "encoder_layers": s["encoder_layers"], "decoder_layers": s["num_hidden_layers"],
                       "encoder_attention_heads": s["num_attention_heads"], "decoder_attention_heads": s["num_attention_heads"],
                       "encoder_ffn_dim": s["intermediate_size"], "decoder_ffn_dim": s["intermediate_size"], "max_position_embeddings": 1024,
                       "is_encoder_decoder": True, "decoder_start_token_id": 2, "pad_token_id": 1},
}
LLAMAS_OWN = ("pretraining_tp", "attention_bias", "mlp_bias", "model_type")
BLOCK = (1 << 16) + 1  # drawn once and repeated: values do not matter here. Odd, so that a matrix's rows differ


def gated(at: str, inner: int, hidden: int) -> list:
    return [(at + "gate_proj", inner, hidden), (at + "up_proj", inner, hidden), (at + "down_proj", hidden, inner)]


def gpt_oss_shapes(config: dict, at: str) -> dict:
    """Returns a layer's tensors apart from the linear layers' weights: vectors, and experts in one
    tensor.
    """
    hidden, inner, experts, heads = config["hidden_size"], config["intermediate_size"], config["num_local_experts"], config["num_attention_heads"]
    kv = hidden // heads * config["num_key_value_heads"]
    widths = {"self_attn.q_proj": hidden, "self_attn.k_proj": kv, "self_attn.v_proj": kv, "self_attn.o_proj": hidden, "mlp.router": experts}
    return {f"{at}{name}.bias": [width] for name, width in widths.items()} | {
        at + "self_attn.sinks": [heads],
        at + "mlp.experts.gate_up_proj": [experts, hidden, 2 * inner], at + "mlp.experts.gate_up_proj_bias": [experts, 2 * inner],
        at + "mlp.experts.down_proj": [experts, inner, hidden], at + "mlp.experts.down_proj_bias": [experts, hidden]}


def deepseek_layer(config: dict, layer: int) -> tuple[dict, list]:
    """Returns (vectors, linear layers)."""
    hidden, heads, latent, q_latent = config["hidden_size"], config["num_attention_heads"], config["kv_lora_rank"], config["q_lora_rank"]
    still, turned, value = config["qk_nope_head_dim"], config["qk_rope_head_dim"], config["v_head_dim"]
    vectors = {"self_attn.q_a_layernorm.weight": [q_latent], "self_attn.kv_a_layernorm.weight": [latent]}
    linears = [("self_attn.q_a_proj", q_latent, hidden), ("self_attn.q_b_proj", heads * (still + turned), q_latent),
               ("self_attn.kv_a_proj_with_mqa", latent + turned, hidden), ("self_attn.kv_b_proj", heads * (still + value), latent),
               ("self_attn.o_proj", hidden, heads * value)]
    if layer < config["first_k_dense_replace"]:
        return vectors, linears + gated("mlp.", config["intermediate_size"], hidden)
    experts, inner = config["n_routed_experts"], config["moe_intermediate_size"]
    linears += [("mlp.gate", experts, hidden), *gated("mlp.shared_experts.", inner * config["n_shared_experts"], hidden)]
    for expert in range(experts):
        linears += gated(f"mlp.experts.{expert}.", inner, hidden)
    return vectors | {"mlp.gate.e_score_correction_bias": [experts]}, linears


def delta_layer(config: dict, layer: int) -> tuple[dict, list]:
    """Returns (vectors, linear layers) of a layer with a gated delta rule, or with gated attention."""
    hidden, head, heads = config["hidden_size"], config["head_dim"], config["num_attention_heads"]
    if (layer + 1) % config["full_attention_interval"] == 0:
        kv = head * config["num_key_value_heads"]
        linears = [("self_attn.q_proj", 2 * head * heads, hidden), ("self_attn.k_proj", kv, hidden), ("self_attn.v_proj", kv, hidden),
                   ("self_attn.o_proj", hidden, head * heads)]
        return {f"self_attn.{norm}.weight": [head] for norm in ("q_norm", "k_norm")}, linears + mlp(config)
    rule, value = config["linear_num_value_heads"], config["linear_value_head_dim"]
    mixed = 2 * config["linear_num_key_heads"] * config["linear_key_head_dim"] + rule * value
    linears = [("in_proj_qkv", mixed, hidden), ("in_proj_z", rule * value, hidden), ("in_proj_a", rule, hidden), ("in_proj_b", rule, hidden),
               ("out_proj", hidden, rule * value)]
    vectors = {"conv1d.weight": [mixed, 1, config["linear_conv_kernel_dim"]], "A_log": [rule], "dt_bias": [rule], "norm.weight": [value]}
    return ({f"linear_attn.{name}": shape for name, shape in vectors.items()},
            [(f"linear_attn.{name}", *sizes) for name, *sizes in linears] + mlp(config))


def qwen3_moe_mlp(config: dict) -> list:
    hidden, experts = config["hidden_size"], config["num_experts"]
    found = [("mlp.gate", experts, hidden)]
    for expert in range(experts):
        found += gated(f"mlp.experts.{expert}.", config["moe_intermediate_size"], hidden)
    return found


def mlp(config: dict) -> list:
    if config.get("architectures") == ["Qwen3MoeForCausalLM"]:
        return qwen3_moe_mlp(config)
    hidden, inner, experts = config["hidden_size"], config["intermediate_size"], config.get("num_local_experts", 0)
    if config.get("architectures") == ["GptOssForCausalLM"]:
        return [("mlp.router", experts, hidden)]
    if not experts:
        return gated("mlp.", inner, hidden)
    found = [("block_sparse_moe.gate", experts, hidden)]
    for expert in range(experts):
        at = f"block_sparse_moe.experts.{expert}."
        found += [(at + "w1", inner, hidden), (at + "w3", inner, hidden), (at + "w2", hidden, inner)]
    return found


def t5_shapes(size: dict) -> dict:
    hidden, inner, heads = size["hidden_size"], size["intermediate_size"], size["num_attention_heads"]
    found = {"shared.weight": [size["vocab_size"], hidden]}
    for stack, layers in (("encoder", size["encoder_layers"]), ("decoder", size["num_hidden_layers"])):
        found |= {f"{stack}.final_layer_norm.weight": [hidden], f"{stack}.block.0.layer.0.SelfAttention.relative_attention_bias.weight": [32, heads]}
        parts = ["SelfAttention"] + ["EncDecAttention"] * (stack == "decoder") + ["DenseReluDense"]
        for layer, (number, part) in itertools.product(range(layers), enumerate(parts)):
            at = f"{stack}.block.{layer}.layer.{number}."
            found[at + "layer_norm.weight"] = [hidden]
            mlp_shapes = {"wi": [inner, hidden], "wo": [hidden, inner]}
            for name, shape in (mlp_shapes if part == "DenseReluDense" else dict.fromkeys("qkvo", [hidden, hidden])).items():
                found[f"{at}{part}.{name}.weight"] = shape
    return found


def bart_shapes(size: dict) -> dict:
    hidden, inner = size["hidden_size"], size["intermediate_size"]
    found = {"model.shared.weight": [size["vocab_size"], hidden]}
    for stack, layers in (("encoder", size["encoder_layers"]), ("decoder", size["num_hidden_layers"])):
        at = f"model.{stack}."
        found |= {at + "embed_positions.weight": [1026, hidden], at + "layernorm_embedding.weight": [hidden], at + "layernorm_embedding.bias": [hidden]}
        for layer in range(layers):
            linears = {"fc1": [inner, hidden], "fc2": [hidden, inner]}
            attentions = ["self_attn"] + ["encoder_attn"] * (stack == "decoder")
            linears |= {f"{a}.{name}": [hidden, hidden] for a in attentions for name in ("q_proj", "k_proj", "v_proj", "out_proj")}
            for name, shape in (linears | {f"{norm}_layer_norm": [hidden] for norm in [*attentions, "final"]}).items():
                found |= {f"{at}layers.{layer}.{name}.weight": shape, f"{at}layers.{layer}.{name}.bias": shape[:1]}
    return found


def shapes(config: dict) -> dict:
    if config.get("model_type") in OTHER_NAMES:
        return {"t5": t5_shapes, "bart": bart_shapes}[config["model_type"]](config["sizes"])
    hidden, inner, vocab = config["hidden_size"], config["intermediate_size"], config["vocab_size"]
    head = config.get("head_dim", hidden // config["num_attention_heads"])
    query, kv = head * config["num_attention_heads"], head * config["num_key_value_heads"]
    norms = ["input_layernorm", "post_attention_layernorm"]
    if config.get("architectures") == ["Gemma2ForCausalLM"]:
        norms += ["pre_feedforward_layernorm", "post_feedforward_layernorm"]
    found = {"model.embed_tokens.weight": [vocab, hidden], "model.norm.weight": [hidden]}
    for layer in range(config["num_hidden_layers"]):
        at = f"model.layers.{layer}."
        found |= {f"{at}{norm}.weight": [hidden] for norm in norms}
        linears = [("self_attn.q_proj", query, hidden), ("self_attn.k_proj", kv, hidden), ("self_attn.v_proj", kv, hidden),
                   ("self_attn.o_proj", hidden, query), *mlp(config)]
        if config.get("architectures") == ["GptOssForCausalLM"]:
            found |= gpt_oss_shapes(config, at)
        if config.get("architectures") == ["Qwen3MoeForCausalLM"]:
            found |= {f"{at}self_attn.{norm}.weight": [head] for norm in ("q_norm", "k_norm")}
        own = {"DeepseekV3ForCausalLM": deepseek_layer, "Qwen3_5ForCausalLM": delta_layer}.get(config.get("architectures", [""])[0])
        if own:
            vectors, linears = own(config, layer)
            found |= {at + name: shape for name, shape in vectors.items()}
        for name, out, width in linears:
            found[f"{at}{name}.weight"] = [out, width]
    if not config["tie_word_embeddings"]:
        found["lm_head.weight"] = [vocab, hidden]
    return found


def count(shape: list) -> int:
    return math.prod(shape)


def write_model(folder: Path, size: dict, tokenizer_from: Path, bf16: bool = False) -> Path:
    """Writes a model folder with another model's tokenizer, in fp32 or truncated to bf16. Its data
    must be token rows.
    """
    folder.mkdir(parents=True, exist_ok=True)
    config = json.loads((tokenizer_from / "config.json").read_text())
    if "architectures" in size:
        config = {key: value for key, value in config.items() if key not in LLAMAS_OWN}
    if "rope_theta" in size:
        config.pop("rope_parameters", None)
    kind = size.get("architectures", [""])[0].removesuffix("ForConditionalGeneration").lower()
    if kind in OTHER_NAMES:
        config = {"architectures": size["architectures"], "model_type": kind, "eos_token_id": 2, "vocab_size": size["vocab_size"]} | OTHER_NAMES[kind](size)
    else:
        config |= {"max_position_embeddings": 4096, "head_dim": size["hidden_size"] // size["num_attention_heads"]} | size
        if "kv_lora_rank" in size:
            del config["head_dim"]
    (folder / "config.json").write_text(json.dumps(config, indent=1))
    config["sizes"] = size
    for path in tokenizer_from.iterdir():
        if path.name not in ("config.json", "model.safetensors"):
            (folder / path.name).write_bytes(path.read_bytes())
    draw = random.Random(1)
    block = array.array("f", (draw.gauss(0, 0.02) for _ in range(BLOCK))).tobytes()
    bytes_each = 4
    if bf16:
        block, bytes_each = b"".join(block[i + 2 : i + 4] for i in range(0, len(block), 4)) * 16, 2
    header, offset = {}, 0
    for name, shape in shapes(config).items():
        size_in_file = bytes_each * count(shape)
        header[name] = {"dtype": "BF16" if bf16 else "F32", "shape": shape, "data_offsets": [offset, offset + size_in_file]}
        offset += size_in_file
    text = json.dumps(header).encode()
    with open(folder / "model.safetensors", "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for shape in shapes(config).values():
            left = bytes_each * count(shape)
            while left > 0:
                file.write(block[:left])
                left -= len(block)
    return folder


def write_rows(path: Path, lengths: list, vocabulary: int, sources: bool = False) -> Path:
    """Writes token rows. With `sources`, for an encoder-decoder, a quarter of a row's tokens are
    the answer.
    """
    draw = random.Random(2)
    with open(path, "w") as file:
        for length in lengths:
            ids = [draw.randrange(vocabulary) for _ in range(length)]
            labels = [-100] * (length // 4) + ids[length // 4:]
            if sources:
                ids, labels = ids[length // 4:], ids[: length // 4]
            file.write(json.dumps({"input_ids": ids, "labels": labels}) + "\n")
    return path


def write_pairs(path: Path, lengths: list) -> Path:
    """Writes prompts with two answers, each text at most this many bytes long."""
    draw = random.Random(3)
    text = lambda size: "".join(draw.choice("abcdefgh ") for _ in range(max(1, size)))  # noqa: E731
    with open(path, "w") as file:
        for length in lengths:
            prompt, room = "a" + text(length // 4), length - length // 4 - 4
            file.write(json.dumps({"prompt": prompt, "chosen": "b" + text(room // 2), "rejected": "c" + text(room - 1)}) + "\n")
    return path
