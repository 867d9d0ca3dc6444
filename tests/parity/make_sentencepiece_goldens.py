#!/usr/bin/env python3
"""Folders with a tokenizer.model and no tokenizer.json: writes
tests/text/goldens/sentencepiece_folders.json.

    python tests/parity/make_sentencepiece_goldens.py

`models` holds two small SentencePiece models as base64, which this script trains on its own text.
Each of `cases` is one of them with its tokenizer_config.json and, in some, special_tokens_map.json
and added_tokens.json, and the output of transformers' AutoTokenizer for `texts`: `ids` without and
`ids_with_special` with add_special_tokens, `decoded` from `ids`, `named` the ids of the tokens that
it names. The configurations state what decides where blanks are put: class, legacy or
add_prefix_space, add_bos_token and add_eos_token. load_sentencepiece.cpp (core/lib/text/tokenizer/load)
says what transformers 5.17 does if they are silent.

Needs transformers 5.17.0, sentencepiece 0.2.3 and protobuf, and no torch.
"""

import base64
import io
import itertools
import json
import os
import pathlib
import tempfile

os.environ["HF_HUB_OFFLINE"] = "1"

import sentencepiece
import transformers
from sentencepiece import sentencepiece_model_pb2

OUT = pathlib.Path(__file__).resolve().parents[1] / "text/goldens/sentencepiece_folders.json"

TRAINING = (
    """The quick brown fox jumps over the lazy dog, and the dog sleeps on.
Hello world! This is a test of the tokenizer, and testing is a good thing.
She was reading and singing while the king was bringing nothing.
aaa aaaa aaaaa bababa banana bandana cabana
In 1984 there were 12 people, in 2024 there are 345.
for (int i = 0; i < n; ++i) {
    sum += a[i];
        return    sum;
}
def f(x):
    return x ** 2
Größe und Straße, l'été, naïve café.
""".splitlines()
    * 6
)

TEXTS = ["a dog", " a dog", "  a dog ", "a  dog   sings", "<s>a", "<s> a", "<s>  a", "a</s>b", "a</s> b", "a <late> b", "a<late>b",
         "<late>a <done>b", "<s><late></s>", "", " ", "  ", "     ", "\n", "a\nb\n\n\n c", "\ta", "Größe, 漢字 🙂", "aaaaaaa", "<unk>a",
         "▁a", "(test) it 's 1984 , no .", "[INST] a [/INST]b", "singing"]
BPE = {"model_type": "bpe", "byte_fallback": True, "split_digits": True, "allow_whitespace_only_pieces": True, "character_coverage": 0.995,
       "normalization_rule_name": "identity", "remove_extra_whitespaces": False, "hard_vocab_limit": False}


def model(**settings):
    out = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(TRAINING), model_writer=out, num_threads=1, minloglevel=2, **BPE, **settings)
    proto = sentencepiece_model_pb2.ModelProto.FromString(out.getvalue())
    return proto.SerializeToString(deterministic=True)


def models():
    yield "llama", model(vocab_size=400)
    yield "controls", model(vocab_size=410, control_symbols=["[INST]", "[/INST]"])


def configurations():
    late = {str(400 + i): {"content": text, "lstrip": False, "rstrip": False, "single_word": False, "normalized": False, "special": True}
            for i, text in enumerate(("<late>", "<done>"))}
    for legacy, prefix, ends in itertools.product((None, False, True), (None, False, True), ((True, False), (False, True))):
        if legacy is not False and prefix is not False:
            continue  # the model file decides
        stated = {"legacy": legacy, "add_prefix_space": prefix, "add_bos_token": ends[0], "add_eos_token": ends[1]}
        yield {"tokenizer_class": "LlamaTokenizer", "added_tokens_decoder": late} | {k: v for k, v in stated.items() if v is not None}


def late_files(size):
    """Configuration, special_tokens_map.json and added_tokens.json that name tokens; `size` is the first free id."""
    base = {"tokenizer_class": "LlamaTokenizer", "bos_token": "<s>", "eos_token": "</s>", "legacy": False, "add_bos_token": True, "add_eos_token": False}
    late = {"content": "<late>", "lstrip": False, "rstrip": False, "single_word": False, "normalized": False}
    yield base, None, {"<late>": size, "<done>": size + 1}
    yield base, {"eos_token": "<done>"}, {"<late>": size, "<done>": size + 1}
    yield base, {"eos_token": late, "pad_token": "<done>"}, None
    yield base | {"additional_special_tokens": ["<late>", "<done>"]}, None, None
    yield base | {"extra_special_tokens": ["<done>", "<late>"]}, None, None
    yield base | {"eos_token": "<late>"}, {"eos_token": "</s>", "pad_token": "</s>"}, None
    decoder = {str(size): late | {"special": True}}
    yield base | {"added_tokens_decoder": decoder, "eos_token": "<late>", "pad_token": "<late>"}, {"eos_token": "</s>", "pad_token": "<s>"}, {"<done>": size + 1}


def answers(content, config, special_map=None, added=None):
    with tempfile.TemporaryDirectory() as place:
        path = pathlib.Path(place)
        path.joinpath("tokenizer.model").write_bytes(content)
        path.joinpath("tokenizer_config.json").write_text(json.dumps(config))
        for name, file in (("special_tokens_map.json", special_map), ("added_tokens.json", added)):
            if file is not None:
                path.joinpath(name).write_text(json.dumps(file))
        tokenizer = transformers.AutoTokenizer.from_pretrained(place)
        ids = [tokenizer(text, add_special_tokens=False)["input_ids"] for text in TEXTS]
        return {"ids": ids, "ids_with_special": [tokenizer(text)["input_ids"] for text in TEXTS],
                "decoded": [tokenizer.decode(one) for one in ids],
                "named": {name: getattr(tokenizer, f"{name}_token_id") for name in ("bos", "eos", "pad")}}


def main():
    assert transformers.__version__ == "5.17.0", transformers.__version__
    contents = dict(models())
    cases = []
    for config in configurations():
        cases.append({"model": "llama", "config": config, **answers(contents["llama"], config)})
        config = {key: value for key, value in config.items() if key != "added_tokens_decoder"}
        cases.append({"model": "controls", "config": config, **answers(contents["controls"], config)})
    for config, special_map, added in late_files(400):
        files = {"special_tokens_map": special_map, "added_tokens": added}
        cases.append({"model": "llama", "config": config, **{name: file for name, file in files.items() if file is not None},
                      **answers(contents["llama"], config, special_map, added)})
    lines = [json.dumps(case, ensure_ascii=False, separators=(",", ":")) for case in cases]
    head = {"texts": TEXTS, "models": {name: base64.b64encode(data).decode() for name, data in contents.items()}}
    OUT.write_text(json.dumps(head)[:-1] + ', "cases": [\n' + ",\n".join(lines) + "\n]}\n")
    print(len(cases), "cases,", OUT.stat().st_size, "bytes")


if __name__ == "__main__":
    main()
