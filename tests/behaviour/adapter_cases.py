"""Settings that an adapter brings to an evaluation and to a run that starts from it."""
import json
import shutil
import subprocess
import sys

from lab import Lab, MODEL, ROOT

sys.path.insert(0, str(ROOT / "tests" / "fixtures"))
import variants  # noqa: E402


def an_adapter_means_what_its_config_says(lab: Lab):
    # The run reads back its own excluded modules. A run is evaluated as trained; its parts are
    # evaluated in fp32.
    lab.job["train"]["precision"] = "fp32"
    lab.run(adapter={"exclude_modules": ["layers.0.self_attn.q_proj", "down_proj"]})
    lab.evaluate("--model", str(MODEL), "--adapter", str(lab.folder / "run" / "adapter"))
    # PEFT writes all-linear with exclusions so: both lists name the excluded path.
    adapter = lab.changed_adapter(target_modules=["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"])
    assert lab.evaluate("--model", str(MODEL), "--adapter", adapter) == lab.evaluate(str(lab.folder / "run"))
    # PEFT subtracts the initial value of these from the base when loading them.
    adapter = lab.changed_adapter(init_lora_weights="pissa")
    said = lab.evaluate("--model", str(MODEL), "--adapter", adapter, code=5)
    assert 'init_lora_weights is "pissa"' in said, said
    said = lab.evaluate("--model", str(MODEL), "--adapter", lab.changed_adapter(a_setting_of_tomorrow=3), code=5)
    assert "a_setting_of_tomorrow is set, which forge does not support" in said, said


def an_evaluation_says_its_precision(lab: Lab):
    lab.run(train={"precision": "bf16"})
    run, data = str(lab.folder / "run"), ["--data", str(lab.folder / "eval.jsonl")]
    parts = ["--model", str(MODEL), "--adapter", run + "/adapter"]

    def told(*what: str) -> tuple:
        both = [subprocess.run([lab.forge, "eval", *what, *data, *options], capture_output=True, text=True, check=True)
                for options in ([], ["--json"])]
        answer = json.loads(both[1].stdout)
        assert f"precision {answer['precision']}: {answer['precision_reason']}\n" in both[0].stderr, both[0].stderr
        return answer["precision"], answer["precision_reason"], answer["loss"]

    assert told(run)[:2] == ("bf16", "as the run was trained")
    assert told(*parts)[:2] == ("fp32", "the default without a run")
    assert told(*parts, "--precision", "bf16")[1:] == ("--precision", told(run)[2])


def an_adapter_brings_its_chat_template(lab: Lab):
    rows = lab.folder / "chats.jsonl"
    turns = [{"role": "user", "content": "one"}, {"role": "assistant", "content": "two"}]
    rows.write_text(json.dumps({"messages": turns}) + "\n")
    lab.job["train"]["precision"] = "fp32"  # the precision of an evaluation without a run
    lab.run(data={"train": str(rows), "template": "llama3", "template_variables": {"bos_token": "begin"}},
            allow="foreign_template")

    def told(*what: str) -> str:
        return subprocess.run([lab.forge, "eval", *what, "--data", str(rows), "--quiet"],
                              capture_output=True, text=True, check=True).stdout

    beside = ["--model", str(MODEL), "--adapter", str(lab.folder / "run" / "adapter")]
    assert told(*beside) == told(str(lab.folder / "run"))
    assert told(*beside) != told(*beside, "--template", "llama3")


