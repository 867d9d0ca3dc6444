#!/usr/bin/env python3
"""Results leave forge whole: merged models, GGUF files, adapters and checkpoints, with the real engine on the tiny model.

    python3 tests/export/export_test.py build/bin/forge [--only NAME]

Standard library only; prints "N passed, N failed".
"""
import argparse
import json
import os
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests/parity"), str(ROOT / "tests/fixtures")]
from serving_formats import parse_modelfile, render_go_template, vllm_faults  # noqa: E402
from tensors import Tensor, read_safetensors, write_safetensors  # noqa: E402
from variants import write_variant  # noqa: E402
from wide_model import write_wide  # noqa: E402

ROWS = ROOT / "tests" / "parity" / "goldens" / "tiny-batches.jsonl"


class Lab:
    """A folder with models, and runs of a few steps."""

    def __init__(self, forge: str, folder: Path):
        self.forge, self.folder = forge, folder

    def call(self, *words, code: int = 0, environment: dict = {}) -> str:
        done = subprocess.run([self.forge, *map(str, words)], capture_output=True, text=True, timeout=240, cwd=self.folder,
                              env=os.environ | environment)
        said = done.stdout + done.stderr
        assert done.returncode == code, f"exit {done.returncode}, expected {code}: {words}\n{said[-2000:]}"
        return said

    def report(self, *words) -> dict:
        return json.loads(self.call(*words, "--json").splitlines()[-1])

    def model(self, variant: str = "base", **config) -> Path:
        folder = self.folder / "models" / "-".join([variant, *config])
        if not folder.exists():
            write_wide(folder) if variant == "wide" else write_variant(variant, folder)
            path = folder / "config.json"
            path.write_text(json.dumps(json.loads(path.read_text()) | config))
        return folder

    def run(self, name: str, variant: str = "base", **sections) -> Path:
        job = {
            "version": 1, "name": name, "seed": 7, "output_dir": str(self.folder), "model": {"path": str(self.model(variant))},
            "adapter": {"type": "lora", "rank": 4, "alpha": 8},
            "data": {"train": [{"path": str(ROWS), "format": "tokens"}]},
            "train": {"max_steps": 4, "global_batch_size": 4, "precision": "fp32"}, "optimizer": {"learning_rate": 2e-2},
            "checkpoint": {"every_steps": 2},
        }
        for section, values in sections.items():
            job[section] = values if values.get("type") == "none" else job.get(section, {}) | values
        path = self.folder / f"{name}.json"
        path.write_text(json.dumps(job))
        if not (self.folder / name).exists():
            self.call("run", path)
        return self.folder / name


def product(b: Tensor, a: Tensor) -> list:
    """B A, row after row."""
    (rows, rank), columns = b.shape, a.shape[1]
    out = []
    for row in range(rows):
        sums = [0.0] * columns
        for r in range(rank):
            factor = b.values[row * rank + r]
            for i in range(columns):
                sums[i] += factor * a.values[r * columns + i]
        out += sums
    return out


def expected(base: dict, adapter: dict, config: dict) -> dict:
    """The merged weights by the formulas of LoRA and DoRA, in double precision."""
    merged = dict(base)
    for name, a in adapter.items():
        if not name.endswith(".lora_A.weight"):
            if name.endswith(".weight") and ".lora_" not in name:
                merged[name.removeprefix("base_model.model.")] = a
            continue
        stem = name.removesuffix(".lora_A.weight")
        module = stem.removeprefix("base_model.model.")
        b = adapter[stem + ".lora_B.weight"]
        rank = a.shape[0]
        leaf = module.rsplit(".", 1)[1]
        alpha = config.get("alpha_pattern", {}).get(leaf, config["lora_alpha"])
        scale = alpha / (rank ** 0.5 if config["use_rslora"] else rank)
        weight = base[module + ".weight"]
        values = [w + scale * d for w, d in zip(weight.values, product(b, a))]
        magnitude = adapter.get(stem + ".lora_magnitude_vector")
        if magnitude:
            columns = weight.shape[1]
            for row in range(weight.shape[0]):
                part = values[row * columns:(row + 1) * columns]
                factor = magnitude.values[row] / sum(v * v for v in part) ** 0.5
                values[row * columns:(row + 1) * columns] = [v * factor for v in part]
        merged[module + ".weight"] = Tensor(weight.shape, values)
    return merged


def assert_equal(got: dict, want: dict, tolerance: float = 1e-6):
    assert got.keys() == want.keys(), sorted(got.keys() ^ want.keys())
    for name, tensor in want.items():
        assert got[name].shape == tensor.shape, name
        worst = max(abs(a - b) for a, b in zip(got[name].values, tensor.values))
        assert worst <= tolerance, f"{name}: {worst}"


