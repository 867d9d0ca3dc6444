#!/usr/bin/env python3
"""Runs auditwheel's own check of a wheel's platform tag, with its Python: packaging/audit.py WHEEL

Leaves out libraries of LibTorch's packages and of the machine (floors.OUTSIDE), as `auditwheel
repair --exclude` does, and those that the wheel itself carries: auditwheel looks for them at their
place in the wheel, not at their installed place.
"""
import pathlib
import sys
import zipfile

from auditwheel.wheel_abi import analyze_wheel_abi

import floors


def main():
    wheel = pathlib.Path(sys.argv[1])
    outside = frozenset().union(*floors.OUTSIDE.values())
    own = {name.rpartition("/")[2] for name in zipfile.ZipFile(wheel).namelist() if ".so" in name}
    found = analyze_wheel_abi(None, None, wheel, outside | own, disable_isa_ext_check=False, allow_graft=False)
    print(f"{wheel.name}: auditwheel says {found.overall_policy.name}")
    if not wheel.stem.endswith(f"-{found.overall_policy.name}"):
        sys.exit("the wheel's tag is another one")


if __name__ == "__main__":
    main()
