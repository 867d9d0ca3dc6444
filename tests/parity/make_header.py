"""Writes a Hugging Face folder with the true shapes of a large model and no weights.

    python tests/parity/make_header.py llama-3.1-8b FOLDER [--shards N] [--header-only]

The folder has config.json and a safetensors file whose header is real and whose data is a hole (a
sparse file of full length, all zeros, a few KiB on disk). With --header-only the file ends after
its header, as `open_safetensors(path, Data::optional)` accepts. Standard library only.
"""
import argparse
import json
import os
import struct

COMMON = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu", "attention_bias": False,
          "mlp_bias": False, "torch_dtype": "bfloat16", "attention_dropout": 0.0, "initializer_range": 0.02,
          "use_cache": True, "pretraining_tp": 1}
MODELS = {
    "llama-3.1-8b": COMMON | {
        "vocab_size": 128256, "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
        "num_attention_heads": 32, "num_key_value_heads": 8, "max_position_embeddings": 131072, "rms_norm_eps": 1e-5,
        "rope_theta": 500000.0, "tie_word_embeddings": False, "bos_token_id": 128000, "eos_token_id": 128001,
        "rope_scaling": {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                         "original_max_position_embeddings": 8192, "rope_type": "llama3"}},
    "llama-3.2-1b": COMMON | {
        "vocab_size": 128256, "hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 16,
        "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 64, "max_position_embeddings": 131072,
        "rms_norm_eps": 1e-5, "rope_theta": 500000.0, "tie_word_embeddings": True, "bos_token_id": 128000,
        "eos_token_id": 128001,
        "rope_scaling": {"factor": 32.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                         "original_max_position_embeddings": 8192, "rope_type": "llama3"}},
    "tinyllama-1.1b": COMMON | {
        "vocab_size": 32000, "hidden_size": 2048, "intermediate_size": 5632, "num_hidden_layers": 22,
        "num_attention_heads": 32, "num_key_value_heads": 4, "max_position_embeddings": 2048, "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0, "rope_scaling": None, "tie_word_embeddings": False, "bos_token_id": 1,
        "eos_token_id": 2},
    "llama-2-7b": COMMON | {
        "vocab_size": 32000, "hidden_size": 4096, "intermediate_size": 11008, "num_hidden_layers": 32,
        "num_attention_heads": 32, "num_key_value_heads": 32, "max_position_embeddings": 4096, "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0, "rope_scaling": None, "tie_word_embeddings": False, "bos_token_id": 1,
        "eos_token_id": 2},
    "llama-3.1-70b": COMMON | {
        "vocab_size": 128256, "hidden_size": 8192, "intermediate_size": 28672, "num_hidden_layers": 80,
        "num_attention_heads": 64, "num_key_value_heads": 8, "max_position_embeddings": 131072, "rms_norm_eps": 1e-5,
        "rope_theta": 500000.0, "tie_word_embeddings": False, "bos_token_id": 128000, "eos_token_id": 128001,
        "rope_scaling": {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                         "original_max_position_embeddings": 8192, "rope_type": "llama3"}},
}


def tensors_of(config):
    """Returns name and shape of every weight, in the order of a checkpoint."""
    width, inner = config["hidden_size"], config["intermediate_size"]
    head = config.get("head_dim", width // config["num_attention_heads"])
    queries, keys = config["num_attention_heads"] * head, config["num_key_value_heads"] * head
    yield "model.embed_tokens.weight", [config["vocab_size"], width]
    for i in range(config["num_hidden_layers"]):
        layer = f"model.layers.{i}."
        yield layer + "self_attn.q_proj.weight", [queries, width]
        yield layer + "self_attn.k_proj.weight", [keys, width]
        yield layer + "self_attn.v_proj.weight", [keys, width]
        yield layer + "self_attn.o_proj.weight", [width, queries]
        yield layer + "mlp.gate_proj.weight", [inner, width]
        yield layer + "mlp.up_proj.weight", [inner, width]
        yield layer + "mlp.down_proj.weight", [width, inner]
        yield layer + "input_layernorm.weight", [width]
        yield layer + "post_attention_layernorm.weight", [width]
    yield "model.norm.weight", [width]
    if not config["tie_word_embeddings"]:
        yield "lm_head.weight", [config["vocab_size"], width]


def count(shape):
    product = 1
    for size in shape:
        product *= size
    return product


def write_file(path, tensors, header_only):
    header, offset = {"__metadata__": {"format": "pt"}}, 0
    for name, shape in sorted(tensors):
        end = offset + 2 * count(shape)
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        if not header_only:
            file.truncate(8 + len(text) + offset)


def write_shards(folder, tensors, shards, header_only):
    weight_map = {}
    for i in range(shards):
        part = tensors[i::shards]
        name = f"model-{i + 1:05d}-of-{shards:05d}.safetensors"
        write_file(os.path.join(folder, name), part, header_only)
        weight_map |= {tensor: name for tensor, _ in part}
    total = sum(2 * count(shape) for _, shape in tensors)
    with open(os.path.join(folder, "model.safetensors.index.json"), "w") as file:
        json.dump({"metadata": {"total_size": total}, "weight_map": weight_map}, file, indent=2)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", choices=MODELS)
    parser.add_argument("folder")
    parser.add_argument("--shards", type=int, default=1)
    parser.add_argument("--header-only", action="store_true")
    arguments = parser.parse_args()
    config = MODELS[arguments.model]
    os.makedirs(arguments.folder, exist_ok=True)
    with open(os.path.join(arguments.folder, "config.json"), "w") as file:
        json.dump(config, file, indent=2)
    tensors = list(tensors_of(config))
    if arguments.shards > 1:
        write_shards(arguments.folder, tensors, arguments.shards, arguments.header_only)
    else:
        write_file(os.path.join(arguments.folder, "model.safetensors"), tensors, arguments.header_only)
    print(f"{len(tensors)} tensors, {sum(count(shape) for _, shape in tensors):,} parameters")


if __name__ == "__main__":
    main()
