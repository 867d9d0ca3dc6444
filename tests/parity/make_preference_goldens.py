"""Goldens of the preference objectives, by TRL 1.16.0: its loss functions on numbers in float64,
and on the tiny model.

    python tests/parity/make_preference_goldens.py

Writes tests/objective/goldens/trl.json, and in tests/parity/goldens tiny-pairs.jsonl,
tiny-answers.jsonl, tiny-margins.jsonl, adapter-init-score, preference.json (losses of five steps)
and preference.safetensors (the gradient of the first).

TRL's own code computes every loss. This script does the rest: rows to tokens, log-probabilities of
the answers, one optimizer step after the other. TRL's likelihood in ORPO, CPO and DPO's sft term
depends on how a step is cut into micro-batches: it is a mean over the tokens of the micro-batch, in
ORPO with those of the prompt. There the script uses forge's definition: the mean over pairs of the
mean over the chosen answer's tokens.
"""
import json
import random
from pathlib import Path
from types import SimpleNamespace

import torch
from peft import PeftModel
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, AutoModelForSequenceClassification, PreTrainedTokenizerFast
from trl import DPOTrainer, KTOTrainer, RewardTrainer, __version__
from trl.experimental.cpo import CPOTrainer
from trl.experimental.orpo import ORPOTrainer

import preference_cases

HERE = Path(__file__).resolve().parent
GOLDENS, OBJECTIVE = HERE / "goldens", HERE.parent / "objective" / "goldens"
TINY = HERE.parent / "fixtures" / "tiny-llama"
STRIDE = 3


class Accelerator:
    device = torch.device("cpu")
    gather = gather_for_metrics = staticmethod(lambda value: value)


class Metrics(dict):
    def __missing__(self, key):
        return self.setdefault(key, Metrics() if key in ("train", "eval") else [])


def trl_dpo(objective: dict, log_probs: torch.Tensor, mask: torch.Tensor, references) -> torch.Tensor:
    """Returns the mean loss of DPOTrainer; log_probs and mask are [chosen rows, then rejected rows,
    positions].
    """
    rows, length = mask.shape
    outputs = SimpleNamespace(log_probs=log_probs, entropy=torch.zeros(rows, length), mean_logits=torch.zeros(rows, length),
                              is_top1=torch.zeros(rows, length, dtype=torch.bool))
    model = lambda **_: outputs  # noqa: E731
    trainer = SimpleNamespace(
        model=SimpleNamespace(training=True), accelerator=Accelerator(), aux_loss_enabled=False, ld_alpha=None,
        precompute_ref_logps=True, f_divergence_type="reverse_kl", loss_types=[objective["loss"]], loss_weights=[1.0],
        beta=objective["beta"], label_smoothing=objective.get("label_flip", 0.0), use_weighting=False, args=None,
        _metrics=Metrics(), _total_train_tokens=0, _tp_size=1)
    whole = torch.cat([torch.zeros(rows, 1, dtype=torch.long), mask], 1)  # the mask of the ids, which are one more than the predictions
    inputs = {"input_ids": torch.zeros_like(whole), "attention_mask": torch.ones_like(whole), "completion_mask": whole,
              "ref_chosen_logps": references[0], "ref_rejected_logps": references[1]}
    return DPOTrainer._compute_loss(trainer, model, inputs, False)


