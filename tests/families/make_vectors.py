"""Writes the vectors of tests/families/helium.py's models, by scripts/family_vectors.py. Needs torch and
transformers 5.17.0.

    python tests/families/make_vectors.py
"""
import subprocess
import sys
import tempfile
from pathlib import Path

from helium import NAMES, ROOT, write_helium

with tempfile.TemporaryDirectory() as folder:
    for name in NAMES:
        model = write_helium(name, Path(folder) / name)
        out = Path(__file__).resolve().parent / f"helium-{name}.json"
        subprocess.run([sys.executable, ROOT / "scripts" / "family_vectors.py", model, out, "--columns", "48"], check=True)
