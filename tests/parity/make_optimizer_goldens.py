"""Fifty updates of each optimizer by its reference implementation, and fifty rates of each
schedule.

    python tests/parity/make_optimizer_goldens.py    # needs torch 2.11, transformers, schedulefree==1.4.1 and lion-pytorch==0.2.5

For tests/engine/optimizer_reference_test.cpp. torch.optim.Muon orthogonalizes in bf16; here it does
so in fp32 as forge does on a CPU ("muon"), and once in bf16 ("muon_bf16"), which shows how far that
rounding leads.
"""
import pathlib

import schedulefree
import torch
from lion_pytorch import Lion
from safetensors.torch import save_file
from transformers import get_scheduler
from transformers.optimization import Adafactor

OUTPUT = pathlib.Path(__file__).resolve().parents[1] / "engine" / "goldens" / "optimizers.safetensors"
STEPS, SEEN, RATE, DECAY = 50, (1, 10, 50), 0.02, 0.1
# In the order of the test's parameters; norms do not decay, and only the first four are hidden
# matrices.
SHAPES = {"square": (12, 12), "wide": (12, 20), "a": (4, 20), "b": (24, 4), "norm": (12,), "embedding": (30, 8)}
HIDDEN = ("square", "wide", "a", "b")

torch.manual_seed(11)
start = {name: torch.randn(shape) * 0.3 for name, shape in SHAPES.items()}
# Gradients whose size differs from row to row, with a direction that lasts.
grads = {name: ((torch.randn(STEPS, *shape) + torch.randn(shape)) * torch.logspace(-3, 0, shape[0]).view(-1, *[1] * (len(shape) - 1))).half()
         for name, shape in SHAPES.items()}
out = {f"start.{name}": value for name, value in start.items()} | {f"grads.{name}": value for name, value in grads.items()}


def groups(weights, names):
    return [{"params": [weights[n] for n in names if n != "norm"], "weight_decay": DECAY},
            {"params": [weights[n] for n in names if n == "norm"], "weight_decay": 0.0}]


def rates_of(step):
    """Returns the rates of a warmup of five steps, then constant, as a scheduler of transformers
    sets them.
    """
    return RATE * min(1, step / 5)


def run(name, make):
    weights = {n: torch.nn.Parameter(value.clone()) for n, value in start.items()}
    optimizers = make(weights)
    for step in range(STEPS):
        for optimizer in optimizers:
            for group in optimizer.param_groups:
                group["lr"] = rates_of(step)
        for n, weight in weights.items():
            weight.grad = grads[n][step].float()
        for optimizer in optimizers:
            optimizer.step()
        if step + 1 in SEEN:
            for n, weight in weights.items():
                out[f"{name}.{step + 1}.{n}"] = weight.detach().clone()
    if name == "schedule_free":
        optimizers[0].eval()
        for n, weight in weights.items():
            out[f"{name}.average.{n}"] = weight.detach().clone()


def adafactor(weights):
    return [Adafactor(groups(weights, SHAPES), lr=RATE, scale_parameter=False, relative_step=False)]


def muon(weights):
    rest = [n for n in SHAPES if n not in HIDDEN]
    return [torch.optim.Muon([weights[n] for n in HIDDEN], lr=RATE, weight_decay=DECAY, momentum=0.95, adjust_lr_fn="match_rms_adamw"),
            torch.optim.AdamW(groups(weights, rest), lr=RATE)]


def schedule_free(weights):
    optimizer = schedulefree.AdamWScheduleFree(groups(weights, SHAPES), lr=RATE, foreach=False)
    optimizer.train()
    return [optimizer]


def adamw(weights):
    return [torch.optim.AdamW(groups(weights, SHAPES), lr=RATE)]


def sgd(weights):
    return [torch.optim.SGD(groups(weights, SHAPES), lr=RATE, momentum=0.9)]


def lion(weights):
    return [Lion(groups(weights, SHAPES), lr=RATE, betas=(0.9, 0.99))]


run("adafactor", adafactor)
run("schedule_free", schedule_free)
run("muon_bf16", muon)
in_bf16, torch.Tensor.bfloat16 = torch.Tensor.bfloat16, torch.Tensor.float
run("muon", muon)
torch.Tensor.bfloat16 = in_bf16

for name, make in (("adamw", adamw), ("sgd", sgd), ("lion", lion)):
    run(name, make)

SCHEDULES = {
    "constant_with_warmup": (5, {}),
    "linear": (5, {}),
    "cosine": (5, {}),
    "cosine_with_restarts": (5, {"num_cycles": 3}),
    "polynomial": (5, {"power": 2.0, "lr_end": 0.1}),
    "inverse_sqrt": (5, {}),
    "cosine_with_min_lr": (5, {"min_lr_rate": 0.1}),
    "warmup_stable_decay": (5, {"num_decay_steps": 20, "decay_type": "linear"}),
    "warmup_stable_decay cosine": (5, {"num_decay_steps": 20, "decay_type": "cosine"}),
    "warmup_stable_decay sqrt": (0, {"num_decay_steps": 20, "decay_type": "1-sqrt", "min_lr_ratio": 0.1}),
    "inverse_sqrt at once": (0, {}),
}
for name, (warmup, settings) in SCHEDULES.items():
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    scheduler = get_scheduler(name.split()[0], optimizer, warmup, STEPS, scheduler_specific_kwargs=settings)
    rates = []
    for _ in range(STEPS):
        rates.append(scheduler.get_last_lr()[0])
        optimizer.step()
        scheduler.step()
    out[f"schedule.{name}"] = torch.tensor(rates, dtype=torch.float64)
OUTPUT.parent.mkdir(exist_ok=True)
save_file({name: value.contiguous() for name, value in out.items()}, str(OUTPUT))
print(OUTPUT, OUTPUT.stat().st_size, "bytes")
