"""Counts the results of a script of checks: prints a line for each, and "N passed, N failed" at the
end.
"""
import sys


class Tally:
    def __init__(self) -> None:
        self.passed, self.failures = 0, []

    def check(self, name: str, good: bool, said: str) -> None:
        self.passed += bool(good)
        if not good:
            self.failures.append(name)
        print(f"{'ok  ' if good else 'FAIL'}  {name}: {said}", flush=True)

    def end(self) -> None:
        print(f"{self.passed} passed, {len(self.failures)} failed")
        sys.exit(bool(self.failures))
