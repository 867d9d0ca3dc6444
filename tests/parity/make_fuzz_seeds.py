#!/usr/bin/env python3
"""Writes tests/fuzz/seeds/gguf/: small whole GGUF files, one per kind of vocabulary. Needs gguf and
numpy.

    python tests/parity/make_fuzz_seeds.py
"""
import json
import pathlib

import gguf
import numpy

ROOT = pathlib.Path(__file__).resolve().parents[2]
SEEDS = ROOT / "tests/fuzz/seeds/gguf"


def write(name, model, pre, tokens, types, scores=None, merges=None):
    writer = gguf.GGUFWriter(SEEDS / f"{name}.gguf", "llama")
    writer.add_block_count(1)
    writer.add_context_length(64)
    writer.add_embedding_length(32)
    writer.add_feed_forward_length(32)
    writer.add_head_count(2)
    writer.add_head_count_kv(1)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(16)
    writer.add_tokenizer_model(model)
    writer.add_tokenizer_pre(pre)
    writer.add_token_list(tokens)
    writer.add_token_types(types)
    if scores:
        writer.add_token_scores(scores)
    if merges:
        writer.add_token_merges(merges)
    writer.add_bos_token_id(1)
    writer.add_unk_token_id(0)
    writer.add_add_bos_token(True)
    writer.add_chat_template("{{ messages[0]['content'] }}")
    writer.add_tensor("token_embd.weight", numpy.zeros((len(tokens), 32), numpy.float16))
    writer.add_tensor("blk.0.attn_q.weight", numpy.arange(1024, dtype=numpy.float32).reshape(32, 32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main():
    SEEDS.mkdir(parents=True, exist_ok=True)
    model = json.loads((ROOT / "tests/text/goldens/smollm.tokenizer.json").read_text())["model"]
    tokens = sorted(model["vocab"], key=model["vocab"].get)[:300]
    known = set(tokens)
    merges = [" ".join(m) for m in model["merges"] if {*m, "".join(m)} <= known]
    write("gpt2", "gpt2", "smollm", tokens, [3] * 3 + [1] * 297, merges=merges)
    pieces = ["<unk>", "<s>", "</s>"] + ["<0x%02X>" % b for b in range(256)] + list("▁ehlo") + ["he", "ll", "▁he", "hello", "▁hello"]
    write("llama", "llama", "default", pieces, [2, 3, 3] + [6] * 256 + [1] * 10, [-float(k) for k in range(len(pieces))])
    words = ["[UNK]", "[CLS]", "[SEP]", "▁hello", "▁world", "h", "e", "▁h", "▁a", "##", "!", "▁!"]
    write("bert", "bert", "bert-bge", words, [3] * 3 + [1] * 9)


if __name__ == "__main__":
    main()
