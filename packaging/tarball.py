#!/usr/bin/env python3
"""Packs an installed tree, the same bytes for the same tree.

    packaging/tarball.py TREE NAME OUTPUT         prints the path of OUTPUT/NAME.tar.gz, which holds NAME/
"""
import gzip
import os
import sys
import tarfile


def anonymous(entry):
    entry.uid = entry.gid = entry.mtime = 0
    entry.uname = entry.gname = ""
    entry.mode = 0o755 if entry.isdir() or entry.mode & 0o100 else 0o644
    return entry


def main():
    tree, name, output = sys.argv[1:]
    path = os.path.join(output, f"{name}.tar.gz")
    with open(path, "wb") as file, gzip.GzipFile("", "wb", 9, file, mtime=0) as packed:
        with tarfile.open(fileobj=packed, mode="w", format=tarfile.GNU_FORMAT) as archive:
            archive.add(tree, name, filter=anonymous)  # a folder's names come sorted
    print(path)


if __name__ == "__main__":
    main()
