"""The training runs of the tiny model whose numbers are goldens, as settings of the oracle and as
job files of forge.

Standard library only: make_model_goldens.py trains each case with transformers + peft,
check_tiny.py with forge.
"""
from dataclasses import dataclass, field
from pathlib import Path

JOINED = ["mlp.experts.gate_up_proj", "mlp.experts.down_proj"]  # gpt-oss's experts, one tensor for all of a layer
GRANITES = ["block_sparse_moe.experts.gate_up_proj", "block_sparse_moe.experts.down_proj"]
GEMMA4_JOINED = ["experts.gate_up_proj", "experts.down_proj"]
ALL_LINEAR = {"r": 4, "lora_alpha": 8, "lora_dropout": 0.0, "target_modules": "all-linear"}


@dataclass
class Settings:
    """Training settings of a run."""

    learning_rate: float
    steps: int
    weight_decay: float = 0.01
    eps: float = 1e-8
    max_grad_norm: float = 1.0  # 0: no clipping
    optimizer: str = "adamw"  # adamw | sgd | lora_plus
    momentum: float = 0.0
    lora_plus_ratio: float = 1.0
    schedule: str = "linear"  # a name of transformers.get_scheduler
    warmup_steps: int = 0


@dataclass
class Case:
    name: str
    settings: Settings
    variant: str = "base"
    lora: dict | None = None  # PEFT's LoraConfig
    adapter: dict = field(default_factory=dict)  # forge's adapter section, without rank, alpha and init_from
    seed: int = 3
    random_b: bool = True
    init_from: bool = True  # forge starts from the adapter that PEFT wrote
    compare_effective: bool = False  # compare base + s B A instead of A and B
    keep_gradients: bool = False
    stride: int = 1
    worst: float = 1e-3  # tolerance of the largest change of a tensor
    cuts: bool = False  # True if the run is also cut into micro-batches, packed and recomputed
    recomputed: bool = False  # True if the run is also recomputed but not cut: the loss is not a sum over tokens
    pairs: bool = False  # True for an encoder-decoder: rows are a source and an answer
    still: str = ""  # suffix of tensors whose gradient is zero up to rounding: adding one vector to all keys of a text changes nothing

    @property
    def rows(self) -> str:
        return "tiny-sources.jsonl" if self.pairs else "tiny-batches.jsonl"


def lora_case(name: str, lora: dict, adapter: dict | None = None, **more) -> Case:
    settings = more.pop("settings", None) or Settings(5e-3, 3)
    return Case(name, settings, lora=ALL_LINEAR | lora, adapter=adapter or {}, **more)


def family_cases(variant: str, rate: float = 1.0, **more) -> list[Case]:
    """Returns cases of every gradient, as one step of SGD that subtracts it times the rate, and ten
    steps of LoRA.
    """
    once = Settings(rate, 1, weight_decay=0.0, max_grad_norm=0.0, optimizer="sgd", schedule="constant")
    return [
        Case(f"gradients-{variant}", once, variant=variant, stride=more.pop("stride", 7), worst=1e-4, pairs=more.get("pairs", False),
             still=more.pop("still", "")),
        lora_case(f"lora-{variant}", {}, variant=variant, settings=Settings(5e-3, 10, eps=1e-4), worst=1e-4, **more),
    ]


LLAMA4_LINEAR = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]


def llama4_cases(variant: str, **more) -> list[Case]:
    """Returns the cases of a family, without its router: transformers calls that a linear layer,
    and PEFT cannot wrap it, since it returns two values.
    """
    linear = {"target_modules": LLAMA4_LINEAR}
    settings = Settings(5e-3, 10, eps=1e-4)
    return [
        family_cases(variant)[0],
        lora_case(f"lora-{variant}", linear, linear, variant=variant, settings=settings, worst=1e-4, **more),
    ]


