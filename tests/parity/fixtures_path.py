"""Makes tests/fixtures/variants.py and tests/sample.py importable from this folder: `from
fixtures_path import variants`.
"""
import sys
from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(TESTS / "fixtures"), str(TESTS)]
import sample  # noqa: E402, F401
import variants  # noqa: E402, F401
