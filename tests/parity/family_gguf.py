"""Writes a model folder as the GGUF that llama.cpp's convert_hf_to_gguf.py would make of it, without its tokenizer.

Names of tensors and keys are the gguf package's. Gemma 2's norms are stored with 1 added, and its query_pre_attn_scalar is
not stored: a reader takes the head's width.
"""
import json
from pathlib import Path

import gguf
from safetensors.numpy import load_file


def write_gemma2(folder: Path, path: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    assert config["query_pre_attn_scalar"] == config["head_dim"], "a GGUF has no place for it"
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.GEMMA2, config["num_hidden_layers"])
    writer = gguf.GGUFWriter(path, gguf.MODEL_ARCH_NAMES[gguf.MODEL_ARCH.GEMMA2])
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_key_length(config["head_dim"])
    writer.add_value_length(config["head_dim"])
    writer.add_attn_logit_softcapping(config["attn_logit_softcapping"])
    writer.add_final_logit_softcapping(config["final_logit_softcapping"])
    writer.add_sliding_window(config["sliding_window"])
    for name, tensor in load_file(folder / "model.safetensors").items():
        stored = tensor + 1 if name.endswith("norm.weight") else tensor
        writer.add_tensor(names.get_name(name, try_suffixes=(".weight",)), stored)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