def single_expert_cases() -> list[Case]:
    """Returns the cases of Llama 4 with a linear layer for each matrix of each expert: adapters of
    some experts by their names, and of all by an expression.
    """
    named = {"target_modules": ["q_proj", "shared_expert.down_proj", "gate_projs.0", "gate_projs.3", "up_projs.1", "down_projs.3"]}
    matched = {"target_modules": r".*\.(v_proj|experts\.(gate|up|down)_projs\.[0-9]+)"}
    settings = Settings(5e-3, 10, eps=1e-4)
    return [case for variant, target in (("llama4-apart", named), ("llama4-apart-interleaved", matched))
            for case in (family_cases(variant)[0],
                         lora_case(f"lora-{variant}", target, target, variant=variant, settings=settings, worst=1e-4))]


def vocabulary_case(name: str, settings: dict, variant: str = "base") -> Case:
    """Returns ten steps of an adapter that changes the embedding or the head; `settings` are PEFT's
    and forge's.
    """
    return lora_case(name, settings, settings, variant=variant, settings=Settings(5e-3, 10, eps=1e-4), stride=3)


TOKENS = [2, 5, 17, 100, 383]


CASES = [
    Case("full", Settings(1e-3, 20), keep_gradients=True, cuts=True),
    Case("full-tied", Settings(1e-3, 3), variant="tied", stride=7),
    # eps 1e-4: with a smaller one a single weight whose first gradient is rounding decides the
    # worst tensor alone, and the processor decides which one.
    Case("full-bias", Settings(1e-3, 3, eps=1e-4), variant="bias", stride=7),
    Case("full-head-dim", Settings(1e-3, 3), variant="head-dim", stride=7),
    Case("full-rope-llama3", Settings(1e-3, 3), variant="rope-llama3", stride=7),
    Case("full-pad", Settings(1e-3, 3), variant="pad", stride=7),
    Case("full-pad-tied", Settings(1e-3, 3), variant="pad-tied", stride=7),
    Case("full-sgd", Settings(5e-2, 3, optimizer="sgd", momentum=0.9, schedule="constant"), stride=7),
    Case("full-cosine", Settings(1e-3, 6, schedule="cosine", warmup_steps=2, max_grad_norm=0.0), stride=7),
    lora_case("lora", {}, random_b=False, settings=Settings(5e-3, 20), cuts=True),
    lora_case("rslora", {"use_rslora": True}, {"use_rslora": True}),
    lora_case("dora", {"use_dora": True}, {"use_dora": True}),
    lora_case("pissa", {"init_lora_weights": "pissa"}, {"init": "pissa"}, random_b=False, init_from=False,
              compare_effective=True, stride=7),
    lora_case("olora", {"init_lora_weights": "olora"}, {"init": "olora"}, random_b=False, init_from=False,
              compare_effective=True, stride=7),
    lora_case(
        "patterns",
        {"rank_pattern": {"q_proj": 2, "layers.1.mlp.down_proj": 6}, "alpha_pattern": {"q_proj": 3, "o_proj": 16}},
        {"rank_pattern": {"q_proj": 2, "layers.1.mlp.down_proj": 6}, "alpha_pattern": {"q_proj": 3, "o_proj": 16}},
    ),
    lora_case("lm-head", {"modules_to_save": ["lm_head"]}, {"modules_to_save": ["lm_head"]}),
    # eps 1e-4 as above: a whole embedding has first gradients that are rounding.
    lora_case("embedding-pad", {"modules_to_save": ["embed_tokens"]}, {"modules_to_save": ["embed_tokens"]},
              variant="pad", stride=7, settings=Settings(5e-3, 3, eps=1e-4)),
    lora_case("embedding-pad-tied", {"modules_to_save": ["embed_tokens"]}, {"modules_to_save": ["embed_tokens"]},
              variant="pad-tied", stride=7, settings=Settings(5e-3, 3, eps=1e-4)),
    lora_case("layers", {"target_modules": ["q_proj", "v_proj"], "layers_to_transform": [0, 2]},
              {"target_modules": ["q_proj", "v_proj"], "layers_to_transform": [0, 2]}),
    lora_case("regex", {"target_modules": r".*\.(q|down)_proj"}, {"target_modules": r".*\.(q|down)_proj"}),
    lora_case("lora-plus", {}, {"lora_plus_ratio": 4.0},
              settings=Settings(2e-3, 3, optimizer="lora_plus", lora_plus_ratio=4.0)),
    vocabulary_case("token-rows", {"trainable_token_indices": TOKENS}),
    vocabulary_case("token-rows-tied", {"trainable_token_indices": TOKENS}, "tied"),
    vocabulary_case("token-rows-both", {"trainable_token_indices": {"embed_tokens": TOKENS, "lm_head": [1, 5, 6]}}),
    vocabulary_case("embedding-factors", {"target_modules": ["q_proj", "embed_tokens"]}),
    vocabulary_case("head-factors", {"target_modules": ["q_proj", "lm_head"], "rank_pattern": {"lm_head": 3}, "use_rslora": True}),
    vocabulary_case("both-factors-tied", {"target_modules": ["embed_tokens", "lm_head", "v_proj"]}, "tied"),
    vocabulary_case("lora-biases", {"bias": "lora_only"}, "bias"),
    *family_cases("qwen3"),
    *family_cases("phi3"),
    *family_cases("phi3-window"),
    *family_cases("mistral-window", cuts=True),
    *llama4_cases("llama4", cuts=True),
    *llama4_cases("llama4-interleaved", seed=101),
    *single_expert_cases(),
    *family_cases("ministral3", cuts=True),
    *family_cases("ministral3-window"),
    *family_cases("qwen2-window"),
    *family_cases("gemma2", cuts=True),
    *family_cases("gemma"),
    *family_cases("gemma-untied"),
    *family_cases("gemma3", cuts=True),
    *family_cases("gemma3-untied"),
    *family_cases("gemma4", cuts=True),
    *family_cases("gemma4-untied"),
    *family_cases("gemma4-shared", cuts=True),
    *family_cases("gemma4-shared-untied"),
    *family_cases("gemma4-moe", cuts=True, seed=106),
    *family_cases("gemma4-moe-untied", seed=102),
    *[lora_case(f"experts-{variant}", {"target_parameters": GEMMA4_JOINED}, {"target_parameters": GEMMA4_JOINED}, variant=variant,
                seed=seed, settings=Settings(5e-3, 4, eps=1e-4), worst=1e-4)
      for variant, seed in (("gemma4-moe", 102), ("gemma4-moe-untied", 3))],
    *family_cases("smollm3"),
    *family_cases("smollm3-window"),
    *family_cases("granite", cuts=True),
    *family_cases("granite-tied"),
    *family_cases("olmo2", cuts=True),
    *family_cases("olmo2-tied"),
    *family_cases("olmo3"),
    *family_cases("phi4"),
    *family_cases("glm"),
    *family_cases("glm4"),
    *family_cases("cohere", cuts=True),
    *family_cases("cohere-bias"),
    *family_cases("cohere2"),
    *family_cases("starcoder2", cuts=True),
    *family_cases("starcoder2-window"),
    *family_cases("gpt-neox", cuts=True),
    *family_cases("gpt-neox-sequential"),
    *family_cases("falcon"),
    *family_cases("falcon-grouped", cuts=True),
    *family_cases("falcon-sequential"),
    *family_cases("stablelm"),
    *family_cases("stablelm-parallel"),
    # The seeds are of runs that keep clear of edges (edges.py).
    *family_cases("mixtral", cuts=True, seed=101),
    *family_cases("mixtral-balanced", recomputed=True),
    *family_cases("qwen2-moe", cuts=True, seed=100),
    *family_cases("qwen2-moe-window", seed=102),
    *family_cases("qwen3-moe", cuts=True, seed=101),
    *family_cases("qwen3-moe-sparse"),
    *family_cases("gpt-oss", cuts=True),
    # At rate 1 the loss after the step is ten times as sensitive.
    *family_cases("gpt-oss-balanced", rate=0.25, recomputed=True, seed=109),
    *[lora_case(f"experts-{variant}", {"target_parameters": JOINED}, {"target_parameters": JOINED}, variant=variant,
                settings=Settings(5e-3, 10, eps=1e-4), worst=1e-4) for variant in ("gpt-oss", "gpt-oss-balanced")],
    *family_cases("deepseek-v2", cuts=True),
    *family_cases("deepseek-v2-groups", seed=100),
    *family_cases("deepseek-v3", cuts=True, seed=100),
    *family_cases("deepseek-v3-halves"),
    *family_cases("glm4-moe", cuts=True),
    *family_cases("glm4-moe-groups"),
    *family_cases("olmoe", cuts=True, seed=100),
    *family_cases("olmoe-balanced", recomputed=True, seed=104),
    *family_cases("granitemoe", cuts=True),
    *family_cases("granitemoe-balanced", recomputed=True, seed=100),
    *family_cases("granitemoe-shared", rate=8.0, cuts=True),
    *family_cases("granitemoe-shared-tied"),
    *[lora_case(f"experts-{variant}", {"target_parameters": GRANITES}, {"target_parameters": GRANITES}, variant=variant,
                settings=Settings(5e-3, 10, eps=1e-4), worst=1e-4) for variant in ("granitemoe", "granitemoe-shared-tied")],
    *family_cases("ernie-moe", cuts=True),
    *family_cases("ernie-moe-sparse", seed=100),
    *family_cases("minimax-m2", cuts=True),
    *family_cases("minimax-m2-whole"),
    *family_cases("dots1", cuts=True),
    *family_cases("dots1-window"),
    *family_cases("hunyuan-moe", cuts=True, seed=101),
    *family_cases("hunyuan-moe-plain", rate=16.0),
    *family_cases("deepseek-moe", rate=8.0, cuts=True),
    *family_cases("deepseek-moe-tied"),
    *family_cases("flex-olmo", cuts=True, seed=104),
    *family_cases("flex-olmo-balanced", recomputed=True),
    *family_cases("deepseek-v32", rate=8.0, cuts=True, seed=100),
    *family_cases("deepseek-v32-tied"),
    *family_cases("glm-5", seed=101),
    *family_cases("glm-5-pattern"),
    # Whole tensors are compared (stride 1): every seventh number of a vector with one for each head
    # is a single one, whose change may be less than ten thousand steps of fp32.
    *family_cases("qwen3-next", cuts=True, stride=1),
    *family_cases("qwen3-next-mixed", rate=0.25, recomputed=True, seed=101, stride=1),
    *[Case(f"full-{variant}", Settings(1e-3, 5, eps=1e-4), variant=variant, stride=7) for variant in ("qwen3-next", "qwen3-5")],
    *family_cases("qwen3-5", cuts=True, stride=1),
    *family_cases("qwen3-5-tied", stride=1),
    *family_cases("qwen3-5-moe", cuts=True, seed=107, stride=1),
    *family_cases("qwen3-5-moe-balanced", recomputed=True, seed=102, stride=1),
    *family_cases("glm4-lite", cuts=True, seed=101),
    *family_cases("glm4-lite-groups"),
    *family_cases("granite4-mamba", cuts=True),
    *family_cases("granite4-mamba-groups"),
    *family_cases("granite4-experts", rate=16.0, cuts=True),
    *family_cases("granite4-experts-rope"),
    *family_cases("mistral4", cuts=True, seed=101),
    *family_cases("mistral4-groups", seed=101),
    *[lora_case(f"experts-{variant}", {"target_parameters": JOINED}, {"target_parameters": JOINED}, variant=variant,
                settings=Settings(5e-3, 10, eps=1e-4), worst=1e-4, seed=seed) for variant, seed in (("mistral4", 3), ("mistral4-groups", 102))],
    *family_cases("falcon-h1", cuts=True),
    *family_cases("falcon-h1-normed", stride=1, seed=11),
    *family_cases("nemotron-h", cuts=True),
    *family_cases("nemotron-h-bias"),
    *family_cases("nemotron-3", cuts=True),
    *family_cases("nemotron-3-latent"),
    *family_cases("gpt2", cuts=True),
    *family_cases("gpt2-untied"),
    *family_cases("t5", pairs=True, cuts=True),
    *family_cases("t5-gated", pairs=True, cuts=True),
    *family_cases("bart", pairs=True, cuts=True, still="k_proj.bias"),
    *family_cases("bart-scaled", pairs=True, still="k_proj.bias"),
    *family_cases("phi", cuts=True),
    *family_cases("phi-tied"),
    *family_cases("seed-oss", cuts=True),
    *family_cases("seed-oss-tied"),
    *family_cases("exaone4", cuts=True),
    *family_cases("exaone4-window"),
    *family_cases("ernie", cuts=True),
    *family_cases("ernie-bias"),
    *family_cases("hunyuan", cuts=True),
    *family_cases("hunyuan-bias"),
    *family_cases("arcee", cuts=True),
    *family_cases("arcee-bias"),
    *family_cases("olmo", cuts=True),
    *family_cases("olmo-tied"),
    *family_cases("nemotron", cuts=True),
    *family_cases("nemotron-bias"),
    *family_cases("granite4", cuts=True),
    *family_cases("granite4-nope"),
    *family_cases("opt", cuts=True, still="k_proj.bias"),
    *family_cases("opt-untied"),
    *family_cases("gptj", cuts=True),
    *family_cases("gptj-tied"),
    *family_cases("falcon-apart"),
    *family_cases("lfm2", cuts=True),
    *family_cases("lfm2-older"),
    *family_cases("lfm2-moe", cuts=True),
    *family_cases("lfm2-moe-scaled"),
    *family_cases("mpt", cuts=True),
    *family_cases("mpt-bounds"),
    *family_cases("bloom", cuts=True),
    *family_cases("bloom-untied"),
    # Recipes name these layers, of one stack alone.
    lora_case("lora-t5-qv", {"target_modules": ["q", "v"]}, {"target_modules": ["q", "v"]}, variant="t5", pairs=True, worst=1e-4,
              settings=Settings(5e-3, 3, eps=1e-4)),
    lora_case("lora-bart-decoder", {"target_modules": r".*decoder.*\.(q|v)_proj"}, {"target_modules": r".*decoder.*\.(q|v)_proj"},
              variant="bart", pairs=True, worst=1e-4, settings=Settings(5e-3, 3, eps=1e-4)),
]


