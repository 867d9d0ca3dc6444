#!/usr/bin/env python3
"""Makes the wheel of an installed tree, the same bytes for the same tree.

    packaging/wheel.py TREE VERSION OUTPUT        prints the wheel's path

bin/forge becomes the wheel's script, which installers put into the environment's bin/ as it is;
libexec/ goes to the environment's prefix, where the program finds it. Nothing can be imported.
Sources: PEP 427 (wheels), PEP 639 (licences).
"""
import base64
import hashlib
import os
import sys
import zipfile

import floors

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
METADATA = """Metadata-Version: 2.4
Name: forge-finetune
Version: {version}
Summary: Fine-tunes language models from one declarative file
License-Expression: Apache-2.0 AND BSD-2-Clause AND BSD-3-Clause AND MIT AND Zlib
{licences}Requires-Python: >=3.10
Requires-Dist: torch==2.11.0
Provides-Extra: parquet
Requires-Dist: pyarrow==26.0.1; extra == "parquet"
Classifier: Environment :: Console
Classifier: Operating System :: POSIX :: Linux
Description-Content-Type: text/markdown

{readme}"""
WHEEL = """Wheel-Version: 1.0
Generator: forge packaging/wheel.py
Root-Is-Purelib: false
Tag: py3-none-{tag}
"""


def read(path):
    with open(path, "rb") as file:
        return file.read()


def files_below(folder):
    for parent, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(parent, name)
            yield os.path.relpath(path, folder), path


def members(tree, version, tag):
    """Returns {name in the wheel: (bytes, mode)}, without RECORD."""
    data, info = f"forge_finetune-{version}.data", f"forge_finetune-{version}.dist-info"
    content = {f"{data}/scripts/forge": (read(f"{tree}/bin/forge"), 0o755)}
    for name, path in files_below(f"{tree}/libexec"):
        content[f"{data}/data/libexec/{name}"] = (read(path), os.stat(path).st_mode & 0o755)
    licences = {name: path for name, path in files_below(f"{tree}/share/forge/licenses")}
    licences |= {name: f"{tree}/share/forge/{name}" for name in ("LICENSE", "NOTICE")}
    for name, path in licences.items():
        content[f"{info}/licenses/{name}"] = (read(path), 0o644)
    listed = "".join(f"License-File: {name}\n" for name in sorted(licences))
    readme = read(f"{tree}/share/forge/README.md").decode()
    content[f"{info}/METADATA"] = (METADATA.format(version=version, licences=listed, readme=readme).encode(), 0o644)
    content[f"{info}/WHEEL"] = (WHEEL.format(tag=tag).encode(), 0o644)
    return content, f"{info}/RECORD"


def main():
    tree, version, output = sys.argv[1:]
    tag = floors.platform_tag(floors.floors(tree))
    content, record = members(tree, version, tag)
    lines = ""
    for name, (data, _) in sorted(content.items()):
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        lines += f"{name},sha256={digest},{len(data)}\n"
    content[record] = ((lines + f"{record},,\n").encode(), 0o644)
    path = f"{output}/forge_finetune-{version}-py3-none-{tag}.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        # dist-info goes at the end, RECORD last, as PEP 427 recommends.
        for name, (data, mode) in sorted(content.items(), key=lambda item: (item[0] == record, ".dist-info/" in item[0], item[0])):
            entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.create_system = 3
            entry.external_attr = (0o100000 | mode) << 16
            wheel.writestr(entry, data, compresslevel=9)
    print(path)


if __name__ == "__main__":
    main()
