"""Encoder-decoders through the commands: continued runs, answers, merges, and what is refused."""
import json
import shutil
import subprocess
import sys
from pathlib import Path

from lab import Lab, ROOT

sys.path.insert(0, str(ROOT / "tests" / "fixtures"))
import variants  # noqa: E402

SOURCES = ROOT / "tests" / "parity" / "goldens" / "tiny-sources.jsonl"


def set_up(lab: Lab, variant: str, adapter: dict | None = None) -> None:
    """Sets the lab's job up for an encoder-decoder."""
    model = lab.folder / variant
    variants.write_variant(variant, model)
    (lab.folder / "train.jsonl").write_text("\n".join(SOURCES.read_text().splitlines()[:48]) + "\n")
    lab.job |= {"model": {"path": str(model)}, "adapter": adapter or {"type": "lora", "rank": 4, "target_modules": "all-linear"},
                "eval": {"samples": 1}}


def call(lab: Lab, *arguments: str, code: int = 0) -> str:
    done = subprocess.run([lab.forge, *map(str, arguments)], capture_output=True, text=True, timeout=120)
    said = done.stdout + done.stderr
    assert done.returncode == code, f"exit {done.returncode}, expected {code}:\n{said[-2000:]}"
    return said


def an_encoder_decoder_goes_on_where_it_stopped(lab: Lab):
    for variant, adapter in (("t5", {"type": "lora", "rank": 4, "dropout": 0.2, "target_modules": ["q", "v"]}), ("bart", {"type": "none"})):
        set_up(lab, variant, adapter)
        lab.run(name=f"{variant}-whole")
        name = f"{variant}-run"
        lab.run(name=name)
        run = lab.folder / name
        result = "adapter/adapter_model.safetensors" if adapter["type"] == "lora" else "model/model.safetensors"
        whole = (lab.folder / f"{variant}-whole" / result).read_bytes()
        assert (run / result).read_bytes() == whole
        # The run is as a kill after the second checkpoint leaves it.
        (run / "report.json").unlink()
        shutil.rmtree((run / result).parent)
        shutil.rmtree(run / "checkpoints/step-000012")
        assert "step 8" in lab.run(name=name)
        assert (run / result).read_bytes() == whole, "the continued run ends elsewhere"
        assert lab.losses(name) == lab.losses(f"{variant}-whole")


def an_encoder_decoder_answers_and_is_merged(lab: Lab):
    set_up(lab, "bart")
    lab.run(train={"max_steps": 6})
    adapter = json.loads((lab.folder / "run/adapter/adapter_config.json").read_text())
    assert adapter["task_type"] == "SEQ_2_SEQ_LM", adapter
    assert "AutoPeftModelForSeq2SeqLM" in (lab.folder / "run/adapter/README.md").read_text()
    answer = call(lab, "generate", lab.folder / "run", "--prompt", "the first text", "--max-new-tokens", "6", "--precision", "fp32", "--json")
    call(lab, "merge", lab.folder / "run", "--output", lab.folder / "merged", "--dtype", "fp32")
    merged = call(lab, "generate", "--model", lab.folder / "merged", "--prompt", "the first text", "--max-new-tokens", "6", "--json")
    assert json.loads(answer)["text"] == json.loads(merged)["text"] and json.loads(answer)["tokens"] == 6
    (lab.folder / "asked.jsonl").write_text(json.dumps({"prompt": "the first text", "reference": json.loads(answer)["text"]}) + "\n")
    said = call(lab, "eval", lab.folder / "run", "--task", "answers", "--data", lab.folder / "asked.jsonl", "--max-new-tokens", "6", "--precision",
                "fp32", "--json")
    assert json.loads(said)["exact_match"] == 1, said


def what_an_encoder_decoder_cannot_do_is_said(lab: Lab):
    set_up(lab, "t5")
    shown = lab.run(command="plan")
    assert "2 encoder and 3 decoder layers" in shown and "fused" in shown, shown
    for sections, said in (
        ({"objective": {"type": "sft", "train_on": "all"}}, "the encoder's source is read and not predicted"),
        ({"objective": {"type": "pretrain"}}, "which pretrain does not train"),
        ({"objective": {"type": "dpo"}}, "which dpo does not train"),
        ({"data": {"overlong": "split"}}, "cannot be split into pairs"),
        ({"data": {"template": "chatml"}}, "reads text as it is"),
        ({"train": {"neftune_alpha": 5}}, "noise is not defined"),
        ({"adapter": {"modules_to_save": ["lm_head"]}}, "one shared table of embeddings"),
        ({"adapter": {"target_modules": ["q", "shared"]}}, "one shared table of embeddings"),
        ({"adapter": {"layers_to_transform": [0]}}, "do not say whether the encoder's or the decoder's"),
    ):
        found = lab.run(command="plan", code=3, **sections)
        assert said in found, (sections, found)
    (lab.folder / "train.jsonl").write_text('{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}\n')
    found = lab.run(command="plan", code=3, data={"train": [{"path": str(lab.folder / "train.jsonl")}]})
    assert "rows of messages, but the model is an encoder-decoder" in found, found
    model = lab.folder / "t5"
    for command in (["chat", "--model", model], ["eval", "--model", model, "--task", "choices", "--data", SOURCES]):
        assert "is an encoder-decoder" in call(lab, *command, code=2), command
    assert "forge writes no GGUF of t5" in call(lab, "export", "--model", model, "--gguf", "--output", lab.folder / "gguf", code=3)


def a_bias_of_the_logits_is_refused_unless_it_is_zero(lab: Lab):
    set_up(lab, "bart")
    path = lab.folder / "bart/model.safetensors"
    tensors = variants.read_safetensors(path)
    shape_of = next(iter(tensors.values()))
    for value, code in ((0.0, 0), (0.5, 5)):
        bias = type(shape_of)([1, 384], [value] * 384)
        variants.write_safetensors(path, tensors | {"final_logits_bias": bias})
        said = lab.run("--fresh", code=code, train={"max_steps": 1})
        assert code == 0 or "final_logits_bias is not zero" in said, said
    # transformers' class has the buffer, so a whole result has it too: full, and merged from a base
    # that has it.
    variants.write_safetensors(path, tensors | {"final_logits_bias": type(shape_of)([1, 384], [0.0] * 384)})
    lab.run("--fresh", name="part", train={"max_steps": 1})
    lab.job["adapter"] = {"type": "none"}
    lab.run("--fresh", name="whole", train={"max_steps": 1})
    call(lab, "merge", lab.folder / "part", "--output", lab.folder / "merged")
    for result in (lab.folder / "whole/model", lab.folder / "merged"):
        bias = variants.read_safetensors(result / "model.safetensors")["final_logits_bias"]
        assert list(bias.shape) == [1, 384] and set(bias.values) == {0.0}, result
