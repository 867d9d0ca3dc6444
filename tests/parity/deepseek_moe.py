"""DeepSeekMoE 16B's class, which is not in transformers: Llama's layer with experts in the MLP's place.

The parts are transformers' own, put together as the authors' modeling_deepseek.py has them. A
softmax over all experts gives the scores, the best have them as weights, and shared experts are
added. Experts are modules, as in the files. The loss that balances experts, which the authors' code
adds in training, is left out, as forge leaves it out.

    import deepseek_moe     # AutoConfig and AutoModelForCausalLM know model_type "deepseek"
"""
import copy

import torch
from torch import nn
from transformers import AutoConfig, AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM
from transformers.models.llama.modeling_llama import LlamaMLP


class DeepseekConfig(LlamaConfig):
    model_type = "deepseek"


def mlp(config, width: int) -> LlamaMLP:
    config = copy.deepcopy(config)
    config.intermediate_size = width
    return LlamaMLP(config)


class Router(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(config.n_routed_experts, config.hidden_size))
        self.top_k, self.normalise = config.num_experts_per_tok, config.norm_topk_prob

    def forward(self, x):
        weights, chosen = torch.topk(nn.functional.linear(x.float(), self.weight.float()).softmax(-1), self.top_k)
        return weights / (weights.sum(-1, keepdim=True) + 1e-20) if self.normalise else weights, chosen


class Experts(nn.Module):
    def __init__(self, config):
        super().__init__()
        size = config.moe_intermediate_size
        self.gate = Router(config)
        self.experts = nn.ModuleList(mlp(config, size) for _ in range(config.n_routed_experts))
        self.shared_experts = mlp(config, size * config.n_shared_experts)

    def forward(self, x):
        rows = x.reshape(-1, x.shape[-1])
        weights, chosen = self.gate(rows)
        y = torch.zeros_like(rows)
        for number, expert in enumerate(self.experts):
            row, slot = torch.where(chosen == number)
            y = y.index_add(0, row, expert(rows[row]) * weights[row, slot, None])
        return y.view(x.shape) + self.shared_experts(x)


class DeepseekForCausalLM(LlamaForCausalLM):
    config_class = DeepseekConfig

    def __init__(self, config):
        super().__init__(config)
        for layer in self.model.layers[config.first_k_dense_replace:]:
            layer.mlp = Experts(config)


AutoConfig.register("deepseek", DeepseekConfig)
AutoModelForCausalLM.register(DeepseekConfig, DeepseekForCausalLM)
