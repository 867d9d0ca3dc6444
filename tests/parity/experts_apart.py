"""Mixtures of experts as their files have them: one linear layer for each matrix of each expert.

transformers 5 joins the experts of a layer into two tensors when it reads a model. Files hold them
one by one, and so do adapters of peft with transformers 4, which peft converts when it reads them.
`stored` gives the files' names; `apart` puts linear layers back, so that peft adapts each by
itself.
"""
import torch
from torch import nn
from transformers import AutoModelForCausalLM, Mistral4Config, Mistral4ForCausalLM
from transformers.models.mixtral.modeling_mixtral import load_balancing_loss_func

# transformers 5.17 has the class and does not find it by its configuration; register() takes none
# of its own classes.
AutoModelForCausalLM._model_mapping._extra_content[Mistral4Config] = Mistral4ForCausalLM

# {model_type: (the block's name, gate, up, down)}
W123 = ("block_sparse_moe", "w1", "w3", "w2")
NAMES = {"mixtral": W123, "minimax_m2": W123, "lfm2_moe": ("feed_forward", "w1", "w3", "w2")} | dict.fromkeys(
    ("qwen2_moe", "qwen3_moe", "deepseek_v2", "deepseek_v3", "glm4_moe", "dots1", "olmoe", "flex_olmo", "ernie4_5_moe", "hunyuan_v1_moe", "deepseek_v32",
     "glm_moe_dsa", "glm4_moe_lite", "qwen3_next", "qwen3_5_moe_text"),
    ("mlp", "gate_proj", "up_proj", "down_proj"))
# Routers that are kept as they are: a parameter in transformers 4 too, which an adapter of all
# linear layers leaves out, or a module with a linear layer in it.
KEPT_ROUTERS = ("glm4_moe_lite", "deepseek_v2", "deepseek_v3", "deepseek_v32", "glm_moe_dsa", "glm4_moe", "dots1", "minimax_m2", "hunyuan_v1_moe", "lfm2_moe")
# The attribute of transformers 5's layers that has the block, where it is not mlp.
ATTRIBUTES = {"lfm2_moe": "feed_forward"}
# Other names of tensors in files, by model_type.
RENAMED = {
    "minimax_m2": {".mlp.e_score_correction_bias": ".block_sparse_moe.e_score_correction_bias"},
    "ernie4_5_moe": {".mlp.gate.moe_statics.": ".mlp.moe_statics."},
} | dict.fromkeys(("granitemoe", "granitemoeshared", "granitemoehybrid"), {
    ".experts.gate_up_proj": ".input_linear.weight", ".experts.down_proj": ".output_linear.weight", ".router.weight": ".router.layer.weight"})


def renamed(name: str, model_type: str) -> str:
    for own, in_file in RENAMED.get(model_type, {}).items():
        name = name.replace(own, in_file)
    return name


def stored(weights: dict[str, torch.Tensor], model_type: str) -> dict[str, torch.Tensor]:
    """Returns a state_dict under the names of the model's files."""
    weights = {renamed(name, model_type): tensor for name, tensor in weights.items()}
    if model_type == "nemotron_h":
        out = {}
        for name, tensor in weights.items():
            if not name.endswith((".experts.up_proj", ".experts.down_proj")):
                out[name] = tensor
                continue
            layer, last = name.split(".experts.")
            out |= {f"{layer}.experts.{expert}.{last}.weight": matrix for expert, matrix in enumerate(tensor)}
        return out
    if model_type not in NAMES:
        return weights
    block, *projections = NAMES[model_type]
    attribute = ATTRIBUTES.get(model_type, "mlp")
    out = {}
    for name, tensor in weights.items():
        if not name.endswith(("experts.gate_up_proj", "experts.down_proj")):
            out[name.replace(f".{attribute}.gate.", f".{block}.gate.")] = tensor
            continue
        layer, last = name.split(f".{attribute}.experts.")
        for expert, matrix in enumerate(tensor):
            parts = zip(projections[:2], matrix.chunk(2)) if last == "gate_up_proj" else [(projections[2], matrix)]
            for projection, part in parts:
                out[f"{layer}.{block}.experts.{expert}.{projection}.weight"] = part
    return out


