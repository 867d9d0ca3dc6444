"""Runs long sets of cases in parts: FORGE_TEST_SAMPLE=<a commit's name> runs some of them, other
ones for every commit.

Without it, as with scripts/test.sh --all, all run. tests/sample.h does the same for sets in C++.
"""
import hashlib
import os


def in_sample(name: str, commits: int) -> bool:
    """True if the case runs: about one in `commits` commits runs it."""
    sample = os.environ.get("FORGE_TEST_SAMPLE")
    return not sample or int(hashlib.sha256(f"{sample}\n{name}".encode()).hexdigest(), 16) % commits == 0
