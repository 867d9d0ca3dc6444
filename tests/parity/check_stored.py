#!/usr/bin/env python3
"""Trains on checkpoints as quantisers store them, and compares with the same model decoded by their
own libraries.

    python tests/parity/check_stored.py build/bin/forge [--only NAME …]     # needs the libraries of make_stored_goldens.py

For each form the tiny model is written in codes, and again with what the codes stand for. forge
trains an adapter on both: losses and adapters are equal bit for bit, and so are the merged models.
A base of bitsandbytes in nf4 and fp4 is also trained in forge's own nf4 and fp4, without decoding:
equal to forge's quantisation of the original, whose blocks are bitsandbytes' own. The plan's memory
is compared with the measured. Files that do not fit are refused with exit 5, and nothing is loaded.
"""
import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests/parity"), str(ROOT / "tests/fixtures")]
import cases  # noqa: E402
import forge_run  # noqa: E402
import make_stored_goldens as stored  # noqa: E402
import variants  # noqa: E402
from tally import Tally  # noqa: E402

TINY = ROOT / "tests/fixtures/tiny-llama"
GOLDENS = ROOT / "tests/parity/goldens"
LORA = {"type": "lora", "rank": 4, "alpha": 8, "target_modules": "all-linear"}
SKIPPED = ["lm_head", "model.layers.1.mlp", "layers.2.self_attn.q_proj"]
LOW, HIGH = 1.00, 1.10  # as bench/memory/run.py


def is_coded(name: str, tensor: torch.Tensor) -> bool:
    return ".layers." in name and tensor.dim() == 2 and ".router." not in name


def skipped(name: str) -> bool:
    module = name.removesuffix(".weight")
    return any(module.startswith(entry) or module.endswith(entry) for entry in SKIPPED)


def bnb_4bit(kind: str, nested: bool, skips: bool = False):
    """Returns a function from a matrix to its tensors in codes and what they stand for."""
    import bitsandbytes.functional as F

    def one(name: str, weight: torch.Tensor):
        if skips and skipped(name):
            return {name: weight}, weight
        codes, state = F.quantize_4bit(weight, quant_type=kind, compress_statistics=nested)
        parts = {name: codes} | {f"{name}.{part}": tensor for part, tensor in state.as_dict(packed=True).items()}
        return parts, stored.decoded_4bit(codes, state)
    config = {"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_quant_type": kind,
              "bnb_4bit_use_double_quant": nested, "llm_int8_skip_modules": SKIPPED if skips else None}
    return config, one


def bnb_8bit():
    import bitsandbytes.functional as F

    def one(name: str, weight: torch.Tensor):
        codes, scales, _ = F.int8_vectorwise_quant(weight.to(torch.float16))
        stem = name.removesuffix(".weight")
        parts = {name: codes, f"{stem}.SCB": scales, f"{stem}.weight_format": torch.tensor(0, dtype=torch.uint8)}
        return parts, F.int8_vectorwise_dequant(codes, scales)
    return {"quant_method": "bitsandbytes", "load_in_8bit": True}, one


def fp8_tensor():
    def one(name: str, weight: torch.Tensor):
        scale = weight.abs().max() / 448
        codes = (weight / scale).to(torch.float8_e4m3fn)
        parts = {name: codes, f"{name}_scale": scale, name.replace(".weight", ".input_scale"): torch.tensor(1.0)}
        return parts, codes.float() * scale
    return {"quant_method": "fp8", "activation_scheme": "static"}, one


def compressed(form: str):
    arguments, packed = stored.COMPRESSED[form]
    arguments = {key: 8 if key == "group_size" else [12, 8] if key == "block_structure" else value for key, value in arguments.items()}

    def one(name: str, weight: torch.Tensor):
        held, decoded = stored.compressed_matrix(weight.to(torch.bfloat16), arguments, packed)
        return {name.removesuffix("weight") + part: tensor.contiguous() for part, tensor in held.items()}, decoded
    group = {"targets": ["Linear"], "weights": arguments, "input_activations": None}
    config = {"quant_method": "compressed-tensors", "format": "pack-quantized" if packed else "naive-quantized",
              "quantization_status": "compressed", "ignore": ["lm_head"], "config_groups": {"group_0": group}}
    return config, one


