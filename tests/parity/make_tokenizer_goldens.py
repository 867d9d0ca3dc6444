#!/usr/bin/env python3
"""Writes tests/text/goldens/: small tokenizers of every style, trained with the `tokenizers`
package, and its output for texts.

    python3 tests/parity/make_tokenizer_goldens.py [name …]

Large texts are not stored. Both this script and the test make them by the same rule (class Mixer,
all code points), and only hashes of ids and offsets are kept. Offsets are stored in bytes; the
package counts characters. Needs `tokenizers` and, for training, the text of Debian's dict-devil.
"""
import base64
import gzip
import json
import pathlib
import re
import struct
import sys

from tokenizers import (AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors,
                        trainers)
import tokenizers

GOLDENS = pathlib.Path(__file__).parents[1] / "text/goldens"
MASK = (1 << 64) - 1
GENERATED_BYTES = 300_000

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
          r"|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
GPT4O = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
         r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
         r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
DEEPSEEK3 = (r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*"
             r"|\s*[\r\n]+|\s+(?!\S)|\s+")
CLIP = r"'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"

SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]


def devil():
    text = gzip.open("/usr/share/dictd/devil.dict.dz").read().decode()
    return text[text.index("\n\n") :]


OTHER = """Größe, Straße und Übermut; l'été où naît l'œuvre naïve. Niño, ¿qué pasó? Zażółć gęślą jaźń. İstanbul'da ılık.
Съешь же ещё этих мягких французских булок. Ξεσκεπάζω τὴν ψυχοφθόρα βδελυγμία. שלום עולם مرحبا بالعالم ١٢٣
नमस्ते दुनिया สวัสดีชาวโลก 今日は世界 你好，世界。안녕하세요 세계 ｆｕｌｌ ｗｉｄｔｈ ﬁne ﬂuﬀ ½ ² ™ Ⅷ ㌔ Å Å
e\u0301le\u0300ve a\u0323\u0301 q\u0307\u0323 \u1e9b\u0323 \ud55c\uae00 \u1112\u1161\u11ab \u0958 \u2126
👩‍👩‍👧‍👦 🇩🇪 👍🏽 ❤️ 😀😁 \u200b\u200d\u2060\ufeff \u00a0\u3000\u2003\u0085\u2028 \x00\x01\x1f\x7f
""".split("\n")
CODE = ["for (int i = 0; i < n; ++i) {\n\t\tsum += a[i] * 2.5e-3;\n}\n", "def f(x):\n    return x ** 2  # square\n\n\n",
        "SELECT * FROM t WHERE id='42';", "https://example.org/a?b=c&d=%20#e", "x = {'k': [1, 22, 333, 4444, 55555]}",
        "\r\n", "\n", "\n\n", "\t", " ", "  ", "   ", "        ", "!!!", "...", "--", "'", "'s", "'LL", "'ſ", "don't", "WE'VE",
        " 're", "$1,234.56", "3.14159", "2024-01-31", "0x1F", "１２３", "<|im_start|>", "<|im_end|>", "<mask>", "<think>",
        " <mask> ", "<|endoftext|>", "▁", "##", "</w>", "Ġ", "<0x41>", "<unk>", "<s>"]


class Mixer:
    """Makes text from pieces by a 64-bit linear congruential generator (Knuth's MMIX constants),
    high bits.
    """

    def __init__(self, pieces, seed):
        self.pieces, self.state = pieces, seed

    def draw(self, count):
        self.state = (self.state * 6364136223846793005 + 1442695040888963407) & MASK
        return (self.state >> 33) % count

    def text(self, size):
        out, length = [], 0
        while length < size:
            pick = self.draw(len(self.pieces) + 4)
            if pick < len(self.pieces):
                piece = self.pieces[pick]
            else:  # any code point, or one below U+3000
                code = self.draw(0x110000 if pick % 2 else 0x3000)
                piece = chr(0x20AC if 0xD800 <= code < 0xE000 else code)
            out.append(piece)
            length += len(piece.encode())
        return "".join(out)


