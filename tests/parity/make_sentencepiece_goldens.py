#!/usr/bin/env python3
"""Model folders with a tokenizer.model and no tokenizer.json: writes tests/text/goldens/sentencepiece_folders.json.

    python tests/parity/make_sentencepiece_goldens.py

`models` holds small SentencePiece models as base64, which this script trains from its own text. Each of `cases` is one
of them with the files that stand beside it, and `texts` with what transformers' AutoTokenizer makes of them: `ids`
without and `ids_with_special` with add_special_tokens, `decoded` from `ids`. `class` is what AutoTokenizer chose,
`size` is len(tokenizer), `named` are the ids of its named tokens (null for none). A folder that transformers refuses
has `error` in place of all these.

Needs transformers 5.17.0 with tokenizers 0.23, sentencepiece 0.2.3 and protobuf. Neither torch nor mistral_common is
needed; with tiktoken installed, the texts of some errors differ.
"""

import base64
import io
import itertools
import json
import logging
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

TEXTS = [
    "a dog",
    " a dog",
    "  a dog ",
    "a  dog   sings",
    "<s>a",
    "<s> a",
    "<s>  a",
    "a</s>b",
    "a</s> b",
    "a <late> b",
    "a<late>b",
    "<late>a <done>b",
    "<s><late></s>",
    "",
    " ",
    "  ",
    "     ",
    "\n",
    "a\nb\n\n\n c",
    "\ta",
    "Größe, 漢字 🙂",
    "aaaaaaa",
    "<unk>a",
    "▁a",
    "(test) it 's 1984 , no .",
]
SYMBOLS = ["singing", "sing a", "<|im_start|>user\n a<|im_end|>b", "[INST] a [/INST]b", "big dog dogs"]
PIECES = ["½ ﬁ Ａ\u200bb", "<extra_id_0> a<extra_id_99>", "xxaxx ~~"]
TURNS = [
    "<bos>a",
    "<bos> a",
    "a<eos>b",
    "a<eos> b",
    "<start_of_turn>user\n  a<end_of_turn>b",
    "a<table>b <mask>c",
    "singing",
]

LLAMA, CODE, GEMMA, T5 = ({"tokenizer_class": f"{name}Tokenizer"} for name in ("Llama", "CodeLlama", "Gemma", "T5"))
BASE = {"tokenizer_class": "PreTrainedTokenizerFast"}
STATES = [None, False, True]


def model(**settings):
    """A trained model's bytes, without the path of the rules that it was trained with."""
    out = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TRAINING), model_writer=out, num_threads=1, minloglevel=2, **settings
    )
    proto = sentencepiece_model_pb2.ModelProto.FromString(out.getvalue())
    proto.normalizer_spec.ClearField("normalization_rule_tsv")
    return proto.SerializeToString(deterministic=True)


def models():
    plain = {"normalization_rule_name": "identity", "remove_extra_whitespaces": False, "hard_vocab_limit": False}
    bpe = {
        **plain,
        "model_type": "bpe",
        "byte_fallback": True,
        "split_digits": True,
        "allow_whitespace_only_pieces": True,
        "character_coverage": 0.995,
    }
    yield "llama", model(**bpe, vocab_size=400)
    yield (
        "symbols",
        model(
            **bpe,
            vocab_size=410,
            control_symbols=["[INST]", "[/INST]"],
            user_defined_symbols=["<|im_start|>", "<|im_end|>", "ing", "▁dog"],
        ),
    )
    yield (
        "gemma",
        model(
            **bpe,
            vocab_size=420,
            add_dummy_prefix=False,
            pad_id=0,
            eos_id=1,
            bos_id=2,
            unk_id=3,
            eos_piece="<eos>",
            bos_piece="<bos>",
            user_defined_symbols=[
                "<mask>",
                "<start_of_turn>",
                "<end_of_turn>",
                "\n",
                "\n\n",
                "▁▁",
                "▁▁▁",
                "<table>",
                "ing",
            ],
        ),
    )
    yield "no_bytes", model(**{**bpe, "byte_fallback": False}, vocab_size=140)
    yield (
        "unigram",
        model(
            **plain,
            model_type="unigram",
            byte_fallback=True,
            vocab_size=380,
            control_symbols=["[INST]", "[/INST]"],
            user_defined_symbols=["<|im_start|>", "<|im_end|>", "ing"],
        ),
    )
    with tempfile.NamedTemporaryFile("w", suffix=".tsv") as rules:
        # Half, the ligature fi, newline, tab, a zero-width blank and the full-width A, as nmt_nfkc has them.
        rules.write("BD\t31 2F 32\nFB01\t66 69\nA\t20\n9\t20\n200B\t\nFF21\t41\n")
        rules.flush()
        yield (
            "t5",
            model(
                model_type="unigram",
                vocab_size=130,
                normalization_rule_tsv=rules.name,
                pad_id=0,
                eos_id=1,
                unk_id=2,
                bos_id=-1,
                hard_vocab_limit=False,
            ),
        )