def trl_without_reference(objective: dict, chosen: torch.Tensor, rejected: torch.Tensor, counts) -> torch.Tensor:
    """Returns the losses by pair of CPOTrainer and ORPOTrainer from sums; both without their
    likelihood.
    """
    if objective["type"] == "cpo":
        trainer = SimpleNamespace(alpha=0.0, loss_type="sigmoid", beta=objective["beta"], label_smoothing=0.0, accelerator=Accelerator())
        return CPOTrainer.cpo_loss(trainer, chosen, rejected)[0]
    chosen, rejected = chosen / counts[0], rejected / counts[1]
    if objective["type"] == "simpo":
        trainer = SimpleNamespace(alpha=0.0, loss_type="simpo", beta=objective["beta"], simpo_gamma=objective["gamma"],
                                  label_smoothing=0.0, accelerator=Accelerator())
        return CPOTrainer.cpo_loss(trainer, chosen, rejected)[0]
    trainer = SimpleNamespace(beta=objective["odds_weight"], accelerator=Accelerator())
    narrow, torch.Tensor.float = torch.Tensor.float, lambda self: self  # TRL computes this one in fp32, whatever its input is
    try:
        return -ORPOTrainer.odds_ratio_loss(trainer, chosen, rejected)[0]
    finally:
        torch.Tensor.float = narrow


def trl_kto(objective: dict, log_probs: torch.Tensor, mask: torch.Tensor, references, labels: list[bool], kl) -> torch.Tensor:
    """Returns the mean loss of KTOTrainer; `kl` has log-probabilities of the mismatched answers,
    and the reference's.
    """
    rows, length = mask.shape
    outputs = SimpleNamespace(log_probs=log_probs, entropy=torch.zeros(rows, length), mean_logits=torch.zeros(rows, length))
    trainer = SimpleNamespace(
        model=SimpleNamespace(training=True), accelerator=Accelerator(), aux_loss_enabled=False, precompute_ref_logps=True,
        calculate_KL=True, loss_type="kto", beta=objective["beta"], desirable_weight=objective.get("desirable_weight", 1.0),
        undesirable_weight=objective.get("undesirable_weight", 1.0), _compute_kl_logps=lambda model, batch: kl[0],
        _metrics={"train": Metrics()}, _total_train_tokens=0, _tp_size=1)
    whole = torch.cat([torch.zeros(rows, 1, dtype=torch.long), mask], 1)
    inputs = {"input_ids": torch.zeros_like(whole), "attention_mask": torch.ones_like(whole), "completion_mask": whole,
              "label": torch.tensor(labels), "ref_logps": references, "ref_KL_logps": kl[1]}
    return KTOTrainer._compute_loss(trainer, lambda **_: outputs, inputs, False)


def trl_reward(objective: dict, scores: torch.Tensor, margins) -> torch.Tensor:
    """Returns the mean loss of RewardTrainer; scores are of chosen texts, then of rejected ones."""
    trainer = SimpleNamespace(model=SimpleNamespace(training=True), accelerator=Accelerator(), _metrics={"train": Metrics()},
                              args=SimpleNamespace(center_rewards_coefficient=objective["center"] or None),
                              _total_train_tokens=0, _tp_size=1)
    model = lambda **_: SimpleNamespace(logits=scores.unsqueeze(1))  # noqa: E731
    inputs = {"attention_mask": torch.ones(1, 1)} | ({} if margins is None else {"margin": torch.as_tensor(margins, dtype=scores.dtype)})
    return RewardTrainer.compute_loss(trainer, model, inputs)


def loss_of(objective: dict, log_probs, mask, references, whole=None) -> torch.Tensor:
    """Returns the loss. `whole` is the mask of all tokens but the first, for nll_on: all, as in
    ORPOTrainer's likelihood.
    """
    everything, log_probs = log_probs, log_probs * mask
    chosen, rejected = log_probs.sum(1).chunk(2)
    counts = mask.sum(1).chunk(2)
    if objective["type"] == "dpo":
        loss = trl_dpo(objective, log_probs, mask, references)
    else:
        loss = trl_without_reference(objective, chosen, rejected, counts).mean()
    by_token = objective.get("nll_mean") == "token"
    said, lengths = chosen, counts[0]
    if objective.get("nll_on") == "all":
        said, lengths = (everything * whole).sum(1).chunk(2)[0], whole.sum(1).chunk(2)[0]
    likelihood = said.sum() / lengths.sum() if by_token else (said / lengths).mean()
    return loss - objective.get("nll_weight", 0.0) * likelihood