RANGES = [(0, 0x3400), (0xA000, 0xAC00), (0xF900, 0x10000), (0x10700, 0x10800), (0x1D100, 0x1D200), (0x1F000, 0x1F200),
          (0x2F800, 0x2FA20)]



def code_point_text(first, last):
    return "".join(chr(c) + "a" + chr(c) * 2 + " " for c in range(first, last))


def fold(hash_, values):
    for value in values:
        hash_ = ((hash_ ^ (value & MASK)) * 0x100000001B3) & MASK
    return hash_


def byte_offsets(text, encoding):
    """Returns the offsets of characters as offsets of bytes."""
    place, at = [], 0
    for c in text:
        place.append(at)
        at += len(c.encode())
    place.append(at)
    return [(place[begin], place[end]) for begin, end in encoding.offsets]


def hashes(tokenizer, texts):
    ids_hash = offsets_hash = 0xCBF29CE484222325
    count = 0
    for text in texts:
        encoding = tokenizer.encode(text, add_special_tokens=False)
        ids_hash = fold(ids_hash, encoding.ids)
        offsets_hash = fold(offsets_hash, [x for pair in byte_offsets(text, encoding) for x in pair])
        count += len(encoding.ids)
    return {"count": count, "ids": "%016x" % ids_hash, "offsets": "%016x" % offsets_hash}


# --- tokenizers ---------------------------------------------------------------------------------


def train(tokenizer, corpus, kind="bpe", size=600, **kwargs):
    common = dict(vocab_size=size, show_progress=False)
    if kind == "bpe":
        trainer = trainers.BpeTrainer(**common, **kwargs)
    elif kind == "unigram":
        trainer = trainers.UnigramTrainer(**common, **kwargs)
    else:
        trainer = trainers.WordPieceTrainer(**common, **kwargs)
    tokenizer.train_from_iterator(corpus, trainer)
    return tokenizer


def byte_level(corpus, pre, normalizer=None, special=SPECIAL, **model):
    t = Tokenizer(models.BPE(**model))
    t.pre_tokenizer = pre
    if normalizer:
        t.normalizer = normalizer
    t.decoder = decoders.ByteLevel()
    return train(t, corpus, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), special_tokens=special, size=1000)


def split(pattern):
    return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern), "isolated"),
                                    pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def gpt2(corpus):
    t = byte_level(corpus, pre_tokenizers.ByteLevel(add_prefix_space=False))
    t.post_processor = processors.ByteLevel(trim_offsets=False)
    return t


def roberta(corpus):
    t = byte_level(corpus, pre_tokenizers.ByteLevel(add_prefix_space=True), special=["<s>", "</s>", "<unk>"])
    t.add_special_tokens([AddedToken("<mask>", lstrip=True)])
    t.post_processor = processors.RobertaProcessing(("</s>", 1), ("<s>", 0), trim_offsets=True, add_prefix_space=True)
    return t


def trimmed(corpus):
    t = byte_level(corpus, pre_tokenizers.ByteLevel(add_prefix_space=False))
    t.add_tokens([AddedToken("<mask>", rstrip=True, lstrip=True, single_word=True)])
    t.post_processor = processors.Sequence([
        processors.ByteLevel(trim_offsets=True, add_prefix_space=False),
        processors.TemplateProcessing(single="<|im_start|> $A <|im_end|> <|im_end|>", pair="$A $B",
                                      special_tokens=[("<|im_start|>", 1), ("<|im_end|>", 2)])])
    return t


def llama3(corpus):
    t = byte_level(corpus, split(LLAMA3), ignore_merges=True)
    t.post_processor = processors.Sequence([
        processors.ByteLevel(trim_offsets=True),
        processors.TemplateProcessing(single="<|im_start|> $A", pair="$A $B", special_tokens=[("<|im_start|>", 1)])])
    return t


def qwen2(corpus):
    t = byte_level(corpus, split(QWEN2), normalizers.NFC())
    t.add_tokens([AddedToken("<think>", normalized=False), AddedToken("déjà", normalized=True)])
    return t


