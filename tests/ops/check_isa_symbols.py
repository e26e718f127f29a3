# SPDX-License-Identifier: Apache-2.0
"""Code compiled for one instruction set must not be visible under a name that other sources share.

The linker keeps one copy of each inline function or template. Were it the one of a *_avx512.cpp source, a machine
without AVX-512 would crash in code that never asked for it. So every symbol that such an object shows must carry the
instruction set in its name. Usage: check_isa_symbols.py LIBRARY.a
"""
import re
import subprocess
import sys

VISIBLE = "TWVDBRu"


def offences(listing):
    """(object, symbol) for each visible symbol of an instruction set's object that does not name it."""
    isa, current = None, ""
    for line in listing.splitlines():
        member = re.match(r"(\S+)\.o:$", line)
        if member:
            name = re.search(r"_(avx2|avx512|avx512bf16|amx)\.cpp$", member.group(1))
            isa, current = (name.group(1) if name else None), member.group(1)
            continue
        symbol = re.match(r"[0-9a-f]+ ([A-Za-z]) (\S+)$", line)
        if not isa or not symbol or symbol.group(1) not in VISIBLE:
            continue
        # In a mangled name the namespace is followed by E, by the next name's length, or by nothing.
        if not re.search(isa + r"(?:[E0-9_]|$)", symbol.group(2)):
            yield current, symbol.group(2)


def self_test():
    planted = "a_avx2.cpp.o:\n0000 W _ZSt4swapIfEvRT_S1_\n0000 T _ZN9litespark3cpu4avx23runEv\n0000 t local\n"
    assert list(offences(planted)) == [("a_avx2.cpp", "_ZSt4swapIfEvRT_S1_")], "the check finds nothing"


def main():
    self_test()
    listing = subprocess.run(["nm", sys.argv[1]], capture_output=True, text=True, check=True).stdout
    found = list(offences(listing))
    for name, symbol in found:
        print(f"{name}: {symbol} is visible without the instruction set in its name")
    if "_avx2.cpp.o:" not in listing:
        print("no object of an instruction set in", sys.argv[1])
        return 1
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
