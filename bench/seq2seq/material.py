"""Rows to summarise and to ask about, and T5 and BART models with tokenizers of their own, made
from a seed.

A document is a handful of short sentences, one of which is announced as the one that matters; its
summary is that sentence. A question asks what one of the animals does. So a model must find a place
by its content and copy from it, as extraction does.
"""
import random
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

SUBJECTS = "fox bear owl hare deer wolf mole crow frog swan".split()
COLOURS = "red grey young old small quick".split()
VERBS = "finds hides carries guards paints sells".split()
OBJECTS = "a lamp,a stone,two nuts,the map,an apple,some bread,the key,a drum".split(",")
PLACES = "near the river,by the mill,in the barn,on the hill,under the bridge".split(",")
WORDS = " ".join([*SUBJECTS, *COLOURS, *VERBS, *OBJECTS, *PLACES]) + " Important: The what does do? question:"


def sentence(rng: random.Random, subject: str) -> str:
    return f"The {rng.choice(COLOURS)} {subject} {rng.choice(VERBS)} {rng.choice(OBJECTS)} {rng.choice(PLACES)}."


def summary_rows(count: int, seed: int) -> list[dict]:
    rng = random.Random(seed)
    rows = []
    for _ in range(count):
        sentences = [sentence(rng, subject) for subject in rng.sample(SUBJECTS, rng.randint(2, 4))]
        chosen = rng.randrange(len(sentences))
        said = [f"Important: {s}" if i == chosen else s for i, s in enumerate(sentences)]
        rows.append({"document": " ".join(said), "summary": sentences[chosen]})
    return rows


def short_rows(count: int, seed: int) -> list[dict]:
    """Returns rows of two short sentences, for models of real sizes, which have minutes to learn
    them.
    """
    rng = random.Random(seed)
    rows = []
    for _ in range(count):
        sentences = [f"The {subject} {rng.choice(VERBS)} {rng.choice(OBJECTS)}." for subject in rng.sample(SUBJECTS, 2)]
        chosen = rng.randrange(2)
        rows.append({"document": " ".join(f"Important: {s}" if i == chosen else s for i, s in enumerate(sentences)), "summary": sentences[chosen]})
    return rows


def question_rows(count: int, seed: int) -> list[dict]:
    rng = random.Random(seed)
    rows = []
    for _ in range(count):
        subjects = rng.sample(SUBJECTS, rng.randint(2, 3))
        sentences = [sentence(rng, subject) for subject in subjects]
        chosen = rng.randrange(len(sentences))
        answer = sentences[chosen].split(f" {subjects[chosen]} ")[1].rstrip(".")
        rows.append({"question": f"What does the {subjects[chosen]} do?", "context": " ".join(sentences), "answer": answer})
    return rows


def corpus() -> list[str]:
    texts = [row["document"] for row in summary_rows(400, 1)]
    return texts + [row["question"] for row in question_rows(200, 1)] + [WORDS]


def t5_tokenizer() -> Tokenizer:
    """Returns a SentencePiece-like Unigram with T5's special ids: <pad> 0, </s> 1, <unk> 2; texts
    end with </s>.
    """
    pieces = {"▁" + word: -6.0 for text in corpus() for word in text.replace(".", " .").replace("?", " ?").replace(":", " :").split()}
    pieces |= {character: -10.0 for character in sorted(set("".join(corpus())) | {"▁"})}
    tokenizer = Tokenizer(models.Unigram([("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), *sorted(pieces.items())], unk_id=2))
    tokenizer.add_special_tokens(["<pad>", "</s>", "<unk>"])
    tokenizer.normalizer = normalizers.Sequence([normalizers.Nmt(), normalizers.NFKC(), normalizers.Replace("  ", " ")])
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    tokenizer.post_processor = processors.TemplateProcessing(single="$A </s>", pair="$A </s> $B </s>", special_tokens=[("</s>", 1)])
    return tokenizer


def bart_tokenizer() -> Tokenizer:
    """Returns byte-level BPE with BART's special ids: <s> 0, <pad> 1, </s> 2, <unk> 3; texts stand
    between <s> and </s>.
    """
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=420, special_tokens=["<s>", "<pad>", "</s>", "<unk>", "<mask>"],
                                  initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()), show_progress=False)
    tokenizer.train_from_iterator(corpus(), trainer)
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), add_prefix_space=False, trim_offsets=True)
    return tokenizer


# T5-small's and BART-base's own shapes and vocabularies (of which the rows use a few words);
# otherwise layers like theirs, at a few hundredths of the size.
TINY = {"t5": dict(d_model=96, d_kv=24, d_ff=256, num_layers=2, num_decoder_layers=2, num_heads=4),
        "bart": dict(d_model=96, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=256,
                     decoder_ffn_dim=256, max_position_embeddings=128)}
REAL = {"t5": dict(vocab_size=32128, d_model=512, d_kv=64, d_ff=2048, num_layers=6, num_decoder_layers=6, num_heads=8),
        "bart": dict(vocab_size=50265, d_model=768, encoder_layers=6, decoder_layers=6, encoder_attention_heads=12, decoder_attention_heads=12,
                     encoder_ffn_dim=3072, decoder_ffn_dim=3072, max_position_embeddings=1024)}
KINDS = ("t5", "flan-t5", "bart", "t5-small", "bart-base")


def write_model(kind: str, folder: Path, seed: int) -> int:
    """Writes a model with random weights; returns the number of weights."""
    import torch
    from transformers import BartConfig, BartForConditionalGeneration, PreTrainedTokenizerFast, T5Config, T5ForConditionalGeneration

    torch.manual_seed(seed)
    family = "bart" if kind.startswith("bart") else "t5"
    sizes = (REAL if kind in ("t5-small", "bart-base") else TINY)[family]
    if family == "bart":
        tokenizer, names = bart_tokenizer(), {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}
        config = BartConfig(**{"vocab_size": tokenizer.get_vocab_size()} | sizes, dropout=0.0, attention_dropout=0.0, activation_dropout=0.0)
        model = BartForConditionalGeneration(config)
    else:
        tokenizer, names = t5_tokenizer(), {"eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}
        config = T5Config(**{"vocab_size": tokenizer.get_vocab_size()} | sizes, dropout_rate=0.0, decoder_start_token_id=0,
                          feed_forward_proj="gated-gelu" if kind == "flan-t5" else "relu")
        model = T5ForConditionalGeneration(config)
    model.save_pretrained(folder)
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, **names).save_pretrained(folder)
    return sum(parameter.numel() for parameter in model.parameters())
