"""Writes goldens/stored-NAME.safetensors and stored-NAME-expected.safetensors: matrices as quantisers
store them, and what their own libraries decode.

    python tests/parity/make_stored_goldens.py [--only NAME …]     # needs torch, safetensors and the libraries below

The metadata of a file hold its `quantization_config`. Libraries, installed with --no-deps:
bitsandbytes 0.50.2, compressed-tensors 0.20.1 (with loguru), auto-gptq 0.7.1 and autoawq 0.2.9; of
the last two only the file that decodes is loaded, since the packages need a GPU or an older
transformers. Orders of inputs in compressed-tensors (weight_g_idx), which 0.20 has no more, are
decoded by the layout that 0.9 documents.
"""
import argparse
import importlib.util
import json
from pathlib import Path

import torch
from safetensors.torch import save_file

GOLDENS = Path(__file__).resolve().parent / "goldens"


def random_matrix(out: int, inputs: int, seed: int, dtype=torch.bfloat16) -> torch.Tensor:
    return torch.randn(out, inputs, generator=torch.Generator().manual_seed(seed)).to(dtype)


def random_words(*shape: int, seed: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(-(2**31), 2**31, shape, generator=generator, dtype=torch.int64).to(torch.int32)


def random_scales(*shape: int, seed: int, dtype=torch.float16) -> torch.Tensor:
    return (torch.rand(*shape, generator=torch.Generator().manual_seed(seed)) * 0.02 + 0.001).to(dtype)


def file_of(package: str, path: str):
    """Loads one file of a package without the package."""
    folder = importlib.util.find_spec(package).submodule_search_locations[0]
    spec = importlib.util.spec_from_file_location(Path(path).stem, Path(folder) / path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def decoded_4bit(codes: torch.Tensor, state) -> torch.Tensor:
    """Returns what bitsandbytes' generic definition decodes, which its CUDA kernels follow. Its loop
    for AVX-512 takes the scale of another block where a row is no whole number of blocks."""
    from bitsandbytes.backends.default.ops import _dequantize_4bit_compute
    import bitsandbytes.functional as F

    absmax = state.absmax
    if state.nested:
        absmax = F.dequantize_blockwise(absmax, state.state2) + state.offset
    data = codes.contiguous().view(torch.uint8).reshape(-1)
    return _dequantize_4bit_compute(data, absmax.float(), state.code, state.blocksize, state.shape, state.dtype)


def bitsandbytes_4bit():
    """Returns matrices in nf4 and fp4: nested and not, in blocks of other sizes, with a short last
    block, an odd number of values, and codes under another type."""
    import bitsandbytes.functional as F

    forms = {  # name: (out, in, type, nested, block, dtype, storage)
        "nested": (64, 320, "nf4", True, 64, torch.bfloat16, torch.uint8),
        "plain": (8, 24, "nf4", False, 64, torch.bfloat16, torch.uint8),
        "odd": (5, 13, "nf4", True, 64, torch.float16, torch.uint8),
        "wide": (16, 96, "nf4", False, 128, torch.float32, torch.uint8),
        "fp4": (6, 32, "fp4", False, 64, torch.bfloat16, torch.uint8),
        "fp4-nested": (48, 384, "fp4", True, 64, torch.float32, torch.uint8),
        "stored": (16, 32, "nf4", True, 64, torch.bfloat16, torch.bfloat16)}
    stored, expected = {}, {}
    for seed, (form, (out, inputs, kind, nested, block, dtype, storage)) in enumerate(forms.items()):
        codes, state = F.quantize_4bit(random_matrix(out, inputs, seed, dtype), quant_type=kind, blocksize=block,
                                       compress_statistics=nested, quant_storage=storage)
        name = f"{form}.weight"
        stored[name] = codes
        stored |= {f"{name}.{part}": tensor for part, tensor in state.as_dict(packed=True).items()}
        expected[name] = decoded_4bit(codes, state).float()
    stored["norm.weight"] = expected["norm.weight"] = torch.randn(5, generator=torch.Generator().manual_seed(9))
    return {"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_quant_type": "nf4",
            "bnb_4bit_use_double_quant": True}, stored, expected


def bitsandbytes_8bit():
    import bitsandbytes.functional as F

    stored, expected = {}, {}
    for seed, (form, with_format) in enumerate({"q": True, "k": False}.items()):
        codes, scales, _ = F.int8_vectorwise_quant(random_matrix(12, 40, seed, torch.float16))
        stored |= {f"{form}.weight": codes, f"{form}.SCB": scales}
        if with_format:
            stored[f"{form}.weight_format"] = torch.tensor(0, dtype=torch.uint8)
        expected[f"{form}.weight"] = F.int8_vectorwise_dequant(codes, scales).float()
    return {"quant_method": "bitsandbytes", "load_in_8bit": True}, stored, expected


def fp8():
    """Returns fp8 in blocks with cut edges, of other sizes than a power of two."""
    rows, columns, block = 50, 70, (24, 32)
    matrix = random_matrix(rows, columns, 3, torch.float32).to(torch.float8_e4m3fn)
    scales = torch.rand(-(-rows // block[0]), -(-columns // block[1]), generator=torch.Generator().manual_seed(4)) + 0.01
    each = scales.repeat_interleave(block[0], 0)[:rows].repeat_interleave(block[1], 1)[:, :columns]
    stored = {"q.weight": matrix, "q.weight_scale_inv": scales, "q.input_scale": torch.ones(1)}
    return {"quant_method": "fp8", "weight_block_size": list(block), "activation_scheme": "dynamic",
            "fmt": "e4m3"}, stored, {"q.weight": matrix.float() * each}


def compressed_matrix(weight: torch.Tensor, arguments: dict, packed: bool):
    """Returns a matrix's tensors by compressed-tensors, and what it decodes them to."""
    from compressed_tensors.compressors import BaseCompressor
    from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme
    from compressed_tensors.quantization.utils import calculate_qparams

    args = QuantizationArgs(**arguments)
    scheme = QuantizationScheme(targets=["Linear"], weights=args)
    if args.strategy == "group":
        pieces = weight.unflatten(-1, (-1, args.group_size))
        low, high = pieces.amin(-1), pieces.amax(-1)
    elif args.strategy == "channel":
        low, high = weight.amin(-1, keepdim=True), weight.amax(-1, keepdim=True)
    elif args.strategy == "block":
        a, b = args.block_structure
        pieces = torch.nn.functional.pad(weight, (0, -weight.shape[1] % b, 0, -weight.shape[0] % a))
        pieces = pieces.unflatten(0, (-1, a)).unflatten(-1, (-1, b))
        low, high = pieces.amin((1, 3)), pieces.amax((1, 3))
    else:
        low, high = weight.min().reshape(1), weight.max().reshape(1)
    scale, zero = calculate_qparams(low, high, args)
    state = {"weight": weight, "weight_scale": scale}
    if not args.symmetric:
        state["weight_zero_point"] = zero
    compressor = BaseCompressor.get_value_from_registry("pack-quantized" if packed else "naive-quantized")
    held = compressor.compress(state, scheme)
    decoded = compressor.decompress(dict(held), scheme)["weight"]
    return held, decoded.float()


COMPRESSED = {  # name: (arguments, packed)
    "w4-groups": ({"num_bits": 4, "strategy": "group", "group_size": 32}, True),
    "w4-asymmetric": ({"num_bits": 4, "strategy": "group", "group_size": 16, "symmetric": False}, True),
    "w3-rows": ({"num_bits": 3, "strategy": "channel"}, True),
    "w8-rows-asymmetric": ({"num_bits": 8, "strategy": "channel", "symmetric": False}, True),
    "int8-rows": ({"num_bits": 8, "strategy": "channel"}, False),
    "int8-tensor-asymmetric": ({"num_bits": 8, "strategy": "tensor", "symmetric": False}, False),
    "fp8-rows": ({"num_bits": 8, "type": "float", "strategy": "channel"}, False),
    "fp8-tensor": ({"num_bits": 8, "type": "float", "strategy": "tensor"}, False),
    "fp8-blocks": ({"num_bits": 8, "type": "float", "strategy": "block", "block_structure": [20, 32]}, False)}


def compressed_tensors():
    stored, expected, groups = {}, {}, {}
    for number, (form, (arguments, packed)) in enumerate(COMPRESSED.items()):
        held, decoded = compressed_matrix(random_matrix(48, 96, number), arguments, packed)
        stored |= {f"{form}.{part}": tensor.contiguous() for part, tensor in held.items()}
        expected[f"{form}.weight"] = decoded
        groups[f"group_{number}"] = {"targets": [f"re:{form}"], "weights": arguments, "input_activations": None}
    # Inputs in another order: group g_idx[k] for input k.
    held, _ = compressed_matrix(random_matrix(48, 96, 99), COMPRESSED["w4-groups"][0], True)
    order = torch.randperm(96, generator=torch.Generator().manual_seed(7)) // 32
    codes = torch.stack([(held["weight_packed"] >> shift) & 15 for shift in range(0, 32, 4)], -1).flatten(1)
    stored |= {f"ordered.{part}": tensor.clone() for part, tensor in held.items()}
    stored["ordered.weight_g_idx"] = order.to(torch.int32)
    scale = held["weight_scale"]
    expected["ordered.weight"] = ((codes - 8).to(scale.dtype) * scale[:, order]).float()
    return {"quant_method": "compressed-tensors", "format": "mixed-precision", "quantization_status": "compressed",
            "ignore": ["lm_head", "re:.*norm"], "config_groups": groups}, stored, expected


def nvfp4(modelopt: bool):
    """Returns matrices in nvfp4 as compressed-tensors holds them, decoded by it; or the same under
    ModelOpt's names, whose scale of all is the inverse (its NVFP4QTensor)."""
    from compressed_tensors.compressors import BaseCompressor
    from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme

    args = QuantizationArgs(num_bits=4, type="float", strategy="tensor_group", group_size=16, symmetric=True)
    scheme = QuantizationScheme(targets=["Linear"], weights=args)
    compressor = BaseCompressor.get_value_from_registry("nvfp4-pack-quantized")
    stored, expected = {}, {}
    for seed, (form, shape) in enumerate({"q": (12, 64), "k": (5, 16)}.items()):
        weight = random_matrix(*shape, seed)
        groups = weight.float().unflatten(-1, (-1, 16)).abs().amax(-1)
        of_all = (6 * 448 / groups.max()).reshape(1)
        scale = (groups / 6 * of_all).to(torch.float8_e4m3fn)
        held = compressor.compress({"weight": weight, "weight_scale": scale.to(torch.bfloat16), "weight_global_scale": of_all}, scheme)
        if modelopt:
            inverse = (1 / of_all).reshape(())
            each = (held["weight_scale"].float() * inverse).repeat_interleave(16, 1)
            from compressed_tensors.compressors.nvfp4.helpers import unpack_fp4_from_uint8
            values = unpack_fp4_from_uint8(held["weight_packed"], shape[0], shape[1], torch.float32)
            stored |= {f"{form}.weight": held["weight_packed"], f"{form}.weight_scale": held["weight_scale"], f"{form}.weight_scale_2": inverse,
                       f"{form}.input_scale": torch.tensor(0.5)}
            expected[f"{form}.weight"] = (values * each).to(torch.bfloat16).float()
        else:
            stored |= {f"{form}.{part}": tensor for part, tensor in held.items()} | {f"{form}.input_global_scale": torch.ones(1)}
            expected[f"{form}.weight"] = compressor.decompress(dict(held), scheme)["weight"].float()
    weights = {"num_bits": 4, "type": "float", "strategy": "tensor_group", "group_size": 16, "symmetric": True, "dynamic": False}
    groups = {"group_0": {"targets": ["Linear"], "weights": weights, "input_activations": None}}
    if modelopt:
        return {"quant_method": "modelopt", "quant_algo": "NVFP4", "config_groups": groups, "ignore": ["lm_head"],
                "producer": {"name": "modelopt", "version": "0.33"}}, stored, expected
    return {"quant_method": "compressed-tensors", "format": "nvfp4-pack-quantized", "quantization_status": "compressed", "ignore": ["lm_head"],
            "config_groups": groups}, stored, expected


def gptq(bits: int, version: int):
    """Returns matrices of GPTQ, decoded by auto-gptq's layer: the product with the identity."""
    inputs, out, group = 96, 64, 32
    layer = file_of("auto_gptq", "nn_modules/qlinear/qlinear_cuda.py").QuantLinear(bits, group, inputs, out, False)
    stored, expected = {}, {}
    for number, form in enumerate(("in-order", "ordered")):
        layer.qweight = random_words(inputs * bits // 32, out, seed=10 * bits + number)
        layer.qzeros = random_words(inputs // group, out * bits // 32, seed=20 * bits + number)
        layer.scales = random_scales(inputs // group, out, seed=number)
        order = torch.arange(inputs) // group
        if form == "ordered":
            order = order[torch.randperm(inputs, generator=torch.Generator().manual_seed(bits))]
        layer.g_idx = order.to(torch.int32)
        parts = {"qweight": layer.qweight, "qzeros": layer.qzeros, "scales": layer.scales, "g_idx": layer.g_idx}
        stored |= {f"{form}.{part}": tensor.clone() for part, tensor in parts.items()}
        weight = layer(torch.eye(inputs, dtype=torch.float16))
        if version == 2:  # zero points are as they are stored: one scale more
            weight = decoded_v2(layer, bits)
        expected[f"{form}.weight"] = weight.t().contiguous().float()
    return {"quant_method": "gptq", "bits": bits, "group_size": group, "desc_act": True, "sym": False,
            "checkpoint_format": "gptq" if version == 1 else "gptq_v2"}, stored, expected


def bit_stream(words: torch.Tensor, bits: int) -> torch.Tensor:
    """Returns the codes of lines of words [lines, words]: code i is bits [i·b, i·b + b)."""
    every = (words.to(torch.int64)[:, :, None] >> torch.arange(32)) & 1
    codes = every.flatten(1).unflatten(1, (-1, bits)) << torch.arange(bits)
    return codes.sum(-1)


def decoded_v2(layer, bits: int) -> torch.Tensor:
    codes = bit_stream(layer.qweight.t(), bits).t()
    zeros = bit_stream(layer.qzeros, bits)
    order = layer.g_idx.long()
    return layer.scales[order] * (codes - zeros[order])


def awq():
    decode = file_of("awq", "utils/packing_utils.py").dequantize_gemm
    inputs, out, group = 64, 48, 32
    stored, expected = {}, {}
    for number, form in enumerate(("q", "k")):
        parts = {"qweight": random_words(inputs, out // 8, seed=number),
                 "qzeros": random_words(inputs // group, out // 8, seed=number + 5),
                 "scales": random_scales(inputs // group, out, seed=number)}
        stored |= {f"{form}.{part}": tensor for part, tensor in parts.items()}
        expected[f"{form}.weight"] = decode(**parts, bits=4, group_size=group).t().contiguous().float()
    return {"quant_method": "awq", "bits": 4, "group_size": group, "zero_point": True, "version": "gemm"}, stored, expected


def gguf_mxfp4() -> None:
    """Writes tests/io/goldens/mxfp4.safetensors: values, their blocks, and blocks of any bytes, by gguf-py."""
    import numpy as np
    from gguf import GGMLQuantizationType, quants
    from safetensors.numpy import save_file as save

    rng = np.random.default_rng(5)
    values = (rng.normal(size=(24, 64)) * np.exp2(rng.integers(-40, 40, size=(24, 1)))).astype(np.float32)
    values[3] = 0
    encoded = quants.quantize(values, GGMLQuantizationType.MXFP4)
    anything = rng.integers(0, 256, size=(16, 34), dtype=np.uint8)
    anything[:, ::17] = np.minimum(anything[:, ::17], 250)
    anything[0, 0], anything[1, 0] = 0, 1
    decode = lambda data: quants.dequantize(data, GGMLQuantizationType.MXFP4)
    save({"values": values, "bytes": encoded, "decoded": decode(encoded), "any_bytes": anything, "any_decoded": decode(anything)},
         GOLDENS.parents[1] / "io/goldens/mxfp4.safetensors")


FORMS = {"bnb-4bit": bitsandbytes_4bit, "bnb-8bit": bitsandbytes_8bit, "fp8": fp8,
         "compressed-tensors": compressed_tensors, "awq": awq,
         **{f"gptq-{bits}": lambda bits=bits: gptq(bits, 1) for bits in (2, 3, 4, 8)},
         "gptq-v2": lambda: gptq(4, 2), "nvfp4": lambda: nvfp4(False), "nvfp4-modelopt": lambda: nvfp4(True)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", default=[*FORMS, "gguf-mxfp4"])
    for name in parser.parse_args().only:
        if name == "gguf-mxfp4":
            gguf_mxfp4()
            continue
        config, stored, expected = FORMS[name]()
        metadata = {"quantization_config": json.dumps(config)}
        save_file({key: value.contiguous() for key, value in stored.items()}, GOLDENS / f"stored-{name}.safetensors", metadata)
        save_file({key: value.contiguous() for key, value in expected.items()},
                  GOLDENS / f"stored-{name}-expected.safetensors")
        print(f"{name}: {len(expected)} tensors")


if __name__ == "__main__":
    main()
