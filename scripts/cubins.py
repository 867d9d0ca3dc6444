"""Reads the kernels of an object that nvcc made, like `cuobjdump --dump-resource-usage`, which not
every toolkit has.

    for arch, cubin in cubins_of(path): kernels_of(cubin)

A fat binary is a header (magic, version, own size, size of all) and successive entries, each with a
header of its own (kind 2: a cubin; arch 90: sm_90). A cubin is an ELF file; its section .nv.info
lists attributes of functions: format 4, attribute, size, and for these a symbol and a number.
"""
import struct
from dataclasses import dataclass

FAT_BINARY, CUBIN = 0xBA55ED50, 2
NUMBERS, FRAME_SIZE, REGISTERS = 4, 0x11, 0x2F  # a format, two attributes
SYMBOLS = 2  # a section's type


@dataclass
class Kernel:
    registers: int
    shared: int  # bytes, static
    stack: int  # bytes per thread: indexed arrays and spills


def cubins_of(path):
    data, at = path.read_bytes(), 0
    while (at := data.find(struct.pack("<I", FAT_BINARY), at)) >= 0:
        _, _, header, size = struct.unpack_from("<IHHQ", data, at)
        entry, at = at + header, at + header + size
        while entry < at:
            kind, _, header, size, compressed, _, _, _, arch = struct.unpack_from("<HHIQIIHHI", data, entry)
            if kind == CUBIN:
                if compressed or data[entry + header:entry + header + 4] != b"\x7fELF":
                    raise ValueError(f"{path}: the code for sm_{arch} is compressed")
                yield arch, data[entry + header:entry + header + size]
            entry += header + size


def kernels_of(cubin):
    """Returns {mangled name: Kernel}."""
    (table,) = struct.unpack_from("<Q", cubin, 0x28)
    width, count, names = struct.unpack_from("<HHH", cubin, 0x3A)
    sections = [struct.unpack_from("<IIQQQQIIQQ", cubin, table + i * width) for i in range(count)]

    def text(section, offset):
        begin = sections[section][4] + offset
        return cubin[begin:cubin.index(b"\0", begin)].decode()

    named = {text(names, s[0]): s for s in sections}
    symbols = next(s for s in sections if s[1] == SYMBOLS)
    of_symbol = {}
    _, _, _, _, at, size, *_ = named[".nv.info"]
    end = at + size
    while at < end:
        form, attribute, size = struct.unpack_from("<BBH", cubin, at)
        if form == NUMBERS and attribute in (FRAME_SIZE, REGISTERS):
            symbol, number = struct.unpack_from("<II", cubin, at + 4)
            name = text(symbols[6], struct.unpack_from("<I", cubin, symbols[4] + 24 * symbol)[0])
            of_symbol[name, attribute] = number
        at += 4 + (size if form == NUMBERS else 0)
    kernels = [name.removeprefix(".text.") for name in named if name.startswith(".text.")]
    return {k: Kernel(of_symbol[k, REGISTERS], named[f".nv.shared.{k}"][5] if f".nv.shared.{k}" in named else 0, of_symbol[k, FRAME_SIZE])
            for k in kernels}
