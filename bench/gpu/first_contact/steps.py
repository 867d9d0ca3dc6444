"""The steps of first contact, in order: the cheapest and most important first. Standard library
only.
"""
from dataclasses import dataclass

HERE = "bench/gpu/first_contact"
CASES = ("attention", "folded", "gated", "fp8")
FIRST_TINY = ("lora", "lora bf16", "qlora bf16", "full", "full bf16", "dpo", "grpo")
MORE_TINY = ("lora dropout", "replayed lora bf16", "full 8-bit state", "dora", "fp8 bf16", "qwen2 with windows", "gemma2",
             "granite full bf16", "gpt-neox dropout", "mixtral", "qwen3-moe", "gpt-oss", "deepseek-v3")


@dataclass
class Step:
    name: str
    call: int
    limit: int  # seconds
    command: list  # words; {bin}, {python} and {tool} are filled in
    needs: tuple = ()  # Python modules
    makes: str = ""  # a model's folder; the step is repeated on a machine that lacks it
    values: bool = False  # True if exit 1 is about values, which a rehearsal does not judge
    env: tuple = ()


def tiny(case, call):
    return Step(f"tiny {case}", call, 60, ["{tool}", f"{HERE}/tiny.py", case])


def train(call, limit, *words, **more):
    return Step(" ".join(words), call, limit, ["{tool}", f"{HERE}/training.py", *words], **more)


def measure(call, limit, *words, script="measure", **more):
    return Step(" ".join((script, *(word for word in words if not word.startswith("{")))), call, limit, ["{python}", f"bench/gpu/{script}.py", *words], **more)


def kernel_cases(text):
    return Step(f"cases {text}", 1, 60, ["{bin}/gpu_cases_test", "every op equals*"], values=True, env=(("FORGE_KERNEL_CASES", text),))


def sanitizer(tool, text):
    command = ["compute-sanitizer", "--tool", tool, "--error-exitcode", "9", "{bin}/gpu_cases_test", "every op equals*"]
    return Step(f"{tool} {text}", 1, 60, command, values=True, env=(("FORGE_KERNEL_CASES", text),))


PEER = ("torch", "transformers", "peft")
STEPS = [
    Step("device", 1, 20, ["nvidia-smi", "--query-gpu=name,driver_version,memory.total,memory.used,power.limit,clocks.max.sm,pci.bus_id",
                           "--format=csv"]),
    Step("engine", 1, 90, ["{tool}", f"{HERE}/engine.py"]),
    *(tiny(case, 1) for case in FIRST_TINY),
    *(kernel_cases(text) for text in CASES),
    train(1, 60, "weights", "smollm2", makes="smollm2"),
    train(1, 120, "repeated", "smollm2"),
    train(1, 90, "weights", "8b", makes="8b"),
    train(1, 100, "bench", "8b", "lora"),
    measure(1, 100, "llama-3.1-8b", script="baseline", needs=PEER),
    train(1, 120, "bench", "8b", "qlora"),
    measure(1, 120, "llama-3.1-8b", "--nf4", "{work}/models/8b", script="baseline", needs=(*PEER, "bitsandbytes")),
    *(sanitizer(tool, text) for tool, text in (("memcheck", "gated"), ("racecheck", "gated"), ("memcheck", "folded"), ("racecheck", "folded"),
                                               ("memcheck", "attention"), ("memcheck", "fp8"), ("racecheck", "attention"), ("racecheck", "fp8"))),

    *(tiny(case, 2) for case in MORE_TINY),
    train(2, 120, "deterministic", "smollm2"),
    train(2, 60, "ops", "smollm2", "lora"),
    train(2, 100, "ops", "8b", "lora"),
    train(2, 120, "ops", "8b", "qlora"),
    measure(2, 60, "copy", needs=("torch",)),
    measure(2, 300, "kconcat", needs=("torch",)),
    *(train(2, 90, "decode", "8b", rows) for rows in ("1", "32", "128")),
    train(2, 60, "weights", "gemma2-9b", makes="gemma2-9b"),
    train(2, 100, "ops", "gemma2-9b", "lora"),
    train(2, 60, "weights", "qwen3-30b-a3b", makes="qwen3-30b-a3b"),
    train(2, 100, "ops", "qwen3-30b-a3b", "lora"),
    measure(2, 60, "launch", needs=("torch",)),
    measure(2, 300, "gemm", needs=("torch",)),

    *(train(3, 120, *words) for words in (("bench", "8b", "fp8"), ("gate", "8b"), ("bench", "8b", "lora-recomputed"), ("bench", "8b", "activations-host"),
                                          ("bench", "8b", "long"))),
    train(3, 60, "weights", "1b", makes="1b"),
    *(train(3, 120, "bench", "1b", setting) for setting in ("full", "full-host", "full-8bit")),
    measure(3, 120, "fp8", needs=("torch",)),
    measure(3, 300, "attention", needs=("torch",)),
    *(measure(3, 120, model, *flags, script="baseline", needs=PEER)
      for model in ("llama-3.2-1b", "llama-3.1-8b") for flags in (["--checkpointing"], ["--fp32-adapter"])),
]
# Models that later calls need from earlier steps are made again if they are missing.
WEIGHTS = {step.makes: step for step in STEPS if step.makes}


def of_call(number: int) -> list[Step]:
    steps, made = [], set()
    for step in (s for s in STEPS if s.call == number):
        for model in WEIGHTS.keys() & set(step.command):
            if model not in made and not step.makes:
                steps.append(WEIGHTS[model])
            made.add(model)
        steps.append(step)
    return steps
