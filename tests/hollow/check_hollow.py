#!/usr/bin/env python3
"""Runs forge's commands with the real CUDA engine over the hollow GPU (CMakeLists.txt), on cards of
six generations.

    tests/hollow/check_hollow.py build                       what is always run, and a sample,
                                                             another one for every commit
    tests/hollow/check_hollow.py build --all                 every case on every card
    tests/hollow/check_hollow.py build --all --only qlora --cards 75,90

A run must end with exit 0 and keep CUDA's rules; all work goes to the planned card; cuBLAS may add
in fp32 alone; and LibTorch's own peak is the planned one. Prints a table of cases by cards: peak
over plan, launches in the graphs of a micro-batch, host's time a micro-batch. Standard library
only.
"""

import argparse
import concurrent.futures
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

sys.dont_write_bytecode = True
HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(ROOT / "tests/emulator/engine"), str(ROOT / "tests/parity")]
import check_emulated as emulated  # noqa: E402
import preference_cases  # noqa: E402
from fixtures_path import variants  # noqa: E402
from wide_model import write_wide  # noqa: E402

GOLDENS = ROOT / "tests/parity/goldens"
CARDS = (75, 80, 89, 90, 100, 120)
# The allocator rounds each tensor up to 512 bytes, which for a tiny model's many small tensors is
# more than a hundredth.
MOST_OVER, ROUNDED = 1.01, 1 << 19
# Completions are planned at their full length and end before it; a cache that doubles may not have
# to.
MOST_UNDER, MOST_UNDER_BYTES = 0.05, 4 << 20
MIB = 1 << 20


@dataclass
class Seen:
    """The outcome of a case on a card."""
    faults: list = field(default_factory=list)
    peak: float = 0  # measured over planned
    launches: int = 0  # per micro-batch, in its graphs
    host_us: float = 0  # per micro-batch, the median

    def text(self):
        if self.faults:
            return "FAIL"
        return " ".join(
            ([f"{self.peak:.3f}"] if self.peak else ["ok"])
            + ([str(self.launches)] if self.launches else [])
            + ([f"{self.host_us / 1000:.1f}ms"] if self.host_us else [])
        )