PROVIDER = "auto"  # of every job; set by check_tiny.py --provider


def job(case: Case, name: str, model: Path, goldens: Path, output: Path, train: dict | None = None,
        data: dict | None = None) -> dict:
    """Returns forge's job for a case, as JSON. `train` and `data` add settings that must not change
    the numbers.
    """
    s = case.settings
    adapter = {"type": "none"}
    if case.lora:
        adapter = {"type": "lora", "rank": case.lora["r"], "alpha": case.lora["lora_alpha"], "dropout": 0,
                   "target_modules": case.lora["target_modules"]} | case.adapter
        if case.init_from:
            adapter["init_from"] = str(goldens / f"adapter-init-{case.name}")
    optimizer = {"type": "sgd" if s.optimizer == "sgd" else "adamw", "learning_rate": s.learning_rate,
                 "weight_decay": s.weight_decay}
    optimizer |= {"momentum": s.momentum} if s.optimizer == "sgd" else {"betas": [0.9, 0.999], "eps": s.eps}
    return {
        "version": 1, "name": name, "seed": 1, "output_dir": str(output),
        "model": {"path": str(model)},
        "adapter": adapter,
        "objective": {"type": "sft", "train_on": "completion" if case.pairs else "all"},
        "data": {"train": [{"path": str(goldens / case.rows), "format": "tokens"}], "shuffle": False,
                 "packing": False} | (data or {}),
        "train": {"max_steps": s.steps, "global_batch_size": 8, "micro_batch_size": 8, "precision": "fp32",
                  "max_grad_norm": s.max_grad_norm, "threads": 1} | (train or {}),
        "optimizer": optimizer,
        "schedule": {"type": s.schedule, "warmup_steps": s.warmup_steps},
        "hardware": {"device": "cpu"},
        "provider": PROVIDER,
    }
