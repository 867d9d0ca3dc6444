"""Writes what forge eval --task should find on the tiny model, by transformers; for
tests/evaluate/eval_test.py.

    python tests/parity/make_eval_goldens.py    # needs the oracle

Long text: the loop of transformers' page "Perplexity of fixed-length models", once as it is printed
there (`recipe`: a window's mean counts for one token less than it has) and once with every
prediction counted once. Choices: the sum of log-probabilities of the tokens after the prompt.
Answers: greedy.
"""
import json
import math
import pathlib

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

ROOT = pathlib.Path(__file__).resolve().parents[1]
MODEL, OUTPUT = ROOT / "fixtures" / "tiny-llama", ROOT / "evaluate" / "goldens"
TEXT = (" ".join(f"Keeper {n} climbed {n * n % 97} stairs and lit the lamp; nobody in Ostende saw it." for n in range(40))) + "\n"
CHOICES = [
    {"prompt": "One plus one is", "choices": [" two", " three hundred", " a lamp"], "answer": 2},
    {"prompt": "Question: who lit the lamp?\nAnswer:", "choices": [" the keeper", " nobody", " Ostende, in 1969", " x"], "answer": " the keeper"},
    {"prompt": "été", "choices": ["é", "s et hivers", " 42 %"], "answer": 0},
    {"prompt": "Who is it?", "choices": [" a", " the keeper of the lamp"], "answer": 1},
]
ANSWERS = [{"prompt": "The lamp", "references": ["burns", "is lit"]}, {"prompt": "def mean(values):", "reference": "return sum(values)"}]


@torch.no_grad()
def logp(model, ids):
    return torch.log_softmax(model(torch.tensor([ids])).logits[0].double(), -1)


def perplexity(model, ids, window, stride):
    total, count, recipe_total, recipe_count, previous = 0.0, 0, 0.0, 0, 0
    for begin in range(0, len(ids), stride):
        end = min(begin + window, len(ids))
        target = end - previous
        part = ids[begin:end]
        rows = logp(model, part)
        losses = [-rows[t - 1, part[t]].item() for t in range(max(1, len(part) - target), len(part))]
        total, count = total + sum(losses), count + len(losses)
        recipe_total, recipe_count = recipe_total + sum(losses) / len(losses) * (target - 1), recipe_count + target - 1
        previous = end
        if end == len(ids):
            break
    return {"window": window, "stride": stride, "perplexity": math.exp(total / count), "predicted_tokens": count,
            "recipe": math.exp(recipe_total / recipe_count)}


def choice(model, tokenizer, row):
    prompt = tokenizer(row["prompt"])["input_ids"]
    sums, tokens = [], []
    for text in row["choices"]:
        whole = tokenizer(row["prompt"] + text)["input_ids"]
        assert whole[:len(prompt)] == prompt, "the border is a border of tokens in these rows"
        rows = logp(model, whole)
        sums.append(sum(rows[t - 1, whole[t]].item() for t in range(len(prompt), len(whole))))
        tokens.append(len(whole) - len(prompt))
    return {"log_likelihoods": sums, "tokens": tokens}


def main():
    model = AutoModelForCausalLM.from_pretrained(MODEL, dtype=torch.float32).eval()
    tokenizer = AutoTokenizer.from_pretrained(MODEL)
    ids = tokenizer(TEXT)["input_ids"]
    result = {"long_text": [perplexity(model, ids, window, stride) for window, stride in [(256, 128), (256, 32), (100, 100), (64, 7), (256, 256)]],
              "choices": [choice(model, tokenizer, row) for row in CHOICES], "answers": []}
    for row in ANSWERS:
        prompt = tokenizer(row["prompt"], return_tensors="pt")["input_ids"]
        made = model.generate(prompt, max_new_tokens=12, do_sample=False, eos_token_id=2, pad_token_id=2)[0, prompt.shape[1]:]
        result["answers"].append(tokenizer.decode(made, skip_special_tokens=True).strip())
    OUTPUT.mkdir(exist_ok=True)
    (OUTPUT / "long.txt").write_text(TEXT)
    for name, rows in (("choices", CHOICES), ("answers", ANSWERS)):
        (OUTPUT / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (OUTPUT / "eval.json").write_text(json.dumps(result, indent=1) + "\n")


main()