def smollm(corpus):
    return byte_level(corpus, pre_tokenizers.Sequence([pre_tokenizers.Digits(True),
                                                       pre_tokenizers.ByteLevel(add_prefix_space=False)]))


def gpt4o(corpus):
    return byte_level(corpus, split(GPT4O))


def deepseek3(corpus):
    return byte_level(corpus, pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(r"\p{N}{1,3}"), "isolated"),
        pre_tokenizers.Split(Regex("[一-龥\u3040-ゟ゠-ヿ]+"), "isolated"),
        pre_tokenizers.Split(Regex(DEEPSEEK3), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]))


def clip(corpus):
    t = Tokenizer(models.BPE(end_of_word_suffix="</w>", unk_token="<|endoftext|>"))
    t.normalizer = normalizers.Sequence([normalizers.NFC(), normalizers.Replace(Regex(r"\s+"), " "),
                                         normalizers.Lowercase()])
    t.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(CLIP), "removed", invert=True),
        pre_tokenizers.ByteLevel(add_prefix_space=False)])
    t.decoder = decoders.BPEDecoder()
    return train(t, corpus, end_of_word_suffix="</w>", special_tokens=SPECIAL,
                 initial_alphabet=pre_tokenizers.ByteLevel.alphabet())


def byte_fallback_bpe(corpus, pre, normalizer, decoder, unk="<unk>"):
    t = Tokenizer(models.BPE(unk_token=unk, byte_fallback=True, fuse_unk=True))
    if normalizer:
        t.normalizer = normalizer
    if pre:
        t.pre_tokenizer = pre
    t.decoder = decoder
    # Without a word boundary, training would treat each text as one word.
    trained = Tokenizer(models.BPE(unk_token=unk))
    trained.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    train(trained, corpus, special_tokens=["<unk>", "<s>", "</s>"] + ["<0x%02X>" % b for b in range(256)], size=800)
    model = json.loads(trained.to_str())["model"]
    t.model = models.BPE(vocab=model["vocab"], merges=[tuple(m) for m in model["merges"]], unk_token=unk,
                         byte_fallback=True, fuse_unk=True)
    t.add_special_tokens([AddedToken(x, normalized=False, special=True) for x in ("<unk>", "<s>", "</s>")])
    t.post_processor = processors.TemplateProcessing(single="<s> $A", pair="<s> $A <s>:1 $B:1",
                                                     special_tokens=[("<s>", 1)])
    return t


LLAMA2_DECODER = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]


def llama2(corpus):
    return byte_fallback_bpe(corpus, None, normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]),
                             decoders.Sequence(LLAMA2_DECODER))


def mistral(corpus):
    t = byte_fallback_bpe(corpus, pre_tokenizers.Metaspace(prepend_scheme="first", split=False), None,
                          decoders.Sequence(LLAMA2_DECODER))
    return t


def gemma(corpus):
    t = byte_fallback_bpe(corpus, pre_tokenizers.Split(" ", "merged_with_previous"), normalizers.Replace(" ", "▁"),
                          decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]))
    t.add_tokens([AddedToken("<think>", normalized=False), AddedToken("\n\n", normalized=False)])
    return t


def charsmap():
    """Returns a Precompiled table of a few rules: a double-array trie in Darts-clone's layout, as
    SentencePiece writes it.
    """
    rules = {"ﬁ": "fi", "½": "1/2", "™": "TM", "\u3000": " ", "\u00a0": " ", "\u200b": "", "\x01": "", "e\u0301": "é",
             "…": "...", "Ⅷ": "VIII", "\t": " ", "㌔": "キロ", "a\u0323": "ạ", "\r\n": "\n", "\ufeff": ""}
    texts, place = b"", {}
    for new in rules.values():
        place.setdefault(new, len(texts))
        if place[new] == len(texts):
            texts += new.encode() + b"\0"
    root = {}
    for old, new in rules.items():
        node = root
        for b in old.encode():
            node = node.setdefault(b, {})
        node[None] = place[new]
    units, used, bases = [0] * (1 << 14), {0}, set()

    def layout(node, index):
        keys = sorted(-1 if k is None else k for k in node)
        for base in range(256, 1 << 14):
            offset = index ^ base
            if base in bases or offset >= 1 << 21:
                continue
            if all((base ^ (0 if k < 0 else k)) not in used for k in keys):
                break
        bases.add(base)
        for k in keys:
            used.add(base ^ (0 if k < 0 else k))
        units[index] |= (index ^ base) << 10
        for k in keys:
            if k < 0:
                units[index] |= 1 << 8
                units[base] = node[None] | 1 << 31
            else:
                units[base ^ k] = k
        for k in keys:
            if k >= 0:
                layout(node[k], base ^ k)

    layout(root, 0)
    size = (max(used) | 255) + 1
    return base64.b64encode(struct.pack("<I", size * 4) + struct.pack(f"<{size}I", *units[:size]) + texts).decode()