def token(content, **flags):
    return {
        "content": content,
        "lstrip": False,
        "rstrip": False,
        "single_word": False,
        "normalized": False,
        "special": True,
        **flags,
    }


def typed(content, **flags):
    return {"__type": "AddedToken", **token(content, **flags)}


def stated(**settings):
    return {key: value for key, value in settings.items() if value is not None}


def folder(config=None, **others):
    """The files of a folder by name; `config` is the tokenizer_config.json, `type` the model_type of a config.json."""
    files = {} if config is None else {"tokenizer_config.json": config}
    if "type" in others:
        files["config.json"] = {"model_type": others["type"]}
    names = {"model_config": "config.json", "map": "special_tokens_map.json", "added": "added_tokens.json"}
    return files | {names[key]: value for key, value in others.items() if key != "type"}


def class_cases():
    """Which class a folder's names choose."""
    yield "no files", "llama", folder()
    yield "empty configuration", "llama", folder({})
    for name in (
        "LlamaTokenizer",
        "LlamaTokenizerFast",
        "PreTrainedTokenizerFast",
        "TokenizersBackend",
        "SomeTokenizer",
    ):
        yield name, "llama", folder({"tokenizer_class": name})
    for kind in ("llama", "mistral"):
        yield f"model_type {kind} alone", "llama", folder(type=kind)
    yield "class null", "llama", folder({"tokenizer_class": None}, type="llama")
    for kind in ("llama", "mistral", "mixtral", "phi3", "stablelm", "granite", "gemma", "internlm2", "of_nobody"):
        yield f"LlamaTokenizer, model_type {kind}", "llama", folder(LLAMA | {"add_bos_token": True}, type=kind)
    yield (
        "class of config.json",
        "llama",
        folder({}, model_config={"model_type": "llama", "tokenizer_class": "LlamaTokenizer"}),
    )
    yield "class of config.json and another", "llama", folder(BASE, model_config={"tokenizer_class": "LlamaTokenizer"})
    yield "CodeLlamaTokenizer, model_type llama", "llama", folder(CODE, type="llama")
    for kind in ("gemma", "gemma2", "gemma3_text"):
        yield f"model_type {kind} alone", "gemma", folder({}, type=kind)
    yield "GemmaTokenizer", "gemma", folder(GEMMA)
    yield (
        "GemmaTokenizerFast, model_type gemma",
        "gemma",
        folder({"tokenizer_class": "GemmaTokenizerFast"}, type="gemma"),
    )
    yield "PreTrainedTokenizerFast, model_type gemma", "gemma", folder(BASE, type="gemma")
    yield "LlamaTokenizer", "gemma", folder(LLAMA)
    yield "model_type t5 alone", "t5", folder({}, type="t5")
    yield "T5Tokenizer", "t5", folder(T5)
    yield "PreTrainedTokenizerFast", "t5", folder(BASE)
    yield "PreTrainedTokenizerFast", "unigram", folder(BASE)
    yield "LlamaTokenizer", "unigram", folder(LLAMA)
    yield "T5Tokenizer without a map of characters", "unigram", folder(T5)
    yield "LlamaTokenizer", "no_bytes", folder(LLAMA)
    yield "PreTrainedTokenizerFast", "no_bytes", folder(BASE)
    yield "CodeLlamaTokenizer", "no_bytes", folder(CODE)


