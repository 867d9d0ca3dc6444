"""Faults made by rule: each is one textual change of a kernel's source, of a kind that kernels get
wrong.

mutations_of(path, text) returns [Mutation]. The rules know no C++: they match the text of the
sources. A mutation that does not compile is counted and not run.
"""
import re
import zlib
from dataclasses import dataclass


@dataclass(frozen=True)
class Mutation:
    path: str
    kind: str
    begin: int
    end: int
    replacement: str
    line: str  # without blanks at its ends
    becomes: str  # with the fault
    number: int = 1  # among equal lines of the file

    def applied(self, text):
        return text[: self.begin] + self.replacement + text[self.end :]

    def name(self):
        again = f"#{self.number}" if self.number > 1 else ""
        return f"{self.path} | {self.kind} | {self.line} | " + " ".join(filter(None, [self.becomes, again]))


SIZES = r"(?:a\.|args\.|s\.|row\.|l\.)?(?:width|count|vocab|rows|tokens|columns|features|positions|end|last|half|length|blocks)\b"
NOT_ZERO = r"(?!\s*0\b)"

# (kind, pattern, replacement of the whole match)
RULES = [
    ("barriers", r"__sync(?:threads|warp)\(\);|__threadfence\(\);", ""),
    ("shuffles", r"kWarp / 2(?=; lanes)", "kWarp / 4"),
    ("shuffles", r"lanes /= 2", "lanes /= 4"),
    ("shuffles", r"lanes > 0", "lanes > 1"),
    ("bounds", rf" < (?={SIZES})", " <= "),
    ("bounds", rf" >= (?={SIZES})", " > "),
    ("tails", r"\bif \([^;{}?]*\) (?:break|continue|return);", ";"),
    ("tails", r"std::min(?:<int64_t>)?\(([^(),]+), [^()]*?\)", r"(\1)"),
    ("second passes", r"(?<=[;:] )(\w+) \+= [^;()]+(?=\)[^;]*[{\n])", r"\1 += 1 << 30"),
    ("second passes", r"(?<=[;:] )(\w+) \+= int64_t\(blockDim\.x\)[^;()]*(?=\))", r"\1 += 1 << 30"),
    ("zeros", r" > 0(?![\w.])", " >= 0"),
    ("zeros", r" >= 0(?![\w.])", " > 0"),
    ("zeros", r" < 0(?![\w.])", " <= 0"),
    ("zeros", r" == 0(?![\w.])", " != 0"),
    ("zeros", r" != 0(?![\w.])", " == 0"),
    ("nulls", r"[\w.]+ != nullptr(?= \?|\))", "true"),
    ("nulls", r"[\w.]+ == nullptr(?=\))", "false"),
    ("nulls", r"(?<=if \()(?:a\.|args\.)?(?:y|bias|inverse|copy|d_x|d_weight|d_hidden|d_b|logp|lse|residual|d_w)(?=\))", "true"),
    ("order", r"\? ([\w.\[\]+* -]+) : ([\w.\[\]+* -]+)(?=;|\)[;,])", r"? \2 : \1"),
    ("order", r"\b(std::)?max\(", r"\1min("),
    ("order", r"\bfmaxf\(", "fminf("),
    ("order", r"\bfminf\(", "fmaxf("),
    ("sign", r"(?<=[\w\])]) - (?=[\w(])", " + "),
    ("sign", r"(?<=[\w\])]) \+ (?=[\w(])", " - "),
    ("divisor", r"(?<=[\w\])]) / (?=[\w(])", " * "),
    ("divisor", r"(?<=[\w\])]) % (?=[\w(])", " / "),
    ("index", r"blockIdx\.x", "blockIdx.y"),
    ("index", r"\[(k|row|i)\]", r"[\1 ^ 1]"),
    ("index", r"\[(row|token|r|block)\]", "[0]"),
    ("off by one", r"\b(first|i|row|column|range_|block|sorted)(?= \+ )", r"\1 + 1"),
    ("off by one", r"(?<=[;(] )int (\w+) = 0(?=; \1 <)", r"int \1 = 1"),
    ("off by one", r"int64_t (\w+) = (first|begin|0)(?=; \1 <)", r"int64_t \1 = \2 + 1"),
    ("type widths", r"\bdouble (?=sum|total|own|running|before|goal|norm)", "float "),
    ("type widths", r"\buint64_t\b(?!,| (?:seed|stream))", "uint32_t"),
    ("type widths", r"\bint64_t\((?=blockIdx|blockDim|gridDim|threadIdx)", "int8_t("),
    ("type widths", r"\bwiden\((\w+\[k\])\)", r"widen(narrow<fp16>(widen(\1)))"),
    ("seeds", r"\b(?:a|args)\.(?:seed|stream|streams\[r\]|indices\[r\])(?=[ ,)])", "1"),
    ("seeds", r"(<<|>>) (\d+)", r"\1 (\2 - 1)"),
    ("strides", r"\b(a|args)\.(?:\w+_)?stride(?=[;)\] ])(?! =)", r"\1.SIZE"),
    ("launch bounds", r"__launch_bounds__\(([^()]+)\)", "__launch_bounds__(16)"),
    ("launch bounds", r"(threads_for\(.*, )(?:1024|512|256|k\w+Threads)(?=\)[;},])", r"\g<1>2048"),
    ("launch bounds", r"(?<=, )(256|kWeightWarps \* kWarp)(?=\};)", "1056"),
    ("grid limits", r"(?:rows|args\.rows) < 65535 \? (?:args\.)?rows : 65535", "200000"),
    ("grid limits", r"std::min<int64_t>\(rows, 65535\)", "200000"),
    ("grid limits", r"(row|token|sorted) = blockIdx\.y", r"\1 = blockIdx.y / 2"),
    ("grid limits", r"(?<!threads_for\()(?<!shape_of\()(?<!int64_t )ceil_div\(([^,()]+(?:\([^()]*\))?), ([^()]+)\)", r"(ceil_div(\1, \2) + 1) / 2"),
    ("atomics", r"atomicAdd\((.+?), (a\.scale[^;]*)\);", r"*(\1) += \2;"),
    ("atomics", r"atomicOr\((\w+), (\w+)\);", r"if (threadIdx.x == 0) *\1 = \2;"),
    ("epsilon", r" \+ (?:a\.|r\.)?(?:eps|1e-6f?)\b", ""),
    ("epsilon", r", r\.eps\)", ", set(0.0f))"),
    ("streams", r", stream(?=[,)])", ", nullptr"),
    ("stores", r"(?<=\n)\s*(?:if \([^;{}]*\) )?(?:store_vector<N>|store_n|at\.store)\([^;]*\);(?= *\n)", ";"),
    ("stores", r"(?<=\n)\s*(?:if \([^;{}]*\) )?(?:a|args)\.\w+\[[^=;]*\] = [^;]*;", ";"),
]
# Arithmetic is everywhere, so one in this many of these kinds is taken, the same ones until their
# line changes. A CPU's sources, where oracles and bounds are the same and compiling takes longer,
# have fewer of all kinds.
THINNED = {"sign": 10, "index": 4, "type widths": 4, "off by one": 3, "divisor": 3, "order": 2, "zeros": 2, "tails": 2}
CPU_THINNED = 3

