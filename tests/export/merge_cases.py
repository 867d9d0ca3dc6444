"""Merged models: weights, types, damage, permitted combinations, and sources."""
import json
import shutil
import signal
import struct
import subprocess
import time

from lab import ROWS, SHAPES, Lab, assert_equal, changed_settings, expected
from tensors import Tensor, read_safetensors, write_safetensors


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


def whole_embeddings_that_no_setting_names_are_the_files(lab: Lab):
    """PEFT's save_embedding_layers writes them so, by the family's names, and loading replaces the
    base's with them."""
    for variant, name in (("base", "model.embed_tokens"), ("gpt-neox", "gpt_neox.embed_in"), ("gpt-neox", "embed_out"), ("gpt2-untied", "transformer.wte")):
        leaf = name.split(".")[-1].replace("embed_out", "lm_head")  # checkpoints have the older name
        run = lab.run(f"{leaf}-named", variant, adapter={"modules_to_save": [leaf]})
        lab.report("merge", run, "--dtype", "fp32")
        adapter = lab.folder / f"{leaf}-unnamed"
        shutil.copytree(run / "adapter", adapter)
        path = adapter / "adapter_config.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | {"modules_to_save": None}))
        merged = lab.folder / f"{leaf}-merged"
        lab.report("merge", "--model", lab.model(variant), "--adapter", adapter, "--dtype", "fp32", "--output", merged)
        named, unnamed = (read_safetensors(folder / "model.safetensors") for folder in (run / "merged", merged))
        assert_equal(unnamed, named)
        base = read_safetensors(lab.model(variant) / "model.safetensors")[f"{name}.weight"]
        assert list(unnamed[f"{name}.weight"].values) != list(base.values), f"{name} was not trained"


def the_head_of_gpt_neox_has_the_name_of_transformers_5_and_is_read_under_both(lab: Lab):
    """PEFT passes over tensors of modules that it does not find, without a word."""
    run = lab.run("neox-head", "gpt-neox", adapter={"modules_to_save": ["lm_head"], "target_modules": ["query_key_value"]})
    tensors = read_safetensors(run / "adapter" / "adapter_model.safetensors")
    assert "base_model.model.lm_head.weight" in tensors, sorted(tensors)
    older = lab.folder / "neox-head-older"
    shutil.copytree(run / "adapter", older)
    write_safetensors(older / "adapter_model.safetensors", {name.replace("lm_head", "embed_out"): tensor for name, tensor in tensors.items()})
    config = older / "adapter_config.json"
    config.write_text(config.read_text().replace("lm_head", "embed_out"))
    files = []
    for adapter in (run / "adapter", older):
        merged = lab.folder / f"{adapter.parent.name}-{adapter.name}-merged"
        lab.report("merge", "--model", lab.model("gpt-neox"), "--adapter", adapter, "--dtype", "fp32", "--output", merged)
        files.append(read_safetensors(merged / "model.safetensors"))
    assert_equal(files[0], files[1])
    assert list(files[0]["embed_out.weight"].values) == list(tensors["base_model.model.lm_head.weight"].values)


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
    for module in ("gate_proj", "up_proj"):  # their products overflow
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
    (run / "checkpoints/step-000004/optimizer.safetensors").unlink()  # a merge does not read it
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
    assert "already exists" in said, said
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
    # An adapter named beside its model needs the choice, too, if its run says what it was trained
    # on.
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
    # It is evaluated as it was trained: activations are in 8 bits, too.
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


CASES = [
    merged_weights_follow_the_formulas,
    a_tied_head_is_untied_where_one_of_the_two_was_trained,
    whole_embeddings_that_no_setting_names_are_the_files,
    the_head_of_gpt_neox_has_the_name_of_transformers_5_and_is_read_under_both,
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
]