def an_adapter_is_asked_as_it_was_trained(lab: Lab):
    rows = lab.folder / "pairs.jsonl"
    rows.write_text('{"prompt": "the river is", "completion": " cold and long"}\n' * 8)
    lab.run(data={"train": [{"path": str(rows)}]}, train={"max_steps": 2})
    chats = lab.folder / "chats.jsonl"
    turns = [{"role": "user", "content": "the river is"}, {"role": "assistant", "content": "cold and long"}]
    chats.write_text((json.dumps({"messages": turns}) + "\n") * 8)
    lab.run(name="turns", data={"train": [{"path": str(chats)}]}, train={"max_steps": 2})

    def asked(name: str, *options: str) -> tuple:
        done = subprocess.run([lab.forge, "generate", str(lab.folder / name), "--prompt", "the river is", "--max-new-tokens", "8", "--json", *options],
                              capture_output=True, text=True, check=True)
        answer = json.loads(done.stdout.splitlines()[-1])
        return answer["text"], " ".join(answer.get("warnings", []))

    text, said = asked("run")
    assert text == asked("run", "--raw")[0] and "prompts are continued as texts, as in training" in said, (text, said)
    assert "continued as texts" not in asked("run", "--template", "auto")[1]
    text, said = asked("turns")
    assert text == asked("turns", "--template", "auto")[0] and "continued as texts" not in said, (text, said)


def the_first_pattern_of_a_job_that_matches_counts(lab: Lab):
    lab.run(adapter={"target_modules": ["q_proj", "k_proj"], "rank_pattern": {"q_proj": 2, "layers.0..*": 6}}, train={"max_steps": 1})
    pattern = json.loads((lab.folder / "run" / "plan.json").read_text())["job"]["adapter"]["rank_pattern"]
    assert list(pattern) == ["q_proj", "layers.0..*"], pattern
    tensors = variants.read_safetensors(lab.folder / "run/adapter/adapter_model.safetensors")
    ranks = {name.split("layers.")[1].removesuffix(".lora_A.weight"): tensor.shape[0] for name, tensor in tensors.items() if name.endswith("lora_A.weight")}
    assert ranks["0.self_attn.q_proj"] == ranks["1.self_attn.q_proj"] == 2, ranks
    assert ranks["0.self_attn.k_proj"] == 6 and ranks["1.self_attn.k_proj"] == 4, ranks


def an_adapter_starts_with_its_own_scale(lab: Lab):
    lab.run(name="first")
    start = {"init_from": str(lab.folder / "first" / "adapter")}
    said = lab.run(name="second", adapter=start | {"alpha": 16}, code=3)
    assert "adapter.alpha: is 16.0, the adapter in" in said and "has 8.0" in said, said
    lab.run(name="third", adapter=start)
    # Settings that the job does not state come from the adapter.
    lab.job["adapter"] = {"type": "lora"} | start
    lab.run(name="fourth")
    assert lab.adapter("fourth") == lab.adapter("third")


EVA = {"init": "eva", "eva": {"tau": 0.9}}


def eva_starts_from_what_the_layers_read(lab: Lab):
    said = lab.run(name="eva", adapter=EVA)
    assert "init: eva has looked at" in said, said
    lab.run(name="again", adapter=EVA)
    assert lab.adapter("eva") == lab.adapter("again")
    lab.run(name="default")
    assert lab.adapter("eva") != lab.adapter("default")
    # Equal data give an equal start, whatever is trained: the first A, before a step has moved it.
    still = {"optimizer": {"learning_rate": 1e-30}, "train": {"max_steps": 1}}
    lab.run(name="first", adapter=EVA, **still)
    lab.run(name="more", adapter=EVA | {"alpha": 3}, **still)
    first, more = (variants.read_safetensors(lab.folder / name / "adapter/adapter_model.safetensors") for name in ("first", "more"))
    assert all(first[name] == more[name] for name in first if "lora_A" in name)
    report = lab.report("eva")["memory"]
    assert report["measured_peak_bytes"] <= report["predicted_peak_bytes"], report


def eva_is_not_done_again_by_a_run_that_goes_on(lab: Lab):
    lab.run(name="whole", adapter=EVA)
    lab.run(adapter=EVA, train={"max_steps": 8}, schedule={"type": "constant"})
    said = lab.run("--extend", adapter=EVA, schedule={"type": "constant"})
    assert "init: eva" not in said, said
    lab.run(name="constant", adapter=EVA, schedule={"type": "constant"})
    assert lab.adapter() == lab.adapter("constant")


