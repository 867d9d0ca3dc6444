"""Makes tests/fixtures/tiny-llama (61 k parameters, fp32, with tokenizer) and
tests/fixtures/tiny-variants.

    python tests/parity/make_tiny_model.py [--variants]     # needs torch, transformers, tokenizers; see README.md for versions

Random weights are larger than transformers' default (which gives logits near 0 at this width), so
that a wrong attention, norm or RoPE shows in the logits.
"""
import json
import math
import shutil
import sys
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
import deepseek_moe  # noqa: F401: registers its class
import experts_apart
import llama4_apart
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForSeq2SeqLM, GenerationConfig, LlamaConfig, LlamaForCausalLM

TESTS = Path(__file__).resolve().parent.parent
BASE = TESTS / "fixtures" / "tiny-llama"
VARIANTS = TESTS / "fixtures" / "tiny-variants"
VOCAB = 384
# These multiply by 1 + a norm's weight.
PLUS_ONE = ("gemma", "gemma2", "gemma3_text", "nemotron", "qwen3_next", "qwen3_5_text", "qwen3_5_moe_text")
SPECIALS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
CHAT_TEMPLATE = (
    "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
# The tokenizer's training text: enough for 125 merges, in this repository's own words.
CORPUS = """The user asks a question and the assistant gives an answer. A small model learns what the data says:
the loss of the next token, the mean over all the tokens that are trained. The weights change a little at each step,
and the learning rate decides how much. What is the capital of the country? The capital is the city where the government
sits. Who wrote this text? The author of the text wrote it. How many are there? There are one, two, three, and then
some more: 1 2 3 4 5 6 7 8 9 10. Define a word: the meaning of the word is in the dictionary. In this world nothing
is certain; in that one, everything. She sells the things that he has made. They were here before, and they will be
there after. For the most part, it is not the case that all of them can be the same as each other.
def main(): return 0  # the code is here
"""


def make_tokenizer() -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    trainer = trainers.BpeTrainer(
        vocab_size=VOCAB,
        special_tokens=SPECIALS,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator([CORPUS], trainer)
    assert tokenizer.get_vocab_size() == VOCAB, tokenizer.get_vocab_size()
    return tokenizer


def base_config() -> LlamaConfig:
    return LlamaConfig(
        vocab_size=VOCAB,
        hidden_size=32,
        intermediate_size=88,  # no multiple of 16: kernels must handle the tail
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=8,
        max_position_embeddings=256,
        rms_norm_eps=1e-5,
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0},
        tie_word_embeddings=False,
        bos_token_id=1,
        eos_token_id=2,
        pad_token_id=2,
        torch_dtype="float32",
    )


def fill(tensor: torch.Tensor, name: str, generator: torch.Generator, norm: float = 1) -> torch.Tensor:
    """Fills a tensor with random values by its role: unit embedding, norms around `norm`, linear
    layers of gain 1.2.
    """
    noise = torch.randn(tensor.shape, generator=generator)
    if name.endswith("bias"):
        return 0.3 * noise
    if name.endswith("sinks"):
        return noise
    if name.endswith("A_log"):  # decays from a third to almost none of a state
        return 0.5 * noise - 1
    if name.endswith(".D"):
        return 1 + 0.5 * noise
    if name.endswith("linear_attn.norm.weight"):
        return 1 + 0.2 * noise
    if "norm" in name or ".ln_" in name or name.endswith(("layer_scalar", "router.scale", "per_expert_scale")):
        return norm + 0.2 * noise
    if any(table in name for table in ("embed_tokens", "embed_in", "word_embeddings", "wte", "wpe", "shared", "embed_positions", "attention_bias", "model.embeddings")):
        return noise
    if name.endswith("Attention.q.weight"):  # T5's scores have no scale
        return 0.4 * noise / math.sqrt(tensor.shape[1])
    return 1.2 * noise / math.sqrt(tensor.shape[1])


def random_weights(config, seed: int) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    with torch.device("meta"):
        kind = AutoModelForSeq2SeqLM if config.is_encoder_decoder else AutoModelForCausalLM
        shapes = kind.from_config(config).state_dict()
    norm = 0 if config.model_type in PLUS_ONE else 1
    shapes = experts_apart.stored(shapes, config.model_type)
    return {name: fill(tensor, name, generator, norm) for name, tensor in shapes.items()}


def write_tokenizer_files() -> None:
    make_tokenizer().save(str(BASE / "tokenizer.json"))
    settings = {
        "add_prefix_space": False,
        "bos_token": "<|im_start|>",
        "chat_template": CHAT_TEMPLATE,
        "clean_up_tokenization_spaces": False,
        "eos_token": "<|im_end|>",
        "model_max_length": 256,
        "pad_token": "<|im_end|>",
        "tokenizer_class": "PreTrainedTokenizerFast",
        "unk_token": "<|endoftext|>",
    }
    (BASE / "tokenizer_config.json").write_text(json.dumps(settings, indent=2) + "\n")


def family(model_type: str, architecture: str) -> dict:
    return {"model_type": model_type, "architectures": [architecture]}


# Keys that replace the base's. Old checkpoints write rope_scaling and rope_theta, transformers 5
# writes rope_parameters: both spellings occur here.
OLD = {"rope_parameters": None, "rope_theta": 10000.0}
GELU = {"hidden_act": "gelu_pytorch_tanh", "hidden_activation": "gelu_pytorch_tanh"}
GEMMA3 = (
    family("gemma3_text", "Gemma3ForCausalLM") | GELU | {"query_pre_attn_scalar": 10, "sliding_window": 8}
)
MULTIPLIERS = {
    "embedding_multiplier": 3.0,
    "attention_multiplier": 0.25,
    "residual_multiplier": 0.6,
    "logits_scaling": 3.0,
}
LONGROPE = {"rope_type": "longrope", "rope_theta": 10000.0, "short_factor": [1.0, 1.3], "long_factor": [1.0, 4.0],
            "original_max_position_embeddings": 64}
LLAMAS_OWN = {"pretraining_tp": None, "attention_bias": None, "mlp_bias": None}
LAYER_NORM = LLAMAS_OWN | {"rms_norm_eps": None, "layer_norm_eps": 1e-3, "head_dim": None}
STARCODER2 = (
    LLAMAS_OWN
    | family("starcoder2", "Starcoder2ForCausalLM")
    | {"hidden_act": "gelu_pytorch_tanh", "rms_norm_eps": None, "norm_epsilon": 1e-3, "head_dim": None}
)
NEOX = (
    LAYER_NORM
    | family("gpt_neox", "GPTNeoXForCausalLM")
    | {"num_key_value_heads": None, "hidden_act": "gelu", "rope_parameters": None, "classifier_dropout": 0.1}
)
FALCON = (
    LLAMAS_OWN
    | family("falcon", "FalconForCausalLM")
    | {"rms_norm_eps": None, "layer_norm_epsilon": 1e-3, "head_dim": None, "hidden_act": None, "activation": "gelu",
       "intermediate_size": None, "ffn_hidden_size": 88, "num_key_value_heads": None}
)
GPT2 = (
    LLAMAS_OWN
    | family("gpt2", "GPT2LMHeadModel")
    | {key: None for key in ("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads",
                             "head_dim", "max_position_embeddings", "rms_norm_eps", "rope_parameters", "hidden_act")}
    | {"n_embd": 32, "n_layer": 3, "n_head": 4, "n_positions": 64, "layer_norm_epsilon": 1e-3, "activation_function": "gelu_new",
       "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
)
EXPERTS = {"num_experts": 5, "num_experts_per_tok": 2, "moe_intermediate_size": 24}
GPT_OSS = (
    LLAMAS_OWN
    | family("gpt_oss", "GptOssForCausalLM")
    # A limit that some gates, and some values that they let through, reach; few, because none may
    # lie on it (edges.py).
    | {"num_local_experts": 5, "num_experts_per_tok": 2, "intermediate_size": 24, "sliding_window": 8, "swiglu_limit": 4.0}
)
# Heads of keys that serve two heads of values, no width a multiple of a vector's.
DELTA = EXPERTS | {"head_dim": 16, "linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 12, "linear_value_head_dim": 10,
                   "linear_conv_kernel_dim": 4, "shared_expert_intermediate_size": 40,
                   "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.25}}
DENSE_DELTA = DELTA | dict.fromkeys([*EXPERTS, "shared_expert_intermediate_size"])
LATENT = {"num_key_value_heads": 4, "head_dim": None, "kv_lora_rank": 20, "qk_nope_head_dim": 10, "qk_rope_head_dim": 6,
          "v_head_dim": 8, "moe_intermediate_size": 24, "num_experts_per_tok": 2}
# An encoder-decoder shares nothing with the base; its stacks have unequal depths.
ALL_ELSE = LLAMAS_OWN | {key: None for key in ("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads",
                                               "head_dim", "max_position_embeddings", "rms_norm_eps", "rope_parameters", "hidden_act", "initializer_range", "attention_dropout")}
T5 = (
    ALL_ELSE
    | family("t5", "T5ForConditionalGeneration")
    | {"is_encoder_decoder": True, "d_model": 32, "d_ff": 56, "d_kv": 6, "num_heads": 4, "num_layers": 2, "num_decoder_layers": 3,
       "relative_attention_num_buckets": 8, "relative_attention_max_distance": 20, "layer_norm_epsilon": 1e-5, "dropout_rate": 0.0,
       "pad_token_id": 0, "decoder_start_token_id": 0, "bos_token_id": None}
)
BART = (
    ALL_ELSE
    | family("bart", "BartForConditionalGeneration")
    | {"is_encoder_decoder": True, "d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
       "decoder_attention_heads": 4, "encoder_ffn_dim": 56, "decoder_ffn_dim": 56, "max_position_embeddings": 64, "dropout": 0.0,
       "activation_function": "gelu", "tie_word_embeddings": True}
)
PHI = LAYER_NORM | family("phi", "PhiForCausalLM") | {"hidden_act": "gelu_new"}
SEED_OSS = LLAMAS_OWN | family("seed_oss", "SeedOssForCausalLM") | {"attention_dropout": 0.0, "residual_dropout": 0.0}
OLMO = LLAMAS_OWN | family("olmo", "OlmoForCausalLM") | {"rms_norm_eps": None, "head_dim": None}
NEMOTRON = (
    LLAMAS_OWN
    | family("nemotron", "NemotronForCausalLM")
    | {"rms_norm_eps": None, "norm_eps": 1e-3, "hidden_act": "relu2"}
)
GRANITE4 = (
    LLAMAS_OWN
    | family("granitemoehybrid", "GraniteMoeHybridForCausalLM")
    | MULTIPLIERS
    | {"head_dim": None, "layer_types": ["attention"] * 3, "num_local_experts": 0, "num_experts_per_tok": 0,
       "attention_multiplier": 0.1, "shared_intermediate_size": 88, "intermediate_size": 64, "mamba_n_heads": 4, "mamba_d_head": 16, "mamba_expand": 2}
)
# Granite 4's own layers without attention.
GRANITE4_MAMBA = GRANITE4 | {"mamba_d_state": 12, "mamba_n_groups": 1, "layer_types": ["mamba", "attention", "mamba"]}
GRANITE4_EXPERTS = {"num_local_experts": 6, "num_experts_per_tok": 2, "intermediate_size": 24}
FALCON_H1 = (
    LLAMAS_OWN
    | family("falcon_h1", "FalconH1ForCausalLM")
    | {"head_dim": None, "mamba_d_ssm": 48, "mamba_n_heads": 4, "mamba_d_head": 12, "mamba_n_groups": 1, "mamba_d_state": 10, "mamba_d_conv": 4,
       "mamba_rms_norm": False, "embedding_multiplier": 1.5, "lm_head_multiplier": 0.5, "key_multiplier": 0.75, "attention_in_multiplier": 1.25,
       "attention_out_multiplier": 0.9, "ssm_in_multiplier": 1.5, "ssm_out_multiplier": 0.5, "mlp_multipliers": [0.9, 0.8],
       "ssm_multipliers": [0.5, 1.25, 0.75, 1.5, 0.25]}
)
NEMOTRON_H = (
    LLAMAS_OWN
    | family("nemotron_h", "NemotronHForCausalLM")
    | {"rms_norm_eps": None, "layer_norm_epsilon": 1e-5, "hidden_act": None, "mlp_hidden_act": "relu2", "rope_parameters": None, "head_dim": 12,
       "num_hidden_layers": 4, "hybrid_override_pattern": "M-*M", "mamba_num_heads": 4, "mamba_head_dim": 10, "n_groups": 2, "ssm_state_size": 14,
       "conv_kernel": 4, "intermediate_size": 88}
)
OPT = (
    LAYER_NORM
    | family("opt", "OPTForCausalLM")
    | {key: None for key in ("layer_norm_eps", "intermediate_size", "num_key_value_heads", "rope_parameters", "hidden_act", "initializer_range")}
    | {"ffn_dim": 88, "activation_function": "relu", "word_embed_proj_dim": 32, "max_position_embeddings": 64,
       "dropout": 0.0, "attention_dropout": 0.0, "layerdrop": 0.0}
)
BLOOM = (
    LAYER_NORM
    | family("bloom", "BloomForCausalLM")
    | {key: None for key in ("layer_norm_eps", "intermediate_size", "num_hidden_layers", "num_key_value_heads", "max_position_embeddings",
                             "rope_parameters", "hidden_act", "attention_dropout")}
    | {"n_layer": 3, "layer_norm_epsilon": 1e-3, "hidden_dropout": 0.0, "attention_dropout": 0.0, "pretraining_tp": 4}
)
MPT = (
    LAYER_NORM
    | family("mpt", "MPTForCausalLM")
    | {key: None for key in ("layer_norm_eps", "intermediate_size", "num_hidden_layers", "num_key_value_heads", "num_attention_heads", "hidden_size",
                             "max_position_embeddings", "rope_parameters", "hidden_act", "attention_dropout")}
    | {"d_model": 32, "n_heads": 4, "n_layers": 3, "max_seq_len": 128, "layer_norm_epsilon": 1e-3, "expansion_ratio": 4, "no_bias": True}
)
LFM2 = LLAMAS_OWN | family("lfm2", "Lfm2ForCausalLM") | {"head_dim": None, "rms_norm_eps": None, "norm_eps": 1e-4, "conv_L_cache": 3, "hidden_act": None}
LFM2_MOE = (
    LFM2
    | family("lfm2_moe", "Lfm2MoeForCausalLM")
    | {"moe_intermediate_size": 24, "num_experts": 5, "num_experts_per_tok": 2, "num_dense_layers": 1, "layer_types": ["conv", "full_attention", "conv"]}
)
GPTJ = (
    GPT2
    | family("gptj", "GPTJForCausalLM")
    | {"tie_word_embeddings": False}
)
LLAMA4 = (
    LLAMAS_OWN
    | family("llama4_text", "Llama4ForCausalLM")
    | {"intermediate_size": 24, "intermediate_size_mlp": 88, "num_local_experts": 5, "attention_chunk_size": 8, "no_rope_layer_interval": 2}
)
ROUTED = {"moe_intermediate_size": 24, "num_experts_per_tok": 2, "first_k_dense_replace": 1}
OLMOE = LLAMAS_OWN | family("olmoe", "OlmoeForCausalLM") | {"head_dim": None, "num_experts_per_tok": 2, "intermediate_size": 24}
FLEX_OLMO = LLAMAS_OWN | family("flex_olmo", "FlexOlmoForCausalLM") | {"head_dim": None, "num_experts_per_tok": 2, "intermediate_size": 24}
GRANITE_MOE = LLAMAS_OWN | MULTIPLIERS | {"head_dim": None, "num_local_experts": 5, "num_experts_per_tok": 2, "intermediate_size": 24}
ERNIE_MOE = LLAMAS_OWN | family("ernie4_5_moe", "Ernie4_5_MoeForCausalLM") | {"head_dim": None, "use_bias": False, "moe_intermediate_size": 24}
MINIMAX_M2 = LLAMAS_OWN | family("minimax_m2", "MiniMaxM2ForCausalLM") | {"num_experts_per_tok": 2, "intermediate_size": 24}
HUNYUAN_MOE = LLAMAS_OWN | family("hunyuan_v1_moe", "HunYuanMoEV1ForCausalLM") | {"intermediate_size": 24}
DEEPSEEK_MOE = LLAMAS_OWN | family("deepseek", "DeepseekForCausalLM") | ROUTED | {"head_dim": None}
INDEXER = {"index_topk": 64, "index_n_heads": 3, "index_head_dim": 10, "max_position_embeddings": 64}
STABLELM = LAYER_NORM | family("stablelm", "StableLmForCausalLM")
GEMMA4 = (
    LLAMAS_OWN
    | family("gemma4_text", "Gemma4ForCausalLM")
    | GELU
    | {"head_dim": 12, "sliding_window": 8, "hidden_size_per_layer_input": 0}
)
VARIANT_CONFIGS = {
    "tied": {"tie_word_embeddings": True},
    "bias": {"attention_bias": True, "mlp_bias": True},
    "head-dim": {"head_dim": 12},
    "rope-linear": OLD | {"rope_scaling": {"type": "linear", "factor": 4.0}},
    "rope-dynamic": OLD | {"max_position_embeddings": 16, "rope_scaling": {"type": "dynamic", "factor": 2.0}},
    "rope-llama3": OLD
    | {
        "max_position_embeddings": 64,
        "rope_scaling": {
            "rope_type": "llama3",
            "factor": 8.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 32,
        },
    },
    "rope-yarn": {
        "max_position_embeddings": 64,
        "rope_parameters": {
            "rope_type": "yarn",
            "rope_theta": 10000.0,
            "factor": 4.0,
            "original_max_position_embeddings": 16,
        },
    },
    # Every row begins with this token, so its row of the embedding gets no gradient.
    "pad": {"pad_token_id": 1},
    "pad-tied": {"pad_token_id": 1, "tie_word_embeddings": True},
    # Other families. Windows are shorter than most sequences; caps lie at the size of scores and
    # logits.
    "qwen3": LLAMAS_OWN | family("qwen3", "Qwen3ForCausalLM") | {"head_dim": 12},
    "phi3": LLAMAS_OWN | family("phi3", "Phi3ForCausalLM"),
    "phi3-window": LLAMAS_OWN | family("phi3", "Phi3ForCausalLM") | {"sliding_window": 7},
    "mistral-window": LLAMAS_OWN | family("mistral", "MistralForCausalLM") | {"sliding_window": 8},
    "qwen2-window": LLAMAS_OWN
    | family("qwen2", "Qwen2ForCausalLM")
    | {"use_sliding_window": True, "sliding_window": 8, "max_window_layers": 1},
    "gemma2": LLAMAS_OWN
    | family("gemma2", "Gemma2ForCausalLM")
    | {
        "hidden_act": "gelu_pytorch_tanh",
        "hidden_activation": "gelu_pytorch_tanh",
        "head_dim": 12,
        "query_pre_attn_scalar": 10,
        "sliding_window": 8,
        "attn_logit_softcapping": 5.0,
        "final_logit_softcapping": 8.0,
        "tie_word_embeddings": True,
    },
    "gemma": LLAMAS_OWN
    | family("gemma", "GemmaForCausalLM")
    | GELU
    | {"head_dim": 12, "num_key_value_heads": 1, "tie_word_embeddings": True},
    "gemma-untied": LLAMAS_OWN | family("gemma", "GemmaForCausalLM") | GELU | {"attention_bias": True},
    # Spellings of transformers 4 and of transformers 5.
    "gemma3": LLAMAS_OWN
    | OLD
    | GEMMA3
    | {
        "head_dim": 12,
        "tie_word_embeddings": True,
        "rope_theta": 100000.0,
        "rope_local_base_freq": 500.0,
        "rope_scaling": {"rope_type": "linear", "factor": 8.0},
        "sliding_window_pattern": 2,
    },
    "gemma3-untied": LLAMAS_OWN
    | GEMMA3
    | {
        "num_key_value_heads": 1,
        "attention_bias": True,
        "final_logit_softcapping": 8.0,
        "layer_types": ["full_attention", "sliding_attention", "sliding_attention"],
        "rope_parameters": {
            "full_attention": {"rope_type": "default", "rope_theta": 100000.0},
            "sliding_attention": {"rope_type": "default", "rope_theta": 500.0},
        },
    },
    "smollm3": LLAMAS_OWN
    | family("smollm3", "SmolLM3ForCausalLM")
    | {"tie_word_embeddings": True, "no_rope_layer_interval": 2},
    "smollm3-window": family("smollm3", "SmolLM3ForCausalLM")
    | {
        "pretraining_tp": None,
        "attention_bias": None,  # a bias of k changes nothing where nothing turns
        "mlp_bias": True,
        "no_rope_layers": [0, 1, 0],
        "use_sliding_window": True,
        "sliding_window": 8,
    },
    "granite": LLAMAS_OWN | family("granite", "GraniteForCausalLM") | MULTIPLIERS,
    "granite-tied": family("granite", "GraniteForCausalLM")
    | MULTIPLIERS
    | {
        "pretraining_tp": None,
        "attention_bias": True,
        "mlp_bias": True,
        "num_key_value_heads": 4,
        "tie_word_embeddings": True,
    },
    "olmo2": LLAMAS_OWN | family("olmo2", "Olmo2ForCausalLM"),
    "olmo2-tied": LLAMAS_OWN
    | family("olmo2", "Olmo2ForCausalLM")
    | {"attention_bias": True, "num_key_value_heads": 4, "tie_word_embeddings": True},
    "olmo3": LLAMAS_OWN
    | family("olmo3", "Olmo3ForCausalLM")
    | {
        "num_key_value_heads": 1,
        "sliding_window": 8,
        "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
        "max_position_embeddings": 64,
        "rope_parameters": {
            "full_attention": {
                "rope_type": "yarn",
                "rope_theta": 10000.0,
                "factor": 4.0,
                "original_max_position_embeddings": 16,
            },
            "sliding_attention": {"rope_type": "default", "rope_theta": 500.0},
        },
    },
    # Sequences are short ones of a long context, then ones on both sides of the original length.
    "phi4": LLAMAS_OWN
    | family("phi3", "Phi3ForCausalLM")
    | {
        "tie_word_embeddings": True,
        "partial_rotary_factor": 0.5,
        "original_max_position_embeddings": 64,
        "rope_parameters": LONGROPE | {"partial_rotary_factor": 0.5},
    },
    "phi3-longrope": LLAMAS_OWN
    | family("phi3", "Phi3ForCausalLM")
    | OLD
    | {
        "original_max_position_embeddings": 16,
        "rope_scaling": {"type": "longrope", "short_factor": [1.0, 1.1, 1.3, 1.7], "long_factor": [1.0, 1.5, 3.0, 9.0]},
    },
    "glm": LLAMAS_OWN | OLD | family("glm", "GlmForCausalLM") | {"head_dim": 12, "partial_rotary_factor": 0.5,
                                                                  "attention_bias": True},
    "glm4": LLAMAS_OWN
    | family("glm4", "Glm4ForCausalLM")
    | {
        "num_key_value_heads": 1,
        "attention_bias": False,
        "tie_word_embeddings": True,
        "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.5},
    },
    "cohere": LAYER_NORM
    | family("cohere", "CohereForCausalLM")
    | {"logit_scale": 0.3, "tie_word_embeddings": True},
    "cohere-bias": LAYER_NORM
    | family("cohere", "CohereForCausalLM")
    | {"logit_scale": 0.3, "attention_bias": True, "num_key_value_heads": 4},
    "cohere2": LAYER_NORM
    | family("cohere2", "Cohere2ForCausalLM")
    | {"logit_scale": 0.3, "sliding_window": 8, "sliding_window_pattern": 2, "tie_word_embeddings": True},
    "starcoder2": STARCODER2 | {"tie_word_embeddings": True},
    "starcoder2-window": STARCODER2 | {"use_bias": False, "sliding_window": 8, "num_key_value_heads": 1},
    "gpt-neox": NEOX | {"rotary_pct": 0.5},
    "gpt-neox-sequential": NEOX
    | {
        "use_parallel_residual": False,
        "attention_bias": False,
        "tie_word_embeddings": True,
        "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.25},
    },
    "falcon": FALCON | {"tie_word_embeddings": True, "num_kv_heads": 4},
    "falcon-grouped": FALCON | {"new_decoder_architecture": True, "num_ln_in_parallel_attn": 1, "num_kv_heads": 2},
    "falcon-sequential": FALCON | {"multi_query": False, "parallel_attn": False, "bias": True},
    "stablelm": STABLELM | {"rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.5}},
    "stablelm-parallel": STABLELM
    | {"use_parallel_residual": True, "use_qkv_bias": True, "tie_word_embeddings": True,
       "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.25}},
    "mixtral": LLAMAS_OWN
    | family("mixtral", "MixtralForCausalLM")
    | {"num_local_experts": 5, "num_experts_per_tok": 2, "intermediate_size": 24, "head_dim": None},
    "mixtral-balanced": LLAMAS_OWN
    | family("mixtral", "MixtralForCausalLM")
    | {"num_local_experts": 4, "num_experts_per_tok": 1, "intermediate_size": 24, "sliding_window": 8,
       "tie_word_embeddings": True, "output_router_logits": True, "router_aux_loss_coef": 0.3},
    "qwen2-moe": LLAMAS_OWN
    | family("qwen2_moe", "Qwen2MoeForCausalLM")
    | EXPERTS
    | {"shared_expert_intermediate_size": 48, "head_dim": None},
    "qwen2-moe-window": LLAMAS_OWN
    | family("qwen2_moe", "Qwen2MoeForCausalLM")
    | EXPERTS
    | {"shared_expert_intermediate_size": 40, "head_dim": None, "qkv_bias": False, "norm_topk_prob": True,
       "mlp_only_layers": [1], "use_sliding_window": True, "sliding_window": 8, "max_window_layers": 1,
       "output_router_logits": True, "router_aux_loss_coef": 0.3},
    "qwen3-moe": LLAMAS_OWN
    | family("qwen3_moe", "Qwen3MoeForCausalLM")
    | EXPERTS
    | {"head_dim": 12, "norm_topk_prob": True, "num_experts_per_tok": 3},
    "qwen3-moe-sparse": LLAMAS_OWN
    | family("qwen3_moe", "Qwen3MoeForCausalLM")
    | EXPERTS
    | {"num_key_value_heads": 1, "decoder_sparse_step": 2, "tie_word_embeddings": True},
    "gpt2": GPT2 | {"n_inner": 88, "tie_word_embeddings": True},
    "gpt2-untied": GPT2 | {"n_inner": 56, "tie_word_embeddings": False, "activation_function": "gelu_pytorch_tanh"},
    "gpt-oss": GPT_OSS
    | {
        "attention_bias": True,
        "head_dim": 12,
        "max_position_embeddings": 64,
        "rope_parameters": {
            "rope_type": "yarn",
            "rope_theta": 10000.0,
            "factor": 4.0,
            "beta_fast": 32.0,
            "beta_slow": 1.0,
            "original_max_position_embeddings": 16,
            "truncate": False,
        },
    },
    "gpt-oss-balanced": GPT_OSS
    | OLD
    | {
        "attention_bias": False,
        "num_key_value_heads": 1,
        "num_experts_per_tok": 3,
        "swiglu_alpha": 1.3,
        "layer_types": ["full_attention", "sliding_attention", "full_attention"],
        "tie_word_embeddings": True,
        "output_router_logits": True,
        "router_aux_loss_coef": 0.3,
    },
    "deepseek-v2": LLAMAS_OWN
    | family("deepseek_v2", "DeepseekV2ForCausalLM")
    | LATENT
    | {"n_routed_experts": 5, "n_shared_experts": 2, "first_k_dense_replace": 1, "routed_scaling_factor": 1.3},
    "deepseek-v2-groups": LLAMAS_OWN
    | family("deepseek_v2", "DeepseekV2ForCausalLM")
    | LATENT
    | {
        "q_lora_rank": 14,
        "attention_bias": True,
        "n_routed_experts": 6,
        "n_shared_experts": 1,
        "n_group": 3,
        "topk_group": 2,
        "topk_method": "group_limited_greedy",
        "v_head_dim": 16,
        "tie_word_embeddings": True,
        "max_position_embeddings": 64,
        "rope_parameters": {
            "rope_type": "yarn",
            "rope_theta": 10000.0,
            "factor": 4.0,
            "mscale": 0.7,
            "mscale_all_dim": 0.7,
            "original_max_position_embeddings": 16,
        },
    },
    "deepseek-v3": LLAMAS_OWN
    | family("deepseek_v3", "DeepseekV3ForCausalLM")
    | LATENT
    | {
        "q_lora_rank": 14,
        "n_routed_experts": 8,
        "n_shared_experts": 1,
        "first_k_dense_replace": 1,
        "n_group": 4,
        "topk_group": 2,
        "routed_scaling_factor": 2.5,
        "norm_topk_prob": True,
        "max_position_embeddings": 64,
        "rope_parameters": {
            "rope_type": "yarn",
            "rope_theta": 10000.0,
            "factor": 4.0,
            "mscale": 1.0,
            "mscale_all_dim": 1.0,
            "original_max_position_embeddings": 16,
        },
    },
    "deepseek-v3-halves": LLAMAS_OWN
    | family("deepseek_v3", "DeepseekV3ForCausalLM")
    | LATENT
    | {
        "q_lora_rank": 14,
        "attention_bias": True,
        "rope_interleave": False,
        "n_routed_experts": 4,
        "n_shared_experts": 2,
        "first_k_dense_replace": 2,
        "n_group": 1,
        "topk_group": 1,
        "norm_topk_prob": False,
        "tie_word_embeddings": True,
    },
    "t5": T5 | {"feed_forward_proj": "relu", "tie_word_embeddings": True},
    "t5-gated": T5 | {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False, "relative_attention_num_buckets": 32,
                      "relative_attention_max_distance": 128},
    # Answers begin after the token whose row of the embedding gets no gradient, or after another.
    "bart": BART | {"bos_token_id": 0, "pad_token_id": 1, "decoder_start_token_id": 2},
    "bart-scaled": BART | {"scale_embedding": True, "encoder_layers": 1, "decoder_layers": 3, "pad_token_id": 2, "decoder_start_token_id": 2},
    "gpt-neox-tanh": NEOX | {"rotary_pct": 0.5, "hidden_act": "gelu_fast"},
    # Spellings of transformers 4 and of transformers 5.
    "phi": PHI | OLD | {"num_key_value_heads": 4, "partial_rotary_factor": 0.5},
    "phi-tied": PHI
    | {"tie_word_embeddings": True, "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.25}},
    "seed-oss": SEED_OSS | {"head_dim": 12},
    "seed-oss-tied": SEED_OSS
    | {"attention_bias": False, "attention_out_bias": True, "mlp_bias": True, "num_key_value_heads": 4, "tie_word_embeddings": True},
    "exaone4": LLAMAS_OWN
    | family("exaone4", "Exaone4ForCausalLM")
    | {"tie_word_embeddings": True, "layer_types": ["full_attention"] * 3},
    "exaone4-window": LLAMAS_OWN
    | OLD
    | family("exaone4", "Exaone4ForCausalLM")
    | {
        "head_dim": None,
        "num_key_value_heads": 1,
        "sliding_window": 8,
        "sliding_window_pattern": "LG",
        "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
        "max_position_embeddings": 64,
        "rope_scaling": {
            "rope_type": "llama3",
            "factor": 8.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 32,
        },
    },
    "ernie": LLAMAS_OWN | family("ernie4_5", "Ernie4_5ForCausalLM") | {"head_dim": 12, "tie_word_embeddings": True},
    "ernie-bias": LLAMAS_OWN
    | family("ernie4_5", "Ernie4_5ForCausalLM")
    | {"use_bias": True, "num_key_value_heads": 1},
    "hunyuan": LLAMAS_OWN
    | OLD
    | family("hunyuan_v1_dense", "HunYuanDenseV1ForCausalLM")
    | {
        "tie_word_embeddings": True,
        "rope_scaling": {"type": "dynamic", "alpha": 50.0, "factor": 1.0, "beta_fast": 32, "beta_slow": 1,
                         "mscale": 1.0, "mscale_all_dim": 1.0},
    },
    "arcee": LLAMAS_OWN | family("arcee", "ArceeForCausalLM") | {"hidden_act": "relu2"},
    "arcee-bias": family("arcee", "ArceeForCausalLM")
    | {
        "pretraining_tp": None,
        "hidden_act": "relu2",
        "attention_bias": True,
        "mlp_bias": True,
        "head_dim": 12,
        "num_key_value_heads": 1,
        "tie_word_embeddings": True,
        "max_position_embeddings": 64,
        "rope_parameters": {
            "rope_type": "yarn",
            "rope_theta": 10000.0,
            "factor": 4.0,
            "mscale": 1.0,
            "original_max_position_embeddings": 16,
        },
    },
    "olmo": OLMO | {"clip_qkv": 1.5, "pad_token_id": 1},
    "olmo-tied": OLMO | OLD | {"num_key_value_heads": 4, "attention_bias": True, "tie_word_embeddings": True},
    "nemotron": NEMOTRON | {"rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.5}},
    "nemotron-bias": NEMOTRON
    | OLD
    | {"partial_rotary_factor": 0.25, "attention_bias": True, "mlp_bias": True, "num_key_value_heads": 4, "tie_word_embeddings": True},
    "granite4": GRANITE4 | {"position_embedding_type": "rope", "tie_word_embeddings": True},
    "granite4-nope": GRANITE4
    | {"position_embedding_type": None, "rope_parameters": None, "num_key_value_heads": 4, "layer_types": ["full_attention"] * 3},
    "opt": OPT | {"tie_word_embeddings": True},
    "opt-untied": OPT | {"enable_bias": False, "ffn_dim": 56, "tie_word_embeddings": False, "pad_token_id": 1},
    "gptj": GPTJ | {"n_inner": 88, "rotary_dim": 4},
    "gptj-tied": GPTJ | {"rotary_dim": 8, "tie_word_embeddings": True, "pad_token_id": 1},
    "falcon-apart": FALCON | {"new_decoder_architecture": True, "num_kv_heads": 2, "tie_word_embeddings": False},
    "bloom": BLOOM | {"tie_word_embeddings": True},
    "bloom-untied": BLOOM | {"num_attention_heads": None, "n_head": 3, "hidden_size": None, "n_embed": 30, "tie_word_embeddings": False},
    "hunyuan-bias": LLAMAS_OWN
    | family("hunyuan_v1_dense", "HunYuanDenseV1ForCausalLM")
    | {"attention_bias": True, "num_key_value_heads": 4, "head_dim": 12},
    # Texts have up to five chunks, and queries grow ten times.
    "llama4": LLAMA4
    | {
        "head_dim": 12,
        "floor_scale": 4,
        "attn_scale": 0.5,
        "max_position_embeddings": 64,
        "rope_parameters": {
            "rope_type": "llama3",
            "rope_theta": 10000.0,
            "factor": 8.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 32,
        },
    },
    "llama4-interleaved": LLAMA4
    | OLD
    | {
        "num_key_value_heads": 1,
        "interleave_moe_layer_step": 2,
        "use_qk_norm": False,
        "attn_temperature_tuning": False,
        "attention_chunk_size": 11,
        "tie_word_embeddings": True,
    },
    # Queries grow twice, or four times, within most sequences.
    "ministral3": LLAMAS_OWN
    | family("ministral3", "Ministral3ForCausalLM")
    | {
        "head_dim": 12,
        "max_position_embeddings": 64,
        "rope_parameters": {
            "rope_type": "yarn",
            "type": "yarn",
            "rope_theta": 10000.0,
            "factor": 4.0,
            "beta_fast": 32.0,
            "beta_slow": 1.0,
            "mscale": 1.0,
            "mscale_all_dim": 1.0,
            "llama_4_scaling_beta": 0.3,
            "original_max_position_embeddings": 16,
        },
    },
    "ministral3-window": LLAMAS_OWN
    | OLD
    | family("ministral3", "Ministral3ForCausalLM")
    | {
        "num_key_value_heads": 1,
        "sliding_window": 8,
        "tie_word_embeddings": True,
        "rope_scaling": {"type": "linear", "factor": 2.0, "llama_4_scaling_beta": 0.5, "original_max_position_embeddings": 9},
    },
    "glm4-moe": LLAMAS_OWN
    | OLD
    | family("glm4_moe", "Glm4MoeForCausalLM")
    | ROUTED
    | {"head_dim": 12, "partial_rotary_factor": 0.5, "attention_bias": True, "use_qk_norm": True, "n_routed_experts": 6,
       "n_shared_experts": 1, "routed_scaling_factor": 2.5, "norm_topk_prob": True, "num_nextn_predict_layers": 1},
    "glm4-moe-groups": LLAMAS_OWN
    | family("glm4_moe", "Glm4MoeForCausalLM")
    | ROUTED
    | {"num_key_value_heads": 1, "attention_bias": False, "use_qk_norm": False, "n_routed_experts": 8, "n_shared_experts": 2, "n_group": 4,
       "topk_group": 2, "routed_scaling_factor": 1.0, "norm_topk_prob": False, "first_k_dense_replace": 2, "tie_word_embeddings": True,
       "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.25}},
    "olmoe": OLMOE | {"num_experts": 5, "clip_qkv": None, "num_key_value_heads": 4},
    "olmoe-balanced": OLMOE
    | {"num_experts": 4, "num_experts_per_tok": 3, "attention_bias": True, "norm_topk_prob": True, "tie_word_embeddings": True,
       "output_router_logits": True, "router_aux_loss_coef": 0.3},
    "granitemoe": GRANITE_MOE | family("granitemoe", "GraniteMoeForCausalLM"),
    "granitemoe-balanced": GRANITE_MOE
    | OLD
    | family("granitemoe", "GraniteMoeForCausalLM")
    | {"num_local_experts": 4, "num_experts_per_tok": 3, "num_key_value_heads": 4, "attention_bias": True, "tie_word_embeddings": True,
       "output_router_logits": True, "router_aux_loss_coef": 0.3},
    "granitemoe-shared": GRANITE_MOE | family("granitemoeshared", "GraniteMoeSharedForCausalLM") | {"shared_intermediate_size": 40},
    "granitemoe-shared-tied": GRANITE_MOE
    | family("granitemoeshared", "GraniteMoeSharedForCausalLM")
    | {"shared_intermediate_size": 0, "num_local_experts": 6, "num_experts_per_tok": 1, "num_key_value_heads": 1, "tie_word_embeddings": True},
    "ernie-moe": ERNIE_MOE
    | {"moe_num_experts": 6, "moe_k": 2, "moe_num_shared_experts": 2, "moe_layer_start_index": 1, "moe_layer_end_index": -1,
       "moe_layer_interval": 1, "tie_word_embeddings": True},
    "ernie-moe-sparse": ERNIE_MOE
    | OLD
    | {"rope_theta": 500000.0, "num_key_value_heads": 1, "head_dim": 12, "moe_num_experts": 5, "moe_k": 3, "moe_num_shared_experts": 0,
       "moe_layer_start_index": 0, "moe_layer_end_index": 2, "moe_layer_interval": 2},
    "minimax-m2": MINIMAX_M2
    | {"num_local_experts": 6, "head_dim": 12, "rotary_dim": 6,
       "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.5}},
    "minimax-m2-whole": MINIMAX_M2
    | OLD
    | {"num_local_experts": 5, "num_experts_per_tok": 3, "num_key_value_heads": 4, "tie_word_embeddings": True},
    "dots1": LLAMAS_OWN
    | family("dots1", "Dots1ForCausalLM")
    | ROUTED
    | {"num_key_value_heads": 4, "head_dim": 12, "n_routed_experts": 6, "n_shared_experts": 2, "n_group": 1, "topk_group": 1,
       "norm_topk_prob": True, "routed_scaling_factor": 2.5},
    "dots1-window": LLAMAS_OWN
    | OLD
    | family("dots1", "Dots1ForCausalLM")
    | ROUTED
    | {"head_dim": None, "n_routed_experts": 8, "n_shared_experts": 1, "n_group": 4, "topk_group": 2, "norm_topk_prob": False,
       "attention_bias": True, "sliding_window": 8, "max_window_layers": 1, "tie_word_embeddings": True},
    "hunyuan-moe": HUNYUAN_MOE
    | OLD
    | {"num_experts": 5, "moe_topk": [2, 2, 2], "tie_word_embeddings": True,
       "rope_scaling": {"type": "dynamic", "alpha": 4.0, "factor": 1.0}},
    "hunyuan-moe-plain": HUNYUAN_MOE
    | {"num_experts": 4, "moe_topk": 3, "head_dim": 12, "num_key_value_heads": 1, "attention_bias": True},
    "deepseek-moe": DEEPSEEK_MOE | {"n_routed_experts": 6, "n_shared_experts": 2, "norm_topk_prob": False},
    "deepseek-moe-tied": DEEPSEEK_MOE
    | OLD
    | {"n_routed_experts": 5, "n_shared_experts": 1, "num_experts_per_tok": 3, "first_k_dense_replace": 2, "norm_topk_prob": True,
       "attention_bias": True, "num_key_value_heads": 4, "tie_word_embeddings": True},
    "deepseek-v32": LLAMAS_OWN
    | OLD
    | family("deepseek_v32", "DeepseekV32ForCausalLM")
    | LATENT
    | INDEXER
    | {"q_lora_rank": 14, "n_routed_experts": 8, "n_shared_experts": 1, "first_k_dense_replace": 1, "n_group": 4, "topk_group": 2,
       "routed_scaling_factor": 2.5, "norm_topk_prob": True,
       "rope_scaling": {"type": "yarn", "factor": 4.0, "mscale": 1.0, "mscale_all_dim": 1.0, "beta_fast": 32, "beta_slow": 1,
                        "original_max_position_embeddings": 16}},
    "glm-5": LLAMAS_OWN
    | family("glm_moe_dsa", "GlmMoeDsaForCausalLM")
    | LATENT
    | INDEXER
    | {"q_lora_rank": 14, "v_head_dim": 16, "attention_bias": True, "n_routed_experts": 5, "n_shared_experts": 2, "n_group": 1, "topk_group": 1,
       "routed_scaling_factor": 1.5, "norm_topk_prob": False, "mlp_layer_types": ["dense", "sparse", "sparse"],
       "indexer_types": ["full", "shared", "full"], "tie_word_embeddings": True},
    "deepseek-v32-tied": LLAMAS_OWN
    | family("deepseek_v32", "DeepseekV32ForCausalLM")
    | LATENT
    | INDEXER
    | {"q_lora_rank": 12, "attention_bias": True, "n_routed_experts": 4, "n_shared_experts": 2, "first_k_dense_replace": 2, "n_group": 1,
       "topk_group": 1, "index_n_heads": 1, "index_head_dim": 6, "norm_topk_prob": False, "routed_scaling_factor": 1.0,
       "tie_word_embeddings": True},
    "glm-5-pattern": LLAMAS_OWN
    | OLD
    | family("glm_moe_dsa", "GlmMoeDsaForCausalLM")
    | LATENT
    | INDEXER
    | {"q_lora_rank": 14, "n_routed_experts": 6, "n_shared_experts": 1, "first_k_dense_replace": 1, "n_group": 1, "topk_group": 1,
       "norm_topk_prob": True, "routed_scaling_factor": 2.5, "index_topk_freq": 2, "index_skip_topk_offset": 1},
    "flex-olmo": FLEX_OLMO | {"num_experts": 5},
    "flex-olmo-balanced": FLEX_OLMO
    | {"num_experts": 3, "num_experts_per_tok": 1, "num_key_value_heads": 1, "attention_bias": True, "norm_topk_prob": False,
       "tie_word_embeddings": True, "output_router_logits": True, "router_aux_loss_coef": 0.3},
    "qwen3-next": LLAMAS_OWN
    | family("qwen3_next", "Qwen3NextForCausalLM")
    | DELTA
    | {"layer_types": ["linear_attention", "full_attention", "linear_attention"], "norm_topk_prob": True},
    "qwen3-next-mixed": LLAMAS_OWN
    | family("qwen3_next", "Qwen3NextForCausalLM")
    | DELTA
    | {"full_attention_interval": 3, "linear_num_key_heads": 3, "linear_num_value_heads": 3, "linear_value_head_dim": 16,
       "linear_conv_kernel_dim": 3, "num_key_value_heads": 1, "attention_bias": True, "tie_word_embeddings": True,
       "mlp_only_layers": [1], "norm_topk_prob": False, "output_router_logits": True, "router_aux_loss_coef": 0.3},
    "qwen3-5": LLAMAS_OWN
    | family("qwen3_5_text", "Qwen3_5ForCausalLM")
    | DENSE_DELTA
    | {"layer_types": ["linear_attention", "linear_attention", "full_attention"]},
    "qwen3-5-tied": LLAMAS_OWN
    | family("qwen3_5_text", "Qwen3_5ForCausalLM")
    | DENSE_DELTA
    | {"full_attention_interval": 2, "linear_num_key_heads": 1, "linear_num_value_heads": 3, "linear_conv_kernel_dim": 2,
       "attention_bias": True, "tie_word_embeddings": True,
       "rope_parameters": {"rope_type": "default", "rope_theta": 1000000.0, "partial_rotary_factor": 0.5, "mrope_interleaved": True,
                           "mrope_section": [2, 1, 1]}},
    "qwen3-5-moe": LLAMAS_OWN
    | family("qwen3_5_moe_text", "Qwen3_5MoeForCausalLM")
    | DELTA
    | {"layer_types": ["linear_attention", "full_attention", "linear_attention"], "intermediate_size": None},
    "qwen3-5-moe-balanced": LLAMAS_OWN
    | family("qwen3_5_moe_text", "Qwen3_5MoeForCausalLM")
    | DELTA
    | {"full_attention_interval": 2, "linear_num_key_heads": 4, "num_experts_per_tok": 3, "intermediate_size": None,
       "tie_word_embeddings": True, "output_router_logits": True, "router_aux_loss_coef": 0.3},
    "glm4-lite": LLAMAS_OWN
    | family("glm4_moe_lite", "Glm4MoeLiteForCausalLM")
    | LATENT
    | {"q_lora_rank": 14, "v_head_dim": 16, "n_routed_experts": 6, "n_shared_experts": 1, "n_group": 1, "topk_group": 1, "routed_scaling_factor": 1.8,
       "norm_topk_prob": True, "mlp_layer_types": ["dense", "sparse", "sparse"]},
    "glm4-lite-groups": LLAMAS_OWN
    | OLD
    | family("glm4_moe_lite", "Glm4MoeLiteForCausalLM")
    | LATENT
    | {"q_lora_rank": 12, "attention_bias": True, "n_routed_experts": 8, "n_shared_experts": 2, "n_group": 4, "topk_group": 2,
       "routed_scaling_factor": 1.0, "norm_topk_prob": False, "rope_interleave": False, "tie_word_embeddings": True},
    # Queries grow twice, or four times, within most sequences.
    "mistral4": LLAMAS_OWN
    | family("mistral4", "Mistral4ForCausalLM")
    | LATENT
    | {"q_lora_rank": 14, "qk_nope_head_dim": 8, "qk_rope_head_dim": 8, "v_head_dim": 16, "n_routed_experts": 6, "n_shared_experts": 1,
       "n_group": 1, "topk_group": 1, "routed_scaling_factor": 1.0, "norm_topk_prob": True,
       "rope_parameters": {"rope_type": "yarn", "type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "beta_fast": 32.0, "beta_slow": 1.0,
                           "mscale": 1.0, "mscale_all_dim": 1.0, "llama_4_scaling_beta": 0.3, "original_max_position_embeddings": 16,
                           "max_position_embeddings": 64, "partial_rotary_factor": 0.5}, "max_position_embeddings": 64},
    "mistral4-groups": LLAMAS_OWN
    | family("mistral4", "Mistral4ForCausalLM")
    | LATENT
    | {"q_lora_rank": None, "attention_bias": True, "n_routed_experts": 8, "n_shared_experts": 2, "n_group": 4, "topk_group": 2,
       "routed_scaling_factor": 1.5, "norm_topk_prob": False, "rope_interleave": False, "tie_word_embeddings": True,
       "first_k_dense_replace": 1,
       "rope_parameters": {"rope_type": "yarn", "rope_theta": 20000.0, "factor": 2.0, "llama_4_scaling_beta": 0.5,
                           "original_max_position_embeddings": 9}},
    "granite4-mamba": GRANITE4_MAMBA | {"position_embedding_type": "rope", "tie_word_embeddings": True},
    "granite4-mamba-groups": GRANITE4_MAMBA
    | {"position_embedding_type": "nope", "mamba_n_groups": 2, "mamba_n_heads": 8, "mamba_d_head": 8, "mamba_d_conv": 3, "mamba_conv_bias": False,
       "mamba_proj_bias": True, "layer_types": ["mamba", "mamba", "attention"]},
    "falcon-h1": FALCON_H1,
    "falcon-h1-normed": FALCON_H1
    | {"mamba_rms_norm": True, "mamba_norm_before_gate": False, "mamba_n_groups": 2, "mamba_conv_bias": False, "tie_word_embeddings": True,
       "time_step_limit": [0.5, 1e38], "num_key_value_heads": 4},
    "nemotron-h": NEMOTRON_H,
    "nemotron-h-bias": NEMOTRON_H
    | {"hybrid_override_pattern": "MM*-", "n_groups": 1, "use_bias": True, "mlp_bias": True, "use_conv_bias": False, "time_step_min": 0.4,
       "num_key_value_heads": 1},
    "nemotron-3": NEMOTRON_H
    | {"hybrid_override_pattern": "ME*E", "n_routed_experts": 6, "num_experts_per_tok": 2, "moe_intermediate_size": 24,
       "moe_shared_expert_intermediate_size": 40, "routed_scaling_factor": 2.5, "n_group": 1, "topk_group": 1, "norm_topk_prob": True},
    "nemotron-3-latent": NEMOTRON_H
    | {"hybrid_override_pattern": None, "layers_block_type": ["moe", "attention", "mamba", "moe"], "n_routed_experts": 8, "num_experts_per_tok": 3,
       "moe_intermediate_size": 20, "moe_shared_expert_intermediate_size": 28, "moe_latent_size": 20, "routed_scaling_factor": 1.0, "n_group": 4,
       "topk_group": 2, "norm_topk_prob": False, "mlp_bias": True},
    # Heads of layers that see everything in both spellings.
    "gemma4": GEMMA4
    | {
        "global_head_dim": 16,
        "num_global_key_value_heads": 1,
        "attention_k_eq_v": True,
        "layer_types": ["sliding_attention", "full_attention", "full_attention"],
        "final_logit_softcapping": 8.0,
        "tie_word_embeddings": True,
        "rope_parameters": {
            "full_attention": {"rope_type": "proportional", "partial_rotary_factor": 0.25, "rope_theta": 100000.0},
            "sliding_attention": {"rope_type": "default", "rope_theta": 500.0},
        },
    },
    "gemma4-untied": GEMMA4
    | {
        "num_key_value_heads": 1,
        "attention_bias": True,
        "per_layer_config": {"0": {"head_dim": 20}, "2": {"head_dim": 20}},
        "layer_types": ["full_attention", "sliding_attention", "full_attention"],
        "rope_parameters": {
            "full_attention": {"rope_type": "proportional", "partial_rotary_factor": 0.5, "rope_theta": 10000.0, "factor": 4.0},
            "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
        },
    },
    "gemma4-moe": GEMMA4
    | {
        "rope_parameters": None,
        "global_head_dim": 16,
        "num_global_key_value_heads": 1,
        "attention_k_eq_v": True,
        "layer_types": ["sliding_attention", "full_attention", "full_attention"],
        "tie_word_embeddings": True,
        "enable_moe_block": True,
        "num_experts": 5,
        "top_k_experts": 2,
        "moe_intermediate_size": 24,
    },
    "gemma4-moe-untied": GEMMA4
    | {
        "rope_parameters": None,
        "global_head_dim": 12,
        "layer_types": ["full_attention", "sliding_attention", "full_attention"],
        "final_logit_softcapping": 8.0,
        "enable_moe_block": True,
        "num_experts": 4,
        "top_k_experts": 3,
        "moe_intermediate_size": 40,
    },
    # The last layers attend to keys of the first two.
    "gemma4-shared": GEMMA4
    | {
        "rope_parameters": None,
        "num_hidden_layers": 5,
        "global_head_dim": 16,
        "num_key_value_heads": 1,
        "layer_types": ["sliding_attention", "full_attention", "sliding_attention", "full_attention", "full_attention"],
        "num_kv_shared_layers": 3,
        "use_double_wide_mlp": True,
        "hidden_size_per_layer_input": 20,
        "vocab_size_per_layer_input": 384,
        "final_logit_softcapping": 8.0,
        "tie_word_embeddings": True,
    },
    "gemma4-shared-untied": GEMMA4
    | {
        "rope_parameters": None,
        "num_hidden_layers": 4,
        "global_head_dim": 12,
        "num_global_key_value_heads": 1,
        "attention_k_eq_v": True,
        "layer_types": ["full_attention", "sliding_attention", "sliding_attention", "full_attention"],
        "num_kv_shared_layers": 2,
        "hidden_size_per_layer_input": 24,
        "vocab_size_per_layer_input": 400,
        "pad_token_id": 1,
    },
    "mpt": MPT | {"tie_word_embeddings": True, "attn_config": {"alibi": True, "attn_impl": "torch", "clip_qkv": None, "qk_ln": False}},
    # Six heads have slopes of two kinds; some values reach the bounds.
    "mpt-bounds": MPT
    | {"n_heads": 6, "d_model": 36, "tie_word_embeddings": False, "attn_config": {"alibi": True, "clip_qkv": 3.0, "softmax_scale": 0.5}},
    "granite4-experts": GRANITE4_MAMBA | GRANITE4_EXPERTS | {"position_embedding_type": "nope", "tie_word_embeddings": True},
    "granite4-experts-rope": GRANITE4 | GRANITE4_EXPERTS
    | {"position_embedding_type": "rope", "num_local_experts": 4, "num_experts_per_tok": 1, "shared_intermediate_size": 40, "num_key_value_heads": 4},
    "lfm2": LFM2 | {"block_auto_adjust_ff_dim": False, "tie_word_embeddings": True, "layer_types": ["conv", "full_attention", "conv"]},
    # An older file, whose MLPs have 80 features.
    "lfm2-older": LFM2
    | OLD
    | {"intermediate_size": None, "block_ff_dim": 100, "block_multiple_of": 16, "block_ffn_dim_multiplier": 1.1, "full_attn_idxs": [2], "conv_bias": True,
       "conv_L_cache": 4, "tie_word_embeddings": False, "tie_embedding": False, "num_key_value_heads": 4},
    "lfm2-moe": LFM2_MOE | {"tie_word_embeddings": True},
    "lfm2-moe-scaled": LFM2_MOE
    | {"tie_word_embeddings": False, "num_dense_layers": 0, "num_experts": 4, "num_experts_per_tok": 3, "routed_scaling_factor": 2.5, "norm_topk_prob": False,
       "conv_bias": True, "layer_types": ["full_attention", "conv", "full_attention"]},
    # A linear layer for each matrix of each expert (llama4_apart.py).
    "llama4-apart": LLAMA4 | {"head_dim": 12, "floor_scale": 4, "attn_scale": 0.5},
    "llama4-apart-interleaved": LLAMA4
    | OLD
    | {
        "num_key_value_heads": 1,
        "num_local_experts": 3,
        "interleave_moe_layer_step": 2,
        "use_qk_norm": False,
        "attention_chunk_size": 11,
        "tie_word_embeddings": True,
    },
}


# Seeds of variants whose experts' scores come too close with the seed of their place
# (experts_apart.check_margins), or whose place may change.
SEEDS = {"gpt-oss": 300, "llama4": 310, "llama4-interleaved": 311, "ministral3": 312, "ministral3-window": 313, "gemma4": 314, "gemma4-untied": 315,
         "gemma4-moe": 316, "gemma4-moe-untied": 319, "gemma4-shared": 320, "gemma4-shared-untied": 321} | {
    name: seed for seed, name in enumerate(["qwen3-next", "qwen3-next-mixed", "qwen3-5", "qwen3-5-tied", "qwen3-5-moe", "qwen3-5-moe-balanced"], start=310)} | {
    name: seed for seed, name in enumerate(["granite4-mamba", "granite4-mamba-groups", "falcon-h1", "falcon-h1-normed", "nemotron-h", "nemotron-h-bias", "glm4-lite", "glm4-lite-groups", "nemotron-3", "nemotron-3-latent", "mistral4", "mistral4-groups", "llama4-apart", "llama4-apart-interleaved", "mpt", "mpt-bounds", "granite4-experts", "granite4-experts-rope", "lfm2", "lfm2-older", "lfm2-moe", "lfm2-moe-scaled"], start=330)}
# Families with experts of 2024 to 2026: seeds that do not depend on the place.
SEEDS |= {name: seed for seed, name in enumerate(
    ["glm4-moe", "glm4-moe-groups", "olmoe", "olmoe-balanced", "granitemoe", "granitemoe-balanced", "granitemoe-shared", "granitemoe-shared-tied",
     "ernie-moe", "ernie-moe-sparse", "minimax-m2", "minimax-m2-whole", "dots1", "dots1-window", "hunyuan-moe", "hunyuan-moe-plain",
     "deepseek-moe", "deepseek-moe-tied", "flex-olmo", "flex-olmo-balanced", "deepseek-v32", "glm-5", "deepseek-v32-tied", "glm-5-pattern"], start=400)}
# With the seeds of their places a layer leaves an expert almost without tokens, whose change is
# then that of rounding.
SEEDS |= {"glm4-moe-groups": 430, "dots1-window": 446, "deepseek-v32": 438, "glm4-lite-groups": 545, "mistral4-groups": 353, "granite4-experts-rope": 561, "lfm2-moe-scaled": 354}


# Settings that a config.json states as null: if they are missing they have another value.
NULLS = {"deepseek-v2": ["q_lora_rank"], "mistral4-groups": ["q_lora_rank"], "exaone4": ["sliding_window", "sliding_window_pattern"]}


def write_variants() -> None:
    shutil.rmtree(VARIANTS, ignore_errors=True)
    VARIANTS.mkdir(parents=True)
    base_file = load_file(BASE / "model.safetensors")
    base_json = json.loads((BASE / "config.json").read_text())
    for seed, (name, keys) in enumerate(VARIANT_CONFIGS.items(), start=200):
        merged = {k: v for k, v in (base_json | keys).items() if v is not None}
        merged |= dict.fromkeys(NULLS.get(name, ()))
        with llama4_apart.experts_of(name):
            weights = random_weights(AutoConfig.for_model(**merged), SEEDS.get(name, seed))
        if merged.get("is_encoder_decoder"):  # buffers, and other names of one table
            weights = {n: t for n, t in weights.items() if not n.endswith(("embed_tokens.weight", "final_logits_bias"))}
        if merged["model_type"] == "gpt_neox":  # names of its files, which transformers 5 changes when it reads them
            weights = {n.replace("lm_head.", "embed_out."): t for n, t in weights.items()}
        own_norms = merged["model_type"] in PLUS_ONE
        changed = {
            n: t
            for n, t in weights.items()
            if n not in base_file or base_file[n].shape != t.shape or (own_norms and "norm" in n)
        }
        removed = sorted(set(base_file) - set(weights))
        if merged["tie_word_embeddings"]:
            removed = sorted({*removed, "lm_head.weight"})
            changed.pop("embed_out.weight", None)
        changed = {n: t for n, t in changed.items() if n not in removed}
        recipe = {"config": keys, "remove": removed}
        if name in NULLS:
            recipe["null"] = NULLS[name]
        (VARIANTS / f"{name}.json").write_text(json.dumps(recipe, indent=2) + "\n")
        if changed:
            save_file(changed, VARIANTS / f"{name}.safetensors", metadata={"format": "pt"})


def main() -> None:
    if sys.argv[1:] == ["--variants"]:
        return write_variants()
    shutil.rmtree(BASE, ignore_errors=True)
    model = LlamaForCausalLM(base_config())
    model.load_state_dict(random_weights(base_config(), seed=7))
    model.generation_config = GenerationConfig(bos_token_id=1, eos_token_id=2, pad_token_id=2)
    model.save_pretrained(BASE)
    write_tokenizer_files()
    write_variants()
    print(sum(p.numel() for p in model.parameters()), "parameters")


if __name__ == "__main__":
    sys.exit(main())
