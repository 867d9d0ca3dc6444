"""Exact match and F1 of torchmetrics' SQuAD, ROUGE-L of rouge_score, for
tests/evaluate/text_metrics_test.cpp.

    python tests/parity/make_metric_goldens.py    # needs rouge-score==0.1.2, torchmetrics and torch

Texts have words that the normalisations treat in different ways; one seed generates most, and a few
are written by hand.
"""
import json
import pathlib
import random

from rouge_score import rouge_scorer
from torchmetrics.functional.text.squad import _compute_exact_match_score, _compute_f1_score

OUTPUT = pathlib.Path(__file__).resolve().parents[1] / "evaluate" / "goldens" / "metrics.jsonl"
WORDS = ["the", "The", "a", "an", "AN", "cat", "Cat", "cat's", "cat,", "(dog)", "dog", "x_1", "3.5", "1,000", "état", "ÉTAT", "naïve", "Straße", "東京", "東京",
         "the-end", "a\u0301", "Kelvin", "İzmir", "\u212a", "--", "…", "don’t", "\u00a0", "\t", "\n\n", "theatre", "ΟΔΟΣ", "oδός", "½", "a.", "an!"]
BY_HAND = [("", [""]), ("", ["the"]), ("the", ["a"]), ("word", [""]), ("", ["word"]), ("!!", ["word"]), ("a b c d", ["b d a c", "a c"]),
           ("police killed the gunman", ["police kill the gunman", "the gunman kill police"]), ("Paris", ["Paris.", "the paris"]), ("x\u001cy", ["x y"])]


def main() -> None:
    random.seed(11)
    cases = list(BY_HAND)
    for _ in range(290):
        draw = lambda: "".join(random.choice(WORDS) + random.choice([" ", " ", " ", "", ", "]) for _ in range(random.randint(0, 12)))  # noqa: E731
        cases.append((draw(), [draw() for _ in range(random.randint(1, 3))]))
    rouge = rouge_scorer.RougeScorer(["rougeL"], use_stemmer=False)
    lines = []
    for answer, references in cases:
        lines.append(json.dumps({"answer": answer, "references": references,
                                 "exact_match": max(float(_compute_exact_match_score(answer, r)) for r in references),
                                 "f1": max(float(_compute_f1_score(answer, r)) for r in references),
                                 "rouge_l": max(rouge.score(r, answer)["rougeL"].fmeasure for r in references)}))
    OUTPUT.parent.mkdir(exist_ok=True)
    OUTPUT.write_text("\n".join(lines) + "\n")


main()
