"""Mixtures of experts as their files have them: one linear layer for each matrix of each expert.

transformers 5 joins the experts of a layer into two tensors when it reads a model. Files hold them
one by one, and so do adapters of peft with transformers 4, which peft converts when it reads them.
`stored` gives the files' names; `apart` puts linear layers back, so that peft adapts each by
itself.
"""
import torch
from torch import nn
from transformers.models.mixtral.modeling_mixtral import load_balancing_loss_func

# {model_type: (the block's name, gate, up, down)}
NAMES = {
    "mixtral": ("block_sparse_moe", "w1", "w3", "w2"),
    "qwen2_moe": ("mlp", "gate_proj", "up_proj", "down_proj"),
    "qwen3_moe": ("mlp", "gate_proj", "up_proj", "down_proj"),
    "deepseek_v2": ("mlp", "gate_proj", "up_proj", "down_proj"),
    "deepseek_v3": ("mlp", "gate_proj", "up_proj", "down_proj"),
}
BARE_ROUTERS = ("deepseek_v2", "deepseek_v3")  # a parameter in transformers 4 too: an adapter of all linear layers leaves it out


def stored(weights: dict[str, torch.Tensor], model_type: str) -> dict[str, torch.Tensor]:
    """Returns a state_dict under the names of the model's files."""
    if model_type not in NAMES:
        return weights
    block, *projections = NAMES[model_type]
    out = {}
    for name, tensor in weights.items():
        if not name.endswith(("experts.gate_up_proj", "experts.down_proj")):
            out[name.replace(".mlp.gate.", f".{block}.gate.")] = tensor
            continue
        layer, last = name.split(".mlp.experts.")
        for expert, matrix in enumerate(tensor):
            parts = zip(projections[:2], matrix.chunk(2)) if last == "gate_up_proj" else [(projections[2], matrix)]
            for projection, part in parts:
                out[f"{layer}.{block}.experts.{expert}.{projection}.weight"] = part
    return out


def linear(weight: torch.Tensor) -> nn.Linear:
    layer = nn.Linear(weight.shape[1], weight.shape[0], bias=False)
    layer.weight.data.copy_(weight)
    return layer


class SparseMlp(nn.Module):
    """transformers 4's block over the weights of transformers 5's."""

    def __init__(self, block, projections, normalise: bool, bare_router: bool):
        super().__init__()
        self.projections, self.top_k, self.normalise = projections, block.gate.top_k, normalise
        self.bare_router = bare_router
        self.gate = block.gate if bare_router else linear(block.gate.weight)
        self.experts = nn.ModuleList()
        for gate_up, down in zip(block.experts.gate_up_proj, block.experts.down_proj):
            gate, up = gate_up.chunk(2)
            self.experts.append(nn.ModuleDict(dict(zip(projections, map(linear, (gate, up, down))))))
        for name in ("shared_expert", "shared_expert_gate", "shared_experts"):
            if hasattr(block, name):
                setattr(self, name, getattr(block, name))

    def forward(self, x):
        shape = x.shape
        x = x.reshape(-1, shape[-1])
        if self.bare_router:
            self.logits, weights, chosen = self.gate(x)
        else:
            self.logits = self.gate(x)
            weights, chosen = torch.topk(self.logits.float().softmax(-1), self.top_k)
            if self.normalise:
                weights = weights / weights.sum(-1, keepdim=True)
        y = torch.zeros_like(x)
        for number, expert in enumerate(self.experts):
            rows, slot = torch.where(chosen == number)
            gate, up, down = (expert[name] for name in self.projections)
            own = down(nn.functional.silu(gate(x[rows])) * up(x[rows]))
            y = y.index_add(0, rows, own * weights[rows, slot, None])
        if hasattr(self, "shared_expert"):
            y = y + torch.sigmoid(self.shared_expert_gate(x)) * self.shared_expert(x)
        if hasattr(self, "shared_experts"):
            y = y + self.shared_experts(x)
        return y.reshape(shape)


def apart(model) -> None:
    """Replaces the model's experts in place; does nothing to a model without experts."""
    model_type = model.config.model_type
    if model_type not in NAMES:
        return
    block, *projections = NAMES[model_type]
    normalise = model_type == "mixtral" or model.config.norm_topk_prob
    for layer in model.model.layers:
        if not hasattr(layer.mlp, "experts"):
            continue
        own = SparseMlp(layer.mlp, projections, normalise, model_type in BARE_ROUTERS)
        if block != "mlp":
            del layer.mlp
            object.__setattr__(layer, "mlp", own)  # the module that forward calls; its parameters have the other name
        setattr(layer, block, own)
    # transformers would look for its own routers; balance_loss does it for these.
    balanced = model_type not in BARE_ROUTERS and model.config.output_router_logits
    model.config.router_weight = model.config.router_aux_loss_coef if balanced else 0
    model.config.output_router_logits = False


def balance_loss(model, out, attention_mask) -> torch.Tensor | float:
    """Returns what transformers adds to the loss of a model with output_router_logits."""
    if getattr(out, "aux_loss", None) is not None:
        return model.config.router_aux_loss_coef * out.aux_loss
    if not getattr(model.config, "router_weight", 0):
        return 0.0
    logits = tuple(block.logits for block in model.modules() if isinstance(block, SparseMlp))
    per_token = model.config.num_experts_per_tok
    return model.config.router_weight * load_balancing_loss_func(logits, logits[0].shape[1], per_token, attention_mask)
