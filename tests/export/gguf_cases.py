"""GGUF files of models and adapters."""
import json
import shutil
import subprocess

from lab import ROOT, SHAPES, Lab, assert_equal
from tensors import read_safetensors


def a_gguf_of_every_family_reads_back_as_the_model(lab: Lab):
    for variant in ("base", "tied", "qwen3", "bias", "gemma", "gemma2", "gemma3", "phi3", "head-dim", "rope-linear", "granite",
                    "olmo2", "glm4", "cohere", "starcoder2", "smollm3", "stablelm", "stablelm-parallel", "gpt-neox", "falcon",
                    "falcon-grouped", "gpt2", "gpt2-untied", "cohere2", "olmo3", "phi", "phi-tied", "seed-oss", "exaone4",
                    "exaone4-window", "ernie", "hunyuan", "arcee", "olmo", "nemotron", "nemotron-bias", "bloom", "mpt", "glm4-moe", "olmoe",
                    "granitemoe", "granitemoe-shared", "ernie-moe", "minimax-m2", "dots1", "hunyuan-moe", "deepseek-moe"):
        # Settings for which GGUF has no key must have the values that its readers assume.
        one_base = {kind: {"rope_type": "default", "rope_theta": 10000.0} for kind in ("full_attention", "sliding_attention")}
        # The settings of random initialisation say nothing of a model that has its weights.
        assumed = {"base": {"initializer_range": 0.04}, "gemma2": {"query_pre_attn_scalar": 12}, "gemma3": {"query_pre_attn_scalar": 12, "sliding_window_pattern": 6},
                   "smollm3": {"no_rope_layers": [1, 1, 1]}, "cohere2": {"sliding_window_pattern": 4},
                   "olmo3": {"layer_types": ["sliding_attention"] * 3, "rope_parameters": one_base},
                   "exaone4-window": {"layer_types": ["sliding_attention"] * 3}}
        model = lab.model(variant, **assumed.get(variant, {}))
        report = lab.report("export", "--model", model, "--gguf", "--type", "f32", "--output", f"gguf-{variant}")
        assert report["difference"]["largest_difference"] < 1e-4, (variant, report)
        lab.call("merge", "--model", report["file"], "--dtype", "fp32", "--output", f"back-{variant}", "--no-check")
        back = read_safetensors(lab.folder / f"back-{variant}" / "model.safetensors")
        if variant in ("stablelm-parallel", "phi-tied", "nemotron-bias"):  # llama.cpp requires a head even if it is the embedding
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


LLAMA31 = {"rope_type": "llama3", "rope_theta": 500000.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
           "original_max_position_embeddings": 8192}


def rotary_scaling_goes_from_the_file_to_the_loss(lab: Lab):
    """A scaling that a GGUF keeps as a tensor: the file trains as its folder does, and merges back
    to it.
    """
    lengths = {"rope_type": "longrope", "rope_theta": 10000.0, "factor": 8.0, "original_max_position_embeddings": 8,
               "short_factor": [1.0, 1.1, 1.3, 1.7], "long_factor": [1.0, 1.5, 3.0, 9.0]}
    # No released model has the last two: other bounds, and single divisors without a name.
    for name, variant, rope, kind in (("llama31", "base", LLAMA31, "llama3"), ("llama32", "base", LLAMA31 | {"factor": 32.0}, "llama3"),
                                      ("long", "base", lengths, "longrope"), ("long-phi", "phi3-longrope", None, "longrope"),
                                      ("bounds", "base", LLAMA31 | {"original_max_position_embeddings": 4096}, "longrope"),
                                      ("plain", "base", LLAMA31 | {"rope_type": "default"}, "default")):
        model = lab.folder / f"rope-{name}"
        shutil.copytree(lab.model(variant), model)
        config = json.loads((model / "config.json").read_text())
        if rope:
            config |= {"rope_parameters": rope, "max_position_embeddings": 131072}
        (model / "config.json").write_text(json.dumps(config))
        report = lab.report("export", "--model", model, "--gguf", "--type", "f32", "--output", f"rope-{name}-gguf")
        assert report["difference"]["largest_difference"] < 1e-4, (name, report)
        lab.call("merge", "--model", report["file"], "--dtype", "fp32", "--output", f"rope-{name}-back", "--no-check")
        losses = {}
        for place in (model, report["file"], lab.folder / f"rope-{name}-back"):
            lab.run(f"r{len(losses)}-{name}", model={"path": str(place)})
            folder = lab.folder / f"r{len(losses)}-{name}"
            losses[str(place)] = [json.loads(line)["loss"] for line in (folder / "metrics.jsonl").read_text().splitlines() if '"loss"' in line]
            planned = json.loads((folder / "plan.json").read_text())["model"]["rope"]["type"]
            assert planned in (kind, "llama3" if name == "bounds" else kind), (place, planned)
        folder_losses, *others = losses.values()
        assert all(abs(a - b) < 1e-5 * a for other in others for a, b in zip(folder_losses, other, strict=True)), (name, losses)
        if name == "plain":
            unscaled = folder_losses
        if name == "llama31":
            scaled = folder_losses
    assert abs(scaled[0] - unscaled[0]) > 1e-4, "the scaling changes nothing here"
    # The architecture has no place for the tensor.
    qwen = lab.model("qwen3", rope_parameters=LLAMA31, max_position_embeddings=131072)
    assert "no tensor for the rotary scaling llama3" in lab.call("export", "--model", qwen, "--gguf", "--output", "x", code=3)


