#!/usr/bin/env python3
"""Compares the language model of a class with towers (Gemma 3, Mistral 3, Ministral 3, Qwen-VL,
Qwen3.5) with transformers + peft, in both generations of tensor names and of config.json.

    python tests/parity/check_towers.py build/bin/forge     # needs torch, transformers, peft

For each class and generation: forge continues an adapter of PEFT as PEFT does, and writes it under
PEFT's names; the merged checkpoint has the base's names and the towers' bytes, and computes in
transformers what PEFT does; so does one that was trained whole. Its GGUF computes the same.
"""
import argparse
import copy
import json
import re
import shutil
import sys
import tempfile
from pathlib import Path

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.torch import load_file, save_file
from transformers import (Gemma3Config, Gemma3ForConditionalGeneration, Gemma4Config, Gemma4ForConditionalGeneration, Gemma4UnifiedConfig,
                          Gemma4UnifiedForConditionalGeneration, Glm4vConfig, Glm4vForConditionalGeneration, Idefics3Config,
                          Idefics3ForConditionalGeneration, InternVLConfig, InternVLForConditionalGeneration, Lfm2VlConfig, Lfm2VlForConditionalGeneration, Llama4Config,
                          Llama4ForConditionalGeneration, LlavaConfig, LlavaForConditionalGeneration, Mistral3Config,
                          Mistral3ForConditionalGeneration, PaddleOCRVLConfig, PaddleOCRVLForConditionalGeneration, Qwen2_5_VLConfig, Qwen2_5_VLForConditionalGeneration, Qwen2VLConfig, Qwen2VLForConditionalGeneration, Qwen3_5Config,
                          Qwen3_5ForConditionalGeneration, Qwen3_5MoeConfig, Qwen3_5MoeForConditionalGeneration, Qwen3VLConfig,
                          Qwen3VLForConditionalGeneration, Qwen3VLMoeConfig, Qwen3VLMoeForConditionalGeneration, SmolVLMConfig,
                          SmolVLMForConditionalGeneration, VoxtralConfig, VoxtralForConditionalGeneration)

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests/parity"), str(ROOT / "tests/fixtures")]
import cases  # noqa: E402
import forge_run  # noqa: E402
import llama4_apart  # noqa: E402
import oracle  # noqa: E402
from tally import Tally  # noqa: E402

GOLDENS = ROOT / "tests/parity/goldens"
STEPS = 3
TEXT = {"vocab_size": 384, "hidden_size": 32, "intermediate_size": 88, "num_hidden_layers": 4, "max_position_embeddings": 256,
        "bos_token_id": 1, "eos_token_id": 2}
TOWER = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "image_size": 28, "patch_size": 14}
GEMMA = TEXT | {"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 12, "query_pre_attn_scalar": 10, "sliding_window": 8,
                "sliding_window_pattern": 2, "rope_scaling": {"rope_type": "linear", "factor": 8.0}}