def of_loss(objective: dict) -> dict:
    return {key: value for key, value in objective.items() if key != "reference"}


def scores_golden(case: preference_cases.PreferenceCase, generator) -> dict:
    scores = 2 * torch.randn(10, generator=generator, dtype=torch.float64)
    margins = torch.rand(5, generator=generator, dtype=torch.float64) if "margin" in case.name else None
    scores.requires_grad_()
    loss = trl_reward(case.objective, scores, margins)
    loss.backward()
    return {"name": case.name, "objective": of_loss(case.objective), "loss": loss.item(), "logp": scores.tolist(), "reference": [0.0] * 10,
            "tokens": [1] * 10, "gradient": scores.grad.tolist()} | ({} if margins is None else {"margin": margins.tolist()})


def numbers_golden(case: preference_cases.PreferenceCase, seed: int) -> dict:
    """Returns the golden of five pairs of answers, one of which is as likely as under the
    reference.
    """
    generator = torch.Generator().manual_seed(seed)
    if case.objective["type"] == "reward":
        return scores_golden(case, generator)
    lengths = torch.tensor([3, 1, 7, 4, 9, 5, 2, 7, 8, 1])
    mask = (torch.arange(9) < lengths.unsqueeze(1)).long()
    log_probs = -3 * torch.rand(10, 9, generator=generator, dtype=torch.float64) - 0.01
    sums = (log_probs * mask).sum(1)
    references = sums + 4 * (torch.rand(10, generator=generator, dtype=torch.float64) - 0.5)
    references[[1, 6]] = sums[[1, 6]]
    log_probs.requires_grad_()
    extra = {}
    if case.objective["type"] == "kto":
        labels, divergence = [True, False, True, True, False, False, True, False, True, True], 0.4
        kl = torch.full((10,), divergence, dtype=torch.float64), torch.zeros(10, dtype=torch.float64)
        loss = trl_kto(case.objective, log_probs * mask, mask, references, labels, kl)
        extra = {"desirable": labels, "divergence": divergence}
    else:
        loss = loss_of(case.objective, log_probs, mask, references.chunk(2))
    loss.backward()
    gradients = log_probs.grad[:, 0]  # the same at every position of an answer
    assert torch.allclose(log_probs.grad, gradients.unsqueeze(1) * mask, rtol=1e-12, atol=0)
    return {"name": case.name, "objective": of_loss(case.objective), "loss": loss.item(), "logp": sums.tolist(),
            "reference": references.tolist(), "tokens": lengths.tolist(), "gradient": gradients.tolist()} | extra


def make_pairs() -> list[dict]:
    rng = random.Random(5)
    words = "red green blue cat dog sun moon tree river stone bird fish cloud rain snow wind fire lamp book road".split()
    text = lambda least, most: " ".join(rng.choice(words) for _ in range(rng.randint(least, most)))  # noqa: E731
    return [{"prompt": text(2, 6) + ":", "chosen": " " + text(1, 5), "rejected": " " + text(2, 8)}
            for _ in range(preference_cases.PAIRS * preference_cases.STEPS)]


def make_answers(pairs: list[dict]) -> list[dict]:
    """Returns two good answers for each bad one."""
    return [{"prompt": pair["prompt"], "completion": pair["rejected" if i % 3 == 1 else "chosen"], "label": i % 3 != 1}
            for i, pair in enumerate(pairs)]


def make_margins(pairs: list[dict]) -> list[dict]:
    return [pair | ({} if i % 4 == 2 else {"margin": round(0.3 * (i % 5) - 0.2, 1)}) for i, pair in enumerate(pairs)]


def tokens_of(tokenizer, prompt: str, answer: str) -> tuple[list[int], int]:
    """Returns the ids with the end of sequence, and how many of them are the prompt's."""
    encoded = tokenizer(prompt + answer, add_special_tokens=False, return_offsets_mapping=True)
    own = sum(begin < len(prompt) for begin, _ in encoded["offset_mapping"])
    return encoded["input_ids"] + [tokenizer.eos_token_id], own


