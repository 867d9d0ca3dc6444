#!/usr/bin/env python3
"""forge eval --task against transformers (tests/parity/make_eval_goldens.py), with the real engine
on the tiny model.

    python3 tests/evaluate/eval_test.py build/bin/forge
"""
import json
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MODEL, GOLDENS = ROOT / "tests/fixtures/tiny-llama", ROOT / "tests/evaluate/goldens"
WANT = json.loads((GOLDENS / "eval.json").read_text())
failures = []


def check(name, good, said):
    print(f"{'ok  ' if good else 'FAIL'}  {name}: {said}")
    if not good:
        failures.append(name)


def near(a, b, relative):
    return abs(a - b) <= relative * abs(b)


def forge(*words, fails=False):
    done = subprocess.run([FORGE, "eval", "--model", MODEL, *map(str, words)], capture_output=True, text=True)
    assert (done.returncode != 0) == fails, done.stderr
    return done.stderr if fails else json.loads(done.stdout)


def long_texts(folder):
    for want in WANT["long_text"]:
        got = forge("--task", "long-text", "--data", GOLDENS / "long.txt", "--window", want["window"], "--stride", want["stride"], "--json")
        name = f"window {want['window']} stride {want['stride']}"
        check(name, near(got["perplexity"], want["perplexity"], 1e-5), f"{got['perplexity']:.6f}, transformers {want['perplexity']:.6f}")
        check(name + " tokens", got["predicted_tokens"] == want["predicted_tokens"], f"{got['predicted_tokens']:,} predicted")
        # The recipe as printed weighs each window by one token less than it predicts.
        check(name + " recipe", near(got["perplexity"], want["recipe"], 0.03), f"as printed there {want['recipe']:.4f}")


def choices(folder):
    out = folder / "choices.jsonl"
    got = forge("--task", "choices", "--data", GOLDENS / "choices.jsonl", "--per-example", out, "--json")
    rows = [json.loads(line) for line in (GOLDENS / "choices.jsonl").read_text().splitlines()]
    right = {"accuracy": 0, "accuracy_per_token": 0, "accuracy_per_character": 0}
    for row, want, line in zip(rows, WANT["choices"], out.read_text().splitlines(), strict=True):
        line = json.loads(line)
        sums = line["log_likelihoods"]
        check(row["prompt"][:20], all(near(a, b, 1e-5) for a, b in zip(sums, want["log_likelihoods"], strict=True)), f"{sums} {want['log_likelihoods']}")
        answer = row["answer"] if isinstance(row["answer"], int) else row["choices"].index(row["answer"])
        for key, by in (("accuracy", [1] * len(sums)), ("accuracy_per_token", want["tokens"]), ("accuracy_per_character", map(len, row["choices"]))):
            scores = [value / length for value, length in zip(want["log_likelihoods"], by)]
            chosen = scores.index(max(scores))
            right[key] += chosen == answer
            check(f"{row['prompt'][:20]} {key}", line[key.replace("accuracy", "chosen")] == chosen, f"choice {chosen}")
    for key, count in right.items():
        check(key, got[key] == count / len(rows), f"{got[key]} of {count}/{len(rows)}")


def answers(folder):
    out = folder / "answers.jsonl"
    got = forge("--task", "answers", "--data", GOLDENS / "answers.jsonl", "--max-new-tokens", 12, "--per-example", out, "--json")
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    check("greedy answers", [line["answer"] for line in lines] == WANT["answers"], str(WANT["answers"]))
    check("no answer is right", got["exact_match"] == 0 and got["cut_answers"] == 2, str(got))
    rows = folder / "right.jsonl"
    rows.write_text("".join(json.dumps({"prompt": json.loads(row)["prompt"], "references": ["no", "The " + answer.upper() + "!"]}) + "\n"
                            for row, answer in zip((GOLDENS / "answers.jsonl").read_text().splitlines(), WANT["answers"])))
    got = forge("--task", "answers", "--data", rows, "--max-new-tokens", 12, "--json")
    check("right answers", got["exact_match"] == 1 and got["f1"] == 1, str(got))


def refusals(folder):
    bad = folder / "bad.jsonl"
    bad.write_text('{"prompt": "x", "choices": ["a"], "answer": 0}\n{"prompt": "x", "choices": ["a", "b"], "answer": 2}\n'
                   '{"choices": ["a", "b"], "answer": 1}\n{"prompt": "x", "choices": ["a", ""], "answer": 0}\n{"prompt": \n')
    said = forge("--task", "choices", "--data", bad, fails=True)
    check("all faulty rows are named", all(f"bad.jsonl:{n}:" in said for n in (1, 2, 3, 4, 5)), said)
    for words, want in ((["--task", "chioces"], "did you mean \"choices\""), (["--stride", "4"], "--stride goes with --task long-text"),
                        (["--task", "choices", "--max-new-tokens", "3"], "--max-new-tokens goes with --task answers"),
                        (["--task", "answers", "--train-on", "all"], "--train-on does not go with --task answers"),
                        (["--task", "long-text", "--window", "8", "--stride", "9"], "--stride 9")):
        said = forge(*words, "--data", GOLDENS / "choices.jsonl", fails=True)
        check(" ".join(words), want in said, said.strip())


FORGE = sys.argv[1]
with tempfile.TemporaryDirectory(prefix="forge-eval-") as name:
    for test in (long_texts, choices, answers, refusals):
        test(Path(name))
print(f"{len(failures)} failed")
sys.exit(bool(failures))
