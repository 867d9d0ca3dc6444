"""Records how tokenizers and sentencepiece decide between cuts of equal scores.

    python tests/parity/make_tie_goldens.py

Writes tests/text/goldens/unigram_ties.json: random vocabularies of few scores, so that most texts
have several best cuts, as a tokenizer.json (`tokenizers`, in fp64 word by word) and as a
SentencePiece model (`sentencepiece`, in fp32 over the whole text), with texts and their ids; and
SentencePiece models with user-defined symbols. Needs tokenizers 0.23, sentencepiece 0.2.3 and
protobuf.
"""
import io
import json
import random
import struct
import tempfile
from pathlib import Path

import sentencepiece
from sentencepiece import sentencepiece_model_pb2
from tokenizers import Tokenizer, models, pre_tokenizers

OUT = Path(__file__).resolve().parents[1] / "text/goldens/unigram_ties.json"
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = 1, 2, 3, 4, 5, 6
MODELS, TEXTS, WITH_SYMBOLS = 24, 40, 12
TRAINING = ("The quick brown fox jumps over the lazy dog, and the dog sleeps on.\nIn 1984 there were 12 people, in 2024 there are 345.\n"
            "Größe und Straße, l'été, naïve café.\naaa aaaa aaaaa bababa banana\nsinging and bringing nothing\n" * 6).splitlines()
RULES = {"①": "1", "ﬁ": "fi", "ﬂ": "fl", "ｉ": "i", "ｎ": "n", "ｇ": "g", "I": "i", "N": "n", "G": "g", "É": "é"}  # a few of NFKC's with case folding
SYMBOLS = ["<usr>", "ing", "①x", "ﬁ", "00", "Straße", "é"]


def varint(value: int) -> bytes:
    return bytes([value]) if value < 128 else bytes([value & 127 | 128]) + varint(value >> 7)


def field(number: int, value) -> bytes:
    if isinstance(value, float):
        return varint(number << 3 | 5) + struct.pack("<f", value)
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def model_file(pieces, byte_fallback: bool) -> bytes:
    """Returns a sentencepiece_model.proto: pieces 1 {piece, score, type}, trainer_spec 2,
    normalizer_spec 3.
    """
    out = b"".join(field(1, field(1, text.encode()) + field(2, score) + field(3, kind)) for text, score, kind in pieces)
    out += field(2, field(3, 1) + (field(35, 1) if byte_fallback else b""))
    return out + field(3, field(1, b"identity") + field(3, 1) + field(4, 1) + field(5, 1))


def vocabulary(rng: random.Random, alphabet: str, byte_fallback: bool) -> list:
    pieces = [("<unk>", 0.0, UNKNOWN), ("<s>", 0.0, CONTROL), ("</s>", 0.0, CONTROL)]
    pieces += [(f"<0x{byte:02X}>", 0.0, BYTE) for byte in range(256) if byte_fallback]
    texts = {"▁", "▁▁"}
    for length in (1, 2, 3, 4):
        texts |= {"".join(rng.choice(alphabet) for _ in range(length)) for _ in range(6)}
    scores = [-rng.uniform(1, 12) for _ in range(3)]
    for text in sorted(texts):
        score = rng.choice(scores) * (len(text) if rng.random() < 0.6 else 1)
        pieces.append((text, struct.unpack("<f", struct.pack("<f", score))[0], UNUSED if rng.random() < 0.05 else NORMAL))
    return pieces


def text_of(rng: random.Random, alphabet: str) -> str:
    return "".join(rng.choice(alphabet + " ") for _ in range(rng.choice((3, 8, 25, 70))))


def symbols(rng: random.Random, number: int) -> dict:
    """A random model, some of whose pieces are user-defined symbols."""
    alphabet = rng.choice(("0", "a0", "ab0", "iaé", "ab漢0", "0🙂a"))
    byte_fallback = number % 3 == 0
    pieces = [(text, score, USER_DEFINED if kind == NORMAL and text != "▁" and rng.random() < 0.15 else kind)
              for text, score, kind in vocabulary(rng, alphabet, byte_fallback)]
    texts = [text_of(rng, alphabet + "x") for _ in range(TEXTS)] + ["0" * 90, "  ", ""]
    return answers(model_file(pieces, byte_fallback), texts)


def trained() -> dict:
    """A model that sentencepiece trains, whose normaliser changes texts and leaves symbols alone."""
    out = io.BytesIO()
    with tempfile.NamedTemporaryFile("w", suffix=".tsv") as rules:
        rules.write("".join(f"{ord(old):X}\t{' '.join(f'{ord(c):X}' for c in new)}\n" for old, new in RULES.items()))
        rules.flush()
        sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(TRAINING), model_writer=out, num_threads=1, minloglevel=2, model_type="unigram",
                                                 vocab_size=110, hard_vocab_limit=False, normalization_rule_tsv=rules.name, user_defined_symbols=SYMBOLS)
    proto = sentencepiece_model_pb2.ModelProto.FromString(out.getvalue())
    proto.normalizer_spec.ClearField("normalization_rule_tsv")  # the file's name
    return answers(proto.SerializeToString(deterministic=True), ["singing", "<usr> sing", "a<usr>b", "①x ①", "ﬁ ﬂ", "000", "0000 00", "die Straße Straßen", "l'été", " ing  ing", "<usr><usr>", "brING", "ｉｎｇ"])


def answers(content: bytes, texts: list) -> dict:
    processor = sentencepiece.SentencePieceProcessor(model_proto=content)
    return {"model": content.hex(), "texts": texts, "ids": [processor.encode(text) for text in texts]}


def main() -> None:
    rng, cases = random.Random(42), []
    for number in range(MODELS):
        alphabet = rng.choice(("0", "a0", "ab0", "iaé", "ab漢0", "0🙂a"))
        byte_fallback = number % 3 == 0
        pieces = vocabulary(rng, alphabet, byte_fallback)
        texts = [text_of(rng, alphabet + "x") for _ in range(TEXTS)] + ["0" * 90, "  ", ""]
        content = model_file(pieces, byte_fallback)
        cases.append(answers(content, texts))
        # A tokenizer.json with the same scores, without the pieces whose types it does not have.
        vocab = [(text, score) for text, score, kind in pieces if kind in (UNKNOWN, NORMAL)]
        tokenizer = Tokenizer(models.Unigram(vocab, 0, False))
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always", split=number % 2 == 0)
        cases.append({"json": json.loads(tokenizer.to_str()), "texts": texts, "ids": [tokenizer.encode(text).ids for text in texts]})
    rng = random.Random(43)
    cases += [symbols(rng, number) for number in range(WITH_SYMBOLS)] + [trained()]
    OUT.write_text(json.dumps(cases, ensure_ascii=False, separators=(",", ":")).replace("},{\"model\"", "},\n{\"model\"").replace("},{\"json\"", "},\n{\"json\"") + "\n")


if __name__ == "__main__":
    main()
