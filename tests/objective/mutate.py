#!/usr/bin/env python3
"""Every row of the table of objectives, wrong in one place: a sign, a divisor, a gate. objective_test must notice each.

    python3 tests/objective/mutate.py build

Compiles each changed source anew, links the test with it and runs it. Prints one line a mutation, and exits 1 when one lives.
"""
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "core" / "objective"

# file -> function -> (kind, original text, replacement)
MUTATIONS = {
    "dpo.cpp": {
        "sigmoid": [("sign", "flip * logistic(u) - (1 - flip) * logistic(-u)", "(1 - flip) * logistic(-u) - flip * logistic(u)"),
                    ("factor", "*o.beta * (flip * logistic(u)", "(flip * logistic(u)"),
                    ("sign", "softplus(-u) + flip * softplus(u)", "softplus(-u) - flip * softplus(u)")],
        "robust": [("sign", "-*o.beta * ((1", "*o.beta * ((1"), ("divisor", "flip * logistic(u)) / right", "flip * logistic(u))"),
                   ("divisor", "softplus(u)) / right", "softplus(u))")],
        "hinge": [("sign", "? -*o.beta", "? *o.beta"), ("gate", "u < 1 ?", "true ?"), ("gate", "std::max(0.0, 1 - u)", "1 - u")],
        "ipo": [("sign", "-2 * off / count(r)", "2 * off / count(r)"), ("divisor", "2 * off / count(c)", "2 * off"),
                ("divisor", "c.ratio() / count(c)", "c.ratio()")],
        "sigmoid_norm": [("sign", "-pull / count(c)", "pull / count(c)"), ("divisor", "pull / count(r)}", "pull}"),
                         ("divisor", "r.ratio() / count(r)", "r.ratio()")],
        "exo_pair": [("sign", "(u - std::log((1", "(u + std::log((1"), ("factor", "slope(u)", "logistic(u)"),
                     ("sign", "- std::log(flip)),", "+ std::log(flip)),")],
        "nca_pair": [("sign", "/ 2 - logistic(-uc)", "/ 2 + logistic(-uc)"), ("divisor", "logistic(ur) / 2}", "logistic(ur)}"),
                     ("divisor", "softplus(ur)) / 2", "softplus(ur))")],
        "apo_zero": [("sign", "-*o.beta * slope(uc)", "*o.beta * slope(uc)"), ("factor", "slope(ur)", "logistic(ur)"),
                     ("sign", "logistic(-uc) + logistic(ur)", "logistic(-uc) - logistic(ur)")],
        "apo_down": [("sign", "slope(uc) - apart", "slope(uc) + apart"), ("sign", "+ logistic(-u)", "+ logistic(u)"),
                     ("sign", "apart, apart}", "apart, -apart}")],
        "sppo_hard": [("sign", "c.ratio() - 1 /", "c.ratio() + 1 /"), ("factor", "2 * up, 2", "up, 2"),
                      ("divisor", "r.ratio() + 1 / (2 * *o.beta)", "r.ratio() + 1 / *o.beta")],
    },
    "objective.cpp": {
        "simpo": [("sign", "- o.gamma", "+ o.gamma"), ("sign", "{softplus(-u), -pull", "{softplus(-u), pull"),
                  ("divisor", "pull / static_cast<double>(r.tokens)", "pull")],
        "log_odds": [("divisor", "static_cast<double>(answer.tokens) * std::expm1", "std::expm1"), ("gate", "flat ? 0", "false ? 0"),
                     ("sign", "mean - rest", "mean + rest")],
        "orpo": [("sign", "-pull * chosen", "pull * chosen"), ("factor", "o.odds_weight * softplus", "softplus"),
                 ("sign", "chosen.value - rejected.value", "rejected.value - chosen.value")],
        "cpo": [("sign", "softplus(-u), -pull, pull", "softplus(-u), pull, pull"), ("factor", "*o.beta * logistic(-u)", "logistic(-u)")],
        "kto": [("sign", "-way * weight", "way * weight"), ("gate", "(answer.ratio() - divergence)", "answer.ratio()"),
                ("gate", "answer.desirable ? o.desirable_weight : o.undesirable_weight", "o.desirable_weight"),
                ("sign", "answer.desirable ? 1 : -1", "1"), ("factor", "*o.beta * logistic(u)", "logistic(u)")],
        "bradley_terry": [("sign", "- c.margin", "+ c.margin"), ("sign", "-pull + 2", "pull + 2"),
                          ("factor", "pull + 2 * o.center * both}", "pull + o.center * both}"),
                          ("factor", "o.center * both * both", "o.center * both")],
    },
    "sequence_loss.cpp": {
        "add_pairs": [("divisor", "(pair.d_chosen - likelihood) / scale.divisor", "pair.d_chosen - likelihood"),
                      ("divisor", "pair.d_rejected / scale.divisor", "pair.d_rejected"), ("sign", "pair.d_chosen - likelihood", "pair.d_chosen + likelihood"),
                      ("sign", "pair.loss - likelihood", "pair.loss + likelihood"),
                      ("divisor", "scale.chosen_tokens / scale.divisor", "scale.chosen_tokens"),
                      ("gate", "objective.nll_mean == NllMean::token", "false"), ("divisor", "weight / tokens", "weight"),
                      ("divisor", "chosen.tokens + chosen.other_tokens", "chosen.tokens"),
                      ("factor", "(chosen.logp + chosen.other_logp)", "chosen.logp"),
                      ("sign", "= -likelihood / scale.divisor", "= likelihood / scale.divisor")],
        "add_pair": [("gate", "better > worse ? 1", "better >= worse ? 1"), ("sign", "better - worse", "worse - better"),
                     ("sign", "-chosen.mean()", "chosen.mean()")],
        "add_answers": [("divisor", "one.d_answer / scale.divisor", "one.d_answer"), ("gate", "answer.ratio() > scale.divergence", "answer.ratio() > 0"),
                        ("gate", 'answer.desirable ? "chosen" : "rejected"', '"chosen"')],
        "means_of": [("divisor", "mean.sum / mean.count", "mean.sum"), ("sign", 'means["reward_chosen"] - ', 'means["reward_chosen"] + ')],
    },
}