MISTRAL = TEXT | {"model_type": "mistral", "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8, "sliding_window": None}
GEMMA_OUTSIDE = {"image_token_index": 400, "mm_tokens_per_image": 4, "vision_config": TOWER | {"model_type": "siglip_vision_model"}}
MISTRAL_OUTSIDE = {"image_token_index": 383, "vision_config": TOWER | {"model_type": "pixtral", "head_dim": 8}}
MINISTRAL = TEXT | {"model_type": "ministral3", "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 12,
                    "rope_parameters": {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "mscale": 1.0, "mscale_all_dim": 1.0,
                                        "beta_fast": 32.0, "beta_slow": 1.0, "llama_4_scaling_beta": 0.3,
                                        "original_max_position_embeddings": 16}}
MISTRAL4 = TEXT | {"model_type": "mistral4", "num_attention_heads": 4, "num_key_value_heads": 4, "q_lora_rank": 20, "kv_lora_rank": 16,
                   "qk_rope_head_dim": 4, "qk_nope_head_dim": 8, "v_head_dim": 10, "n_routed_experts": 5, "n_shared_experts": 1,
                   "num_experts_per_tok": 2, "moe_intermediate_size": 24, "first_k_dense_replace": 1, "n_group": 1, "topk_group": 1,
                   "rope_parameters": MINISTRAL["rope_parameters"] | {"partial_rotary_factor": 4 / 12}}
QWEN = TEXT | {"num_attention_heads": 4, "num_key_value_heads": 2, "rope_theta": 20000.0}
QWEN2 = QWEN | {"rope_scaling": {"type": "mrope", "mrope_section": [2, 1, 1]}, "max_window_layers": 4, "use_sliding_window": False}
QWEN2_WINDOW = QWEN | {"rope_scaling": {"type": "default", "rope_type": "default", "mrope_section": [1, 1, 2]}, "max_window_layers": 1,
                       "use_sliding_window": True, "sliding_window": 8}
QWEN3 = QWEN | {"head_dim": 12, "rope_scaling": {"rope_type": "default", "mrope_section": [2, 2, 2], "mrope_interleaved": True}}
QWEN3_MOE = QWEN3 | {"num_experts": 5, "num_experts_per_tok": 2, "moe_intermediate_size": 24}
QWEN2_TOWER = {"depth": 1, "embed_dim": 16, "hidden_size": 32, "num_heads": 2, "mlp_ratio": 2}
QWEN25_TOWER = {"depth": 1, "hidden_size": 16, "intermediate_size": 32, "num_heads": 2, "out_hidden_size": 32, "fullatt_block_indexes": [0]}
QWEN3_TOWER = {"depth": 1, "hidden_size": 16, "intermediate_size": 32, "num_heads": 2, "out_hidden_size": 32, "num_position_embeddings": 16,
               "deepstack_visual_indexes": [0]}
LFM2 = TEXT | {"model_type": "lfm2", "num_attention_heads": 4, "num_key_value_heads": 2, "block_auto_adjust_ff_dim": False, "pad_token_id": 0,
               "layer_types": ["conv", "full_attention", "conv", "conv"]}
LFM2_OUTSIDE = {"image_token_id": 380, "projector_hidden_size": 16, "downsample_factor": 2,
                "vision_config": {"model_type": "siglip2_vision_model", "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1,
                                  "num_attention_heads": 2, "num_patches": 16, "patch_size": 14}}
PADDLE = TEXT | {"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 12, "pad_token_id": 0,
                "rope_parameters": {"rope_type": "default", "rope_theta": 20000.0, "mrope_section": [2, 2, 2]}}
PADDLE_OUTSIDE = {"image_token_id": 380, "video_token_id": 381, "vision_start_token_id": 382, "vision_end_token_id": 383,
                  "vision_config": {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "image_size": 28}}
# A delta rule in layers 0 and 2.
DELTA = TEXT | {"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "linear_num_key_heads": 2, "linear_num_value_heads": 4,
                "linear_key_head_dim": 12, "linear_value_head_dim": 10, "linear_conv_kernel_dim": 4, "full_attention_interval": 2,
                "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.25, "mrope_section": [1, 1, 0],
                                    "mrope_interleaved": True}}
DELTA_MOE = DELTA | {"num_experts": 5, "num_experts_per_tok": 2, "moe_intermediate_size": 24, "shared_expert_intermediate_size": 40}
DELTA_TOWER = {"depth": 1, "hidden_size": 16, "intermediate_size": 32, "num_heads": 2, "out_hidden_size": 32, "num_position_embeddings": 16}
LLAMA = TEXT | {"model_type": "llama", "num_attention_heads": 4, "num_key_value_heads": 2, "rope_theta": 20000.0, "pad_token_id": 2}
LLAMA4 = TEXT | {"intermediate_size": 24, "intermediate_size_mlp": 88, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 12,
                 "num_local_experts": 5, "attention_chunk_size": 8, "no_rope_layer_interval": 2, "interleave_moe_layer_step": 2, "floor_scale": 4,
                 "attn_scale": 0.5, "rope_theta": 20000.0}
LLAMA4_TOWER = {"hidden_size": 16, "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 2, "image_size": 28, "patch_size": 14,
                "vision_output_dim": 16, "projector_input_dim": 16, "projector_output_dim": 16}
GLM4V = TEXT | {"num_attention_heads": 4, "num_key_value_heads": 2, "pad_token_id": 2,
                "rope_parameters": {"rope_type": "default", "rope_theta": 20000.0, "partial_rotary_factor": 0.5, "mrope_section": [1, 1, 0]}}