def t5(corpus):
    t = Tokenizer(models.Unigram())
    t.normalizer = normalizers.Sequence([normalizers.Nmt(), normalizers.NFKC(), normalizers.Replace(Regex(" {2,}"), " ")])
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(),
                                               pre_tokenizers.Metaspace(prepend_scheme="always")])
    t.decoder = decoders.Metaspace(prepend_scheme="always")
    train(t, corpus, "unigram", unk_token="<unk>", special_tokens=["<pad>", "</s>", "<unk>"])
    t.post_processor = processors.TemplateProcessing(single="$A </s>", pair="$A </s> $B </s>", special_tokens=[("</s>", 1)])
    return t


def t5_precompiled(corpus):
    t = t5(corpus)
    spec = json.loads(t.to_str())
    spec["normalizer"] = {"type": "Sequence", "normalizers": [
        {"type": "Precompiled", "precompiled_charsmap": charsmap()},
        {"type": "Strip", "strip_left": False, "strip_right": True}]}
    spec["pre_tokenizer"] = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True}
    return Tokenizer.from_str(json.dumps(spec))


def unigram_bytes(corpus):
    t = Tokenizer(models.Unigram())
    t.normalizer = normalizers.Sequence([normalizers.NFKD(), normalizers.StripAccents(), normalizers.Lowercase(),
                                         normalizers.Strip()])
    t.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="never", split=False)
    train(t, [piece for line in corpus for piece in line.split(" ")], "unigram", unk_token="<unk>",
          special_tokens=["<unk>"] + ["<0x%02X>" % b for b in range(256)], size=700)
    spec = json.loads(t.to_str())
    spec["model"]["byte_fallback"] = True
    spec["decoder"] = json.loads(decoders.Sequence(LLAMA2_DECODER[:3]).__getstate__())
    return Tokenizer.from_str(json.dumps(spec))


def wordpiece(corpus, normalizer, pre, **model):
    t = Tokenizer(models.WordPiece(unk_token="[UNK]", **model))
    t.normalizer = normalizer
    t.pre_tokenizer = pre
    t.decoder = decoders.WordPiece()
    train(t, corpus, "wordpiece", special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"])
    t.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    return t


def bert(corpus):
    return wordpiece(corpus, normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer())


def bert_cased(corpus):
    return wordpiece(corpus, normalizers.BertNormalizer(strip_accents=True, lowercase=False, handle_chinese_chars=False),
                     pre_tokenizers.Sequence([pre_tokenizers.Whitespace(), pre_tokenizers.Digits(False)]),
                     max_input_chars_per_word=12)


def nfd_prefix(corpus):
    t = Tokenizer(models.BPE(unk_token="<unk>", continuing_subword_prefix="##"))
    t.normalizer = normalizers.NFD()
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Punctuation("contiguous")])
    train(t, corpus, continuing_subword_prefix="##", special_tokens=["<unk>"])
    t.decoder = decoders.WordPiece(cleanup=False)
    return t


def words(pre):
    def make(corpus):
        t = Tokenizer(models.WordLevel({"<unk>": 0, "the": 1, " the": 2, "a": 3}, unk_token="<unk>"))
        t.pre_tokenizer = pre
        return t

    return make