SHAPES = {
    "plain": {},
    "rslora": {"use_rslora": True, "alpha": 3},
    "dora": {"use_dora": True},
    "patterns": {"rank_pattern": {"q_proj": 7, "down_proj": 1}, "alpha_pattern": {"v_proj": 31}},
    "saved": {"modules_to_save": ["lm_head", "input_layernorm"], "target_modules": ["q_proj", "down_proj"]},
    "few": {"target_modules": ["o_proj"], "layers_to_transform": [1]},
}


def merged_weights_follow_the_formulas(lab: Lab):
    for shape, settings in SHAPES.items():
        run = lab.run(f"m-{shape}", adapter=settings)
        report = lab.report("merge", run, "--dtype", "fp32")
        assert report["difference"]["largest_difference"] < 1e-4, (shape, report)
        base = read_safetensors(lab.model() / "model.safetensors")
        adapter = read_safetensors(run / "adapter" / "adapter_model.safetensors")
        config = json.loads((run / "adapter" / "adapter_config.json").read_text())
        assert_equal(read_safetensors(run / "merged" / "model.safetensors"), expected(base, adapter, config))


def a_tied_head_is_untied_where_one_of_the_two_was_trained(lab: Lab):
    for module, other in (("embed_tokens", "lm_head"), ("lm_head", "embed_tokens")):
        run = lab.run(f"tied-{module}", "tied", adapter={"modules_to_save": [module]})
        report = lab.report("merge", run, "--dtype", "fp32")
        assert report["difference"]["largest_difference"] < 1e-4, report
        assert json.loads((run / "merged" / "config.json").read_text())["tie_word_embeddings"] is False
        merged = read_safetensors(run / "merged" / "model.safetensors")
        base = read_safetensors(lab.model("tied") / "model.safetensors")["model.embed_tokens.weight"]
        kept = merged["lm_head.weight" if other == "lm_head" else "model.embed_tokens.weight"]
        assert list(kept.values) == list(base.values)
        assert list(merged["lm_head.weight"].values) != list(merged["model.embed_tokens.weight"].values)


def shards_have_an_index(lab: Lab):
    run = lab.run("m-plain")
    lab.call("merge", run, "--dtype", "fp32", "--max-shard-size", "0.0001", "--output", "shards")
    index = json.loads((lab.folder / "shards" / "model.safetensors.index.json").read_text())
    names = sorted(set(index["weight_map"].values()))
    assert len(names) == 3 and names[0] == f"model-00001-of-{len(names):05d}.safetensors", names
    gathered = {}
    for name in names:
        tensors = read_safetensors(lab.folder / "shards" / name)
        assert all(index["weight_map"][tensor] == name for tensor in tensors)
        gathered |= tensors
    assert_equal(gathered, read_safetensors(run / "merged" / "model.safetensors"), 0)
    assert index["metadata"]["total_size"] == sum(4 * len(tensor.values) for tensor in gathered.values())


def narrower_types_are_the_rounded_ones(lab: Lab):
    run = lab.run("m-plain")
    wide = read_safetensors(run / "merged" / "model.safetensors")
    for dtype, pack in (("bf16", None), ("fp16", "e")):
        report = lab.report("merge", run, "--dtype", dtype, "--output", dtype)
        assert report["dtype"] == {"bf16": "bf16", "fp16": "f16"}[dtype]
        narrow = read_safetensors(lab.folder / dtype / "model.safetensors")
        for name, tensor in wide.items():
            for got, value in zip(narrow[name].values, tensor.values):
                if pack:
                    assert got == struct.unpack("<e", struct.pack("<e", value))[0], name
                else:
                    assert abs(got - value) <= 2 ** -8 * abs(value), name
        config = json.loads((lab.folder / dtype / "config.json").read_text())
        assert config["dtype"] == {"bf16": "bfloat16", "fp16": "float16"}[dtype]


def a_value_past_fp16_is_refused(lab: Lab):
    model = lab.folder / "large"
    shutil.copytree(lab.model(), model)
    tensors = read_safetensors(model / "model.safetensors")
    tensors["model.norm.weight"].values[0] = 1e5
    write_safetensors(model / "model.safetensors", tensors)
    said = lab.call("merge", "--model", model, "--dtype", "fp16", "--output", "overflow", "--no-check", code=5)
    assert "past the range of fp16" in said and not (lab.folder / "overflow").exists(), said
    assert not list(lab.folder.glob("overflow*")), "something was left behind"


def damage_is_refused(lab: Lab):
    run = lab.run("m-plain")
    adapter = lab.folder / "nan-adapter"
    shutil.copytree(run / "adapter", adapter)
    tensors = read_safetensors(adapter / "adapter_model.safetensors")
    tensors[min(tensors)].values[3] = float("nan")
    write_safetensors(adapter / "adapter_model.safetensors", tensors)
    said = lab.call("merge", "--model", lab.model(), "--adapter", adapter, "--output", "nan", code=5)
    assert "not finite" in said and not (lab.folder / "nan").exists(), said
    said = lab.call("export", "--model", lab.model(), "--adapter", adapter, "--gguf-lora", "--output", "nan", code=5)
    assert "not finite" in said and min(tensors) in said and not (lab.folder / "nan").exists(), said
    assert "not finite" in lab.call("adapter", "check", adapter, code=5)