def option_cases():
    """What the configuration's switches do."""
    for legacy, prefix in itertools.product(STATES, STATES):
        config = stated(legacy=legacy, add_prefix_space=prefix)
        yield f"LlamaTokenizer, legacy {legacy}, prefix {prefix}", "llama", folder(LLAMA | config)
        if legacy == prefix:
            yield f"PreTrainedTokenizerFast, legacy {legacy}, prefix {prefix}", "llama", folder(BASE | config)
    for bos, eos in itertools.product(STATES, STATES):
        config = stated(add_bos_token=bos, add_eos_token=eos)
        yield f"LlamaTokenizer, bos {bos}, eos {eos}", "llama", folder(LLAMA | config)
        if bos or bos == eos:
            yield f"PreTrainedTokenizerFast, bos {bos}, eos {eos}", "llama", folder(BASE | config)
            yield f"GemmaTokenizer, bos {bos}, eos {eos}", "gemma", folder(GEMMA | config)
            yield f"T5Tokenizer, bos {bos}, eos {eos}", "t5", folder(T5 | config)
    for legacy, prefix, bos in ((True, None, True), (True, False, True), (False, True, True)):
        config = stated(legacy=legacy, add_prefix_space=prefix, add_bos_token=bos, add_eos_token=True)
        yield f"LlamaTokenizer, all, legacy {legacy}, prefix {prefix}", "llama", folder(LLAMA | config)
    for prefix, bos in itertools.product(STATES, STATES):
        if prefix is None or bos is None or prefix == bos:
            config = stated(add_prefix_space=prefix, add_bos_token=bos)
            yield f"CodeLlamaTokenizer, prefix {prefix}, bos {bos}", "llama", folder(CODE | config | {"legacy": True})
    yield (
        "legacy, prefix and bos null",
        "llama",
        folder(LLAMA | {"legacy": None, "add_prefix_space": None, "add_bos_token": None}),
    )
    for extra in (
        {"sp_model_kwargs": {"enable_sampling": True, "alpha": 0.1}},
        {"clean_up_tokenization_spaces": True},
        {"use_default_system_prompt": True},
        {"split_special_tokens": True},
    ):
        yield f"LlamaTokenizer, {next(iter(extra))}", "llama", folder(LLAMA | {"add_bos_token": True} | extra)
    yield "add_prefix_space", "gemma", folder(GEMMA | {"add_prefix_space": True, "legacy": True})
    yield "extra_ids 5", "t5", folder(T5 | {"extra_ids": 5})
    yield "extra_ids listed", "t5", folder(T5 | {"additional_special_tokens": [f"<extra_id_{i}>" for i in range(100)]})


def name_cases():
    """Tokens that the configuration names otherwise than the model."""
    both = {"add_bos_token": True, "add_eos_token": True}
    for start, kind in (("LlamaTokenizer", LLAMA), ("PreTrainedTokenizerFast", BASE)):
        for name, config in (
            ("swapped", {"bos_token": "</s>", "eos_token": "<s>"}),
            ("new", {"bos_token": "<late>", "eos_token": "<done>"}),
            ("null", {"bos_token": None, "eos_token": None, "unk_token": None}),
            ("unk", {"unk_token": "<late>"}),
            ("typed", {"bos_token": typed("<s>", rstrip=True), "unk_token": typed("<late>")}),
            ("without a type", {"bos_token": token("<s>")}),
            ("pad", {"pad_token": "<late>"}),
        ):
            yield f"{start}, {name}", "llama", folder(kind | both | config)
    yield "a name with a colon", "llama", folder(LLAMA | {"bos_token": "<b:s>", "add_bos_token": True})
    yield "defaults that the model lacks", "llama", folder(GEMMA | {"add_bos_token": True})
    yield "swapped", "gemma", folder(GEMMA | both | {"bos_token": "<eos>", "eos_token": "<end_of_turn>"})
    yield "eos <late>", "t5", folder(T5 | {"eos_token": "<late>"})
    yield "eos null", "t5", folder(T5 | {"eos_token": None})


