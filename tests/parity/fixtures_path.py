"""Makes tests/fixtures/variants.py importable from this folder: `from fixtures_path import
variants`.
"""
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "fixtures"))
import variants  # noqa: E402, F401