def rows_of_tokens_lie_as_the_settings_list_them(lab: Lab):
    run = lab.run("m-rows", adapter={"trainable_token_indices": [9, 1, 5]})
    rows = read_safetensors(run / "adapter/adapter_model.safetensors")["base_model.model.model.embed_tokens.token_adapter.trainable_tokens_delta"]
    assert json.loads((run / "adapter/adapter_config.json").read_text())["trainable_token_indices"] == [9, 1, 5]
    lab.call("merge", run, "--dtype", "fp32")
    base, merged = (read_safetensors(folder / "model.safetensors")["model.embed_tokens.weight"] for folder in (lab.model(), run / "merged"))
    row = lambda tensor, at: list(tensor.values[at * rows.shape[1]:(at + 1) * rows.shape[1]])  # noqa: E731
    for place, token in enumerate([9, 1, 5]):
        got = row(merged, token)
        assert got == row(rows, place), token
        assert token == min(range(base.shape[0]), key=lambda other: sum((a - b) ** 2 for a, b in zip(got, row(base, other)))), f"{token} began as another"


def changed_settings(lab: Lab, name: str, **settings) -> Path:
    adapter = lab.folder / name
    shutil.copytree(lab.run("m-plain") / "adapter", adapter)
    path = adapter / "adapter_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | settings))
    return adapter


def settings_of_no_vocabulary_are_refused(lab: Lab):
    for token in (10 ** 13, 2 ** 63 - 1):
        adapter = changed_settings(lab, f"rows-{token}", trainable_token_indices={"embed_tokens": [token]})
        said = lab.call("merge", "--model", lab.model(), "--adapter", adapter, "--output", "x", code=5)
        assert "adapter_config.json" in said and "below 16,777,216" in said, said


def what_an_adapter_cannot_mean_is_refused_by_its_file(lab: Lab):
    for name, settings, part in (("negative-token", {"trainable_token_indices": {"embed_tokens": [-5]}}, "token -5 does not exist"),
                                 ("fraction", {"r": 4.5}, "r has the wrong type: 4.5"),
                                 ("truth", {"rank_pattern": {"q_proj": True}}, "rank_pattern has the wrong type"),
                                 ("no-layer", {"layers_to_transform": [99]}, "layer 99 does not exist")):
        adapter = changed_settings(lab, name, **settings)
        for command in (("merge", "--dtype", "fp32"), ("export", "--gguf-lora")):
            said = lab.call(*command, "--model", lab.model(), "--adapter", adapter, "--output", "x", code=5)
            assert f"{name}/adapter_config.json" in said and part in said and "did you mean" not in said, said
    adapter = changed_settings(lab, "no-weights")
    (adapter / "adapter_model.safetensors").unlink()
    said = lab.call("merge", "--model", lab.model(), "--adapter", adapter, "--output", "x", code=5)
    assert "holds no adapter_model.safetensors" in said and "whole folder" in said, said


def logits_that_are_no_numbers_are_not_equal(lab: Lab):
    adapter = changed_settings(lab, "immense")
    tensors = read_safetensors(adapter / "adapter_model.safetensors")
    for module in ("gate_proj", "up_proj"):  # whose products overflow
        factor = tensors[f"base_model.model.model.layers.1.mlp.{module}.lora_A.weight"].values
        factor[:] = type(factor)("f", [1e30] * len(factor))
    write_safetensors(adapter / "adapter_model.safetensors", tensors)
    for command in (("merge", "--dtype", "fp32"), ("export", "--gguf-lora")):
        said = lab.call(*command, "--model", lab.model(), "--adapter", adapter, "--output", "immense-out", code=5)
        assert "logits are not finite" in said and not list(lab.folder.glob("immense-out*")), said


def a_damaged_checkpoint_is_not_merged(lab: Lab):
    run = lab.folder / "damaged-run"
    shutil.copytree(lab.run("m-plain"), run)
    weights = run / "checkpoints/step-000002/adapter_model.safetensors"
    content = bytearray(weights.read_bytes())
    content[-2] ^= 0x40
    weights.write_bytes(content)
    said = lab.call("merge", weights.parent, "--output", "x", code=5)
    assert str(weights) in said and "another checkpoint" in said, said
    (run / "checkpoints/step-000004/optimizer.safetensors").unlink()  # which a merge does not read
    lab.call("merge", run / "checkpoints/step-000004", "--no-check", "--output", "without-moments")


