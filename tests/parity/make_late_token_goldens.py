#!/usr/bin/env python3
"""Writes tests/text/goldens/late_tokens.json: tokens and templates that are kept beside a
tokenizer.json.

Each case is a tokenizer of the goldens with the files that a model folder may have beside it, and
the ids that transformers' AutoTokenizer gives, with the ids of the tokens that it names. Needs
transformers 5.17.0 and no torch.
"""

import itertools
import json
import logging
import pathlib
import tempfile

import transformers

GOLDENS = pathlib.Path(__file__).resolve().parents[1] / "text/goldens"
TEXTS = ["a <late> b<done>x", "<late>", "Hello <done> world", " <late> <late>x<done>", "plain text 12"]
CLASS = {"tokenizer_class": "PreTrainedTokenizerFast"}


def token(content, **flags):
    return {"content": content, "lstrip": False, "rstrip": False, "single_word": False, "normalized": False, "special": True, **flags}


def late_cases(size, bos, eos):
    """Returns {name: (config, special_tokens_map, added_tokens)}; `size` is the first free id."""
    both = {str(size): token("<late>"), str(size + 1): token("<done>")}
    yield "decoder", {"added_tokens_decoder": both}, None, None
    yield "decoder, unordered", {"added_tokens_decoder": {str(size + 1): token("<late>"), str(size): token("<done>")}}, None, None
    yield "decoder, flags", {"added_tokens_decoder": {str(size): token("<late>", lstrip=True, rstrip=True, special=False),
                                                      str(size + 1): token("<done>", normalized=True, single_word=True)}}, None, None
    yield "decoder hides the map", {"added_tokens_decoder": {str(size): token("<late>")}}, {"additional_special_tokens": ["<done>"]}, None
    yield "decoder hides added_tokens.json", {"added_tokens_decoder": {str(size): token("<late>")}}, None, {"<done>": size + 1}
    yield "additional", {"additional_special_tokens": ["<late>", "<done>"]}, None, None
    yield "extra list", {"extra_special_tokens": ["<done>", "<late>"]}, None, None
    yield "extra names", {"extra_special_tokens": {"late_token": "<late>", "end": "<done>"}}, None, None
    yield "extra hides additional", {"additional_special_tokens": ["<done>"], "extra_special_tokens": ["<late>"]}, None, None
    yield "named", {"eos_token": "<done>", "late_token": "<late>"}, None, None
    yield "map, additional", {}, {"additional_special_tokens": ["<late>", "<done>"]}, None
    yield "map, named", {}, {"eos_token": "<done>", "pad_token": token("<late>")}, None
    yield "map before configuration", {"eos_token": "<late>"}, {"eos_token": "<done>"}, None
    yield "added_tokens.json", {}, None, {"<late>": size, "<done>": size + 1}
    yield "added_tokens.json, special", {"additional_special_tokens": ["<done>"]}, None, {"<late>": size, "<done>": size + 1}
    yield "map before configuration, known", {"eos_token": bos, "bos_token": eos}, {"eos_token": token(eos), "bos_token": bos, "pad_token": eos}, None
    yield "decoder before the map", {"added_tokens_decoder": both, "eos_token": "<late>", "bos_token": bos}, {"eos_token": "<done>", "bos_token": eos}, None
    yield "nothing", {}, None, None


def ends_cases(bos, eos):
    states = [None, False, True]
    for add_bos, add_eos in itertools.product(states, states):
        config = {"bos_token": bos, "eos_token": eos}
        config |= {} if add_bos is None else {"add_bos_token": add_bos}
        config |= {} if add_eos is None else {"add_eos_token": add_eos}
        yield f"bos {add_bos}, eos {add_eos}", config, None, None


def answers(base, config, special_map, added):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder)
        path.joinpath("tokenizer.json").write_text(base)
        path.joinpath("tokenizer_config.json").write_text(json.dumps(CLASS | config))
        if special_map is not None:
            path.joinpath("special_tokens_map.json").write_text(json.dumps(special_map))
        if added is not None:
            path.joinpath("added_tokens.json").write_text(json.dumps(added))
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        return {"ids": [tokenizer(text)["input_ids"] for text in TEXTS],
                "named": {name: getattr(tokenizer, f"{name}_token_id") for name in ("bos", "eos", "pad")}}


def main():
    assert transformers.__version__ == "5.17.0", transformers.__version__
    logging.disable(logging.WARNING)
    cases = []
    for name, bos, eos in [("smollm", "<|im_start|>", "<|im_end|>"), ("llama3", "<|begin_of_text|>", "<|eot_id|>"), ("llama2", "<s>", "</s>")]:
        base = (GOLDENS / f"{name}.tokenizer.json").read_text()
        root = json.loads(base)
        size = max([len(root["model"]["vocab"])] + [t["id"] + 1 for t in root["added_tokens"]])
        for case, config, special_map, added in [*late_cases(size, bos, eos), *ends_cases(bos, eos)]:
            cases.append({"name": f"{name}: {case}", "tokenizer": name, "config": CLASS | config, "special_tokens_map": special_map,
                          "added_tokens": added, **answers(base, config, special_map, added)})
    text = json.dumps({"texts": TEXTS, "transformers": transformers.__version__, "cases": cases}, indent=1)
    (GOLDENS / "late_tokens.json").write_text(text + "\n")
    print(len(cases), "cases")


if __name__ == "__main__":
    main()