GLM4V_TOWER = {"depth": 1, "hidden_size": 16, "intermediate_size": 32, "num_heads": 2, "out_hidden_size": 32, "image_size": 28}
EAR = {"hidden_size": 16, "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 2, "num_mel_bins": 8, "max_source_positions": 8}
INTERN = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "image_size": [28, 28], "patch_size": [14, 14]}
GLM_SEEN = {"image_token_id": 380, "video_token_id": 381, "image_start_token_id": 376, "image_end_token_id": 377,
            "video_start_token_id": 378, "video_end_token_id": 379}
GEMMA4 = TEXT | {"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 12, "global_head_dim": 16, "num_global_key_value_heads": 1,
                 "attention_k_eq_v": True, "sliding_window": 8, "final_logit_softcapping": 8.0, "hidden_size_per_layer_input": 0,
                 "layer_types": ["sliding_attention", "full_attention"] * 2}
UNIFIED = {key: value for key, value in GEMMA4.items() if key != "hidden_size_per_layer_input"}
GEMMA4_TOWER = TOWER | {"num_key_value_heads": 2, "head_dim": 8, "position_embedding_size": 8}
GEMMA4_SEEN = {"image_token_id": 400, "video_token_id": 401, "audio_token_id": 402}
SEEN = {"image_token_id": 380, "video_token_id": 381, "vision_start_token_id": 378, "vision_end_token_id": 379}


def qwen(text: dict, tower: dict, tied: bool = False) -> dict:
    return {"text_config": text, "vision_config": tower, "tie_word_embeddings": tied} | SEEN