def outputs_are_refused_before_the_work(lab: Lab):
    run, file, link = lab.run("m-plain"), lab.folder / "a-file", lab.folder / "to-nothing"
    file.write_text("x")
    link.symlink_to(lab.folder / "nothing")
    for output, code, part in (("", 2, "--output: is empty"), (link, 2, "is a link to"), (file / "deep/er", 5, "name another --output"),
                               ("/proc/out", 5, "/proc/out: cannot be written there")):
        said = lab.call("merge", run, "--no-check", "--output", output, code=code)
        assert part in said and ".tmp-" not in said, said
    (lab.folder / "elsewhere").mkdir()
    (lab.folder / "by-link").symlink_to(lab.folder / "elsewhere")
    lab.call("merge", run, "--no-check", "--output", "by-link")
    assert (lab.folder / "by-link").is_symlink() and (lab.folder / "elsewhere/model.safetensors").exists()


def nothing_is_overwritten(lab: Lab):
    run = lab.run("m-plain")
    said = lab.call("merge", run, "--dtype", "fp32", code=2)
    assert "is there already" in said, said
    lab.call("merge", run, "--dtype", "fp32", "--fresh", "--no-check")


def a_killed_merge_leaves_nothing_that_looks_whole(lab: Lab):
    run = lab.run("m-plain")
    seen = 0
    for attempt in range(12):
        process = subprocess.Popen([lab.forge, "merge", run, "--dtype", "fp32", "--max-shard-size", "0.00001", "--output", "killed",
                                    "--no-check"], cwd=lab.folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline and process.poll() is None:
            if any(path.is_dir() and any(path.iterdir()) for path in lab.folder.glob("killed.tmp-*")):
                break
        process.send_signal(signal.SIGKILL)
        process.wait()
        if (lab.folder / "killed").exists():  # it finished before the signal arrived
            assert (lab.folder / "killed" / "README.md").exists()
            shutil.rmtree(lab.folder / "killed")
            continue
        seen += 1
        if seen == 3:
            break
    assert seen > 0, "no kill came in time"
    lab.call("merge", run, "--dtype", "fp32", "--output", "killed", "--no-check")
    assert not list(lab.folder.glob("killed.tmp-*")), "what the killed ones left is still there"


def several_adapters_are_added_by_weight(lab: Lab):
    one, two = lab.run("m-plain"), lab.run("m-rslora", adapter=SHAPES["rslora"])
    lab.call("merge", "--model", lab.model(), "--adapter", f"{one}/adapter=0.25", "--adapter", f"{two}/adapter=-2", "--dtype", "fp32",
             "--output", "sum")
    base = read_safetensors(lab.model() / "model.safetensors")
    merged = dict(base)
    for run, weight in ((one, 0.25), (two, -2)):
        adapter = read_safetensors(run / "adapter" / "adapter_model.safetensors")
        config = json.loads((run / "adapter" / "adapter_config.json").read_text())
        for name, tensor in expected(base, adapter, config).items():
            merged[name] = Tensor(tensor.shape, [m + weight * (v - w) for m, v, w in
                                                 zip(merged[name].values, tensor.values, base[name].values)])
    assert_equal(read_safetensors(lab.folder / "sum" / "model.safetensors"), merged, 3e-6)
    dora = lab.run("m-dora", adapter=SHAPES["dora"])
    said = lab.call("merge", "--model", lab.model(), "--adapter", one / "adapter", "--adapter", dora / "adapter", "--output", "no", code=5)
    assert "DoRA" in said, said


def a_quantised_base_is_a_choice(lab: Lab):
    run = lab.run("quantised", adapter={"type": "qlora"})
    said = lab.call("merge", run, code=2)
    assert "--base original" in said and "--base quantized" in said, said
    trained = lab.report("merge", run, "--dtype", "fp32", "--base", "quantized", "--output", "as-trained")
    original = lab.report("merge", run, "--dtype", "fp32", "--base", "original", "--output", "as-given")
    assert trained["difference"]["largest_difference"] < 1e-4, trained
    assert original["difference"]["largest_difference"] > 1e-2, original
    assert "nf4" in (lab.folder / "as-given" / "README.md").read_text()
    assert "there is only one" in lab.call("merge", lab.run("m-plain"), "--base", "original", "--output", "x", code=2)
    # Also of an adapter that is named beside its model, as long as its run says what it was trained on.
    apart = ("merge", "--model", lab.model(), "--dtype", "fp32", "--adapter", run / "adapter")
    assert "--base original" in lab.call(*apart, "--output", "x", code=2)
    assert "--base original" in lab.call(*apart, "--adapter", lab.run("m-plain") / "adapter", "--output", "x", code=2)
    lab.call(*apart, "--base", "quantized", "--output", "apart")
    assert_equal(read_safetensors(lab.folder / "apart" / "model.safetensors"), read_safetensors(lab.folder / "as-trained" / "model.safetensors"), 0)


def a_base_in_fp8_is_a_choice(lab: Lab):
    run = lab.run("fp8", "wide", model={"quantization": "fp8"},
                  data={"train": [{"path": str(ROWS), "format": "tokens"}], "eval": [{"path": str(ROWS), "format": "tokens", "limit": 8}]})
    assert "--base original" in lab.call("merge", run, code=2)
    trained = lab.report("merge", run, "--dtype", "fp32", "--base", "quantized", "--output", "fp8-as-trained")
    original = lab.report("merge", run, "--dtype", "fp32", "--base", "original", "--output", "fp8-as-given")
    assert trained["difference"]["largest_difference"] < 1e-4, trained
    assert original["difference"]["largest_difference"] > 1e-2, original
    given, through = (read_safetensors(lab.folder / name / "model.safetensors") for name in ("fp8-as-given", "fp8-as-trained"))
    name = "model.layers.0.mlp.up_proj.weight"
    lost = [abs(a - b) for a, b in zip(given[name].values, through[name].values)]
    assert 0 < max(lost) <= max(map(abs, given[name].values)) / 16, max(lost)  # half a step of the largest numbers is a 28th of them
    assert lab.call("generate", run, "--prompt", "hello", "--max-new-tokens", "4")
    # Evaluated as it was trained: activations in 8 bits, too.
    events = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    held_out = [e["eval_loss"] for e in events if e["event"] == "eval"][-1]
    eight = lab.folder / "eight.jsonl"
    eight.write_text("\n".join(ROWS.read_text().splitlines()[:8]) + "\n")
    losses = {base: lab.report("eval", *words, "--data", eight)["loss"]
              for base, words in {"fp8": [run], "decoded": ["--model", lab.folder / "fp8-as-trained"]}.items()}
    assert abs(losses["fp8"] - held_out) < 1e-6 * held_out < abs(losses["decoded"] - held_out), (held_out, losses)


def a_run_stands_where_its_adapter_can(lab: Lab):
    run = lab.run("m-plain")
    lab.call("merge", "--model", lab.model(), "--adapter", run, "--dtype", "fp32", "--output", "by-run")
    lab.call("merge", "--model", lab.model(), "--adapter", run / "adapter", "--dtype", "fp32", "--output", "by-folder")
    merged = [read_safetensors(lab.folder / name / "model.safetensors") for name in ("by-run", "by-folder")]
    assert_equal(merged[0], merged[1], 0)
    lab.call("merge", "--model", lab.model(), "--adapter", f"{run}=0.5", "--no-check", "--output", "weighted")
    asked = ("--model", lab.model(), "--prompt", "hello", "--max-new-tokens", "3")
    assert lab.call("generate", *asked, "--adapter", run) == lab.call("generate", *asked, "--adapter", run / "adapter")
    assert lab.report("adapter", "check", run) == lab.report("adapter", "check", run / "adapter")
    assert "is a run" in lab.call("generate", "--model", run, "--prompt", "x", code=5)
    said = lab.call("adapter", "check", "nowhere", code=5)
    assert "no such folder" in said and "tensors" not in said, said


def a_checkpoint_stands_where_a_run_can(lab: Lab):
    run = lab.run("m-plain")
    said = lab.call("eval", run / "checkpoints/step-000004", "--data", ROWS)
    assert said.splitlines()[-1] == lab.call("eval", run, "--data", ROWS).splitlines()[-1], said
    lab.call("merge", run / "checkpoints/step-000004", "--dtype", "fp32", "--output", "from-checkpoint")
    assert_equal(read_safetensors(lab.folder / "from-checkpoint" / "model.safetensors"),
                 read_safetensors(run / "merged" / "model.safetensors"), 0)
    assert_equal(read_safetensors(lab.folder / "from-checkpoint" / "model.safetensors"),
                 (lab.call("merge", run / "adapter", "--dtype", "fp32", "--output", "from-adapter"),
                  read_safetensors(lab.folder / "from-adapter" / "model.safetensors"))[1], 0)
    full = lab.run("full", adapter={"type": "none"})
    lab.call("generate", full / "checkpoints/step-000004", "--prompt", "hello", "--max-new-tokens", "2")
    lab.call("merge", full / "checkpoints/step-000004", "--dtype", "fp32", "--output", "full-merged")
    assert_equal(read_safetensors(lab.folder / "full-merged" / "model.safetensors"), read_safetensors(full / "model" / "model.safetensors"), 0)


def an_adapter_alone_knows_its_base(lab: Lab):
    run = lab.run("m-plain")
    shutil.copytree(run / "adapter", lab.folder / "moved")
    lab.call("merge", "moved", "--dtype", "fp32", "--output", "moved-merged")
    config = json.loads((lab.folder / "moved/adapter_config.json").read_text())
    (lab.folder / "moved/adapter_config.json").write_text(json.dumps(config | {"base_model_name_or_path": "org/elsewhere"}))
    said = lab.call("merge", "moved", "--output", "x", code=5)
    assert "org/elsewhere" in said and "--model" in said, said


def a_gguf_of_every_family_reads_back_as_the_model(lab: Lab):
    for variant in ("base", "tied", "qwen3", "bias", "gemma", "gemma2", "gemma3", "phi3", "head-dim", "rope-linear", "granite",
                    "olmo2", "glm4", "cohere", "starcoder2", "smollm3", "stablelm", "stablelm-parallel", "gpt-neox", "falcon",
                    "falcon-grouped", "gpt2", "gpt2-untied", "cohere2", "olmo3"):
        # Settings for which GGUF has no key must be what its readers assume.
        one_base = {kind: {"rope_type": "default", "rope_theta": 10000.0} for kind in ("full_attention", "sliding_attention")}
        # What weights were drawn by says nothing of a model that has them.
        assumed = {"base": {"initializer_range": 0.04}, "gemma2": {"query_pre_attn_scalar": 12}, "gemma3": {"query_pre_attn_scalar": 12, "sliding_window_pattern": 6},
                   "smollm3": {"no_rope_layers": [1, 1, 1]}, "cohere2": {"sliding_window_pattern": 4},
                   "olmo3": {"layer_types": ["sliding_attention"] * 3, "rope_parameters": one_base}}
        model = lab.model(variant, **assumed.get(variant, {}))
        report = lab.report("export", "--model", model, "--gguf", "--type", "f32", "--output", f"gguf-{variant}")
        assert report["difference"]["largest_difference"] < 1e-4, (variant, report)
        lab.call("merge", "--model", report["file"], "--dtype", "fp32", "--output", f"back-{variant}", "--no-check")
        back = read_safetensors(lab.folder / f"back-{variant}" / "model.safetensors")
        if variant == "stablelm-parallel":  # llama.cpp asks for a head also where it is the embedding
            assert back.pop("lm_head.weight") == back["model.embed_tokens.weight"]
        assert_equal(back, {name: tensor for name, tensor in read_safetensors(model / "model.safetensors").items()
                      if not (variant == "tied" and name == "lm_head.weight")}, 3e-7)


def every_type_computes_nearly_the_same(lab: Lab):
    run = lab.run("m-plain")
    worst = {}
    for kind in ("f32", "f16", "bf16", "q8_0", "q6_k", "q5_k_m", "q4_k_m", "q4_0"):
        worst[kind] = lab.report("export", run, "--gguf", "--type", kind, "--output", f"types/{kind}")["difference"]["divergence"]
    assert worst["f32"] < 1e-9 and worst["f16"] < 1e-4 and worst["bf16"] < 1e-2 and worst["q8_0"] < 1e-2, worst
    assert worst["f16"] < worst["q8_0"] < worst["q4_0"], worst


def what_a_gguf_cannot_say_is_refused(lab: Lab):
    said = lab.call("export", "--model", lab.model("rope-dynamic"), "--gguf", "--output", "x", code=3)
    assert "dynamic" in said and not (lab.folder / "x").exists(), said
    said = lab.call("export", "--model", lab.model("gemma2"), "--gguf", "--output", "x", code=3)
    assert "attention_scale" in said and not (lab.folder / "x").exists(), said
    said = lab.call("export", "--model", lab.model("gemma3", query_pre_attn_scalar=12), "--gguf", "--output", "x", code=3)
    assert "full_layers" in said and not (lab.folder / "x").exists(), said
    for variant, lost in (("cohere2", "full_layers"), ("olmo3", "window_rope_theta")):
        said = lab.call("export", "--model", lab.model(variant), "--gguf", "--output", "x", code=3)
        assert lost in said and not (lab.folder / "x").exists(), said
    # What llama.cpp's loader has no place for, or asks for.
    for variant, part in (("glm", "are 48 of 32"), ("cohere-bias", "has no biases"), ("gemma-untied", "has no biases"), ("starcoder2-window", "has biases in every"),
                          ("gpt-neox-sequential", "has biases in every"), ("falcon-sequential", "has no biases")):
        said = lab.call("export", "--model", lab.model(variant), "--gguf", "--output", "x", code=3)
        assert part in said and not (lab.folder / "x").exists(), (variant, said)
    run = lab.run("m-dora", adapter=SHAPES["dora"])
    said = lab.call("export", run, "--gguf-lora", code=5)
    assert "DoRA" in said, said
    said = lab.call("export", lab.run("m-saved", adapter=SHAPES["saved"]), "--gguf-lora", code=5)
    assert "lm_head" in said, said
    assert "expected one of" in lab.call("export", run, "--gguf", "--ollama", code=2)
    assert "q4_k_m" in lab.call("export", run, "--gguf", "--type", "q3", code=2)


def a_lora_gguf_is_read_back_and_compared(lab: Lab):
    # Ranks and scales that differ, and rows that the file has in another order; phi3's and gpt-neox's q, k and v in one.
    for name, variant, adapter in (("m-plain", "base", {}), ("m-rslora", "base", SHAPES["rslora"]), ("m-patterns", "base", SHAPES["patterns"]),
                                   ("l-phi3", "phi3", {}), ("l-neox", "gpt-neox", {"use_rslora": True}), ("l-gpt2", "gpt2", {})):
        run = lab.run(name, variant, adapter=adapter)
        exact = lab.report("export", run, "--gguf-lora", "--output", f"lora/{name}")["difference"]
        assert exact["largest_difference"] < 1e-5, (name, exact)
        assert lab.report("export", run, "--gguf-lora", "--type", "f16", "--output", f"lora/{name}-16")["difference"]["divergence"] < 1e-4, name
    assert "difference" not in lab.report("export", run, "--gguf-lora", "--no-check", "--output", "lora/unseen")


def ollama_gets_the_chat_template_in_its_words(lab: Lab):
    run = lab.run("m-plain")
    lab.call("export", run, "--ollama", "--type", "q8_0")
    text = (run / "ollama" / "Modelfile").read_text()
    assert "FROM ./model-q8_0.gguf" in text and "<|im_start|>user\n{{ end }}{{ $m.Content }}<|im_end|>\n<|im_start|>assistant\n" in text, text
    assert 'PARAMETER stop "<|im_end|>"' in text, text


CONVERSATIONS = [
    [("user", "Hello")],
    [("system", "Be brief."), ("user", "Hello")],
    [("user", "Hello"), ("assistant", "Hi."), ("user", "Who are you?")],
    [("system", "Be brief."), ("user", "Hello"), ("assistant", "Hi."), ("user", "Who?"), ("assistant", "A lamp."), ("user", "Since when?")],
]


def a_broken_template_is_named_by_its_file(lab: Lab):
    path = lab.folder / "broken.jinja"
    path.write_text("{{ bos_token }}\n{% for x in %}")
    said = lab.call("export", lab.run("m-plain"), "--ollama", "--template", path, "--output", "x", code=5)
    assert f"{path}:2: " in said and ".tmp-" not in said, said


def a_modelfile_keeps_to_ollamas_grammar(lab: Lab):
    run = lab.run("m-plain")
    if not (run / "ollama").exists():
        lab.call("export", run, "--ollama", "--type", "q8_0")
    rows = parse_modelfile((run / "ollama" / "Modelfile").read_text())
    values = {row[0]: row[1] for row in rows if row[0] != "PARAMETER"}
    assert (run / "ollama" / values["FROM"]).is_file(), rows
    for turns in CONVERSATIONS:
        want = "".join(f"<|im_start|>{role}\n{words}<|im_end|>\n" for role, words in turns) + "<|im_start|>assistant\n"
        got = render_go_template(values["TEMPLATE"], [{"role": role, "content": words} for role, words in turns])
        assert got == want, (got, want)
    for wrong in ("FORM ./a.gguf\n", "FROM a\nPARAMETER temprature 1\n", "FROM a\nFROM b\n", 'FROM a\nPARAMETER top_k "x"\n'):
        try:
            parse_modelfile(wrong)
        except (ValueError, KeyError):
            continue
        raise AssertionError(f"{wrong!r} counts as a Modelfile")


def vllm_reads_what_readmes_say(lab: Lab):
    sections = {name: {"adapter": SHAPES[name]} for name in ("dora", "saved")}
    sections |= {"plain": {}, "rslora": {"adapter": {"type": "lora", "rank": 4, "use_rslora": True}},
                 "head": {"adapter": {"type": "lora", "rank": 4, "target_modules": ["q_proj", "lm_head"]}},
                 "tokens": {"adapter": {"type": "lora", "rank": 4, "trainable_token_indices": [5]}},
                 "biases": {"adapter": {"type": "lora", "rank": 4, "bias": "lora_only"}, "variant": "bias"},
                 "pissa": {"adapter": {"type": "lora", "rank": 6, "init": "pissa"}}}
    for name, settings in sections.items():
        adapter = lab.run(f"v-{name}", **settings) / "adapter"
        readme, faults = (adapter / "README.md").read_text(), vllm_faults(adapter)
        loads = lab.report("adapter", "check", adapter)["loads"]["vLLM"] is True
        assert loads == ("--enable-lora" in readme), (name, loads, readme)
        assert not faults if loads else faults or name == "head", (name, faults, loads)
        if loads:
            most = int(readme.split("--max-lora-rank ")[1].split()[0])
            assert most in (8, 16, 32, 64, 128, 256, 320, 512) and not vllm_faults(adapter, most), (name, most)
    assert vllm_faults(lab.run("v-pissa") / "adapter", 8), "a rank past the limit counts as right"


def adapters_are_told_what_loads_them(lab: Lab):
    plain = lab.report("adapter", "check", lab.run("m-plain") / "adapter")
    assert plain["faults"] == [] and plain["warnings"] == [], plain
    assert all(loads is True for loads in plain["loads"].values()), plain
    dora = lab.report("adapter", "check", lab.run("m-dora", adapter=SHAPES["dora"]) / "adapter")
    assert "DoRA" in dora["loads"]["vLLM"] and dora["loads"]["PEFT"] is True, dora
    fresh = lab.folder / "untrained"
    shutil.copytree(lab.run("m-plain") / "adapter", fresh)
    tensors = read_safetensors(fresh / "adapter_model.safetensors")
    for name, tensor in tensors.items():
        if "lora_B" in name:
            tensor.values[:] = type(tensor.values)("f", [0] * len(tensor.values))
    write_safetensors(fresh / "adapter_model.safetensors", tensors)
    check = lab.report("adapter", "check", fresh)
    assert "zero" in check["warnings"][0] and "moved" not in str(check), check
    other = lab.report("adapter", "check", lab.run("m-plain") / "adapter", "--model", lab.model("head-dim"))
    assert all(loads is not True for loads in other["loads"].values()), other
    unread = lab.report("adapter", "check", changed_settings(lab, "of-later-peft", use_qalora=True))
    assert "use_qalora" in unread["loads"]["forge"] and unread["loads"]["PEFT"] is True and unread["loads"]["llama.cpp"] is not True, unread


def a_base_in_the_hubs_cache_is_at_hand(lab: Lab):
    adapter, repository = lab.folder / "of-hub", lab.folder / "hub/models--org--tiny"
    shutil.copytree(lab.run("m-plain") / "adapter", adapter)
    path = adapter / "adapter_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"base_model_name_or_path": "org/tiny"}))
    assert "not at hand" in lab.call("adapter", "check", adapter)
    (repository / "refs").mkdir(parents=True)
    (repository / "refs/main").write_text("0" * 40)
    shutil.copytree(lab.model(), repository / "snapshots" / ("0" * 40))
    for named in ([], ["--model", "org/tiny"]):
        said = lab.call("adapter", "check", adapter, *named, environment={"HF_HUB_CACHE": str(lab.folder / "hub")})
        assert "not at hand" not in said and "loads in forge      yes" in said, said


def readmes_name_what_they_are_for(lab: Lab):
    text = (lab.run("m-plain") / "adapter" / "README.md").read_text()
    for part in ("AutoPeftModelForCausalLM", "vllm serve", "--max-lora-rank 8", "forge export . --gguf", "ollama create"):
        assert part in text, part
    assert "merge it first" in (lab.run("m-dora", adapter=SHAPES["dora"]) / "adapter" / "README.md").read_text()


CASES = [
    merged_weights_follow_the_formulas,
    a_tied_head_is_untied_where_one_of_the_two_was_trained,
    shards_have_an_index,
    narrower_types_are_the_rounded_ones,
    a_value_past_fp16_is_refused,
    damage_is_refused,
    rows_of_tokens_lie_as_the_settings_list_them,
    settings_of_no_vocabulary_are_refused,
    what_an_adapter_cannot_mean_is_refused_by_its_file,
    logits_that_are_no_numbers_are_not_equal,
    a_damaged_checkpoint_is_not_merged,
    outputs_are_refused_before_the_work,
    nothing_is_overwritten,
    a_killed_merge_leaves_nothing_that_looks_whole,
    several_adapters_are_added_by_weight,
    a_quantised_base_is_a_choice,
    a_base_in_fp8_is_a_choice,
    a_checkpoint_stands_where_a_run_can,
    a_run_stands_where_its_adapter_can,
    an_adapter_alone_knows_its_base,
    a_gguf_of_every_family_reads_back_as_the_model,
    every_type_computes_nearly_the_same,
    what_a_gguf_cannot_say_is_refused,
    a_lora_gguf_is_read_back_and_compared,
    ollama_gets_the_chat_template_in_its_words,
    a_broken_template_is_named_by_its_file,
    a_modelfile_keeps_to_ollamas_grammar,
    vllm_reads_what_readmes_say,
    adapters_are_told_what_loads_them,
    a_base_in_the_hubs_cache_is_at_hand,
    readmes_name_what_they_are_for,
]


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("forge")
    parser.add_argument("--only")
    arguments = parser.parse_args()
    failed = 0
    folder = Path(tempfile.mkdtemp(prefix="forge-export-"))
    try:
        lab = Lab(os.path.abspath(arguments.forge), folder)
        chosen = [case for case in CASES if not arguments.only or arguments.only in case.__name__]
        for case in chosen:
            try:
                case(lab)
                print(f"ok    {case.__name__}")
            except Exception:
                failed += 1
                print(f"FAIL  {case.__name__}\n{traceback.format_exc()}")
        print(f"{len(chosen) - failed} passed, {failed} failed")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
