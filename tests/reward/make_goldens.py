#!/usr/bin/env python3
"""Verdicts of published verifiers on hard cases: goldens/*.json, with which reward_test compares
forge.

    pip install math-verify==0.9.0 jsonschema==4.26.0 && python3 tests/reward/make_goldens.py

answers.json: TRL 1.16's accuracy_reward (math-verify with its settings) and the rule of GSM8K's
paper ("#### NUMBER", compared as text without commas) on the same completions. json_schema.json:
jsonschema, draft 2020-12.
"""
import json
import logging
import re
from pathlib import Path

import jsonschema
from latex2sympy2_extended import NormalizationConfig
from math_verify import LatexExtractionConfig, parse, verify

HERE = Path(__file__).parent / "goldens"
logging.disable(logging.CRITICAL)

# (reference answer, content of the completion's box)
BOXED = [
    ("1/2", "0.5"), (r"\frac{1}{2}", "0.5"), (r"\frac12", r"\dfrac{2}{4}"), (r"-\frac{1}{2}", r"\frac{-1}{2}"), ("1,234", "1234"), ("1234", "1{,}234"),
    (r"1234", r"1,\!234"), (r"\$5", "5"), ("5", r"5\text{ cm}"), (r"5\text{ cm}", "5"), ("90", r"90^\circ"), (r"50\%", "50"), (r"50\%", "0.5"), ("0.5", r"50\%"),
    ("5", "x=5"), ("x=5", "5"), (r"\sqrt{8}", r"2\sqrt{2}"), (r"\sqrt[3]{27}", "3"), ("1024", "2^{10}"), ("0.01", "10^{-2}"), (r"3\frac{1}{2}", "3.5"),
    (r"\log_2 8", "3"), (r"\binom{5}{2}", "10"), ("5!", "120"), ("3", "|-3|"), (r"\frac{1}{3}", "0.333333"), (r"\frac{1}{3}", "0.33333"), ("0.33", r"\frac{1}{3}"),
    ("0.3", "0.1+0.2"), ("x^2-1", "(x-1)(x+1)"), ("2xy", r"y \cdot 2x"), (r"\frac{x}{2}", "0.5x"), ("1,2", "2,1"), (r"\{1,2\}", r"\{2,1\}"), ("(1,2)", "(2,1)"),
    (r"\pm 2", "2,-2"), ("1,2", "1"), ("(1,2)", "(1,2)"), ("(1,2)", "[1,2]"), ("(1,2)", r"\{1,2\}"), (r"(-\infty,2)\cup(3,\infty)", r"(3,\infty)\cup(-\infty,2)"),
    ("[0,1)", "[0,1]"), (r"\begin{pmatrix}1&2\\3&4\end{pmatrix}", r"\begin{pmatrix}1 & 2 \\ 3 & 4\end{pmatrix}"), ("y=2x+1", "y=1+2x"), ("x+y=3", "3-x=y"),
    ("x<3", "3>x"), ("x<3", r"(-\infty,3)"), (r"\text{Monday}", r"\text{Monday}"), (r"\text{Monday}", r"\text{Tuesday}"), (r"\text{A}", "A"), (r"\infty", r"-\infty"),
    (r"\frac{\pi}{2}", "1.570796"), (r"\frac{\sqrt{3}}{2}", r"\sqrt{3}/2"), ("7", "8"), ("-7", "7"), ("2", "-2"), (r"\frac{3}{4}", r"\frac{4}{3}"), ("10", "010"),
    ("1.0", "1"), ("1", "1.0000001"), ("1.2e3", "1200"), ("12345678901234567890", "12345678901234567891"), ("i^2", "-1"), ("1+2i", "2i+1"), (r"\sqrt{x^2}", "x"),
    (r"\frac{1}{0}", "0"), ("x", "y"), (r"e^{x}e^{y}", "e^{x+y}"), (r"\sin^2 x+\cos^2 x", "1"), ("(a+b)^2", "a^2+2ab+b^2"), ("42", ""), ("42", "no idea"),
    (r"72", r"72\text{ clips}"), (r"\frac{9}{4}", "2.25"), ("100000", "100,000"), ("6", r"6\,\text{m}^2"), ("0", "-0"), ("1 and 2", "1,2"), (r"2\pi r", r"2\pi r"),
]

# (reference answer of GSM8K, completion)
GSM8K = [
    ("72", "48 + 24 = 72\n#### 72"), ("72", "#### 73"), ("1000", "#### 1,000"), ("72", "#### 72."), ("72", "so it is 72"), ("-5", "#### -5"), ("0.5", "#### 0.5"),
    ("72", "#### 72 clips"), ("72", "#### $72"), ("72", "####72"), ("5", "#### 5.0"), ("72", "#### 7 2"), ("72", "#### 71\n#### 72"),
]