def sides_of(tokenizer, rows: list[dict]) -> list[tuple[list[int], int]]:
    keys = ("chosen", "rejected") if "chosen" in rows[0] else ("completion",)
    return [tokens_of(tokenizer, row["prompt"], row[key]) for key in keys for row in rows]


def rotated(sides: list[tuple[list[int], int]]) -> list[tuple[list[int], int]]:
    """Returns each prompt with the completion of the one before it, as KTOTrainer's
    add_kl_completion_ids does.
    """
    completions = [ids[prompt:] for ids, prompt in sides]
    completions = [completions[-1]] + completions[:-1]
    return [(ids[:prompt] + completion, prompt) for (ids, prompt), completion in zip(sides, completions, strict=True)]


def batch_of(sides: list[tuple[list[int], int]]) -> dict[str, torch.Tensor]:
    longest = max(len(ids) for ids, _ in sides)
    pad = lambda values, fill: torch.tensor([v + [fill] * (longest - len(v)) for v in values])  # noqa: E731
    return {"input_ids": pad([ids for ids, _ in sides], 0),
            "attention_mask": pad([[1] * len(ids) for ids, _ in sides], 0),
            "mask": pad([[0] * (prompt - 1) + [1] * (len(ids) - prompt) for ids, prompt in sides], 0)[:, :-1]}


def log_probs_of(model, batch) -> torch.Tensor:
    logits = model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"]).logits[:, :-1]
    return torch.log_softmax(logits, -1).gather(2, batch["input_ids"][:, 1:].unsqueeze(2)).squeeze(2)


def make_score_adapter() -> None:
    """Writes adapter-init-lora-plus for a reward model: PEFT's task SEQ_CLS, with a head that is
    not zero.
    """
    source, target = GOLDENS / "adapter-init-lora-plus", GOLDENS / "adapter-init-score"
    target.mkdir(exist_ok=True)
    config = json.loads((source / "adapter_config.json").read_text())
    config |= {"task_type": "SEQ_CLS", "modules_to_save": ["classifier", "score"]}
    (target / "adapter_config.json").write_text(json.dumps(config, indent=2))
    tensors = load_file(source / "adapter_model.safetensors")
    hidden = json.loads((TINY / "config.json").read_text())["hidden_size"]
    tensors["base_model.model.score.weight"] = torch.randn(1, hidden, generator=torch.Generator().manual_seed(3)) / hidden**0.5
    save_file(tensors, target / "adapter_model.safetensors", {"format": "pt"})


def open_reward_model():
    """Opens the reward model. Texts end with eos, so the padding is another token."""
    base = AutoModelForSequenceClassification.from_pretrained(TINY, dtype=torch.float32, attn_implementation="eager", num_labels=1)
    base.config.pad_token_id = 0
    return PeftModel.from_pretrained(base, GOLDENS / "adapter-init-score", is_trainable=True)


def scores_of_pairs(tokenizer, rows: list[dict]) -> list[float]:
    """Returns the scores of chosen and rejected texts in turn, by transformers and PEFT from
    adapter-init-score, each alone.
    """
    model = open_reward_model().eval()
    with torch.no_grad():
        return [model(input_ids=torch.tensor([tokens_of(tokenizer, row["prompt"], row[side])[0]])).logits.item()
                for row in rows for side in ("chosen", "rejected")]


def open_model(case: preference_cases.PreferenceCase):
    if case.objective["type"] == "reward":
        return open_reward_model()
    base = AutoModelForCausalLM.from_pretrained(TINY, dtype=torch.float32, attn_implementation="eager")
    return PeftModel.from_pretrained(base, GOLDENS / f"adapter-init-{case.adapter}", is_trainable=True)