def eva_says_what_it_cannot_look_at(lab: Lab):
    said = lab.run(adapter=EVA | {"rank": 32}, code=6, data={"train": [{"path": str(lab.folder / "train.jsonl"), "format": "tokens", "limit": 1}]},
                   train={"max_steps": 1, "global_batch_size": 1})
    assert "no micro-batch has the 32 tokens" in said and "use_label_mask" in said, said
    said = lab.run(adapter=EVA | {"rank": 33}, code=3)
    assert "finds 32 directions" in said, said
    said = lab.run(adapter=EVA, objective={"type": "grpo"}, rewards=[{"type": "exact"}], train={"max_steps": 1, "global_batch_size": None}, code=3)
    assert "are prompts" in said, said


def biases_of_the_whole_model_are_trained(lab: Lab):
    lab.job["train"]["precision"] = "fp32"
    lab.job["model"]["path"] = model = str(variants.write_variant("gpt-neox", lab.folder / "gpt-neox"))
    some = {"target_modules": ["query_key_value"]}
    lab.run(name="none", adapter=some)
    lab.run(adapter=some | {"bias": "all"})
    names = variants.read_safetensors(lab.folder / "run/adapter/adapter_model.safetensors").keys()
    biases = {name.removeprefix("base_model.model.gpt_neox.") for name in names if name.endswith("bias")}
    assert {"final_layer_norm.bias", "layers.1.mlp.dense_4h_to_h.bias", "layers.0.attention.query_key_value.base_layer.bias"} <= biases, biases
    assert lab.losses() != lab.losses("none")
    run = str(lab.folder / "run")
    assert lab.evaluate(run) == lab.evaluate("--model", model, "--adapter", run + "/adapter")
    lab.run(name="on", adapter={"type": "lora", "init_from": run + "/adapter", "rank": None, "alpha": None})
    said = lab.run(name="saved", code=3, adapter=some | {"bias": "all", "modules_to_save": ["final_layer_norm"]})
    assert "twice" in said, said


def tokens_are_added_beside_a_length_past_64_bits(lab: Lab):
    """The file is as transformers writes it: the usual length, and the added tokens a second time.
    """
    model = lab.folder / "model"
    shutil.copytree(MODEL, model)
    length = 1000000000000000019884624838656
    path = model / "tokenizer_config.json"
    config = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps(config | {"model_max_length": length, "added_tokens_decoder": {}}))
    (lab.folder / "rows.jsonl").write_text('{"prompt": "one", "completion": " <new> two"}\n' * 8)
    lab.run(model={"path": str(model), "add_tokens": ["<new>"]}, data={"train": [{"path": str(lab.folder / "rows.jsonl")}]},
            train={"max_steps": 2})
    written = json.loads((lab.folder / "run/adapter/tokenizer_config.json").read_text())
    assert written["model_max_length"] == length, written
    assert [token["content"] for token in written["added_tokens_decoder"].values()][-1] == "<new>", written
    # Plan reports what cannot be written, before the run trains.
    path.write_text(json.dumps(config | {"added_tokens_decoder": 7}))
    said = lab.run(name="other", command="plan", code=5, model={"path": str(model), "add_tokens": ["<new>"]},
                   data={"train": [{"path": str(lab.folder / "rows.jsonl")}]})
    assert "added_tokens_decoder" in said, said


def a_class_that_cuts_otherwise_is_told(lab: Lab):
    """The tiny model's tokenizer is of bytes; LlamaTokenizer is for SentencePiece's."""
    model = lab.folder / "model"
    shutil.copytree(MODEL, model)
    path = model / "tokenizer_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"tokenizer_class": "LlamaTokenizer"}))
    said = lab.run(command="plan", model={"path": str(model)})
    assert "transformers 5 opens it as LlamaTokenizer" in " ".join(said.split()), said
    assert "opens it as" not in lab.run(command="plan"), said