class Hollow:
    """Starts forge's commands on a hollow machine."""

    def __init__(self, build, folder, capability, **settings):
        self.forge, self.folder, self.capability = build / "bin/forge", folder, capability
        self.reports = folder / "reports"
        self.environment = os.environ | {
            "LD_PRELOAD": str(build / "hollow/libforge_hollow.so"),
            "FORGE_HOLLOW_CC": str(capability),
            "FORGE_HOLLOW_REPORT": str(self.reports),
            "OMP_NUM_THREADS": "1",
            # Kernels of generations other than the build's compute nothing just as well.
            "FORGE_ENGINE": str(build / "bin/forge-engine-cuda13"),
        }
        self.environment |= {
            f"FORGE_HOLLOW_{name.upper()}": str(value) for name, value in settings.items()
        }
        self.seen = Seen()

    def call(self, *arguments, code=0, given=""):
        self.reports.unlink(missing_ok=True)
        done = subprocess.run(
            [self.forge, *map(str, arguments)],
            env=self.environment,
            cwd=self.folder,
            capture_output=True,
            text=True,
            input=given,
        )
        reports = (
            [json.loads(line) for line in self.reports.read_text().splitlines()]
            if self.reports.exists()
            else []
        )
        self.reports_of_engine = [r for r in reports if "forge-engine" in r["program"]]
        if done.returncode != code:
            said = (done.stderr or done.stdout).strip().splitlines()[-6:]
            self.fault(f"exit {done.returncode}: " + " / ".join(said))
        if not self.reports_of_engine and code == 0:
            self.fault("no engine used the card")
        for report in self.reports_of_engine:
            self.check_report(report)
        return done

    def check_report(self, report, card=0):
        for violation in sorted(set(report["violations"])):
            self.fault(violation)
        short = sum(n for what, n in report["counts"].items() if "sums in 16 bits" in what)
        if short:
            self.fault(f"{short} products whose sums cuBLAS may round to 16 bits")

    def fault(self, text):
        self.seen.faults.append(text)

    def job(self, settings):
        path = self.folder / f"{settings['name']}.json"
        path.write_text(json.dumps(settings, indent=1))
        return path

    def run(self, settings, card=0):
        """Runs forge run; returns its folder."""
        settings["hardware"] = {"device": f"cuda:{card}"}
        settings["output_dir"] = str(self.folder / "runs")
        done = self.call("run", self.job(settings))
        run = self.folder / "runs" / settings["name"]
        if done.returncode == 0:
            self.check_run(run, card)
        return run

    def check_run(self, run, card):
        events = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
        for event in events:
            if event["event"] == "notice" and "graphs are not used" in event["text"]:
                self.fault(event["text"])
        memory = json.loads((run / "report.json").read_text())["memory"]
        # LibTorch's peak is what is in use. What graphs hold in a pool of their own is not, between
        # replays, and is planned for beside it.
        lines = json.loads((run / "plan.json").read_text())["memory"]["lines"]
        held = sum(line["bytes"] for line in lines if line["name"] == "graphs")
        planned, measured = memory["predicted_peak_bytes"] - held, memory["measured_peak_bytes"]
        self.seen.peak = measured / planned
        least = 0 if amendments(run) else planned - max(MOST_UNDER * planned, MOST_UNDER_BYTES)
        if measured > MOST_OVER * planned + ROUNDED or measured < least:
            self.fault(f"peak {measured / MIB:.1f} MiB, planned {planned / MIB:.1f} MiB")
        for report in self.reports_of_engine:
            for what, cards in report["by_card"].items():
                if elsewhere := {c: n for c, n in cards.items() if c != str(card)}:
                    self.fault(f"{what} on other cards than {card}: {elsewhere}")
            # Graphs of forward and backward. The run's are left out: the head's, which have three
            # products at most, and those without products.
            self.seen.launches = sum(
                g["kernels"] + g["products"] + g["copies"]
                for g in report["graphs"]
                if g["products"] > 3
            )
        steps = [event["step_seconds"] for event in events if event["event"] == "step"]
        if steps:
            self.seen.host_us = sorted(steps)[len(steps) // 2] * 1e6


# Mixtures of experts sample nothing: LibTorch's kernels, by which the decoder routes tokens, choose
# no expert here. Their training has stand-ins (values.cpp).
EXPERTS = ("mixtral", "moe", "gpt-oss", "deepseek", "llama4", "mistral4")


def for_card(precision, capability):
    """Returns the precision that a card has: Turing has no bf16."""
    return "fp16" if capability == 75 and precision == "bf16" else precision


def emulated_case(name):
    """Returns a check: a case of the emulated engine's list, on any card that computes in its
    types.
    """
    variant, precision, settings = emulated.CASES[name]

    def check(hollow, models):
        settings_here = {key: value for key, value in settings.items() if key != "hardware"}
        if any(family in variant for family in EXPERTS):
            settings_here["eval"] = {"samples": 0}
        of = (
            "bf16" if fp8 else for_card(precision, hollow.capability)
        )  # cuBLASLt's 8-bit products have no fp32 output
        hollow.run(
            emulated.job(
                name.replace(" ", "-"), models / variant, of, settings_here, hollow.folder, "cuda:0"
            )
        )
    fp8 = settings.get("model", {}).get("quantization") == "fp8"
    check.cards = [90, 100] if fp8 else CARDS
    return check


def base_job(models, hollow, adapter=emulated.LORA, **sections):
    made = emulated.job(
        "job",
        models / "base",
        for_card("bf16", hollow.capability),
        adapter | emulated.REPEATED,
        hollow.folder,
        "cuda:0",
    )
    for key, value in sections.items():
        made[key] = made.get(key, {}) | value if isinstance(value, dict) else value
    return made


def second_card(hollow, models):
    hollow.run(base_job(models, hollow), card=1)


def little_memory(hollow, models):
    """Little memory is planned for: by smaller micro-batches, or values computed again."""
    hollow.run(base_job(models, hollow))


def smollm2_job(hollow, **sections):
    """Returns a job of SmolLM2 (scripts/setup.sh) on this project's own pages."""
    text = hollow.folder / "text.txt"
    text.write_text("\n".join(page.read_text() for page in sorted((ROOT / "docs").glob("*.md"))))
    model = os.environ.get("FORGE_SMOLLM2") or str(
        Path.home() / ".cache/forge/models/SmolLM2-135M-Instruct.gguf"
    )
    return {
        "version": 1,
        "name": "job",
        "model": {"path": model},
        "objective": {"type": "pretrain"},
        "eval": {"samples": 0},
        "data": {
            "train": [{"path": str(text), "sample_by": "paragraph"}],
            "max_length": 512,
            "packing": True,
        },
        "train": {"max_steps": 3, "global_batch_size": 64},
        "checkpoint": {"every_steps": 100},
    } | sections


def amendments(run):
    return (run / "amendments.jsonl").read_text() if (run / "amendments.jsonl").exists() else ""


def filled_card(hollow, models):
    """A card has no byte more than the plan needs.

    LibTorch's allocator, which takes whole pages for each stream, still manages."""
    job = smollm2_job(hollow, adapter={"type": "none"}, optimizer={"type": "adamw_8bit"})
    free = 8192 * MIB
    hollow.environment["FORGE_HOLLOW_FREE_MIB"] = str(free // MIB)
    done = subprocess.run(
        [hollow.forge, "plan", "--json", hollow.job(job)],
        env=hollow.environment,
        capture_output=True,
        text=True,
        check=True,
    )
    memory = json.loads(done.stdout)["memory"]
    left = free - memory["available_bytes"]
    hollow.environment["FORGE_HOLLOW_FREE_MIB"] = str(
        -(-(memory["predicted_peak_bytes"] + left) // MIB)
    )
    run = hollow.run(job)
    if amendments(run):
        hollow.fault(f"the plan was amended: {amendments(run)}")


def taken_later(hollow, models):
    """Another process takes memory between the plan and the run: the micro-batch is halved until it
    fits."""
    run = hollow.run(smollm2_job(hollow, adapter={"type": "lora", "rank": 8}))
    if "micro_batch" not in amendments(run):
        hollow.fault("no smaller micro-batch")


def offloads(hollow, models):
    hollow.run(base_job(models, hollow, emulated.FULL, optimizer={"offload": "host"}))
    full = {"activation_checkpointing": "full", "activation_offloading": "host"}
    hollow.run(base_job(models, hollow, name="activations", train=full))


# Kernels that add in an unspecified order; for flash attention's backward the first kernel, which
# clears sums for them.
UNORDERED = ("flash_bwd_dot_do_o_kernelILb1", "embedding_atomic_kernel")


def deterministic(hollow, models):
    hollow.run(base_job(models, hollow, train={"deterministic": True}))
    for name in (
        n
        for report in hollow.reports_of_engine
        for n in report["counts"]
        if any(kernel in n for kernel in UNORDERED)
    ):
        hollow.fault(f"train.deterministic: {name}")
    refused = hollow.job(
        base_job(models, hollow, emulated.FULL, train={"deterministic": True}, name="full")
        | {"hardware": {"device": "cuda:0"}}
    )
    if "trained embedding" not in (said := hollow.call("run", refused, code=3).stderr):
        hollow.fault(f"full fine-tuning with train.deterministic is not refused by name: {said}")


def few_multiprocessors(hollow, models):
    """On a slice of a card, plan and engine size grids, and the sums that they leave, by its own
    multiprocessors.
    """
    hollow.run(base_job(models, hollow, train={"deterministic": True}))
    plan = json.loads((hollow.folder / "runs/job/plan.json").read_text())
    if (told := plan["device"]["gpu"]["multiprocessors"]) != 14:
        hollow.fault(f"planned for {told} multiprocessors")


def launches(hollow, models):
    """A micro-batch launches as many kernels as the plan lists (gpu_launches.h), within 15 %.

    Flash attention is used and, in fp32 and on Turing, LibTorch's efficient one."""
    for precision in (for_card("bf16", hollow.capability), "fp32"):
        job = hollow.job(
            base_job(models, hollow, name=precision, train={"precision": precision})
            | {"hardware": {"device": "cuda:0"}}
        )
        hollow.run(json.loads(job.read_text()))
        said = subprocess.run(
            [hollow.forge, "plan", job], env=hollow.environment, capture_output=True, text=True
        ).stdout
        listed = int(said.split("queues some ")[1].split(" launches")[0].replace(",", ""))
        if not 0.85 * listed <= hollow.seen.launches <= listed:
            hollow.fault(
                f"{precision}: {hollow.seen.launches} launches in the graphs of a micro-batch, "
                f"listed are {listed}"
            )


def shuffled(hollow, models):
    """Micro-batches of unequal rows: the plan says that they replay no graph, and they do not."""
    job = base_job(
        models,
        hollow,
        data={"train": [{"path": str(emulated.ROWS), "format": "tokens"}], "shuffle": True},
        train={"micro_batch_size": 4},
    )
    hollow.run(job)
    replays = sum(
        n
        for r in hollow.reports_of_engine
        for what, n in r["counts"].items()
        if what.startswith("replayed") and "thin_kernel" in what
    )
    if replays:
        hollow.fault(f"{replays} kernels of layers were replayed")
    said = subprocess.run(
        [hollow.forge, "plan", hollow.job(job | {"hardware": {"device": "cuda:RTX 4070"}})],
        capture_output=True,
        text=True,
    ).stdout
    if "Graphs: seldom replayed" not in said:
        hollow.fault("the plan does not say that graphs are seldom replayed")


def reference(hollow, models):
    """LibTorch's batched products, of which attention with a cap is made."""
    hollow.run(
        base_job(models, hollow, model={"path": str(models / "gemma2")}) | {"provider": "reference"}
    )


def preference(kind):
    def check(hollow, models):
        case = next(c for c in preference_cases.CASES if c.objective["type"] == kind)
        train = {"precision": for_card("bf16", hollow.capability)}
        hollow.run(
            preference_cases.job(
                case, "job", ROOT / "tests/fixtures/tiny-llama", GOLDENS, hollow.folder, train=train
            )
        )
    return check


def policy(kind):
    """Returns a check: the model samples completions itself, rewarded by rules."""
    def check(hollow, models):
        prompts = hollow.folder / "prompts.jsonl"
        prompts.write_text(
            "".join(json.dumps({"prompt": f"What is {i}?"}) + "\n" for i in range(12))
        )
        hollow.run(
            base_job(
                models,
                hollow,
                model={"path": str(ROOT / "tests/fixtures/tiny-llama")},
                objective={"type": kind, "train_on": None},
                data={"train": [{"path": str(prompts)}]},
                train={"max_steps": 2, "global_batch_size": None, "micro_batch_size": None},
                rollout={
                    "prompts_per_step": 3,
                    "samples_per_prompt": 4 if kind == "grpo" else 1,
                    "max_new_tokens": 8,
                },
                rewards=[{"type": "length", "max": 6, "slack": 30, "unit": "characters"}],
            )
        )
    return check


def trained(hollow, models):
    return hollow.run(
        base_job(models, hollow, model={"path": str(ROOT / "tests/fixtures/tiny-llama")})
    )


MANY_TEXTS = ("qwen3-moe", "llama4", "qwen3-next", "nemotron-h")


def many_texts(hollow, models):
    """Memory for each text of a micro-batch, and for all of its tokens, is planned for: attention's
    sums, and the states of a delta rule, which are large beside a tiny model's rounding here.
    """
    rows = hollow.folder / "rows.jsonl"
    rows.write_text(
        "".join(
            json.dumps({"input_ids": [(31 * i + 7 * t) % 250 + 1 for t in range(64)]}) + "\n"
            for i in range(64)
        )
    )
    for variant in MANY_TEXTS:
        hollow.run(
            base_job(
                models,
                hollow,
                name=variant,
                model={"path": str(models / variant)},
                data={"train": [{"path": str(rows), "format": "tokens"}]},
                train={"max_steps": 2, "global_batch_size": 64, "micro_batch_size": 64},
                eval={"samples": 0},
            )
        )


def uses(hollow, models):
    """Uses a result in generate, chat, eval and merge."""
    run = trained(hollow, models)
    hollow.call("generate", run, "--prompt", "What is it?", "--max-new-tokens", 6)
    hollow.call("chat", run, "--max-new-tokens", 6, given="What is it?\n")
    hollow.call("eval", run, "--data", emulated.ROWS)
    # The merge runs, and its check then compares logits that no kernel has computed.
    if (
        "the merged model does not compute"
        not in hollow.call("merge", run, "--output", hollow.folder / "merged", code=70).stderr
    ):
        hollow.fault("merge never came to its check")


def doctor(hollow, models):
    """The engine computes on the card, and NCCL adds over its one rank."""
    said = hollow.call("doctor").stdout
    starts = [line for line in said.splitlines() if "CUDA engine starts" in line]
    if not any(
        line.startswith("ok") and "cuda:0 computes, NCCL sums over one rank" in line
        for line in starts
    ):
        hollow.fault(f"forge doctor says of the CUDA engine: {starts or said}")


def bench(hollow, models):
    job = hollow.job(base_job(models, hollow) | {"hardware": {"device": "cuda:0"}})
    hollow.call("bench", job, "--ladder")
    hollow.call("bench", job, "--trace", hollow.folder / "trace.json")
    if not json.loads((hollow.folder / "trace.json").read_text()):
        hollow.fault("the trace is empty")


def on_machine(check, cards=CARDS, **settings):
    def with_settings(hollow, models):
        return check(hollow, models)
    with_settings.settings, with_settings.cards = settings, cards
    return with_settings


CASES = {
    "second card": on_machine(second_card, cards_there=2),
    "little memory": on_machine(little_memory, free_mib=760),
    "filled card": filled_card,
    "taken later": on_machine(taken_later, mib=8192, taken_mib=7500),
    "offloads": offloads,
    "deterministic": deterministic,
    "few multiprocessors": on_machine(few_multiprocessors, multiprocessors=14),
    "launches": launches,
    "shuffled": shuffled,
    "many texts": many_texts,
    "reference": reference,
    **{kind: preference(kind) for kind in ("dpo", "kto", "reward")},
    **{kind: policy(kind) for kind in ("grpo", "ppo")},
    "generate, chat, eval, merge": uses,
    "doctor": doctor,
    "bench": bench,
    # Nothing is computed here, so no expert has rows, which its definition in ATen needs.
    **{name: emulated_case(name) for name in emulated.CASES if name != "dora of experts"},
}
# Always run: every objective and command on one card, and one job on every other card.
CORE = (
    [(name, 90) for name in list(CASES)[: list(CASES).index("bench") + 1]]
    + [("replayed lora bf16", c) for c in CARDS]
    + [
        ("replayed fp8 bf16", 90),
        ("replayed qlora bf16", 80),
        ("turing full", 75),
        ("many texts", 75),
        ("mixtral", 89),
        ("mistral4", 90),
        ("gemma2", 120),
    ]
)


def run_case(build, models, root, name, capability):
    check = CASES[name]
    folder = root / f"{name} {capability}".replace(" ", "-").replace(",", "")
    folder.mkdir()
    settings = {
        ("cards" if k == "cards_there" else k): v for k, v in getattr(check, "settings", {}).items()
    }
    hollow = Hollow(build, folder, capability, **settings)
    try:
        check(hollow, models)
    except Exception as error:  # noqa: BLE001 — a case that stumbles is one that failed
        hollow.fault(f"{type(error).__name__}: {error}")
    return hollow.seen


def sample_seed():
    done = subprocess.run(["git", "-C", ROOT, "rev-parse", "HEAD"], capture_output=True, text=True)
    return done.stdout.strip() or time.strftime("%Y-%m-%d")


def print_table(seen, cards):
    names = list(dict.fromkeys(name for name, _ in seen))
    rows = [["peak/plan, launches, host a micro-batch", *(f"sm_{card}" for card in cards)]]
    rows += [
        [name, *(seen[name, card].text() if (name, card) in seen else "" for card in cards)]
        for name in names
    ]
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        print("  ".join(text.ljust(width) for text, width in zip(row, widths)).rstrip())


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("build", type=Path)
    parser.add_argument(
        "--all", action="store_true", help="every case on every card instead of a sample"
    )
    parser.add_argument("--only", default="", help="cases whose name holds this text")
    parser.add_argument(
        "--cards", type=lambda text: [int(c) for c in text.split(",")], default=CARDS
    )
    parser.add_argument(
        "--seconds", type=float, default=150, help="begin no more cases of the sample after this many seconds"
    )
    parser.add_argument("--seed", default=sample_seed(), help="seed of the sample (default: the commit's name)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--keep", type=Path)
    options = parser.parse_args()
    build, began, seen = options.build.resolve(), time.time(), {}
    pairs = [
        (name, card)
        for name, check in CASES.items()
        if options.only in name
        for card in options.cards
        if card in getattr(check, "cards", CARDS)
    ]
    core = [pair for pair in CORE if pair in pairs]
    rest = [pair for pair in pairs if pair not in core]
    if not options.all:
        random.Random(options.seed).shuffle(rest)
    with tempfile.TemporaryDirectory() as temporary, concurrent.futures.ThreadPoolExecutor(
        options.jobs
    ) as pool:
        root = options.keep or Path(temporary)
        models = root / "models"
        models.mkdir(parents=True)
        for variant in {variant for variant, _, _ in emulated.CASES.values()} | set(MANY_TEXTS):
            (
                write_wide(models / variant)
                if variant == "wide"
                else variants.write_variant(variant, models / variant)
            )

        def one(pair):
            if not options.all and pair not in core and time.time() - began > options.seconds:
                return pair, None
            return pair, run_case(build, models, root, *pair)

        for pair, result in pool.map(one, core + rest):
            if result is None:
                continue
            seen[pair] = result
            if result.faults:
                print(f"FAIL {pair[0]} on sm_{pair[1]}: " + "; ".join(result.faults), flush=True)
    print_table(seen, options.cards)
    failed = sum(bool(result.faults) for result in seen.values())
    print(
        f"{len(seen) - failed} passed, {failed} failed of {len(pairs)} "
        f"in {time.time() - began:.0f} s, sample {options.seed[:12]}"
    )
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
