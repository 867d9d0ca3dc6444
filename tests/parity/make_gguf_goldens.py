"""Writes tests/io/goldens/types.gguf and types.expected.safetensors.

    python tests/parity/make_gguf_goldens.py

types.gguf is a llama of two layers with every tensor type and every kind of metadata that forge
reads. types.expected.safetensors has its tensors as float32 under Hugging Face names in Hugging
Face order. Oracles: gguf.quants.dequantize for the blocks, transformers' LlamaTensorProcessor for
the order of rows. Needs the packages gguf, numpy, safetensors, torch, transformers.
"""
import os

import gguf
import numpy as np
from gguf import GGMLQuantizationType as T
from safetensors.numpy import save_file
from transformers.modeling_gguf_pytorch_utils import LlamaTensorProcessor

FOLDER = os.path.join(os.path.dirname(__file__), "..", "io", "goldens")
HEADS, KV_HEADS, WIDTH = 4, 2, 256
rng = np.random.default_rng(20)

# Offsets of halves (scales, minima) in a block; the rest of its bytes may be anything.
HALVES = {T.Q4_0: [0], T.Q4_1: [0, 2], T.Q5_0: [0], T.Q5_1: [0, 2], T.Q8_0: [0], T.Q4_K: [0, 2], T.Q5_K: [0, 2],
          T.Q6_K: [208], T.F16: [0]}


def random_blocks(rows, type_):
    """Returns rows of WIDTH elements as bytes: random, with finite halves, among them zeros of both
    signs and subnormals.
    """
    if type_ == T.F32:
        return rng.normal(size=(rows, WIDTH)).astype(np.float32)
    elements, size = gguf.GGML_QUANT_SIZES[type_]
    blocks = rng.integers(0, 256, size=(rows * WIDTH // elements, size), dtype=np.uint8)
    if type_ == T.BF16:
        words = blocks.view(np.uint16)
        words[(words & 0x7F80) == 0x7F80] &= 0x8FFF  # no infinity, no NaN
    for offset in HALVES.get(type_, []):
        halves = rng.normal(scale=0.1, size=len(blocks)).astype(np.float16).view(np.uint16)
        halves[1::7] = 0x8000                                                     # -0
        halves[2::7] = rng.integers(1, 0x400, size=len(halves[2::7]))             # subnormal
        halves[3::7] = 0x7BFF                                                     # the largest
        blocks[:, offset:offset + 2] = halves.reshape(-1, 1).view(np.uint8)
    return blocks.reshape(rows, -1)


def as_float(data, type_):
    if type_ == T.BF16:
        return (data.view(np.uint16).astype(np.uint32) << 16).view(np.float32)
    return gguf.quants.dequantize(data, type_)


LAYERS = [
    {"attn_q": (16, T.Q4_1), "attn_k": (8, T.Q8_0), "attn_v": (4, T.Q5_0), "attn_output": (4, T.Q5_1),
     "ffn_gate": (4, T.Q4_K), "ffn_up": (4, T.Q5_K), "ffn_down": (4, T.Q6_K)},
    {"attn_q": (16, T.Q6_K), "attn_k": (8, T.Q4_0), "attn_v": (4, T.F16), "attn_output": (4, T.BF16),
     "ffn_gate": (4, T.F32), "ffn_up": (4, T.Q4_0), "ffn_down": (4, T.Q4_K)},
]
NAMES = {"attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
         "attn_output": "self_attn.o_proj", "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj",
         "ffn_down": "mlp.down_proj", "attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm"}


def write_metadata(writer):
    writer.add_block_count(len(LAYERS))
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_uint8("test.u8", 200)
    writer.add_int8("test.i8", -100)
    writer.add_uint16("test.u16", 60000)
    writer.add_int16("test.i16", -30000)
    writer.add_uint32("test.u32", 4_000_000_000)
    writer.add_int32("test.i32", -2_000_000_000)
    writer.add_uint64("test.u64", 2**63 - 1)
    writer.add_uint64("test.too_large", 2**63)
    writer.add_int64("test.i64", -(2**63))
    writer.add_float32("test.f32", 0.5)
    writer.add_float64("test.f64", 1e300)
    writer.add_bool("test.bool", True)
    writer.add_string("test.string", "naïve 😀")
    writer.add_array("test.ints", [1, -2, 3])
    writer.add_array("test.floats", [0.5, -1.5])
    writer.add_array("test.strings", ["a", "", "é"])
    writer.add_array("test.bools", [True, False])


def main():
    processor = LlamaTensorProcessor({"num_attention_heads": HEADS, "num_key_value_heads": KV_HEADS})
    writer = gguf.GGUFWriter(os.path.join(FOLDER, "types.gguf"), "llama")
    write_metadata(writer)
    expected = {}

    def add(name, hugging_face, rows, type_):
        data = random_blocks(rows, type_)
        writer.add_tensor(name, data, raw_dtype=type_)
        values = as_float(data, type_).reshape(rows, WIDTH)
        expected[hugging_face] = np.ascontiguousarray(processor.process(values, name).weights)

    def add_vector(name, hugging_face, size):
        values = rng.normal(size=size).astype(np.float32)
        writer.add_tensor(name, values)
        expected[hugging_face] = np.ascontiguousarray(processor.process(values, name).weights)

    add("token_embd.weight", "model.embed_tokens.weight", 5, T.Q8_0)
    for i, layer in enumerate(LAYERS):
        for name, (rows, type_) in layer.items():
            add(f"blk.{i}.{name}.weight", f"model.layers.{i}.{NAMES[name]}.weight", rows, type_)
        for name in ("attn_norm", "ffn_norm"):
            add_vector(f"blk.{i}.{name}.weight", f"model.layers.{i}.{NAMES[name]}.weight", WIDTH)
    add_vector("blk.1.attn_q.bias", "model.layers.1.self_attn.q_proj.bias", 16)
    add_vector("blk.1.attn_k.bias", "model.layers.1.self_attn.k_proj.bias", 8)
    add_vector("output_norm.weight", "model.norm.weight", WIDTH)
    add("output.weight", "lm_head.weight", 5, T.Q5_1)
    writer.add_tensor("rope_freqs.weight", np.array([1.0, 8.0], np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    save_file(expected, os.path.join(FOLDER, "types.expected.safetensors"))


main()