def linear(weight: torch.Tensor) -> nn.Linear:
    layer = nn.Linear(weight.shape[1], weight.shape[0], bias=False)
    layer.weight.data.copy_(weight)
    return layer


class PlainExperts(nn.Module):
    """Nemotron-H's block, whose experts have no gate, with a linear layer for each matrix."""

    def __init__(self, block):
        super().__init__()
        self.gate, self.shared_experts = block.gate, block.shared_experts
        self.fc1_latent_proj, self.fc2_latent_proj = block.fc1_latent_proj, block.fc2_latent_proj
        self.experts = nn.ModuleList(nn.ModuleDict({"up_proj": linear(up), "down_proj": linear(down)})
                                     for up, down in zip(block.experts.up_proj, block.experts.down_proj))

    def forward(self, hidden):
        x = hidden.reshape(-1, hidden.shape[-1])
        _, weights, chosen = self.gate(x)
        rows_in = self.fc1_latent_proj(x)
        y = torch.zeros_like(rows_in)
        for number, expert in enumerate(self.experts):
            rows, slot = torch.where(chosen == number)
            own = expert["down_proj"](nn.functional.relu(expert["up_proj"](rows_in[rows])) ** 2)
            y = y.index_add(0, rows, own * weights[rows, slot, None])
        return self.fc2_latent_proj(y).reshape(hidden.shape) + self.shared_experts(hidden)


SHARED = ("shared_expert", "shared_expert_gate", "shared_experts", "shared_mlp")


class SparseMlp(nn.Module):
    """transformers 4's block over the weights of transformers 5's."""

    def __init__(self, block, projections, normalise: bool, kept_router: bool):
        super().__init__()
        self.projections, self.top_k, self.normalise = projections, block.gate.top_k, normalise
        self.kept_router = kept_router
        self.gate = block.gate if kept_router else linear(block.gate.weight)
        # Beside the router (MiniMax), or in it where it is not kept (ERNIE).
        self.correction = getattr(block, "e_score_correction_bias", getattr(block, "expert_bias", None))
        if not kept_router and hasattr(block.gate, "moe_statics"):
            self.correction = block.gate.moe_statics.e_score_correction_bias
        self.experts = nn.ModuleList()
        for gate_up, down in zip(block.experts.gate_up_proj, block.experts.down_proj):
            gate, up = gate_up.chunk(2)
            self.experts.append(nn.ModuleDict(dict(zip(projections, map(linear, (gate, up, down))))))
        for name in SHARED:
            setattr(self, name, getattr(block, name, None))

    def choose(self, x):
        """Returns the weights and the numbers of each token's experts."""
        if self.kept_router:
            beside = () if self.correction is None else (self.correction,)
            self.logits, weights, chosen = self.gate(x, *beside)
            return weights, chosen
        self.logits = self.gate(x)
        scores = self.logits.float().softmax(-1)
        chosen = torch.topk(scores if self.correction is None else scores + self.correction, self.top_k)[1]
        weights = scores.gather(-1, chosen)
        return weights / weights.sum(-1, keepdim=True) if self.normalise else weights, chosen

    def forward(self, x):
        shape = x.shape
        x = x.reshape(-1, shape[-1])
        weights, chosen = self.choose(x)
        y = torch.zeros_like(x)
        for number, expert in enumerate(self.experts):
            rows, slot = torch.where(chosen == number)
            gate, up, down = (expert[name] for name in self.projections)
            own = down(nn.functional.silu(gate(x[rows])) * up(x[rows]))
            y = y.index_add(0, rows, own * weights[rows, slot, None])
        if self.shared_expert is not None:
            y = y + torch.sigmoid(self.shared_expert_gate(x)) * self.shared_expert(x)
        for shared in (self.shared_experts, self.shared_mlp):
            if shared is not None:
                y = y + shared(x)
        return y.reshape(shape)