COMPILED = [(kind, re.compile(pattern), to) for kind, pattern, to in RULES]
# Places where a launcher checks that everything is aligned to 16 bytes: each pointer and stride
# that it checks.
ASKED = re.compile(r"(?:sixteen_byte<\w+>\(|dispatch_four\(|update<\w+>\([^{}]*)(\{[^{}]*\})(?:,\s*(\{[^{}]*\}))?")


def masked(text):
    """Returns the text with comments, strings and preprocessor lines blanked, every other character
    in its place.
    """
    blank = lambda m: re.sub(r"[^\n]", "\0", m[0])
    return re.sub(r'//[^\n]*|"(?:[^"\\\n]|\\.)*"|^[ \t]*#(?:[^\n]*\\\n)*[^\n]*|static_assert\([^;]*;', blank, text, flags=re.M)


def line_around(text, begin, end):
    first, last = text.rfind("\n", 0, begin) + 1, text.find("\n", end)
    return " ".join(text[first : last if last >= 0 else None].split())


def made(path, text, kind, begin, end, replacement, seen):
    line = line_around(text, begin, end)
    changed = text[:begin] + replacement + text[end:]
    becomes = line_around(changed, begin, begin + len(replacement))
    seen[(kind, line, becomes)] = number = seen.get((kind, line, becomes), 0) + 1
    return Mutation(path, kind, begin, end, replacement, line, becomes, number)


def taken(mutation):
    share = THINNED.get(mutation.kind, 1) * (CPU_THINNED if "cuda" not in mutation.path and not re.search(r"\.cuh?$", mutation.path) else 1)
    return zlib.crc32(mutation.name().encode()) % share == 0


def mutations_of(path, text):
    shown, result, seen, changes = masked(text), [], {}, set()
    # A row's stride is replaced by its length; if the file knows no such length, by one more.
    size = next((s for s in ("width", "vocab", "columns", "features") if re.search(rf"\b{s};|\b{s},|int64_t[^;]*\b{s}\b", shown)), None)
    for list_of in (g for m in ASKED.finditer(shown) for g in (m.span(1), m.span(2)) if g[0] >= 0):
        for match in re.finditer(r"(?<=[{ ])\w[\w.]*(?:, |(?=\}))", shown[list_of[0] : list_of[1]]):
            begin = list_of[0] + match.start()
            result.append(made(path, text, "alignments", begin, list_of[0] + match.end(), "", seen))
    for kind, pattern, to in COMPILED:
        for match in pattern.finditer(shown):
            replacement = match.expand(to).replace("SIZE", size or f"{match[0].partition('.')[2]} + 1")
            change = (match.start(), match.end(), replacement)
            if replacement == match[0] or change in changes or "\0" in match[0]:
                continue
            changes.add(change)
            result.append(made(path, text, kind, *change, seen))
    return [m for m in result if taken(m)]
