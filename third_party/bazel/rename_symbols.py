"""Renames functions that a shared library calls but does not define.

  rename_symbols.py LIBRARY.so OLD_=NEW_ [OLD_=NEW_ ...]

Every undefined symbol that begins with OLD_ is to begin with NEW_, which has the same length,
so that nothing moves in the file (ELF, 64 bits, little-endian). Whoever links the library then
provides these functions, and other users of the old names in the same process are left alone.
"""

import struct
import sys

SECTION = struct.Struct("<IIQQQQIIQQ")  # Elf64_Shdr
SYMBOL = struct.Struct("<IBBHQQ")  # Elf64_Sym
DYNSYM = 11  # SHT_DYNSYM


def sections(data):
    if data[:6] != b"\x7fELF\x02\x01":
        sys.exit("rename_symbols: not a 64-bit little-endian ELF file")
    offset, = struct.unpack_from("<Q", data, 0x28)
    size, count = struct.unpack_from("<HH", data, 0x3A)
    return [SECTION.unpack_from(data, offset + i * size) for i in range(count)]


def rename(data, renames):
    """Changes `data`, a bytearray; gives the new names."""
    headers = sections(data)
    symbols = next(s for s in headers if s[1] == DYNSYM)
    strings = headers[symbols[6]][4]  # where the names begin
    names = []
    for at in range(symbols[4], symbols[4] + symbols[5], SYMBOL.size):
        name, _, _, section, _, _ = SYMBOL.unpack_from(data, at)
        names.append((strings + name, section == 0))
    changed = {}
    for begin, undefined in names:
        for old, new in renames:
            if undefined and data.startswith(old, begin):
                data[begin:begin + len(old)] = new
                changed[begin] = data[begin:data.index(0, begin)].decode()
    # Names may share their ends: none may begin within what was changed.
    longest = max(len(old) for old, _ in renames)
    for begin, _ in names:
        if any(0 < begin - c < longest for c in changed):
            sys.exit("rename_symbols: another name lies within a renamed one")
    return sorted(changed.values())


def main():
    path, renames = sys.argv[1], [tuple(r.encode().split(b"=")) for r in sys.argv[2:]]
    if not renames or any(len(old) != len(new) for old, new in renames):
        sys.exit("rename_symbols: OLD_=NEW_ of the same length")
    with open(path, "rb") as f:
        data = bytearray(f.read())
    if not rename(data, renames):
        sys.exit("rename_symbols: %s has no such symbol" % path)
    with open(path, "wb") as f:
        f.write(data)


if __name__ == "__main__":
    main()
