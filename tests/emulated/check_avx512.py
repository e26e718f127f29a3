# SPDX-License-Identifier: Apache-2.0
"""The AVX-512 kernels give the bits of the AVX2 kernels, on any machine with AVX2: the former run in an emulator.
AVX512_BF16 attention is held to the same tiles with its products written out in AVX2.

Usage: check_avx512.py COMPILER SOURCE_DIR. Exit status 77 (skipped) without the Python package bochscpu-python.
"""
import os
import struct
import subprocess
import sys
import tempfile

import emulator

SKIPPED = 77
AVX512 = ["-march=x86-64-v4"]
PROBES = [("kernel_probe", AVX512), ("attention_probe", AVX512), ("attention_probe", [*AVX512, "-mavx512bf16"])]
FLAGS = ["-std=c++20", "-O3", "-ffp-contract=off"]
FREESTANDING = ["-ffreestanding", "-nostdlib", "-static", "-no-pie", "-fno-pie", "-fno-exceptions", "-fno-rtti",
                "-fno-stack-protector", "-fno-asynchronous-unwind-tables", "-Wno-uninitialized", "-Wl,--build-id=none"]


def build(compiler, source_dir, folder, probe, flags):
    """`probe` is the stem of a source beside this file."""
    program = os.path.join(folder, probe + flags[0])
    source = os.path.join(source_dir, "tests", "emulated", probe + ".cpp")
    includes = ["-I" + os.path.join(source_dir, part) for part in ("src", "tests")]
    subprocess.run([compiler, *FLAGS, *flags, *includes, source, "-o", program], check=True)
    return program


def symbols(program):
    listing = subprocess.run(["nm", program], capture_output=True, text=True, check=True).stdout
    return {words[2]: int(words[0], 16) for words in map(str.split, listing.splitlines()) if len(words) == 3}


def emulated_output(bochscpu, program):
    with open(program, "rb") as file:
        machine = emulator.Emulator(bochscpu, file.read())
    machine.run()
    at = symbols(program)
    size = struct.unpack("<Q", machine.read(at["output_size"], 8))[0]
    return machine.read(at["output"], size)


def differences(one, other):
    """Offsets of differing bytes, but for the sign of NaN: which operand's NaN survives is the compiler's choice."""
    for i, (a, b) in enumerate(zip(one, other)):
        is_nan_sign = {a, b} == {0x7F, 0xFF} and one[i - 1] >= 0x80 and one[i - 1] == other[i - 1]
        if a != b and not is_nan_sign:
            yield i


def check_probe(bochscpu, compiler, source_dir, index):
    probe, isa = PROBES[index]
    wanted = ["bf16"] if "-mavx512bf16" in isa else []
    if wanted:
        emulator.become_sapphire_rapids(bochscpu)
    with tempfile.TemporaryDirectory() as folder:
        native = build(compiler, source_dir, folder, probe, ["-march=x86-64-v3"])
        expected = subprocess.run([native, *wanted], capture_output=True, check=True).stdout
        free = build(compiler, source_dir, folder, probe, [*isa, *FREESTANDING])
        found = emulated_output(bochscpu, free)
    if len(found) != len(expected):
        print(f"{probe}: {len(found)} bytes of results, expected {len(expected)}")
        return 1
    wrong = list(differences(expected, found))
    print(" ".join([probe, *wanted]) + f": {len(expected)} bytes of results compared, {len(wrong)} differ", *wrong[:10])
    return 1 if wrong or not expected else 0


def main():
    compiler, source_dir = sys.argv[1:3]
    bochscpu = emulator.import_bochscpu()
    if bochscpu is None:
        print("skipped: the Python package bochscpu-python is not installed")
        return SKIPPED
    if len(sys.argv) > 3:
        return check_probe(bochscpu, compiler, source_dir, int(sys.argv[3]))
    # A process can hold one emulator.
    commands = [[sys.executable, *sys.argv, str(index)] for index in range(len(PROBES))]
    return max(subprocess.run(command, check=False).returncode for command in commands)


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    os._exit(status)  # the emulator's bindings print about leaks on a normal exit
