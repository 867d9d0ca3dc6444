"""Files and snippets for Ollama, vLLM, PEFT and their readers."""
import json
import shutil

from lab import SHAPES, Lab, changed_settings
from serving_formats import parse_modelfile, render_go_template, vllm_faults
from tensors import read_safetensors, write_safetensors


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
                 "pattern": {"adapter": {"type": "lora", "rank": 4, "alpha_pattern": {"q_proj": 16}}},
                 "ranks": {"adapter": {"type": "lora", "rank": 4, "rank_pattern": {"q_proj": 8}}},
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


def a_pattern_that_names_no_module_concerns_nobody(lab: Lab):
    adapter = lab.folder / "pattern-of-nothing"
    shutil.copytree(lab.run("m-plain") / "adapter", adapter)
    path = adapter / "adapter_config.json"
    config = json.loads(path.read_text())
    for pattern, loads in (({"no_module": 16}, True), ({"q_proj": config["lora_alpha"]}, False)):
        path.write_text(json.dumps(config | {"alpha_pattern": pattern}))
        assert (lab.report("adapter", "check", adapter)["loads"]["vLLM"] is True) == loads, pattern
    path.write_text(json.dumps(config | {"base_model_name_or_path": "base.gguf"}))
    assert "GGUF" in lab.report("adapter", "check", adapter)["loads"]["vLLM"]


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
    assert "the fit was not checked" in lab.call("adapter", "check", adapter)
    (repository / "refs").mkdir(parents=True)
    (repository / "refs/main").write_text("0" * 40)
    shutil.copytree(lab.model(), repository / "snapshots" / ("0" * 40))
    for named in ([], ["--model", "org/tiny"]):
        said = lab.call("adapter", "check", adapter, *named, environment={"HF_HUB_CACHE": str(lab.folder / "hub")})
        assert "the fit was not checked" not in said and "loads in forge      yes" in said, said


def readmes_name_what_they_are_for(lab: Lab):
    text = (lab.run("m-plain") / "adapter" / "README.md").read_text()
    for part in ("AutoPeftModelForCausalLM", "vllm serve", "--max-lora-rank 8", "forge export . --gguf", "ollama create", "AMX", "`--no-repack` to `llama-cli`"):
        assert part in text, part
    assert "merge it first" in (lab.run("m-dora", adapter=SHAPES["dora"]) / "adapter" / "README.md").read_text()


CASES = [
    ollama_gets_the_chat_template_in_its_words,
    a_broken_template_is_named_by_its_file,
    a_modelfile_keeps_to_ollamas_grammar,
    vllm_reads_what_readmes_say,
    a_pattern_that_names_no_module_concerns_nobody,
    adapters_are_told_what_loads_them,
    a_base_in_the_hubs_cache_is_at_hand,
    readmes_name_what_they_are_for,
]
