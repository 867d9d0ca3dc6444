"""Training on answers that are compared or judged, as settings of the oracle and as forge's jobs.
Standard library only.
"""
from dataclasses import dataclass, field
from pathlib import Path

PAIRS, STEPS = 8, 5  # per step (or answers that are judged one by one); steps of a run


@dataclass
class PreferenceCase:
    name: str
    objective: dict  # forge's section, with every value that decides the loss
    adapter: str = "lora-plus"  # goldens/adapter-init-NAME; its B is not zero
    modules_to_save: tuple = ()
    rows: str = "tiny-pairs.jsonl"


def dpo(loss: str, **more) -> PreferenceCase:
    objective = {"type": "dpo", "loss": loss, "beta": 0.3, "reference": "base"} | more
    return PreferenceCase(f"dpo-{loss.replace('_', '-')}", objective)


CASES = [
    dpo("sigmoid"),
    dpo("robust", label_flip=0.1),
    dpo("hinge"),
    dpo("ipo"),
    dpo("sigmoid_norm", beta=2.0),
    dpo("exo_pair", label_flip=0.1),
    dpo("nca_pair"),
    dpo("apo_zero"),
    dpo("apo_down"),
    dpo("sppo_hard"),
    PreferenceCase("dpo-start", {"type": "dpo", "loss": "sigmoid", "beta": 0.3, "reference": "start"}),
    PreferenceCase("dpo-head", {"type": "dpo", "loss": "sigmoid", "beta": 0.3, "reference": "base"}, "lm-head", ("lm_head",)),
    PreferenceCase("dpo-nll", {"type": "dpo", "loss": "sigmoid", "beta": 0.3, "nll_weight": 0.2, "reference": "base"}),
    PreferenceCase("dpo-nll-token", {"type": "dpo", "loss": "sigmoid", "beta": 0.3, "nll_weight": 0.2, "nll_mean": "token",
                                     "reference": "base"}),
    PreferenceCase("simpo", {"type": "simpo", "beta": 2.5, "gamma": 0.8}),
    PreferenceCase("orpo", {"type": "orpo", "odds_weight": 0.4, "nll_weight": 1.0}),
    PreferenceCase("cpo", {"type": "cpo", "beta": 0.2, "nll_weight": 0.5}),
    PreferenceCase("kto", {"type": "kto", "beta": 0.3, "reference": "base"}, rows="tiny-answers.jsonl"),
    PreferenceCase("kto-weights", {"type": "kto", "beta": 0.5, "desirable_weight": 0.8, "undesirable_weight": 1.7,
                                   "reference": "start"}, rows="tiny-answers.jsonl"),
    PreferenceCase("reward", {"type": "reward", "center": 0.0}, "score", ("score",)),
    PreferenceCase("reward-margin", {"type": "reward", "center": 0.05}, "score", ("score",), rows="tiny-margins.jsonl"),
    PreferenceCase("orpo-all", {"type": "orpo", "odds_weight": 0.4, "nll_weight": 1.0, "nll_mean": "token", "nll_on": "all"}),
    PreferenceCase("cpo-all", {"type": "cpo", "beta": 0.2, "nll_weight": 0.5, "nll_on": "all"}),
]

PROVIDER = "auto"  # of every job; set by check_preference.py --provider


def job(case: PreferenceCase, name: str, model: Path, goldens: Path, output: Path, gradient: bool = False,
        train: dict | None = None, data: dict | None = None, objective: dict | None = None) -> dict:
    """Returns a job of one step of SGD with rate 1 (whose change is the gradient), or five of
    AdamW.
    """
    optimizer = {"type": "sgd", "learning_rate": 1.0} if gradient else {"type": "adamw", "learning_rate": 1e-3}
    return {
        "version": 1, "name": name, "seed": 1, "output_dir": str(output),
        "model": {"path": str(model)},
        "adapter": {"type": "lora", "rank": 4, "alpha": 8, "modules_to_save": list(case.modules_to_save),
                    "init_from": str(goldens / f"adapter-init-{case.adapter}")},
        "objective": case.objective | (objective or {}),
        "data": {"train": [{"path": str(goldens / case.rows)}], "shuffle": False, "packing": False,
                 "max_length": 128} | (data or {}),
        "train": {"max_steps": 1 if gradient else STEPS, "global_batch_size": PAIRS, "micro_batch_size": PAIRS,
                  "precision": "fp32", "max_grad_norm": 0 if gradient else 1, "threads": 1} | (train or {}),
        "optimizer": optimizer | {"weight_decay": 0.0},
        "schedule": {"type": "constant"},
        "hardware": {"device": "cpu"},
        "provider": PROVIDER,
    }