CLASSES = {
    "gemma3": (Gemma3ForConditionalGeneration, Gemma3Config, {"text_config": GEMMA, **GEMMA_OUTSIDE}),
    "gemma3-untied": (Gemma3ForConditionalGeneration, Gemma3Config, {"text_config": GEMMA, "tie_word_embeddings": False, **GEMMA_OUTSIDE}),
    "mistral3": (Mistral3ForConditionalGeneration, Mistral3Config, {"text_config": MISTRAL, "tie_word_embeddings": False, **MISTRAL_OUTSIDE}),
    "mistral3-tied": (Mistral3ForConditionalGeneration, Mistral3Config, {"text_config": MISTRAL, **MISTRAL_OUTSIDE}),
    "mistral4": (Mistral3ForConditionalGeneration, Mistral3Config, {"text_config": MISTRAL4, "tie_word_embeddings": False, **MISTRAL_OUTSIDE}),
    "ministral3": (Mistral3ForConditionalGeneration, Mistral3Config, {"text_config": MINISTRAL, "tie_word_embeddings": False, **MISTRAL_OUTSIDE}),
    "ministral3-tied": (Mistral3ForConditionalGeneration, Mistral3Config, {"text_config": MINISTRAL, **MISTRAL_OUTSIDE}),
    "qwen2-vl": (Qwen2VLForConditionalGeneration, Qwen2VLConfig, qwen(QWEN2, QWEN2_TOWER)),
    "qwen2-vl-tied": (Qwen2VLForConditionalGeneration, Qwen2VLConfig, qwen(QWEN2_WINDOW, QWEN2_TOWER, True)),
    "qwen2.5-vl": (Qwen2_5_VLForConditionalGeneration, Qwen2_5_VLConfig, qwen(QWEN2_WINDOW, QWEN25_TOWER)),
    "qwen2.5-vl-tied": (Qwen2_5_VLForConditionalGeneration, Qwen2_5_VLConfig, qwen(QWEN2, QWEN25_TOWER, True)),
    "qwen3-vl": (Qwen3VLForConditionalGeneration, Qwen3VLConfig, qwen(QWEN3, QWEN3_TOWER)),
    "qwen3-vl-tied": (Qwen3VLForConditionalGeneration, Qwen3VLConfig, qwen(QWEN3 | {"attention_bias": True}, QWEN3_TOWER, True)),
    "llama4-apart": (Llama4ForConditionalGeneration, Llama4Config, {"text_config": LLAMA4, "vision_config": LLAMA4_TOWER, "image_token_index": 380}),
    "llama4": (Llama4ForConditionalGeneration, Llama4Config, {"text_config": LLAMA4, "vision_config": LLAMA4_TOWER, "image_token_index": 380}),
    "llava": (LlavaForConditionalGeneration, LlavaConfig,
              {"text_config": LLAMA, "vision_config": TOWER | {"model_type": "clip_vision_model"}, "image_token_index": 380}),
    "llava-mistral-tied": (LlavaForConditionalGeneration, LlavaConfig,
                           {"text_config": MISTRAL, "vision_config": TOWER | {"model_type": "pixtral", "head_dim": 8}, "image_token_index": 380,
                            "tie_word_embeddings": True}),
    "voxtral": (VoxtralForConditionalGeneration, VoxtralConfig, {"text_config": LLAMA | {"head_dim": 12}, "audio_config": EAR, "audio_token_id": 24}),
    "glm4v": (Glm4vForConditionalGeneration, Glm4vConfig, {"text_config": GLM4V, "vision_config": GLM4V_TOWER} | GLM_SEEN),
    "glm4v-tied": (Glm4vForConditionalGeneration, Glm4vConfig,
                   {"text_config": GLM4V | {"num_key_value_heads": 4}, "vision_config": GLM4V_TOWER, "tie_word_embeddings": True} | GLM_SEEN),
    "gemma4": (Gemma4ForConditionalGeneration, Gemma4Config,
               {"text_config": GEMMA4, "vision_config": GEMMA4_TOWER, "tie_word_embeddings": True} | GEMMA4_SEEN),
    "gemma4-moe": (Gemma4ForConditionalGeneration, Gemma4Config,
                   {"text_config": GEMMA4 | {"enable_moe_block": True, "num_experts": 5, "top_k_experts": 2, "moe_intermediate_size": 24},
                    "vision_config": GEMMA4_TOWER, "tie_word_embeddings": True} | GEMMA4_SEEN),
    "gemma4-shared": (Gemma4ForConditionalGeneration, Gemma4Config,
                      {"text_config": GEMMA4 | {"num_kv_shared_layers": 2, "hidden_size_per_layer_input": 24, "vocab_size_per_layer_input": 384,
                                                "attention_k_eq_v": False, "use_double_wide_mlp": True},
                       "vision_config": GEMMA4_TOWER, "tie_word_embeddings": True} | GEMMA4_SEEN),
    "gemma4-unified": (Gemma4UnifiedForConditionalGeneration, Gemma4UnifiedConfig,
                       {"text_config": UNIFIED, "vision_config": {"patch_size": 2, "mm_embed_dim": 16, "mm_posemb_size": 8, "output_proj_dims": 32},
                        "tie_word_embeddings": True} | GEMMA4_SEEN),
    "lfm2-vl": (Lfm2VlForConditionalGeneration, Lfm2VlConfig, {"text_config": LFM2} | LFM2_OUTSIDE),
    "lfm2-vl-untied": (Lfm2VlForConditionalGeneration, Lfm2VlConfig,
                       {"text_config": LFM2 | {"conv_bias": True, "tie_word_embeddings": False}, "tie_word_embeddings": False} | LFM2_OUTSIDE),
    "paddleocr": (PaddleOCRVLForConditionalGeneration, PaddleOCRVLConfig,
                  {"text_config": PADDLE | {"use_bias": True, "tie_word_embeddings": False}, "tie_word_embeddings": False} | PADDLE_OUTSIDE),
    "paddleocr-tied": (PaddleOCRVLForConditionalGeneration, PaddleOCRVLConfig, {"text_config": PADDLE | {"num_key_value_heads": 1}} | PADDLE_OUTSIDE),
    "smolvlm": (SmolVLMForConditionalGeneration, SmolVLMConfig, {"text_config": LLAMA, "vision_config": TOWER, "image_token_id": 380}),
    "idefics3-tied": (Idefics3ForConditionalGeneration, Idefics3Config,
                      {"text_config": LLAMA, "vision_config": TOWER, "image_token_id": 380, "tie_word_embeddings": True}),
    "internvl": (InternVLForConditionalGeneration, InternVLConfig,
                 {"text_config": QWEN | {"model_type": "qwen2"}, "vision_config": INTERN, "image_token_id": 380, "tie_word_embeddings": False}),
    "internvl-qwen3": (InternVLForConditionalGeneration, InternVLConfig,
                       {"text_config": QWEN | {"model_type": "qwen3", "head_dim": 12}, "vision_config": INTERN, "image_token_id": 380}),
    "qwen3-vl-moe": (Qwen3VLMoeForConditionalGeneration, Qwen3VLMoeConfig, qwen(QWEN3_MOE, QWEN3_TOWER)),
    "qwen3-vl-moe-tied": (Qwen3VLMoeForConditionalGeneration, Qwen3VLMoeConfig,
                          qwen(QWEN3_MOE | {"num_experts_per_tok": 3, "decoder_sparse_step": 2, "mlp_only_layers": [3]}, QWEN3_TOWER, True)),
    "qwen3.5": (Qwen3_5ForConditionalGeneration, Qwen3_5Config, qwen(DELTA, DELTA_TOWER)),
    "qwen3.5-tied": (Qwen3_5ForConditionalGeneration, Qwen3_5Config, qwen(DELTA | {"attention_bias": True}, DELTA_TOWER, True)),
}
# Models that a GGUF can express: without windows, and without biases of attention's output.
GGUFS = ("paddleocr", "paddleocr-tied", "glm4v", "glm4v-tied", "ministral3", "ministral3-tied", "qwen2-vl", "qwen2.5-vl-tied", "qwen3-vl", "qwen3-vl-moe", "smolvlm", "llava", "llava-mistral-tied", "voxtral", "internvl", "internvl-qwen3")
OLDER = {"model.language_model.": "model.", "model.visual.": "visual.", "model.projector.": "mlp_AR."}
FLAT = ("qwen2", "paddleocr")  # whose older files have these names, and no text_config
NAMES = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj", "in_proj_qkv", "in_proj_z", "in_proj_a", "in_proj_b", "out_proj",
         "in_proj", "w1", "w2", "w3", "gate_projs.0", "up_projs.1", "down_projs.1", "q_a_proj", "q_b_proj", "kv_a_proj_with_mqa", "kv_b_proj"]
