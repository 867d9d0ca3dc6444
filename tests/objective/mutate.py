#!/usr/bin/env python3
"""Makes every row of the tables of objectives and policies wrong in one place: a sign, a divisor, a
gate. A test must notice each.

    python3 tests/objective/mutate.py build [objective | reinforce | rollout]…

Compiles each changed source, links the test of its folder with it and runs the test. Prints one
line a mutation, and exits 1 if one survives.
"""
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# {folder of core: tests}; one of them must notice.
TESTS = {"objective": ["objective_test"], "reinforce": ["reinforce_test", "rollout_test"], "rollout": ["rollout_test"]}

# {file: {function ("" if the text occurs once in the file): [(kind, original text, replacement)]}}
MUTATIONS = {
    "objective/dpo.cpp": {
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
    "objective/objective.cpp": {
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
    "objective/sequence_loss.cpp": {
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
    "reinforce/policy.cpp": {
        "clip_term": [("gate", "a < 0 && r > *rule", "r > *rule"), ("sign", "{-*rule.dual_clip * a", "{*rule.dual_clip * a"),
                      ("gate", "a, 0, Limit::dual", "a, -a * r, Limit::dual"), ("gate", "a >= 0 && r > 1", "r > 1"),
                      ("gate", "r > 1 + rule.clip_high", "r >= 1 + rule.clip_high"), ("gate", "r > 1 + rule.clip_high", "r > 1 + rule.clip_low"),
                      ("sign", "{-(1 + rule", "{(1 + rule"), ("gate", "a, 0, Limit::high", "a, -a * r, Limit::high"),
                      ("gate", "a < 0 && r < 1", "r < 1"), ("gate", "r < 1 - rule.clip_low", "r <= 1 - rule.clip_low"),
                      ("gate", "r < 1 - rule.clip_low", "r < 1 - rule.clip_high"), ("sign", "{-(1 - rule", "{(1 - rule"),
                      ("gate", "a, 0, Limit::low", "a, -a * r, Limit::low"), ("sign", "{-r * a,", "{r * a,"), ("sign", "-a * r}", "a * r}"),
                      ("factor", "-a * r}", "-a}")],
        "sapo_term": [("gate", "a > 0 ?", "a < 0 ?"), ("sign", "(r - 1)", "(r + 1)"), ("sign", "{-a * 4", "{a * 4"), ("divisor", "s / tau", "s"),
                      ("sign", "-a * r * 4", "a * r * 4"), ("factor", "-a * r * 4", "-a * 4"), ("sign", "(1 - s)", "(1 + s)")],
        "term_of": [("gate", "std::min(r, 1 + rule.clip_high)", "std::min(r, rule.clip_high)"), ("gate", "std::min(r, 1 + rule.clip_high)", "r"),
                    ("sign", "{-weight", "{weight"), ("sign", "-a * weight", "a * weight"), ("factor", "-a * weight", "-a"),
                    ("sign", "{-a * lp, -a}", "{a * lp, -a}"), ("sign", "{-a * lp, -a}", "{-a * lp, a}")],
        "count": [("gate", "limit == Limit::low", "limit == Limit::high"), ("gate", "clipped_high += limit == Limit::high", "clipped_high += 0"),
                  ("gate", "clipped_dual += limit == Limit::dual", "clipped_dual += 0")],
        "": [("sign", "std::exp(lp[t] - lp_old[t])", "std::exp(lp_old[t] - lp[t])"), ("divisor", "PolicyRatio::sum ? 1 :", "PolicyRatio::token ? 1 :"),
             ("sign", "numerator - log_denominator", "log_denominator - numerator"), ("divisor", "term.slope * each", "term.slope"),
             ("divisor", "std::log(rule.group_denominator)", "rule.group_denominator"), ("divisor", "each * sum_of(lp_old)", "sum_of(lp_old)")],
        "group_denominator": [("divisor", "sum_of(lp_old) / static_cast<double>(lp_old.size())", "sum_of(lp_old)"), ("factor", "+= q * q", "+= q"),
                              ("divisor", "squares / sum", "sum / squares")],
        "step_divisor": [("divisor", "return all;", "return sequences;"), ("divisor", "return sequences;", "return all;"),
                         ("divisor", "sequences * static_cast<double>(max_new_tokens)", "sequences")],
        "token_weight": [("divisor", "1 / static_cast<double>(tokens)", "1")],
        "kl_term": [("sign", "lp - lp_reference", "lp_reference - lp"), ("sign", "{x, 1}", "{x, -1}"), ("divisor", "x * x / 2, x", "x * x, x"),
                    ("factor", "x * x / 2, x", "x * x / 2, 1"), ("gate", "std::min(-x, kMost)", "-x"), ("sign", "std::expm1(d) - d", "std::expm1(d) + d"),
                    ("gate", "-x > kMost ? 0 : x", "x"), ("sign", "0 : x}", "0 : -x}")],
    },
    "reinforce/advantage.cpp": {
        "moments_of": [("divisor", "(count - 1)", "count"), ("divisor", "/= count", "/= (count + 1)")],
        "whiten": [("factor", "mean += weight * value", "mean += value"), ("divisor", "(value - mean) / tokens", "(value - mean)"),
                   ("sign", "made.values[i] - mean", "made.values[i] + mean"), ("divisor", "/ std::sqrt(std::max(variance, 1e-8))", "")],
        "make_advantages": [("gate", "&& rewards[i].tokens > 0", ""), ("gate", "? 1 : 2", "? 1 : 1"), ("gate", "moments.deviation < kFlatDeviation", "false"),
                            ("sign", "value - moments.mean", "value + moments.mean"), ("divisor", "count / (count - 1)", "(count - 1) / count"),
                            ("divisor", "(moments.deviation + rule.epsilon)", "1"), ("divisor", "moments.deviation + rule.epsilon", "moments.deviation"),
                            ("divisor", "value /= deviation + rule.epsilon", "value *= 1"),
                            ("gate", "rule.scale != AdvantageScale::batch", "true")],
    },
    "rollout/policy_step.cpp": {
        "trains": [("gate", "!(o.mask_truncated && c.truncated)", "true"), ("gate", "c.counts && ", "")],
        "divergence_of": [("sign", "sum += kl_term", "sum -= kl_term")],
        "weights_of": [("gate", "step.correction ? importance_weights(c, *step.correction) :", ""), ("gate", "rule.ratio != PolicyRatio::token", "false"),
                       ("divisor", "std::accumulate(weights.loss.begin(), weights.loss.end(), 0.0)", "1.0")],
        "loss_of": [("gate", "if (rule.ratio == PolicyRatio::group)", "if (false)"), ("gate", "static_cast<size_t>(c.group)", "0"),
                    ("gate", "c.advantages.empty() ?", "true ?")],
        "": [("gate", "std::min(limit, std::exp", "(std::exp"), ("sign", "double{c.old_logps[t]} - c.sampler_logps[t]", "double{c.sampler_logps[t]} - c.old_logps[t]")],
        "success_cotangent": [("sign", "? -o.success_nll", "? o.success_nll"), ("divisor", "o.success_nll / step.success_tokens", "o.success_nll"),
                              ("gate", "&& succeeded(c)", "")],
        "estimate": [("sign", "= -o.kl.weight", "= o.kl.weight"), ("gate", "rewards.back() +=", "rewards.front() +="),
                     ("gate", "o.gamma_discount, lambda)", "o.gamma_discount, o.lambda_value)"), ("gate", "o.gamma_discount, o.lambda_value)", "o.gamma_discount, lambda)"),
                     ("sign", "c.returns[t] += values[t]", "c.returns[t] -= values[t]")],
        "give_token_advantages": [("gate", "if (o.advantage.scale == AdvantageScale::batch)", "if (false)"), ("gate", "c.reward && c.tokens() > 0", "c.tokens() > 0 && (c.reward = c.reward.value_or(0))")],
        "give_advantages": [("sign", "*reward -= o.kl.weight", "*reward += o.kl.weight")],
        "policy_step": [("gate", "step.first || o.policy", "true || o.policy"), ("gate", "&& !in_loss(o)", ""), ("gate", "&& !by_group", ""),
                        ("gate", "&& o.entropy_weight == 0", ""), ("gate", "c.group < begin ||", ""), ("gate", "c.group >= end ||", ""),
                        ("gate", "c.advantage != 0 || has_value(o) || in_loss(o) || o.entropy_weight > 0", "c.advantage != 0"),
                        ("gate", "c.advantage != 0 ||", "true ||")],
        "known_cotangents": [("divisor", " / step.divisor", ""), ("factor", "each * weights[t]", "weights[t]"), ("factor", "each * weights[t]", "each"), ("sign", "+ success", "- success")],
        "policy_tokens": [("sign", "= -o.entropy_weight", "= o.entropy_weight"), ("divisor", "o.entropy_weight * each / step.divisor", "o.entropy_weight * each"),
                          ("gate", "(!step.first || by_group)", "by_group"), ("factor", "weights.cotangent[t] * loss.cotangent[t]", "loss.cotangent[t]"),
                          ("factor", "weights.loss[t] * loss.token_loss[t]", "loss.token_loss[t]"), ("factor", "weights.loss[t] * std::exp", "std::exp"),
                          ("sign", "logps[t] - old[t]", "old[t] - logps[t]"), ("factor", "token_loss += o.kl.weight * ratio * kl.value", "token_loss += o.kl.weight * kl.value"),
                          ("factor", "o.kl.weight * ratio * kl.cotangent", "o.kl.weight * kl.cotangent"), ("sign", "cotangent += o.kl.weight", "cotangent -= o.kl.weight"),
                          ("divisor", "cotangent * each / step.divisor", "cotangent * each"), ("factor", "cotangent * each / step.divisor", "cotangent / step.divisor"),
                          ("sign", "+ success);", "- success);"), ("factor", "token_loss * each", "token_loss")],
        "value_tokens": [("divisor", "cotangent / step.value_tokens", "cotangent")],
    },
    "reinforce/value.cpp": {
        "generalized_advantages": [("sign", "gamma * next_value - values[t]", "gamma * next_value + values[t]"), ("factor", "gamma * next_value", "next_value"),
                                   ("factor", "gamma * lambda * next", "gamma * next"), ("factor", "gamma * lambda * next", "lambda * next"),
                                   ("sign", "delta + gamma", "delta - gamma")],
        "lambda_of_length": [("sign", "1 - 1 /", "1 + 1 /"), ("gate", "std::max(0.0,", "std::max(-1e9,"), ("factor", "alpha * static_cast<double>(tokens)", "alpha")],
        "whiten_tokens": [("divisor", "variance / (count - 1)", "variance / count"), ("sign", "(value - mean) * scale", "(value + mean) * scale"),
                          ("divisor", "1 / std::sqrt", "1 * std::sqrt"), ("gate", "if (count < 2) return;", "")],
        "value_loss": [("sign", "values[t] - returns[t];\n    const double held", "values[t] + returns[t];\n    const double held"), ("gate", "clip > 0 ?", "true ?"),
                       ("sign", "old_values[t] - clip,", "old_values[t] + clip,"), ("factor", "0.5 * std::max", "std::max"), ("gate", "std::max(off", "std::min(off"),
                       ("gate", "saturated ? 0 : off", "off"), ("gate", "held * held > off * off", "held * held < off * off")],
    },
}


def body_of(text: str, function: str) -> tuple[int, int]:
    """Returns the extent of a function's definition: from its name after a type to the next line
    with a lone brace.
    """
    if not function:
        return 0, len(text)
    begin = text.index(f" {function}(")
    return begin, text.index("\n}\n", begin)


def mutated(text: str, function: str, old: str, new: str) -> str:
    begin, end = body_of(text, function)
    if text[begin:end].count(old) != 1:
        sys.exit(f"{function}: expected once: {old}")
    return text[:begin] + text[begin:end].replace(old, new) + text[end:]


def commands_of(build: Path, test: str) -> list[list[str]]:
    listed = subprocess.run(["ninja", "-C", str(build), "-t", "commands", test], check=True, capture_output=True, text=True)
    return [shlex.split(line) for line in listed.stdout.splitlines()]


def link_of(commands: list[list[str]], test: str) -> list[str]:
    link = next(c for c in commands if f"bin/{test}" in c)
    return link[link.index("&&") + 1 : len(link) - link[::-1].index("&&") - 1] if "&&" in link else link


def fails(link: list[str], made: Path, program: Path, build: Path) -> bool:
    link[link.index("-o") + 1] = str(program)
    link.insert(link.index(next(word for word in link if word.endswith(".cpp.o"))), str(made))
    subprocess.run(link, cwd=build, check=True)
    return subprocess.run([str(program)], capture_output=True).returncode != 0


def main() -> int:
    build, lives, count = Path(sys.argv[1]).resolve(), 0, 0
    with tempfile.TemporaryDirectory() as temporary:
        source, made, program = Path(temporary) / "mutated.cpp", Path(temporary) / "mutated.o", Path(temporary) / "test"
        for file, functions in MUTATIONS.items():
            folder = file.split("/")[0]
            if sys.argv[2:] and folder not in sys.argv[2:]:
                continue
            listed = {test: commands_of(build, test) for test in TESTS[folder]}
            commands = next(iter(listed.values()))
            compile_it = next(c for c in commands if c[-1].endswith(f"core/{file}"))
            compile_it = [w for w in compile_it if not w.endswith("ccache")]
            compile_it[compile_it.index("-o") + 1], compile_it[-1] = str(made), str(source)
            if "-MF" in compile_it:
                compile_it[compile_it.index("-MF") + 1] = str(Path(temporary) / "deps")
            text = (ROOT / "core" / file).read_text()
            for function, mutations in functions.items():
                for kind, old, new in mutations:
                    source.write_text(mutated(text, function, old, new))
                    subprocess.run(compile_it, cwd=build, check=True)
                    dies = any(fails(link_of(listed[test], test), made, program, build) for test in listed)
                    count, lives = count + 1, lives + (not dies)
                    print(f"{'ok  ' if dies else 'LIVES'} {file} {function}, {kind}: {old}  →  {new}", flush=True)
    print(f"{count - lives} noticed, {lives} live")
    return int(lives > 0)


if __name__ == "__main__":
    sys.exit(main())