def gptq():
    group = 8
    layers = {}

    def one(name: str, weight: torch.Tensor):
        out, inputs = weight.shape
        layer = stored.file_of("auto_gptq", "nn_modules/qlinear/qlinear_cuda.py").QuantLinear(4, group, inputs, out, False)
        layers[name] = layer
        seed = len(layers)
        layer.qweight = stored.random_words(inputs // 8, out, seed=seed)
        layer.qzeros = stored.random_words(inputs // group, out // 8, seed=seed + 100)
        layer.scales = stored.random_scales(inputs // group, out, seed=seed)
        layer.g_idx = (torch.arange(inputs) // group)[torch.randperm(inputs)].to(torch.int32)
        parts = {part: getattr(layer, part) for part in ("qweight", "qzeros", "scales", "g_idx")}
        decoded = layer(torch.eye(inputs, dtype=torch.float16)).t().contiguous()
        return {name.removesuffix("weight") + part: tensor for part, tensor in parts.items()}, decoded
    return {"quant_method": "gptq", "bits": 4, "group_size": group, "desc_act": True, "sym": False,
            "checkpoint_format": "gptq"}, one


def awq():
    group = 8
    decode = stored.file_of("awq", "utils/packing_utils.py").dequantize_gemm

    def one(name: str, weight: torch.Tensor):
        out, inputs = weight.shape
        parts = {"qweight": stored.random_words(inputs, out // 8, seed=out), "qzeros": stored.random_words(inputs // group, out // 8, seed=1),
                 "scales": stored.random_scales(inputs // group, out, seed=out)}
        decoded = decode(**parts, bits=4, group_size=group).t().contiguous()
        return {name.removesuffix("weight") + part: tensor for part, tensor in parts.items()}, decoded
    return {"quant_method": "awq", "bits": 4, "group_size": group, "zero_point": True, "version": "gemm"}, one


FORMS = {"bnb-nf4": lambda: bnb_4bit("nf4", True), "bnb-nf4-plain": lambda: bnb_4bit("nf4", False),
         "bnb-fp4": lambda: bnb_4bit("fp4", False), "bnb-skips": lambda: bnb_4bit("nf4", True, skips=True),
         "bnb-nf4-experts": lambda: bnb_4bit("nf4", True), "bnb-int8": bnb_8bit, "fp8-tensor": fp8_tensor, "gptq": gptq, "awq": awq,
         **{f"ct-{form}": lambda form=form: compressed(form) for form in stored.COMPRESSED}}


# Variants of the tiny model that forms are made of, where it is not that model itself.
VARIANTS = {"bnb-nf4-experts": "llama4-apart"}


def base_of(form: str, root: Path) -> Path:
    """Returns the folder of the model that the form is made of."""
    if form not in VARIANTS:
        return TINY
    folder = root / VARIANTS[form]
    return folder if folder.exists() else variants.write_variant(VARIANTS[form], folder)


def write_models(form: str, root: Path) -> tuple[Path, Path]:
    """Writes the tiny model in codes, and what the codes stand for; returns both folders."""
    config, one = FORMS[form]()
    base = base_of(form, root)
    coded, decoded = root / form, root / f"{form}-decoded"
    state, plain = {}, {}
    for name, tensor in load_file(base / "model.safetensors").items():
        parts, value = one(name, tensor) if is_coded(name, tensor) else ({name: tensor}, tensor)
        state |= {key: part.contiguous() for key, part in parts.items()}
        plain[name] = value.float().contiguous()
    for folder, tensors in ((coded, state), (decoded, plain)):
        folder.mkdir()
        for file in base.iterdir():
            if file.name != "model.safetensors":
                shutil.copyfile(file, folder / file.name)
        save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    settings = json.loads((base / "config.json").read_text())
    (coded / "config.json").write_text(json.dumps(settings | {"quantization_config": config}))
    return coded, decoded


def job_of(name: str, base: Path, root: Path, model: dict | None = None) -> dict:
    case = cases.Case(name, cases.Settings(5e-3, 3), lora={"r": 1, "lora_alpha": 1, "target_modules": ""}, init_from=False)
    job = cases.job(case, name, base, GOLDENS, root / "runs") | {"adapter": LORA}
    job["model"] = job["model"] | (model or {})
    return job


def same_runs(what: str, one: dict, other: dict, root: Path, forge: str, tally: Tally) -> tuple:
    runs = [forge_run.run_job(forge, job, root) for job in (one, other)]
    equal = runs[0].losses == runs[1].losses and {n: list(t.values) for n, t in runs[0].tensors().items()} == {
        n: list(t.values) for n, t in runs[1].tensors().items()}
    tally.check(f"{what}: losses and adapters equal", equal, f"{runs[0].losses} {runs[1].losses}")
    return runs


def check_memory(what: str, run, tally: Tally) -> None:
    predicted = json.loads((run.folder / "plan.json").read_text())["memory"]["predicted_peak_bytes"]
    measured = json.loads((run.folder / "report.json").read_text())["memory"]["measured_peak_bytes"]
    tally.check(f"{what}: memory", LOW <= predicted / measured <= HIGH, f"predicted {predicted}, measured {measured}")


def check_form(form: str, root: Path, forge: str, tally: Tally) -> None:
    coded, decoded = write_models(form, root)
    runs = same_runs(form, job_of(form, coded, root), job_of(f"{form}-decoded", decoded, root), root, forge, tally)
    check_memory(form, runs[0], tally)
    merged = [root / f"{form}-merged-{i}" for i in range(2)]
    for run, folder in zip(runs, merged):
        forge_run.call(forge, "merge", run.folder / "adapter", "--output", folder, "--dtype", "fp32")
    tensors = [load_file(folder / "model.safetensors") for folder in merged]
    equal = tensors[0].keys() == tensors[1].keys() and all(torch.equal(tensors[0][n], tensors[1][n]) for n in tensors[0])
    tally.check(f"{form}: merged models equal", equal and "quantization_config" not in (merged[0] / "config.json").read_text(), "")
    if form.startswith("bnb-nf4") or form.startswith("bnb-fp4") or form == "bnb-skips":
        check_own(form, coded, decoded, root, forge, tally)


def check_own(form: str, coded: Path, decoded: Path, root: Path, forge: str, tally: Tally) -> None:
    """Compares forge's own blocks: of the file, and of the original, which forge quantises."""
    config = json.loads((coded / "config.json").read_text())["quantization_config"]
    kind, nested = config["bnb_4bit_quant_type"], config["bnb_4bit_use_double_quant"]
    model = {"quantization": kind, "double_quantization": nested}
    original = decoded if form == "bnb-skips" else base_of(form, root)
    if form == "bnb-skips":  # the original under the same list of modules
        original = root / "skips-original"
        shutil.copytree(TINY, original)
        settings = json.loads((coded / "config.json").read_text())
        (original / "config.json").write_text(json.dumps(settings))
    runs = same_runs(f"{form} in {kind}", job_of(f"{form}-own", coded, root, model),
                     job_of(f"{form}-original", original, root, model), root, forge, tally)
    check_memory(f"{form} in {kind}", runs[0], tally)
    other = job_of(f"{form}-other", coded, root, model | {"double_quantization": not nested})
    check_memory(f"{form} with nesting the other way", forge_run.run_job(forge, other, root), tally)
    merged = root / f"{form}-own-merged"
    forge_run.call(forge, "merge", runs[0].folder / "adapter", "--output", merged, "--base", "quantized")
    forge_run.call(forge, "merge", runs[1].folder / "adapter", "--output", f"{merged}-original", "--base", "quantized")
    tensors = [load_file(Path(folder) / "model.safetensors") for folder in (merged, f"{merged}-original")]
    worst = max(float((tensors[0][n].float() - tensors[1][n].float()).abs().max()) for n in tensors[0])
    tally.check(f"{form} in {kind}: merged with the quantised base", worst < 1e-6, f"{worst:.1e}")


def refusals(coded: Path, root: Path, forge: str, tally: Tally) -> None:
    """Checks that broken files are refused with exit 5, naming the tensor or file."""
    state = load_file(coded / "model.safetensors")
    name = next(key for key in state if key.endswith(".absmax"))
    file = (coded / "model.safetensors").read_bytes()
    layers = [key for key in state if ".layers.2.mlp.up_proj" in key]
    without = lambda *names: {key: tensor for key, tensor in state.items() if key not in names}
    broken = {
        "without scales": (without(name), name),
        "scales of another shape": (state | {name: state[name][:-1].clone()}, name),
        "a state cut": (state | {key: tensor[:20].clone() for key, tensor in state.items() if "quant_state" in key}, "quant_state"),
        "a layer's matrix missing": (without(*layers), "model.layers.2.mlp.up_proj.weight"),
        "cut": (file[:-1000], "cut off")}
    for what, (content, says) in broken.items():
        folder = root / ("broken " + what)
        shutil.copytree(coded, folder)
        if isinstance(content, bytes):
            (folder / "model.safetensors").write_bytes(content)
        else:
            save_file(content, folder / "model.safetensors")
        path = root / "broken.json"
        path.write_text(json.dumps(job_of("broken", folder, root)))
        done = subprocess.run([forge, "run", path], capture_output=True, text=True)
        said = done.stdout + done.stderr
        fine = done.returncode == 5 and says in said and str(folder) in said and not (root / "runs/broken").exists()
        tally.check(f"{what}: refused", fine, f"exit {done.returncode}: {said.strip()[-400:]}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("forge")
    parser.add_argument("--only", nargs="*", default=list(FORMS))
    options = parser.parse_args()
    tally = Tally()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as name:
        for form in options.only:
            check_form(form, Path(name), options.forge, tally)
        if "bnb-nf4" in options.only:
            refusals(Path(name) / "bnb-nf4", Path(name), options.forge, tally)
    tally.end()


if __name__ == "__main__":
    main()