def body_of(text: str, function: str) -> tuple[int, int]:
    """The extent of its definition: from its name after a type to the next line with a lone brace."""
    begin = text.index(f" {function}(")
    return begin, text.index("\n}\n", begin)


def mutated(text: str, function: str, old: str, new: str) -> str:
    begin, end = body_of(text, function)
    if text[begin:end].count(old) != 1:
        sys.exit(f"{function}: expected once: {old}")
    return text[:begin] + text[begin:end].replace(old, new) + text[end:]


def commands_of(build: Path) -> list[list[str]]:
    listed = subprocess.run(["ninja", "-C", str(build), "-t", "commands", "objective_test"], check=True, capture_output=True, text=True)
    return [shlex.split(line) for line in listed.stdout.splitlines()]


def main() -> int:
    build, lives, count = Path(sys.argv[1]).resolve(), 0, 0
    commands = commands_of(build)
    link = next(c for c in commands if "bin/objective_test" in c)
    link = link[link.index("&&") + 1 : len(link) - link[::-1].index("&&") - 1] if "&&" in link else link
    with tempfile.TemporaryDirectory() as temporary:
        source, made, program = Path(temporary) / "mutated.cpp", Path(temporary) / "mutated.o", Path(temporary) / "test"
        for file, functions in MUTATIONS.items():
            compile_it = next(c for c in commands if c[-1].endswith(f"core/objective/{file}"))
            compile_it = [w for w in compile_it if not w.endswith("ccache")]
            compile_it[compile_it.index("-o") + 1], compile_it[-1] = str(made), str(source)
            if "-MF" in compile_it:
                compile_it[compile_it.index("-MF") + 1] = str(Path(temporary) / "deps")
            text = (FOLDER / file).read_text()
            for function, mutations in functions.items():
                for kind, old, new in mutations:
                    source.write_text(mutated(text, function, old, new))
                    subprocess.run(compile_it, cwd=build, check=True)
                    linked = list(link)
                    linked[linked.index("-o") + 1] = str(program)
                    linked.insert(linked.index(next(w for w in linked if w.endswith(".cpp.o"))), str(made))
                    subprocess.run(linked, cwd=build, check=True)
                    dies = subprocess.run([str(program)], capture_output=True).returncode != 0
                    count, lives = count + 1, lives + (not dies)
                    print(f"{'ok  ' if dies else 'LIVES'} {file} {function}, {kind}: {old}  →  {new}", flush=True)
    print(f"{count - lives} noticed, {lives} live")
    return int(lives > 0)


if __name__ == "__main__":
    sys.exit(main())