BUILDERS = {f.__name__: f for f in (gpt2, roberta, trimmed, llama3, qwen2, smollm, gpt4o, deepseek3, clip, llama2, mistral,
                                    gemma, t5, t5_precompiled, unigram_bytes, bert, bert_cased, nfd_prefix)}
for behavior in ("removed", "isolated", "merged_with_previous", "merged_with_next", "contiguous"):
    BUILDERS["split_" + behavior] = words(pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(r"[\s\-]|\p{P}+"), behavior), pre_tokenizers.Split("a", behavior, invert=True)]))
BUILDERS["words_mixed"] = words(pre_tokenizers.Sequence([
    pre_tokenizers.CharDelimiterSplit("e"), pre_tokenizers.Punctuation("merged_with_next"), pre_tokenizers.FixedLength(7)]))

CASES = ["", " ", "Hello world", " Hello  world \n", "the cat's 12345 hats, isn't it?", "<|im_start|>user\nHi<|im_end|>\n",
         "a<mask> b", "x <mask>  y", "x<mask>y", "Déjà vu déjà de\u0301ja\u0300", "<think>\n\n\nno</think>", "<s>Hi</s> you",
         "\ud55c\uae00 한국어 日本語 中文", "😀👩‍👩‍👧 x", "   lead", "trail   ", "\t\ttabs\r\n\r\nend", "é e\u0301 ﬁ ½ ™ Ⅷ",
         "WORD Word word", "supercalifragilisticexpialidocious", "[MASK] [CLS]", "ab" * 60 + "!" * 70]


def golden(name, corpus, pieces):
    tokenizer = BUILDERS[name](corpus)
    path = GOLDENS / f"{name}.tokenizer.json"
    path.write_text(json.dumps(json.loads(tokenizer.to_str()), ensure_ascii=False, separators=(",", ":")) + "\n")
    result = {"name": name, "cases": []}
    for text in CASES + corpus[:1]:
        encoding = tokenizer.encode(text, add_special_tokens=False)
        with_special = tokenizer.encode(text, add_special_tokens=True)
        tokenizer.encode_special_tokens = True
        unparsed = tokenizer.encode(text, add_special_tokens=False)
        tokenizer.encode_special_tokens = False
        result["cases"].append({
            "text": text, "ids": encoding.ids, "offsets": [x for p in byte_offsets(text, encoding) for x in p],
            "with_special": with_special.ids, "unparsed": unparsed.ids,
            "decoded": tokenizer.decode(with_special.ids, skip_special_tokens=False) if with_special.ids else "",
            "skipped": tokenizer.decode(with_special.ids, skip_special_tokens=True) if with_special.ids else ""})
    result["generated"] = hashes(tokenizer, [Mixer(pieces, 7).text(GENERATED_BYTES)])
    result["code_points"] = hashes(tokenizer, [code_point_text(*r) for r in RANGES])
    return result


def main(names):
    text = devil()
    sentences = [re.sub(r"\s+", " ", s) for s in re.split(r"(?<=[.?!])\s", text)[200:800]]
    corpus = sentences + OTHER * 3 + CODE * 2
    pieces = [s for s in sentences[:60] if len(s) < 300] + OTHER + CODE
    GOLDENS.mkdir(parents=True, exist_ok=True)
    if not names:
        (GOLDENS / "pieces.json").write_text(json.dumps(pieces, ensure_ascii=False, indent=0) + "\n")
    out = GOLDENS / "tokenizers.json"
    done = {r["name"]: r for r in json.loads(out.read_text())["tokenizers"]} if names and out.exists() else {}
    head = {"made_with": "tokenizers " + tokenizers.__version__, "generated_bytes": GENERATED_BYTES, "ranges": RANGES}
    for name in names or BUILDERS:
        done[name] = golden(name, corpus, pieces)
        print(name, done[name]["generated"]["count"], flush=True)
        ordered = [done[name] for name in BUILDERS if name in done]
        out.write_text(json.dumps({**head, "tokenizers": ordered}, ensure_ascii=False, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
