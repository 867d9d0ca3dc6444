#!/usr/bin/env python3
"""Writes tests/rollout/goldens/value.json: results of verl's pure functions for given rewards and
values, in float64.

    git clone https://github.com/volcengine/verl && git -C verl checkout b178a3cd56f58b2d502255daba591e92833930a7
    python3 tests/parity/make_value_goldens.py verl        # needs torch

The functions are cut out of verl's source unchanged, since importing their module needs Ray:
generalised advantages with whitening, the clipped value loss, the clipped policy loss, and their
means over tokens.
"""
import ast
import json
import subprocess
import sys
import types
from pathlib import Path

import torch

OUT = Path(__file__).resolve().parents[1] / "rollout" / "goldens" / "value.json"
COMMIT = "b178a3cd56f58b2d502255daba591e92833930a7"
LENGTHS, WIDTH = [5, 3, 7, 1, 4, 6], 7
REWARDS = [1.0, 0.0, 0.25, -0.5, 0.0, 2.0]
CASES = [dict(gamma=1.0, lam=0.95, clip=0.2), dict(gamma=1.0, lam=1.0, clip=0.05), dict(gamma=0.97, lam=0.8, clip=0.5)]


def functions(source: str, names: list, space: dict) -> types.SimpleNamespace:
    tree = ast.parse(source)
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name in names:
            node.decorator_list, node.returns = [], None
            for argument in node.args.args + node.args.kwonlyargs:
                argument.annotation = None
            exec(compile(ast.Module([node], []), "verl", "exec"), space)
    return types.SimpleNamespace(**{name: space[name] for name in names})


def numbers(seed: int, spread: float) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    # Values are rounded to float32, which forge keeps of a rollout.
    return (spread * torch.randn(len(LENGTHS), WIDTH, generator=generator)).double()


def main() -> None:
    repository = sys.argv[1]
    read = lambda path: subprocess.run(["git", "-C", repository, "show", f"{COMMIT}:{path}"], capture_output=True, text=True,  # noqa: E731
                                       check=True).stdout
    # verl divides a mean over the mask by its count + 1e-8, which is off by as much as forge may
    # be.
    masked = functions(read("verl/utils/torch_functional.py").replace("mask.sum(axis=axis) + 1e-8", "mask.sum(axis=axis)"),
                       ["masked_sum", "masked_mean", "masked_var", "masked_whiten", "clip_by_value"], {"torch": torch})
    core = functions(read("verl/trainer/ppo/core_algos.py"),
                     ["compute_gae_advantage_return", "agg_loss", "compute_value_loss", "compute_policy_loss"],
                     {"torch": torch, "verl_F": masked, "Optional": None})
    mask = (torch.arange(WIDTH)[None, :] < torch.tensor(LENGTHS)[:, None]).double()
    rewards = torch.zeros(len(LENGTHS), WIDTH, dtype=torch.float64)
    for i, length in enumerate(LENGTHS):
        rewards[i, length - 1] = REWARDS[i]
    cut = lambda values: [row[:n].tolist() for row, n in zip(values, LENGTHS)]  # noqa: E731
    cases = []
    for case in CASES:
        old_values = numbers(1, 0.4)
        values = (old_values + numbers(2, 0.3)).requires_grad_(True)
        old = (-1 + numbers(3, 0.5)).float().double()
        logps = (old + numbers(4, 0.4)).requires_grad_(True)
        advantages, returns = core.compute_gae_advantage_return(rewards, old_values, mask, case["gamma"], case["lam"])
        value_loss, clipped = core.compute_value_loss(values, returns, old_values, mask, case["clip"])
        value_loss.backward()
        policy_loss = core.compute_policy_loss(old, logps, advantages, mask, cliprange_low=0.2, cliprange_high=0.28, clip_ratio_c=3.0)[0]
        policy_loss.backward()
        cases.append({**case, "old_values": cut(old_values), "values": cut(values.detach()), "advantages": cut(advantages),
                      "returns": cut(returns), "value_loss": value_loss.item(), "value_gradient": cut(values.grad),
                      "clipped": clipped.item(), "old_logps": cut(old), "logps": cut(logps.detach()), "policy_loss": policy_loss.item(),
                      "policy_gradient": cut(logps.grad)})
    OUT.write_text(json.dumps({"verl": COMMIT, "torch": torch.__version__, "rewards": REWARDS, "cases": cases}) + "\n")
    print(f"{OUT}: {len(cases)} cases")


if __name__ == "__main__":
    main()