TOWERS = r"(model\.)?(vision_tower|audio_tower|multi_modal_projector|projector|visual|vision_model|connector|embed_vision)\..*"


def generations(kind: str) -> list[str]:
    """Returns the generations of names: Qwen3-VL, Llama 4, Gemma 4, Idefics 3 and GLM-V have had one. "twice": transformers
    5 writes Voxtral's files with another "model." in their names.
    """
    if kind == "voxtral":
        return ["older", "current", "twice"]
    return ["current"] if kind.startswith(("qwen3", "llama4", "smolvlm", "idefics3", "glm4v", "gemma4", "lfm2")) else ["older", "current"]


def of_tower(name: str) -> bool:
    return re.match("(model\\.)?(vision_tower|audio_tower|multi_modal_projector|projector|mlp_AR|visual|vision_model|connector|embed_vision)\\.", name) is not None


def older_name(name: str) -> str:
    """Returns the name of a Qwen2-VL's tensor until transformers 4.51, or of PaddleOCR-VL's as published."""
    for current, older in OLDER.items():
        if name.startswith(current):
            return older + name.removeprefix(current)
    return name


def as_published(kind: str, generation: str, config: dict) -> dict:
    """Returns config.json in the form of the generation's files."""
    if kind == "mistral3":  # nothing says that head and embedding are one, or that they are not
        for place in (config, config["text_config"]):
            place.pop("tie_word_embeddings", None)
    if kind.startswith("ministral3") and generation == "current":
        config["model_type"] = "ministral3"
    if kind.startswith(FLAT) and generation == "older":  # with the rope settings of transformers 4
        text = config.pop("text_config")
        rope = text.pop("rope_parameters")
        config |= {key: value for key, value in text.items() if key not in ("model_type", "dtype", "layer_types", "tie_word_embeddings")}
        turns = {"type": "mrope"} if kind.startswith("qwen2") else {"type": "default", "rope_type": "default"}
        config |= {"rope_theta": rope.pop("rope_theta"), "rope_scaling": turns | {"mrope_section": rope["mrope_section"]}}
    return config