def what_a_gguf_cannot_say_is_refused(lab: Lab):
    said = lab.call("export", "--model", lab.model("rope-dynamic"), "--gguf", "--output", "x", code=3)
    assert "dynamic" in said and not (lab.folder / "x").exists(), said
    said = lab.call("export", "--model", lab.model("gemma2"), "--gguf", "--output", "x", code=3)
    assert "attention_scale" in said and not (lab.folder / "x").exists(), said
    said = lab.call("export", "--model", lab.model("gemma3", query_pre_attn_scalar=12), "--gguf", "--output", "x", code=3)
    assert "full_layers" in said and not (lab.folder / "x").exists(), said
    for variant, lost in (("cohere2", "full_layers"), ("olmo3", "window_rope_theta"), ("exaone4-window", "full_layers")):
        said = lab.call("export", "--model", lab.model(variant), "--gguf", "--output", "x", code=3)
        assert lost in said and not (lab.folder / "x").exists(), said
    # Models for which llama.cpp's loader has no place, or has a requirement that they miss.
    for variant, part in (("glm", "are 48 of 32"), ("cohere-bias", "has no biases"), ("gemma-untied", "has no biases"), ("starcoder2-window", "has biases in every"),
                          ("gpt-neox-sequential", "has biases in every"), ("falcon-sequential", "has no biases"),
                          ("seed-oss-tied", "has no biases"), ("ernie-bias", "has no biases"), ("hunyuan-bias", "has no biases"),
                          ("arcee-bias", "has no biases"), ("olmo-tied", "has no biases"),
                          ("qwen3-next", "are 12 and 10"), ("qwen3-5-moe", "are 12 and 10")):
        said = lab.call("export", "--model", lab.model(variant), "--gguf", "--output", "x", code=3)
        assert part in said and not (lab.folder / "x").exists(), (variant, said)
    run = lab.run("m-dora", adapter=SHAPES["dora"])
    said = lab.call("export", run, "--gguf-lora", code=5)
    assert "DoRA" in said, said
    said = lab.call("export", lab.run("m-saved", adapter=SHAPES["saved"]), "--gguf-lora", code=5)
    assert "lm_head" in said, said
    assert "expected one of" in lab.call("export", run, "--gguf", "--ollama", code=2)
    assert "q4_k_m" in lab.call("export", run, "--gguf", "--type", "q3", code=2)


def rules_of_tokens_that_a_gguf_has_no_field_for_are_told(lab: Lab):
    model = lab.folder / "stripping"
    shutil.copytree(lab.model(), model)
    path = model / "tokenizer.json"
    tokenizer = json.loads(path.read_text())
    tokenizer["added_tokens"][0]["rstrip"] = True
    path.write_text(json.dumps(tokenizer))
    warnings = lab.report("export", "--model", model, "--gguf", "--type", "f32", "--output", "stripped")["warnings"]
    assert any("a GGUF has no field for rules" in text and tokenizer["added_tokens"][0]["content"] in text for text in warnings), warnings
    assert not any("no field for rules" in text for text in lab.report("export", "--model", lab.model(), "--gguf", "--type", "f32", "--output", "plain")["warnings"])


def a_lora_gguf_is_read_back_and_compared(lab: Lab):
    # Ranks and scales differ, and the file has rows in another order; phi3 and gpt-neox have q, k
    # and v in one.
    for name, variant, adapter in (("m-plain", "base", {}), ("m-rslora", "base", SHAPES["rslora"]), ("m-patterns", "base", SHAPES["patterns"]),
                                   ("l-phi3", "phi3", {}), ("l-neox", "gpt-neox", {"use_rslora": True}), ("l-gpt2", "gpt2", {})):
        run = lab.run(name, variant, adapter=adapter)
        exact = lab.report("export", run, "--gguf-lora", "--output", f"lora/{name}")["difference"]
        assert exact["largest_difference"] < 1e-5, (name, exact)
        assert lab.report("export", run, "--gguf-lora", "--type", "f16", "--output", f"lora/{name}-16")["difference"]["divergence"] < 1e-4, name
    assert "difference" not in lab.report("export", run, "--gguf-lora", "--no-check", "--output", "lora/unseen")


def a_plan_knows_what_an_export_would_say(lab: Lab):
    rows = lab.folder / "asked.jsonl"
    rows.write_text('{"prompt": "one two", "completion": "three"}\n')
    for path in sorted((ROOT / "tests/fixtures/tiny-variants").glob("*.json")):
        model = lab.model(path.stem)
        job = lab.folder / "plan.json"
        job.write_text(json.dumps({"model": {"path": str(model)}, "adapter": {"type": "lora"}, "train": {"max_steps": 1},
                                   "data": {"train": [str(rows)]}}))
        planned = lab.call("plan", job)
        done = subprocess.run([lab.forge, "export", "--model", model, "--gguf", "--no-check", "--output", f"asked-{path.stem}"],
                              capture_output=True, text=True, cwd=lab.folder, timeout=240)
        assert ("forge export can write the result as a GGUF" in planned) == (done.returncode == 0), (path.stem, planned, done.stderr)
        if done.returncode != 0:
            assert any(len(line) > 20 and line in planned for line in done.stderr.splitlines()), (path.stem, done.stderr, planned)
        elif "window of" in done.stderr:
            assert "does not compute this model's window of 8 tokens" in planned, (path.stem, planned)


CASES = [
    a_plan_knows_what_an_export_would_say,
    rotary_scaling_goes_from_the_file_to_the_loss,
    a_gguf_of_every_family_reads_back_as_the_model,
    every_type_computes_nearly_the_same,
    what_a_gguf_cannot_say_is_refused,
    rules_of_tokens_that_a_gguf_has_no_field_for_are_told,
    a_lora_gguf_is_read_back_and_compared,
]
