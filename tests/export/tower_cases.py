"""Language models of classes with towers: trained, merged and exported as the same model alone,
with the towers left as they are.
"""
import json
import shutil
from pathlib import Path

from lab import ROWS, Lab
from tensors import read_safetensors
from towers import WRAPPINGS, read_raw, tower_tensors, wrapped_name, write_raw, write_towers

VARIANTS = list(WRAPPINGS)  # Gemma 3 is tied, the others have a head of their own


def base(lab: Lab, variant: str, older_names: bool) -> Path:
    folder = lab.folder / "models" / f"{variant}-towers-{'older' if older_names else 'current'}"
    return folder if folder.exists() else write_towers(variant, folder, older_names)


def each(lab: Lab):
    for variant in VARIANTS:
        for older_names in (True, False):
            yield variant, older_names, base(lab, variant, older_names)


def stored(folder: Path) -> dict:
    return {name: tensor for path in sorted(folder.glob("*.safetensors")) for name, tensor in read_raw(path).items()}


def renamed(variant: str, tensors: dict, older_names: bool) -> dict:
    return {wrapped_name(variant, name, older_names): tensor for name, tensor in tensors.items()}


def losses(run: Path) -> list[float]:
    events = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [event["loss"] for event in events if event["event"] == "step"]


def start(lab: Lab, variant: str, older_names: bool | None) -> Path:
    """Writes a trained adapter of the model alone, or the same under the names that PEFT has for it
    among towers.
    """
    alone = lab.run(f"t-start-{variant}", variant) / "adapter"
    if older_names is None:
        return alone
    folder = lab.folder / f"t-start-{variant}-{'older' if older_names else 'current'}"
    if not folder.exists():
        shutil.copytree(alone, folder)
        tensors = read_raw(folder / "adapter_model.safetensors")
        inside = f"model.{WRAPPINGS[variant].inside[0 if older_names else 1]}layers."
        write_raw(folder / "adapter_model.safetensors",
                  {name.replace("model.model.layers.", inside): tensor for name, tensor in tensors.items()})
    return folder


def adapted(lab: Lab, variant: str, older_names: bool) -> tuple[Path, Path]:
    """Returns runs of the model alone and among towers, from the same adapter."""
    alone = lab.run(f"t-alone-{variant}", variant, adapter={"init_from": str(start(lab, variant, None)), "rank": 4, "alpha": 8})
    name = f"t-{variant}-{'older' if older_names else 'current'}"
    inside = lab.run(name, variant, model={"path": str(base(lab, variant, older_names))},
                     adapter={"init_from": str(start(lab, variant, older_names)), "rank": 4, "alpha": 8})
    return alone, inside


def an_adapter_is_trained_as_that_of_the_model_alone(lab: Lab):
    for variant, older_names, _ in each(lab):
        alone, inside = adapted(lab, variant, older_names)
        assert losses(inside) == losses(alone), (losses(inside), losses(alone))
        want = {name.replace("model.model.layers.", "model.model.language_model.layers."): tensor
                for name, tensor in stored(alone / "adapter").items()}
        assert stored(inside / "adapter") == want, sorted(stored(inside / "adapter"))[:2]
        config = json.loads((inside / "adapter" / "adapter_config.json").read_text())
        assert config["exclude_modules"] == rf"(.*\.)?({WRAPPINGS[variant].excluded})\..*", config


def a_merge_writes_the_whole_checkpoint(lab: Lab):
    for variant, older_names, model in each(lab):
        alone, inside = adapted(lab, variant, older_names)
        lab.call("merge", alone, "--dtype", "fp32", "--fresh")
        lab.call("merge", inside, "--dtype", "fp32", "--max-shard-size", "0.0001", "--fresh")
        merged = inside / "merged"
        assert stored(merged) == renamed(variant, stored(alone / "merged"), older_names) | tower_tensors(variant, older_names)
        index = json.loads((merged / "model.safetensors.index.json").read_text())
        assert index["weight_map"].keys() == stored(model).keys()
        assert index["metadata"]["total_size"] == sum(len(raw) for _, _, raw in stored(merged).values())
        before, after = (json.loads((folder / "config.json").read_text()) for folder in (model, merged))
        assert after.pop("tie_word_embeddings") is (variant == "gemma3")
        if "text_config" in before:
            assert after["text_config"].pop("tie_word_embeddings") is (variant == "gemma3")
        before.pop("tie_word_embeddings", None)
        assert after == before, (before, after)
        assert (merged / "chat_template.json").read_bytes() == (model / "chat_template.json").read_bytes()
        assert (merged / "preprocessor_config.json").read_bytes() == (model / "preprocessor_config.json").read_bytes()
        lab.call("merge", "--model", merged, "--output", merged.parent / "again", "--dtype", "bf16")
        towers = tower_tensors(variant, older_names)
        assert {name: tensor for name, tensor in stored(merged.parent / "again").items() if name in towers} == towers