SCHEMAS = [
    ({"type": "object"}, [{}, [], None, 1, "a"]),
    ({"type": ["integer", "null"]}, [1, 1.0, 1.5, None, True, "1"]),
    ({"type": "number"}, [1, 1.5, True, "1"]),
    ({"enum": [1, "a", None, [1], {"a": 1}]}, [1, 1.0, "a", None, True, [1], [1.0], {"a": 1}, {"a": 2}]),
    ({"const": {"a": [1, 2]}}, [{"a": [1, 2]}, {"a": [2, 1]}, {"a": [1, 2], "b": 1}]),
    ({"const": False}, [False, 0, None]),
    ({"properties": {"a": {"type": "string"}, "b": False}, "required": ["a"], "additionalProperties": {"type": "integer"}},
     [{"a": "x"}, {}, {"a": 1}, {"a": "x", "b": 1}, {"a": "x", "c": 1}, {"a": "x", "c": "y"}, [], 3]),
    ({"additionalProperties": False}, [{}, {"a": 1}]),
    ({"minProperties": 1, "maxProperties": 2}, [{}, {"a": 1}, {"a": 1, "b": 2, "c": 3}, []]),
    ({"items": {"minimum": 3}}, [[], [3], [2], [3, "x"], {"a": 1}]),
    ({"prefixItems": [{"type": "string"}], "items": {"type": "integer"}}, [["a"], ["a", 1], [1], ["a", "b"], []]),
    ({"items": False, "prefixItems": [True]}, [[1], [1, 2], []]),
    ({"minItems": 1, "maxItems": 2, "uniqueItems": True}, [[], [1], [1, 2], [1, 1], [1, 1.0], [1, True], [1, 2, 3], [{"a": 1}, {"a": 1}]]),
    ({"minLength": 2, "maxLength": 3}, ["a", "ab", "žlu", "žluť", "😀😀", 1]),
    ({"pattern": "^a+$"}, ["aa", "ab", "", 1]),
    ({"pattern": "b"}, ["abc", "ac"]),
    ({"minimum": 0, "maximum": 10}, [0, 10, -1, 10.5, "x"]),
    ({"exclusiveMinimum": 0, "exclusiveMaximum": 10}, [0, 10, 0.1, 9]),
    ({"multipleOf": 0.5}, [1, 1.5, 1.25, 0]),
    ({"multipleOf": 3}, [9, 10, 0, -3]),
    ({"anyOf": [{"type": "string"}, {"minimum": 5}]}, ["a", 5, 4]),
    ({"oneOf": [{"type": "integer"}, {"minimum": 5}]}, [1, 6.5, 6, 4.5]),
    ({"allOf": [{"type": "integer"}, {"minimum": 5}]}, [1, 6.5, 6]),
    ({"not": {"type": "string"}}, ["a", 1]),
    ({"$ref": "#/$defs/node", "$defs": {"node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}}, "additionalProperties": False}}},
     [{}, {"next": {}}, {"next": {"next": {}}}, {"next": 1}, {"next": {"x": 1}}]),
    ({"type": "object", "$ref": "#/definitions/a", "definitions": {"a": {"required": ["x"]}}}, [{"x": 1}, {}, []]),
    (True, [1, None]), (False, [1, None]), ({}, [1]),
]


def trl_accuracy(reference: str, completion: str) -> bool | None:
    gold = parse(reference)
    if not gold:
        return None
    settings = LatexExtractionConfig(normalization_config=NormalizationConfig(units=True), boxed_match_priority=0, try_extract_without_anchor=False)
    return bool(verify(gold, parse(completion, extraction_config=[settings], extraction_mode="first_match")))


def gsm8k(reference: str, completion: str) -> bool:
    """Follows extract_answer and is_correct of openai/grade-school-math's dataset.py."""
    match = re.compile(r"#### (\-?[0-9\.\,]+)").search(completion)
    return bool(match) and match.group(1).strip().replace(",", "") == reference


def main() -> None:
    answers = [{"type": "math", "extract": "auto", "reference": r, "completion": f"Thus \\boxed{{{a}}}.", "theirs": trl_accuracy(f"${r}$", f"Thus \\boxed{{{a}}}.")} for r, a in BOXED]
    answers += [{"type": "numeric", "extract": "after ####", "reference": r, "completion": c, "theirs": gsm8k(r, c)} for r, c in GSM8K]
    schemas = []
    for schema, values in SCHEMAS:
        validator = jsonschema.Draft202012Validator(schema)
        schemas += [{"schema": schema, "value": value, "valid": validator.is_valid(value)} for value in values]
    for name, rows in (("answers", answers), ("json_schema", schemas)):
        (HERE / f"{name}.json").write_text("[\n" + ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows) + "\n]\n")
        print(name, len(rows))


if __name__ == "__main__":
    main()