def step_loss(case: preference_cases.PreferenceCase, model, start, sides, rows: list[dict]) -> torch.Tensor:
    objective, batch = case.objective, batch_of(sides)
    if objective["type"] == "reward":
        scores = model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"]).logits.squeeze(1)
        margins = [row.get("margin", 0.0) for row in rows] if "margin" in case.name else None
        return trl_reward(objective, scores.double(), margins)

    def reference_of(batch) -> torch.Tensor:
        with torch.no_grad():
            if objective.get("reference") == "start":
                return (log_probs_of(start, batch) * batch["mask"]).double().sum(1)
            with start.disable_adapter():
                return (log_probs_of(start, batch) * batch["mask"]).double().sum(1)

    log_probs = log_probs_of(model, batch).double()
    if objective["type"] != "kto":
        return loss_of(objective, log_probs, batch["mask"], reference_of(batch).chunk(2), batch["attention_mask"][:, 1:])
    mismatched = batch_of(rotated(sides))
    with torch.no_grad():
        kl = (log_probs_of(model, mismatched) * mismatched["mask"]).double().sum(1), reference_of(mismatched)
    return trl_kto(objective, log_probs * batch["mask"], batch["mask"], reference_of(batch), [row["label"] for row in rows], kl)


def train(case: preference_cases.PreferenceCase, tokenizer, rows: list[dict]) -> tuple[dict, dict]:
    model, start = open_model(case).train(), open_model(case).eval()
    trained = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW([p for _, p in trained], lr=1e-3, weight_decay=0.0)
    golden, gradients = {"losses": [], "grad_norms": [], "tokens": []}, {}
    for step in range(preference_cases.STEPS):
        some = rows[step * preference_cases.PAIRS : (step + 1) * preference_cases.PAIRS]
        sides = sides_of(tokenizer, some)
        loss = step_loss(case, model, start, sides, some)
        loss.backward()
        if step == 0:
            gradients = {n.replace(".default", ""): p.grad.flatten()[::STRIDE].clone() for n, p in trained}
        golden["grad_norms"].append(torch.nn.utils.clip_grad_norm_([p for _, p in trained], 1.0).item())
        golden["losses"].append(loss.item())
        golden["tokens"].append(sum(len(ids) for ids, _ in sides))
        optimizer.step()
        optimizer.zero_grad()
    return golden, gradients


def main() -> None:
    torch.set_num_threads(1)
    OBJECTIVE.mkdir(exist_ok=True)
    torch.set_default_dtype(torch.float64)  # TRL makes exo_pair's label_smoothing a tensor of the default type
    numbers = [numbers_golden(case, seed) for seed, case in enumerate(preference_cases.CASES) if "nll_on" not in case.objective]
    torch.set_default_dtype(torch.float32)
    (OBJECTIVE / "trl.json").write_text(json.dumps({"trl": __version__, "cases": numbers}, indent=1) + "\n")
    pairs = make_pairs()
    files = {"tiny-pairs.jsonl": pairs, "tiny-answers.jsonl": make_answers(pairs), "tiny-margins.jsonl": make_margins(pairs)}
    for name, rows in files.items():
        (GOLDENS / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
    make_score_adapter()
    tokenizer = PreTrainedTokenizerFast.from_pretrained(TINY)
    runs, tensors = {}, {}
    for case in preference_cases.CASES:
        runs[case.name], gradients = train(case, tokenizer, files[case.rows])
        tensors |= {f"{case.name}/{name}": value for name, value in gradients.items()}
        print(case.name, runs[case.name]["losses"], flush=True)
    scores = scores_of_pairs(tokenizer, pairs[: preference_cases.PAIRS])
    golden = {"trl": __version__, "stride": STRIDE, "runs": runs, "scores": scores}
    (GOLDENS / "preference.json").write_text(json.dumps(golden, indent=1) + "\n")
    save_file(tensors, GOLDENS / "preference.safetensors")


if __name__ == "__main__":
    main()
