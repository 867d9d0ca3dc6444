"""What an adapter brings with it, to an evaluation and to a run that starts from it."""
import json
import subprocess

from lab import Lab, MODEL


def an_adapter_means_what_its_config_says(lab: Lab):
    # Reads back its own excluded modules. A run is evaluated as trained; its parts are evaluated in fp32.
    lab.job["train"]["precision"] = "fp32"
    lab.run(adapter={"exclude_modules": ["layers.0.self_attn.q_proj", "down_proj"]})
    lab.evaluate("--model", str(MODEL), "--adapter", str(lab.folder / "run" / "adapter"))
    # As PEFT writes all-linear with exclusions: both lists name the excluded path.
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


def an_adapter_starts_with_its_own_scale(lab: Lab):
    lab.run(name="first")
    start = {"init_from": str(lab.folder / "first" / "adapter")}
    said = lab.run(name="second", adapter=start | {"alpha": 16}, code=3)
    assert "adapter.alpha: is 16.0, the adapter in" in said and "has 8.0" in said, said
    lab.run(name="third", adapter=start)
    # What the job does not state comes from the adapter.
    lab.job["adapter"] = {"type": "lora"} | start
    lab.run(name="fourth")
    assert lab.adapter("fourth") == lab.adapter("third")
