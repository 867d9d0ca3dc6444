#!/usr/bin/env python3
"""Writes tests/text/goldens/tokenizer_classes.json: which class transformers opens a tokenizer.json
with, and what that changes.

Each case is a tokenizer of the goldens with the tokenizer_class, the model_type and the settings of
blanks that a model folder may state, the class that AutoTokenizer takes, and its ids. Needs
transformers 5.17.0 and no torch.
"""

import itertools
import json
import logging
import pathlib
import tempfile

import transformers

GOLDENS = pathlib.Path(__file__).resolve().parents[1] / "text/goldens"
TEXTS = ["Hello world", " Hello", "  two  blanks ", "", " ", "\n", "it's 12345 THEY'RE", "Größe, 漢字 🙂", "{eos}a{eos} b{eos}\nc", "{eos}", "x \n\n y",
         "3 333 33333", "a\u0301 e\u0300"]
ENDS = {"llama2": "</s>", "mistral": "</s>", "gemma": "</s>", "smollm": "<|im_end|>", "qwen2": "<|im_end|>", "llama3": "<|eot_id|>", "gpt2": "<|endoftext|>"}
MODEL_TYPES = ["arcee", "bart", "cohere", "cohere2", "deepseek_v2", "deepseek_v3", "ernie4_5", "exaone4", "falcon", "gemma", "gemma2", "gemma3", "gemma3_text", "glm", "glm4", "gpt2", "gpt_neox", "gptj",
               "gpt_oss", "granite", "granitemoe", "granitemoehybrid", "hunyuan_v1_dense", "llama", "mistral", "mistral3", "ministral", "mixtral", "nemotron", "olmo", "olmo2", "olmo3", "opt", "phi", "phi3",
               "phimoe", "qwen2", "qwen2_moe", "qwen3", "qwen3_moe", "seed_oss", "smollm3", "stablelm", "starcoder2"]
CLASSES = ["LlamaTokenizer", "LlamaTokenizerFast", "CodeLlamaTokenizer", "GemmaTokenizerFast", "GPT2Tokenizer", "GPTNeoXTokenizerFast", "CohereTokenizerFast",
           "Qwen2Tokenizer", "PreTrainedTokenizerFast", "TokenizersBackend", None]


def settings():
    """Yields the settings of blanks."""
    yield {}
    for legacy, prefix in itertools.product([None, False, True], repeat=2):
        stated = {} if legacy is None else {"legacy": legacy}
        stated |= {} if prefix is None else {"add_prefix_space": prefix}
        if stated:
            yield stated


def cases():
    """Yields (tokenizer, class, model_type, settings)."""
    for name, model_type in itertools.product(["llama2", "smollm"], MODEL_TYPES):
        for cls in CLASSES:
            yield name, cls, model_type, {}
    for stated in settings():
        for cls, model_type in [("LlamaTokenizer", "llama"), ("CodeLlamaTokenizer", "llama"), ("LlamaTokenizerFast", "mistral")]:
            yield "llama2", cls, model_type, stated
        yield "mistral", "LlamaTokenizer", "llama", stated
        yield "gemma", "LlamaTokenizer", "llama", stated
        yield "gemma", "GemmaTokenizer", "gemma2", stated
        for name, cls, model_type in [("smollm", "GPT2Tokenizer", "llama"), ("gpt2", "GPT2Tokenizer", "gpt2"), ("qwen2", "Qwen2Tokenizer", "qwen2"),
                                      ("qwen2", "GPT2Tokenizer", "llama"), ("llama3", "PreTrainedTokenizerFast", "llama"), ("llama3", "Qwen2TokenizerFast", "qwen3"),
                                      ("gpt2", "GPTNeoXTokenizerFast", "gpt_neox"), ("gpt2", "CohereTokenizer", "cohere")]:
            yield name, cls, model_type, stated


def answer(name, cls, model_type, stated):
    base = (GOLDENS / f"{name}.tokenizer.json").read_text()
    config = {"eos_token": ENDS[name]} | ({} if cls is None else {"tokenizer_class": cls}) | stated
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder)
        path.joinpath("tokenizer.json").write_text(base)
        path.joinpath("tokenizer_config.json").write_text(json.dumps(config))
        path.joinpath("config.json").write_text(json.dumps({"model_type": model_type}))
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        texts = [text.replace("{eos}", ENDS[name]) for text in TEXTS]
        try:
            ids = [tokenizer(text, add_special_tokens=False)["input_ids"] for text in texts]
        except Exception:  # a class for vocabularies of another kind
            ids = None
        file = transformers.PreTrainedTokenizerFast(tokenizer_file=str(path / "tokenizer.json"), eos_token=ENDS[name])
        return {"tokenizer": name, "config": config, "model_type": model_type, "opened_as": type(tokenizer).__name__, "ids": ids,
                "as_file": ids == [file(text, add_special_tokens=False)["input_ids"] for text in texts]}


def main():
    assert transformers.__version__ == "5.17.0", transformers.__version__
    logging.disable(logging.WARNING)
    found = [answer(*case) for case in cases()]
    answers = []
    for case in found:  # most are equal: a case names its place in the list
        if case["ids"] not in answers:
            answers.append(case["ids"])
        case["ids"] = answers.index(case["ids"])

    def lines(values):
        return ",\n".join(json.dumps(value, ensure_ascii=False, separators=(",", ":")) for value in values)

    head = json.dumps({"texts": TEXTS, "ends": ENDS, "transformers": transformers.__version__}, ensure_ascii=False)
    text = f'{head[:-1]}, "answers": [\n{lines(answers)}\n], "cases": [\n{lines(found)}\n]}}\n'
    (GOLDENS / "tokenizer_classes.json").write_text(text)
    print(len(found), "cases")


if __name__ == "__main__":
    main()