def token_cases():
    """Added tokens and their ids; the models have 400 and 410 pieces."""
    decoders = {
        "in order": {"400": token("<late>"), "401": token("<done>")},
        "a hole": {"407": token("<late>"), "403": token("<done>", special=False)},
        "a known token elsewhere": {"405": token("</s>"), "406": token("<late>")},
        "a piece renamed": {"397": token("<late>")},
        "a merged piece renamed": {"261": token("<late>")},
        "flags": {
            "0": token("<unk>"),
            "1": token("<s>", rstrip=True, special=False, normalized=True),
            "2": token("</s>", lstrip=True),
            "400": token("<late>", lstrip=True, rstrip=True),
            "401": token(" <done>", normalized=True, special=False),
        },
    }
    for start, kind in (("LlamaTokenizer", LLAMA), ("PreTrainedTokenizerFast", BASE)):
        for name, decoder in decoders.items():
            yield f"{start}, decoder, {name}", "llama", folder(kind | {"added_tokens_decoder": decoder})
        yield f"{start}, additional", "symbols", folder(kind | {"additional_special_tokens": ["<late>"]})
        yield f"{start}, additional empty", "symbols", folder(kind | {"additional_special_tokens": []})
        yield (
            f"{start}, extra names",
            "symbols",
            folder(kind | {"extra_special_tokens": {"late_token": "<late>", "end": "<done>"}}),
        )
        yield f"{start}, symbols", "symbols", folder(kind | {"add_bos_token": True})
        yield f"{start}, map, additional", "symbols", folder(kind, map={"additional_special_tokens": ["<late>"]})
    yield "legacy, symbols", "symbols", folder(LLAMA | {"legacy": True})
    yield "no prefix, symbols", "symbols", folder(LLAMA | {"add_prefix_space": False})
    yield "decoder, a word for an id", "llama", folder(LLAMA | {"added_tokens_decoder": {"x": token("<late>")}})
    yield "other name", "llama", folder(LLAMA | {"late_token": "<late>", "add_bos_token": "<done>"})
    yield "map, extra", "symbols", folder(LLAMA, map={"extra_special_tokens": ["<late>", "<done>"]})
    yield "map, extra with flags", "symbols", folder(LLAMA, map={"extra_special_tokens": [token("<late>")]})
    yield (
        "map before configuration",
        "llama",
        folder(
            LLAMA | {"bos_token": "<late>", "add_bos_token": True},
            map={"bos_token": token("</s>"), "pad_token": "<done>"},
        ),
    )
    yield (
        "decoder hides map and added",
        "llama",
        folder(LLAMA | {"added_tokens_decoder": {}}, map={"pad_token": "<late>"}, added={"<done>": 400}),
    )
    yield (
        "added, a hole",
        "llama",
        folder(LLAMA | {"extra_special_tokens": ["<late>"]}, added={"<late>": 409, "<done>": 405}),
    )
    yield "decoder", "unigram", folder(BASE | {"added_tokens_decoder": {"380": token("<late>")}})
    yield "additional", "unigram", folder(BASE | {"additional_special_tokens": ["<late>"]})
    yield (
        "decoder",
        "gemma",
        folder(GEMMA | {"added_tokens_decoder": {"5": token("<start_of_turn>"), "430": token("<late>")}}),
    )
    yield "decoder", "t5", folder(T5 | {"added_tokens_decoder": {"400": token("<late>")}})


def texts_of(name):
    return TEXTS + {
        "symbols": SYMBOLS,
        "unigram": SYMBOLS + PIECES,
        "no_bytes": PIECES,
        "t5": PIECES,
        "gemma": TURNS,
    }.get(name, [])


def answers(content, files, texts):
    with tempfile.TemporaryDirectory() as place:
        path = pathlib.Path(place)
        path.joinpath("tokenizer.model").write_bytes(content)
        for name, value in files.items():
            path.joinpath(name).write_text(json.dumps(value))
        try:
            tokenizer = transformers.AutoTokenizer.from_pretrained(place)
            ids = [tokenizer(text, add_special_tokens=False)["input_ids"] for text in texts]
            return {
                "class": type(tokenizer).__name__,
                "size": len(tokenizer),
                "named": {key: getattr(tokenizer, f"{key}_token_id") for key in ("bos", "eos", "unk", "pad")},
                "texts": texts,
                "ids": ids,
                "ids_with_special": [tokenizer(text)["input_ids"] for text in texts],
                "decoded": [tokenizer.decode(one) for one in ids],
            }
        except Exception as error:  # transformers raises whatever its parts do
            return {"error": f"{type(error).__name__}: {error}".replace(place, "FOLDER").splitlines()[0]}


def main():
    assert transformers.__version__ == "5.17.0", transformers.__version__
    logging.disable(logging.WARNING)
    contents = dict(models())
    cases, names = [], set()
    for name, kind, files in itertools.chain(class_cases(), option_cases(), name_cases(), token_cases()):
        name = f"{kind}: {name}"
        assert name not in names, name
        names.add(name)
        cases.append({"name": name, "model": kind, "files": files, **answers(contents[kind], files, texts_of(kind))})
    lines = [json.dumps(case, ensure_ascii=False, separators=(",", ":")) for case in cases]
    head = {
        "transformers": transformers.__version__,
        "models": {name: base64.b64encode(data).decode() for name, data in contents.items()},
    }
    OUT.write_text(json.dumps(head)[:-1] + ', "cases": [\n' + ",\n".join(lines) + "\n]}\n")
    print(len(cases), "cases,", sum("error" in case for case in cases), "refused,", OUT.stat().st_size, "bytes")


if __name__ == "__main__":
    main()
