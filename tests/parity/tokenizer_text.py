"""The text on which tokenizers are compared; it is the same in every run.

It has English, code, 30 scripts, emoji, combining marks, runs of blanks, control characters,
special tokens, and every code point once."""
import unicodedata

from make_tokenizer_goldens import CODE, OTHER, Mixer, devil

BLOCK = 16_000  # bytes, approximately
CODE_POINTS = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000 and unicodedata.category(chr(c)) not in ("Cn", "Co")]
SCRIPTS = [(0x00C0, 0x0250), (0x0370, 0x0400), (0x0400, 0x0530), (0x0531, 0x0590), (0x0590, 0x0600), (0x0600, 0x0700),
           (0x0700, 0x0750), (0x0780, 0x07C0), (0x0900, 0x0980), (0x0980, 0x0A00), (0x0A00, 0x0A80), (0x0A80, 0x0B00),
           (0x0B00, 0x0B80), (0x0B80, 0x0C00), (0x0C00, 0x0C80), (0x0C80, 0x0D00), (0x0D00, 0x0D80), (0x0D80, 0x0E00),
           (0x0E00, 0x0E80), (0x0E80, 0x0F00), (0x0F00, 0x1000), (0x1000, 0x10A0), (0x10A0, 0x1100), (0x1100, 0x1200),
           (0x1200, 0x1380), (0x13A0, 0x1400), (0x1780, 0x1800), (0x1800, 0x18B0), (0x1E00, 0x2000), (0x3040, 0x30FF),
           (0x4E00, 0x9FFF), (0xAC00, 0xD7A4), (0x10330, 0x10350), (0x1D400, 0x1D800), (0x1F300, 0x1FA00)]
SPECIAL = ["<s>", "</s>", "<unk>", "<pad>", "<bos>", "<eos>", "[CLS]", "[SEP]", "[MASK]", "[UNK]", "[INST]", "<mask>",
           "<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|begin_of_text|>", "<|eot_id|>", "<|start_header_id|>",
           "<extra_id_0>", "<0x0A>", "▁", "▁▁", "Human:", "<EOT>", "<｜begin▁of▁sentence｜>"]
BLANKS = [" " * n for n in (1, 2, 3, 4, 7, 8, 15, 16, 31, 33)] + ["\t" * 3, "\n" * 4, "\r\n" * 2, " \n \n", "\u00a0 \u2003", "\v\f"]


def words(draw, script):
    """Returns some words of random letters and marks of one script."""
    letters = [chr(c) for c in range(*script) if unicodedata.category(chr(c)) != "Cn"]
    return " ".join("".join(letters[draw(len(letters))] for _ in range(1 + draw(9))) for _ in range(1 + draw(12))) + ". "


def english():
    """Returns about a megabyte of English, for timing."""
    return (devil() * 3)[: 1_000_000]


def blocks():
    mixer = Mixer([], 11)
    sentences = devil().split("\n\n")
    pieces = [s + "\n\n" for s in sentences[:400] if len(s) < 2000] + OTHER * 4 + CODE * 4 + SPECIAL * 3 + BLANKS * 3
    pieces += [words(mixer.draw, script) for script in SCRIPTS for _ in range(12)]
    done = [Mixer(pieces, seed).text(BLOCK) for seed in range(60)]
    done += ["".join(chr(c) + "a" + chr(c) * 2 + " " for c in CODE_POINTS[k : k + 800])
             for k in range(0, len(CODE_POINTS), 800)]
    return done + ["", " ", "x", "\n", "é" * 300, "ab" * 700, "!" * 400]