def write_base(kind: str, generation: str, folder: Path) -> type:
    """Writes a checkpoint of random weights with `generation`'s names; returns its class."""
    model_class, config_class, settings = CLASSES[kind]
    torch.manual_seed(11)
    model = model_class(config_class(**copy.deepcopy(settings)))
    with torch.no_grad():
        for name, tensor in model.named_parameters():
            if tensor.dim() > 1:
                tensor.normal_(0, 1.0 if "embed_tokens" in name else 1.2 / tensor.shape[-1] ** 0.5)
            elif name.endswith("A_log"):  # decays from a third to almost none of a state, whose sums fp32 holds
                tensor.normal_(-1, 0.5)
            else:
                tensor.add_(0.1 * torch.randn_like(tensor))
        for name, tensor in model.named_buffers():
            if name.endswith("layer_scalar"):
                tensor.fill_(0.8)
    model.save_pretrained(folder)
    tied = getattr(model.config, "tie_word_embeddings", False)
    state = {name: tensor.clone() for name, tensor in model.state_dict().items() if not (tied and name == "lm_head.weight")}
    if kind.startswith(FLAT) and generation == "older":
        state = {older_name(name): tensor for name, tensor in state.items()}
    if kind == "voxtral" and generation == "older":  # as published
        state = {re.sub(r"^model\.language_model\.", "language_model.model.", re.sub(r"^lm_head", "language_model.lm_head", name)): tensor
                 for name, tensor in state.items()}
    if generation == "current" or kind.startswith((*FLAT, "voxtral")) and generation != "twice":
        turned = kind != "mistral4"  # in both generations as the class has them
        state = {name: tensor.transpose(1, 2).contiguous() if turned and ".mlp.experts." in name else tensor for name, tensor in state.items()}
        save_file(state, folder / "model.safetensors", {"format": "pt"})
    names = list(load_file(folder / "model.safetensors"))
    older = "language_model.model.model." if generation == "twice" else "model.layers." if kind.startswith(FLAT) else "language_model.model."
    current = ("model.language_model.", "model.text_model.", "language_model.model.")
    assert any(name.startswith(current if generation == "current" else older) for name in names), names
    config = as_published(kind, generation, json.loads((folder / "config.json").read_text()))
    (folder / "config.json").write_text(json.dumps(config))
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copyfile(ROOT / "tests/fixtures/tiny-llama" / name, folder / name)
    (folder / "preprocessor_config.json").write_text('{"image_processor_type": "SiglipImageProcessor"}')
    return model_class


@torch.no_grad()
def logits(model, rows) -> torch.Tensor:
    model.eval()
    return torch.cat([model(input_ids=torch.tensor([row["input_ids"]])).logits[0] for row in rows[:4]])


def relative(got: torch.Tensor, want: torch.Tensor) -> float:
    return float((got - want).abs().max() / want.abs().max())


def job_of(name: str, base: Path, settings, root: Path, adapter: dict) -> dict:
    case = cases.Case(name, settings, lora={"r": 1, "lora_alpha": 1, "target_modules": ""}, init_from=False)
    return cases.job(case, name, base, GOLDENS, root / "runs") | {"adapter": adapter}


def check_adapter(name: str, load, base: Path, root: Path, rows, forge: str, tally: Tally) -> None:
    torch.manual_seed(7)
    model = get_peft_model(load(base), LoraConfig(task_type="CAUSAL_LM", r=4, lora_alpha=8, target_modules=NAMES, exclude_modules=TOWERS))
    with torch.no_grad():
        for key, tensor in model.named_parameters():
            if "lora_B" in key:
                tensor.normal_(0, 0.05)
    model.save_pretrained(root / f"{name}-start")
    settings = cases.Settings(5e-3, STEPS, eps=1e-4)
    record = oracle.train(model, [rows[i:i + 8] for i in range(0, 8 * STEPS, 8)], settings)
    run = forge_run.run_job(forge, job_of(name, base, settings, root, {"type": "lora", "init_from": str(root / f"{name}-start")}), root)
    losses = max(abs(a - b) / b for a, b in zip(run.losses, record.losses, strict=True))
    tally.check(f"{name} losses", losses < 1e-5, f"{losses:.1e}")
    theirs = {key: tuple(tensor.shape) for key, tensor in load_file(root / f"{name}-start/adapter_model.safetensors").items()}
    ours = {key: tuple(tensor.shape) for key, tensor in load_file(run.folder / "adapter/adapter_model.safetensors").items()}
    tally.check(f"{name} adapter names", ours == theirs, f"{len(ours)} of {len(theirs)}, {sorted(set(ours) ^ set(theirs))[:2]}")
    loaded = PeftModel.from_pretrained(load(base), run.folder / "adapter")
    adapted = {key for key, _ in loaded.named_modules() if key.endswith("lora_A.default")}
    tally.check(f"{name} adapts no tower", all(".language_model." in key or ".text_model." in key for key in adapted), f"{len(adapted)} layers")
    want = logits(model, rows)
    tally.check(f"{name} in PEFT", relative(logits(loaded, rows), want) < 1e-4, f"{relative(logits(loaded, rows), want):.1e}")
    check_merged(name, load, base, run.folder, want, rows, forge, tally)