def a_full_result_is_the_whole_checkpoint(lab: Lab):
    for variant, older_names, model in each(lab):
        alone = lab.run(f"t-full-{variant}", variant, adapter={"type": "none"})
        inside = lab.run(f"t-full-{variant}-{older_names}", variant, model={"path": str(model)}, adapter={"type": "none"})
        assert stored(inside / "model") == renamed(variant, stored(alone / "model"), older_names) | tower_tensors(variant, older_names)
        assert (inside / "model" / "preprocessor_config.json").exists()
        checkpoint = sorted((inside / "checkpoints").glob("*"))[0]
        weights = read_raw(checkpoint / "model.safetensors")
        assert tower_tensors(variant, False).items() <= weights.items(), sorted(weights)
        lab.call("merge", checkpoint, "--output", inside / "of-checkpoint", "--dtype", "fp32")
        assert tower_tensors(variant, False).items() <= stored(inside / "of-checkpoint").items()


def a_gguf_holds_the_language_model(lab: Lab):
    for variant, older_names, _ in each(lab):
        if variant in ("gemma3", "qwen2-window"):  # a GGUF cannot express its windows and scale; has a name of its own
            continue
        alone, inside = adapted(lab, variant, older_names)
        for kind in ("--gguf", "--gguf-lora"):
            if kind == "--gguf-lora" and not older_names:
                continue
            files = []
            for run in (alone, inside):
                lab.call("export", run, kind, "--type", "f32", "--name", "tiny", "--output", run / "out", "--fresh", "--no-check")
                files += [path.read_bytes() for path in (run / "out").glob("*.gguf")]
            assert files[0] == files[1], (variant, kind, len(files[0]), len(files[1]))


def a_plan_needs_config_json_alone_and_counts_the_language_model(lab: Lab):
    for variant, older_names, model in each(lab):
        folder = lab.folder / "models" / f"{model.name}-config"
        folder.mkdir(exist_ok=True)
        for name in ("config.json", "tokenizer.json", "tokenizer_config.json"):
            shutil.copyfile(model / name, folder / name)
        job = lab.folder / "towers-plan.json"
        job.write_text(json.dumps({"version": 1, "model": {"path": str(folder)}, "adapter": {"type": "lora", "rank": 4},
                                   "data": {"train": [{"path": str(ROWS), "format": "tokens"}]}, "train": {"max_steps": 1}}))
        said = lab.call("plan", job)
        assert "only the language model is trained" in said, said
        counted = json.loads(lab.call("plan", job, "--json"))["parameters"]["total"]
        wanted = sum(len(tensor.values) for tensor in read_safetensors(lab.model(variant) / "model.safetensors").values())
        assert counted - 4 * sum(shape_sum(lab.model(variant))) == wanted, (counted, wanted)


def shape_sum(model: Path):
    """Returns the sum of inputs and outputs of every linear layer but the head."""
    for name, tensor in read_safetensors(model / "model.safetensors").items():
        if "_proj" in name and name.endswith(".weight"):
            yield sum(tensor.shape)


def files_that_are_not_whole_are_refused(lab: Lab):
    for variant, older_names, model in each(lab):
        folder = lab.folder / "models" / f"{model.name}-broken"
        shutil.copytree(model, folder)
        job = lab.folder / "broken-towers.json"
        job.write_text(json.dumps({"version": 1, "model": {"path": str(folder)}, "adapter": {"type": "lora", "rank": 4},
                                   "data": {"train": [{"path": str(ROWS), "format": "tokens"}]}, "train": {"max_steps": 1}}))
        tensors = read_raw(model / "model.safetensors")
        towers = tower_tensors(variant, older_names)
        write_raw(folder / "model.safetensors", {name: tensor for name, tensor in tensors.items() if name not in towers})
        said = lab.call("plan", job, code=5)
        tower = next(iter(WRAPPINGS[variant].towers)).split(".")[0]
        assert f"no tensor of {tower}, which a " in said, said
        # The language model alone: its names are those of no generation of the class, or its towers
        # are missing.
        write_raw(folder / "model.safetensors", read_raw(lab.model(variant) / "model.safetensors"))
        said = lab.call("plan", job, code=5)
        assert "the weights and config.json belong to different models" in said, said


def rows_with_an_image_and_score_heads_are_refused(lab: Lab):
    model = base(lab, "gemma3", True)
    rows = lab.folder / "images.jsonl"
    parts = [{"type": "image", "url": "cat.png"}, {"type": "text", "text": "What is this?"}]
    rows.write_text(json.dumps({"messages": [{"role": "user", "content": parts}, {"role": "assistant", "content": "A cat."}]}) + "\n")
    job = {"version": 1, "model": {"path": str(model)}, "adapter": {"type": "lora"}, "data": {"train": [{"path": str(rows)}]},
           "train": {"max_steps": 1}}
    path = lab.folder / "images.json"
    path.write_text(json.dumps(job))
    said = lab.call("plan", path, code=6)
    assert 'a part of type "image", expected text parts only' in said, said
    path.write_text(json.dumps(job | {"objective": {"type": "reward"}}))
    said = lab.call("plan", path, code=3)
    assert "reward puts a score head on a language model" in said, said


CASES = [an_adapter_is_trained_as_that_of_the_model_alone, a_merge_writes_the_whole_checkpoint, a_full_result_is_the_whole_checkpoint,
         a_gguf_holds_the_language_model, a_plan_needs_config_json_alone_and_counts_the_language_model,
         files_that_are_not_whole_are_refused, rows_with_an_image_and_score_heads_are_refused]
