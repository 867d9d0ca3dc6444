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


def in_way(name: str, provider: str, commits: int = 3) -> bool:
    """True if the case runs in this way to compute.

    Every case runs by forge's own kernels for this processor; with provider `reference`, or as on a
    lesser processor (FORGE_CPU), about one in `commits` does.
    """
    way = [word for word in (provider, os.environ.get("FORGE_CPU")) if word not in (None, "", "auto", "fused")]
    return not way or in_sample(" ".join([*way, name]), commits)
