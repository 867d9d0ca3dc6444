"""Writes tiny models of Helium, which only examples/families/helium.yaml describes: tiny-llama's
tensors under its class. Standard library only.

    write_helium("bias", folder)          # plain, tied or bias
"""
import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "fixtures"), str(ROOT / "tests" / "parity")]
from tensors import read_safetensors, write_safetensors  # noqa: E402
from variants import write_variant  # noqa: E402

FAMILY = ROOT / "examples" / "families" / "helium.yaml"
NAMES = {"plain": "base", "tied": "tied", "bias": "bias"}  # the variant of tiny-llama that each is made of
OWN = {"model_type": "helium", "architectures": ["HeliumForCausalLM"], "pretraining_tp": None}


def write_config(folder: Path, changes: dict) -> None:
    path = folder / "config.json"
    config = json.loads(path.read_text()) | changes
    path.write_text(json.dumps({key: value for key, value in config.items() if value is not None}, indent=2) + "\n")


def write_helium(name: str, folder: Path) -> Path:
    write_variant(NAMES[name], folder)
    # Helium's o_proj never has a bias.
    tensors = read_safetensors(folder / "model.safetensors")
    write_safetensors(folder / "model.safetensors", {key: tensor for key, tensor in tensors.items() if not key.endswith("o_proj.bias")})
    write_config(folder, OWN)
    return folder


if __name__ == "__main__":
    for each in NAMES:
        print(write_helium(each, Path(sys.argv[1]) / each))