class LayerRouter(nn.Module):
    """GraniteMoE's router in transformers 4, a linear layer in a module. Its experts are one tensor
    of a layer in files, too.
    """

    def __init__(self, router):
        super().__init__()
        self.layer, self.top_k = linear(router.weight), router.top_k

    def forward(self, x):
        self.logits = self.layer(x).float()
        best, chosen = self.logits.topk(self.top_k, dim=-1)
        return chosen, best.softmax(-1).type_as(x), self.logits


def keep_logits(model) -> None:
    """Keeps the logits of GraniteMoE's routers for balance_loss: transformers 5.17 does not record
    them, and its own loss fails.
    """
    if model.config.model_type not in ("granitemoe", "granitemoeshared"):
        return
    for layer in model.model.layers:
        layer.block_sparse_moe.router.register_forward_hook(lambda router, _, out: setattr(router, "logits", out[2]))
    balance_apart(model)


class BareLinear(nn.Module):
    """A linear layer that peft does not find."""

    def __init__(self, layer):
        super().__init__()
        self.weight = layer.weight

    def forward(self, x):
        return nn.functional.linear(x, self.weight)


def hide_indexers(model) -> None:
    """Makes the layers of DeepSeek V3.2's indexers none to peft: forge leaves them as they are."""
    for name, module in list(model.named_modules()):
        if name.endswith(".indexer"):
            for part in ("wq_b", "wk", "weights_proj"):
                setattr(module, part, BareLinear(getattr(module, part)))


def apart(model) -> None:
    """Replaces the model's experts in place; does nothing to a model without experts."""
    model_type = model.config.model_type
    hide_indexers(model)
    if model_type.startswith("granitemoe"):
        for layer in model.model.layers:
            if layer.block_sparse_moe is not None:
                layer.block_sparse_moe.router = LayerRouter(layer.block_sparse_moe.router)
        return balance_apart(model)
    if model_type == "nemotron_h":
        for layer in model.model.layers:
            if layer.block_type == "moe":
                layer.mixer = PlainExperts(layer.mixer)
        return
    if model_type not in NAMES:
        return
    block, *projections = NAMES[model_type]
    attribute = ATTRIBUTES.get(model_type, "mlp")
    normalise = model_type in ("mixtral", "ernie4_5_moe", "qwen3_5_moe_text") or getattr(model.config, "norm_topk_prob", False)
    for layer in model.model.layers:
        if not hasattr(getattr(layer, attribute), "experts"):
            continue
        own = SparseMlp(getattr(layer, attribute), projections, normalise, model_type in KEPT_ROUTERS)
        if block != attribute:
            delattr(layer, attribute)
            object.__setattr__(layer, attribute, own)  # the module that forward calls; its parameters have the other name
        setattr(layer, block, own)
    balance_apart(model)


def balance_apart(model) -> None:
    """Leaves the routers' loss to balance_loss: transformers would look for its own routers."""
    if hasattr(model.config, "router_weight"):
        return
    balanced = model.config.model_type not in KEPT_ROUTERS and model.config.output_router_logits
    model.config.router_weight = model.config.router_aux_loss_coef if balanced else 0
    model.config.output_router_logits = False


def balance_loss(model, out, attention_mask) -> torch.Tensor | float:
    """Returns what transformers adds to the loss of a model with output_router_logits."""
    if isinstance(getattr(out, "aux_loss", None), torch.Tensor):
        return model.config.router_aux_loss_coef * out.aux_loss
    if not getattr(model.config, "router_weight", 0):
        return 0.0
    kept = [getattr(module, "logits", None) for module in model.modules()]
    logits = tuple(logits for logits in kept if isinstance(logits, torch.Tensor))
    per_token = model.config.num_experts_per_tok
    return model.config.router_weight * load_balancing_loss_func(logits, logits[0].shape[1], per_token, attention_mask)