def tensors_of(folder: Path) -> dict:
    return {key: tensor for path in sorted(folder.glob("*.safetensors")) for key, tensor in load_file(path).items()}


def check_whole(name: str, folder: Path, base: Path, load, want, rows, tally: Tally) -> None:
    """Checks that the folder holds all of the base, under its names, with the towers' bytes, and
    computes `want`.
    """
    before, after = tensors_of(base), tensors_of(folder)
    towers = [key for key in before if of_tower(key)]
    same = all(torch.equal(before[key], after[key]) for key in towers if key in after)
    tally.check(f"{name} tensors", set(before) == set(after) and same, f"{len(after)}, {len(towers)} of towers, {sorted(set(before) ^ set(after))[:2]}")
    got = logits(load(folder), rows)
    tally.check(f"{name} in transformers", relative(got, want) < 1e-4, f"{relative(got, want):.1e}")
    tally.check(f"{name} processor", (folder / "preprocessor_config.json").exists(), "")


def check_merged(name: str, load, base: Path, run: Path, want, rows, forge: str, tally: Tally) -> None:
    forge_run.call(forge, "merge", run, "--dtype", "fp32", "--max-shard-size", "0.0001")
    check_whole(f"{name} merged", run / "merged", base, load, want, rows, tally)
    if name.rsplit("-", 1)[0] in GGUFS:
        check_gguf(name, run, forge, tally)


def check_gguf(name: str, run: Path, forge: str, tally: Tally) -> None:
    """Compares the losses of the language model's GGUF with those of the merged checkpoint."""
    forge_run.call(forge, "export", run, "--gguf", "--type", "f32", "--output", run / "gguf", "--no-check")
    (file,) = (run / "gguf").glob("*.gguf")
    rows, losses = GOLDENS / "tiny-batches.jsonl", []
    for model in (file, run / "merged"):
        found = forge_run.per_example(forge, model, None, rows, run / f"{model.suffix or 'folder'}.jsonl")
        losses.append([row["loss"] for row in found])
    worst = forge_run.relative_error(*losses)
    tally.check(f"{name} GGUF", worst < 1e-5, f"{worst:.1e} of {len(losses[0])} rows")


def check_full(name: str, load, base: Path, root: Path, rows, forge: str, tally: Tally) -> None:
    model = load(base)
    for key, tensor in model.named_parameters():
        tensor.requires_grad_(not of_tower(key))
    settings = cases.Settings(1e-3, STEPS, eps=1e-4)
    record = oracle.train(model, [rows[i:i + 8] for i in range(0, 8 * STEPS, 8)], settings)
    run = forge_run.run_job(forge, job_of(f"{name}-full", base, settings, root, {"type": "none"}), root)
    losses = max(abs(a - b) / b for a, b in zip(run.losses, record.losses, strict=True))
    tally.check(f"{name} full losses", losses < 1e-5, f"{losses:.1e}")
    check_whole(f"{name} full", run.folder / "model", base, load, logits(model, rows), rows, tally)


def check_kind(kind: str, generation: str, root: Path, rows, forge: str, tally: Tally) -> None:
    root.mkdir()
    model_class = write_base(kind, generation, root / "base")
    load = lambda path: model_class.from_pretrained(path, dtype=torch.float32, attn_implementation="eager")  # noqa: E731
    check_adapter(f"{kind}-{generation}", load, root / "base", root, rows, forge, tally)
    check_full(f"{kind}-{generation}", load, root / "base", root, rows, forge, tally)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("forge")
    parser.add_argument("--only", default="")
    arguments = parser.parse_args()
    forge = str(Path(arguments.forge).resolve())
    rows = oracle.read_rows(GOLDENS / "tiny-batches.jsonl")
    tally = Tally()
    with tempfile.TemporaryDirectory(prefix="forge-towers-") as folder:
        for kind in CLASSES:
            for generation in generations(kind):
                name = f"{kind}-{generation}"
                if arguments.only not in name:
                    continue
                with llama4_apart.experts_of(kind):
                    check_kind(kind, generation, Path(folder) / name, rows, forge, tally)
    tally.end()


if __name__ == "__main__":
    main()
