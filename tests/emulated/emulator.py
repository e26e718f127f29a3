# SPDX-License-Identifier: Apache-2.0
"""A processor with AVX-512 in software: loads a program without libraries, runs it until `hlt`, reads its memory.

Stands on the Python package bochscpu-python. Its wheel asks for C library symbols newer than Debian 12's; where they
are missing, the process is started again with a small library that has them.
"""
import ctypes
import os
import struct
import subprocess
import sys
import tempfile

SHIM = """
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
unsigned long long __isoc23_strtoull(const char *a, char **b, int c) { return strtoull(a, b, c); }
unsigned long __isoc23_strtoul(const char *a, char **b, int c) { return strtoul(a, b, c); }
long __isoc23_strtol(const char *a, char **b, int c) { return strtol(a, b, c); }
int __isoc23_sscanf(const char *s, const char *f, ...) {
  va_list a; va_start(a, f); int r = vsscanf(s, f, a); va_end(a); return r;
}
"""
PAGE = 4096
STACK_TOP = 0x3F100000
RING0_CODE, RING0_DATA, BUSY_TASK = 0xA09B, 0xC093, 0x8B


def import_bochscpu():
    """The module, or None when the package is not installed."""
    try:
        import bochscpu
        return bochscpu
    except ModuleNotFoundError:
        return None
    except ImportError as error:
        if "__isoc23" not in str(error) or "LD_PRELOAD" in os.environ:
            raise
    folder = tempfile.mkdtemp()
    library = os.path.join(folder, "shim.so")
    with open(os.path.join(folder, "shim.c"), "w", encoding="ascii") as source:
        source.write(SHIM)
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", source.name, "-o", library], check=True)
    os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, "LD_PRELOAD": library})


def become_sapphire_rapids(bochscpu):
    """Gives the processor AVX512_BF16: the package knows the model but always makes an older one. In this process's
    memory only, the functions that make other models are turned into jumps to the one that makes this model."""
    wanted = "_Z28create_sapphire_rapids_cpuidP8BX_CPU_C"
    library = ctypes.CDLL(bochscpu._bochscpu.__file__)
    listing = subprocess.run(["nm", "-D", bochscpu._bochscpu.__file__], capture_output=True, text=True, check=True)
    makers = [line.split()[-1] for line in listing.stdout.splitlines() if line.endswith("_cpuidP8BX_CPU_C")]
    address = {maker: ctypes.cast(getattr(library, maker), ctypes.c_void_p).value for maker in makers}
    jump = b"\x48\xb8" + struct.pack("<Q", address.pop(wanted)) + b"\xff\xe0"  # mov rax, wanted; jmp rax
    for at in address.values():
        if ctypes.CDLL(None).mprotect(ctypes.c_void_p(at & -PAGE), 2 * PAGE, 7) != 0:
            raise OSError("the emulator's code cannot be made writable")
        ctypes.memmove(at, jump, len(jump))


class Emulator:
    def __init__(self, bochscpu, program):
        import bochscpu.cpu
        import bochscpu.memory
        self.bochs = bochscpu
        self.memory = bochscpu.memory
        self.pages = {}
        self.session = bochscpu.Session()
        self.session.missing_page_handler = self.page
        # One GiB mapped to itself in pages of 2 MiB.
        self.write(0x1000, struct.pack("<Q", 0x2003) + bytes(PAGE - 8))
        self.write(0x2000, struct.pack("<Q", 0x3003) + bytes(PAGE - 8))
        self.write(0x3000, b"".join(struct.pack("<Q", (i << 21) | 0x83) for i in range(512)))
        entry = self.load(program)
        self.session.cpu.state = self.start_state(entry)

    def page(self, address):
        address &= ~(PAGE - 1)
        if address not in self.pages:
            self.pages[address] = self.memory.allocate_host_page()
            self.memory.page_insert(address, self.pages[address])

    def pieces(self, address, size):
        while size > 0:
            count = min(size, PAGE - address % PAGE)
            yield address, count
            address, size = address + count, size - count

    def write(self, address, data):
        for at, count in self.pieces(address, len(data)):
            self.page(at)
            self.memory.phy_write(at, list(data[at - address:at - address + count]))

    def read(self, address, size):
        return b"".join(bytes(self.memory.phy_read(at, count)) for at, count in self.pieces(address, size))

    def load(self, elf):
        entry, table = struct.unpack_from("<QQ", elf, 24)
        for i in range(struct.unpack_from("<H", elf, 56)[0]):
            kind, _, offset, address, _, in_file, in_memory, _ = struct.unpack_from("<IIQQQQQQ", elf, table + 56 * i)
            if kind == 1:
                self.write(address, elf[offset:offset + in_file])
                for at, _ in self.pieces(address, in_memory):
                    self.page(at)
        return entry

    def segment(self, selector, attributes):
        segment = self.bochs.Segment()
        segment.present, segment.selector, segment.base = True, selector, 0
        segment.limit, segment.attr = 0xFFFFFFFF, attributes
        return segment

    def start_state(self, entry):
        state = self.bochs.State()
        self.bochs.cpu.set_long_mode(state)
        state.cr0 = (state.cr0 & ~0xC) | 2
        state.cr4 |= 1 << 9 | 1 << 10 | 1 << 18
        state.cr3, state.xcr0, state.mxcsr, state.mxcsr_mask, state.rflags = 0x1000, 0xE7, 0x1F80, 0xFFFF, 2
        state.rip, state.rsp = entry, STACK_TOP - PAGE
        state.cs = self.segment(0x10, RING0_CODE)
        for name in ("ds", "es", "ss", "fs", "gs"):
            setattr(state, name, self.segment(0x18, RING0_DATA))
        state.tr = self.segment(0x40, BUSY_TASK)
        return state

    def run(self):
        """Runs until hlt; raises on a processor exception."""
        failures = []

        def on_exception(session, _, vector, code):
            failures.append(f"exception {vector}, code {code}, at {session.cpu.rip:#x}")
            session.stop()

        hook = self.bochs.Hook()
        hook.exception = on_exception
        hook.hlt = lambda session, _: session.stop()
        self.session.run([hook])
        if failures:
            raise RuntimeError(failures[0])
